package validation

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// TestCardQuotaMustFitItsTree: in a tree a child has at most the quota of its parent. All children together
// deserve at most what the parent deserves; the same is true for guarantees. The webhook refuses a CardQuota
// that breaks this, be it the child or the parent. newChat is parent chat with 8 H200, of which it deserves 6
// and is guaranteed 2. newSearch and newAds are its children; search has 8 H200, deserves 4 and is guaranteed
// 1. newTreeQuota takes name, parent, service type and cards. Cards are written "name quota deserved
// guarantee"; a quota of "-" is inherited. "all" are the CardQuotas that exist before, "queues" Queues
// without one.
func TestCardQuotaMustFitItsTree(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
		"a card that the parent lacks: refused": {
			quota:       newAds("NVIDIA-H800 2 2"),
			all:         quotas{newChat()},
			wantRefusal: "spec.cards[NVIDIA-H800]: Forbidden: parent chat grants no NVIDIA-H800: grant it there first and apply this again, or remove it from ads",
		},
		"a slice of a card of which the parent has whole ones: refused": {
			quota:       newAds(slice7 + " 2 2"),
			all:         quotas{newChat()},
			wantRefusal: "parent chat grants no " + slice7 + " (it grants 8 NVIDIA-H200, but whole cards never cover their slices and shares)",
		},
		"0 of a card that the parent lacks": {quota: newAds("NVIDIA-H800 0 0"), all: quotas{newChat()}},
		"an inherited quota of a card that the parent lacks: refused": {
			quota:       newAds("NVIDIA-H800 - 2"),
			all:         quotas{newChat()},
			wantRefusal: "parent chat grants no NVIDIA-H800",
		},
		"a quota of 9, the parent's is 8: refused": {
			quota:       newAds(h200 + " 9 2"),
			all:         quotas{newChat()},
			wantRefusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is 9, but parent chat has 8: lower it, or raise the parent first and apply this again",
		},
		"deserved 7, the inherited quota is 6: refused": {
			quota:       newAds(h200 + " - 7"),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 6 9"})},
			wantRefusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: is 7, but the quota inherited from parent chat is 6",
		},
		"an inherited quota": {quota: newAds(h200 + " - 2"), all: quotas{newChat(), newSearch()}},
		"a quota of 7, the parent inherits 6: refused": {
			quota:       newTreeQuota("x", "ads", "training", []string{h200 + " 7 1"}),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 6 6"}), newTreeQuota("ads", "chat", "", []string{h200 + " - 2"})},
			wantRefusal: "is 7, but parent ads has 6",
		},
		"a child of a queue whose parent does not exist yet: its numbers are not compared": {
			quota: newTreeQuota("x", "ads", "training", []string{h200 + " 70 70"}),
			all:   quotas{newTreeQuota("ads", "chat", "", []string{h200 + " - 99"})},
		},
		"deserved 3 beside 4 of a sibling, the parent deserves 6: refused": {
			quota:       newAds(h200 + " 8 3"),
			all:         quotas{newChat(), newSearch()},
			wantRefusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: the children of chat have 7 together (3 here, 4 by search), but chat has 6, 1 too many: lower a child, or raise the parent first and apply this again",
		},
		"a guarantee of 2 beside 1 of a sibling, the parent is guaranteed 2: refused": {
			quota:       newAds(h200 + " 8 2 2"),
			all:         quotas{newChat(), newSearch()},
			wantRefusal: "spec.cards[NVIDIA-H200].guarantee: Forbidden: the children of chat have 3 together (2 here, 1 by search), but chat has 2, 1 too many",
		},
		"deserved 3 beside 4 of a Queue without a CardQuota: refused": {
			quota:       newAds(h200 + " 8 3"),
			all:         quotas{newChat()},
			queues:      []*v1beta1.Queue{builder.Queue("by-hand").Quota(`{"NVIDIA-H200":8}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":4}`).Parent("chat").Obj()},
			wantRefusal: "the children of chat have 7 together (3 here, 4 by queue by-hand), but chat has 6, 1 too many",
		},
		"deserved 3 beside a Queue without a CardQuota, whose quota of 3 cuts the 4 that it writes": {
			quota:  newAds(h200 + " 8 3"),
			all:    quotas{newChat()},
			queues: []*v1beta1.Queue{builder.Queue("by-hand").Quota(`{"NVIDIA-H200":3}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":4}`).Parent("chat").Obj()},
		},
		"deserved 3, instead of 6 of a CardQuota for the same queue that is being deleted, but still has a child": {
			quota:       newAds(h200 + " 8 3"),
			all:         quotas{newChat(), newTreeQuota("old-ads", "chat", "training", []string{h200 + " 8 6"}, withQueue("ads"), setDeleting), newTreeQuota("below-old-ads", "old-ads", "training", nil)},
			wantWarning: "spec.queueName: queue ads belongs to CardQuota old-ads until that is deleted",
		},
		"deserved 6 beside a sibling that is being deleted and does not count": {quota: newAds(h200 + " 8 6"), all: quotas{newChat(), newSearch(setDeleting)}},
		"a child's card without deserved: refused": {
			quota:       newAds(h200 + " 2"),
			all:         quotas{newChat()},
			wantRefusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: is not set: in a tree it says how much the queue takes back from others, so write it; 2, its quota, means what it means to a flat queue",
		},
		"no quota and no parent: refused": {
			quota:       newTreeQuota("a", "", "training", []string{h200 + " - 2"}),
			wantRefusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is not set, and there is no parent to inherit it from",
		},
		"a parent of 8 above an existing child of 9: refused": {
			quota:       newChat(),
			all:         quotas{newTreeQuota("search", "chat", "training", []string{h200 + " 9 4"})},
			wantRefusal: "spec.cards[NVIDIA-H200].quota: Forbidden: CardQuota search: is 9, but parent chat has 8",
		},
		"a parent that deserves 6 above existing children that deserve 9: refused": {
			quota:       newChat(),
			all:         quotas{newSearch(), newAds(h200 + " 8 5")},
			wantRefusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: the children of chat have 9 together (5 by ads, 4 by search), but chat has 6, 3 too many",
		},
		"a grandparent of 8 above an existing grandchild of 9: refused": {
			quota:       newChat(),
			all:         quotas{newTreeQuota("search", "chat", "", []string{h200 + " - 1"}), newTreeQuota("x", "search", "training", []string{h200 + " 9 1"})},
			wantRefusal: "CardQuota x: is 9, but parent search has 8",
		},
	})
}

// TestCPUMustFitItsTree: CPU has the rules of cards, but deserved may be left out. Then CPU is only a
// ceiling, which the children need not divide. With a guarantee, deserved that is left out is the quota.
// withCPU takes quota, deserved and guarantee. newSearch and newAds are the children of newChat, and fit into
// it with their cards.
func TestCPUMustFitItsTree(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
		"CPU within that of the parent": {
			quota: newAds(h200+" 1 1", withCPU("4", "2", "1500m")),
			all:   quotas{newChat(withCPU("8", "2", "2"))},
		},
		"CPU, the parent does not limit it": {
			quota: newAds(h200+" 1 1", withCPU("4", "4", "")),
			all:   quotas{newChat()},
		},
		"CPU that is not limited, the parent has 8": {
			quota: newAds(h200 + " 1 1"),
			all:   quotas{newChat(withCPU("8", "", "")), newSearch(withCPU("8", "", ""))},
		},
		"CPU, the parent has 0: refused": {
			quota:       newAds(h200+" 1 1", withCPU("4", "4", "")),
			all:         quotas{newChat(withCPU("0", "", ""))},
			wantRefusal: "spec.resources.cpu: Forbidden: parent chat grants no cpu",
		},
		"8.5 CPU, the parent has 8: refused": {
			quota:       newAds(h200+" 1 1", withCPU("8500m", "1", "")),
			all:         quotas{newChat(withCPU("8", "8", ""))},
			wantRefusal: "spec.resources.cpu: Forbidden: is 8500m, but parent chat has 8",
		},
		"deserved 2 CPU beside 0.5 of a sibling, the parent deserves 2: refused": {
			quota:       newAds(h200+" 1 1", withCPU("4", "2", "")),
			all:         quotas{newChat(withCPU("8", "2", "")), newSearch(withCPU("8", "500m", ""))},
			wantRefusal: "spec.resources.deserved.cpu: Forbidden: the children of chat have 2500m together (2 here, 500m by search), but chat has 2, 500m too many",
		},
		"8 CPU each of two children, without deserved, so only as ceilings": {
			quota: newAds(h200+" 1 1", withCPU("8", "", "")),
			all:   quotas{newChat(withCPU("8", "", "")), newSearch(withCPU("8", "", ""))},
		},
		"8 CPU with a guarantee deserve all 8, beside 1 of a sibling: refused": {
			quota:       newAds(h200+" 1 1", withCPU("8", "", "1")),
			all:         quotas{newChat(withCPU("8", "", "1")), newSearch(withCPU("8", "1", ""))},
			wantRefusal: "spec.resources.deserved.cpu: Forbidden: the children of chat have 9 together (8 here, 1 by search), but chat has 8, 1 too many",
		},
	})
}

// TestChangesOfATreeAreRefusedForWhatTheyMakeWorse: a tree may have a fault from before a change. The webhook
// refuses a CardQuota only for what it makes worse, and warns of the rest. A parent may be lowered below its
// children: the webhook only warns of the children that this cuts. newChat has 8 H200, deserves 6 and is
// guaranteed 2. newSearch, which deserves 4, and newAds are its children. newTreeQuota takes name, parent,
// service type and cards, written "name quota deserved guarantee". setProject changes something else.
func TestChangesOfATreeAreRefusedForWhatTheyMakeWorse(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
		"the parent deserves 3 instead of 6, its child 4": {
			quota:       newTreeQuota("chat", "", "", []string{h200 + " 8 3 1"}),
			before:      newChat(),
			all:         quotas{newSearch()},
			wantWarning: "spec: changes what counts in CardQuota search: NVIDIA-H200: deserved is 4, but parent chat has 3, so 3 is in force",
		},
		"the parent loses the card of its child": {
			quota:       newTreeQuota("chat", "", "", nil),
			before:      newChat(),
			all:         quotas{newSearch()},
			wantWarning: "changes what counts in CardQuota search: NVIDIA-H200: quota is 8, but parent chat grants none, so it is 0",
		},
		"the grandparent deserves 3 instead of 6, and all below deserve 3 already": {
			quota:  newTreeQuota("top", "", "", []string{h200 + " 8 3 1"}),
			before: newTreeQuota("top", "", "", []string{h200 + " 8 6 2"}),
			all:    quotas{newTreeQuota("chat", "top", "", []string{h200 + " 8 3 1"}), newSearch(deserving(3))},
		},
		"another change of a child that deserves 4, its parent deserves 3": {
			quota:       newSearch(setProject),
			before:      newSearch(),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 8 3 2"})},
			wantWarning: "as before: spec.cards[NVIDIA-H200].deserved: Forbidden: the children of chat have 4 together (4 here), but chat has 3, 1 too many",
		},
		"a child deserves 4 instead of 5, its parent deserves 3": {
			quota:       newSearch(),
			before:      newSearch(deserving(5)),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 8 3 2"})},
			wantWarning: "as before: ",
		},
		"a child deserves 5 instead of 4, its parent deserves 3: refused": {
			quota:       newSearch(deserving(5)),
			before:      newSearch(),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 8 3 2"})},
			wantRefusal: "the children of chat have 5 together (5 here), but chat has 3, 2 too many",
		},
		"a new child deserves 0, its sibling deserves 4 already, their parent 3": {
			quota:       newAds(h200 + " 8 0"),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 8 3 2"}), newSearch()},
			wantWarning: "as before: ",
		},
		"a child gets a card of which it deserves 0, its sibling deserves 4 already, their parent 3": {
			quota:       newAds(h200 + " 8 0"),
			before:      newTreeQuota("ads", "chat", "training", nil),
			all:         quotas{newTreeQuota("chat", "", "", []string{h200 + " 8 3 2"}), newSearch()},
			wantWarning: "as before: ",
		},
		"a child that deserves 3 moves to a parent that deserves 6, with a child that deserves 4: refused": {
			quota:       newAds(h200 + " 8 3"),
			before:      newTreeQuota("ads", "other", "training", []string{h200 + " 8 3"}),
			all:         quotas{newChat(), newSearch(), newTreeQuota("other", "", "", []string{h200 + " 8 8"})},
			wantRefusal: "7 together",
		},
		"an invalid child that is being deleted: not validated": {
			quota:  newAds(h200+" 99 99", setDeleting),
			before: newAds(h200 + " 9 9"),
			all:    quotas{newChat()},
		},
	})
}
