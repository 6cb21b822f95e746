package cli

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWatchListsNodesSeldom: one cordoned node does not make each change list all nodes and pods, and no
// change stays unseen.
func TestWatchListsNodesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Summary: "counted", Cards: []v1alpha1.InventoryCard{
			{Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 16, Healthy: 16, Cordoned: 8}}}}

		inventory.Name = v1alpha1.InventoryName
		objects := []client.Object{inventory, policyOf("v0.2.0"), builder.Node("a").GPUs("NVIDIA-H200", 8).Obj(), builder.Node("b").GPUs("NVIDIA-H200", 8).Cordoned().Obj(), builder.Pod("lab", "starts").GPUs(3).Obj()}
		lists := 0
		cluster := newCluster(t, objects, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, isNodes := list.(*corev1.NodeList); isNodes {
				lists++
			}
			return c.List(ctx, list, options...)
		}})

		starts := &corev1.Pod{}
		check.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: "lab", Name: "starts"}, starts))
		r := &idleReader{client: cluster}
		read := func() int64 {
			return check.Value(r.read(t.Context()))(t)["NVIDIA-H200"]
		}

		check.Equal(t, "at first", 8, read())
		check.That(t, r.due == nil, "nothing has changed")

		starts.Spec.NodeName = "a"
		check.NoError(t, cluster.Update(t.Context(), starts))
		for range 5 {
			check.Equal(t, "within ten seconds", 8, read())
		}

		check.Equal(t, "lists", 1, lists)
		check.That(t, r.due != nil, "it has to read again")

		time.Sleep(time.Second)
		read() // does not put it off
		began := time.Now()
		<-r.due
		check.Equal(t, "until the next list", idleListInterval-time.Second, time.Since(began))
		check.Equal(t, "after ten seconds", 5, read())
		check.Equal(t, "lists", 2, lists)
	})
}
