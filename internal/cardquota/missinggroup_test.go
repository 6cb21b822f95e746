package cardquota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAPodWithoutItsPodGroupIsBlocked: the scheduler never tries such a pod, so what it stated before says
// nothing, and it states nothing else.
func TestAPodWithoutItsPodGroupIsBlocked(t *testing.T) {
	const full = "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu."
	named := builder.PodGroup("lab", "gone").Queue("q").Obj()
	for name, tc := range map[string]struct {
		stated string
		groups []*v1beta1.PodGroup
		lacks  bool
		want   v1alpha1.BlockedReason
	}{
		"never tried":           {"", nil, false, v1alpha1.BlockedPodGroupNotFound},
		"tried before":          {full, nil, false, v1alpha1.BlockedPodGroupNotFound},
		"its PodGroup exists":   {"", []*v1beta1.PodGroup{named}, false, ""},
		"PodGroups are unknown": {"", nil, true, ""},
	} {
		waits := builder.Pod("lab", "orphan").Queue("q").PodGroup("gone").Card("NVIDIA-H200").GPUs(1)
		if tc.stated != "" {
			waits.Unschedulable(tc.stated)
		}

		usage := CountUsage(CountInput{
			Pods: []*corev1.Pod{waits.Obj()}, PodGroups: tc.groups, LacksPodGroups: tc.lacks,
			Inventory: fleet(), Nodes: fleetNodes(), Quotas: map[string]card.Quota{"q": {"NVIDIA-H200": 3}},
		})["q"]
		check.Equal(t, name+": pending", map[card.Name]card.Count{"NVIDIA-H200": 1}, usage.Pending)
		if tc.want == "" {
			check.Equal(t, name+": blocked", 0, len(usage.Blocked))
			continue
		}

		check.Must(t, len(usage.Blocked) == 1, "%s: blocked are %+v", name, usage.Blocked)
		check.Equal(t, name+": reason", tc.want, usage.Blocked[0].Reason)
		check.Contains(t, name+": message", usage.Blocked[0].Message, "PodGroup <lab/gone>", "does not exist", "delete the pod")
		check.Must(t, usage.OldestWithinQuota.IsZero(), "%s: a tenant could raise an alert by a name", name)
	}
}

// TestAPodGroupMayComeAfterItsPod: the watch of pods may be ahead of that of PodGroups.
func TestAPodGroupMayComeAfterItsPod(t *testing.T) {
	for name, tc := range map[string]struct {
		age  time.Duration
		want int
	}{
		"just created":     {0, 0},
		"seconds ago":      {29 * time.Second, 0},
		"half a minute":    {30 * time.Second, 1},
		"by a fast server": {-time.Second, 0},
	} {
		pod := builder.Pod("lab", "orphan").Queue("q").PodGroup("gone").Card("NVIDIA-H200").GPUs(1).Created(noon.Add(-tc.age)).Obj()
		usage := CountUsage(CountInput{
			Pods: []*corev1.Pod{pod}, Now: noon, Inventory: fleet(), Nodes: fleetNodes(), Quotas: map[string]card.Quota{"q": {"NVIDIA-H200": 3}},
		})["q"]

		check.Equal(t, name+": blocked", tc.want, len(usage.Blocked))
		check.Equal(t, name+": pending", map[card.Name]card.Count{"NVIDIA-H200": 1}, usage.Pending)
	}
}
