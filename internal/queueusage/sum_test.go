package queueusage

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/queuetree"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/waiting"
)

// treeOfParents is the tree of queues with these parents, which need not be written themselves.
func treeOfParents(parents map[string]string) *quota.Tree {
	written := map[string]quota.TreeQueue{}
	for queue, parent := range parents {
		written[parent] = quota.TreeQueue{Parent: parents[parent]}
		written[queue] = quota.TreeQueue{Parent: parent}
	}
	return quota.ResolveTree(written)
}

// TestSumsEqualANaiveRecount: the usage of a queue contains that of all queues below it. On random trees it equals a
// sum over the queues whose chain of parents contains the queue. Some trees have missing parents, cycles or more than
// six levels; a queue with such a chain counts for itself only. Members are those of the queue alone, and the given
// usage stays as it is. In a namespace, what waits below counts only for a queue that tenants see there (hasViews).
func TestSumsEqualANaiveRecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		parents := queuetree.Parents{}
		written := map[string]quota.TreeQueue{}
		used := map[string]Usage{}
		hasViews := map[string]bool{}
		for i, name := range names {
			// Half of the parents are earlier names, so that many chains are whole.
			parents[name] = rapid.OneOf(
				rapid.SampledFrom(append([]string{"", "missing"}, names...)),
				rapid.SampledFrom(append([]string{""}, names[:i]...)),
			).Draw(t, "parent")

			written[name] = quota.TreeQueue{Parent: parents[name]}
			hasViews[name] = rapid.Bool().Draw(t, "has views")
			if rapid.Bool().Draw(t, "used") {
				used[name] = Usage{
					Used:     cards{"H200": card.Count(rapid.IntRange(0, 9).Draw(t, "H200"))},
					Members:  Members{Pods: i},
					Pending:  cards{"H800": 1},
					MilliCPU: int64(i),
					Summary: waiting.Summary{
						BlockedTotal: i,
						Blocked:      blockedList(name, i),
						Local:        map[string]waiting.Entries{"lab": {Total: i, Blocked: blockedList(name, i)}},
					},
				}
			}
		}

		tree := quota.ResolveTree(written)
		before := fmt.Sprintf("%+v", used)
		sums := Sum(used, tree, func(queue string) bool { return hasViews[queue] })

		check.Must(t, fmt.Sprintf("%+v", used) == before, "the given usage changed: %+v, before %s", used, before)
		for _, name := range names {
			var h200, h800 card.Count
			var milliCPU int64
			total := 0
			for _, queue := range parents.Subtree(name) {
				h200 += used[queue].Used["H200"]
				h800 += used[queue].Pending["H800"]
				milliCPU += used[queue].MilliCPU
				total += used[queue].BlockedTotal
			}

			got := sums[name]
			check.Equal(t, name+": used, pending, millicores and number of blocked", fmt.Sprint(h200, h800, milliCPU, total),
				fmt.Sprint(got.Used["H200"], got.Pending["H800"], got.MilliCPU, got.BlockedTotal))
			check.Equal(t, name+": listed blocked", min(total, waiting.MaxBlocked), len(got.Blocked))
			check.Must(t, slices.IsSortedFunc(got.Blocked, waiting.CompareBlocked), "%s lists its blocked out of order", name)

			local := got.Local["lab"]
			if !hasViews[name] { // tenants do not see the queues below
				total = used[name].BlockedTotal
			}

			check.Equal(t, name+": number of blocked in lab", total, local.Total)
			check.Equal(t, name+": listed blocked in lab", min(total, waiting.MaxBlocked), len(local.Blocked))
			check.Must(t, slices.IsSortedFunc(local.Blocked, waiting.CompareBlocked), "%s lists its blocked in lab out of order", name)
			check.Equal(t, name+": members", used[name].Members, got.Members)
		}
	})
}

// blockedList is a list of up to ten blocked workloads, the longest waiting first.
func blockedList(name string, count int) []v1alpha1.BlockedStatus {
	var list []v1alpha1.BlockedStatus
	for i := range count {
		list = append(list, v1alpha1.BlockedStatus{Workload: v1alpha1.WorkloadReference{Name: fmt.Sprint(name, i)}, Count: 1})
	}
	return list
}

// newWideTree returns a tree of one tenant with projects in namespaces of their own, and what they
// use.
func newWideTree(projects int, waits bool) (*quota.Tree, map[string]Usage) {
	parents := map[string]string{}
	used := map[string]Usage{}
	for i := range projects {
		name := fmt.Sprint("project", i)
		parents[name] = "tenant"
		usage := Usage{Used: cards{"H200": 1}, Pending: cards{"H200": 1}}
		if waits {
			usage.Summary = waiting.Summary{
				BlockedTotal: 1,
				Blocked:      blockedList(name, 1),
				Local:        map[string]waiting.Entries{name: {Total: 1, Blocked: blockedList(name, 1)}},
			}
		}
		used[name] = usage
	}

	return treeOfParents(parents), used
}

// TestSumsGrowWithTheQueues: a tenant has 500 projects, and then 1000. In each project a pod waits, in a namespace of
// its own. The sum over twice as many projects needs about twice the memory, and less than three times.
func TestSumsGrowWithTheQueues(t *testing.T) {
	expectLinearGrowth(t, 500, func(queues int) func() {
		tree, used := newWideTree(queues, true)
		return func() {
			sum := Sum(used, tree, tree.Has)["tenant"]
			check.Must(t, len(sum.Local) == queues && sum.BlockedTotal == queues, "%d of %d namespaces, %d wait", len(sum.Local), queues,
				sum.BlockedTotal)
		}
	})
}

// BenchmarkTreeOfQueues sums up a tenant with 10,000 projects, and asks for the queues below each.
func BenchmarkTreeOfQueues(b *testing.B) {
	for _, waits := range []bool{false, true} {
		tree, used := newWideTree(10_000, waits)
		b.Run(fmt.Sprint("sum, waiting ", waits), func(b *testing.B) {
			for b.Loop() {
				Sum(used, tree, tree.Has)
			}
		})
	}

	tree, used := newWideTree(10_000, false)
	b.Run("below", func(b *testing.B) {
		for b.Loop() {
			for queue := range used {
				tree.Below(queue)
			}
		}
	})
}
