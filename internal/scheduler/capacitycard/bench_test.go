package capacitycard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// newFleet opens a session on a cluster of some size, with the listers of a running scheduler. Each node has 64 cards
// of one of the models. Each pod is of a gang of eight and requests one card. One gang of ten is pending, the others
// run.
func newFleet(t testing.TB, nodes, pods, queues, models int) *scene {
	s := &scene{Cluster: session.New(""), t: t, m: NewCache()}
	var quota []string
	for m := range models {
		quota = append(quota, fmt.Sprintf(`"MODEL-%d":1000`, m))
	}

	for i := range nodes {
		s.addObjects(fmt.Sprintf("node node-%d model=MODEL-%d cards=64", i, i%models))
		node := s.Nodes[i].Status.Allocatable
		node["pods"] = amount("1000")
		node["cpu"] = amount("1000")
	}

	for i := range queues {
		s.addObjects(fmt.Sprintf("queue queue-%d quota={%s} cpu=100000", i, strings.Join(quota, ",")))
		s.Queues[i].Spec.Capability["memory"] = amount("1000Ti")
		s.Queues[i].Spec.Capability[gpu] = amount("100000")
	}

	for i := range pods / 8 {
		at := fmt.Sprintf("running=node-%d*8", i%nodes)
		if i%10 == 0 {
			at = "pending=8"
		}
		s.addObjects(fmt.Sprintf("job job-%d queue=queue-%d min=8 %s card=MODEL-%d minCards=8", i, i%queues, at, i%models))
	}

	s.Begin()
	s.Ssn = framework.OpenSession(s.Cache, nil, nil)
	informers := s.Ssn.InformerFactory().Core().V1()
	for _, node := range s.Ssn.Nodes {
		check.NoError(t, informers.Nodes().Informer().GetIndexer().Add(node.Node))
	}

	for _, job := range s.Ssn.Jobs {
		for _, task := range job.Tasks {
			check.NoError(t, informers.Pods().Informer().GetIndexer().Add(task.Pod))
		}
	}

	return s
}

// mostOfFits is what a hook that accepts a pod may cost at most, as a multiple of one check of the quota.
const mostOfFits = 3.5

// BenchmarkGates measures the hook allocatable, which Volcano calls for each pod, and the hook predicate, for each pod and
// node, in turns with the check of the ledger that both contain. It fails if a call that accepts the pod allocates memory,
// or costs more than mostOfFits. Job-0 requests cards of MODEL-0, which node-0 has and node-1 has not.
func BenchmarkGates(b *testing.B) {
	s := newFleet(b, 100, 1000, 10, 4)
	p := s.reopen().p

	// Volcano calls it before it searches a node for a pod.
	check.NoError(b, p.nodes.prePredicate(s.Task("job-0-0")))
	task := s.Task("job-0-0")
	node := s.Ssn.Nodes["node-0"]
	other := s.Ssn.Nodes["node-1"]
	queue := s.Ssn.Queues["queue-0"]
	request := p.RequestFor(task).Request
	check.Must(b, p.allocation.allocatable(queue, task), "allocatable refuses the pod")
	check.NoError(b, p.nodes.predicate(task, node))
	check.Must(b, p.nodes.predicate(task, other) != nil, "predicate accepts node-1")

	for _, gate := range []struct {
		name      string
		call      func()
		isLimited bool
	}{
		{"predicate-permits", func() { _ = p.nodes.predicate(task, node) }, true},
		{"predicate-refuses", func() { _ = p.nodes.predicate(task, other) }, false},
		{"allocatable-permits", func() { _ = p.allocation.allocatable(queue, task) }, true},
	} {
		b.Run(gate.name, func(b *testing.B) {
			const batches = 1001
			var took, fits []time.Duration
			for range batches {
				took = append(took, timeOfCall(gate.call))
				fits = append(fits, timeOfCall(func() { _ = p.Ledger.Fits("queue-0", request, quota.Within{}) }))
			}

			// Other work on the machine only slows, so the fast batches of both are compared.
			ratio := quantile(took, .1) / quantile(fits, .1)
			allocs := testing.AllocsPerRun(1000, gate.call)
			b.ReportMetric(quantile(took, .5), "ns/op")
			b.ReportMetric(quantile(took, .1), "ns-p10")
			b.ReportMetric(quantile(took, .9), "ns-p90")
			b.ReportMetric(allocs, "allocs/op")
			b.ReportMetric(ratio, "fits-ratio")
			isWithinLimits := ratio <= mostOfFits && allocs == 0
			check.That(b, !gate.isLimited || isWithinLimits, "%.2f checks of the quota and %v allocations a call, at most %v and none are allowed", ratio, allocs, mostOfFits)
		})
	}
}

// timeOfCall returns the time of one call, of 2,000 in a row.
func timeOfCall(call func()) time.Duration {
	const calls = 2000
	began := time.Now()
	for range calls {
		call()
	}
	return time.Since(began) / calls
}
