package resourceslices

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
)

// record is what the cache keeps of a ResourceSlice.
type record struct {
	metav1.ObjectMeta
	slice cardinventory.DeviceSlice
}

// maxNodes bounds the nodes of a slice. A slice has at most 128 devices.
const maxNodes = 128

// newRecord is the transform of the cache: it turns a ResourceSlice of any version into a *record, and
// returns other objects, such as tombstones, as they are. Of a slice whose driver is for no cards it reads
// only the driver.
func newRecord(object any) (any, error) {
	read, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}

	kept := &record{ObjectMeta: metav1.ObjectMeta{Name: read.GetName(), UID: read.GetUID(), ResourceVersion: read.GetResourceVersion()}}
	kept.slice.Driver, _, _ = unstructured.NestedString(read.Object, "spec", "driver")
	if !card.IsAcceleratorDriver(kept.slice.Driver) {
		return kept, nil
	}

	kept.slice.Pool, _, _ = unstructured.NestedString(read.Object, "spec", "pool", "name")
	kept.slice.Generation, _, _ = unstructured.NestedInt64(read.Object, "spec", "pool", "generation")

	// A slice names one node, or each device names its own. nodes are the names that need not be added any
	// more.
	node, _, _ := unstructured.NestedString(read.Object, "spec", "nodeName")
	nodes := map[string]bool{node: true, "": true}
	if node != "" {
		kept.slice.Nodes = []string{node}
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
		if !nodes[own] && len(kept.slice.Nodes) < maxNodes {
			nodes[own] = true
			kept.slice.Nodes = append(kept.slice.Nodes, own)
		}
	}

	// Devices that share counters are alternatives on one chip, so their number says nothing about cards.
	// Devices is then 0.
	if !overlaps {
		kept.slice.Devices = int64(len(devices))
	}

	return kept, nil
}
