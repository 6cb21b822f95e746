package queueusage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestPodsOfAnySchedulerCountInTheirGroup: on a cluster without Cardquota pods of every scheduler use cards, in a queue
// or in none. So CountBy counts all of them by namespace, and by queue those without one under "". A finished pod, a
// terminating one, and one with scheduling gates count for nothing. PodGroup early waits without pods. PodGroup full has
// one, so its own request does not count.
func TestPodsOfAnySchedulerCountInTheirGroup(t *testing.T) {
	input := Input{
		Inventory: newInventory(),
		Pods: []*corev1.Pod{
			builder.Pod("lab", "a").Queue("q").GPUs(2).Running("h200").Obj(),
			builder.Pod("lab", "b").Scheduler("default-scheduler").GPUs(1).Running("h800").Obj(),
			builder.Pod("web", "c").Scheduler("default-scheduler").Card("NVIDIA-H200").GPUs(4).Obj(),
			builder.Pod("web", "done").GPUs(8).Node("h200").Phase(corev1.PodSucceeded).Obj(),
			builder.Pod("web", "ending").GPUs(8).Running("h200").Deleted(noon).Obj(),
			builder.Pod("web", "gated").GPUs(8).Gated().Obj(),
			builder.Pod("web", "full-0").PodGroup("full").Card("NVIDIA-H800").GPUs(1).Obj(),
		},
		PodGroups: []*v1beta1.PodGroup{
			builder.PodGroup("web", "early").Queue("q").Request(`{"NVIDIA-H200":3}`).Obj(),
			builder.PodGroup("web", "full").Queue("q").Request(`{"NVIDIA-H800":9}`).Obj(),
		},
	}

	for t, tc := range check.Cases(t, map[string]struct {
		groupOf             GroupOf
		wantUsed, wantWaits map[string]cards
	}{
		"by namespace": {
			func(namespace, _ string) string { return namespace },
			map[string]cards{"lab": {"NVIDIA-H200": 2, "NVIDIA-H800": 1}},
			map[string]cards{"web": {"NVIDIA-H200": 4 + 3, "NVIDIA-H800": 1}},
		},
		"by queue": {
			func(_, queue string) string { return queue },
			map[string]cards{"q": {"NVIDIA-H200": 2}, "": {"NVIDIA-H800": 1}},
			map[string]cards{"q": {"NVIDIA-H200": 3, "NVIDIA-H800": 1}, "": {"NVIDIA-H200": 4}},
		},
	}) {
		used := map[string]cards{}
		waits := map[string]cards{}
		for group, usage := range CountBy(input, tc.groupOf) {
			if inUse := usage.CardsInUse(); len(inUse) > 0 {
				used[group] = inUse
			}
			if len(usage.Pending) > 0 {
				waits[group] = usage.Pending
			}
		}
		check.Equal(t, "used", tc.wantUsed, used)
		check.Equal(t, "pending", tc.wantWaits, waits)
	}
}

// TestAPodThatMayUseSeveralCardsIsInUseOnce: node gone does not say its card, so the pod may use any of the four. A quota
// counts each of them, and CardsInUse the first.
func TestAPodThatMayUseSeveralCardsIsInUseOnce(t *testing.T) {
	usage := Count(Input{Inventory: newInventory(), Pods: []*corev1.Pod{builder.Pod("lab", "a").Queue("q").GPUs(2).Running("gone").Obj()}})["q"]
	check.Equal(t, "cards that count against a quota", 4, len(usage.Used))
	check.Equal(t, "cards in use", map[card.Name]card.Count{"NVIDIA-GeForce-RTX-4090": 2}, usage.CardsInUse())
}
