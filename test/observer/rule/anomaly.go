package rule

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// Anomaly is something that is wrong with one node, as docs/troubleshooting.md lists it.
type Anomaly struct {
	Reason v1alpha1.AnomalyReason
	// Name is the card, else the resource, "" for several resources.
	Name  string
	Count int64
}

// vendorCards are resources of known device plugins. The observer knows few of them, and those of
// the tests.
var vendorCards = []corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "hygon.com/dcu", "huawei.com/Ascend910", "huawei.com/Ascend310", "huawei.com/npu", "gpu.intel.com/i915", volcanoCards}

// volcanoCards are parts of cards by Volcano's own device plugin.
const volcanoCards corev1.ResourceName = "volcano.sh/vgpu-number"

// IsVendorCard reports whether a resource is a card of a device plugin that the observer knows.
func IsVendorCard(resource corev1.ResourceName) bool {
	return slices.Contains(vendorCards, resource) || strings.HasPrefix(string(resource), migPrefix)
}

// MayBeVendorCard reports whether a resource may be a card of a device plugin that the observer does
// not know. Network devices are none.
func MayBeVendorCard(resource string) bool {
	return !IsVendorCard(corev1.ResourceName(resource)) && !isNetwork(resource)
}

// AnomaliesOf returns what is wrong with the cards of a node. wasCard reports whether a resource is a
// card of some node, or was one.
func AnomaliesOf(node *corev1.Node, mappings []Mapping, wasCard func(corev1.ResourceName) bool) []Anomaly {
	offers := ReadMappedNode(node, mappings).Cards
	w := withheldNode{node: node, mapped: namesByMapping(node, mappings)}
	w.rest = withoutMapped(node, w.mapped)
	w.types = typesOf(w.rest.Labels)
	w.labelled = ReadNode(w.rest).Cards

	var found []Anomaly
	if len(w.types) > 1 {
		found = append(found, Anomaly{Reason: v1alpha1.AnomalySeveralModels})
	}

	for _, resource := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		offer, isCard := offers[resource]
		capacity := countOf(node.Status.Capacity[resource])
		if offer.IsMore {
			found = append(found, Anomaly{v1alpha1.AnomalyMoreThanLabelled, cmp.Or(offer.Oversold, string(resource)), offer.Count})
		}

		switch {
		case offer.Oversold != "":
		case isCard && offer.Card == "":
			if a := w.reasonFor(resource); !slices.Contains(found, a) {
				found = append(found, a)
			}
		case isCard:
			found = append(found, brokenCards(node, offers, resource)...)
		case !strings.Contains(string(resource), "/"):
		default:
			if a := unnamedAnomaly(resource, max(countOf(node.Status.Allocatable[resource]), capacity), wasCard); a.Count > 0 {
				found = append(found, a)
			}
		}
	}

	return found
}

// brokenCards returns what is wrong with cards that have a name, nothing for healthy ones.
func brokenCards(node *corev1.Node, offers map[corev1.ResourceName]Offer, resource corev1.ResourceName) []Anomaly {
	offer := offers[resource]
	capacity := countOf(node.Status.Capacity[resource])
	switch {
	case offer.Count == 0 && offersOtherCards(node, offers, resource):
	case capacity > offer.Count:
		return []Anomaly{{v1alpha1.AnomalyCardsUnhealthy, offer.Card, capacity - offer.Count}}
	case offer.Count == 0 && !hasCardsOfVendor(node, offers, resource):
		return []Anomaly{{Reason: v1alpha1.AnomalyCardsUnhealthy, Name: offer.Card}}
	}
	return nil
}

// offersOtherCards reports whether pods can get cards of a vendor by another resource, and the labels do not
// say that they should get this one, too.
func offersOtherCards(node *corev1.Node, offers map[corev1.ResourceName]Offer, resource corev1.ResourceName) bool {
	switch {
	case resource != volcanoCards && countOf(node.Status.Allocatable[volcanoCards]) > 0:
		return true // Volcano shares cards of any vendor
	case isExpected(node, string(resource)):
		return false
	}

	domain, _, _ := strings.Cut(string(resource), "/")
	for other, quantity := range node.Status.Allocatable {
		_, isCard := offers[other]
		isOfVendor := other != resource && strings.HasPrefix(string(other), domain+"/")
		if isOfVendor && (isCard || IsVendorCard(other)) && countOf(quantity) > 0 {
			return true
		}
	}

	return false
}

// isExpected reports whether the labels count cards of this resource: shares under their own name where the node
// has such a name and the product is not marked, else whole cards or slices.
func isExpected(node *corev1.Node, resource string) bool {
	t := strings.TrimSuffix(resource, ".shared")
	count, err1 := strconv.ParseUint(node.Labels[t+".count"], 10, 31)
	replicas, err2 := strconv.ParseUint(node.Labels[t+".replicas"], 10, 31)
	if err1 != nil || err2 != nil || count < 1 || replicas < 1 {
		return false
	}
	if replicas == 1 || strings.HasSuffix(node.Labels[t+".product"], "-SHARED") {
		return resource == t
	}
	_, hasShares := node.Status.Allocatable[corev1.ResourceName(t+".shared")]
	return hasShares == (resource != t)
}

// hasCardsOfVendor reports whether a node states a number of cards under any name of a vendor, so that
// its device plugin works.
func hasCardsOfVendor(node *corev1.Node, offers map[corev1.ResourceName]Offer, resource corev1.ResourceName) bool {
	domain, _, _ := strings.Cut(string(resource), "/")
	var stated int64
	for other, offer := range offers {
		if theirs, _, _ := strings.Cut(string(other), "/"); theirs == domain {
			stated += offer.Count + countOf(node.Status.Capacity[other])
		}
	}
	return stated > 0
}

// unnamedAnomaly returns what is wrong with a resource that is no card on its node, without a count
// for nothing.
func unnamedAnomaly(resource corev1.ResourceName, count int64, wasCard func(corev1.ResourceName) bool) Anomaly {
	switch {
	case wasCard(resource):
		return Anomaly{v1alpha1.AnomalyNoModelLabel, string(resource), count}
	case IsVendorCard(resource):
		return Anomaly{v1alpha1.AnomalyUnmappedResource, string(resource), count}
	}
	return Anomaly{}
}

// withheldNode finds why a resource of a node has no card name.
type withheldNode struct {
	node *corev1.Node
	// mapped are the names by entries of spec.cards, rest is the node without what these name, with
	// the types and cards of its labels.
	mapped   map[corev1.ResourceName]map[string]bool
	rest     *corev1.Node
	types    []string
	labelled map[corev1.ResourceName]Offer
}

func (w *withheldNode) reasonFor(resource corev1.ResourceName) Anomaly {
	anomaly := Anomaly{v1alpha1.AnomalyNoModelLabel, string(resource), countOf(w.node.Status.Allocatable[resource])}
	if names, isMapped := w.mapped[resource]; isMapped {
		anomaly.Reason = reasonForMapped(names)
		return anomaly
	}

	_, isLabelled := w.labelled[resource]
	switch {
	case !isLabelled || len(w.types) == 0: // by an entry for other nodes, or by no label at all
		return anomaly
	case len(w.types) > 1:
		return Anomaly{Reason: v1alpha1.AnomalySeveralModels}
	}

	_, isSlice := strings.CutPrefix(string(resource), migPrefix)
	switch {
	case isSlice && !strings.HasPrefix(w.types[0], nvidia):
	case isSlice || isExact(string(resource), w.types[0]):
		anomaly.Reason = v1alpha1.AnomalyInvalidLabel
	default:
		return Anomaly{Reason: v1alpha1.AnomalyAmbiguousResource}
	}

	return anomaly
}

// reasonForMapped returns why the names by entries of spec.cards give no card name.
func reasonForMapped(names map[string]bool) v1alpha1.AnomalyReason {
	switch {
	case len(names) > 2 || (len(names) == 2 && !names[""]):
		return v1alpha1.AnomalySeveralModels
	case len(names) > 0:
		return v1alpha1.AnomalyInvalidLabel
	}
	return v1alpha1.AnomalyNoModelLabel
}
