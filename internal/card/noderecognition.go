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
	ProductSuffix  = ".product"
	MemorySuffix   = ".memory"
	ReplicasSuffix = ".replicas"
	SharedSuffix   = ".shared"
	// NVIDIA is the vendor domain of cards that can be sliced (MIG). Each kind of slices is a resource of its own.
	NVIDIA    = "nvidia.com"
	MIGPrefix = NVIDIA + "/mig-"
)

// NodeCard is one card name that a node offers.
type NodeCard struct {
	Name Name
	// Resource is the resource under which the device plugin offers the card.
	Resource corev1.ResourceName
	// Count is the allocatable number, 0 when the device plugin reports none.
	Count Count
}

// Node has what the labels and allocatable resources of a node say about its cards.
type Node struct {
	// Model is the card model, "" when the node names none or more than one.
	Model string
	// Cards are the cards that can be counted, sorted by resource.
	Cards []NodeCard
	// Unnamed are resources that are cards, but the node does not say which, or it says that they are
	// fewer. No pod that requests them can start here.
	Unnamed []corev1.ResourceName
	// Withheld are the cards of Unnamed whose names are known. Pods that use them already are charged
	// by these names.
	Withheld []NodeCard
	// Anomalies say what is wrong with the node's labels.
	Anomalies []Anomaly
}

// AnomalyReason is the kind of an Anomaly.
type AnomalyReason string

// The reasons of anomalies. v1alpha1 has the same for the CardInventory, and more. This package does not
// import the API, so a test of internal/cardinventory compares them.
const (
	NoModelLabel      AnomalyReason = "NoModelLabel"      // No label names the card of a resource.
	SeveralModels     AnomalyReason = "SeveralModels"     // Labels name more than one card model.
	AmbiguousResource AnomalyReason = "AmbiguousResource" // The model could be any of several resources.
	InvalidLabel      AnomalyReason = "InvalidLabel"      // The value of a label makes no card name.
	MoreThanLabelled  AnomalyReason = "MoreThanLabelled"  // The node offers more of a card than its labels say.
)

// Anomaly is something that is wrong with the labels of a node.
type Anomaly struct {
	Reason AnomalyReason
	// Resource is the resource that the anomaly is about, "" when there are several.
	Resource corev1.ResourceName
	// Message says what the node does wrong.
	Message string
}

// product is one <vendor>/<type>.product label.
type product struct{ vendor, kind, model string }

// recogniseLabels returns the cards of a node from its labels and status.allocatable. mapped are
// resources of the node that mappings name, and that the caller removed from allocatable.
//
// A label <vendor>/<type>.product beside <vendor>/<type>.memory names the model. nvidia.com/mig-* are MIG slices or shares of
// them, <vendor>/<type>.shared shares, <vendor>/<type> whole cards. A vendor may name its resource differently
// (huawei.com/npu.product, huawei.com/Ascend910) if it is the only one in its domain, beside network
// devices. Counts never come from the .count label, which does not follow failures.
//
// A node that names two models is an anomaly and offers none of them.
func recogniseLabels(node *corev1.Node, mapped []corev1.ResourceName) Node {
	// A label of which mappings name all cards says nothing about the rest of the node.
	products := slices.DeleteFunc(productLabels(node.Labels), func(p product) bool { return p.isReplaced(node, mapped) })
	var out Node
	switch len(products) {
	case 0: // no model is known, so what is a card all the same is withheld
		out.Unnamed = unlabelledCardResources(node)
		for _, resource := range out.Unnamed {
			out.Anomalies = append(out.Anomalies, unlabelled(node, resource))
		}
		return out
	case 1:
		out.Model = products[0].model
	default:
		// Which model a card of the node is, is unknown, so all that may be one of them is
		// withheld.
		models := make([]string, len(products))
		for i, p := range products {
			models[i] = p.model
			out.Unnamed = append(out.Unnamed, productResources(node, p, mapped)...)
		}

		out.Unnamed = append(out.Unnamed, migResources(node)...)
		slices.Sort(out.Unnamed)
		out.Unnamed = slices.Compact(out.Unnamed)
		out.Anomalies = []Anomaly{{Reason: SeveralModels, Message: "names more than one card model: " + strings.Join(models, ", ")}}
		return out
	}

	// Slices and shares come first: where there are any, addWholeCards guesses no resource of another name.
	r := nodeRecognition{node: node, product: products[0], mapped: mapped, out: &out}
	r.addMIGSlices()
	r.addMPSShares()
	r.addWholeCards()
	slices.SortFunc(out.Cards, func(a, b NodeCard) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	return out
}

// productLabels returns the labels <vendor>/<type>.product that have <vendor>/<type>.memory beside them, sorted. It
// skips the labels of MIG profiles (nvidia.com/mig-1g.18gb.product), which repeat the whole
// card's.
func productLabels(labels map[string]string) []product {
	var found []product
	for key, model := range labels {
		base, ok := strings.CutSuffix(key, ProductSuffix)
		vendor, kind, cut := strings.Cut(base, "/")
		namesModel := ok && cut && kind != "" && model != ""
		if !namesModel || strings.HasPrefix(key, MIGPrefix) {
			continue
		}

		// A label .product alone can mean anything. With .memory beside it, it is that of a card.
		if _, ok := labels[base+MemorySuffix]; !ok {
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
// its type, otherwise all of its vendor's domain except network devices. NVIDIA's cards always have
// the name of their type, so nothing else of its domain is one. Where a mapping names a card of the
// vendor, the product is probably that card's, so it says nothing about the rest of the domain.
func productResources(node *corev1.Node, p product, mapped []corev1.ResourceName) []corev1.ResourceName {
	whole := corev1.ResourceName(p.vendor + "/" + p.kind)
	var exact, domain []corev1.ResourceName
	for resource := range node.Status.Allocatable {
		switch {
		case resource == whole || resource == whole+SharedSuffix:
			exact = append(exact, resource)
		case p.vendor != NVIDIA && strings.HasPrefix(string(resource), p.vendor+"/") && !isNetworkDevice(resource):
			domain = append(domain, resource)
		}
	}

	if len(exact) > 0 || p.isMapped(mapped) {
		return exact
	}

	return domain
}

// isMapped reports whether a mapping names a card of the vendor.
func (p product) isMapped(mapped []corev1.ResourceName) bool {
	return slices.ContainsFunc(mapped, func(r corev1.ResourceName) bool { return strings.HasPrefix(string(r), p.vendor+"/") })
}

// isReplaced reports whether mappings name all cards of the product, so that its labels count no
// more. MIG slices without a mapping still get their model from the labels.
func (p product) isReplaced(node *corev1.Node, mapped []corev1.ResourceName) bool {
	return p.isMapped(mapped) && len(productResources(node, p, mapped)) == 0 && (p.vendor != NVIDIA || len(migResources(node)) == 0)
}

// migResources returns the resources of MIG slices that a node offers, sorted.
func migResources(node *corev1.Node) []corev1.ResourceName {
	var found []corev1.ResourceName
	for resource := range node.Status.Allocatable {
		if strings.HasPrefix(string(resource), MIGPrefix) {
			found = append(found, resource)
		}
	}
	slices.Sort(found)
	return found
}

// unlabelledCardResources returns the resources that are cards although the node names no
// model: NVIDIA's, whose names are fixed, and any other with labels of its own, as example.com/npu has with
// example.com/npu.count, except network devices. Device plugins often report before a node is labelled, and no
// quota would cover its cards until then.
func unlabelledCardResources(node *corev1.Node) []corev1.ResourceName {
	found := migResources(node)
	for resource := range node.Status.Allocatable {
		base := strings.TrimSuffix(string(resource), SharedSuffix)
		if base == NVIDIA+"/gpu" || (hasLabelWithPrefix(node.Labels, base+".") && strings.Contains(base, "/") && !isNetworkDevice(resource)) {
			found = append(found, resource)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// hasLabelWithPrefix reports whether a node has any label whose key begins so.
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

// maxMemoryMiB is the largest memory label in MiB: a card name has six digits of GiB.
const maxMemoryMiB = 999_999*1024 + 511

// roundToGiB rounds MiB to the nearest GiB: 81559 is 80.
func roundToGiB(mib int64) int64 { return (mib + 512) / 1024 }

// parseReplicas returns the number of shares of a card, from its label. The name of a share has room for four
// digits.
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
	mapped      []corev1.ResourceName
	out         *Node
	partitioned int // slices and shares found
}

// addCard adds a card, and what is wrong with its number. Cards that are shared without a word in the
// labels are withheld: a tenant with quota for whole cards would get parts of them.
func (r *nodeRecognition) addCard(name Name, resource corev1.ResourceName) {
	offered := NodeCard{Name: name, Resource: resource, Count: allocatableCount(r.node, resource)}

	labelled, isLabelled := r.numberInLabels(resource)
	switch {
	case !isLabelled || offered.Count <= labelled.number:
		r.out.Cards = append(r.out.Cards, offered)
	// Sharing at least doubles the number. With fewer the cards are whole, and only the label is
	// wrong.
	case offered.Count < 2*labelled.number:
		r.out.Cards = append(r.out.Cards, offered)
		r.out.Anomalies = append(r.out.Anomalies, Anomaly{MoreThanLabelled, resource, labelled.describe(offered) + "; pods get each of them as one " + string(name)})
	default:
		r.out.Withheld = append(r.out.Withheld, offered)
		r.withhold(MoreThanLabelled, resource, "%s; no new pod gets one of them", labelled.describe(offered))
	}
}

// withhold withholds a resource from new pods, and reports why.
func (r *nodeRecognition) withhold(reason AnomalyReason, resource corev1.ResourceName, format string, values ...any) {
	r.out.Unnamed = append(r.out.Unnamed, resource)
	r.out.Anomalies = append(r.out.Anomalies, Anomaly{reason, resource, fmt.Sprintf(format, values...)})
}

// addMIGSlices adds MIG slices of the mixed strategy, where every profile is a resource of its
// own.
func (r *nodeRecognition) addMIGSlices() {
	for _, resource := range migResources(r.node) {
		// Slices replace the whole cards of the node, so addWholeCards must look for no other
		// resource.
		if r.product.vendor == NVIDIA {
			r.partitioned++
		}

		name := Name(r.out.Model + sliceSuffix(resource, sharesSlices(r.node, resource, r.mapped...)))
		switch _, err := ParseName(string(name)); {
		case r.product.vendor != NVIDIA:
			r.withhold(NoModelLabel, resource, "offers %s but its model label is of %s, not %[3]s/<type>.product with %[3]s/<type>.memory", resource, r.product.vendor, NVIDIA)
		case err != nil:
			r.withhold(InvalidLabel, resource, "offers %s, which makes no card name: %v", resource, err)
		default:
			r.addCard(name, resource)
		}
	}
}

// addMPSShares adds MPS shares. Their name contains the size of the card and the number of
// shares, because half a card and a quarter differ in value.
func (r *nodeRecognition) addMPSShares() {
	base := r.product.vendor + "/" + r.product.kind
	resource := corev1.ResourceName(base + SharedSuffix)
	if _, ok := r.node.Status.Allocatable[resource]; !ok {
		return
	}

	r.partitioned++
	suffix, err := shareSuffix(r.node.Labels, base+ReplicasSuffix, base+MemorySuffix)
	if err != nil {
		r.withhold(InvalidLabel, resource, "offers %s but %v", resource, err)
		return
	}
	r.addCard(Name(r.out.Model+suffix), resource)
}

// shareSuffix returns what follows the model in the name of a share, from two labels.
func shareSuffix(labels map[string]string, replicas, memory string) (string, error) {
	parts, err := parseReplicas(labels, replicas)
	if err != nil {
		return "", err
	}
	mib, err := strconv.ParseInt(labels[memory], 10, 64)
	if err != nil || mib < 1 || mib > maxMemoryMiB {
		return "", fmt.Errorf("label %s=%s is no memory size in MiB", memory, quoteText(labels[memory]))
	}
	return fmt.Sprintf("/mps-%dg*1/%d", roundToGiB(mib), parts), nil
}

// addCardsOrShares adds what has the very name of the type: whole cards, or shares of cards whose device plugin
// does not rename the resource to .shared. Discovery marks the product of such shares with -SHARED. Where it
// takes them for renamed, only the number of replicas shows them, so the mark is added here.
func (r *nodeRecognition) addCardsOrShares(resource corev1.ResourceName) {
	name := Name(r.out.Model)
	if sharesByReplicas(r.node, resource, r.mapped) && !strings.HasSuffix(r.out.Model, sharedProduct) {
		name += sharedProduct
	}
	if _, err := ParseName(string(name)); err != nil {
		r.withhold(InvalidLabel, resource, "offers shares of %s, which make no card name: %v", resource, err)
		return
	}
	r.addCard(name, resource)
}

// addWholeCards adds the cards under the resource <vendor>/<type>, whole ones or shares of that name. Where
// the node offers neither that nor slices or other shares, it takes the only resource of the vendor's domain.
// If there are several, it withholds all of them.
func (r *nodeRecognition) addWholeCards() {
	whole := corev1.ResourceName(r.product.vendor + "/" + r.product.kind)
	if _, ok := r.node.Status.Allocatable[whole]; ok {
		r.addCardsOrShares(whole)
		return
	}

	if r.partitioned > 0 { // slices and shares are all cards of the node
		return
	}

	candidates := productResources(r.node, r.product, r.mapped)
	slices.Sort(candidates)
	switch len(candidates) {
	case 0: // the device plugin has not reported yet
	case 1:
		r.addCard(Name(r.out.Model), candidates[0])
	default:
		r.out.Unnamed = append(r.out.Unnamed, candidates...)
		r.out.Anomalies = append(r.out.Anomalies, Anomaly{Reason: AmbiguousResource,
			Message: fmt.Sprintf("model %s could be any of the resources %v", r.out.Model, candidates)})
	}
}
