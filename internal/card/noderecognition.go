package card

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The labels and resources that describe a node's cards. Vendor domain and card type precede
// the suffix: nvidia.com/gpu.product. GPU feature discovery writes them on NVIDIA nodes, the
// administrator's own labelling elsewhere.
const (
	productSuffix  = ".product"
	memorySuffix   = ".memory"
	replicasSuffix = ".replicas"
	sharedSuffix   = ".shared"
	migVendor      = "nvidia.com"
	migPrefix      = "nvidia.com/mig-"
)

// NodeCard is one card name that a node offers.
type NodeCard struct {
	Name Name
	// Resource is the resource under which the device plugin offers the card.
	Resource corev1.ResourceName
	// Count is the allocatable number, 0 when the device plugin reports none.
	Count Count
}

// Node holds what the labels and allocatable resources of a node say about its cards.
type Node struct {
	// Model is the card model, "" when the node names none or more than one.
	Model string
	// Cards are the cards that can be counted, sorted by resource.
	Cards []NodeCard
	// Unnamed are resources that are cards, but the node does not say which. No pod that
	// requests them can run here.
	Unnamed []corev1.ResourceName
	// Anomalies say what is wrong with the node's labels.
	Anomalies []string
}

// product is one P/T.product label.
type product struct{ vendor, kind, model string }

// Recognise returns the cards of a node from its labels and status.allocatable.
//
// A label P/T.product beside P/T.memory names the model. nvidia.com/mig-* are MIG slices,
// P/T.shared MPS shares, P/T whole cards. A vendor may name its resource differently
// (huawei.com/npu.product, huawei.com/Ascend910) if it is the only one in its domain. Counts
// never come from the .count label, which does not follow failures.
//
// A node that names two models is an anomaly and offers none of them.
func Recognise(node *corev1.Node) Node {
	products := productLabels(node.Labels)
	var out Node
	switch len(products) {
	case 0:
		out.Unnamed = unlabelledCardResources(node)
		if len(out.Unnamed) > 0 {
			vendor, _, _ := strings.Cut(string(out.Unnamed[0]), "/")
			out.Anomalies = []string{fmt.Sprintf("offers %s but no label %s/<type>.product with %s/<type>.memory names the card",
				out.Unnamed[0], vendor, vendor)}
		}
		return out
	case 1:
		out.Model = products[0].model
	default:
		models := make([]string, len(products))
		for i, p := range products {
			models[i] = p.model
			out.Unnamed = append(out.Unnamed, productResources(node, p)...)
		}
		out.Unnamed = append(out.Unnamed, migResources(node)...)
		slices.Sort(out.Unnamed)
		out.Unnamed = slices.Compact(out.Unnamed)
		out.Anomalies = []string{"names more than one card model: " + strings.Join(models, ", ")}
		return out
	}
	r := nodeRecognition{node: node, product: products[0], out: &out}
	r.addMIGSlices()
	r.addMPSShares()
	r.addWholeCards()
	slices.SortFunc(out.Cards, func(a, b NodeCard) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	return out
}

// productLabels returns the labels P/T.product that have P/T.memory beside them, sorted. It
// skips the labels of MIG profiles (nvidia.com/mig-1g.18gb.product), which repeat the whole
// card's.
func productLabels(labels map[string]string) []product {
	var found []product
	for key, model := range labels {
		base, ok := strings.CutSuffix(key, productSuffix)
		vendor, kind, cut := strings.Cut(base, "/")
		if !ok || !cut || kind == "" || model == "" || strings.HasPrefix(key, migPrefix) {
			continue
		}
		if _, ok := labels[base+memorySuffix]; !ok {
			continue
		}
		found = append(found, product{vendor: vendor, kind: kind, model: model})
	}
	slices.SortFunc(found, func(a, b product) int {
		return strings.Compare(a.vendor+"/"+a.kind, b.vendor+"/"+b.kind)
	})
	return found
}

// productResources returns the resources of a node that belong to a product: those named after
// its type, otherwise all of its vendor's domain. NVIDIA's cards always have the name of their
// type, and its network operator offers network devices in the same domain
// (nvidia.com/hostdev): those are no cards.
func productResources(node *corev1.Node, p product) []corev1.ResourceName {
	whole := corev1.ResourceName(p.vendor + "/" + p.kind)
	var exact, domain []corev1.ResourceName
	for resource := range node.Status.Allocatable {
		switch {
		case resource == whole || resource == whole+sharedSuffix:
			exact = append(exact, resource)
		case p.vendor != migVendor && strings.HasPrefix(string(resource), p.vendor+"/"):
			domain = append(domain, resource)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return domain
}

func migResources(node *corev1.Node) []corev1.ResourceName {
	var found []corev1.ResourceName
	for resource := range node.Status.Allocatable {
		if strings.HasPrefix(string(resource), migPrefix) {
			found = append(found, resource)
		}
	}
	slices.Sort(found)
	return found
}

// unlabelledCardResources returns the resources that are cards although the node names no
// model: NVIDIA's, whose names are fixed, and any P/T beside a label P/T.<something>. Device
// plugins often report before a node is labelled, and no quota would cover its cards until
// then.
func unlabelledCardResources(node *corev1.Node) []corev1.ResourceName {
	found := migResources(node)
	for resource := range node.Status.Allocatable {
		base := strings.TrimSuffix(string(resource), sharedSuffix)
		if base == migVendor+"/gpu" || hasLabelWithPrefix(node.Labels, base+".") && strings.Contains(base, "/") {
			found = append(found, resource)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func hasLabelWithPrefix(labels map[string]string, prefix string) bool {
	for key := range labels {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func allocatableCount(node *corev1.Node, resource corev1.ResourceName) Count {
	return NewCount(node.Status.Allocatable[resource])
}

// maxMemoryMiB is the largest memory label in MiB: a card name holds six digits of GiB.
const maxMemoryMiB = 999_999*1024 + 511

// roundToGiB rounds MiB to the nearest GiB: 81559 is 80.
func roundToGiB(mib int64) int64 { return (mib + 512) / 1024 }

// parseReplicas returns the number of shares of a card, from its label.
func parseReplicas(labels map[string]string, key string) (int, error) {
	text, ok := labels[key]
	if !ok {
		return 0, fmt.Errorf("has no label %s", key)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 9999 {
		return 0, fmt.Errorf("has label %s=%s, which is not a number of shares from 1 to 9999", key, quoteText(text))
	}
	return n, nil
}

// nodeRecognition fills out for a node that names exactly one model.
type nodeRecognition struct {
	node        *corev1.Node
	product     product
	out         *Node
	partitioned int // slices and shares found
}

func (r *nodeRecognition) addCard(name Name, resource corev1.ResourceName) {
	r.out.Cards = append(r.out.Cards, NodeCard{Name: name, Resource: resource, Count: allocatableCount(r.node, resource)})
}

func (r *nodeRecognition) addAnomaly(resource corev1.ResourceName, why string) {
	r.out.Unnamed = append(r.out.Unnamed, resource)
	r.out.Anomalies = append(r.out.Anomalies, why)
}

// addMIGSlices adds MIG slices of the mixed strategy, where every profile is a resource of its
// own.
func (r *nodeRecognition) addMIGSlices() {
	for _, resource := range migResources(r.node) {
		if r.product.vendor == migVendor {
			r.partitioned++
		}
		name := Name(r.out.Model + "/mig-" + strings.TrimPrefix(string(resource), migPrefix) + "-mixed")
		switch _, err := ParseName(string(name)); {
		case r.product.vendor != migVendor:
			r.addAnomaly(resource, fmt.Sprintf("offers %s but its model label is of %s", resource, r.product.vendor))
		case err != nil:
			r.addAnomaly(resource, fmt.Sprintf("offers %s, which makes no card name: %v", resource, err))
		default:
			r.addCard(name, resource)
		}
	}
}

// addMPSShares adds MPS shares. Their name contains the size of the card and the number of
// shares, because half a card and a quarter differ in value.
func (r *nodeRecognition) addMPSShares() {
	base := r.product.vendor + "/" + r.product.kind
	resource := corev1.ResourceName(base + sharedSuffix)
	if _, ok := r.node.Status.Allocatable[resource]; !ok {
		return
	}
	r.partitioned++
	parts, err := parseReplicas(r.node.Labels, base+replicasSuffix)
	if err != nil {
		r.addAnomaly(resource, fmt.Sprintf("offers %s but %v", resource, err))
		return
	}
	memory := r.node.Labels[base+memorySuffix]
	mib, err := strconv.ParseInt(memory, 10, 64)
	if err != nil || mib < 1 || mib > maxMemoryMiB {
		r.addAnomaly(resource, fmt.Sprintf("offers %s but label %s=%s is no memory size in MiB", resource, base+memorySuffix, quoteText(memory)))
		return
	}
	r.addCard(Name(fmt.Sprintf("%s/mps-%dg*1/%d", r.out.Model, roundToGiB(mib), parts)), resource)
}

// addWholeCards adds whole cards.
func (r *nodeRecognition) addWholeCards() {
	whole := corev1.ResourceName(r.product.vendor + "/" + r.product.kind)
	if _, ok := r.node.Status.Allocatable[whole]; ok {
		r.addCard(Name(r.out.Model), whole)
		return
	}
	if r.partitioned > 0 {
		return
	}
	candidates := productResources(r.node, r.product)
	slices.Sort(candidates)
	switch len(candidates) {
	case 0: // the device plugin has not reported yet
	case 1:
		r.addCard(Name(r.out.Model), candidates[0])
	default:
		r.out.Unnamed = append(r.out.Unnamed, candidates...)
		r.out.Anomalies = append(r.out.Anomalies, fmt.Sprintf("model %s could be any of the resources %v", r.out.Model, candidates))
	}
}
