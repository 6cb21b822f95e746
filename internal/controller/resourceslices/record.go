package resourceslices

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cardquota.dev/operator/internal/cardinventory"
)

// record is what the cache keeps of a ResourceSlice.
type record struct {
	metav1.ObjectMeta
	slice cardinventory.DeviceSlice
}

// newRecord is the transform of the cache: it turns a ResourceSlice of any version into a *record, and
// returns other objects, such as tombstones, as they are.
func newRecord(object any) (any, error) {
	read, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	meta := metav1.ObjectMeta{Name: read.GetName(), UID: read.GetUID(), ResourceVersion: read.GetResourceVersion()}
	return &record{ObjectMeta: meta, slice: cardinventory.NewDeviceSlice(read)}, nil
}
