package reader

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/queueusage"
)

// Use is which cards pods use, as far as the user may read it. It needs neither Cardquota nor Volcano.
type Use struct {
	Workloads
	// Fleet has the cards, also those that nothing names.
	Fleet nodecards.Fleet
	// OnlyNamespace is the namespace of the pods that could be read, "" for all namespaces.
	OnlyNamespace string
}

// ReadUse reads nodes and what runs on them. A user who may not list all pods gets those of a namespace, unless that is
// "".
func ReadUse(ctx context.Context, r *Reader, namespace string) Use {
	loaded, isPart := readWorkloads(ctx, r, namespace)
	use := Use{Workloads: loaded, Fleet: nodecards.NewFleet(loaded.Tracker(), loaded.Pods)}
	if isPart {
		use.OnlyNamespace = namespace
	}
	return use
}

// By counts the cards of all pods by group.
func (u *Use) By(groupOf queueusage.GroupOf) map[string]queueusage.Usage {
	return queueusage.CountBy(queueusage.Input{Pods: u.Pods, PodGroups: u.PodGroups, Inventory: u.Fleet.Inventory}, groupOf)
}

// resourceSlice is the kind with which drivers of dynamic resource allocation offer devices.
var resourceSlice = schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceSlice"}

// ReadDeviceSlices reads the devices of dynamic resource allocation, none on a cluster without them.
func ReadDeviceSlices(ctx context.Context, r *Reader) []cardinventory.DeviceSlice {
	var objects []*unstructured.Unstructured
	ListServed(ctx, r, resourceSlice, &objects)
	slices := make([]cardinventory.DeviceSlice, len(objects))
	for i, object := range objects {
		slices[i] = cardinventory.NewDeviceSlice(object)
	}
	return slices
}
