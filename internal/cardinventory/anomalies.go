package cardinventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

// remedies say what to do about the anomalies of labels.
var remedies = map[card.AnomalyReason]string{
	card.NoModelLabel:      "no pod gets it: " + addLabelsOrMapping,
	card.SeveralModels:     "no pod gets a card there: keep the labels of one model, and one entry of spec.cards of the ServiceTypePolicy",
	card.AmbiguousResource: "no pod gets one of them: name the card of each in spec.cards of the ServiceTypePolicy",
	card.InvalidLabel:      "no pod gets it: correct the label or the device plugin's configuration",
	card.MoreThanLabelled: "if the device plugin shares cards: configure the sharing in feature discovery, too, or name the shares in spec.cards of the ServiceTypePolicy; " +
		"else correct the label",
}

const (
	addLabelsOrMapping = "add these labels to the nodes, or name the card in spec.cards of the ServiceTypePolicy"
	// forgottenAtRestart is the effect on a card that no node and no mapping names any more. The operator
	// records it, the scheduler does not.
	forgottenAtRestart = "the scheduler withholds it until it restarts, and then no quota limits it"
)

// maxNamed is how many nodes, pods or queues a message names.
const maxNamed = 3

// anomalyKey identifies an anomaly: nodes with equal keys are in one.
type anomalyKey struct {
	reason   v1alpha1.AnomalyReason
	resource corev1.ResourceName
	card     card.Name
	// text says what is wrong and what to do, for anomalies whose message does not depend on
	// their count.
	text string
}

// anomalySum is what the nodes of one anomaly add up to.
type anomalySum struct {
	count card.Count
	nodes map[string]bool
	pods  []string
	// missingQueues are the queues that pods name and that do not exist.
	missingQueues map[string]bool
}

// anomalyList are the anomalies of a cluster.
type anomalyList struct {
	byKey map[anomalyKey]*anomalySum
	// recognised are the resources that are cards of some node, or withheld as cards.
	recognised map[corev1.ResourceName]bool
	// looksLikeCard reports whether a resource looks like a card.
	looksLikeCard func(corev1.ResourceName) bool
}

// newAnomalyList returns the anomalies of nodes, pods, ResourceSlices and bills.
func newAnomalyList(input Input) anomalyList {
	list := anomalyList{byKey: map[anomalyKey]*anomalySum{}, recognised: map[corev1.ResourceName]bool{}, looksLikeCard: askOnce(card.LooksLikeCard)}
	for _, node := range input.Nodes {
		for _, resource := range node.Resources() {
			list.recognised[resource] = true
		}
	}

	// What any node recognises must be known before the first node is said to lack it.
	for _, node := range input.Nodes {
		list.addLabels(node)
		list.addUnnamed(node, input.Cards)
		list.addUnhealthy(node)
	}

	for _, pod := range input.Count.outside {
		list.addOutside(pod)
	}
	for _, changed := range input.Count.changed {
		list.addChangedModel(changed)
	}

	list.addClaimCards(input.DeviceSlices)
	list.addBills(input.Bills)
	return list
}

// askOnce returns a function that asks once for each resource: nodes offer few different ones.
func askOnce(ask func(corev1.ResourceName) bool) func(corev1.ResourceName) bool {
	answers := map[corev1.ResourceName]bool{}
	return func(resource corev1.ResourceName) bool {
		answer, known := answers[resource]
		if !known {
			answer = ask(resource)
			answers[resource] = answer
		}
		return answer
	}
}

// add adds to an anomaly a number of cards, and a node, "" for none.
func (l anomalyList) add(key anomalyKey, node string, count card.Count) *anomalySum {
	sum := l.byKey[key]
	if sum == nil {
		sum = &anomalySum{nodes: map[string]bool{}, missingQueues: map[string]bool{}}
		l.byKey[key] = sum
	}
	sum.count = sum.count.Add(count)
	if node != "" {
		sum.nodes[node] = true
	}
	return sum
}

// addLabels adds what is wrong with the labels of a node.
func (l anomalyList) addLabels(node card.TrackedNode) {
	for _, anomaly := range node.Anomalies {
		key := anomalyKey{reason: v1alpha1.AnomalyReason(anomaly.Reason), resource: anomaly.Resource, card: withheldCard(node.Node, anomaly), text: anomaly.Message + "; " + remedies[anomaly.Reason]}
		l.add(key, node.Name, countOf(node.Object.Status.Allocatable, anomaly.Resource))
	}
}

// withheldCard returns the card that a node withholds because of an anomaly, "" for none. Only cards of which a node has
// more than its label says have a name all the same.
func withheldCard(node card.Node, anomaly card.Anomaly) card.Name {
	if anomaly.Reason != card.MoreThanLabelled {
		return ""
	}
	for _, withheld := range node.Withheld {
		if withheld.Resource == anomaly.Resource {
			return withheld.Name
		}
	}
	return ""
}

// addUnnamed adds the resources of a node that no label names. Some are cards of other nodes, or were cards
// before. Others look like cards, or like the cores of cards without the cards beside them. The number is the
// capacity where that is more than allocatable, because it can become allocatable.
func (l anomalyList) addUnnamed(node card.TrackedNode, cards *card.Inventory) {
	recognised := node.Resources()
	for resource := range node.Object.Status.Allocatable {
		if !strings.Contains(string(resource), "/") {
			continue // CPU, memory and others of Kubernetes
		}

		count := statedCount(node.Object, resource)
		if count == 0 || slices.Contains(recognised, resource) {
			continue
		}

		switch {
		case cards.IsCard(resource):
			origin := "a card of other nodes"
			effect := "no pod gets it"
			if !l.recognised[resource] { // it was a card before, and no node has it as one now
				origin = "which labels of nodes made a card"
				effect = forgottenAtRestart
			}

			l.add(anomalyKey{reason: v1alpha1.AnomalyNoModelLabel, resource: resource, text: fmt.Sprintf(
				"offers %s, %s, but %s names it; %s: %s",
				resource, origin, card.DescribeMissingLabels(node.Object.Labels, resource), effect, addLabelsOrMapping)}, node.Name, count)
		case l.looksLikeCard(resource):
			l.add(anomalyKey{reason: v1alpha1.AnomalyUnmappedResource, resource: resource, text: unmappedText(resource, "a card")}, node.Name, count)
		case card.LooksLikeCores(resource) && !l.offersCardBeside(node, resource):
			l.add(anomalyKey{reason: v1alpha1.AnomalyUnmappedResource, resource: resource, text: unmappedText(resource, "the cores of a card")}, node.Name, count)
		}
	}
}

// unmappedText says that no quota limits a resource, and what to do. Of NVIDIA's resources only fixed
// names are cards by labels, so for its others labels do not help.
func unmappedText(resource corev1.ResourceName, looksLike string) string {
	text := fmt.Sprintf("offers %s, which looks like %s, and no label names its model; no quota limits it: name the card in spec.cards of the ServiceTypePolicy", resource, looksLike)
	if vendor, _, _ := strings.Cut(string(resource), "/"); vendor != card.NVIDIA {
		text += fmt.Sprintf(", or add the labels %s/<type>.product and %[1]s/<type>.memory to the nodes", vendor)
	}
	return text
}

// offersCardBeside reports whether a node that offers the cores of cards as a resource also offers the cards, so that
// quotas limit the cores by these: cards of the same vendor, or of any where software shares cards. Beside allocatable
// cores the card must be allocatable, too: pods could use the cores otherwise, and be charged for no card.
func (l anomalyList) offersCardBeside(node card.TrackedNode, cores corev1.ResourceName) bool {
	countCards := func(resource corev1.ResourceName) card.Count {
		return countOf(node.Object.Status.Allocatable, resource)
	}
	if countCards(cores) == 0 {
		countCards = func(resource corev1.ResourceName) card.Count { return statedCount(node.Object, resource) }
	}

	recognised := node.Resources()
	for other := range node.Object.Status.Allocatable {
		isCard := other != cores && (slices.Contains(recognised, other) || l.looksLikeCard(other))
		mayBeSame := isCard && (isOfOneVendor(cores, other) || card.IsOfSharingSoftware(cores) || card.IsOfSharingSoftware(other))
		if mayBeSame && countCards(other) > 0 {
			return true
		}
	}

	return false
}

// isOfOneVendor reports whether two resources have the same domain.
func isOfOneVendor(a, b corev1.ResourceName) bool {
	ofA, _, _ := strings.Cut(string(a), "/")
	ofB, _, _ := strings.Cut(string(b), "/")
	return ofA == ofB
}

// statedCount returns how many of a resource a node has, allocatable or not.
func statedCount(node *corev1.Node, resource corev1.ResourceName) card.Count {
	return max(countOf(node.Status.Allocatable, resource), countOf(node.Status.Capacity, resource))
}

// addUnhealthy adds the cards of a node that are not allocatable. A kubelet sets the capacity to 0
// when a device plugin has been away for five minutes, so their number is not known then.
func (l anomalyList) addUnhealthy(node card.TrackedNode) {
	for _, offered := range node.Cards {
		// A node that was repartitioned keeps the old resource with 0 for a while. Nothing is
		// broken then.
		if offered.Count == 0 && l.offersAnotherForm(node, offered) {
			continue
		}

		key := anomalyKey{reason: v1alpha1.AnomalyCardsUnhealthy, resource: offered.Resource, card: offered.Name}
		if broken := countOf(node.Object.Status.Capacity, offered.Resource).Sub(offered.Count); broken > 0 {
			l.add(key, node.Name, broken)
		} else if offered.Count == 0 && !hasCardOfVendor(node, offered.Resource) {
			key.text = fmt.Sprintf("offers 0 %s, so its device plugin has stopped or finds no %s; see its log and the events of the node", offered.Resource, offered.Name)
			l.add(key, node.Name, 0)
		}
	}
}

// offersAnotherForm reports whether a node that offers 0 of a resource now offers its cards in another form:
// as slices, shares, or partitions that nothing names. For a while the kubelet keeps the capacity of a
// resource that a device plugin no longer offers. If the labels of the node still say the form of the
// resource, it is broken and not replaced: a node can have several forms at once. Labels say nothing about
// software that shares cards of any vendor, so its resources replace any form.
func (l anomalyList) offersAnotherForm(node card.TrackedNode, offered card.NodeCard) bool {
	isSaid := card.LabelsSayForm(node.Object, offered.Resource)
	recognised := node.Resources()
	for other, quantity := range node.Object.Status.Allocatable {
		if other == offered.Resource || card.NewCount(quantity) == 0 {
			continue
		}
		isOfVendor := isOfOneVendor(other, offered.Resource)
		if !isOfVendor && card.IsOfSharingSoftware(other) {
			return true
		}

		isCard := slices.Contains(recognised, other) || l.looksLikeCard(other)
		if isCard && isOfVendor && !isSaid {
			return true
		}
	}

	return false
}

// hasCardOfVendor reports whether a node offers any card of the vendor of a resource. A node that has all its cards
// in MIG slices or shares offers 0 whole ones, and nothing is wrong with it.
func hasCardOfVendor(node card.TrackedNode, resource corev1.ResourceName) bool {
	vendor, _, _ := strings.Cut(string(resource), "/")
	return slices.ContainsFunc(node.Resources(), func(other corev1.ResourceName) bool {
		return strings.HasPrefix(string(other), vendor+"/") &&
			statedCount(node.Object, other) > 0
	})
}

// addOutside adds the cards of a pod outside any queue, which no quota limits.
func (l anomalyList) addOutside(pod outsidePod) {
	for _, amount := range pod.cards {
		sum := l.add(anomalyKey{reason: v1alpha1.AnomalyCardsOutsideQueues, card: amount.Name}, pod.node, amount.Count)
		sum.pods = append(sum.pods, pod.name)
		if pod.queue != "" {
			sum.missingQueues[pod.queue] = true
		}
	}
}

// AnomalyReasons are all reasons of anomalies.
var AnomalyReasons = []v1alpha1.AnomalyReason{
	v1alpha1.AnomalyNoModelLabel, v1alpha1.AnomalySeveralModels, v1alpha1.AnomalyAmbiguousResource, v1alpha1.AnomalyInvalidLabel,
	v1alpha1.AnomalyMoreThanLabelled, v1alpha1.AnomalyUnmappedResource, v1alpha1.AnomalyCardsOutsideQueues, v1alpha1.AnomalyResourceClaimCards,
	v1alpha1.AnomalyCardsUnhealthy, v1alpha1.AnomalyModelChanged, v1alpha1.AnomalyBillsNotStored, v1alpha1.AnomalyBillDaysDropped,
}

// countByReason returns how many anomalies there are of each reason, 0 for a reason without any.
func (l anomalyList) countByReason() map[v1alpha1.AnomalyReason]int {
	counts := make(map[v1alpha1.AnomalyReason]int, len(AnomalyReasons))
	for _, reason := range AnomalyReasons {
		counts[reason] = 0
	}
	for key := range l.byKey {
		counts[key.reason]++
	}
	return counts
}

// countNodes returns how many nodes offer cards or have an anomaly.
func (l anomalyList) countNodes(nodes []card.TrackedNode) (count int) {
	anomalous := map[string]bool{}
	for _, sum := range l.byKey {
		maps.Copy(anomalous, sum.nodes)
	}
	for _, node := range nodes {
		if len(node.Cards) > 0 || anomalous[node.Name] {
			count++
		}
	}
	return count
}

// describeFirst returns the first n anomalies: those of cards that no quota limits, then those of bills, then by
// reason, then by card or resource.
func (l anomalyList) describeFirst(n int) []v1alpha1.InventoryAnomaly {
	keys := slices.SortedFunc(maps.Keys(l.byKey), func(a, b anomalyKey) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.reason, b.reason), cmp.Compare(a.name(), b.name()), cmp.Compare(a.text, b.text))
	})
	var out []v1alpha1.InventoryAnomaly
	for _, key := range keys[:min(len(keys), n)] {
		out = append(out, l.byKey[key].describe(key))
	}
	return out
}

// rank orders the anomalies: no quota limits the cards of the first. Bills have few anomalies, which those of
// nodes must not displace.
func (k anomalyKey) rank() int {
	switch k.reason {
	case v1alpha1.AnomalyCardsOutsideQueues, v1alpha1.AnomalyUnmappedResource, v1alpha1.AnomalyResourceClaimCards:
		return 0
	case v1alpha1.AnomalyBillsNotStored, v1alpha1.AnomalyBillDaysDropped:
		return 1
	default:
		return 2
	}
}

// name returns the card of an anomaly, else its resource.
func (k anomalyKey) name() string { return cmp.Or(string(k.card), string(k.resource)) }

// describe returns an anomaly as the status shows it.
func (s *anomalySum) describe(key anomalyKey) v1alpha1.InventoryAnomaly {
	nodes := slices.Sorted(maps.Keys(s.nodes))
	return v1alpha1.InventoryAnomaly{
		Reason:     key.reason,
		Resource:   string(key.resource),
		Card:       string(key.card),
		Count:      int64(s.count),
		NodesTotal: toInt32(len(nodes)),
		Nodes:      nodes[:min(len(nodes), MaxAnomalyNodes)],
		Message:    conditions.Truncate(s.message(key, nodes), conditions.MaxMessageLength),
	}
}

// message says what is wrong with the given nodes, and what to do. The text of the key says it all, unless it
// depends on the number of cards or on pods.
func (s *anomalySum) message(key anomalyKey, nodes []string) string {
	where := listNames("node", nodes)
	switch {
	case key.reason == v1alpha1.AnomalyModelChanged: // its text says only how the name changed
		slices.Sort(s.pods)
		return fmt.Sprintf("%s: %d %s that %s hold %s, because a label with the model changed. Their queues are charged by the name of now, so they may hold more than their quota. "+
			"Keep one model in the labels of a node, or name the card in spec.cards of the ServiceTypePolicy. The anomaly ends with these pods",
			where, s.count, key.resource, listNames("pod", s.pods), key.text)
	case key.text != "" && len(nodes) == 0:
		return key.text
	case key.text != "":
		return where + ": " + key.text
	case key.reason == v1alpha1.AnomalyCardsUnhealthy:
		return fmt.Sprintf("%s: %d %s not allocatable, because the device plugin reports them as broken or has stopped; see its log and the events of the node",
			where, s.count, key.card)
	default: // pods outside any queue
		slices.Sort(s.pods)
		queue := "no queue, or one that does not accept their namespace"
		if missing := slices.Sorted(maps.Keys(s.missingQueues)); len(missing) > 0 {
			queue = "no queue that exists (" + listNames("queue", missing) + ")"
		}

		return fmt.Sprintf("%s: %d %s held by %s with %s; no quota limits them: name a queue in these workloads, or delete them",
			where, s.count, key.card, listNames("pod", s.pods), queue)
	}
}

// listNames names the first of several things: "nodes a, b and 3 more".
func listNames(kind string, names []string) string {
	if len(names) != 1 {
		kind += "s"
	}
	return kind + " " + conditions.JoinFirst(names, maxNamed)
}

// countOf returns how many of a resource a list has, 0 if it is not there.
func countOf(resources corev1.ResourceList, name corev1.ResourceName) card.Count {
	return card.NewCount(resources[name])
}
