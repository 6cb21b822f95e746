package reader

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
)

// LookUpPolicy reads the ServiceTypePolicy into object. It reports whether the policy exists, and whether the
// mappings of cards in force are known. Before Cardquota is installed they are known: there are none.
//
// After the policy is deleted, operator and scheduler keep its last mappings. Then LookUpPolicy infers them
// from the CardInventory, and sets spec.cards of object to them.
func (r *Reader) LookUpPolicy(ctx context.Context, object *v1alpha1.ServiceTypePolicy, nodes []*corev1.Node) (exists, knowsMappings bool) {
	if r.err != nil { // stays for the caller: IgnoreMissingKind below would drop one of an earlier read
		return false, false
	}

	exists, mayRead := r.LookUp(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, object)
	if r.IgnoreMissingKind() {
		return false, true
	}
	if exists || !mayRead {
		return exists, mayRead
	}

	inventory := &v1alpha1.CardInventory{}
	hasInventory, mayRead := r.LookUp(ctx, client.ObjectKey{Name: v1alpha1.InventoryName}, inventory)
	if r.IgnoreMissingKind() {
		return false, true
	}
	if !hasInventory {
		// The operator creates it at its start. If it does not exist, nothing is mapped yet.
		return false, mayRead
	}

	entries, unknown := inferMappings(nodes, inventory.Status.Cards)
	object.Spec.Cards = entries
	if len(unknown) > 0 {
		r.Gaps = append(r.Gaps, fmt.Sprintf("there is no ServiceTypePolicy, and the CardInventory does not say which card of %s a node has: create the policy again", card.Join(unknown, ", ")))
	}

	return false, len(unknown) == 0
}

// inferMappings returns a mapping for each resource whose cards no label of a node names. With it the nodes
// have the cards that the CardInventory lists. unknown are the resources for which no single mapping gives
// the listed number.
func inferMappings(nodes []*corev1.Node, cards []v1alpha1.InventoryCard) (entries []v1alpha1.CardMapping, unknown []corev1.ResourceName) {
	tracker := Workloads{Nodes: nodes}.Tracker() // without mappings, so it names cards by labels alone
	labelled := tracker.Inventory()

	// The listed cards that no label names, by resource.
	unnamed := map[corev1.ResourceName][]v1alpha1.InventoryCard{}
	for _, entry := range cards {
		for _, text := range entry.Resources {
			resource := corev1.ResourceName(text)
			if isOffered(nodes, resource) && !slices.Contains(labelled.NamesFor(resource), card.Name(entry.Name)) {
				unnamed[resource] = append(unnamed[resource], entry)
			}
		}
	}

	for _, resource := range slices.Sorted(maps.Keys(unnamed)) {
		// Try the mapping that gives all nodes the same model. It is the right one only if the nodes then
		// have as many cards as the CardInventory lists. Two listed names of a resource need more than one
		// mapping.
		listed := unnamed[resource][0]
		entry := v1alpha1.CardMapping{Resource: string(resource), Model: card.Name(listed.Name).Model()}
		tracker.SetMappings(policy.ExpectedMappings(&v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: []v1alpha1.CardMapping{entry}}}))
		if len(unnamed[resource]) == 1 && int64(tracker.Inventory().Physical()[card.Name(listed.Name)]) == listed.Total {
			entries = append(entries, entry)
		} else {
			unknown = append(unknown, resource)
		}
	}

	return entries, unknown
}

// isOffered reports whether a node has a resource.
func isOffered(nodes []*corev1.Node, resource corev1.ResourceName) bool {
	return slices.ContainsFunc(nodes, func(node *corev1.Node) bool {
		_, offered := node.Status.Allocatable[resource]
		return offered
	})
}
