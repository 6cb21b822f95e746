package cardquota

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

func TestHierarchyValid(t *testing.T) {
	set := func(name string, quota, deserved, guarantee int64) treeChange {
		return in(name, func(q *v1alpha1.CardQuota) { q.Spec.Cards = node(name, "", quota, deserved, guarantee).Spec.Cards })
	}

	const closed = ": nothing new starts here and below; "
	for t, tc := range check.Cases(t, map[string]struct {
		name   string
		change treeChange
		own    *Usage
		want   string
	}{
		"a top level":      {name: "tenant", want: "True/HierarchyValid: this CardQuota is at the top level; it has 2 children: lab, web"},
		"an inner node":    {name: "web", want: "True/HierarchyValid: the parents up to the top level are tenant; it has 2 children: chat, search"},
		"a leaf":           {name: "chat", want: "True/HierarchyValid: the parents up to the top level are web, tenant"},
		"no children yet":  {name: "web", change: without("chat", "search"), want: "True/HierarchyValid: the parents up to the top level are tenant; it has no children yet, and without serviceType no job can start in it"},
		"a held leaf":      {name: "chat", change: in("web", stopping("Hold")), want: "True/HierarchyValid: the parents up to the top level are web, tenant"},
		"a missing parent": {name: "chat", change: without("web"), want: "False/ParentNotFound: spec.parent names CardQuota web, which does not exist or does not own its queue" + closed + "create it, or name another parent"},
		"a missing parent's parent": {name: "chat", change: without("tenant"),
			want: "False/ParentNotFound: its ancestor web names CardQuota tenant, which does not exist or does not own its queue" + closed + "create it, or name another parent"},
		"a cycle": {name: "chat", change: in("web", under("chat")),
			want: "False/ParentCycle: its ancestor web names CardQuota chat, and these parents form a cycle" + closed + "give one of them another parent"},
		"too deep": {name: "n7", change: func(all map[string]*v1alpha1.CardQuota) {
			for i, name := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"} {
				all[name] = node(name, []string{"", "n1", "n2", "n3", "n4", "n5", "n6"}[i], 8, 8, -1)
			}
		}, want: "False/TooDeep: this CardQuota is 7 levels below the root, and at most 6 are possible" + closed + "move it up"},
		"a service type in a parent": {name: "web", change: in("web", ofType("training")),
			want: "False/WorkInParent: only leaves take jobs, and it has 2 children (chat, search): nothing new starts in queue web itself; remove serviceType, and give the jobs a CardQuota of their own below it"},
		"pods in a parent": {name: "web", own: &Usage{Members: Members{Pods: 3}},
			want: "False/WorkInParent: only leaves take jobs, and it has 2 children (chat, search): queue web has 3 unfinished pods, which count here, but nothing new starts; move the jobs to a child"},
		"pods without a service type": {name: "web", change: without("chat", "search"), own: &Usage{Members: Members{Pods: 1}},
			want: "False/WorkInParent: only leaves take jobs, and it has no serviceType: queue web has 1 unfinished pod, which count here, but nothing new starts; move the jobs to a child"},
		"a card that the parent lacks": {name: "chat", change: in("chat", ofCard("H200/mig-1g.18gb-mixed")),
			want: "False/CardNotInParent: H200/mig-1g.18gb-mixed: quota is 8, but parent web grants none, so it is 0: grant it there, or remove it here"},
		"nothing to inherit": {name: "other", change: set("other", -1, 4, -1), want: "False/CardNotInParent: H200: has no quota to inherit at the top level, so it is 0: write quota"},
		"a quota above":      {name: "chat", change: set("chat", 13, 4, 4), want: "False/QuotaAboveParent: H200: quota is 13, but parent web has 12, which is in force: lower it here, or raise the parent"},
		"deserved above": {name: "chat", change: set("chat", 12, 9, -1),
			want: "False/DeservedAboveParent: H200: deserved is 9, but parent web has 8, so 5 is in force: lower it here, or raise the parent"},
		"a guarantee is cut with deserved": {name: "chat", change: set("chat", 12, 8, 6),
			want: "False/GuaranteeAboveParent: H200: deserved is 8, but the children of web have 12 together and it has 8, so 5 is in force: lower the children, or raise the parent; " +
				"H200: guarantee is 5, but parent web has 4, so 4 is in force: lower it here, or raise the parent"},
		"a guarantee is cut by deserved alone": {name: "chat", change: func(all map[string]*v1alpha1.CardQuota) { set("web", 12, 4, 4)(all); set("chat", 12, 4, 4)(all) },
			want: "False/Scaled: H200: deserved is 4, but the children of web have 8 together and it has 4, so 2 is in force: lower the children, or raise the parent; " +
				"H200: guarantee is 4, but as no more is deserved, 2 is in force"},
		"deserved together": {name: "chat", change: set("chat", 12, 8, -1),
			want: "False/Scaled: H200: deserved is 8, but the children of web have 12 together and it has 8, so 5 is in force: lower the children, or raise the parent"},
		"guaranteed above": {name: "search", change: set("search", 8, 4, 4),
			want: "False/Scaled: H200: guarantee is 4, but the children of web have 8 together and it has 4, so 2 is in force: lower the children, or raise the parent"},
		"memory": {name: "chat", change: in("chat", limiting("", "1Gi")),
			want: "False/CardNotInParent: memory: quota is 1Gi, but parent web grants none, so it is 0: grant it there, or remove it here"},
	}) {
		all := tenantTree(tc.change)
		c := treeOf(all).HierarchyCondition(all[tc.name], tc.own)
		check.Equal(t, "condition", tc.want, string(c.Status)+"/"+c.Reason+": "+c.Message)
	}
}

func TestStatusInATree(t *testing.T) {
	all := tenantTree(in("web", deserving(6)))
	tree := treeOf(all)
	queues := map[string]Usage{"chat": {Used: cards{"H200": 5}}, "search": {Used: cards{"H200": 2, "H800": 1}, Pending: cards{"H200": 3}}}
	sums := tree.SumUsage(queues)
	status := func(name string, tree *Tree, change func(*StatusInput)) v1alpha1.CardQuotaStatus {
		q := all[name]
		own := queues[name]
		subtree := sums[name]
		input := StatusInput{Quota: q, Queue: below(q.Spec.Parent, q), Usage: &subtree, Own: &own, Tree: tree, Now: noon,
			Sync: QueueSyncedCondition(q, metav1.Condition{}, QueueWrite{}, noon), Totals: NewTreeTotals([]*v1alpha1.CardQuota{all["tenant"], q}, nil, cards{"H200": 10})}
		input.Queue.Status.State = v1beta1.QueueStateOpen
		if change != nil {
			change(&input)
		}
		return NewStatus(input)
	}

	chat := status("chat", tree, nil)
	check.Equal(t, "leaf", []v1alpha1.CardStatus{{Name: "H200", Quota: 8, Used: 5, Free: 3, Deserved: 3, Guarantee: 3, Borrowed: 2}}, chat.Cards)
	check.Equal(t, "leaf's Queue", "web", chat.Queue.Parent)
	check.Equal(t, "leaf is ready", "True/Ready: queue chat carries this quota and starts pods", said(chat, "Ready"))
	check.Equal(t, "leaf and inventory", "True/InventorySatisfied: the quota of parent web contains this one: InventorySatisfied of the CardQuota at the top level compares it with healthy nodes", said(chat, "InventorySatisfied"))

	tenant := status("tenant", tree, nil)
	check.Equal(t, "tenant", []v1alpha1.CardStatus{{Name: "H200", Quota: 16, Used: 7, Pending: 3, Free: 9, Deserved: 16, Guarantee: 8}, {Name: "H800", Used: 1, OverQuotaBy: 1, Borrowed: 1}}, tenant.Cards)
	check.Equal(t, "children", 2, int(tenant.Children))
	check.Equal(t, "summary", "1/0 H800, 7/16 H200", tenant.Summary)
	check.Equal(t, "tenant is ready", "True/Ready: queue tenant carries this quota for the queues below it, which start pods", said(tenant, "Ready"))
	check.Equal(t, "tenant and inventory", "False/OverAllocated: H200: 16 granted, 10 healthy, 6 too many (16 here): the quotas are enforced as written; lower some, add cards, or set overAllocation to Allow", said(tenant, "InventorySatisfied"))
	check.Equal(t, "flat says nothing about a hierarchy", "", said(status("chat", nil, func(i *StatusInput) { i.Quota.Status = chat }), "HierarchyValid"))
	check.Equal(t, "a flat parent", "True/Ready: queue tenant has an empty quota while queues are flat, because a CardQuota without serviceType is a parent", said(status("tenant", nil, nil), "Ready"))
	check.Equal(t, "flat numbers", int64(0), status("chat", nil, nil).Cards[0].Deserved)

	// A parent that is being deleted keeps its quota while it waits for its children.
	all["tenant"].DeletionTimestamp = &metav1.Time{Time: noon}
	waits := status("tenant", tree, func(i *StatusInput) { i.Sync.Reason = v1alpha1.ReasonWaitingForChildren })
	check.Equal(t, "quota while it waits", int64(16), waits.Cards[0].Quota)
	check.Equal(t, "quota while it drains", int64(0), status("tenant", tree, nil).Cards[0].Quota)
}

func TestReadySaysWhatHolds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change map[string]v1alpha1.StopPolicy
		want   string
	}{
		"the queue itself": {map[string]v1alpha1.StopPolicy{"chat": "Hold"}, "False/Held: stopPolicy Hold holds queue chat: nothing new starts, and running pods continue; waiting workloads: 2; set it to None to go on"},
		"an ancestor":      {map[string]v1alpha1.StopPolicy{"tenant": "Hold"}, "False/Held: stopPolicy Hold of its ancestor tenant holds queue chat: nothing new starts, and running pods continue; waiting workloads: 2; set it to None to go on"},
		"a drain above":    {map[string]v1alpha1.StopPolicy{"chat": "Hold", "web": "HoldAndDrain"}, "False/Held: stopPolicy HoldAndDrain of its ancestor web holds queue chat: nothing new starts, and running jobs are evicted; waiting workloads: 2; set it to None to go on"},
		"none":             {map[string]v1alpha1.StopPolicy{"lab": "Hold", "web": "None"}, "True/Ready: queue chat carries this quota and starts pods"},
	}) {
		all := tenantTree()
		for name, policy := range tc.change {
			all[name].Spec.StopPolicy = policy
		}

		live := below("web", all["chat"])
		live.Status.State = v1beta1.QueueStateOpen
		used := Usage{BlockedTotal: 2}
		status := NewStatus(StatusInput{Quota: all["chat"], Queue: live, Usage: &used, Own: &used, Tree: treeOf(all), Now: noon, Sync: QueueSyncedCondition(all["chat"], metav1.Condition{}, QueueWrite{}, noon)})
		check.Equal(t, "Ready", tc.want, said(status, "Ready"))

		flat := NewStatus(StatusInput{Quota: all["chat"], Queue: live, Usage: &used, Own: &used, Now: noon, Sync: QueueSyncedCondition(all["chat"], metav1.Condition{}, QueueWrite{}, noon)})
		isHeld := tc.change["chat"] == "Hold"
		check.Equal(t, "held while flat", isHeld, strings.HasPrefix(said(flat, "Ready"), "False/Held: stopPolicy Hold holds queue chat"))
	}
}

func TestQueueSyncedInTrees(t *testing.T) {
	flat := node("team", "tenant", -1, 4, 2, stopping("Hold"), func(q *v1alpha1.CardQuota) {
		q.Spec.Resources = &v1alpha1.Resources{Deserved: &v1alpha1.ResourceAmounts{CPU: ptr(resource.MustParse("8"))}}
	})

	band := servicetype.Band{Type: "training", Lowest: 100, Highest: 149, Next: "inference", NextPriority: 150}
	for t, tc := range check.Cases(t, map[string]struct {
		quota *v1alpha1.CardQuota
		write QueueWrite
		want  string
	}{
		"as written": {flat, QueueWrite{}, "True/Synced: queue team carries this quota"},
		"flat": {flat, QueueWrite{IsFlat: true}, "True/TreeFieldsUnused: queue team carries this quota, but while the ServiceTypePolicy does not say queueHierarchy: Tree, " +
			"parent, cards[].deserved, cards[].guarantee, resources.deserved have no effect; a card without quota has its deserved as quota"},
		"a flat parent": {node("team", "", 8, -1, -1, parentOnly), QueueWrite{IsFlat: true}, "True/TreeFieldsUnused: queue team has an empty quota: while the ServiceTypePolicy does not say queueHierarchy: Tree, " +
			"it grants nothing, because a CardQuota without serviceType is a parent"},
		"nothing of a tree": {node("team", "", 8, -1, -1), QueueWrite{IsFlat: true}, "True/Synced: queue team carries this quota"},
		"another manager":   {flat, QueueWrite{ParentManager: "kubectl-edit", Parent: "web"}, "True/ParentConflict: queue team carries this quota, but spec.parent is managed by kubectl-edit and was left alone instead of becoming web: change spec.parent here, or let kubectl-edit give the field up; until then the scheduler enforces the tree of the Queues, and the status shows that of the CardQuotas"},
		"a priority is cut": {flat, QueueWrite{CutPriority: band.Check(60).Error()}, "True/PriorityCut: queue team carries this quota, but its priority is the highest of its service type: " + band.Check(60).Error()},
		"it waits":          {flat, QueueWrite{Wait: &Wait{Reason: v1alpha1.ReasonWaitingForParent, Message: "later"}, ParentManager: "x"}, "False/WaitingForParent: later"},
	}) {
		c := QueueSyncedCondition(tc.quota, metav1.Condition{}, tc.write, noon)
		check.Equal(t, "condition", tc.want, string(c.Status)+"/"+c.Reason+": "+c.Message)
	}
}

func TestWaitsForChildren(t *testing.T) {
	q := node("web", "tenant", 8, 4, 2)
	children := []*v1beta1.Queue{below("web", node("chat", "web", 1, 1, -1)), below("web", node("a", "web", 1, 1, -1))}
	for what, tc := range map[string]struct {
		wait *Wait
		want string
	}{
		"move":   {MovingChildrenWait(q, children), "queues are flat now: queue web keeps what it had in the tree until its child queues a, chat are at the top level"},
		"delete": {DeletionWait(q, children), "being deleted: queue web keeps its quota until its child queues are gone: a, chat; delete their CardQuotas, or give them another parent"},
	} {
		check.Equal(t, what, Wait{Reason: v1alpha1.ReasonWaitingForChildren, Message: tc.want, KeepsQueue: true}, *tc.wait)
	}

	check.That(t, MovingChildrenWait(q, nil) == nil && DeletionWait(q, nil) == nil, "waits for no children")
}

func TestTreeSurvivesAnyQuota(t *testing.T) {
	var none Usage
	for _, q := range []*v1alpha1.CardQuota{{}, node("a", "a", 1, 1, 1), node("b", "", 1, 2, 3), {ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.CardQuotaSpec{Cards: []v1alpha1.Card{{}, {Name: "x"}}}}} {
		tree := NewTree([]*v1alpha1.CardQuota{q}, []*v1beta1.Queue{{}, below(q.QueueName(), node("x", "", 1, 1, 1))}, "")
		tree.HierarchyCondition(q, &none)
		_, wait := tree.PlaceQueue(q, Neighbors{})
		_, _ = tree.Placement(q, "root").Stage(q, Family{})
		check.That(t, (q.Name == "a") == (wait != nil), "%q waits: %v", q.Name, wait)
		check.Equal(t, "quota of "+q.Name, card.Count(0), tree.QuotaFor(q)["unknown"])
	}
}
