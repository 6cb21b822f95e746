package queueusage

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

// TestAPodWithoutItsPodGroupIsBlocked: the scheduler never tries a pod that names a PodGroup which does not
// exist. What the scheduler stated before does not count: the entry has reason PodGroupNotFound, and its
// message says what would help. The pod raises no alert (OldestWithinQuota stays zero), because any tenant
// can write such a name. If the PodGroup exists, or may exist since none was read yet, a pod that the
// scheduler has not tried has no entry.
func TestAPodWithoutItsPodGroupIsBlocked(t *testing.T) {
	const full = "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu."
	named := builder.PodGroup("lab", "train").Queue("q").Obj()
	for name, tc := range map[string]struct {
		stated         string
		groups         []*v1beta1.PodGroup
		lacksPodGroups bool
		want           v1alpha1.BlockedReason
	}{
		"the scheduler never tried the pod": {
			want: v1alpha1.BlockedPodGroupNotFound,
		},
		"the scheduler tried the pod before": {
			stated: full,
			want:   v1alpha1.BlockedPodGroupNotFound,
		},
		"the PodGroup exists": {
			groups: []*v1beta1.PodGroup{named},
		},
		"the operator has not read any PodGroups": {
			lacksPodGroups: true,
		},
	} {
		waits := builder.Pod("lab", "orphan").Queue("q").PodGroup("train").Card("NVIDIA-H200").GPUs(1).Created(noon)
		if tc.stated != "" {
			waits.Unschedulable(tc.stated)
		}

		usage := Count(Input{
			Pods: []*corev1.Pod{waits.Obj()}, PodGroups: tc.groups, LacksPodGroups: tc.lacksPodGroups, Now: noon.Add(time.Hour),
			Inventory: newInventory(), Nodes: newNodes(), Quotas: map[string]card.Quota{"q": {"NVIDIA-H200": 3}},
		})["q"]
		check.Equal(t, name+": pending", map[card.Name]card.Count{"NVIDIA-H200": 1}, usage.Pending)
		if tc.want == "" {
			check.Equal(t, name+": blocked", 0, len(usage.Blocked))
			continue
		}

		check.Must(t, len(usage.Blocked) == 1, "%s: blocked are %+v", name, usage.Blocked)
		check.Equal(t, name+": reason", tc.want, usage.Blocked[0].Reason)
		check.Contains(t, name+": message", usage.Blocked[0].Message, "PodGroup <lab/train>", "does not exist", "delete the pod")
		check.Must(t, usage.OldestWithinQuota.IsZero(), "%s: a tenant could raise an alert by a name", name)
	}
}

// TestAPodGroupMayComeAfterItsPod: the operator watches pods and PodGroups apart, so it may know a new pod before its
// PodGroup. So a pod whose PodGroup is missing is blocked only 30 seconds after its creation. Until then it is
// pending.
func TestAPodGroupMayComeAfterItsPod(t *testing.T) {
	for name, tc := range map[string]struct {
		age         time.Duration
		wantBlocked int
	}{
		"created now":            {0, 0},
		"created 29 seconds ago": {29 * time.Second, 0},
		"created 30 seconds ago": {30 * time.Second, 1},
		"created in a second, by a server whose clock is fast": {-time.Second, 0},
	} {
		pod := builder.Pod("lab", "orphan").Queue("q").PodGroup("gone").Card("NVIDIA-H200").GPUs(1).Created(noon.Add(-tc.age)).Obj()
		usage := Count(Input{
			Pods:      []*corev1.Pod{pod},
			Now:       noon,
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Quotas:    map[string]card.Quota{"q": {"NVIDIA-H200": 3}},
		})["q"]

		check.Equal(t, name+": blocked", tc.wantBlocked, len(usage.Blocked))
		check.Equal(t, name+": pending", map[card.Name]card.Count{"NVIDIA-H200": 1}, usage.Pending)
	}
}
