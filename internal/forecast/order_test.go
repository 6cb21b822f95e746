package forecast

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestTheOrderOfPodsDoesNotMatter: the caches list pods in any order. A forecast that followed it would rewrite statuses at
// each count. All pods were created in the same second: those of a Deployment on nodes with different cards, those of a
// Deployment in two queues below one parent, and those of a gang whose PodGroup has moved to another queue, while one of
// them is charged to the first.
func TestTheOrderOfPodsDoesNotMatter(t *testing.T) {
	of := func(name, owner string) *builder.PodBuilder {
		return builder.Pod("lab", name).Scheduler("volcano").Queue("train").Card("NVIDIA-H100|"+h200).GPUs(2).Owner("apps/v1", "Deployment", owner)
	}
	s := scene{
		isTree: true,
		quotas: quotas(builder.CardQuota("org").ServiceType("").Card(h200, 8), train().Parent("org").Card(h200, 2), builder.CardQuota("other").Card(h200, 0).Parent("org")),
		groups: groups(builder.PodGroup("lab", "moved").Queue("other").MinMember(2)),
		pods: pods(
			of("a0", "a").Running("h100"), of("a1", "a").Running("h200"), of("b0", "b").Running("h100"), of("b1", "b").Queue("other").Running("h200"),
			of("g0", "g").PodGroup("moved").ChargedQueue("train").Running("h200"), of("g1", "g").PodGroup("moved")),
	}
	input := s.newInput()
	input.PodGroups[0].CreationTimestamp.Time = noon.Add(time.Second)
	for _, pod := range input.Pods {
		pod.CreationTimestamp.Time = noon.Add(time.Second)
	}

	want := New(input)
	seed.Check(t, func(t *rapid.T) {
		input.Pods = rapid.Permutation(input.Pods).Draw(t, "pods")
		check.Equal(t, "forecast", want, New(input))
	})

	check.Equal(t, "workloads that would wait", 3, len(namesOf(want.Quotas["org"].Waiting)))
	check.Equal(t, "of the moved gang in its old queue", true, slices.Contains(namesOf(want.Quotas["train"].Waiting), "g:2"))
	check.Equal(t, "of the moved gang in its new queue", true, slices.Contains(namesOf(want.Quotas["other"].Waiting), "g:2"))
}

// TestAPodGroupWithHeldPodsRequestsNothing: a scheduling gate holds the pods of a PodGroup, so they start with no mode. Their
// PodGroup, which has pods, waits for no quota.
func TestAPodGroupWithHeldPodsRequestsNothing(t *testing.T) {
	s := scene{quotas: quotas(train()), groups: groups(gang("g", 1).Request(`{"NVIDIA-H200":16}`)), pods: pods(pending("a", 16).PodGroup("g").Gated())}
	check.Equal(t, "forecast of queue train", outcome{}, outcomeOf(New(s.newInput()).Quotas["train"]))
}
