package queueusage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestFactsOfPodsThatAreGoneAreDropped: the operator keeps what it read from each pod object and each PodGroup name
// for the next count. In each count here all 1000 pods are new objects, and name other PodGroups. A count that begins
// with far more facts than it has pods drops all facts: the third one, which finds 2000.
func TestFactsOfPodsThatAreGoneAreDropped(t *testing.T) {
	input := Input{Inventory: newInventory(), Facts: &PodFacts{}}
	count := func(pods int, version string) {
		input.Pods = nil
		for i := range pods {
			input.Pods = append(input.Pods, builder.Pod("lab", fmt.Sprint(i)).PodGroup(version+fmt.Sprint(i)).
				Phase(corev1.PodPending).Obj())
		}
		Count(input)
	}

	count(1000, "a")
	check.Equal(t, "pods and PodGroups kept after the first count", []int{1000, 1000}, []int{len(input.Facts.pods), len(input.Facts.groups)})
	count(1000, "b")
	check.Equal(t, "pods and PodGroups kept after all changed once", []int{2000, 2000}, []int{len(input.Facts.pods), len(input.Facts.groups)})

	count(1000, "c")
	check.Equal(t, "pods and PodGroups kept after all changed twice", []int{1000, 1000}, []int{len(input.Facts.pods), len(input.Facts.groups)})
}
