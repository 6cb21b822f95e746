package card

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DescribeMissingLabels says that the labels of a node do not name the card of a resource. It names the
// label that lacks beside the model: feature discovery writes no memory for cards that share the memory of
// their node.
func DescribeMissingLabels(labels map[string]string, resource corev1.ResourceName) string {
	vendor, _, _ := strings.Cut(string(resource), "/")
	if base, found := typeWithoutMemory(labels, resource); found {
		return fmt.Sprintf("no label %s%s beside %s%s=%s", base, MemorySuffix, base, ProductSuffix, labels[base+ProductSuffix])
	}
	return fmt.Sprintf("no label %s/<type>.product with %[1]s/<type>.memory", vendor)
}

// typeWithoutMemory returns the card type <vendor>/<type> of a resource whose label names a model without <vendor>/<type>.memory.
// A vendor other than NVIDIA may name its resource differently. It is false where no model lacks its memory.
func typeWithoutMemory(labels map[string]string, resource corev1.ResourceName) (string, bool) {
	isIncomplete := func(base string) bool {
		_, hasMemory := labels[base+MemorySuffix]
		return labels[base+ProductSuffix] != "" && !hasMemory
	}

	vendor, _, _ := strings.Cut(string(resource), "/")
	base := strings.TrimSuffix(string(resource), SharedSuffix)
	if strings.HasPrefix(base, MIGPrefix) {
		base = NVIDIA + "/gpu" // slices have the model of the whole card
	}

	if isIncomplete(base) || vendor == NVIDIA { // NVIDIA's labels have the name of the resource
		return base, isIncomplete(base)
	}

	// Map order is random, and the message must stay the same, so the first name in order counts.
	first := ""
	for key := range labels {
		other, isModel := strings.CutSuffix(key, ProductSuffix)
		isCandidate := isModel && strings.HasPrefix(key, vendor+"/") && isIncomplete(other)
		if isCandidate && (first == "" || other < first) {
			first = other
		}
	}

	return first, first != ""
}
