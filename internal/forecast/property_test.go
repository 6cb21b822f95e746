package forecast

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestAGreedyRecountNamesTheSameWorkloads: queues train and other have random quotas, and up to nine random pods, with and
// without a node, alone or in gangs. A recount that adds up the cards of each queue in the order of age names the same
// workloads with the same cards. Workloads of the two queues never affect each other.
func TestAGreedyRecountNamesTheSameWorkloads(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		s := scene{}
		limits := map[string]int{}
		for _, queue := range []string{"train", "other"} {
			limits[queue] = rapid.IntRange(0, 12).Draw(t, "quota of "+queue)
			s.quotas = append(s.quotas, builder.CardQuota(queue).Card(h200, int64(limits[queue])))
		}

		want := map[string][]string{}
		for i := range rapid.IntRange(0, 9).Draw(t, "jobs") {
			queue := rapid.SampledFrom([]string{"train", "other"}).Draw(t, "queue")
			size := rapid.IntRange(1, 3).Draw(t, "pods")
			cards := rapid.IntRange(1, 4).Draw(t, "cards of a pod")
			minimum := rapid.IntRange(1, size).Draw(t, "minimum")
			name := fmt.Sprintf("job%d", i)
			s.groups = append(s.groups, builder.PodGroup("lab", name).Queue(queue).MinMember(int32(minimum)))
			for pod := range size {
				p := builder.Pod("lab", fmt.Sprintf("%s-%d", name, pod)).PodGroup(name).Card(h200).GPUs(cards).Owner("batch/v1", "Job", name)
				if rapid.Bool().Draw(t, "has a node") {
					p.Running("h200")
				}
				s.pods = append(s.pods, p)
			}

			fitting := min(size, limits[queue]/cards)
			if fitting < minimum {
				fitting = 0
			}
			limits[queue] -= fitting * cards
			if fitting < size {
				want[queue] = append([]string{fmt.Sprintf("%s:%d", name, (size-fitting)*cards)}, want[queue]...)
			}
		}

		found := New(s.newInput())
		for queue := range limits {
			got := outcomeOf(found.Quotas[queue]).Waiting
			check.That(t, slices.Equal(want[queue], got), "queue %s: the recount names %v, the forecast %v", queue, want[queue], got)
		}
	})
}
