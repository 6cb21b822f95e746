package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

// findAnomalies returns a finding for each anomaly of the CardInventory but those of bills, and one if it lists
// only some of them. Nodes without a label of the model get the command that adds it.
func findAnomalies(c *Cluster) []Finding {
	labels := map[string]map[string]string{}
	for _, node := range c.Nodes {
		labels[node.Name] = node.Labels
	}

	inventory := c.inventory()
	var findings []Finding
	for _, anomaly := range inventory.Anomalies {
		if isOfBills(anomaly.Reason) {
			continue
		}

		finding := Finding{Severity: Warning, Object: "cardinventory/" + v1alpha1.InventoryName, Command: "kubectl describe cardinv " + v1alpha1.InventoryName,
			Problem: fmt.Sprintf("%s: %s.", anomaly.Reason, strings.TrimSuffix(anomaly.Message, "."))}
		if anomaly.Reason == v1alpha1.AnomalyCardsOutsideQueues && !c.isInstalled() { // no queue has a quota yet
			finding.Severity = Info
		}
		if len(anomaly.Nodes) > 0 {
			finding.Object = "node/" + anomaly.Nodes[0]
			finding.Command = "kubectl describe node " + anomaly.Nodes[0]
		}

		if anomaly.Reason == v1alpha1.AnomalyNoModelLabel && anomaly.Resource != "" && len(anomaly.Nodes) > 0 {
			addLabels(&finding, anomaly, labels)
		}

		findings = append(findings, finding)
	}

	listed := len(inventory.Anomalies)
	all := int(inventory.AnomaliesTotal)
	if listed < all {
		findings = append(findings, Finding{Severity: Warning, Object: "cardinventory/" + v1alpha1.InventoryName,
			Problem: fmt.Sprintf("It lists %d of %s. Mend these first; then it lists others.", listed, conditions.CountThings(all, "anomaly"))})
	}

	return findings
}

// isOfBills reports whether an anomaly is about stored card-seconds, which have a rule of their own.
func isOfBills(reason v1alpha1.AnomalyReason) bool {
	return reason == v1alpha1.AnomalyBillsNotStored || reason == v1alpha1.AnomalyBillDaysDropped
}

// findUnstoredBills lists what keeps card-seconds from being stored. The operator writes it to the CardInventory,
// because ConfigMaps do not show that a write is refused.
func findUnstoredBills(c *Cluster) []Finding {
	var findings []Finding
	for _, anomaly := range c.inventory().Anomalies {
		if !isOfBills(anomaly.Reason) {
			continue
		}

		finding := Finding{
			Severity: Warning, Object: "cardinventory/" + v1alpha1.InventoryName, Command: "kubectl describe cardinv " + v1alpha1.InventoryName,
			Problem: fmt.Sprintf("%s: %s.", anomaly.Reason, strings.TrimSuffix(anomaly.Message, ".")),
		}
		if anomaly.Reason == v1alpha1.AnomalyBillsNotStored {
			finding.Command = "kubectl -n " + c.Namespace + " logs deployment/cardquota-manager | grep 'Some card-seconds'"
		}
		findings = append(findings, finding)
	}

	return findings
}

// The words that a command has where only a person knows the value of a label.
const (
	modelWord  = "MODEL"
	memoryWord = "MIB"
	sharesWord = "SHARES"
)

// meanings say what to write for the words.
var meanings = map[string]string{modelWord: "the model of the card", memoryWord: "the memory of a card in MiB", sharesWord: "the number of shares of a card"}

// missingLabel is a label that a node lacks, and the word for its value.
type missingLabel struct{ key, word string }

// addLabels adds to a finding the command that labels the nodes of an anomaly NoModelLabel: those that
// lack the same labels as the first.
func addLabels(finding *Finding, anomaly v1alpha1.InventoryAnomaly, labels map[string]map[string]string) {
	missing := missingLabels(anomaly, labels[anomaly.Nodes[0]])
	if len(missing) == 0 { // they were added since
		return
	}

	// One command writes the same labels to all its nodes, so it names only those that lack the
	// same ones.
	nodes := slices.DeleteFunc(slices.Clone(anomaly.Nodes), func(node string) bool { return !slices.Equal(missingLabels(anomaly, labels[node]), missing) })
	finding.Command = "kubectl label node " + strings.Join(nodes, " ")
	var meaning []string
	for _, label := range missing {
		finding.Command += " " + label.key + "=" + label.word
		meaning = append(meaning, meanings[label.word]+" for "+label.word)
	}
	finding.Problem += " Write " + conditions.JoinFirst(meaning, len(meaning)) + "."
}

// missingLabels returns the labels that would name the card of an anomaly NoModelLabel on a node with
// some labels: the one of a mapping of spec.cards, else those of the resource.
func missingLabels(anomaly v1alpha1.InventoryAnomaly, labels map[string]string) (missing []missingLabel) {
	add := func(key, word string) {
		if labels[key] == "" {
			missing = append(missing, missingLabel{key, word})
		}
	}

	// The operator names the label that a mapping asks for in its message.
	if label, isMapped := card.ParseMissingLabel(anomaly.Message); isMapped {
		add(label, modelWord)
		return missing
	}

	base, isShare := strings.CutSuffix(anomaly.Resource, card.SharedSuffix)
	if strings.HasPrefix(base, card.MIGPrefix) {
		base = "nvidia.com/gpu"
		isShare = false // a slice has the labels of its card
	}

	base = labelledType(base, labels)
	add(base+card.ProductSuffix, modelWord)
	add(base+card.MemorySuffix, memoryWord)

	if isShare {
		add(base+card.ReplicasSuffix, sharesWord)
	}

	return missing
}

// labelledType returns what the labels of a node that describe the cards of a resource begin with, such as
// "nvidia.com/gpu". That is the resource itself, unless a vendor other than NVIDIA names the model of its cards under
// another word: "<vendor>/<type>.product".
func labelledType(resource string, labels map[string]string) string {
	vendor, _, _ := strings.Cut(resource, "/")
	if labels[resource+card.ProductSuffix] != "" || vendor == card.NVIDIA {
		return resource
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if base, isModel := strings.CutSuffix(key, card.ProductSuffix); isModel && strings.HasPrefix(key, vendor+"/") && labels[key] != "" {
			return base
		}
	}
	return resource
}
