package validation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	h200   = "NVIDIA-H200"
	slice7 = "NVIDIA-H200/mig-1g.18gb-mixed"
)

type change = func(*v1alpha1.CardQuota)

// newTreeQuota returns a CardQuota of a tree; a parent has no service type. Each card is "name quota deserved guarantee",
// where - leaves an amount out.
func newTreeQuota(name, parent, serviceType string, cards []string, changes ...change) *v1alpha1.CardQuota {
	b := builder.CardQuota(name).Tenant(name).ServiceType(serviceType)
	b.With(func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{}
		q.Spec.Parent = parent
		q.Spec.Cards = nil

		for _, text := range cards {
			words := strings.Fields(text)
			c := v1alpha1.Card{Name: words[0]}
			for i, into := range []**int64{&c.Quota, &c.Deserved, &c.Guarantee} {
				var n int64
				if i+1 < len(words) && words[i+1] != "-" {
					if _, err := fmt.Sscan(words[i+1], &n); err != nil {
						panic(err)
					}
					*into = &n
				}
			}

			q.Spec.Cards = append(q.Spec.Cards, c)
		}
	})

	for _, change := range changes {
		b.With(change)
	}

	return b.Obj()
}

func withCPU(limit, deserved, guarantee string) change {
	return func(q *v1alpha1.CardQuota) {
		amount := func(text string) *v1alpha1.ResourceAmounts {
			if text == "" {
				return nil
			}
			return &v1alpha1.ResourceAmounts{CPU: ptr.To(resource.MustParse(text))}
		}

		q.Spec.Resources = &v1alpha1.Resources{Deserved: amount(deserved), Guarantee: amount(guarantee)}
		if limit != "" {
			q.Spec.Resources.CPU = ptr.To(resource.MustParse(limit))
		}
	}
}

func selectingTeam(name string) change {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
}

func withPriority(n int32) change { return func(q *v1alpha1.CardQuota) { q.Spec.Priority = &n } }

func withServiceType(name string) change {
	return func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = name }
}

func withQueue(name string) change {
	return func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name }
}

// deserving changes how many of its first card a queue deserves.
func deserving(n int64) change { return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = &n } }

func setNoSelector(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = nil }

// setProject is any other change.
func setProject(q *v1alpha1.CardQuota) { q.Spec.Project = "p" }

func setDeleting(q *v1alpha1.CardQuota) {
	q.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
}

var (
	treePolicy = &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: v1alpha1.QueueHierarchyTree}}
	flatPolicy = &v1alpha1.ServiceTypePolicy{}
)

// newChat returns the parent chat with a quota of 8 H200, of which it deserves 6 and is guaranteed 2. newSearch returns its
// child search, which deserves 4 and is guaranteed 1. newAds returns its child ads with a card.
func newChat(changes ...change) *v1alpha1.CardQuota {
	return newTreeQuota("chat", "", "", []string{h200 + " 8 6 2"}, changes...)
}

func newSearch(changes ...change) *v1alpha1.CardQuota {
	return newTreeQuota("search", "chat", "inference", []string{h200 + " 8 4 1"}, changes...)
}

func newAds(cards string, changes ...change) *v1alpha1.CardQuota {
	return newTreeQuota("ads", "chat", "training", []string{cards}, changes...)
}

// chain returns q1 at the top level, q2 below it and so on.
func chain(n int) (all []*v1alpha1.CardQuota) {
	parent := ""
	for i := range n {
		name := fmt.Sprint("q", i+1)
		all = append(all, newTreeQuota(name, parent, "", nil))
		parent = name
	}
	return all
}

func newQueueWithPods(name string, pods string) []*v1beta1.Queue {
	return []*v1beta1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1beta1.QueueStatus{Allocated: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}}}}
}

type quotas = []*v1alpha1.CardQuota

// TestCardQuotaMustFitItsTree: in a tree a child has at most the quota of its parent. All children together
// deserve at most what the parent deserves; the same is true for guarantees. The webhook refuses a CardQuota
// that breaks this, and a change only for what it makes worse. An existing parent may be lowered: the webhook
// only warns of the children that this cuts. A parent has no service type and takes no work. Parents and
// children may be created in any order. Unless a row says otherwise, parent chat has 8 H200 (deserved 6,
// guaranteed 2). newSearch and newAds are its children; search has 8 H200, deserves 4 and is guaranteed 1.
// newTreeQuota takes name, parent, service type and cards. Cards are written "name quota deserved guarantee",
// and a quota of "-" is inherited; withCPU has these three amounts of CPU. all are the CardQuotas that exist
// before. chain(n) are q1 to qn, each the parent of the next.
func TestCardQuotaMustFitItsTree(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, before            *v1alpha1.CardQuota
		all                      quotas
		queues                   []*v1beta1.Queue
		wantRefusal, wantWarning string
	}{
		"a child of an existing parent": {quota: newSearch(), all: quotas{newChat()}},
		"a parent, before its children": {
			quota:       newChat(),
			wantWarning: "spec.serviceType: is not set, so this is a parent: no job starts in queue chat itself, only in those of CardQuotas that name chat as parent",
		},
		"a parent, after its child": {quota: newChat(), all: quotas{newSearch()}},
		"a child, before its parent": {
			quota:       newSearch(),
			wantWarning: "spec.parent: there is no CardQuota chat yet: queue search is created once it exists",
		},
		"a child of a parent that is being deleted": {
			quota:       newSearch(),
			all:         quotas{newChat(setDeleting)},
			wantWarning: "spec.parent: CardQuota chat is being deleted, and waits until this one is gone",
		},
		"a leaf without a parent, which needs no deserved": {quota: newTreeQuota("a", "", "training", []string{h200 + " 8"})},
		"a child without a service type": {
			quota:       newTreeQuota("a", "chat", "", []string{h200 + " 1 1"}),
			all:         quotas{newChat()},
			wantWarning: "spec.serviceType: is not set, so this is a parent",
		},

		"three CardQuotas that name each other: refused": {
			quota:       newTreeQuota("a", "c", "", nil),
			all:         quotas{newTreeQuota("b", "a", "", nil), newTreeQuota("c", "b", "", nil)},
			wantRefusal: "spec.parent: Forbidden: the parents form a cycle: a names c names b names a again",
		},
		"a child of two CardQuotas that name each other: refused": {
			quota:       newTreeQuota("a", "b", "training", nil),
			all:         quotas{newTreeQuota("b", "c", "", nil), newTreeQuota("c", "b", "", nil)},
			wantRefusal: "spec.parent: Forbidden: the parents form a cycle: a names b names c names b again",
		},
		"the sixth level": {quota: newTreeQuota("q6", "q5", "training", nil), all: chain(5)},
		"the seventh level: refused": {
			quota:       newTreeQuota("q7", "q6", "training", nil),
			all:         chain(6),
			wantRefusal: "spec.parent: Forbidden: q1 > q2 > q3 > q4 > q5 > q6 > q7 would be 7 levels below the root, and at most 6 are possible",
		},
		"a parent with five levels below it moves one level down: refused": {
			quota:       newTreeQuota("q1", "top", "", nil),
			before:      newTreeQuota("q1", "", "", nil),
			all:         append(chain(6), newTreeQuota("top", "", "", nil)),
			wantRefusal: "top > q1 > q2 > q3 > q4 > q5 > q6 would be 7 levels below the root",
		},

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

		"CPU within that of the parent": {
			quota: newAds(h200+" 1 1", withCPU("4", "2", "1500m")),
			all:   quotas{newChat(withCPU("8", "2", "2"))},
		},
		"CPU, the parent has none: refused": {
			quota:       newAds(h200+" 1 1", withCPU("4", "4", "")),
			all:         quotas{newChat()},
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

		"a parent with a service type: refused": {
			quota:       newChat(withServiceType("training")),
			all:         quotas{newSearch()},
			wantRefusal: "spec.serviceType: Forbidden: it is the parent of search, and only leaves take jobs",
		},
		"a child of a CardQuota with a service type: refused": {
			quota:       newAds(h200 + " 2 2"),
			all:         quotas{newChat(withServiceType("training"))},
			wantRefusal: "spec.parent: Forbidden: CardQuota chat has serviceType training and takes jobs, but a parent takes none: remove serviceType there first",
		},
		"the first child of a queue with 3 pods: refused": {
			quota:       newSearch(),
			all:         quotas{newChat()},
			queues:      newQueueWithPods("chat", "3"),
			wantRefusal: "spec.parent: Forbidden: queue chat of CardQuota chat has 3 pods, and a queue with pods cannot become a parent",
		},
		"the second child of a queue with 3 pods, which is a parent already": {
			quota:  newAds(h200 + " 2 2"),
			all:    quotas{newChat(), newSearch()},
			queues: newQueueWithPods("chat", "3"),
		},
		"priority 9999 of type training with 20,000, below type inference with 80,000": {
			quota: newTreeQuota("a", "", "training", []string{h200 + " 8"}, withPriority(9999)),
		},
		"no namespace has the labels of both child and parent": {
			quota:       newAds(h200+" 2 2", selectingTeam("ads")),
			all:         quotas{newChat(selectingTeam("chat"))},
			wantWarning: "spec.namespaceSelector: no namespace can use queue ads: it needs label team=ads, and chat above it needs team=chat",
		},
		"no selector, the parent has one": {
			quota: newAds(h200+" 2 2", setNoSelector),
			all:   quotas{newChat(selectingTeam("chat"))},
		},
		"no selector, the parent selects every namespace": {
			quota:       newAds(h200+" 2 2", setNoSelector),
			all:         quotas{newChat()},
			wantWarning: "spec.namespaceSelector: is not set",
		},
		"a priority of a parent": {
			quota:       newChat(withPriority(3)),
			all:         quotas{newSearch()},
			wantWarning: "spec.priority: has no effect on a parent",
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
		"another change of a parent with a service type": {
			quota:       newChat(withServiceType("training"), setProject),
			before:      newChat(withServiceType("training")),
			all:         quotas{newSearch()},
			wantWarning: "as before: spec.serviceType",
		},
		"an invalid child that is being deleted: not validated": {
			quota:  newAds(h200+" 99 99", setDeleting),
			before: newAds(h200 + " 9 9"),
			all:    quotas{newChat()},
		},
	}) {
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: treePolicy, Queues: tc.queues, Healthy: map[card.Name]card.Count{h200: 16, slice7: 7, "NVIDIA-H800": 8}}), tc.wantRefusal, tc.wantWarning)
	}
}

// TestTheOrderOfCreationDoesNotMatter: users apply a directory of CardQuotas in any order. Of three CardQuotas that
// do not fit together, at least one is refused in every order. Of three that fit, none is refused in any order.
// Parent chat has 8 H200, deserves 6 and is guaranteed 2; its child search deserves 4 and is guaranteed 1. Child ads
// has the cards of the row, written "name quota deserved guarantee". newTreeQuota takes name, parent, service type, cards.
func TestTheOrderOfCreationDoesNotMatter(t *testing.T) {
	for name, tc := range map[string]struct {
		quotas  quotas
		refused bool
	}{
		"valid: all are accepted":                       {quotas{newChat(), newSearch(), newAds(h200 + " 8 2 1")}, false},
		"a child of 9, the parent has 8: refused":       {quotas{newChat(), newSearch(), newAds(h200 + " 9 2 1")}, true},
		"children deserve 4 + 3, the parent 6: refused": {quotas{newChat(), newSearch(), newAds(h200 + " 8 3 1")}, true},
		"three CardQuotas that name each other: refused": {
			quotas:  quotas{newTreeQuota("a", "b", "", nil), newTreeQuota("b", "c", "", nil), newTreeQuota("c", "a", "", nil)},
			refused: true,
		},
		"a parent with a service type: refused": {
			quotas:  quotas{newChat(withServiceType("training")), newSearch(), newAds(h200 + " 8 2 1")},
			refused: true,
		},
		"a grandchild of 9 below an inherited quota of 8: refused": {
			quotas:  quotas{newChat(), newTreeQuota("search", "chat", "", []string{h200 + " - 4"}), newTreeQuota("x", "search", "training", []string{h200 + " 9 4"})},
			refused: true,
		},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var all quotas
			refused := false
			for _, i := range order {
				result := ValidateCardQuota(tc.quotas[i], nil, CardQuotaInput{All: all, Policy: treePolicy, Healthy: map[card.Name]card.Count{h200: 16}})
				refused = refused || len(result.Errors) > 0
				all = append(all, tc.quotas[i]) // even if it was refused
			}

			check.That(t, refused == tc.refused, "%s in order %v: refused %v, want %v", name, order, refused, tc.refused)
		}
	}
}

// TestFieldsOfATreeHaveNoEffectWhileQueuesAreFlat: while the policy says that queues are flat, the webhook warns of
// fields that only a tree uses: parent, deserved and guarantee. What only a tree allows is refused: a card without a
// quota, and a CardQuota without a service type. A fault from before the change gets only a warning. newTreeQuota takes
// name, parent, service type and cards. Cards are written "name quota deserved guarantee"; "-" is no quota.
func TestFieldsOfATreeHaveNoEffectWhileQueuesAreFlat(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, before            *v1alpha1.CardQuota
		all                      quotas
		wantRefusal, wantWarning string
	}{
		"a parent, deserved and guarantee": {
			quota:       newSearch(),
			wantWarning: "spec: parent, cards[].deserved, cards[].guarantee: unused while queueHierarchy of the ServiceTypePolicy is Flat; set it to Tree",
		},
		"a quota of 9, the parent's is 8: only the unused parent is warned of": {
			quota:       newAds(h200 + " 9"),
			all:         quotas{newChat()},
			wantWarning: "spec: parent: unused",
		},
		"a card without a quota: refused": {
			quota:       newTreeQuota("a", "", "training", []string{h200 + " - 2"}),
			wantRefusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is not set: only a child in a tree of quotas inherits one, and queueHierarchy of the ServiceTypePolicy is Flat: write it",
			wantWarning: "unused",
		},
		"no service type: refused": {
			quota:       newTreeQuota("a", "", "", []string{h200 + " 2"}),
			wantRefusal: "spec.serviceType: Forbidden: is not set: only a parent in a tree of quotas has none",
		},
		"another change, no service type before": {
			quota:       newTreeQuota("a", "", "", []string{h200 + " 3"}),
			before:      newTreeQuota("a", "", "", []string{h200 + " 2"}),
			wantWarning: "as before: spec.serviceType",
		},
		"the service type is removed: refused": {
			quota:       newTreeQuota("a", "", "", []string{h200 + " 2"}),
			before:      newTreeQuota("a", "", "training", []string{h200 + " 2"}),
			wantRefusal: "spec.serviceType",
		},
	}) {
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: flatPolicy, Healthy: map[card.Name]card.Count{h200: 16}}), tc.wantRefusal, tc.wantWarning)
	}
}

// TestPriorityOfACardQuotaStaysBelowTheNextServiceType: the priority of a queue is that of its service type plus that
// of its CardQuota. Type low has priority 100, type high 105, and the built-in type training 20,000. So a CardQuota of
// type low may write at most 4: with 5 its queue would be among those of the next type. A change is refused only if it
// makes that worse. The cards of all rows are 2 H200.
func TestPriorityOfACardQuotaStaysBelowTheNextServiceType(t *testing.T) {
	policy := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "low", Priority: 100}, {Name: "high", Priority: 105}}}}
	low := func(changes ...change) *v1alpha1.CardQuota {
		return newTreeQuota("a", "", "low", []string{h200 + " 2"}, changes...)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, before            *v1alpha1.CardQuota
		wantRefusal, wantWarning string
	}{
		"priority 4 of type low, 100 + 4": {quota: low(withPriority(4))},
		"priority 5 of type low, 100 + 5: refused": {
			quota:       low(withPriority(5)),
			wantRefusal: "spec.priority: Forbidden: service type low has priority 100, so its queues may have up to 104, and service type high begins at 105: write at most 4",
		},
		"priority 5 instead of 6": {
			quota:       low(withPriority(5)),
			before:      low(withPriority(6)),
			wantWarning: "as before: spec.priority",
		},
		"priority 7 instead of 6: refused": {
			quota:       low(withPriority(7)),
			before:      low(withPriority(6)),
			wantRefusal: "spec.priority",
		},
		"priority 9999 of type high, 105 + 9999": {quota: newTreeQuota("a", "", "high", []string{h200 + " 2"}, withPriority(9999))},
	}) {
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{Policy: policy, Healthy: map[card.Name]card.Count{h200: 16}}), tc.wantRefusal, tc.wantWarning)
	}
}

// TestOnlyTopLevelQuotasCountAsGranted: the nodes have 8 H200, and parent chat has a quota of 8. What its children
// have is part of that: search with 8, even with overAllocation Deny, and a Queue with 4 that has no CardQuota. A
// further CardQuota at the top level grants a ninth card.
func TestOnlyTopLevelQuotasCountAsGranted(t *testing.T) {
	withOverAllocation := func(policy v1alpha1.OverAllocation) change {
		return func(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = policy }
	}

	withoutCardQuota := builder.Queue("by-hand").Quota(`{"NVIDIA-H200":4}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":0}`).Parent("chat").Obj()
	input := CardQuotaInput{
		All:     quotas{newChat()},
		Policy:  treePolicy,
		Healthy: map[card.Name]card.Count{h200: 8},
		Queues:  []*v1beta1.Queue{withoutCardQuota},
	}

	child := newSearch(withOverAllocation(v1alpha1.OverAllocationDeny))
	checkAnswer(t, ValidateCardQuota(child, nil, input), "", "") // neither a refusal nor a warning
	topLevel := newTreeQuota("a", "", "training", []string{h200 + " 1"}, withOverAllocation(v1alpha1.OverAllocationWarn))
	checkAnswer(t, ValidateCardQuota(topLevel, nil, input), "", "9 granted, 8 healthy, 1 too many (1 here, 8 by chat)")
}

// TestDeletionOfAParentWarnsOfItsChildren: the user who deletes the CardQuota of a parent reads which children it has. The
// operator keeps the queue of the parent until the queues of its children are gone. With deletionPolicy Retain the queue
// stays without an owner. Children that are being deleted too do not count. While queues are flat, there are no parents.
func TestDeletionOfAParentWarnsOfItsChildren(t *testing.T) {
	setRetain := func(q *v1alpha1.CardQuota) { q.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }
	withChildren := quotas{newChat(), newSearch(), newAds(h200 + " 1 1")}
	withDeletedChild := quotas{newChat(), newSearch(setDeleting)}

	for t, tc := range check.Cases(t, map[string]struct {
		quota       *v1alpha1.CardQuota
		all         quotas
		policy      *v1alpha1.ServiceTypePolicy
		wantWarning string
	}{
		"two children": {
			quota: newChat(), all: withChildren, policy: treePolicy,
			wantWarning: "metadata.name: it is the parent of ads, search; queue chat keeps its quota until their queues are gone",
		},
		"two children, deletionPolicy Retain, which leaves the queue without an owner": {
			quota: newChat(setRetain), all: withChildren, policy: treePolicy,
			wantWarning: "without it nothing new starts in them",
		},
		"a child that is being deleted too": {quota: newChat(), all: withDeletedChild, policy: treePolicy},
		"two children, queues are flat":     {quota: newChat(), all: withChildren, policy: flatPolicy},
	}) {
		checkAnswer(t, WarnCardQuotaDeletion(tc.quota, tc.all, tc.policy), "", tc.wantWarning)
	}
}
