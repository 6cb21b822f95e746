package usage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
)

// drawPods makes a random cluster of pods. Every choice that matters to a
// count is drawn.
func drawPods(t *rapid.T) []*corev1.Pod {
	nodes := []string{"", "h200", "h800", "4090", "4090d", "unknown"}
	phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}
	pods := make([]*corev1.Pod, rapid.IntRange(0, 40).Draw(t, "pods"))
	for i := range pods {
		b := makePod(fmt.Sprintf("p%02d", i)).
			queue(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "queue")).
			asks(rapid.SampledFrom([]string{"", "NVIDIA-H200", "NVIDIA-H200|NVIDIA-H800"}).Draw(t, "request"), rapid.Int64Range(0, 8).Draw(t, "count"))
		b.Spec.NodeName = rapid.SampledFrom(nodes).Draw(t, "node")
		b.phase(rapid.SampledFrom(phases).Draw(t, "phase"))
		if rapid.Bool().Draw(t, "deleted") {
			b.deleted()
		}
		pods[i] = b.obj()
	}
	return pods
}

func TestCountDoesNotDependOnTheOrderOfPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := drawPods(t)
		want := Count(World{Pods: pods, Inventory: fleet()})
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		if diff := cmp.Diff(want, Count(World{Pods: pods, Inventory: fleet()})); diff != "" {
			t.Fatalf("another order counts differently:\n%s", diff)
		}
	})
}

func TestCountTwiceIsTheSameAsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := World{Pods: drawPods(t), Inventory: fleet()}
		want, last := Recount(world)
		world.Last = last
		got, again := Recount(world)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the second count differs:\n%s", diff)
		}
		if diff := cmp.Diff(last, again); diff != "" {
			t.Fatalf("the second count charges differently:\n%s", diff)
		}
	})
}

// TestCountAgreesWithANaiveOne counts the plain case (known nodes, one model
// each) in the most obvious way.
func TestCountAgreesWithANaiveOne(t *testing.T) {
	models := map[string]card.Name{"h200": "NVIDIA-H200", "h800": "NVIDIA-H800",
		"4090": "NVIDIA-GeForce-RTX-4090", "4090d": "NVIDIA-GeForce-RTX-4090-D"}
	rapid.Check(t, func(t *rapid.T) {
		pods := drawPods(t)
		want := map[string]cards{}
		kept := pods[:0]
		for _, pod := range pods {
			if pod.Spec.NodeName == "unknown" {
				continue
			}
			kept = append(kept, pod)
			queue := pod.Annotations["scheduling.volcano.sh/queue-name"]
			count := pod.Spec.Containers[0].Resources.Requests[gpu]
			alive := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning
			if queue == "" || pod.Spec.NodeName == "" || !alive || pod.DeletionTimestamp != nil || count.IsZero() {
				continue
			}
			if want[queue] == nil {
				want[queue] = cards{}
			}
			want[queue][models[pod.Spec.NodeName]] += card.Count(count.Value())
		}
		got := map[string]cards{}
		for name, queue := range Count(World{Pods: kept, Inventory: fleet()}) {
			if len(queue.Used) > 0 {
				got[name] = queue.Used
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("use differs (-naive +count):\n%s", diff)
		}
	})
}

func TestCountSurvivesAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := makePod("a").queue(rapid.String().Draw(t, "queue")).asks(rapid.String().Draw(t, "request"), rapid.Int64().Draw(t, "count")).
			group(rapid.String().Draw(t, "group")).on(rapid.SampledFrom([]string{"", "h200"}).Draw(t, "node")).obj()
		group := makeGroup(rapid.String().Draw(t, "name"), rapid.String().Draw(t, "in")).request(rapid.String().Draw(t, "totals")).
			minResources(gpu, rapid.Int64().Draw(t, "min")).obj()
		for name, queue := range Count(World{Pods: []*corev1.Pod{pod}, PodGroups: []*v1beta1.PodGroup{group}, Inventory: fleet()}) {
			for of, count := range queue.Used {
				if count < 0 {
					t.Fatalf("queue %q uses %d of %s", name, count, of)
				}
			}
		}
	})
}
