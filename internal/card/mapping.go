package card

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Bounds of mappings.
const (
	MaxMappings       = 64
	MaxSelectorLabels = 16
)

// Mapping names the card of a resource on nodes whose labels <vendor>/<type>.product and <vendor>/<type>.memory do not. It
// replaces those labels for its resource.
type Mapping struct {
	// Resource is the resource under which the device plugin offers the card.
	Resource corev1.ResourceName
	// Model is the card model, or ModelLabel the label of the node whose value it is.
	Model, ModelLabel string
	// NodeSelector is the labels of the nodes that the mapping is for, none for all nodes.
	NodeSelector map[string]string
	// MemoryLabel is the label with the memory of a card in MiB, for shares (<vendor>/<type>.shared) only.
	MemoryLabel string
}

// Mappings name the cards of several resources.
type Mappings []Mapping

// Equal reports whether two lists are equal.
func (m Mappings) Equal(o Mappings) bool {
	return slices.EqualFunc(m, o, func(a, b Mapping) bool {
		return a.Resource == b.Resource && a.Model == b.Model && a.ModelLabel == b.ModelLabel && a.MemoryLabel == b.MemoryLabel &&
			maps.Equal(a.NodeSelector, b.NodeSelector)
	})
}

// Resources returns the mapped resources, sorted. They are cards also while no node offers them.
func (m Mappings) Resources() []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(m))
	for _, mapping := range m {
		out = append(out, mapping.Resource)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Sorted returns a copy by resource and selector, so that two spellings of one list are equal.
func (m Mappings) Sorted() Mappings {
	out := slices.Clone(m)
	slices.SortFunc(out, func(a, b Mapping) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.selectorText(), b.selectorText()))
	})
	return out
}

// selectorText returns the nodeSelector as one text, which is the same for equal selectors.
func (m Mapping) selectorText() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m.NodeSelector)) {
		fmt.Fprintf(&b, "%s=%s,", key, m.NodeSelector[key])
	}
	return b.String()
}

// Selects reports whether the mapping is for a node with these labels.
func (m Mapping) Selects(labels map[string]string) bool {
	for key, value := range m.NodeSelector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// isShare reports whether the resource is a share of a card.
func (m Mapping) isShare() bool { return strings.HasSuffix(string(m.Resource), SharedSuffix) }

// MappingError is a mistake in an entry of a list of mappings.
type MappingError struct {
	// Index is the entry, -1 for the list itself.
	Index int
	// Field is the field of the entry, "" for the entry itself.
	Field, Message string
}

// Error implements error.
func (e *MappingError) Error() string {
	if e.Index < 0 {
		return e.Message
	}
	where := fmt.Sprintf("entry %d", e.Index+1)
	if e.Field != "" {
		where += ", " + e.Field
	}
	return where + ": " + e.Message
}

// Mistakes returns everything that is wrong with a list of mappings. A list that is too long is one mistake,
// so that its entries are not checked.
func (m Mappings) Mistakes() []*MappingError {
	if len(m) > MaxMappings {
		return []*MappingError{{-1, "", fmt.Sprintf("%d entries, at most %d are allowed", len(m), MaxMappings)}}
	}

	var wrong []*MappingError
	seen := map[string]bool{}
	for i, mapping := range m {
		for _, mistake := range mapping.mistakes() {
			mistake.Index = i
			wrong = append(wrong, mistake)
		}

		key := string(mapping.Resource) + " " + mapping.selectorText()
		if seen[key] {
			wrong = append(wrong, &MappingError{i, "", "has the resource and the nodeSelector of another entry: keep one of them"})
		}
		seen[key] = true
	}

	return wrong
}

// Validate returns everything that is wrong with a list of mappings, in one error.
func (m Mappings) Validate() error {
	var wrong []error
	for _, mistake := range m.Mistakes() {
		wrong = append(wrong, mistake)
	}
	return joinMistakes(wrong)
}

// mistakes returns everything that is wrong with one mapping. The caller sets Index.
func (m Mapping) mistakes() []*MappingError {
	var wrong []*MappingError
	add := func(field string, err error) {
		if err != nil {
			wrong = append(wrong, &MappingError{Field: field, Message: err.Error()})
		}
	}

	add("resource", checkMappedResource(string(m.Resource)))
	switch {
	case m.Model == "" && m.ModelLabel == "":
		add("", errors.New("names no card: write modelLabel, the label with the model, or model"))
	case m.Model != "" && m.ModelLabel != "":
		add("", errors.New("has modelLabel and model: keep one of them"))
	case m.ModelLabel != "":
		add("modelLabel", checkLabel(m.ModelLabel))
	default:
		add("model", m.checkModel())
	}

	switch {
	case m.isShare() && m.MemoryLabel == "":
		add("memoryLabel", fmt.Errorf("is missing: the name of a share such as %s contains the memory of its card", quoteText(string(m.Resource))))
	case !m.isShare() && m.MemoryLabel != "":
		add("memoryLabel", fmt.Errorf("has no effect: only the name of a share (%s) contains the memory", quoteText(string(m.Resource)+SharedSuffix)))
	case m.MemoryLabel != "":
		add("memoryLabel", checkLabel(m.MemoryLabel))
	}

	add("nodeSelector", m.checkSelector())
	return wrong
}

// checkMappedResource refuses resources of Kubernetes, and names that no resource has.
func checkMappedResource(name string) error {
	domain, _, isQualified := strings.Cut(name, "/")
	switch {
	case !isQualified || strings.Contains(domain, "kubernetes.io"):
		return fmt.Errorf("%s is no card: write the extended resource of a device plugin, for example amd.com/gpu", quoteText(name))
	case len(validation.IsQualifiedName(name)) > 0:
		return fmt.Errorf("%s is no name of a resource: write it as the node does in status.allocatable", quoteText(name))
	}
	return nil
}

// checkModel requires a model that makes a card name. For a MIG slice the name has also the profile, which
// is a part of the resource. Whether slices are shared is known on each node only, so it asks an empty one.
func (m Mapping) checkModel() error {
	if !modelPattern.MatchString(m.Model) {
		return fmt.Errorf("%s is no card model: write letters, digits, '-', '_' and '.', at most 63", quoteText(m.Model))
	}
	_, err := ParseName(string(m.wholeOrSlice(m.Model, &corev1.Node{})))
	return err
}

// checkLabel requires the key of a label.
func checkLabel(key string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return fmt.Errorf("%s is no key of a label: write it as kubectl get node --show-labels does", quoteText(key))
	}
	return nil
}

// checkSelector requires labels and values, at most MaxSelectorLabels. It returns the first mistake by key.
func (m Mapping) checkSelector() error {
	if len(m.NodeSelector) > MaxSelectorLabels {
		return fmt.Errorf("%d labels, at most %d are allowed", len(m.NodeSelector), MaxSelectorLabels)
	}

	for _, key := range slices.Sorted(maps.Keys(m.NodeSelector)) {
		if err := checkLabel(key); err != nil {
			return err
		}
		if value := m.NodeSelector[key]; len(validation.IsValidLabelValue(value)) > 0 {
			return fmt.Errorf("%s is no value of a label", quoteText(value))
		}
	}
	return nil
}

// wholeOrSlice returns the name of a whole card, or of a MIG slice if the resource is one. The node says
// whether it is a share of a slice, unless the model says so itself.
func (m Mapping) wholeOrSlice(model string, node *corev1.Node) Name {
	if !strings.HasPrefix(string(m.Resource), MIGPrefix) {
		return Name(model)
	}
	isShared := sharesSlices(node, m.Resource) && !strings.HasSuffix(model, sharedProduct)
	return Name(model + sliceSuffix(m.Resource, isShared))
}
