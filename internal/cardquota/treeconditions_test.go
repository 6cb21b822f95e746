package cardquota

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

// TestHierarchyValidSaysWhatIsWrongInTheTree: condition HierarchyValid says where a CardQuota is in the tree.
// It is False if the path to the top level is broken, or if a parent has work of its own. It is also False if
// a number is not in force: it is larger than that of the parent, or the children have more together
// (Scaled). The tree is tenant (quota 16, deserved 16, guarantee 8) > web (12, 8, 4) > chat (8, 4, 4) and
// search (8, 4, none). Beside them are tenant > lab and other (4, 4, none). Each row changes the tree and
// asks for the CardQuota in name.
func TestHierarchyValidSaysWhatIsWrongInTheTree(t *testing.T) {
	// set replaces the numbers of one CardQuota.
	set := func(name string, quota, deserved, guarantee int64) treeChange {
		return changeIn(name, func(q *v1alpha1.CardQuota) {
			q.Spec.Cards = newTreeQuota(name, "", quota, deserved, guarantee).Spec.Cards
		})
	}

	const closed = ": nothing new starts here and below; "
	for t, tc := range check.Cases(t, map[string]struct {
		name   string
		change treeChange
		usage  *queueusage.Usage
		want   string
	}{
		"tenant is at the top level": {
			name: "tenant",
			want: "True/HierarchyValid: this CardQuota is at the top level; it has 2 children: lab, web",
		},
		"web has a parent and children": {
			name: "web",
			want: "True/HierarchyValid: the parents up to the top level are tenant; it has 2 children: chat, search",
		},
		"chat is a leaf": {
			name: "chat",
			want: "True/HierarchyValid: the parents up to the top level are web, tenant",
		},
		"web has neither children nor a service type": {
			name:   "web",
			change: without("chat", "search"),
			want: "True/HierarchyValid: the parents up to the top level are tenant; it has no children yet, and without " +
				"serviceType no job can start in it",
		},
		"web is held: the hierarchy of chat is valid all the same": {
			name:   "chat",
			change: changeIn("web", withStopPolicy("Hold")),
			want:   "True/HierarchyValid: the parents up to the top level are web, tenant",
		},
		"the parent of chat is missing": {
			name:   "chat",
			change: without("web"),
			want: "False/ParentNotFound: spec.parent names CardQuota web, which does not exist or does not own its queue" + closed +
				"create it, or name another parent",
		},
		"the parent of chat's parent is missing": {
			name:   "chat",
			change: without("tenant"),
			want: "False/ParentNotFound: its ancestor web names CardQuota tenant, which does not exist or does not own its queue" +
				closed + "create it, or name another parent",
		},
		"chat and web are each other's parents": {
			name:   "chat",
			change: changeIn("web", withParent("chat")),
			want: "False/ParentCycle: its ancestor web names CardQuota chat, and these parents form a cycle" + closed +
				"give one of them another parent",
		},
		"n7 is seven levels deep": {
			name: "n7",
			change: func(all map[string]*v1alpha1.CardQuota) {
				for i, name := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"} {
					all[name] = newTreeQuota(name, []string{"", "n1", "n2", "n3", "n4", "n5", "n6"}[i], 8, 8, unset)
				}
			},
			want: "False/TooDeep: this CardQuota is 7 levels below the root, and at most 6 are possible" + closed + "move it up",
		},
		"web has children and a service type": {
			name:   "web",
			change: changeIn("web", withServiceType("training")),
			want: "False/WorkInParent: only leaves take jobs, and it has 2 children (chat, search): nothing new starts in " +
				"queue web itself; remove serviceType, and give the jobs a CardQuota of their own below it",
		},
		"web has children and 3 pods": {
			name:  "web",
			usage: &queueusage.Usage{Members: queueusage.Members{Pods: 3}},
			want: "False/WorkInParent: only leaves take jobs, and it has 2 children (chat, search): queue web has 3 unfinished " +
				"pods: that counts here, but nothing new starts; move the jobs to a child",
		},
		"web has no children, no service type, and 1 pod": {
			name:   "web",
			change: without("chat", "search"),
			usage:  &queueusage.Usage{Members: queueusage.Members{Pods: 1}},
			want: "False/WorkInParent: only leaves take jobs, and it has no serviceType: queue web has 1 unfinished pod: " +
				"that counts here, but nothing new starts; move the jobs to a child",
		},
		"chat has quota of a MIG slice, and web has none": {
			name:   "chat",
			change: changeIn("chat", withCardName("H200/mig-1g.18gb-mixed")),
			want: "False/CardNotInParent: H200/mig-1g.18gb-mixed: quota is 8, but parent web grants none, so it is 0: grant " +
				"it there, or remove it here",
		},
		"other writes no quota, and has no parent to inherit from": {
			name:   "other",
			change: set("other", unset, 4, unset),
			want:   "False/CardNotInParent: H200: has no quota to inherit at the top level, so it is 0: write quota",
		},
		"chat has quota 13, web 12": {
			name:   "chat",
			change: set("chat", 13, 4, 4),
			want: "False/QuotaAboveParent: H200: quota is 13, but parent web has 12, which is in force: lower it here, or " +
				"raise the parent",
		},
		"chat deserves 9 and search 4, web 8: chat gets 8 x 9/13 = 5": {
			name:   "chat",
			change: set("chat", 12, 9, unset),
			want: "False/DeservedAboveParent: H200: deserved is 9, but parent web has 8, so 5 is in force: lower it here, or " +
				"raise the parent",
		},
		"chat has guarantee 6 and deserves 8, beside search with 4: the guarantee is cut with what it deserves, and again to the 4 of web": {
			name:   "chat",
			change: set("chat", 12, 8, 6),
			want: "False/GuaranteeAboveParent: H200: deserved is 8, but the children of web have 12 together and it has 8, so 5 " +
				"is in force: lower the children, or raise the parent; " +
				"H200: guarantee is 5, but parent web has 4, so 4 is in force: lower it here, or raise the parent",
		},
		"web deserves 4: chat and search deserve 8 together, so the guarantee of chat is cut with what it deserves": {
			name:   "chat",
			change: func(all map[string]*v1alpha1.CardQuota) { set("web", 12, 4, 4)(all); set("chat", 12, 4, 4)(all) },
			want: "False/Scaled: H200: deserved is 4, but the children of web have 8 together and it has 4, so 2 is in force: " +
				"lower the children, or raise the parent; " +
				"H200: guarantee is 4, but as no more is deserved, 2 is in force",
		},
		"chat deserves 8 and search 4, web 8: chat gets 8 x 8/12 = 5": {
			name:   "chat",
			change: set("chat", 12, 8, unset),
			want: "False/Scaled: H200: deserved is 8, but the children of web have 12 together and it has 8, so 5 is in " +
				"force: lower the children, or raise the parent",
		},
		"search and chat are guaranteed 4 each, web 4: 2 for each": {
			name:   "search",
			change: set("search", 8, 4, 4),
			want: "False/Scaled: H200: guarantee is 4, but the children of web have 8 together and it has 4, so 2 is in " +
				"force: lower the children, or raise the parent",
		},
		"chat limits memory, and web does not: that is no more than web has": {
			name:   "chat",
			change: changeIn("chat", withResources("", "1Gi")),
			want:   "True/HierarchyValid: the parents up to the top level are web, tenant",
		},
		"chat has all memory that web has, which is none": {
			name:   "chat",
			change: changeIn("web", withResources("", "0")),
			want:   "True/HierarchyValid: the parents up to the top level are web, tenant",
		},
		"chat limits memory, and web grants none": {
			name: "chat",
			change: func(all map[string]*v1alpha1.CardQuota) {
				changeIn("web", withResources("", "0"))(all)
				changeIn("chat", withResources("", "1Gi"))(all)
			},
			want: "False/CardNotInParent: memory: quota is 1Gi, but parent web grants none, so it is 0: grant it there, or " +
				"remove it here",
		},
	}) {
		all := newTenantTree(tc.change)
		condition := treeOf(all).HierarchyCondition(all[tc.name], tc.usage)
		check.Equal(t, "condition", tc.want, string(condition.Status)+"/"+condition.Reason+": "+condition.Message)
	}
}

// statusOf is the status of a CardQuota while queues are that tree, or flat. Leaf chat uses 5 H200. Search uses 2 H200
// and 1 H800, and waits for 3 H200. Only 10 H200 are healthy.
func statusOf(all map[string]*v1alpha1.CardQuota, name string, tree *Tree) v1alpha1.CardQuotaStatus {
	quota := all[name]
	queues := map[string]queueusage.Usage{"chat": {Used: cards{"H200": 5}}, "search": {Used: cards{"H200": 2, "H800": 1}, Pending: cards{"H200": 3}}}

	own := queues[name]
	subtree := queueusage.Sum(queues, treeOf(all).Queues(), tree.HasViews)[name]
	input := StatusInput{
		Quota:  quota,
		Queue:  liveQueueBelow(quota.Spec.Parent, quota),
		Usage:  &subtree,
		Own:    &own,
		Tree:   tree,
		Now:    noon,
		Sync:   QueueSyncedCondition(quota, metav1.Condition{}, QueueWrite{}, noon),
		Totals: treeOf(all).QuotaTotals(slices.Collect(maps.Values(all)), nil, cards{"H200": 10}),
	}
	input.Queue.Status.State = v1beta1.QueueStateOpen

	return NewStatus(input)
}

// TestStatusOfLeavesAndParents: the status of a leaf has what is in force in the tree, and that of a parent the sum
// of its subtree. Here web deserves 6 for chat and search, which deserve 4 each, so each gets 3. The guarantee of
// chat, which is 4, is cut to these 3. Leaf chat uses 5 of its quota of 8 and so borrows 2. Search uses 2 H200 and
// waits for 3. It also uses 1 H800, of which no queue has a quota. Tenant has quota 16, deserved 16 and guarantee
// 8. Only 10 H200 are healthy.
func TestStatusOfLeavesAndParents(t *testing.T) {
	all := newTenantTree(changeIn("web", withDeserved(6)), without("other"))

	chat := statusOf(all, "chat", treeOf(all))
	check.Equal(t, "cards of the leaf", []v1alpha1.CardStatus{
		{Name: "H200", Quota: 8, Used: 5, Free: 3, Deserved: 3, Guarantee: 3, Borrowed: 2},
	}, chat.Cards)
	check.Equal(t, "parent of the leaf's Queue", "web", chat.Queue.Parent)
	check.Equal(t, "Ready of the leaf", "True/Ready: queue chat carries this quota and starts pods", describeCondition(chat, "Ready"))
	check.Equal(t, "InventorySatisfied of the leaf", "True/InventorySatisfied: the quota of parent web contains this one: "+
		"InventorySatisfied of the CardQuota at the top level compares it with healthy nodes", describeCondition(chat,
		"InventorySatisfied"))

	tenant := statusOf(all, "tenant", treeOf(all))
	check.Equal(t, "cards of the tenant", []v1alpha1.CardStatus{
		{Name: "H200", Quota: 16, Used: 7, Pending: 3, Free: 9, Deserved: 16, Guarantee: 8},
		{Name: "H800", Used: 1, OverQuotaBy: 1, Borrowed: 1},
	}, tenant.Cards)
	check.Equal(t, "children of the tenant", 2, int(tenant.Children))
	check.Equal(t, "summary of the tenant", "1/0 H800, 7/16 H200", tenant.Summary)
	check.Equal(t, "Ready of the tenant", "True/Ready: queue tenant carries this quota for the queues below it, which start pods",
		describeCondition(tenant, "Ready"))
	check.Equal(t, "InventorySatisfied of the tenant", "False/OverAllocated: H200: 16 granted, 10 healthy, 6 too many (16 "+
		"here): the quotas are enforced as written; lower some, add cards, or set overAllocation to Allow", describeCondition(tenant,
		"InventorySatisfied"))
}

// TestStatusOfFlatQueuesSaysNothingOfATree: while queues are flat, a parent grants nothing. The status of a
// leaf has no deserved cards, and loses condition HierarchyValid of the time in the tree.
func TestStatusOfFlatQueuesSaysNothingOfATree(t *testing.T) {
	all := newTenantTree()
	all["chat"].Status = statusOf(all, "chat", treeOf(all))
	check.That(t, describeCondition(all["chat"].Status, "HierarchyValid") != "", "there is no HierarchyValid in a tree")

	chat := statusOf(all, "chat", Flat)
	check.Equal(t, "HierarchyValid of the leaf", "", describeCondition(chat, "HierarchyValid"))
	check.Equal(t, "deserved cards of the leaf", int64(0), chat.Cards[0].Deserved)
	check.Equal(t, "Ready of the parent", "True/Ready: queue tenant has an empty quota: a CardQuota without serviceType is "+
		"a parent, and parents grant nothing while queues are flat", describeCondition(statusOf(all, "tenant", Flat), "Ready"))
}

// TestADeletedParentKeepsItsQuotaWhileItWaits: a CardQuota that is being deleted gives up its quota at once, so that
// nothing new starts. A parent keeps its 16 while it waits for the queues below it, because their quotas are part of
// it. Once it drains it has 0.
func TestADeletedParentKeepsItsQuotaWhileItWaits(t *testing.T) {
	all := newTenantTree(changeIn("tenant", beingDeleted))
	tree := treeOf(all)
	for reason, want := range map[string]int64{v1alpha1.ReasonWaitingForChildren: 16, v1alpha1.ReasonDraining: 0} {
		status := NewStatus(StatusInput{
			Quota: all["tenant"],
			Queue: liveQueueBelow("", all["tenant"]),
			Usage: &queueusage.Usage{},
			Tree:  tree,
			Now:   noon,
			Sync:  metav1.Condition{Status: metav1.ConditionFalse, Reason: reason},
		})

		check.Equal(t, "quota while "+reason, want, status.Cards[0].Quota)
	}
}

// TestReadyNamesTheStopPolicyThatHolds: stop policy Hold lets nothing new start in a queue and in those below it;
// HoldAndDrain also evicts running jobs. Condition Ready of leaf chat, below web and tenant, names the CardQuota
// whose policy holds it, and how many workloads wait, here 2. While queues are flat, only the policy of chat itself
// counts.
func TestReadyNamesTheStopPolicyThatHolds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		policies map[string]v1alpha1.StopPolicy
		want     string
	}{
		"chat itself is held": {
			policies: map[string]v1alpha1.StopPolicy{"chat": "Hold"},
			want: "False/Held: stopPolicy Hold holds queue chat: nothing new starts, and running pods continue; waiting " +
				"workloads: 2; set it to None to go on",
		},
		"tenant is held": {
			policies: map[string]v1alpha1.StopPolicy{"tenant": "Hold"},
			want: "False/Held: stopPolicy Hold of its ancestor tenant holds queue chat: nothing new starts, and running pods " +
				"continue; waiting workloads: 2; set it to None to go on",
		},
		"chat is held and web drained: the drain is named": {
			policies: map[string]v1alpha1.StopPolicy{"chat": "Hold", "web": "HoldAndDrain"},
			want: "False/Held: stopPolicy HoldAndDrain of its ancestor web holds queue chat: nothing new starts, and running " +
				"jobs are evicted; waiting workloads: 2; set it to None to go on",
		},
		"only lab is held, which is beside web: chat is not": {
			policies: map[string]v1alpha1.StopPolicy{"lab": "Hold", "web": "None"},
			want:     "True/Ready: queue chat carries this quota and starts pods",
		},
	}) {
		all := newTenantTree()
		for name, policy := range tc.policies {
			all[name].Spec.StopPolicy = policy
		}

		live := liveQueueBelow("web", all["chat"])
		live.Status.State = v1beta1.QueueStateOpen
		used := queueusage.Usage{Summary: waiting.Summary{BlockedTotal: 2}}
		input := StatusInput{
			Quota: all["chat"],
			Queue: live,
			Usage: &used,
			Own:   &used,
			Tree:  treeOf(all),
			Now:   noon,
			Sync:  QueueSyncedCondition(all["chat"], metav1.Condition{}, QueueWrite{}, noon),
		}
		check.Equal(t, "Ready", tc.want, describeCondition(NewStatus(input), "Ready"))

		input.Tree = Flat
		check.Equal(t, "held while flat", tc.policies["chat"] == "Hold",
			strings.HasPrefix(describeCondition(NewStatus(input), "Ready"), "False/Held: stopPolicy Hold holds queue chat"))
	}
}

// TestQueueSyncedSaysWhatDoesNotCount: condition QueueSynced is True once the Queue carries the quota. Its message
// says what does not count: fields of a tree while queues are flat, or a parent that another manager keeps.
// spec.priority is added to the priority of the service type, here 100 for training. If the sum reaches the next service
// type, inference at 150, it is cut, and the message says so. The condition is False while the Queue waits for the
// Queue of its parent.
func TestQueueSyncedSaysWhatDoesNotCount(t *testing.T) {
	// A stopPolicy counts in flat queues, too.
	withTreeFields := newTreeQuota("team", "tenant", unset, 4, 2, withStopPolicy("Hold"), func(q *v1alpha1.CardQuota) {
		q.Spec.Resources = &v1alpha1.Resources{Deserved: &v1alpha1.ResourceAmounts{CPU: ptr(resource.MustParse("8"))}}
	})

	band := servicetype.Band{Type: "training", Lowest: 100, Highest: 149, Next: "inference", NextPriority: 150}
	for t, tc := range check.Cases(t, map[string]struct {
		quota *v1alpha1.CardQuota
		write QueueWrite
		want  string
	}{
		"a tree: all counts": {
			quota: withTreeFields,
			write: QueueWrite{},
			want:  "True/Synced: queue team carries this quota",
		},
		"flat queues: parent, guarantee and what cards and resources deserve do not count": {
			quota: withTreeFields,
			write: QueueWrite{IsFlat: true},
			want: "True/TreeFieldsUnused: queue team carries this quota, but while the ServiceTypePolicy does not say " +
				"queueHierarchy: Tree, " +
				"parent, cards[].deserved, cards[].guarantee, resources.deserved have no effect; a card without quota has its " +
				"deserved as quota",
		},
		"flat queues: a parent grants nothing": {
			quota: newTreeQuota("team", "", 8, unset, unset, withoutServiceType),
			write: QueueWrite{IsFlat: true},
			want: "True/TreeFieldsUnused: queue team has an empty quota: while the ServiceTypePolicy does not say queueHierarchy: Tree, " +
				"it grants nothing, because a CardQuota without serviceType is a parent",
		},
		"flat queues: the CardQuota has no field of a tree": {
			quota: newTreeQuota("team", "", 8, unset, unset),
			write: QueueWrite{IsFlat: true},
			want:  "True/Synced: queue team carries this quota",
		},
		"kubectl-edit keeps spec.parent": {
			quota: withTreeFields,
			write: QueueWrite{ParentManager: "kubectl-edit", Parent: "web"},
			want: "True/ParentConflict: queue team carries this quota, but spec.parent is managed by kubectl-edit and was left " +
				"alone instead of becoming web: change spec.parent here, or let kubectl-edit give the field up; until then the " +
				"scheduler enforces the tree of the Queues, and the status shows that of the CardQuotas",
		},
		"priority 60 makes 160, which belongs to inference": {
			quota: withTreeFields,
			write: QueueWrite{CutPriority: band.Check(60).Error()},
			want:  "True/PriorityCut: queue team carries this quota, but its priority is the nearest one of its service type: " + band.Check(60).Error(),
		},
		"the Queue waits for its parent, whatever else is wrong": {
			quota: withTreeFields,
			write: QueueWrite{Wait: &Wait{Reason: v1alpha1.ReasonWaitingForParent, Message: "later"}, ParentManager: "x"},
			want:  "False/WaitingForParent: later",
		},
	}) {
		condition := QueueSyncedCondition(tc.quota, metav1.Condition{}, tc.write, noon)

		check.Equal(t, "condition", tc.want, string(condition.Status)+"/"+condition.Reason+": "+condition.Message)
	}
}

// TestAQueueWaitsForItsChildren: Volcano refuses to delete a queue that has child queues, or to give it less
// than they have. So a parent's Queue keeps what it has (KeepsQueue) until its child queues are gone. That is
// so when queues become flat, which means that all are at the top level, and when the parent's CardQuota is
// deleted.
func TestAQueueWaitsForItsChildren(t *testing.T) {
	web := newTreeQuota("web", "tenant", 8, 4, 2)
	children := []*v1beta1.Queue{
		liveQueueBelow("web", newTreeQuota("chat", "web", 1, 1, unset)),
		liveQueueBelow("web", newTreeQuota("a", "web", 1, 1, unset)),
	}
	for what, tc := range map[string]struct {
		wait *Wait
		want string
	}{
		"queues become flat": {
			wait: MovingChildrenWait(web, children),
			want: "queues are flat now: queue web keeps what it had in the tree until its child queues a, chat are at the top level",
		},
		"the CardQuota is deleted": {
			wait: DeletionWait(web, children),
			want: "being deleted: queue web keeps its quota until its child queues are gone: a, chat; delete their CardQuotas, " +
				"or give them another parent",
		},
	} {
		check.Must(t, tc.wait != nil, "%s: no wait", what)
		check.Equal(t, what, Wait{Reason: v1alpha1.ReasonWaitingForChildren, Message: tc.want, KeepsQueue: true}, *tc.wait)
	}

	check.Equal(t, "wait of a flat queue without children", nil, MovingChildrenWait(web, nil))
	check.Equal(t, "wait of a deleted CardQuota without children", nil, DeletionWait(web, nil))
}

// TestTreeSurvivesAnyCardQuota: objects may be older than the validation of the API, so a tree must not panic for any
// CardQuota. One is empty, a is its own parent, b has numbers in the wrong order, and c has cards without a name or
// quota. Only a waits, because it has no path to the top level. None grants an unknown card.
func TestTreeSurvivesAnyCardQuota(t *testing.T) {
	var none queueusage.Usage
	for _, q := range []*v1alpha1.CardQuota{
		{},
		newTreeQuota("a", "a", 1, 1, 1),
		newTreeQuota("b", "", 1, 2, 3),
		{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.CardQuotaSpec{Cards: []v1alpha1.Card{{}, {Name: "x"}}}},
	} {
		tree := NewTree([]*v1alpha1.CardQuota{q}, []*v1beta1.Queue{{}, liveQueueBelow(q.QueueName(), newTreeQuota("x", "", 1, 1, 1))}, "")
		tree.HierarchyCondition(q, &none)
		_, wait := tree.PlaceQueue(q, Neighbors{})
		_, _ = tree.Placement(q, "root").Stage(q, Family{})

		check.Equal(t, q.Name+" waits", q.Name == "a", wait != nil) // a is its own parent
		check.Equal(t, "quota of "+q.Name, card.Count(0), tree.QuotaFor(q)["unknown"])
	}
}
