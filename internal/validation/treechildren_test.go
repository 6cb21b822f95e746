package validation

import "testing"

// TestParentsAndChildrenMayBeCreatedInAnyOrder: a tree of CardQuotas has parents, which have no service type,
// and leaves. The webhook accepts a child before its parent and a parent before its children, and warns of
// what is still missing. newSearch is child search of parent newChat. "all" are the CardQuotas that exist
// before. newTreeQuota takes name, parent, service type and cards, written "name quota deserved guarantee".
func TestParentsAndChildrenMayBeCreatedInAnyOrder(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
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
	})
}

// TestTreesHaveSixLevelsAndNoCycle: parents form no cycle, and a tree has at most 6 levels below the root.
// The webhook refuses the CardQuota that would break this. newTreeQuota takes name, parent and service type;
// cards do not matter here. chain(n) are q1 to qn, each the parent of the next. "all" are the CardQuotas that
// exist before.
func TestTreesHaveSixLevelsAndNoCycle(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
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
	})
}

// TestParentsTakeNoWork: only leaves of a tree take jobs. So the webhook refuses a parent with a service
// type, and the first child of a queue that has pods. A priority orders jobs, so that of a parent has no
// effect. A fault from before a change gets only a warning. newSearch and newAds are the children of newChat;
// newAds takes "name quota deserved".
func TestParentsTakeNoWork(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
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
		"another change of a parent with a service type": {
			quota:       newChat(withServiceType("training"), setProject),
			before:      newChat(withServiceType("training")),
			all:         quotas{newSearch()},
			wantWarning: "as before: spec.serviceType",
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
		"a priority of a parent": {
			quota:       newChat(withPriority(3)),
			all:         quotas{newSearch()},
			wantWarning: "spec.priority: has no effect on a parent",
		},
	})
}

// TestSelectorsOfChildAndParentMustMeet: a namespace can use a queue only if its namespaceSelector and that
// of each ancestor select it. The webhook warns if no namespace can. A child without a selector is limited by
// that of its parent. If the parent selects every namespace too, the webhook warns as of a flat queue. newAds
// is a child of newChat, which selects every namespace unless its row says otherwise.
func TestSelectorsOfChildAndParentMustMeet(t *testing.T) {
	checkTreeCases(t, map[string]treeCase{
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
	})
}
