package explanation

import (
	"fmt"
	"math"
	"slices"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/simulation"
)

// freeCards returns how many cards are free on Ready nodes that take pods: the sum over the nodes, or
// what the inventory says where the nodes may not be read. The inventory does not say which of the
// allocated cards are on other nodes, so it gives the least and the most.
func (in *Input) freeCards(name card.Name) (least, most int64) {
	if in.Nodes != nil {
		free := int64(0)
		for _, node := range in.nodesWith(name) {
			free += *node.Free
		}
		return free, free
	}

	// The least are free if all allocated cards are on these nodes, the most if the others have as many as they can.
	entry, _ := in.inventoryCard(name)
	usable := max(0, entry.Healthy-entry.Cordoned)
	return max(0, usable-entry.Allocated), max(0, min(usable, entry.Total-entry.Allocated))
}

// MostFree returns how many cards of a name may be free at most, for a user who may not read nodes.
func (in *Input) MostFree(name card.Name) card.Count {
	if in.Inventory == nil {
		return math.MaxInt64 // the user may not read the inventory either
	}
	_, most := in.freeCards(name)
	return card.Count(most)
}

// describeRange returns one number, or the least and the most.
func describeRange(least, most int64) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// nodesWith returns the nodes with a card that are Ready and not cordoned for the pod. Those whose usage may not be read
// are left out.
func (in *Input) nodesWith(name card.Name) []nodecards.Node {
	var nodes []nodecards.Node
	for _, node := range in.Nodes {
		if node.Card == string(name) && node.Ready && !in.isCordonedForPod(node) && node.Free != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// isCordonedForPod reports whether a node is cordoned and the pod does not tolerate that, or it is not known whether it
// does.
func (in *Input) isCordonedForPod(node nodecards.Node) bool {
	return node.Cordoned && (in.NodeRefusals == nil || in.NodeRefusals[node.Name].Cause == simulation.Cordoned)
}

// hasNodeFor reports whether one node has enough free cards for a pod.
func (in *Input) hasNodeFor(name card.Name) bool {
	return slices.ContainsFunc(in.nodesWith(name), func(node nodecards.Node) bool { return *node.Free >= int64(in.Request.Count) })
}

// takesPod reports whether one node has enough free cards of a name for a pod and takes it. It is true where
// that is unknown, and for a job, of which each pod may have another node.
func (in *Input) takesPod(name card.Name) bool {
	if in.Nodes == nil || in.Request.IsJob {
		return true
	}
	return slices.ContainsFunc(in.nodesWith(name), func(node nodecards.Node) bool {
		_, refuses := in.NodeRefusals[node.Name]
		return !refuses && *node.Free >= int64(in.Request.Count)
	})
}

// HasFreeNode reports whether one node has enough free cards for the pod, of whatever name. Cards that it does not name
// may be alternatives.
func (in *Input) HasFreeNode() bool {
	return in.Request.Count > 0 && slices.ContainsFunc(in.Nodes, func(node nodecards.Node) bool {
		return node.Free != nil && *node.Free >= int64(in.Request.Count)
	})
}
