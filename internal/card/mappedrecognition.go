package card

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Recognise returns the cards of a node from its labels and status.allocatable. A mapping decides
// about its resource, on the nodes that it selects; the labels <vendor>/<type>.product and <vendor>/<type>.memory decide
// about every other one. A mapped resource is a card everywhere: a node on which neither names it
// offers none. What the labels alone make a card, or withhold as one, is never released by mappings
// of other resources.
func Recognise(node *corev1.Node, mappings Mappings) Node {
	if len(mappings) == 0 {
		return recogniseLabels(node, nil)
	}

	m := mappedRecognition{node: node}
	for _, resource := range mappings.Resources() {
		if _, offered := node.Status.Allocatable[resource]; offered {
			m.recogniseResource(resource, mappings)
		}
	}

	// Labels alone decide about the other resources, so hide those that a mapping has decided about.
	rest := &corev1.Node{ObjectMeta: node.ObjectMeta}
	rest.Status.Allocatable = corev1.ResourceList{}
	for name, quantity := range node.Status.Allocatable {
		if !slices.Contains(m.resources, name) {
			rest.Status.Allocatable[name] = quantity
		}
	}

	// Cards that neither names are withheld: those that are mapped on other nodes only, and those that
	// the labels would name without mappings.
	out := recogniseLabels(rest, m.resources)
	m.withholdUnmapped(&out)
	m.withholdCandidates(&out)
	return m.merge(out)
}

// mappedRecognition is the recognition of the mapped resources of a node.
type mappedRecognition struct {
	node *corev1.Node
	// out has the cards of resources that some mapping selects, resources are these.
	out       Node
	resources []corev1.ResourceName
	// unmapped are the resources whose mappings do not select the node.
	unmapped []corev1.ResourceName
}

// recogniseResource names one resource by the mappings that select the node, or withholds it if they do not say which
// card it is.
func (m *mappedRecognition) recogniseResource(resource corev1.ResourceName, mappings Mappings) {
	names, problem, isSelected := m.namesFor(resource, mappings)
	if !isSelected {
		m.unmapped = append(m.unmapped, resource)
		return
	}

	m.resources = append(m.resources, resource)
	slices.Sort(names)
	switch {
	case len(names) > 1: // which of the cards it is, is unknown
		m.withhold(Anomaly{SeveralModels, resource, fmt.Sprintf("offers %s, which spec.cards of the policy maps to more than one card: %s", resource, Join(names, ", "))})
	// A label that makes no card name could mean another card than the name of the other mapping.
	case problem != nil && (len(names) == 0 || problem.Reason == InvalidLabel):
		m.withhold(*problem)
	default:
		m.out.Cards = append(m.out.Cards, NodeCard{names[0], resource, allocatableCount(m.node, resource)})
	}
}

// namesFor returns the card names that mappings give to a resource, what is wrong with a mapping, and
// whether any selects the node. Of several problems it returns a label that makes no card name, if there is
// one: only a person can correct that, while a missing label may still be written by discovery.
func (m *mappedRecognition) namesFor(resource corev1.ResourceName, mappings Mappings) (names []Name, problem *Anomaly, isSelected bool) {
	for _, mapping := range mappings {
		if mapping.Resource != resource || !mapping.Selects(m.node.Labels) {
			continue
		}

		isSelected = true
		name, anomaly := mapping.nameOn(m.node)
		switch {
		case anomaly == nil && !slices.Contains(names, name):
			names = append(names, name)
		case anomaly != nil && (problem == nil || anomaly.Reason == InvalidLabel):
			problem = anomaly
		}
	}

	return names, problem, isSelected
}

// withhold withholds the resource of an anomaly from new pods, and reports the anomaly.
func (m *mappedRecognition) withhold(anomaly Anomaly) {
	m.out.Unnamed = append(m.out.Unnamed, anomaly.Resource)
	m.out.Anomalies = append(m.out.Anomalies, anomaly)
}

// What stands before and after the label in the message of a node without the label of a mapping.
const (
	beforeMissingLabel = " but no label "
	afterMissingLabel  = ", by which spec.cards of the policy names the card"
)

// ParseMissingLabel returns the label of a mapping that the message of an anomaly misses, false if
// the message is about something else.
func ParseMissingLabel(message string) (label string, ok bool) {
	message, _, ok = strings.Cut(message, afterMissingLabel)
	if !ok {
		return "", false
	}
	_, label, ok = strings.Cut(message, beforeMissingLabel)
	return label, ok
}

// nameOn returns the card name that the mapping gives to its resource on a node, or why it gives none.
func (m Mapping) nameOn(node *corev1.Node) (Name, *Anomaly) {
	model := m.Model
	labels := node.Labels
	if m.ModelLabel != "" {
		model = labels[m.ModelLabel]
		if model == "" {
			return "", &Anomaly{NoModelLabel, m.Resource, "offers " + string(m.Resource) + beforeMissingLabel + m.ModelLabel + afterMissingLabel}
		}
	}

	name := m.wholeOrSlice(model, node)
	if m.isShare() { // its name has the memory and the number of shares of a card
		base := strings.TrimSuffix(string(m.Resource), SharedSuffix)
		suffix, err := shareSuffix(labels, base+ReplicasSuffix, m.MemoryLabel)
		if err != nil {
			return "", &Anomaly{InvalidLabel, m.Resource, fmt.Sprintf("offers %s but %v", m.Resource, err)}
		}
		name = Name(model + suffix)
	}

	if _, err := ParseName(string(name)); err != nil {
		return "", &Anomaly{InvalidLabel, m.Resource, fmt.Sprintf("offers %s, which makes no card name: %v", m.Resource, err)}
	}

	return name, nil
}

// withholdUnmapped withholds resources that only mappings for other nodes name: they are cards everywhere, and
// nothing says which one is here.
func (m *mappedRecognition) withholdUnmapped(out *Node) {
	for _, resource := range m.unmapped {
		if !out.isRecognised(resource) {
			out.withholdUnnamed(m.node.Labels, resource)
		}
	}
}

// withholdCandidates withholds resources that could be cards by the labels alone, and that nothing
// names since a mapping names another resource of their vendor. Otherwise no quota would limit
// them.
func (m *mappedRecognition) withholdCandidates(out *Node) {
	labelled := recogniseLabels(m.node, nil)
	for _, resource := range labelled.Resources() {
		if !m.out.isRecognised(resource) && !out.isRecognised(resource) {
			out.withholdUnnamed(m.node.Labels, resource)
		}
	}
}

// withholdUnnamed withholds a resource that neither a label nor a mapping names.
func (n *Node) withholdUnnamed(labels map[string]string, resource corev1.ResourceName) {
	n.Unnamed = append(n.Unnamed, resource)
	n.Anomalies = append(n.Anomalies, Anomaly{NoModelLabel, resource, fmt.Sprintf(
		"offers %s but %s and no entry of spec.cards of the policy names its card on this node", resource, DescribeMissingLabels(labels, resource))})
}

// Resources returns the resources of a node that are cards, or withheld as cards, sorted.
func (n *Node) Resources() []corev1.ResourceName {
	out := slices.Clone(n.Unnamed)
	for _, offered := range n.Cards {
		out = append(out, offered.Resource)
	}
	slices.Sort(out)
	return out
}

// isRecognised reports whether a resource of a node is a card, or withheld as one.
func (n *Node) isRecognised(resource corev1.ResourceName) bool {
	return slices.Contains(n.Unnamed, resource) || slices.ContainsFunc(n.Cards, func(offered NodeCard) bool { return offered.Resource == resource })
}

// merge returns what mappings name together with what labels name. If the resources of a node have different models,
// the node has none.
func (m *mappedRecognition) merge(labelled Node) Node {
	out := Node{
		Model:     labelled.Model,
		Cards:     append(m.out.Cards, labelled.Cards...),
		Unnamed:   append(m.out.Unnamed, labelled.Unnamed...),
		Withheld:  labelled.Withheld,
		Anomalies: append(m.out.Anomalies, labelled.Anomalies...),
	}

	slices.SortFunc(out.Cards, func(a, b NodeCard) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	slices.Sort(out.Unnamed)
	for i, offered := range out.Cards {
		switch model := offered.Name.Model(); {
		case i == 0:
			out.Model = model
		case out.Model != model:
			out.Model = ""
		}
	}

	return out
}
