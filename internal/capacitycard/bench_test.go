package capacitycard

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// fleet is a cluster of some size: every node has eight cards of one of the
// models, every pod asks for one, nine of ten are running.
func fleet(nodes, pods, queues, models int) *uthelper.TestCommonStruct {
	world := &uthelper.TestCommonStruct{}
	model := func(i int) string { return fmt.Sprintf("MODEL-%d", i%models) }
	for i := range nodes {
		world.Nodes = append(world.Nodes, cardNode(fmt.Sprintf("node-%d", i), model(i)))
		world.Nodes[i].Status.Allocatable[gpu] = resource.MustParse("64")
		world.Nodes[i].Status.Allocatable["pods"] = resource.MustParse("1000")
		world.Nodes[i].Status.Allocatable["cpu"] = resource.MustParse("1000")
	}
	for i := range queues {
		quota := "{"
		for m := range models {
			quota += fmt.Sprintf("%q:1000,", model(m))
		}
		q := quotaQueue(fmt.Sprintf("queue-%d", i), quota[:len(quota)-1]+"}")
		q.UID = types.UID(q.Name)
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("100000"), "memory": resource.MustParse("1000Ti"), gpu: resource.MustParse("100000")}
		world.Queues = append(world.Queues, q)
	}
	const gang = 8
	for i := range pods / gang {
		name := fmt.Sprintf("job-%d", i)
		running := i%10 != 0
		phase := v1beta1.PodGroupInqueue
		if running {
			phase = v1beta1.PodGroupRunning
		}
		waits := group(name, fmt.Sprintf("queue-%d", i%queues), gang, phase, "8")
		waits.UID = types.UID(name) // as the API server gives one: what is remembered of a group is by UID
		world.PodGroups = append(world.PodGroups, waits)
		for j := range gang {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("%s-%d", name, j), UID: types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", i, j)),
					Annotations: map[string]string{"scheduling.k8s.io/group-name": name, "volcano.sh/card.name": model(i)}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), gpu: resource.MustParse("1")}}}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending},
			}
			if running {
				pod.Spec.NodeName = fmt.Sprintf("node-%d", i%nodes)
				pod.Status.Phase = corev1.PodRunning
			}
			world.Pods = append(world.Pods, pod)
		}
	}
	return world
}

// openFleet opens a session on a fleet whose listers know what the session
// does, as those of a running scheduler do.
func openFleet(b *testing.B, nodes, pods, queues, models int) *framework.Session {
	ssn := fleet(nodes, pods, queues, models).RegisterSession(nil, nil)
	informers := ssn.InformerFactory().Core().V1()
	for _, node := range ssn.Nodes {
		if err := informers.Nodes().Informer().GetIndexer().Add(node.Node); err != nil {
			b.Fatal(err)
		}
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			if err := informers.Pods().Informer().GetIndexer().Add(task.Pod); err != nil {
				b.Fatal(err)
			}
		}
	}
	return ssn
}

// BenchmarkGates measures what is asked once for a pod (allocatable) and once
// for every pod and node (predicate). It fails when a gate that permits takes
// longer than it may, by the median of batches, or allocates.
func BenchmarkGates(b *testing.B) {
	ssn := openFleet(b, 100, 1000, 10, 4)
	process = newMemory()
	p := New(nil).(*plugin)
	p.OnSessionOpen(ssn)
	var task *api.TaskInfo
	for _, t := range ssn.Jobs["ns/job-0"].Tasks {
		task = t
	}
	node, other, queue := ssn.Nodes["node-0"], ssn.Nodes["node-1"], ssn.Queues["queue-0"]
	if !p.allocatable(queue, task) || p.predicate(task, node) != nil || p.predicate(task, other) == nil {
		b.Fatal("the gates do not answer as they should")
	}
	for _, gate := range []struct {
		name string
		ask  func()
		most time.Duration // 0 for no limit
	}{
		{"predicate-permits", func() { _ = p.predicate(task, node) }, 200 * time.Nanosecond},
		{"predicate-refuses", func() { _ = p.predicate(task, other) }, 0},
		{"allocatable-permits", func() { _ = p.allocatable(queue, task) }, 500 * time.Nanosecond},
	} {
		b.Run(gate.name, func(b *testing.B) {
			const batches, calls = 21, 100_000
			var took []time.Duration
			for range batches {
				began := time.Now()
				for range calls {
					gate.ask()
				}
				took = append(took, time.Since(began)/calls)
			}
			median, allocs := quantile(took, .5), testing.AllocsPerRun(1000, gate.ask)
			b.ReportMetric(median, "ns/op")
			b.ReportMetric(quantile(took, .1), "ns-p10")
			b.ReportMetric(quantile(took, .9), "ns-p90")
			b.ReportMetric(allocs, "allocs/op")
			if gate.most > 0 && (median > float64(gate.most) || allocs > 0) {
				b.Errorf("%v ns and %v allocations a call, at most %v and none are allowed", median, allocs, gate.most)
			}
		})
	}
}
