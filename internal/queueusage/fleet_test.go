package queueusage

import (
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
)

const gpu = builder.GPU

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type cards = map[card.Name]card.Count

// newInventory is a cluster of four nodes with 8 cards each, all under nvidia.com/gpu: h200 has NVIDIA-H200, h800
// NVIDIA-H800, 4090 NVIDIA-GeForce-RTX-4090, and 4090d NVIDIA-GeForce-RTX-4090-D.
func newInventory() *card.Inventory {
	nodes := map[string]card.Node{}
	for _, node := range newNodes() {
		nodes[node.Name] = node.Node
	}
	return card.NewInventory(nodes)
}

// newNodes are the nodes of newInventory. All are ready.
func newNodes() (nodes []card.NodeState) {
	for node, model := range map[string]card.Name{
		"h200": "NVIDIA-H200", "h800": "NVIDIA-H800",
		"4090": "NVIDIA-GeForce-RTX-4090", "4090d": "NVIDIA-GeForce-RTX-4090-D",
	} {
		nodes = append(nodes, card.NodeState{Name: node, IsReady: true,
			Node: card.Node{Model: string(model), Cards: []card.NodeCard{{Name: model, Resource: gpu, Count: 8}}}})
	}
	return nodes
}
