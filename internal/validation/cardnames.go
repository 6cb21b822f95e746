package validation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
)

// maxNamedNodes and maxNamedChanges bound what a warning names.
const (
	maxNamedNodes   = 3
	maxNamedChanges = 3
)

// cardNameChange is what happens to the card names of one resource.
type cardNameChange struct {
	// lost are the nodes on which the resource has no name any more, lostNames the names that it had.
	lost      []string
	lostNames sets.Set[string]
	// renamed are the nodes on which it has another name, newNames "old becomes new".
	renamed  []string
	newNames sets.Set[string]
}

// warnCardNames warns how many nodes lose the name of a card, or change it, by the entries of a policy. It
// compares with the names that the nodes have now.
func warnCardNames(result *Result, effective v1alpha1.ServiceTypePolicySpec, inForce *v1alpha1.ServiceTypePolicy, nodes []card.TrackedNode) {
	written := policy.WrittenMappings(effective)
	changes := cardNameChanges(nodes, written)
	removed := policy.CardMappings(inForce).Resources()

	for _, resource := range slices.Sorted(maps.Keys(changes)) {
		isMapped := slices.Contains(written.Resources(), resource)
		if !isMapped && slices.Contains(removed, resource) {
			continue // warnUnmappedCards warns of it
		}
		cause, help := explainNameChange(resource, written, isMapped)
		result.warn(specPath.Child("cards").Key(string(resource)), "%s: %s; %s", cause, changes[resource].text(), help)
	}
}

// cardNameChanges returns how the names of cards change once mappings are in force, by resource.
func cardNameChanges(nodes []card.TrackedNode, mappings card.Mappings) map[corev1.ResourceName]*cardNameChange {
	changes := map[corev1.ResourceName]*cardNameChange{}
	for _, node := range nodes {
		if len(node.Cards) == 0 { // most nodes have none, and recognition takes long
			continue
		}

		after := card.Recognise(node.Object, mappings)
		for _, offered := range node.Cards {
			now := nameOf(after, offered.Resource)
			if now == offered.Name {
				continue
			}

			change := changes[offered.Resource]
			if change == nil {
				change = &cardNameChange{lostNames: sets.New[string](), newNames: sets.New[string]()}
				changes[offered.Resource] = change
			}
			change.add(node.Name, offered.Name, now)
		}
	}

	return changes
}

// nameOf returns the name of a resource on a node, "" for none.
func nameOf(node card.Node, resource corev1.ResourceName) card.Name {
	for _, offered := range node.Cards {
		if offered.Resource == resource {
			return offered.Name
		}
	}
	return ""
}

// add adds a node on which a name changes. now is "" if it has none any more.
func (c *cardNameChange) add(node string, before, now card.Name) {
	if now == "" {
		c.lost = append(c.lost, node)
		c.lostNames.Insert(string(before))
		return
	}
	c.renamed = append(c.renamed, node)
	c.newNames.Insert(fmt.Sprintf("%s becomes %s", before, now))
}

// text says how many nodes lose or change a name, and what follows.
func (c *cardNameChange) text() string {
	var text string
	if len(c.lost) > 0 {
		text = fmt.Sprintf("%s the name of this card (%s; it was %s), and no new pod gets a card there",
			countedNodes(c.lost, "loses", "lose"), conditions.JoinFirst(c.lost, maxNamedNodes), conditions.JoinFirst(sets.List(c.lostNames), maxNamedChanges))
	}

	if len(c.renamed) == 0 {
		return text
	}

	if text != "" {
		text += "; "
	}

	return text + fmt.Sprintf("%s the name of this card (%s; %s), and quotas for the old name do not count there",
		countedNodes(c.renamed, "changes", "change"), conditions.JoinFirst(c.renamed, maxNamedNodes), conditions.JoinFirst(sets.List(c.newNames), maxNamedChanges))
}

// countedNodes says "1 node loses" or "2 nodes lose".
func countedNodes(nodes []string, one, many string) string {
	if len(nodes) == 1 {
		return "1 node " + one
	}
	return fmt.Sprintf("%d nodes %s", len(nodes), many)
}

// explainNameChange says which entries of the policy change the names of a resource, and how nodes keep the names of
// their cards.
func explainNameChange(resource corev1.ResourceName, written card.Mappings, isMapped bool) (cause, help string) {
	isForAllNodes := func(m card.Mapping) bool { return m.Resource == resource && len(m.NodeSelector) == 0 }
	switch {
	case !isMapped:
		return "no entry names this resource, and entries for other resources of its vendor replace the labels", "write an entry for it as well"
	case slices.ContainsFunc(written, isForAllNodes):
		return "an entry without nodeSelector is for all nodes", "for other nodes to keep their names, write into nodeSelector the labels of the nodes that the entry is for"
	default:
		return "the entries change the name of this card", "for nodes to keep their names, correct modelLabel, model or nodeSelector"
	}
}
