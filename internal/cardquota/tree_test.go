package cardquota

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/queuetree"
	"cardquota.dev/operator/internal/testing/seed"
)

// unset is a number of a CardQuota that is not written.
const unset = -1

// newTreeQuota is a CardQuota for training below a parent, "" for the top level, with quota, deserved and guarantee
// of H200, or unset.
func newTreeQuota(name, parent string, quota, deserved, guarantee int64, changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	return builder.CardQuota(name).With(func(q *v1alpha1.CardQuota) {
		entry := v1alpha1.Card{Name: "H200"}
		for _, number := range []struct {
			count int64
			field **int64
		}{{quota, &entry.Quota}, {deserved, &entry.Deserved}, {guarantee, &entry.Guarantee}} {
			if number.count >= 0 {
				*number.field = ptr(number.count)
			}
		}

		q.Spec.Parent = parent
		q.Spec.Cards = []v1alpha1.Card{entry}
		for _, change := range changes {
			change(q)
		}
	}).Obj()
}

func withServiceType(serviceType string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = serviceType }
}

var withoutServiceType = withServiceType("")

func withParent(parent string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Parent = parent }
}

// withCardName, withQuota and withDeserved change the first card of a CardQuota.
func withCardName(name string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = name }
}

func withQuota(count int64) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = &count }
}

func withDeserved(count int64) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = &count }
}

func withStopPolicy(policy v1alpha1.StopPolicy) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.StopPolicy = policy }
}

// treeChange changes the CardQuotas of a tree, by name.
type treeChange func(map[string]*v1alpha1.CardQuota)

// changeIn changes one CardQuota of a tree.
func changeIn(name string, changes ...func(*v1alpha1.CardQuota)) treeChange {
	return func(all map[string]*v1alpha1.CardQuota) {
		for _, change := range changes {
			change(all[name])
		}
	}
}

// without removes CardQuotas of a tree.
func without(names ...string) treeChange {
	return func(all map[string]*v1alpha1.CardQuota) {
		for _, name := range names {
			delete(all, name)
		}
	}
}

// newTenantTree is a tenant with two projects, of which one has two queues, and another tenant. The numbers are quota,
// deserved and guarantee:
//
//	tenant 16, 16, 8
//	  web 12, 8, 4
//	    chat 8, 4, 4
//	    search 8, 4, –
//	  lab –, 8, – (it inherits the quota of tenant)
//	other 4, 4, –
func newTenantTree(changes ...treeChange) map[string]*v1alpha1.CardQuota {
	all := map[string]*v1alpha1.CardQuota{}
	for _, q := range []*v1alpha1.CardQuota{
		newTreeQuota("tenant", "", 16, 16, 8, withoutServiceType),
		newTreeQuota("web", "tenant", 12, 8, 4, withoutServiceType),
		newTreeQuota("lab", "tenant", unset, 8, unset),
		newTreeQuota("chat", "web", 8, 4, 4),
		newTreeQuota("search", "web", 8, 4, unset),
		newTreeQuota("other", "", 4, 4, unset),
	} {
		all[q.Name] = q
	}

	for _, change := range changes {
		if change != nil {
			change(all)
		}
	}
	return all
}

// treeOf is the tree of all these CardQuotas.
func treeOf(all map[string]*v1alpha1.CardQuota) *Tree {
	return NewTree(slices.Collect(maps.Values(all)), nil, v1alpha1.UnmanagedEnforce)
}

// TestOnlyTheOwnerOfAQueueIsInTheTree: CardQuota late names the queue of the older chat, so chat owns it, and late is
// no part of the tree: web has the children chat and search. Above chat are web and tenant, and nothing is above an
// unknown one. Flat queues have no children.
func TestOnlyTheOwnerOfAQueueIsInTheTree(t *testing.T) {
	all := newTenantTree()
	all["late"] = newTreeQuota("late", "web", 8, 4, unset, withQueueName("chat"))
	all["late"].CreationTimestamp.Time = noon // the others have no time, which is older
	tree := treeOf(all)

	check.Equal(t, "children", []string{"chat", "search"}, tree.Children("web"))
	check.Equal(t, "ancestors", []*v1alpha1.CardQuota{all["web"], all["tenant"]}, tree.Ancestors("chat"))
	check.Equal(t, "queues above", []string{"web", "tenant"}, tree.Queues().WrittenAncestors("chat"))

	check.Equal(t, "queues above an unknown queue", 0, len(tree.Queues().WrittenAncestors("unknown")))
	check.Equal(t, "ancestors of an unknown CardQuota", 0, len(tree.Ancestors("unknown")))

	check.Equal(t, "children while queues are flat", 0, len(Flat.Children("web")))
}

// TestACardWithoutQuotaInheritsIt: a CardQuota need not write the quota of a card. Project lab does so, and the 16 of
// its parent tenant bound it. Leaf chat has a quota of 8 of its own, and tenant one of 16.
func TestACardWithoutQuotaInheritsIt(t *testing.T) {
	all := newTenantTree()
	tree := treeOf(all)

	check.Equal(t, "quota of a leaf", card.Quota{"H200": 8}, tree.QuotaFor(all["chat"]))
	check.Equal(t, "inherited quota", card.Quota{"H200": 16}, tree.QuotaFor(all["lab"]))
	check.Equal(t, "quota of a parent", card.Quota{"H200": 16}, tree.QuotaFor(all["tenant"]))
}

// TestFlatQueuesInheritNoQuota: while queues are flat, which is the default, no CardQuota inherits from a parent. A
// card without a quota gets what it deserves. A parent, which has no service type, grants nothing, because its
// children have quotas of their own. The Queue has the same quota.
func TestFlatQueuesInheritNoQuota(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota *v1alpha1.CardQuota
		want  card.Quota
	}{
		"quota 8, deserved 4: the quota counts":         {newTreeQuota("a", "", 8, 4, 2), card.Quota{"H200": 8}},
		"no quota, deserved 4: what it deserves counts": {newTreeQuota("a", "p", unset, 4, 2), card.Quota{"H200": 4}},
		"neither quota nor deserved: no card":           {newTreeQuota("a", "p", unset, unset, unset), card.Quota{}},
		"a parent with quota 8: no card":                {newTreeQuota("a", "", 8, 4, 2, withoutServiceType), card.Quota{}},
	}) {
		check.Equal(t, "quota", tc.want, Flat.QuotaFor(tc.quota))

		queue := flatQueue(tc.quota, noTypes, nil).Config
		check.Equal(t, "quota of the Queue", tc.want.String(), queue.Annotations[v1alpha1.AnnotationCardQuota])
	}
}

// queueInTree is a Queue without a CardQuota, with its parent and what it has of cards.
func queueInTree(name, parent, quota, deserved string) *v1beta1.Queue {
	return builder.Queue(name).Quota(quota).Annotation(v1alpha1.AnnotationCardDeserved, deserved).Parent(parent).Obj()
}

// TestQueuesWithoutACardQuotaCountInTheTree: the scheduler enforces each Queue of the tree, also one without a
// CardQuota, such as byhand below web. Byhand deserves 8, chat and search deserve 4 each. These are 16, and web has
// 8, so chat gets half of its 4. Queue inleaf makes lab a parent, which must have no work of its own (WorkInParent).
// Chat has a CardQuota, which decides its parent, and not the Queue, which has parent nowhere.
func TestQueuesWithoutACardQuotaCountInTheTree(t *testing.T) {
	all := newTenantTree()
	tree := NewTree(slices.Collect(maps.Values(all)), []*v1beta1.Queue{
		queueInTree("byhand", "web", `{"H200":8}`, `{"H200":8}`),
		queueInTree("chat", "nowhere", `{}`, `{}`),
		queueInTree("inleaf", "lab", `{}`, `{}`),
	}, v1alpha1.UnmanagedEnforce)

	condition := tree.HierarchyCondition(all["chat"], nil)
	check.Equal(t, "reason of chat", "Scaled", condition.Reason)
	check.Equal(t, "message of chat", "H200: deserved is 4, but the children of web have 16 together and it has 8, so 2 is in force: "+
		"lower the children, or raise the parent; H200: guarantee is 4, but as no more is deserved, 2 is in force", condition.Message)
	check.Equal(t, "children of web that are CardQuotas", []string{"chat", "search"}, tree.Children("web"))
	check.Equal(t, "reason of lab, which is the parent of queue inleaf", v1alpha1.ReasonWorkInParent,
		tree.HierarchyCondition(all["lab"], nil).Reason)
}

// TestUsageCountsForAllQueuesAbove: a parent has the usage of all queues below it, also of those without a CardQuota:
// below is a child of byhand, and byhand one of web. The parent of lost is missing, and top has none, so both count
// for themselves alone.
func TestUsageCountsForAllQueuesAbove(t *testing.T) {
	tree := NewTree(slices.Collect(maps.Values(newTenantTree())), []*v1beta1.Queue{
		queueInTree("byhand", "web", `{}`, `{}`),
		queueInTree("below", "byhand", `{}`, `{}`),
		queueInTree("lost", "missing", `{}`, `{}`),
		queueInTree("top", "root", `{}`, `{}`),
	}, v1alpha1.UnmanagedEnforce)

	sums := queueusage.Sum(map[string]queueusage.Usage{
		"chat":   {Used: cards{"H200": 1}},
		"byhand": {Used: cards{"H200": 2}},
		"below":  {Used: cards{"H200": 4}},
		"lost":   {Used: cards{"H200": 8}},
		"top":    {Used: cards{"H200": 16}},
	}, tree.Queues(), tree.HasViews)
	for name, want := range map[string]card.Count{
		"tenant": 7, // as web
		"web":    7, // chat 1 + byhand 6
		"byhand": 6, // 2 of byhand itself + below 4
		"below":  4,
		"lab":    0,
		"other":  0,
		"lost":   8,
		"top":    16,
	} {
		check.Equal(t, "sum of "+name, want, sums[name].Used["H200"])
	}
}

// TestTheQueuesBelowFollowTheCardQuotas: on random trees of CardQuotas, those below one are all whose chain of
// parents contains it. Queues have other names. Some parents are missing, and some chains are cycles or have more
// than six levels: a CardQuota with such a chain is below none. parents.Subtree walks the chain of each name, as a
// plain count.
func TestTheQueuesBelowFollowTheCardQuotas(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		all := map[string]*v1alpha1.CardQuota{}
		parents := queuetree.Parents{}
		for i, name := range names {
			// Half of the parents are earlier names, so that many chains are whole.
			parents[name] = rapid.OneOf(
				rapid.SampledFrom(append([]string{"", "missing"}, names...)),
				rapid.SampledFrom(append([]string{""}, names[:i]...)),
			).Draw(t, "parent")
			all[name] = newTreeQuota(name, parents[name], 8, 4, unset, withQueueName("queue-"+name))
		}

		tree := treeOf(all)
		for _, name := range names {
			check.Equal(t, name+" and those below it", slices.Sorted(slices.Values(parents.Subtree(name))),
				slices.Sorted(slices.Values(append(tree.Below(name), name))))
		}
	})
}

// TestAQuotaIsBoundedByEachAncestor: a quota in a tree is at most that of each ancestor, and a status must not show
// more. The tree is tenant > web > chat and search, tenant > lab, and other. Here tenant has 6 in place of 16, chat
// has 5, and search writes no quota.
func TestAQuotaIsBoundedByEachAncestor(t *testing.T) {
	all := newTenantTree(changeIn("tenant", withQuota(6)), changeIn("chat", withQuota(5)),
		changeIn("lab", withCardName("H800"), withQuota(9)), changeIn("other", withParent("missing")))
	all["search"].Spec.Cards[0].Quota = nil

	tree := treeOf(all)
	for name, want := range map[string]cards{
		"tenant": {"H200": 6},
		"web":    {"H200": 6}, // of its 12, because tenant has 6
		"search": {"H200": 6}, // inherited
		"chat":   {"H200": 5},
		"lab":    {"H800": 0}, // of its 9, because tenant has no H800
		"other":  {"H200": 4}, // its parent is missing, so no ancestor bounds it
	} {
		check.Equal(t, name, card.Quota(want), tree.QuotaFor(all[name]))
	}
}

// TestOnlyQueuesWithOtherNumbersChange: the operator writes a queue again if its numbers, fault or children
// differ from the last tree. A queue is held or not, which is one of the numbers. The operator also writes
// the queues below one whose parent, limits or stop policy differ. When queues become a tree, or flat again,
// all change. Below tenant, which deserves 16, are web with 8 and lab with 8. Chat and search are below web,
// with 4 each. Other is beside tenant.
func TestOnlyQueuesWithOtherNumbersChange(t *testing.T) {
	before := treeOf(newTenantTree())

	every := []string{"chat", "lab", "other", "search", "tenant", "web"}
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *Tree
		want          []string
	}{
		"nothing changes": {
			before: before,
			after:  treeOf(newTenantTree()),
		},
		"queues are flat and stay so": {
			before: Flat,
			after:  Flat,
		},
		"flat queues become a tree": {
			before: Flat,
			after:  before,
			want:   every,
		},
		"a tree becomes flat queues": {
			before: before,
			after:  Flat,
			want:   every,
		},
		"search deserves 3 in place of 4": {
			before: before,
			after:  treeOf(newTenantTree(changeIn("search", withDeserved(3)))),
			want:   []string{"search"},
		},
		"web deserves 4 in place of 8, so that chat and search are scaled": {
			before: before,
			after:  treeOf(newTenantTree(changeIn("web", withDeserved(4)))),
			want:   []string{"chat", "search", "web"},
		},
		"web is held, and with it chat and search": {
			before: before,
			after:  treeOf(newTenantTree(changeIn("web", withStopPolicy("Hold")))),
			want:   []string{"chat", "search", "web"},
		},
		"search moves from web to tenant, whose children then deserve 20 of its 16: lab and web are scaled": {
			before: before,
			after:  treeOf(newTenantTree(changeIn("search", withParent("tenant")))),
			want:   []string{"lab", "search", "tenant", "web"},
		},
		"tenant gets quota 20 in place of 16, and bounds all below": {before, treeOf(newTenantTree(changeIn("tenant", withQuota(20)))),
			[]string{"chat", "lab", "search", "tenant", "web"}},
		"tenant was held and drains now: it stays held, and the queues below it follow": {
			before: treeOf(newTenantTree(changeIn("tenant", withStopPolicy("Hold")))),
			after:  treeOf(newTenantTree(changeIn("tenant", withStopPolicy("HoldAndDrain")))),
			want:   []string{"chat", "lab", "search", "web"},
		},
		"chat is deleted": {before, treeOf(newTenantTree(without("chat"))), []string{"chat", "web"}},
	}) {
		check.Equal(t, "changed", tc.want, tc.after.ChangedQueues(tc.before))
	}
}

// TestOnlyTheTopLevelCountsForTheInventory: in a tree, only quotas of the top level are compared with the cards of
// the nodes, because the quotas of children are part of their parent's. Here tenant grants 16 and other 4, and 18
// cards are healthy. While queues are flat the leaves count instead: chat 8, search 8, lab 8, which is what it
// deserves, and other 4.
func TestOnlyTheTopLevelCountsForTheInventory(t *testing.T) {
	all := slices.Collect(maps.Values(newTenantTree()))
	totals := NewTree(nil, nil, v1alpha1.UnmanagedEnforce).QuotaTotals(all, nil, cards{"H200": 18})
	for _, q := range all {
		want := map[string]string{
			"tenant": "H200: 20 granted, 18 healthy, 2 too many (16 here, 4 by other)",
			"other":  "H200: 20 granted, 18 healthy, 2 too many (4 here, 16 by tenant)",
		}[q.Name]
		check.Equal(t, "over-allocation of "+q.Name, want, DescribeOverAllocation(totals.OverAllocated(q)))
	}

	check.Equal(t, "over-allocation of other while flat", "H200: 28 granted, 18 healthy, 10 too many (4 here, 8 by chat, 8 by "+
		"lab, 8 by search)",
		DescribeOverAllocation(Flat.QuotaTotals(all, nil, cards{"H200": 18}).OverAllocated(newTenantTree()["other"])))
}
