package top

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/workload"
)

// idleListInterval is the least time between two lists of all nodes and pods by --watch.
const idleListInterval = 10 * time.Second

// idleReader reads idle cards again and again. It does not list all nodes and pods each time.
type idleReader struct {
	client client.Client
	// last are the idle cards that it has read last.
	last map[string]int64
	// listed is when it listed nodes and pods last, zero for never.
	listed time.Time
	// due gets a value when it has to read again because last is older than what changed, nil otherwise.
	due <-chan time.Time
}

// readIdleCards returns by name how many cards no pod uses on nodes that take pods. It is nil where the
// user may not read that, or the operator has not counted yet.
func readIdleCards(ctx context.Context, c client.Client) (map[string]int64, error) {
	return (&idleReader{client: c}).read(ctx)
}

// read sets last to the idle cards and returns it: by name, nil if they are not known. An error leaves last
// as it is.
func (r *idleReader) read(ctx context.Context) (map[string]int64, error) {
	r.due = nil // readNodes sets it if last stays although it may be old
	inventory := &v1alpha1.CardInventory{}
	err := r.client.Get(ctx, client.ObjectKey{Name: v1alpha1.InventoryName}, inventory)
	switch {
	case reader.IsForbidden(err), reader.IsNotInstalled(err), apierrors.IsNotFound(err),
		err == nil && inventory.Status.Summary == "": // the operator has not counted yet
		r.last = nil
		return nil, nil
	case err != nil:
		return nil, err
	}

	// The inventory does not say which allocated cards are on nodes that take no pods. Where there are such nodes, only
	// nodes and pods say it.
	takesNone := func(card v1alpha1.InventoryCard) bool { return card.Cordoned > 0 || card.Healthy < card.Total }
	if slices.ContainsFunc(inventory.Status.Cards, takesNone) {
		if isRead, err := r.readNodes(ctx); isRead || err != nil {
			return r.last, err
		}
	}

	// Without such nodes this difference is exact. For a user who may not read nodes it is the least number
	// of idle cards: it counts all allocated cards as if they were on nodes that take pods.
	r.last = map[string]int64{}
	for _, card := range inventory.Status.Cards {
		r.last[card.Name] = max(0, card.Healthy-card.Cordoned-card.Allocated)
	}

	return r.last, nil
}

// readNodes sets last from all nodes and pods. If it has done so within idleListInterval, last stays and it sets due,
// because --watch reads after every change and listing all pods is expensive. It reports whether the user may read
// them.
func (r *idleReader) readNodes(ctx context.Context) (bool, error) {
	if wait := idleListInterval - time.Since(r.listed); !r.listed.IsZero() && wait > 0 {
		r.due = time.After(wait)
		return true, nil
	}

	fleet := reader.New(r.client)
	idle, mayRead := sumIdleCards(ctx, fleet)
	if mayRead {
		r.last = idle
		r.listed = time.Now()
	}
	return mayRead, fleet.Err()
}

// sumIdleCards sums the free cards of all nodes that take pods, and reports whether the user may read
// nodes and pods.
func sumIdleCards(ctx context.Context, r *reader.Reader) (idle map[string]int64, mayRead bool) {
	var loaded reader.Workloads
	mayRead = reader.ListInto(ctx, r, &corev1.NodeList{}, &loaded.Nodes) && reader.ListInto(ctx, r, &corev1.PodList{}, &loaded.Pods) && loaded.ReadPolicy(ctx, r)
	if !mayRead {
		return nil, false
	}

	tracker := loaded.Tracker()
	resolver := workload.Resolver{Inventory: tracker.Inventory()}
	nodes := nodecards.NewList(tracker.Nodes(), loaded.Pods, &resolver, mayRead)
	return nodes.IdleCards(), true
}
