package cli

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/inventoryview"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// readIdleCards returns by name how many cards no pod holds on nodes that take pods. It is nil where the
// user may not read that, or the operator has not counted yet.
func readIdleCards(ctx context.Context, c client.Client) (map[string]int64, error) {
	inventory := &v1alpha1.CardInventory{}
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.InventoryName}, inventory)
	switch {
	case isForbidden(err), isNotInstalled(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case inventory.Status.Summary == "":
		return nil, nil
	}

	// The inventory does not say which allocated cards are on nodes that take no pods.
	takesNone := func(card v1alpha1.InventoryCard) bool { return card.Cordoned > 0 || card.Healthy < card.Total }
	if slices.ContainsFunc(inventory.Status.Cards, takesNone) {
		idle, mayRead, err := sumIdleCards(ctx, &reader{client: c})
		if mayRead || err != nil {
			return idle, err
		}
	}
	idle := map[string]int64{}
	for _, card := range inventory.Status.Cards {
		idle[card.Name] = max(0, card.Healthy-card.Cordoned-card.Allocated)
	}
	return idle, nil
}

// sumIdleCards sums the free cards of all nodes that take pods, and reports whether the user may read
// nodes and pods.
func sumIdleCards(ctx context.Context, r *reader) (map[string]int64, bool, error) {
	var world workloads
	mayRead, err := listInto(ctx, r, func() client.ObjectList { return &corev1.NodeList{} }, &world.nodes)
	if !mayRead || err != nil {
		return nil, false, err
	}
	mayRead, err = listInto(ctx, r, newPodList, &world.pods)
	if !mayRead || err != nil {
		return nil, false, err
	}
	mayRead, err = world.readPolicy(ctx, r)
	if !mayRead || err != nil {
		return nil, false, err
	}

	tracker := world.tracker()
	resolver := workload.Resolver{Inventory: tracker.Inventory()}
	nodes := inventoryview.NewNodeList(tracker.Nodes(), world.pods, func(pod *corev1.Pod) quota.Charge { return resolver.Usage(pod, nil, nil) }, true)
	return nodes.IdleCards(), true, nil
}
