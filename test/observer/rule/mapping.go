package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

// Mapping is an entry of spec.cards of the ServiceTypePolicy.
type Mapping struct {
	Resource                       corev1.ResourceName
	Model, ModelLabel, MemoryLabel string
	NodeSelector                   map[string]string
}

// ReadMappedNode is ReadNode with entries of spec.cards. An entry that selects the node names its
// resource, in place of the labels. A resource of an entry is a card on every node.
func ReadMappedNode(node *corev1.Node, mappings []Mapping) Node {
	named := namesByMapping(node, mappings)
	out := ReadNode(withoutMapped(node, named))
	for _, mapping := range mappings {
		quantity, offered := node.Status.Allocatable[mapping.Resource]
		names, isSelected := named[mapping.Resource]
		if _, labelled := out.Cards[mapping.Resource]; !offered || (labelled && !isSelected) {
			continue
		}

		offer := Offer{Count: countOf(quantity)}
		for name := range names {
			if len(names) == 1 {
				offer.Card = name
			}
		}
		out.Cards[mapping.Resource] = offer
	}

	// Entries for some resources do not release others that could be cards by the labels.
	for name, offer := range ReadNode(node).Cards {
		if _, isCard := out.Cards[name]; !isCard {
			out.Cards[name] = Offer{Count: offer.Count}
		}
	}

	setModel(&out)
	return out
}

// namesByMapping returns the cards that the selecting entries give to each of their resources, "" for
// one that cannot be read.
func namesByMapping(node *corev1.Node, mappings []Mapping) map[corev1.ResourceName]map[string]bool {
	named := map[corev1.ResourceName]map[string]bool{}
	for _, mapping := range mappings {
		if !matchesSelector(mapping.NodeSelector, node.Labels) {
			continue
		}

		if named[mapping.Resource] == nil {
			named[mapping.Resource] = map[string]bool{}
		}
		if name, isKnown := mapping.cardOf(node); isKnown {
			named[mapping.Resource][name] = true
		}
	}

	return named
}

// isNetwork reports whether a resource is a network device by its name: one of its words begins so.
// SR-IOV divides cards, too, and these have the word of a card.
func isNetwork(name string) bool {
	domain, device, _ := strings.Cut(strings.ToLower(name), "/")
	starts := []string{"rdma", "hostdev", "netdevice", "infiniband", "roce"}
	if !strings.Contains(device, "gpu") && !strings.Contains(device, "npu") {
		starts = append(starts, "sriov")
	}

	for _, word := range strings.FieldsFunc(device, func(r rune) bool { return !unicode.IsLetter(r) }) {
		for _, start := range starts {
			if strings.HasPrefix(word, start) {
				return true
			}
		}
	}

	return domain == "rdma"
}

func matchesSelector(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// cardOf returns the card of an entry on a node, "" if it cannot be read. It is false without the label
// that names the model: another entry may name it.
func (m Mapping) cardOf(node *corev1.Node) (string, bool) {
	model := m.Model
	labels := node.Labels
	if m.ModelLabel != "" {
		model = labels[m.ModelLabel]
	}

	if model == "" {
		return "", false
	}

	card := model
	if profile, isSlice := strings.CutPrefix(string(m.Resource), migPrefix); isSlice {
		card = model + "/mig-" + profile + "-mixed"
		if isSharedSlice(string(m.Resource), node) && !strings.HasSuffix(model, "-SHARED") {
			card += "-SHARED"
		}
	}

	if base, isShare := strings.CutSuffix(string(m.Resource), ".shared"); isShare {
		memory, err1 := strconv.ParseInt(labels[m.MemoryLabel], 10, 64)
		replicas, err2 := strconv.ParseInt(labels[base+".replicas"], 10, 64)
		if err1 != nil || err2 != nil || memory < 1 {
			return "", true
		}
		card = fmt.Sprintf("%s/mps-%dg*1/%d", model, int64(math.Round(float64(memory)/1024)), replicas)
	}

	if !IsCardName(card) {
		return "", true
	}

	return card, true
}

// withoutMapped returns a node without the resources that entries name, and without the labels of
// vendors whose cards are all named by entries. Of such a vendor no other resource is a card because
// it is the only one.
func withoutMapped(node *corev1.Node, named map[corev1.ResourceName]map[string]bool) *corev1.Node {
	rest := node.DeepCopy()
	vendors := map[string]bool{}
	for name := range named {
		if _, offered := rest.Status.Allocatable[name]; offered {
			delete(rest.Status.Allocatable, name)
			if t, isShare := strings.CutSuffix(string(name), ".shared"); isShare {
				delete(rest.Labels, t+".replicas") // those of the entry
			}
			vendor, _, _ := strings.Cut(string(name), "/")
			vendors[vendor] = true
		}
	}

	for _, t := range typesOf(node.Labels) {
		vendor, _, _ := strings.Cut(t, "/")
		offersSlice := false
		for name := range rest.Status.Allocatable {
			offersSlice = offersSlice || (vendor+"/" == nvidia && strings.HasPrefix(string(name), migPrefix))
		}

		_, whole := rest.Status.Allocatable[corev1.ResourceName(t)]
		_, shared := rest.Status.Allocatable[corev1.ResourceName(t+".shared")]
		if vendors[vendor] && !whole && !shared && !offersSlice {
			rest.Labels[t+".product"] = ""
		}
	}

	return rest
}

// setModel sets the model of a node to that of its cards. It has none if they differ.
func setModel(node *Node) {
	models := map[string]bool{}
	for _, offer := range node.Cards {
		if model, _, _ := strings.Cut(offer.Card, "/"); model != "" {
			models[model] = true
		}
	}

	for model := range models {
		node.Model = model
		if len(models) > 1 {
			node.Model = ""
		}
	}
}
