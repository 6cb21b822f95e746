package capacitycard

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// mostTreeTime is what a session with a tree may cost at most, as a part of what it costs with
// the same queues side by side.
const mostTreeTime = 1.3

// treeLevels is how many queues each level of the benchmark's tree has, 1,000 together.
var treeLevels = []int{4, 20, 100, 876}

// deservedByLevel is how many cards of each model a queue of each level deserves.
var deservedByLevel = []int{100_000, 10_000, 1000, 1}

// treeGuarantees is how many cards of each model a queue of each level is guaranteed: as many as those below
// it together at least, and less than the nodes have. With more, the tree would refuse the waiting jobs that
// flat queues accept, and the two sides would do different work.
var treeGuarantees = []int{300, 60, 10, 1}

// BenchmarkTree compares opening and closing a session with the same 1,000 queues, flat and in a tree of four levels.
// It fails when the tree costs more than 1.3 times the time (mostTreeTime).
func BenchmarkTree(b *testing.B) {
	const (
		nodes = 1000
		pods  = 10_000
	)

	leaves := treeLevels[len(treeLevels)-1]
	for _, state := range []struct {
		name   string
		before func(*scene)
	}{
		{"unchanged", func(*scene) {}},
		{"churn", func(s *scene) { renewEveryNth(s, 100) }},                                 // every hundredth pod is new
		{"limits", func(s *scene) { s.m.ForgetQueues(func(string) bool { return false }) }}, // the quotas of all queues are read again
	} {
		b.Run(state.name, func(b *testing.B) {
			flat := newFleet(b, nodes, pods, leaves, 20)
			tree := newFleet(b, nodes, pods, leaves, 20)
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

			compareWithTree(b, sides, "a session with a tree")
		})
	}
}

// compareWithTree reports what flat queues and a tree cost, without their first rounds. It fails when the tree
// costs more than it may.
func compareWithTree(b *testing.B, sides [2]*side, what string) {
	b.ReportMetric(0, "ns/op")
	for k, name := range []string{"flat", "tree"} {
		reportQuantiles(b, name+"-ms", sides[k].times[1:], 1e6)
		b.ReportMetric(quantile(sides[k].allocs[1:], .5), name+"-allocs")
	}

	ratio := quantile(sides[1].times[1:], .5) / quantile(sides[0].times[1:], .5)
	b.ReportMetric(ratio, "tree-ratio")
	check.That(b, ratio <= mostTreeTime, "%s costs %.2f of the time that it costs with flat queues, at most %.2f is allowed", what, ratio, mostTreeTime)
}

// The cluster of BenchmarkTreeAllocate: so many queues have a quota of each card, and so many jobs of
// each wait for a card of which the queue has none left.
const (
	allocateQueues  = 1000
	allocateTenants = 31
	allocateCards   = 64
	allocateJobs    = 10
)

// BenchmarkTreeAllocate compares the action allocate with flat queues and with the same queues in a
// tree, when quota refuses 10,000 waiting jobs. The order of queues reads many cards for each job. It
// fails when the tree costs more than 1.3 times the processor time (mostTreeTime).
func BenchmarkTreeAllocate(b *testing.B) {
	scenes := [2]*scene{allocateScene(b, false), allocateScene(b, true)}
	sides := [2]*side{{}, {}}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	for range max(b.N, 11) + 1 {
		for k, s := range scenes {
			s.openSession()
			runtime.GC()
			sides[k].measure(func() time.Duration { return check.ProcessorTime(b) }, func() { s.allocate() })
			s.Close()
		}
	}

	compareWithTree(b, sides, "allocate in a tree, in processor time,")
}

// allocateScene returns the cluster of BenchmarkTreeAllocate.
func allocateScene(t testing.TB, isTree bool) *scene {
	cards := func(count int) string {
		amounts := make([]string, allocateCards)
		for k := range amounts {
			amounts[k] = fmt.Sprintf(`"A%d":%d`, k, count)
		}
		return "{" + strings.Join(amounts, ",") + "}"
	}

	one := cards(1)
	all := cards(100)
	var text strings.Builder
	for k := range allocateCards {
		fmt.Fprintf(&text, "node n%d model=A%d cards=1000;", k, k)
	}

	for p := range allocateTenants {
		fmt.Fprintf(&text, "queue p%d quota=%s;", p, all)
	}

	for q := range allocateQueues {
		fmt.Fprintf(&text, "queue q%d quota=%s serviceType=training deserved=%s", q, one, one)
		if isTree {
			fmt.Fprintf(&text, " parent=p%d", q%allocateTenants)
		}

		fmt.Fprintf(&text, "; job r%d queue=q%d min=1 running=n%d card=A%d;", q, q, q%allocateCards, q%allocateCards)
		for j := range allocateJobs {
			fmt.Fprintf(&text, "job w%d-%d queue=q%d min=1 pending=1 card=A%d phase=Inqueue minCards=1;", q, j, q, q%allocateCards)
		}
	}

	text.WriteString(`queue own quota={"A0":10} serviceType=training; job f queue=own min=1 pending=1 card=A0`)
	s := newScene(t, text.String())
	for _, node := range s.Nodes {
		node.Status.Allocatable["pods"] = amount("2000")
		node.Status.Allocatable["cpu"] = amount("5000")
		node.Status.Allocatable["memory"] = amount("10Ti")
	}

	args := framework.Arguments{"cardUnlimitedCpuMemory": true}
	if isTree {
		args["queueHierarchy"] = string(v1alpha1.QueueHierarchyTree)
	}

	return s.withArguments(args)
}

// addParents adds the queues of the upper levels to a session of newFleet, and puts the queues below each other if they
// form a tree. Every queue has a guarantee of each model.
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
				parent.Name = string(id)
				parent.UID = ""
				ssn.Queues[id] = api.NewQueueInfo(parent)
				ssn.Queues[id].UID = id
			}

			queue := ssn.Queues[id].Queue
			queue.Annotations[v1alpha1.AnnotationServiceType] = "training"
			queue.Annotations[v1alpha1.AnnotationCardDeserved] = cardsOfEachModel(deservedByLevel[level])
			queue.Annotations[v1alpha1.AnnotationCardGuarantee] = cardsOfEachModel(treeGuarantees[level])
			if level < len(treeLevels)-1 {
				queue.Annotations[v1alpha1.AnnotationCardQuota] = cardsOfEachModel(deservedByLevel[level])
			}

			if !isTree {
				continue
			}

			queue.Spec.Parent = "root"
			if level > 0 {
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
