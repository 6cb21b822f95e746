package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/simulation"
)

// obstacle is why a node refuses a pod, whatever cards it has: what is in the way, such as "is cordoned", and what would
// help.
type obstacle struct{ Detail, Remedy string }

// obstacleOf returns why a node refuses the pod. Kubernetes gives a node that is not Ready a taint. Then that state is
// named, and not the taint.
func (in *Input) obstacleOf(node nodecards.Node) (found obstacle, isRefusing bool) {
	refusal, isRefusing := in.NodeRefusals[node.Name]
	text := output.Clean(refusal.Text)
	switch {
	case !isRefusing:
		return obstacle{}, false
	case !node.Ready:
		return obstacle{"is not Ready", "kubectl describe node " + node.Name + " says why"}, true
	case refusal.Cause == simulation.Cordoned && in.ChangesNodes:
		return obstacle{"is cordoned", "kubectl uncordon " + node.Name + " when its maintenance is over"}, true
	case refusal.Cause == simulation.Cordoned:
		return obstacle{"is cordoned", "ask the administrator when its maintenance is over"}, true
	case refusal.Cause == simulation.UntoleratedTaint:
		return obstacle{"has taint " + text, "only pods with a toleration of taint " + text + " get it"}, true
	case refusal.Cause == simulation.NotSelected:
		return obstacle{"is not one that the pod selects", "change nodeSelector or the node affinity of the pod"}, true
	case refusal.Cause == simulation.LacksCompute:
		return obstacle{"has too little left: " + text, "request less for each pod, or free it on the node"}, true
	}

	return obstacle{"refuses the pod: " + text, "change what the pod wants of its node, or wait until pods that are in its way have ended"}, true
}

// maxObstacles is how many nodes are named.
const maxObstacles = 3

// fittingNodes returns the nodes that have enough free cards for a pod, as far as these are known. Nodes that
// are Ready and not cordoned come first, and among equal ones those with most free cards.
func (in *Input) fittingNodes() []nodecards.Node {
	var nodes []nodecards.Node
	for _, node := range in.Nodes {
		isNamed := slices.ContainsFunc(in.Request.Names, func(name card.Name) bool { return string(name) == node.Card })
		if isNamed && node.Free != nil && *node.Free >= int64(in.Request.Count) {
			nodes = append(nodes, node)
		}
	}

	takesNone := func(node nodecards.Node) int {
		if node.Ready && !node.Cordoned {
			return 0
		}
		return 1
	}

	slices.SortStableFunc(nodes, func(a, b nodecards.Node) int {
		return cmp.Or(cmp.Compare(takesNone(a), takesNone(b)), cmp.Compare(*b.Free, *a.Free))
	})
	return nodes
}

// obstacleGates answers whether a node with enough cards takes the pod: one gate for taints and labels, and
// where a node lacks only CPU, memory or room for pods, a second one. There is none if that is unknown, or if no
// node has enough cards, which another gate says.
func (g gateCheck) obstacleGates() []Gate {
	nodes := g.fittingNodes()
	if len(nodes) == 0 || g.NodeRefusals == nil {
		return nil
	}

	const name = "taints and labels"
	var refusing, lacking []string
	openDetail := "" // of the first gate, about the first node that only lacks CPU, memory or room for pods
	for _, node := range nodes {
		found, isRefusing := g.obstacleOf(node)
		if !isRefusing {
			return []Gate{{name, Yes, fmt.Sprintf("%s has %d free and takes such pods", node.Name, *node.Free)}}
		}

		text := fmt.Sprintf("%s has %d free and %s", node.Name, *node.Free, found.Detail)
		if node.Ready && g.NodeRefusals[node.Name].Cause == simulation.LacksCompute {
			lacking = append(lacking, text)
			openDetail = cmp.Or(openDetail, fmt.Sprintf("%s has %d free, and none is in the way", node.Name, *node.Free))
		} else {
			refusing = append(refusing, text)
		}
	}

	if len(lacking) == 0 {
		return []Gate{{name, No, joinNodes(refusing)}}
	}
	return []Gate{{name, Yes, openDetail}, {"CPU and memory", No, joinNodes(lacking)}}
}

// joinNodes lists what is said of the first nodes, and counts the others.
func joinNodes(texts []string) string {
	if more := len(texts) - maxObstacles; more > 0 {
		return fmt.Sprintf("%s; more nodes refuse it: %d", strings.Join(texts[:maxObstacles], "; "), more)
	}
	return strings.Join(texts, "; ")
}

// adviseObstacles says what would make each of the first nodes with enough cards take the pod, if none does.
func (a adviser) adviseObstacles() []string {
	gates := gateCheck(a).obstacleGates()
	if len(gates) == 0 || gates[len(gates)-1].Answer == Yes { // the last gate is No unless a node takes the pod
		return nil
	}

	var advice []string
	nodes := a.fittingNodes()
	for _, node := range nodes[:min(len(nodes), maxObstacles)] {
		found, _ := a.obstacleOf(node)
		advice = append(advice, fmt.Sprintf("Node %s has %d %s free and %s: %s.", node.Name, *node.Free, node.Card, found.Detail, found.Remedy))
	}

	return advice
}
