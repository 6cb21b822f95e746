package top

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
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestWatchListsNodesSeldom: some H200 are cordoned, so the CardInventory does not say which cards are free, and top
// --watch has to list all nodes and pods. That is much work for a large cluster, so it does so at most every ten
// seconds. A change in between is not lost: the reader says when to read again. Node a has 8 H200, node b has 8 and is
// cordoned. A pod of 3 cards is bound to a, so 8 - 3 = 5 are free.
func TestWatchListsNodesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []client.Object{
			kubectl.InventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 16, Healthy: 16, Cordoned: 8}),
			kubectl.PolicyWithScheduler("v0.2.0"),
			builder.Node("a").GPUs("NVIDIA-H200", 8).Obj(),
			builder.Node("b").GPUs("NVIDIA-H200", 8).Cordoned().Obj(),
			builder.Pod("lab", "starts").GPUs(3).Obj(),
		}
		lists := 0
		cluster := kubectl.NewCluster(t, objects, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, isNodes := list.(*corev1.NodeList); isNodes {
				lists++
			}
			return c.List(ctx, list, options...)
		}})

		r := &idleReader{client: cluster}
		readFree := func() int64 { return check.Value(r.read(t.Context()))(t)["NVIDIA-H200"] }
		check.Equal(t, "free cards at first", 8, readFree())
		check.That(t, r.due == nil, "the reader has to read again, although nothing has changed")

		// The pod is bound to node a, and uses 3 cards from now on.
		starts := &corev1.Pod{}
		check.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: "lab", Name: "starts"}, starts))
		starts.Spec.NodeName = "a"
		check.NoError(t, cluster.Update(t.Context(), starts))
		for range 5 { // as often as top --watch may ask, without a list each time
			check.Equal(t, "free cards within ten seconds", 8, readFree())
		}
		check.Equal(t, "lists within ten seconds", 1, lists)
		check.That(t, r.due != nil, "the reader does not say when to read again")

		// After ten seconds the reader lists again.
		time.Sleep(time.Second)
		readFree() // does not put off the next list
		began := time.Now()
		<-r.due
		check.Equal(t, "wait until the next list", 9*time.Second, time.Since(began)) // 10 s after the first list, of which 1 s has passed
		check.Equal(t, "free cards after ten seconds", 5, readFree())
		check.Equal(t, "lists after ten seconds", 2, lists)
	})
}
