package cardinventory

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// statusWith returns the status of a fleet of one node with cards, and these ResourceSlices.
func statusWith(slices ...DeviceSlice) v1alpha1.CardInventoryStatus {
	tracker := &card.Tracker{}
	tracker.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	return NewStatus(Input{Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: &Count{}, DeviceSlices: slices})
}

// TestDriversThatHandOutCardsAreAnAnomaly: a driver of dynamic resource allocation that hands out cards is an
// anomaly, because no quota limits these. Devices are counted from the newest generation of each pool: 8 of n2, and 4
// + 2 of n1. The 64 of n1 are of an older generation. A driver of networks is no anomaly. Two drivers of cards are
// two anomalies. Devices without nodes are an anomaly without nodes.
func TestDriversThatHandOutCardsAreAnAnomaly(t *testing.T) {
	gpu := func(node string, generation, devices int64) DeviceSlice {
		return DeviceSlice{Driver: "gpu.nvidia.com", Pool: node, Generation: generation, Nodes: []string{node}, Devices: devices}
	}

	const wantMessage = "driver gpu.nvidia.com hands out cards by ResourceClaims, and no quota limits these; pods of our scheduler " +
		"get them only with unmanagedQueues: Ignore, pods of other schedulers freely: offer the cards by a device plugin, and " +
		"remove the driver"

	status := statusWith(gpu("n2", 1, 8), gpu("n1", 3, 4), gpu("n1", 3, 2), gpu("n1", 2, 64), DeviceSlice{
		Driver:  "dra.net",
		Pool:    "n3",
		Nodes:   []string{"n3"},
		Devices: 2,
	})
	check.Equal(t, "anomalies", []v1alpha1.InventoryAnomaly{{
		Reason:     v1alpha1.AnomalyResourceClaimCards,
		Count:      14,
		NodesTotal: 2,
		Nodes:      []string{"n1", "n2"},
		Message:    "nodes n1, n2: " + wantMessage,
	}}, status.Anomalies)
	check.Equal(t, "nodes with cards or an anomaly", int32(1), status.Nodes) // node a, which has 8 H200; n1 to n3 are in slices only

	everywhere := statusWith(DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p"}).Anomalies
	check.Must(t, len(everywhere) == 1, "%d anomalies", len(everywhere))
	check.Equal(t, "message without nodes", wantMessage, everywhere[0].Message)

	check.Equal(t, "anomalies of two drivers", 2, len(statusWith(gpu("n1", 1, 8), DeviceSlice{
		Driver: "gpu.amd.com",
		Pool:   "n1",
	}).Anomalies))
	check.Equal(t, "anomalies without slices", 0, len(statusWith().Anomalies))
}

// TestResourceClaimsComeFirst: the list of anomalies is bounded. No quota limits the cards of a driver, so its
// anomaly comes before that of a node without labels. By name, the reason of the latter, NoModelLabel, would be
// first.
func TestResourceClaimsComeFirst(t *testing.T) {
	tracker := &card.Tracker{}
	tracker.Update(builder.Node("a").GPUs("", 8).Obj())
	status := NewStatus(Input{
		Nodes:        tracker.TrackedNodes(),
		Cards:        tracker.Inventory(),
		Count:        &Count{},
		DeviceSlices: []DeviceSlice{{Driver: "gpu.amd.com"}},
	})

	check.Must(t, len(status.Anomalies) == 2, "%d anomalies", len(status.Anomalies))
	check.Equal(t, "reason of the first", v1alpha1.AnomalyResourceClaimCards, status.Anomalies[0].Reason)
}
