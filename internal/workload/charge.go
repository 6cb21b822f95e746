package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// ChargeOf returns what a pod holds and which queue pays, as far as the pod
// itself tells. It is false for a pod that holds nothing. last is what was
// charged for the pod before, nil when that is not known. The pod is taken at its
// word, see Trust.
func ChargeOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *card.Inventory, last *quota.Charge) (quota.Charge, bool) {
	return Trust{Ours: true}.ChargeOf(pod, group, inv, last)
}

// ChargeAt returns the charge for an ask that is placed on a node: the card
// that the node has now. A node that lost its label or is gone moves no number:
// what was charged last stays. Where nothing is known of the node, every card
// that it may be is charged, so that uncertainty withholds cards and never
// gives them away twice.
func ChargeAt(ask Ask, queue, node string, inv *card.Inventory, last *quota.Charge) quota.Charge {
	charge := quota.Charge{Queue: queue, MilliCPU: ask.MilliCPU, Memory: ask.Memory}
	if ask.Count == 0 {
		for _, name := range lastCards(ask.Claimed, inv, last) {
			charge.Cards = append(charge.Cards, card.Amount{Name: name, Count: ask.Claimed.Count})
		}
		return charge
	}
	if len(ask.Others) == 0 {
		if name, ok := inv.On(node, ask.Resource); ok {
			charge.Cards = []card.Amount{{Name: name, Count: ask.Count}}
			return charge
		}
	}
	for _, held := range append([]Held{{Resource: ask.Resource, Count: ask.Count}}, ask.Others...) {
		for _, name := range possible(ask, held, node, inv, last) {
			charge.Cards = append(charge.Cards, card.Amount{Name: name, Count: held.Count})
		}
	}
	return charge
}

// possible lists the cards that a held resource may be on a node.
func possible(ask Ask, held Held, node string, inv *card.Inventory, last *quota.Charge) []card.Name {
	if name, ok := inv.On(node, held.Resource); ok {
		return []card.Name{name}
	}
	if names := lastCards(held, inv, last); len(names) > 0 {
		return names
	}
	if !ask.Request.Any() {
		return ask.Request.Names()
	}
	names := inv.Named(held.Resource)
	if known, ok := inv.Node(node); ok && known.Model != "" {
		ofModel := slices.DeleteFunc(slices.Clone(names), func(n card.Name) bool { return n.Model() != known.Model })
		if len(ofModel) > 0 {
			return ofModel
		}
	}
	return names
}

// lastCards lists the cards that a held resource was charged as last.
func lastCards(held Held, inv *card.Inventory, last *quota.Charge) []card.Name {
	if last == nil || held.Count == 0 {
		return nil
	}
	names := make([]card.Name, 0, len(last.Cards))
	for _, amount := range last.Cards {
		if resources := inv.ResourcesOf(amount.Name); len(resources) == 0 || slices.Contains(resources, held.Resource) {
			names = append(names, amount.Name)
		}
	}
	return names
}
