package cardinventory

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// ModelChanges keeps which running pods use cards whose name has changed since they were first counted,
// because a label of their node changed. New names by another spec.cards are no such change: an
// administrator wrote them. The zero value knows no pod. It is not safe for concurrent use.
type ModelChanges struct {
	pods      map[types.UID]*podModel
	inventory *card.Inventory
	count     uint64
	// restored are the anomalies that an earlier process wrote, nil once the pods were counted.
	restored []v1alpha1.InventoryAnomaly
}

// podModel has the names by which the cards of one pod were counted.
type podModel struct {
	resource corev1.ResourceName
	// first is the name when the pod was first counted, now is the last one. between are the others.
	first, now card.Name
	between    []card.Name
	isChanged  bool
	// count is the last count in which the pod was running.
	count uint64
}

// Restore takes the changes from the anomalies that an earlier process wrote. All pods that use the
// resource on these nodes at the first count are taken for those that used it at the change.
func (m *ModelChanges) Restore(anomalies []v1alpha1.InventoryAnomaly) {
	m.restored = slices.DeleteFunc(slices.Clone(anomalies), func(a v1alpha1.InventoryAnomaly) bool { return a.Reason != v1alpha1.AnomalyModelChanged })
}

// Update compares the charges of pods with those of the count before, and returns the pods that use
// cards of which the name has changed.
func (m *ModelChanges) Update(pods []*corev1.Pod, charges map[types.UID]quota.Charge, inventory *card.Inventory) []ChangedModel {
	if m.pods == nil {
		m.pods = map[types.UID]*podModel{}
	}

	isRemapped := m.inventory != nil && !m.inventory.Mappings().Equal(inventory.Mappings())
	isSame := m.inventory == inventory
	m.inventory = inventory
	m.count++

	var changed []ChangedModel
	for _, pod := range pods {
		charge, isCharged := charges[pod.UID]
		if !isCharged || len(charge.Cards) == 0 {
			continue
		}

		// Names change with the inventory only, so an unchanged one saves the comparison of every
		// pod.
		model := m.pods[pod.UID]
		if model == nil || !isSame {
			model = m.observePod(pod, charge, isRemapped)
		}

		if model == nil {
			continue
		}

		model.count = m.count
		if model.isChanged {
			changed = append(changed, newChangedModel(pod, model, charge.Cards[0].Count))
		}
	}

	maps.DeleteFunc(m.pods, func(_ types.UID, model *podModel) bool { return model.count != m.count })
	m.restored = nil // pods that start later did not use the cards when the name changed
	return changed
}

// observePod notes by which name the cards of a pod are counted now, and returns what is known of the pod. It
// forgets the earlier name when an administrator has mapped cards to other names (isRemapped), unless the
// name had changed before. For a pod that is new to this process it takes a change that an earlier one wrote.
// It returns nil for a pod of which nothing is known: its node has not named the card yet.
func (m *ModelChanges) observePod(pod *corev1.Pod, charge quota.Charge, isRemapped bool) *podModel {
	model := m.pods[pod.UID]
	resource, isNamed := resourceOnNode(m.inventory, pod.Spec.NodeName, charge)
	switch {
	case !isNamed:
		return model // the labels are gone, and may come back
	case model == nil || (isRemapped && !model.isChanged):
		name := charge.Cards[0].Name
		model = &podModel{resource: resource, first: name, now: name}
		m.pods[pod.UID] = model
		m.restoreChange(pod.Spec.NodeName, model)
	case charge.Cards[0].Name != model.now:
		if model.now != model.first && !slices.Contains(model.between, model.now) {
			model.between = append(model.between, model.now)
		}
		model.now = charge.Cards[0].Name
		model.isChanged = true
	}

	return model
}

// restoreChange takes the first name of a pod from the anomalies of an earlier process.
func (m *ModelChanges) restoreChange(node string, model *podModel) {
	for _, anomaly := range m.restored {
		if string(model.resource) == anomaly.Resource && slices.Contains(anomaly.Nodes, node) {
			model.first = card.Name(anomaly.Card)
			model.isChanged = true
			return
		}
	}
}

// resourceOnNode returns the resource by which a node offers the charged card, false if the charge or
// the node leaves open which card it is.
func resourceOnNode(inventory *card.Inventory, node string, charge quota.Charge) (corev1.ResourceName, bool) {
	if len(charge.Cards) != 1 {
		return "", false
	}

	// Running pods keep a card that the node withholds from new ones.
	known, _ := inventory.Node(node)
	for _, cards := range [][]card.NodeCard{known.Cards, known.Withheld} {
		for _, offered := range cards {
			if offered.Name == charge.Cards[0].Name {
				return offered.Resource, true
			}
		}
	}

	return "", false
}

// ChangedModel is a pod that uses cards of which the name has changed.
type ChangedModel struct {
	pod, node string
	resource  corev1.ResourceName
	first     card.Name
	// change says how the name has changed.
	change string
	count  card.Count
}

// newChangedModel describes how the name of a pod's cards has changed, also if it is the first one again.
func newChangedModel(pod *corev1.Pod, model *podModel, count card.Count) ChangedModel {
	change := fmt.Sprintf("started as %s and count as %s now", model.first, model.now)
	if model.now == model.first {
		between := "another card"
		if len(model.between) > 0 {
			between = card.Join(model.between, ", ")
		}
		change = fmt.Sprintf("count as %s, and counted as %s in between", model.now, between)
	}
	return ChangedModel{pod.Namespace + "/" + pod.Name, pod.Spec.NodeName, model.resource, model.first, change, count}
}

// addChangedModel adds the cards of a pod of which the name has changed.
func (l anomalyList) addChangedModel(changed ChangedModel) {
	key := anomalyKey{reason: v1alpha1.AnomalyModelChanged, resource: changed.resource, card: changed.first, text: changed.change}
	sum := l.add(key, changed.node, changed.count)
	sum.pods = append(sum.pods, changed.pod)
}
