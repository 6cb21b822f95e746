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

// TestEveryAnomalyIsCountedByItsReason: alerts read a metric of anomalies by reason. In each state that has an
// anomaly, exactly one reason counts 1, and all others 0. The scheduler's own number of anomalous nodes is 0 in all
// these states, so it could not raise the alert.
func TestEveryAnomalyIsCountedByItsReason(t *testing.T) {
	noPlugin := func(n *corev1.Node) { n.Status.Allocatable[builder.GPU] = resource.MustParse("0") }
	for t, tc := range check.Cases(t, map[string]struct {
		nodes  []*corev1.Node
		want   v1alpha1.AnomalyReason
		bills  Bills
		slices []DeviceSlice
	}{
		"a resource that looks like a card, which nothing names": {
			nodes: []*corev1.Node{builder.Node("a").Resource("gpu.intel.com/xe", "8").Obj()},
			want:  v1alpha1.AnomalyUnmappedResource,
		},
		"a node without labels, whose resource another node names": {
			nodes: []*corev1.Node{
				builder.Node("a").Resource("vendor.example/card", "8").Obj(),
				builder.Node("b").Label("vendor.example/card.product", "X").Label("vendor.example/card.memory", "1").
					Resource("vendor.example/card", "4").Obj(),
			},
			want: v1alpha1.AnomalyNoModelLabel,
		},
		"the device plugin stopped": {
			nodes: []*corev1.Node{nodeWithEightH200("a").With(noPlugin).Obj()},
			want:  v1alpha1.AnomalyCardsUnhealthy,
		},
		"a ConfigMap of bills cannot be written": {
			want:  v1alpha1.AnomalyBillsNotStored,
			bills: Bills{Refused: map[string]metav1.StatusReason{"a": metav1.StatusReasonForbidden}},
		},
		"3 sums of bills have no room": {
			want:  v1alpha1.AnomalyBillsNotStored,
			bills: Bills{SumsWithoutRoom: 3},
		},
		"a month of bills has no room": {
			want:  v1alpha1.AnomalyBillsNotStored,
			bills: Bills{MonthsWithoutRoom: 1},
		},
		"days of bills were dropped": {
			want:  v1alpha1.AnomalyBillDaysDropped,
			bills: Bills{DaysDropped: "2026-10-05"},
		},
		"a driver hands out cards": {
			slices: []DeviceSlice{{Driver: "gpu.nvidia.com", Nodes: []string{"a"}, Devices: 8}},
			want:   v1alpha1.AnomalyResourceClaimCards,
		},
		"a driver hands out network devices: no anomaly": {slices: []DeviceSlice{{Driver: "dra.net", Nodes: []string{"a"}, Devices: 8}}},
		"8 healthy H200: no anomaly": {
			nodes: []*corev1.Node{nodeWithEightH200("a").Obj()},
		},
	}) {
		tracker := &card.Tracker{}
		for _, node := range tc.nodes {
			tracker.Update(node)
		}

		_, counts := NewStatusWithReasons(Input{
			Nodes:        tracker.TrackedNodes(),
			Cards:        tracker.Inventory(),
			Count:        &Count{},
			Bills:        tc.bills,
			DeviceSlices: tc.slices,
		})
		check.Equal(t, "reasons", len(AnomalyReasons), len(counts))
		check.Equal(t, "anomalous nodes of the scheduler", 0, tracker.Inventory().AnomalousNodes())
		for reason, count := range counts {
			check.Equal(t, string(reason), map[bool]int{true: 1, false: 0}[reason == tc.want], count)
		}
	}
}
