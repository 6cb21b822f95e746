package cardquota

import (
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
)

const gpu = builder.GPU

// fleet is a cluster with one node per model, all under nvidia.com/gpu.
func fleet() *card.Inventory {
	nodes := map[string]card.Node{}
	for _, node := range fleetNodes() {
		nodes[node.Name] = node.Node
	}
	return card.NewInventory(nodes)
}

// fleetNodes are the nodes of the fleet: all are ready.
func fleetNodes() (nodes []card.NodeState) {
	for node, model := range map[string]card.Name{
		"h200": "NVIDIA-H200", "h800": "NVIDIA-H800",
		"4090": "NVIDIA-GeForce-RTX-4090", "4090d": "NVIDIA-GeForce-RTX-4090-D",
	} {
		nodes = append(nodes, card.NodeState{Name: node, IsReady: true,
			Node: card.Node{Model: string(model), Cards: []card.NodeCard{{Name: model, Resource: gpu, Count: 8}}}})
	}
	return nodes
}
