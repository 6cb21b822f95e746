//go:build !windows

package simulator

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newFleet has nodes of 8 cards and ten pods for each. Volcano jobs of training, with 8 pods of one card, use all cards
// on so many nodes. The rest are pods without cards. There is a queue for five nodes.
func newFleet(nodes, inUse int) *simulation.Cluster {
	pods := 10 * nodes
	queues := nodes / 5
	began := metav1.NewTime(time.Now().Add(-time.Hour))

	c := newClusterWithOneFullNode()
	c.Nodes = nil
	c.Pods = nil
	c.Jobs = nil
	c.PodGroups = nil
	for i := range queues {
		quota := fmt.Sprintf(`{"NVIDIA-H200":%d}`, 8*nodes)
		queue := builder.Queue(fmt.Sprintf("team-%d", i)).Quota(quota).ServiceType("training").Capability("10k", "100Ti").Priority(20000).Obj()
		queue.Spec.Reclaimable = ptr.To(true)
		c.Queues = append(c.Queues, queue)
	}

	add := func(group, queue, node string, count, cards int) {
		g := builder.PodGroup("lab", group).UID(types.UID(group)).Queue(queue).MinMember(int32(count)).Obj()
		g.CreationTimestamp = began
		g.Status.Phase = v1beta1.PodGroupRunning
		c.PodGroups = append(c.PodGroups, g)
		for i := range count {
			pod := builder.Pod("lab", fmt.Sprintf("%s-worker-%d", group, i)).Scheduler("volcano").CPU("100m").Memory("64Mi").PodGroup(group).Running(node)
			if cards > 0 {
				pod.GPUs(cards).Card(h200)
			}

			made := pod.Obj()
			made.Status.StartTime = &began
			if cards > 0 {
				made.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: batch.SchemeGroupVersion.String(), Kind: "Job", Name: group, UID: types.UID(group), Controller: ptr.To(true),
				}}
			}
			c.Pods = append(c.Pods, made)
		}

		if cards > 0 {
			job := builder.Gang("lab", group, int32(count), newPod(group, cards).CPU("100m").Memory("64Mi")).Queue(queue).Obj()
			job.Status.State.Phase = batch.Running
			c.Jobs = append(c.Jobs, job)
		}
	}

	for i := range nodes {
		node := fmt.Sprintf("h200-%d", i)
		c.Nodes = append(c.Nodes, newNode(node, 8))
		if i < inUse {
			add("gang-"+node, fmt.Sprintf("team-%d", i%queues), node, 8, 1)
		}
	}

	for i := 0; len(c.Pods) < pods; i++ {
		add(fmt.Sprintf("web-%d", i), "default", fmt.Sprintf("h200-%d", i%nodes), 1, 0)
	}

	return c
}

// BenchmarkRun measures the answers of whatif on 1,000 nodes with 10,000 pods. It fails if an answer is wrong.
func BenchmarkRun(b *testing.B) { benchmarkAnswers(b, 1000) }

// BenchmarkRunOnALargeCluster measures the answers of whatif on 5,000 nodes with 50,000 pods. It fails if one is wrong.
func BenchmarkRunOnALargeCluster(b *testing.B) { benchmarkAnswers(b, 5000) }

// benchmarkAnswers asks about a gang of 8 pods with 8 cards each, in clusters of which a tenth of the nodes, or none,
// is free. Queue team-0 is of training. Queue chat has a quota of 12 cards, too little for the gang. Queue serve of
// inference has 64 and reclaims.
func benchmarkAnswers(b *testing.B, nodes int) {
	configuration := readShippedConfiguration(b)

	for _, tc := range []struct {
		name, queue             string
		isFull                  bool
		wantPlaced, wantVictims int
	}{
		{name: "fits", queue: "team-0", wantPlaced: 8},
		{name: "waits", queue: "team-0", isFull: true},
		{name: "quota", queue: "chat"},
		{name: "reclaims", queue: "serve", isFull: true, wantPlaced: 8, wantVictims: 8},
	} {
		b.Run(tc.name, func(b *testing.B) {
			inUse := nodes * 9 / 10
			if tc.isFull {
				inUse = nodes
			}

			c := newFleet(nodes, inUse)
			serve := builder.Queue("serve").Quota(`{"NVIDIA-H200":64}`).ServiceType("inference").Capability("100", "1Ti").Priority(80000).Obj()
			serve.Spec.Reclaimable = ptr.To(false)
			c.Queues = append(c.Queues, serve)
			before := check.ProcessorTime(b)

			for b.Loop() {
				r := check.Value(Run(b.Context(), c, workloadsOf(c, newGang("new", tc.queue, 8, 8)), configuration, time.Now()))(b)
				placed := 0
				for _, p := range r.Pods {
					if p.Node != "" {
						placed++
					}
				}

				check.That(b, r.IsSettled, "not settled after %d sessions", r.Sessions)
				check.Equal(b, "placed pods", tc.wantPlaced, placed)
				check.Equal(b, "victims", tc.wantVictims, len(r.Victims))
				b.ReportMetric(float64(r.Sessions), "sessions")
			}
			b.ReportMetric((check.ProcessorTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// BenchmarkNodeRefusals measures what why asks about one pod on 5,000 nodes with 50,000 pods. It fails if the answer is
// wrong: a pod of zone a, which one node has.
func BenchmarkNodeRefusals(b *testing.B) {
	const nodes = 5000
	c := newFleet(nodes, nodes/2)
	c.Nodes[0].Labels["zone"] = "a"
	waiting := newPod("new", 1).PodGroup("new").Obj()
	waiting.Spec.NodeSelector = map[string]string{"zone": "a"}
	c.Pods = append(c.Pods, waiting)
	c.PodGroups = nil
	before := check.ProcessorTime(b)

	for b.Loop() {
		check.Equal(b, "refusals", nodes-1, len(check.Value(NodeRefusals(c, waiting, time.Now()))(b)))
	}

	b.ReportMetric((check.ProcessorTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}
