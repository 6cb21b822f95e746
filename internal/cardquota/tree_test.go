package cardquota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// node is a CardQuota below a parent, "" for the top level, with quota, deserved and guarantee
// of H200. A negative number is not written.
func node(name, parent string, quota, deserved, guarantee int64, changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
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

func ofType(serviceType string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = serviceType }
}

var parentOnly = ofType("")

func under(parent string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Parent = parent }
}

// ofCard, granting and deserving change the first card of a CardQuota.
func ofCard(name string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = name }
}

func granting(count int64) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = &count }
}

func deserving(count int64) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = &count }
}

func stopping(policy v1alpha1.StopPolicy) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.StopPolicy = policy }
}

// treeChange changes the CardQuotas of a tree, by name.
type treeChange func(map[string]*v1alpha1.CardQuota)

// in changes one CardQuota of a tree.
func in(name string, changes ...func(*v1alpha1.CardQuota)) treeChange {
	return func(all map[string]*v1alpha1.CardQuota) {
		for _, change := range changes {
			change(all[name])
		}
	}
}

// without deletes CardQuotas of a tree.
func without(names ...string) treeChange {
	return func(all map[string]*v1alpha1.CardQuota) {
		for _, name := range names {
			delete(all, name)
		}
	}
}

// tenantTree is a tenant with two projects, of which one has two queues.
func tenantTree(changes ...treeChange) map[string]*v1alpha1.CardQuota {
	all := map[string]*v1alpha1.CardQuota{}
	for _, q := range []*v1alpha1.CardQuota{
		node("tenant", "", 16, 16, 8, parentOnly), node("web", "tenant", 12, 8, 4, parentOnly), node("lab", "tenant", -1, 8, -1),
		node("chat", "web", 8, 4, 4), node("search", "web", 8, 4, -1), node("other", "", 4, 4, -1),
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

func treeOf(all map[string]*v1alpha1.CardQuota) *Tree {
	return NewTree(slices.Collect(maps.Values(all)), nil, v1alpha1.UnmanagedEnforce)
}

func TestTreeOfOwners(t *testing.T) {
	all := tenantTree()
	all["late"] = node("late", "web", 8, 4, -1, ofQueue("chat"))
	all["late"].CreationTimestamp.Time = noon

	tree := treeOf(all)
	check.Equal(t, "children", []string{"chat", "search"}, tree.Children("web"))

	var above []string
	for _, q := range tree.Ancestors("chat") {
		above = append(above, q.Name)
	}

	check.Equal(t, "ancestors", []string{"web", "tenant"}, above)
	check.Equal(t, "queues above", []string{tree.queues["web"], tree.queues["tenant"]}, tree.QueuesAbove("chat"))
	check.Equal(t, "queues above one that is not there", 0, len(tree.QueuesAbove("nobody")))
	check.Equal(t, "ancestors of one that is not there", 0, len(tree.Ancestors("nobody")))

	var flat *Tree
	check.Equal(t, "children while flat", 0, len(flat.Children("web")))
	check.Equal(t, "quota of a leaf", card.Quota{"H200": 8}, tree.QuotaFor(all["chat"]))
	check.Equal(t, "inherited quota", card.Quota{"H200": 16}, tree.QuotaFor(all["lab"]))
	check.Equal(t, "quota of a parent", card.Quota{"H200": 16}, tree.QuotaFor(all["tenant"]))
}

func TestQuotaWhileFlat(t *testing.T) {
	var flat *Tree

	for t, tc := range check.Cases(t, map[string]struct {
		quota *v1alpha1.CardQuota
		want  card.Quota
	}{
		"the quota":                             {node("a", "", 8, 4, 2), card.Quota{"H200": 8}},
		"nothing to inherit: what it deserves":  {node("a", "p", -1, 4, 2), card.Quota{"H200": 4}},
		"no number at all":                      {node("a", "p", -1, -1, -1), card.Quota{}},
		"a parent contains what others can use": {node("a", "", 8, 4, 2, parentOnly), card.Quota{}},
	}) {
		check.Equal(t, "quota", tc.want, flat.QuotaFor(tc.quota))
		check.Equal(t, "quota of the Queue", tc.want.String(), NewDesiredQueue(tc.quota, PolicyInput{Types: noTypes}, nil, "", nil).Config.Annotations[v1alpha1.AnnotationCardQuota])
	}
}

// TestQueuesWithoutACardQuotaCountInTheTree: the scheduler counts a Queue that was retained or
// written by hand as well.
func TestQueuesWithoutACardQuotaCountInTheTree(t *testing.T) {
	all := tenantTree()
	queue := func(name, parent, quota, deserved string) *v1beta1.Queue {
		return builder.Queue(name).Quota(quota).Annotation(v1alpha1.AnnotationCardDeserved, deserved).Parent(parent).Obj()
	}

	tree := NewTree(slices.Collect(maps.Values(all)), []*v1beta1.Queue{
		queue("byhand", "web", `{"H200":8}`, `{"H200":8}`), queue("below", "byhand", `{"H200":2}`, `{"H200":2}`), queue("chat", "nowhere", `{}`, `{}`),
		queue("inleaf", "lab", `{}`, `{}`), queue("lost", "missing", `{"H200":8}`, `{}`), queue("top", "root", `{"H200":8}`, `{}`),
	}, v1alpha1.UnmanagedEnforce)

	c := tree.HierarchyCondition(all["chat"], nil)
	check.Equal(t, "scaled", "Scaled: H200: deserved is 4, but the children of web have 16 together and it has 8, so 2 is in force: lower the children, or raise the parent; H200: guarantee is 4, but as no more is deserved, 2 is in force", c.Reason+": "+c.Message)
	check.Equal(t, "children are CardQuotas", []string{"chat", "search"}, tree.Children("web"))
	check.Equal(t, "a parent by a Queue", v1alpha1.ReasonWorkInParent, tree.HierarchyCondition(all["lab"], nil).Reason)

	sums := tree.SumUsage(map[string]Usage{"chat": {Used: cards{"H200": 1}}, "byhand": {Used: cards{"H200": 2}}, "below": {Used: cards{"H200": 4}}, "lost": {Used: cards{"H200": 8}}})
	for name, want := range map[string]card.Count{"tenant": 7, "web": 7, "byhand": 6, "below": 4, "lab": 0, "other": 0, "lost": 8} {
		check.Equal(t, "sum of "+name, want, sums[name].Used["H200"])
	}
}

// TestSumsEqualANaiveRecount compares the usage of every CardQuota with a sum over all queues
// whose chain of parents contains it, and expects that only sums change.
func TestSumsEqualANaiveRecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		all := map[string]*v1alpha1.CardQuota{}
		used := map[string]Usage{}
		for i, name := range names {
			parent := rapid.SampledFrom(append([]string{"", "missing"}, names...)).Draw(t, "parent")
			if rapid.Bool().Draw(t, "proper") {
				parent = append([]string{""}, names[:i]...)[rapid.IntRange(0, i).Draw(t, "above")]
			}

			all[name] = node(name, parent, 8, 4, -1, ofQueue("queue-"+name))
			if rapid.Bool().Draw(t, "shown") {
				all[name].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "lab"}}
			}

			if rapid.Bool().Draw(t, "used") {
				used["queue-"+name] = Usage{Used: cards{"H200": card.Count(rapid.IntRange(0, 9).Draw(t, "H200"))}, Members: Members{Pods: i},
					Pending: cards{"H800": 1}, MilliCPU: int64(i), BlockedTotal: i, Blocked: blockedList(name, i),
					Local: map[string]localquota.Waiting{"lab": {Total: i, Blocked: blockedList(name, i)}}}
			}
		}

		tree := treeOf(all)
		before := fmt.Sprintf("%+v", used)
		sums := tree.SumUsage(used)

		check.Must(t, fmt.Sprintf("%+v", used) == before, "the given usage changed: %+v, before %s", used, before)
		for _, name := range names {
			below := queuesBelow(all, name)
			want := card.Count(0)
			total := 0
			for _, queue := range below {
				want += used[queue].Used["H200"]
				total += used[queue].BlockedTotal
			}

			got := sums["queue-"+name]
			check.Must(t, got.Used["H200"] == want && got.BlockedTotal == total, "%s uses %d with %d blocked, want %d with %d", name, got.Used["H200"], got.BlockedTotal, want, total)
			check.Must(t, len(got.Blocked) == min(total, MaxBlocked) && slices.IsSortedFunc(got.Blocked, compareBlocked), "%s lists %d blocked of %d", name, len(got.Blocked), total)

			local := got.Local["lab"]
			if all[name].Spec.NamespaceSelector == nil { // tenants do not see the queues below
				total = used["queue-"+name].BlockedTotal
			}

			check.Must(t, local.Total == total && len(local.Blocked) == min(total, MaxBlocked) && slices.IsSortedFunc(local.Blocked, compareBlocked), "%s shows %d of %d in lab, want %d", name, len(local.Blocked), local.Total, total)
			check.Equal(t, "queues below "+name, below, slices.Sorted(slices.Values(tree.QueuesBelow("queue-"+name))))
			check.Must(t, got.Members == used["queue-"+name].Members, "%s has the members of others", name)
		}
	})
}

// queuesBelow returns the queue of a CardQuota and those of all below it, sorted.
func queuesBelow(all map[string]*v1alpha1.CardQuota, name string) []string {
	below := map[string]bool{"queue-" + name: true}
	for node := range all {
		if isBelowOrSame(all, node, name) {
			below["queue-"+node] = true
		}
	}
	return slices.Sorted(maps.Keys(below))
}

// blockedList is a list of blocked workloads, the longest waiting first.
func blockedList(name string, count int) []v1alpha1.BlockedStatus {
	set := blockedSet{}
	for i := range count {
		set.add(blockedEntry{BlockedStatus: v1alpha1.BlockedStatus{Workload: v1alpha1.WorkloadReference{Name: fmt.Sprint(name, i)}, Count: 1}})
	}
	return (&counter{}).oldestFirst("q", slices.Collect(maps.Values(set)))
}

// isBelowOrSame walks up the written parents. A chain that does not end at the top level leads
// nowhere, and so does one of more than six.
func isBelowOrSame(all map[string]*v1alpha1.CardQuota, name, above string) bool {
	if name == above {
		return true
	}

	met := false
	steps := 1
	for at := all[name]; at.Spec.Parent != ""; steps++ {
		at = all[at.Spec.Parent]
		if at == nil || steps > 6 {
			return false
		}
		met = met || at.Name == above
	}

	return met && steps <= 6
}

// TestQuotaInForce: a status must not show more than an ancestor allows.
func TestQuotaInForce(t *testing.T) {
	all := tenantTree(in("tenant", granting(6)), in("chat", granting(5)), in("lab", ofCard("H800"), granting(9)), in("other", under("missing")))
	all["search"].Spec.Cards[0].Quota = nil

	tree := treeOf(all)
	for name, want := range map[string]cards{
		"tenant": {"H200": 6}, "web": {"H200": 6}, "search": {"H200": 6}, "chat": {"H200": 5}, "lab": {"H800": 0}, "other": {"H200": 4},
	} {
		check.Equal(t, name, card.Quota(want), tree.QuotaFor(all[name]))
	}
}

func TestChangedQueuesOfATree(t *testing.T) {
	var flat *Tree
	before := treeOf(tenantTree())

	every := []string{"chat", "lab", "other", "search", "tenant", "web"}
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *Tree
		want          []string
	}{
		"nothing":         {before, treeOf(tenantTree()), nil},
		"flat to flat":    {flat, flat, nil},
		"flat to tree":    {flat, before, every},
		"tree to flat":    {before, flat, every},
		"a number of one": {before, treeOf(tenantTree(in("search", deserving(3)))), []string{"search"}},
		"a parent is lowered": {before, treeOf(tenantTree(in("web", deserving(4)))),
			[]string{"chat", "search", "web"}},
		"one is held with all below": {before, treeOf(tenantTree(in("web", stopping("Hold")))), []string{"chat", "search", "web"}},
		"one is moved": {before, treeOf(tenantTree(in("search", under("tenant")))),
			[]string{"lab", "search", "tenant", "web"}},
		"a grandparent changes": {before, treeOf(tenantTree(in("tenant", granting(20)))),
			[]string{"chat", "lab", "search", "tenant", "web"}},
		"a grandparent drains what it held": {treeOf(tenantTree(in("tenant", stopping("Hold")))),
			treeOf(tenantTree(in("tenant", stopping("HoldAndDrain")))),
			[]string{"chat", "lab", "search", "web"}},
		"one goes": {before, treeOf(tenantTree(without("chat"))), []string{"chat", "web"}},
	}) {
		check.Equal(t, "changed", tc.want, tc.after.ChangedQueues(tc.before))
	}
}

func TestOnlyTheTopLevelCountsForTheInventory(t *testing.T) {
	all := slices.Collect(maps.Values(tenantTree()))
	totals := NewTreeTotals(all, nil, cards{"H200": 18})
	for _, q := range all {
		want := map[string]string{
			"tenant": "H200: 20 granted, 18 healthy, 2 too many (16 here, 4 by other)",
			"other":  "H200: 20 granted, 18 healthy, 2 too many (4 here, 16 by tenant)",
		}[q.Name]
		check.Equal(t, "over-allocation of "+q.Name, want, DescribeOverAllocation(totals.OverAllocated(q)))
	}

	// Flat, the leaves count instead of their parents: lab has what it deserves.
	flat := NewQuotaTotals(all, nil, cards{"H200": 18})
	check.Equal(t, "flat", "H200: 28 granted, 18 healthy, 10 too many (4 here, 8 by chat, 8 by lab, 8 by search)", DescribeOverAllocation(flat.OverAllocated(tenantTree()["other"])))
}
