package queueusage

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawPods draws up to 40 pods of queues a, b and c: with or without a node, a deletion, a card name and cards, in
// any phase.
func drawPods(t *rapid.T) []*corev1.Pod {
	nodes := []string{"", "h200", "h800", "4090", "4090d", "unknown"}
	phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}
	pods := make([]*corev1.Pod, rapid.IntRange(0, 40).Draw(t, "pods"))
	for i := range pods {
		b := builder.Pod("lab", fmt.Sprintf("p%02d", i)).
			Annotation("scheduling.volcano.sh/queue-name", rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "queue")).
			Card(rapid.SampledFrom([]string{"", "NVIDIA-H200", "NVIDIA-H200|NVIDIA-H800"}).Draw(t, "request")).
			GPUs(rapid.IntRange(0, 8).Draw(t, "count")).
			Node(rapid.SampledFrom(nodes).Draw(t, "node")).Phase(rapid.SampledFrom(phases).Draw(t, "phase"))

		if rapid.Bool().Draw(t, "deleted") {
			b.Deleted(noon)
		}
		pods[i] = b.Obj()
	}

	return pods
}

// TestCountDoesNotDependOnTheOrderOfPods: watches list pods in any order. So the usage of random pods is the same
// when the pods come in another random order.
func TestCountDoesNotDependOnTheOrderOfPods(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		pods := drawPods(t)
		want := Count(Input{Pods: pods, Inventory: newInventory()})
		pods = rapid.Permutation(pods).Draw(t, "order")
		check.Equal(t, "usage in another order", want, Count(Input{Pods: pods, Inventory: newInventory()}))
	})
}

// TestCountTwiceIsTheSameAsOnce: each count gets the charges of the count before it (LastCharges), so that a pod
// stays charged when its node or PodGroup is gone. If nothing else changes, the second count has the usage and
// charges of the first.
func TestCountTwiceIsTheSameAsOnce(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		scene := Input{Pods: drawPods(t), Inventory: newInventory()}
		want, last := CountWithCharges(scene)
		scene.LastCharges = last
		got, again := CountWithCharges(scene)
		check.Equal(t, "usage of the second count", want, got)
		check.Equal(t, "charges of the second count", last, again)
	})
}

// drawPodsOfGroups makes pods of which some name a PodGroup.
func drawPodsOfGroups(t *rapid.T) []*corev1.Pod {
	pods := drawPods(t)
	for _, pod := range pods {
		if name := rapid.SampledFrom([]string{"", "g0", "g1", "g2"}).Draw(t, "group"); name != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.KubeGroupNameAnnotationKey, name)
		}
	}
	return pods
}

// drawGroups draws which of PodGroups g0, g1 and g2 exist.
func drawGroups(t *rapid.T) (groups []*v1beta1.PodGroup) {
	for i := range 3 {
		if rapid.Bool().Draw(t, "exists") {
			queue := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue")
			groups = append(groups, builder.PodGroup("lab", fmt.Sprint("g", i)).Queue(queue).Phase(v1beta1.PodGroupPending).
				MinResource(gpu, "2").Obj())
		}
	}
	return groups
}

// TestCountsWithKeptFactsAreTheSame: the operator keeps what it read from pods (PodFacts) for the next count. Between
// counts, pods, PodGroups, nodes and the names of our schedulers change at random. Each count with kept facts has the
// result of a count that reads everything again.
func TestCountsWithKeptFactsAreTheSame(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		facts := &PodFacts{}
		pods := drawPodsOfGroups(t)
		last := map[types.UID]quota.Charge(nil)

		inventories := []*card.Inventory{newInventory(), card.NewInventory(nil)}
		schedulers := [][]string{nil, {}, {"volcano"}, {"default-scheduler"}}
		for range rapid.IntRange(1, 6).Draw(t, "counts") {
			scene := Input{
				Pods:        pods,
				PodGroups:   drawGroups(t),
				Inventory:   rapid.SampledFrom(inventories).Draw(t, "nodes"),
				Schedulers:  rapid.SampledFrom(schedulers).Draw(t, "schedulers"),
				LastCharges: last,
			}
			want, wantCharges := CountWithCharges(scene)
			scene.Facts = facts
			got, charges := CountWithCharges(scene)
			check.Equal(t, "usage", want, got)
			check.Equal(t, "charges", wantCharges, charges)

			last = charges
			for i, changed := range drawPodsOfGroups(t) {
				if i < len(pods) && rapid.Bool().Draw(t, "changes") {
					pods[i] = changed
				}
			}
		}
	})
}

// TestCountEqualsASimpleSum: the simplest sum adds the cards of pods that have a queue and a node, are
// pending or running, and are not being deleted. The count of random pods equals it. Pods of node unknown are
// left out, as their card is not known. Each other node has one model, as in the map models.
func TestCountEqualsASimpleSum(t *testing.T) {
	models := map[string]card.Name{"h200": "NVIDIA-H200", "h800": "NVIDIA-H800",
		"4090": "NVIDIA-GeForce-RTX-4090", "4090d": "NVIDIA-GeForce-RTX-4090-D"}

	seed.Check(t, func(t *rapid.T) {
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
			alive := (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning) && pod.DeletionTimestamp == nil
			if queue == "" || pod.Spec.NodeName == "" || !alive || count.IsZero() {
				continue
			}

			if want[queue] == nil {
				want[queue] = cards{}
			}
			want[queue][models[pod.Spec.NodeName]] += card.Count(count.Value())
		}

		got := map[string]cards{}
		for name, queue := range Count(Input{Pods: kept, Inventory: newInventory()}) {
			if len(queue.Used) > 0 {
				got[name] = queue.Used
			}
		}

		check.Equal(t, "used cards by queue", want, got, cmpopts.EquateEmpty())
	})
}

// TestCountSurvivesAnyText: tenants write any text into annotations, and any number into requests. Whatever a pod and
// a PodGroup say, counting does not panic. No number of used, repeated, pending or blocked cards is negative.
func TestCountSurvivesAnyText(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		count := strconv.FormatInt(rapid.Int64().Draw(t, "count"), 10)
		pod := builder.Pod("lab", "a").Queue(rapid.String().Draw(t, "queue")).Card(rapid.String().Draw(t, "request")).Requests(gpu, count).
			PodGroup(rapid.String().Draw(t, "group")).Running(rapid.SampledFrom([]string{"", "h200"}).Draw(t, "node")).Obj()

		group := builder.PodGroup("lab", rapid.String().Draw(t, "name")).Queue(rapid.String().Draw(t, "in")).
			Request(rapid.String().Draw(t, "totals")).
			MinResource(gpu, strconv.FormatInt(rapid.Int64().Draw(t, "min"), 10)).Obj()
		for name, queue := range Count(Input{
			Pods:      []*corev1.Pod{pod},
			PodGroups: []*v1beta1.PodGroup{group},
			Inventory: newInventory(),
		}) {
			for kind, counts := range map[string]cards{"used": queue.Used, "repeated": queue.Repeated, "pending": queue.Pending} {
				for of, count := range counts {
					check.Must(t, count >= 0, "queue %q: %d cards %s are %s", name, count, of, kind)
				}
			}
			for _, blocked := range queue.Blocked {
				check.Must(t, blocked.Count >= 0, "queue %q: %d cards %s are blocked", name, blocked.Count, blocked.Card)
			}
		}
	})
}
