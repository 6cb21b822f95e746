package cardinventory

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// DeviceSlice is what a ResourceSlice says about the devices of a driver of dynamic resource allocation.
type DeviceSlice struct {
	Driver, Pool string
	// Generation is that of the pool. Slices of earlier generations are outdated.
	Generation int64
	// Nodes are the nodes that have the devices, none if the slice does not name them.
	Nodes []string
	// Devices is the number of devices. It is 0 if they can overlap, as parts of cards do.
	Devices int64
}

// maxSliceNodes bounds the nodes of a slice. A slice has at most 128 devices.
const maxSliceNodes = 128

// NewDeviceSlice reads a ResourceSlice of any version. Of a slice whose driver is for no cards it reads only the driver.
func NewDeviceSlice(read *unstructured.Unstructured) DeviceSlice {
	var slice DeviceSlice
	slice.Driver, _, _ = unstructured.NestedString(read.Object, "spec", "driver")
	if !card.IsAcceleratorDriver(slice.Driver) {
		return slice
	}

	slice.Pool, _, _ = unstructured.NestedString(read.Object, "spec", "pool", "name")
	slice.Generation, _, _ = unstructured.NestedInt64(read.Object, "spec", "pool", "generation")

	// A slice names one node, or each device names its own. nodes are the names that need not be added any
	// more.
	node, _, _ := unstructured.NestedString(read.Object, "spec", "nodeName")
	nodes := map[string]bool{node: true, "": true}
	if node != "" {
		slice.Nodes = []string{node}
	}

	devices, _, _ := unstructured.NestedSlice(read.Object, "spec", "devices")
	overlaps := false
	for _, device := range devices {
		fields, _ := device.(map[string]any)
		if basic, isBasic := fields["basic"].(map[string]any); isBasic { // until v1beta1
			fields = basic
		}

		_, isPart := fields["consumesCounters"] // such as one of the possible MIG slices
		overlaps = overlaps || isPart

		own, _ := fields["nodeName"].(string)
		if !nodes[own] && len(slice.Nodes) < maxSliceNodes {
			nodes[own] = true
			slice.Nodes = append(slice.Nodes, own)
		}
	}

	// Devices that share counters are alternatives on one chip, so their number says nothing about cards.
	// Devices is then 0.
	if !overlaps {
		slice.Devices = int64(len(devices))
	}

	return slice
}

// addClaimCards adds the cards that drivers hand out by ResourceClaims, one anomaly for each driver.
func (l anomalyList) addClaimCards(slices []DeviceSlice) {
	// A driver replaces its slices by those of a new generation. Until then it offers the devices
	// twice.
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, slice := range slices {
		key := pool{slice.Driver, slice.Pool}
		newest[key] = max(newest[key], slice.Generation)
	}

	for _, slice := range slices {
		isOutdated := slice.Generation < newest[pool{slice.Driver, slice.Pool}]
		if isOutdated || !card.IsAcceleratorDriver(slice.Driver) {
			continue
		}

		key := anomalyKey{reason: v1alpha1.AnomalyResourceClaimCards, text: fmt.Sprintf(
			"driver %s hands out cards by ResourceClaims, and no quota limits these; pods of our scheduler get them only with unmanagedQueues: Ignore, pods of other schedulers freely: "+
				"offer the cards by a device plugin, and remove the driver", slice.Driver)}

		sum := l.add(key, "", card.Count(slice.Devices))
		for _, node := range slice.Nodes {
			sum.nodes[node] = true
		}
	}
}
