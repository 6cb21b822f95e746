package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/workload"
)

// Obstacle is why a node refuses a pod, whatever cards it has.
type Obstacle struct {
	// Detail says what is in the way, such as "is cordoned".
	Detail string
	// Remedy is what would help. ChangesNode reports whether it changes the node.
	Remedy      string
	ChangesNode bool
	// LacksCompute reports whether only CPU, memory or room for pods is missing.
	LacksCompute bool
}

// FindObstacles returns why nodes refuse a pod, by node. Nodes without an obstacle are left out. pods
// are those of all nodes.
func FindObstacles(pod *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod) map[string]Obstacle {
	found := map[string]Obstacle{}
	for _, node := range nodes {
		if obstacle, any := findObstacle(pod, node); any {
			found[node.Name] = obstacle
		}
	}

	// A full node counts only where nothing else is in the way: a taint stays when other pods have ended.
	used := requestsByNode(pods)
	for _, node := range nodes {
		if _, any := found[node.Name]; any {
			continue
		}
		if lacking := describeLacking(requestsOf(pod), used[node.Name], node.Status.Allocatable); lacking != "" {
			found[node.Name] = Obstacle{Detail: "has too little left: " + lacking, Remedy: "request less for each pod, or free it on the node", LacksCompute: true}
		}
	}

	return found
}

// HasOpenNode reports whether a node has enough free cards, and no known obstacle.
func (in *Input) HasOpenNode() bool {
	return slices.ContainsFunc(in.fittingNodes(), func(node nodecards.Node) bool {
		_, isRefusing := in.Obstacles[node.Name]
		return !isRefusing
	})
}

// AddRefusals adds what the scheduler says of nodes without a known obstacle.
func (in *Input) AddRefusals(refusals map[string]string) {
	for node, reason := range refusals {
		if _, isKnown := in.Obstacles[node]; isKnown {
			continue
		}
		in.Obstacles[node] = Obstacle{
			Detail: "refuses the pod: " + output.Clean(reason),
			Remedy: "change what the pod wants of its node, or wait until pods that are in its way have ended",
		}
	}
}

// requestsOf returns what a pod requests, and one of the pods that a node may have.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// requestsByNode sums up what the pods on each node request. Pods that have finished use nothing any more.
func requestsByNode(pods []*corev1.Pod) map[string]corev1.ResourceList {
	used := map[string]corev1.ResourceList{}
	for _, pod := range pods {
		if !workload.MayBeRunning(pod) {
			continue
		}

		sums := used[pod.Spec.NodeName]
		if sums == nil {
			sums = corev1.ResourceList{}
			used[pod.Spec.NodeName] = sums
		}

		for name, quantity := range requestsOf(pod) {
			sum := sums[name]
			sum.Add(quantity)
			sums[name] = sum
		}
	}

	return used
}

// describeLacking says of which resources a node has too little left, beside cards, "" for none. A node may be
// over its allocatable amount; then 0 is left.
func describeLacking(requested, used, allocatable corev1.ResourceList) string {
	var lacking []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		wanted := requested[name]
		left := allocatable[name].DeepCopy()
		left.Sub(used[name])
		if wanted.Sign() <= 0 || wanted.Cmp(left) <= 0 {
			continue
		}

		if left.Sign() < 0 {
			left = resource.Quantity{}
		}
		lacking = append(lacking, fmt.Sprintf("%s %s of %s requested", left.String(), name, wanted.String()))
	}

	return strings.Join(lacking, ", ")
}

// findObstacle returns what of a node itself keeps a pod away, and whether there is anything: its state, a
// taint or its labels. Of several things the first one in this order is named.
func findObstacle(pod *corev1.Pod, node *corev1.Node) (Obstacle, bool) {
	switch {
	case !workload.NodeReady(node):
		return Obstacle{Detail: "is not Ready", Remedy: "kubectl describe node " + node.Name + " says why"}, true
	case node.Spec.Unschedulable:
		return Obstacle{Detail: "is cordoned", Remedy: "kubectl uncordon " + node.Name + " when its maintenance is over", ChangesNode: true}, true
	}

	repels := func(taint *corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	}
	if taint, any := corev1helper.FindMatchingUntoleratedTaint(node.Spec.Taints, pod.Spec.Tolerations, repels); any {
		text := output.Clean(taint.ToString())
		return Obstacle{Detail: "has taint " + text, Remedy: "only pods with a toleration of taint " + text + " get it"}, true
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !matches {
		return Obstacle{Detail: "is not one that the pod selects", Remedy: "change nodeSelector or the node affinity of the pod"}, true
	}

	return Obstacle{}, false
}

// maxObstacles is how many nodes are named.
const maxObstacles = 3

// fittingNodes returns the nodes that have enough free cards for a pod: first those that are Ready and not
// cordoned, then those with most free cards.
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
	if len(nodes) == 0 || g.Obstacles == nil {
		return nil
	}

	const name = "taints and labels"
	var refusing, lacking []string
	open := ""
	for _, node := range nodes {
		obstacle, any := g.Obstacles[node.Name]
		if !any {
			return []Gate{{name, Yes, fmt.Sprintf("%s has %d free and takes such pods", node.Name, *node.Free)}}
		}

		text := fmt.Sprintf("%s has %d free and %s", node.Name, *node.Free, obstacle.Detail)
		if obstacle.LacksCompute {
			lacking = append(lacking, text)
			open = cmp.Or(open, fmt.Sprintf("%s has %d free, and none is in the way", node.Name, *node.Free))
		} else {
			refusing = append(refusing, text)
		}
	}

	if len(lacking) == 0 {
		return []Gate{{name, No, joinNodes(refusing)}}
	}
	return []Gate{{name, Yes, open}, {"CPU and memory", No, joinNodes(lacking)}}
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
		obstacle := a.Obstacles[node.Name]
		if obstacle.ChangesNode && !a.ChangesNodes {
			obstacle.Remedy = "ask the administrator when its maintenance is over"
		}
		advice = append(advice, fmt.Sprintf("Node %s has %d %s free and %s: %s.", node.Name, *node.Free, node.Card, obstacle.Detail, obstacle.Remedy))
	}

	return advice
}
