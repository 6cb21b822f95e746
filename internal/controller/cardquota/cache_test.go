package cardquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestStrippedNodesKeepWhatCardsDependOn: the cache drops what the operator does not read of a node, such as the list
// of images, to save memory. It keeps what decides about the cards: labels, resources, readiness, and the cordon.
func TestStrippedNodesKeepWhatCardsDependOn(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		node         *builder.NodeBuilder
		wantReady    bool
		wantCordoned bool
	}{
		"a ready node":             {node: builder.Node("node"), wantReady: true},
		"a ready node, cordoned":   {node: builder.Node("node").Cordoned(), wantReady: true, wantCordoned: true},
		"a node that is not ready": {node: builder.Node("node").NotReady()},
	}) {
		node := tc.node.GPUs("NVIDIA-H200", 8).Obj()
		node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}

		stripped := stripNode(node.DeepCopy())

		check.Equal(t, "images", nil, stripped.Status.Images)
		check.Equal(t, "ready", tc.wantReady, card.IsNodeReady(stripped))
		check.Equal(t, "cordoned", tc.wantCordoned, stripped.Spec.Unschedulable)
		check.Equal(t, "recognised cards", card.Recognise(node, nil), card.Recognise(stripped, nil))
		check.Equal(t, "capacity", node.Status.Capacity, stripped.Status.Capacity)
	}
}

// TestStripLetsObjectsOfOtherTypesPass: a cache also passes the tombstone of a deletion that it missed to the function
// that strips PodGroups. It passes unchanged.
func TestStripLetsObjectsOfOtherTypesPass(t *testing.T) {
	check.Equal(t, "stripped", any("a tombstone"), check.Value(transformOnly(strip.PodGroup)("a tombstone"))(t))
}

// TestTheCacheDropsManagedFieldsThatItDoesNotRead: managed fields take much memory. Those of the spec of a CardQuota
// say which fields this version does not know, so they stay. Those of a Queue say which field manager has its fields,
// so all of them stay. Those of a LocalCardQuota are dropped. In each row manager "spec" has written the spec, and
// manager "status" the status.
func TestTheCacheDropsManagedFieldsThatItDoesNotRead(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		object       client.Object
		wantManagers []string
	}{
		"a CardQuota keeps those of its spec":    {&v1alpha1.CardQuota{}, []string{"spec"}},
		"a LocalCardQuota keeps none":            {&v1alpha1.LocalCardQuota{}, nil},
		"a Queue keeps those of spec and status": {&v1beta1.Queue{}, []string{"spec", "status"}},
	}) {
		tc.object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "spec"}, {Manager: "status", Subresource: "status"}})
		kept := check.Value(CacheOptions().DefaultTransform(tc.object))(t)

		var managers []string
		for _, entry := range kept.(client.Object).GetManagedFields() {
			managers = append(managers, entry.Manager)
		}
		check.Equal(t, "managers", tc.wantManagers, managers)
	}
}
