package doctor

import (
	"fmt"

	"cardquota.dev/operator/internal/card"
)

// findUnreadyNodes finds nodes with cards that are not ready, all in one finding: usually they have one cause. Cards that
// nothing names count by the name of their resource.
func findUnreadyNodes(c *Cluster) []Finding {
	var nodes []string
	lost := map[card.Name]card.Count{}
	for _, node := range c.Nodes {
		if card.IsNodeReady(node) {
			continue
		}

		offered, _ := c.Cards.Node(node.Name)
		for _, resource := range offered.Unnamed {
			lost[card.Name(resource)] = lost[card.Name(resource)].Add(card.NewCount(node.Status.Allocatable[resource]))
		}
		for _, entry := range offered.Cards {
			lost[entry.Name] = lost[entry.Name].Add(entry.Count)
		}

		if len(offered.Cards)+len(offered.Unnamed) > 0 {
			nodes = append(nodes, node.Name)
		}
	}

	if len(nodes) == 0 {
		return nil
	}
	return []Finding{{Severity: Warning, Object: "node/" + nodes[0], Command: "kubectl describe node " + nodes[0],
		Problem: fmt.Sprintf("%s are on nodes that are not ready, so no new pod gets them: %s.", describeCounts(lost), listFirst(nodes))}}
}
