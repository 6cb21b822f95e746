package queueusage

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// BenchmarkCountUsage counts 10,000 pods of 200 queues, a tenth of them waiting,
// in gangs of 8. The operator counts at most once a second; 20 ms are 2% of a
// core. Measured on a shared 2-core machine: 10 ms of CPU, 23 to 30 ms of wall
// clock while it was busy otherwise.
func BenchmarkCountUsage(b *testing.B) {
	nodes := []string{"h200", "h800", "4090", "4090d"}
	scene := Input{Inventory: newInventory()}
	for i := range 10_000 {
		pod := builder.Pod("lab", fmt.Sprint("p", i)).PodGroup(fmt.Sprint("g", i/8)).GPUs(1).CPU("8").Memory("64Gi")
		if i%10 == 0 {
			pod.Unschedulable("full")
		} else {
			pod.Running(nodes[i%4])
		}

		scene.Pods = append(scene.Pods, pod.Obj())
		if i%8 == 0 {
			scene.PodGroups = append(scene.PodGroups, builder.PodGroup("lab", fmt.Sprint("g", i/8)).
				Queue(fmt.Sprint("q", i%200)).Phase(v1beta1.PodGroupRunning).Obj())
		}
	}

	scene.Facts = &PodFacts{}
	_, scene.LastCharges = CountWithCharges(scene)
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, len(Count(scene)) > 0, "nothing was counted")
	}
}

// BenchmarkCountUnchanged counts 50,000 pods of 1,000 queues again, of which none changed: 5,000 nodes
// with 20 models, a fifth of the pods waits.
func BenchmarkCountUnchanged(b *testing.B) {
	const (
		models = 20
		nodes  = 5000
		queues = 1000
		pods   = 50_000
		gang   = 8
	)

	cards := map[string]card.Node{}
	for i := range nodes {
		name := card.Name(fmt.Sprint("NVIDIA-BENCH-", i%models))
		cards[fmt.Sprint("node-", i)] = card.Node{Model: string(name), Cards: []card.NodeCard{{Name: name, Resource: gpu, Count: 8}}}
	}

	scene := Input{Inventory: card.NewInventory(cards), Schedulers: []string{"volcano"}, Facts: &PodFacts{}}
	for i := range pods {
		group := i / gang
		pod := builder.Pod("lab", fmt.Sprint("pod-", i)).UID(types.UID(fmt.Sprintf("8d1f2c3e-0000-4000-8000-%012d", i))).
			PodGroup(fmt.Sprint("gang-", group)).GPUs(1).CPU("8").Memory("64Gi").
			Card(fmt.Sprint("NVIDIA-BENCH-", group%models)).Owner("batch.volcano.sh/v1alpha1", "Job", fmt.Sprint("job-", group))
		if group%5 == 0 {
			pod.Unschedulable("full")
		} else {
			pod.Running(fmt.Sprint("node-", i%nodes))
		}

		scene.Pods = append(scene.Pods, pod.Obj())
		if i%gang == 0 {
			scene.PodGroups = append(scene.PodGroups, builder.PodGroup("lab", fmt.Sprint("gang-", group)).
				Queue(fmt.Sprint("queue-", group%queues)).Phase(v1beta1.PodGroupRunning).Obj())
		}
	}

	b.ReportAllocs()
	for b.Loop() {
		_, scene.LastCharges = CountWithCharges(scene)
	}
}

// BenchmarkWaitingGang counts a gang of 10,000 waiting pods on 5,000 nodes, of which one has its place. Measured
// on a shared 2-core machine: 35 ms, and more than a second if each pod looks at every node.
func BenchmarkWaitingGang(b *testing.B) {
	const (
		nodes = 5_000
		pods  = 10_000
		most  = 200 * time.Millisecond
	)

	tracker := &card.Tracker{}
	for i := range nodes {
		tracker.Update(builder.Node(fmt.Sprintf("h200-%04d", i)).GPUs("NVIDIA-H200", 8).Obj())
	}

	scene := Input{
		Inventory: tracker.Inventory(),
		Nodes:     tracker.Nodes(),
		Quotas:    map[string]card.Quota{"q": {"NVIDIA-H200": 2 * pods}},
		Facts:     &PodFacts{},
	}
	for i := range pods {
		message := "0/5000 nodes are unavailable: 5000 Insufficient nvidia.com/gpu."
		if i == 0 {
			message = "pod group is not ready, 10000 Pending, 10000 minAvailable; Pending: 1 Unschedulable; lab/w-0 can " +
				"possibly be assigned to h200-0000, once minAvailable is satisfied"
		}
		scene.Pods = append(scene.Pods, builder.Pod("lab", fmt.Sprint("w-", i)).Queue("q").Card("NVIDIA-H200").GPUs(8).
			Owner("batch.volcano.sh/v1alpha1", "Job", "train").Unschedulable(message).Obj())
	}

	Count(scene)
	check.Fastest(b, most, func() { Count(scene) })
}
