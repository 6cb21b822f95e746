package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestFactsOfPodsThatAreGoneAreDropped: the operator keeps what it read from each pod and PodGroup for the next
// count. Facts of objects that are gone are dropped once they are more than the objects that exist: 1000 pods are
// replaced by others twice.
func TestFactsOfPodsThatAreGoneAreDropped(t *testing.T) {
	input := CountInput{Inventory: newInventory(), Facts: &PodFacts{}}
	count := func(pods int, version string) {
		input.Pods = nil
		for i := range pods {
			input.Pods = append(input.Pods, builder.Pod("lab", fmt.Sprint(i)).PodGroup(version+fmt.Sprint(i)).
				Phase(corev1.PodPending).Obj())
		}
		CountUsage(input)
	}

	count(1000, "a")
	check.Equal(t, "kept after the first count", []int{1000, 1000}, []int{len(input.Facts.pods), len(input.Facts.groups)})
	count(1000, "b")
	check.Equal(t, "kept after all changed", []int{2000, 2000}, []int{len(input.Facts.pods), len(input.Facts.groups)})

	count(1000, "c")
	check.Equal(t, "kept after too many changed", []int{1000, 1000}, []int{len(input.Facts.pods), len(input.Facts.groups)})
}
