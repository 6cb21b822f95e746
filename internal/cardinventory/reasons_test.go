package cardinventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestEveryAnomalyIsCountedByItsReason: the alerts read these counts. The scheduler's own number of
// anomalous nodes is 0 in all of these states.
func TestEveryAnomalyIsCountedByItsReason(t *testing.T) {
	noPlugin := func(n *corev1.Node) { n.Status.Allocatable[builder.GPU] = resource.MustParse("0") }
	for t, tc := range check.Cases(t, map[string]struct {
		nodes  []*corev1.Node
		want   v1alpha1.AnomalyReason
		bills  Bills
		slices []DeviceSlice
	}{
		"cards that no quota limits": {[]*corev1.Node{builder.Node("a").Resource("gpu.intel.com/xe", "8").Obj()}, v1alpha1.AnomalyUnmappedResource, Bills{}, nil},
		"a node without labels, of a known resource": {[]*corev1.Node{
			builder.Node("a").Resource("vendor.example/card", "8").Obj(),
			builder.Node("b").Label("vendor.example/card.product", "X").Label("vendor.example/card.memory", "1").Resource("vendor.example/card", "4").Obj(),
		}, v1alpha1.AnomalyNoModelLabel, Bills{}, nil},
		"a device plugin that stopped":       {[]*corev1.Node{h200("a").With(noPlugin).Obj()}, v1alpha1.AnomalyCardsUnhealthy, Bills{}, nil},
		"a ConfigMap that cannot be written": {nil, v1alpha1.AnomalyBillsNotStored, Bills{Refused: map[string]metav1.StatusReason{"a": metav1.StatusReasonForbidden}}, nil},
		"sums without room":                  {nil, v1alpha1.AnomalyBillsNotStored, Bills{SumsWithoutRoom: 3}, nil},
		"months without room":                {nil, v1alpha1.AnomalyBillsNotStored, Bills{MonthsWithoutRoom: 1}, nil},
		"days that were dropped":             {nil, v1alpha1.AnomalyBillDaysDropped, Bills{DaysDropped: "2026-10-05"}, nil},
		"ResourceClaims for cards":           {slices: []DeviceSlice{{Driver: "gpu.nvidia.com", Nodes: []string{"a"}, Devices: 8}}, want: v1alpha1.AnomalyResourceClaimCards},
		"ResourceClaims for a network":       {slices: []DeviceSlice{{Driver: "dra.net", Nodes: []string{"a"}, Devices: 8}}},
		"nothing":                            {[]*corev1.Node{h200("a").Obj()}, "", Bills{}, nil},
	}) {
		tracker := &card.Tracker{}
		for _, node := range tc.nodes {
			tracker.Update(node)
		}

		_, counts := NewStatusWithReasons(Input{Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: &Count{}, Bills: tc.bills, DeviceSlices: tc.slices})
		check.Equal(t, "reasons", len(AnomalyReasons), len(counts))
		check.Equal(t, "anomalous nodes of the scheduler", 0, tracker.Inventory().AnomalousNodes())
		for reason, count := range counts {
			want := 0
			if reason == tc.want {
				want = 1
			}
			check.Equal(t, string(reason), want, count)
		}
	}
}
