package capacitycard

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
)

// mostTreeTime is what a session with a tree may cost at most, as a part of what it costs with
// the same queues side by side.
const mostTreeTime = 1.3

// treeLevels is how many queues each level of the benchmark's tree has, 1,000 together.
var treeLevels = []int{4, 20, 100, 876}

// treeShares is how many cards of each model a queue of each level deserves and is guaranteed.
var treeShares = []int{100_000, 10_000, 1000, 1}

// BenchmarkTree compares sessions of the same 1,000 queues flat and in a tree of four levels:
// opening and closing a session, and the checks of one pod of each leaf. It fails when the tree
// costs more than it may.
func BenchmarkTree(b *testing.B) {
	const nodes, pods = 1000, 10_000
	leaves := treeLevels[len(treeLevels)-1]
	for _, state := range []struct {
		name   string
		before func(*scene)
	}{
		{"unchanged", func(*scene) {}},
		{"churn", func(s *scene) { forgetEveryNth(s.m, 100) }},
		{"limits", func(s *scene) { s.m.queues = map[string]cachedQueue{} }},
	} {
		b.Run(state.name, func(b *testing.B) {
			flat, tree := newFleet(b, nodes, pods, leaves, 20), newFleet(b, nodes, pods, leaves, 20)
			addParents(flat.Ssn, false)
			addParents(tree.Ssn, true)
			scenes := [2]*scene{flat, tree}
			sides := [2]*side{
				{open: func() framework.Plugin { return buildPlugin(flat.m, nil) }},
				{open: func() framework.Plugin {
					return buildPlugin(tree.m, framework.Arguments{"queueHierarchy": string(v1alpha1.QueueHierarchyTree)})
				}},
			}
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			for i := range max(b.N, 101) + 1 {
				if i%5 == 0 {
					runtime.GC()
				}
				for k, s := range scenes {
					if i > 0 {
						state.before(s)
					}
					sides[k].round(s.Ssn)
				}
			}
			for _, s := range sides {
				s.times, s.allocs = s.times[1:], s.allocs[1:]
			}
			b.ReportMetric(0, "ns/op")
			for k, name := range []string{"flat", "tree"} {
				b.ReportMetric(quantile(sides[k].times, .5)/1e6, name+"-ms")
				b.ReportMetric(quantile(sides[k].times, .1)/1e6, name+"-ms-p10")
				b.ReportMetric(quantile(sides[k].times, .9)/1e6, name+"-ms-p90")
				b.ReportMetric(quantile(sides[k].allocs, .5), name+"-allocs")
			}
			ratio := quantile(sides[1].times, .5) / quantile(sides[0].times, .5)
			b.ReportMetric(ratio, "tree-ratio")
			if ratio > mostTreeTime {
				b.Errorf("a session with a tree costs %.2f of the time that it costs with flat queues, at most %.2f is allowed", ratio, mostTreeTime)
			}
		})
	}
}

// addParents adds the queues of the upper levels to a session of newFleet, and puts the queues
// below each other if they form a tree. Every
// queue has a guarantee of each model.
func addParents(ssn *framework.Session, isTree bool) {
	name := func(level, i int) string {
		if level == len(treeLevels)-1 {
			return fmt.Sprintf("queue-%d", i)
		}
		return fmt.Sprintf("level-%d-%d", level, i)
	}
	leaf := ssn.Queues["queue-0"].Queue
	for level, count := range treeLevels {
		for i := range count {
			id := api.QueueID(name(level, i))
			if ssn.Queues[id] == nil {
				parent := leaf.DeepCopy()
				parent.Name, parent.UID = string(id), ""
				ssn.Queues[id] = api.NewQueueInfo(parent)
				ssn.Queues[id].UID = id
			}
			queue := ssn.Queues[id].Queue
			queue.Annotations[v1alpha1.AnnotationServiceType] = "training"
			queue.Annotations[v1alpha1.AnnotationCardDeserved] = cardsOfEachModel(treeShares[level])
			queue.Annotations[v1alpha1.AnnotationCardGuarantee] = cardsOfEachModel(treeShares[level])
			if level < len(treeLevels)-1 {
				queue.Annotations[v1alpha1.AnnotationCardQuota] = cardsOfEachModel(treeShares[level])
			}
			if !isTree {
				continue
			}
			if queue.Spec.Parent = "root"; level > 0 {
				queue.Spec.Parent = name(level-1, i*treeLevels[level-1]/count)
			}
		}
	}
}

// cardsOfEachModel returns an annotation with so many cards of each model of the fleet.
func cardsOfEachModel(count int) string {
	var entries []string
	for m := range 20 {
		entries = append(entries, fmt.Sprintf(`"MODEL-%d":%d`, m, count))
	}
	return "{" + strings.Join(entries, ",") + "}"
}
