//go:build !windows

package simulator

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newFleet has nodes of 8 cards and ten pods for each: Volcano jobs of 8 pods of training hold a card per pod
// on the given number of nodes, and the rest are pods without cards. There is a queue for five nodes.
func newFleet(nodes, inUse int) *simulation.Cluster {
	pods := 10 * nodes
	queues := nodes / 5
	gives := true
	began := metav1.NewTime(time.Now().Add(-time.Hour))

	c := newCluster()
	c.Nodes = nil
	c.Pods = nil
	c.Jobs = nil
	c.PodGroups = nil
	for i := range queues {
		queue := builder.Queue(fmt.Sprintf("team-%d", i)).Quota(fmt.Sprintf(`{"NVIDIA-H200":%d}`, 8*nodes)).ServiceType("training").Capability("10k", "100Ti").Priority(20000).Obj()
		queue.Spec.Reclaimable = &gives
		c.Queues = append(c.Queues, queue)
	}

	add := func(group, queue, node string, count, cards int) {
		g := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: group, UID: types.UID(group), CreationTimestamp: began}, Spec: v1beta1.PodGroupSpec{Queue: queue, MinMember: int32(count)}}
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
				owner := metav1.OwnerReference{APIVersion: batch.SchemeGroupVersion.String(), Kind: "Job", Name: group, UID: types.UID(group), Controller: &gives}
				made.OwnerReferences = []metav1.OwnerReference{owner}
			}
			c.Pods = append(c.Pods, made)
		}

		if cards > 0 {
			job := builder.Gang("lab", group, int32(count), builder.Pod("lab", group).Scheduler("volcano").CPU("100m").Memory("64Mi").GPUs(cards).Card(h200)).Queue(queue).Obj()
			job.Status.State.Phase = batch.Running
			c.Jobs = append(c.Jobs, job)
		}
	}

	for i := range nodes {
		node := fmt.Sprintf("h200-%d", i)
		c.Nodes = append(c.Nodes, builder.Node(node).GPUs(h200, 8).Label(corev1.LabelHostname, node).Obj())
		if i < inUse {
			add("gang-"+node, fmt.Sprintf("team-%d", i%queues), node, 8, 1)
		}
	}

	for i := 0; len(c.Pods) < pods; i++ {
		add(fmt.Sprintf("web-%d", i), "default", fmt.Sprintf("h200-%d", i%nodes), 1, 0)
	}

	return c
}

// question is a gang of 8 pods with 8 cards each for a queue, and what becomes of it.
type question struct {
	name, queue     string
	full            bool
	placed, victims int
}

var questions = []question{{"fits", "team-0", false, 8, 0}, {"waits", "team-0", true, 0, 0}, {"quota", "chat", false, 0, 0}, {"reclaims", "serve", true, 8, 8}}

// BenchmarkRun measures the answers on 1,000 nodes with 10,000 pods. It fails if one is wrong.
func BenchmarkRun(b *testing.B) { benchmarkAnswers(b, 1000) }

// BenchmarkRunOnALargeCluster measures them on 5,000 nodes with 50,000 pods.
func BenchmarkRunOnALargeCluster(b *testing.B) { benchmarkAnswers(b, 5000) }

// benchmarkAnswers measures the answers on a cluster of which a tenth of the nodes, or none, is free.
func benchmarkAnswers(b *testing.B, nodes int) {
	configuration := shipped(b)
	for _, q := range questions {
		b.Run(q.name, func(b *testing.B) {
			inUse := nodes * 9 / 10
			if q.full {
				inUse = nodes
			}

			c := newFleet(nodes, inUse)
			serve := builder.Queue("serve").Quota(`{"NVIDIA-H200":64}`).ServiceType("inference").Capability("100", "1Ti").Priority(80000).Obj()
			serve.Spec.Reclaimable = ptr.To(false)
			c.Queues = append(c.Queues, serve)
			before := check.ProcessorTime(b)

			for b.Loop() {
				r := check.Value(Run(b.Context(), c, workloadsOf(c, gang("new", q.queue, 8, 8)), configuration, time.Now()))(b)
				placed := 0
				for _, p := range r.Pods {
					if p.Node != "" {
						placed++
					}
				}

				check.Must(b, placed == q.placed && len(r.Victims) == q.victims && r.IsSettled, "%d pods run, %d victims, settled %v: %+v", placed, len(r.Victims), r.IsSettled, r.Pods)

				b.ReportMetric(float64(r.Sessions), "sessions")
			}
			b.ReportMetric((check.ProcessorTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}
