package card

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// sharedProduct is what GPU feature discovery appends to a product whose cards or slices are shared
// under their own resource.
const sharedProduct = "-SHARED"

// The suffixes of labels that say how many cards a node has, and how they are shared.
const (
	countSuffix    = ".count"
	strategySuffix = ".sharing-strategy"
)

// sliceSuffix returns what follows the model in the name of a MIG slice, or of a share of one.
func sliceSuffix(resource corev1.ResourceName, isShared bool) string {
	suffix := "/mig-" + strings.TrimPrefix(string(resource), MIGPrefix) + "-mixed"
	if isShared {
		suffix += sharedProduct
	}
	return suffix
}

// hasSharedProduct reports whether the product of a resource is that of shares.
func hasSharedProduct(labels map[string]string, resource corev1.ResourceName) bool {
	return strings.HasSuffix(labels[string(resource)+ProductSuffix], sharedProduct)
}

// sharesSlices reports whether a resource of MIG slices stands for shares of them. Either its product
// says so, or its number of replicas. Shares that a mapping names have a resource of their own, too.
func sharesSlices(node *corev1.Node, resource corev1.ResourceName, mapped ...corev1.ResourceName) bool {
	return hasSharedProduct(node.Labels, resource) || sharesByReplicas(node, resource, mapped)
}

// sharesByReplicas reports whether the number of replicas says that a resource stands for shares of cards,
// while no other resource has the shares. Discovery says so where it takes the shares for renamed, and the
// device plugin does not rename them.
func sharesByReplicas(node *corev1.Node, resource corev1.ResourceName, mapped []corev1.ResourceName) bool {
	return labelledReplicas(node.Labels, string(resource)) > 1 && !hasSharesOf(node, resource, mapped)
}

// hasSharesOf reports whether shares of cards have a resource of their own, which the node offers or a
// mapping names.
func hasSharesOf(node *corev1.Node, resource corev1.ResourceName, mapped []corev1.ResourceName) bool {
	shares := resource + SharedSuffix
	_, isRenamed := node.Status.Allocatable[shares]
	return isRenamed || slices.Contains(mapped, shares)
}

// labelledNumber is how many cards or shares the labels of a type say that a node has: number is count times
// replicas, the shares of each card. base is what the keys of these labels begin with.
type labelledNumber struct {
	base            string
	count, replicas Count
	number          Count
}

// numberInLabels returns how many cards of a resource the labels of its very name say, false without
// a label for their count. Resources with another name than their labels have no such number.
func (r *nodeRecognition) numberInLabels(resource corev1.ResourceName) (labelledNumber, bool) {
	base := strings.TrimSuffix(string(resource), SharedSuffix)
	if base != r.product.vendor+"/"+r.product.kind && !strings.HasPrefix(base, MIGPrefix) {
		return labelledNumber{}, false
	}

	count, err := strconv.ParseUint(r.node.Labels[base+countSuffix], 10, 31) // 31 bits, so that the product fits
	if err != nil {
		return labelledNumber{}, false
	}

	n := labelledNumber{base: base, count: Count(count), replicas: labelledReplicas(r.node.Labels, base)}
	if base == string(resource) && hasSharesOf(r.node, resource, r.mapped) {
		n.replicas = 1 // the label is about the shares, which are another resource
	}

	n.number = n.count * n.replicas
	return n, true
}

// labelledReplicas returns how many shares of each card the labels of a type say. Without sharing
// feature discovery writes 1, or 0 on nodes with MIG slices.
func labelledReplicas(labels map[string]string, base string) Count {
	replicas, err := strconv.ParseUint(labels[base+ReplicasSuffix], 10, 31)
	if err != nil || replicas == 0 {
		return 1
	}
	return Count(replicas)
}

// LabelsSayForm reports whether the labels of a node say that it has cards in the form of a resource: whole cards,
// slices, or shares of one of these. Labels without a number of cards and of replicas say nothing.
func LabelsSayForm(node *corev1.Node, resource corev1.ResourceName) bool {
	base, isShare := strings.CutSuffix(string(resource), SharedSuffix)
	count, err := strconv.ParseUint(node.Labels[base+countSuffix], 10, 31)
	if err != nil || count == 0 {
		return false
	}

	replicas, err := strconv.ParseUint(node.Labels[base+ReplicasSuffix], 10, 31)
	if err != nil || replicas < 1 {
		return false
	}

	// Shares are a resource .shared, except where discovery marks the product: it does so if the resource keeps its name.
	whole := corev1.ResourceName(base)
	isRenamed := replicas > 1 && hasSharesOf(node, whole, nil) && !hasSharedProduct(node.Labels, whole)
	return isShare == isRenamed
}

// describe says that a node offers more cards than the labels say.
func (n labelledNumber) describe(offered NodeCard) string {
	if n.replicas == 1 {
		return fmt.Sprintf("offers %d %s, more than label %s%s=%d says", offered.Count, offered.Resource, n.base, countSuffix, n.count)
	}
	return fmt.Sprintf("offers %d %s, more than the %d of labels %s%s=%d and %s%s=%d", offered.Count, offered.Resource, n.number,
		n.base, countSuffix, n.count, n.base, ReplicasSuffix, n.replicas)
}

// sharingStrategies returns how the cards of a node are shared, nil if none is.
func sharingStrategies(node *corev1.Node, cards []NodeCard) map[corev1.ResourceName]string {
	var strategies map[corev1.ResourceName]string
	for _, offered := range cards {
		strategy := SharingStrategy(node, offered)
		if strategy == "" {
			continue
		}

		if strategies == nil {
			strategies = map[corev1.ResourceName]string{}
		}
		strategies[offered.Resource] = strategy
	}

	return strategies
}

// SharingStrategy returns how the cards of a resource of a node are shared, "time-slicing" or "mps" by
// GPU feature discovery. It is "" for cards that are not shared. The names of shares do not say it.
func SharingStrategy(node *corev1.Node, offered NodeCard) string {
	base, isShare := strings.CutSuffix(string(offered.Resource), SharedSuffix)
	if !isShare && !strings.HasSuffix(string(offered.Name), sharedProduct) {
		return ""
	}
	if strategy := node.Labels[base+strategySuffix]; strategy != "none" {
		return strategy
	}
	return ""
}
