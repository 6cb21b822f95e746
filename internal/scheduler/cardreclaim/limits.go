package cardreclaim

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// most is how many of a claim's pods a node takes, whatever its room.
func (c *claim) most(node int) int {
	if n, known := c.caps[node]; known {
		return n
	}
	switch {
	case c.alone:
		return 1
	case c.spread > 0:
		return c.spread
	}
	return math.MaxInt32
}

// spreadOf is how many such pods a node can take while others have none: the
// smallest skew of the pod's own spreading over nodes, 0 when it does not spread.
func spreadOf(pod *corev1.Pod) int {
	least := 0
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || c.TopologyKey != corev1.LabelHostname {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) && (least == 0 || int(c.MaxSkew) < least) {
			least = int(c.MaxSkew)
		}
	}
	return least
}

// avoid notes that a node takes no more of a claim's pods. If it takes none, and
// the pods care for more of their surroundings than the node itself, it is left
// out with all nodes of the same surroundings, which are no better.
func (w *wave) avoid(u *unfit) {
	if u.beside > 0 {
		u.claim.caps[u.node] = u.beside
		return
	}
	u.claim.excluded[u.node] = true
	for _, key := range surroundings(u.claim.tasks[0].Pod) {
		value, known := w.list[u.node].Node.Labels[key]
		for _, i := range w.fitting[w.kindOf(u.claim)] {
			if other, has := w.list[i].Node.Labels[key]; known && has && other == value {
				u.claim.excluded[i] = true
			}
		}
	}
}

// keptOff reports whether a pod that stays on a node keeps a claim's pods off it, by a
// host port or by anti-affinity: whoever else goes, they cannot run there.
func (w *wave) keptOff(c *claim, node *api.NodeInfo) bool {
	by := c.tasks[0]
	if c.ask.Count == 0 { // its gang may take from others than it could itself
		return false
	}
	wants := portsOf(by.Pod)+termsOf(by.Pod) > 0
	for _, other := range node.Tasks {
		if !wants && termsOf(other.Pod) == 0 {
			continue
		}
		w.pair(by.Pod, other.Pod)
		if workload.KeepApart(by.Pod, other.Pod) && other.Status != api.Releasing && !w.mayGoFor(by)[other.UID] {
			return true
		}
	}
	return false
}

// mayGoFor are the pods that may go for a pod that takes cards back.
func (w *wave) mayGoFor(by *api.TaskInfo) map[api.TaskID]bool {
	key := w.giverKey(by)
	if w.mayGo[key] == nil {
		pods := map[api.TaskID]bool{}
		for _, g := range w.giversFor(by) {
			for i, task := range g.tasks {
				pods[task.UID] = g.shape.Whole || !g.shape.Pods[i].Protected
			}
		}
		w.mayGo[key] = pods
	}
	return w.mayGo[key]
}

// surroundings lists the node labels, other than its name, by which a pod must
// be near to or far from others.
func surroundings(pod *corev1.Pod) []string {
	var keys []string
	add := func(key string) {
		if key != corev1.LabelHostname {
			keys = append(keys, key)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
			add(c.TopologyKey)
		}
	}
	for _, term := range workload.Terms(pod) {
		add(term.TopologyKey)
	}
	return keys
}

// waitsFor tells that a pod cannot be on a node only because pods that are on
// their way out are still there, or near: beside them it could not be, or there
// are as many pods as the node takes. It waits for them, and nobody else is to
// go.
func (w *wave) waitsFor(c *claim, node *api.NodeInfo) bool {
	leaving := false
	for _, task := range w.onTheirWay {
		other, known := w.ssn.Nodes[task.NodeName]
		if !known || other.Node == nil || node.Node == nil {
			continue
		}
		leaving = leaving || other.Name == node.Name
		w.pair(c.tasks[0].Pod, task.Pod)
		near := func(key string) bool {
			if key == corev1.LabelHostname {
				return other.Name == node.Name
			}
			value, has := node.Node.Labels[key]
			return has && other.Node.Labels[key] == value
		}
		if workload.KeepApartWhere(c.tasks[0].Pod, task.Pod, other.Name == node.Name, near) {
			return true
		}
	}
	return leaving && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}
