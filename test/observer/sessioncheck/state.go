package sessioncheck

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/observer/rule"
)

// amounts are resources as whole numbers, CPU in milli.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	out := amounts{}
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			out[name] = quantity.MilliValue()
		} else {
			out[name] = quantity.Value()
		}
	}
	return out
}

// podState is a pod with its request and charge.
type podState struct {
	pod      *corev1.Pod
	request  rule.Request
	requests amounts
	// kind is equal for pods with equal requests.
	kind string
	// charge is what the pod uses, terminating what it uses while it is being deleted.
	charge, terminating *rule.Charge
}

type queueState struct {
	queue    *v1beta1.Queue
	limits   rule.Limits
	selector rule.Selector
}

// nodeState is a node with its allocatable resources.
type nodeState struct {
	*corev1.Node
	allocatable amounts
}

// clusterState is the cluster after some change.
type clusterState struct {
	options    Options
	pods       map[types.UID]*podState
	groups     map[types.NamespacedName]*v1beta1.PodGroup
	queues     map[string]*queueState
	nodes      map[string]nodeState
	namespaces map[string]map[string]string
	inventory  *rule.Inventory
	// tree is the tree of queues, nil while they are flat.
	tree *rule.Tree
	// cached is computed once after each change, nodeCache after each change of nodes.
	cached    cachedSums
	nodeCache nodeCache
}

// cachedSums are computed on first use.
type cachedSums struct {
	units      []*unit
	queueUsage map[string]usage
	nodeUsage  map[bool]map[string]amounts
	antiAffine map[string]bool
	mayStart   map[types.UID]bool
}

type nodeCache struct {
	// isShared reports for two kinds of pods whether some node has a card for each.
	isShared map[[2]string]bool
	// cards are the card names that nodes give to a resource.
	cards map[corev1.ResourceName][]string
}

func newNodeCache() nodeCache {
	return nodeCache{isShared: map[[2]string]bool{}, cards: map[corev1.ResourceName][]string{}}
}

func newCachedSums() cachedSums {
	return cachedSums{queueUsage: map[string]usage{}, nodeUsage: map[bool]map[string]amounts{}, mayStart: map[types.UID]bool{}}
}

func newClusterState(options Options) *clusterState {
	return &clusterState{
		options: options,
		pods:    map[types.UID]*podState{}, groups: map[types.NamespacedName]*v1beta1.PodGroup{},
		queues: map[string]*queueState{}, nodes: map[string]nodeState{},
		namespaces: map[string]map[string]string{}, inventory: rule.NewInventory().WithMappings(options.Mappings), cached: newCachedSums(), nodeCache: newNodeCache(),
	}
}

// applyChange applies a change and reports whether anything relevant changed.
func (w *clusterState) applyChange(object client.Object, deleted bool) bool {
	w.cached = newCachedSums()
	switch object := object.(type) {
	case *corev1.Pod:
		return w.applyPod(object, deleted)
	case *v1beta1.PodGroup:
		w.applyPodGroup(object, deleted)
		return true
	case *v1beta1.Queue:
		return w.applyQueue(object, deleted)
	case *corev1.Namespace:
		w.namespaces[object.Name] = object.Labels
		if deleted {
			delete(w.namespaces, object.Name)
		}
		return true
	case *corev1.Node:
		return w.applyNode(object, deleted)
	}

	return false
}

func (w *clusterState) applyPodGroup(group *v1beta1.PodGroup, deleted bool) {
	key := client.ObjectKeyFromObject(group)
	w.groups[key] = group
	if deleted {
		delete(w.groups, key)
	}

	for _, state := range w.pods {
		if groupKey(state.pod) == key {
			w.updatePod(state)
		}
	}
}

func (w *clusterState) applyQueue(queue *v1beta1.Queue, deleted bool) bool {
	before := w.queues[queue.Name]
	now := &queueState{queue, rule.LimitsOf(queue, w.options.Unmanaged), rule.SelectorOf(queue)}
	if deleted {
		delete(w.queues, queue.Name)
		w.updateTree()
		return true
	}

	w.queues[queue.Name] = now
	return w.updateTree() || before == nil || before.limits.String() != now.limits.String() || before.selector.String() != now.selector.String() ||
		before.queue.Spec.Parent != queue.Spec.Parent
}

func (w *clusterState) applyPod(pod *corev1.Pod, deleted bool) bool {
	if deleted {
		delete(w.pods, pod.UID)
		return true
	}

	state, known := w.pods[pod.UID]
	if !known {
		state = &podState{}
		w.pods[pod.UID] = state
	}

	before := state.pod
	state.pod = pod
	state.requests = amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	w.updatePod(state)

	return before == nil || before.Status.Phase != pod.Status.Phase || !reflect.DeepEqual(before.Spec, pod.Spec) ||
		!reflect.DeepEqual(before.Annotations, pod.Annotations) || before.DeletionTimestamp.IsZero() != pod.DeletionTimestamp.IsZero() ||
		before.Status.NominatedNodeName != pod.Status.NominatedNodeName || evictedBy(before) != evictedBy(pod)
}

// applyNode ignores heartbeats of a node.
func (w *clusterState) applyNode(node *corev1.Node, deleted bool) bool {
	before, known := w.nodes[node.Name]
	if deleted {
		delete(w.nodes, node.Name)
		w.inventory.Remove(node.Name)
	} else {
		w.nodes[node.Name] = nodeState{node, amountsOf(node.Status.Allocatable)}
		if known && isHeartbeat(before.Node, node) {
			return false
		}
		w.inventory.Set(node.Name, w.inventory.Read(node))
	}

	w.nodeCache = newNodeCache()
	for _, state := range w.pods {
		w.updatePod(state)
	}

	return true
}

// isHeartbeat reports whether a change of a node changes nothing that matters to the scheduler.
func isHeartbeat(before, now *corev1.Node) bool {
	return rule.IsReady(before) == rule.IsReady(now) && reflect.DeepEqual(before.Spec, now.Spec) &&
		reflect.DeepEqual(before.Labels, now.Labels) && reflect.DeepEqual(before.Status.Allocatable, now.Status.Allocatable)
}

// updatePod recomputes what a pod requests and uses.
func (w *clusterState) updatePod(state *podState) {
	last := state.charge
	if last == nil {
		last = state.terminating
	}

	state.request = rule.RequestOf(state.pod, w.inventory)
	state.kind = fmt.Sprint(state.request.Cards, state.request.Denial, state.requests, state.pod.Spec.NodeSelector, state.pod.Spec.Tolerations)
	group := w.groups[groupKey(state.pod)]

	state.charge = nil
	state.terminating = nil
	if charge, isCharged := rule.ChargeOf(state.pod, group, w.inventory, last, w.originOf(state.pod)); isCharged {
		state.charge = &charge
	}

	if charge, isCharged := rule.TerminatingChargeOf(state.pod, group, w.inventory, last, w.originOf(state.pod)); isCharged {
		state.terminating = &charge
	}
}

// originOf returns what is known about the scheduler of a pod.
func (w *clusterState) originOf(pod *corev1.Pod) rule.Origin {
	return rule.Origin{Ours: pod.Spec.SchedulerName == w.options.SchedulerName, AllowsNamespace: w.allowsNamespace}
}

// allowsNamespace reports whether a queue takes work of a namespace now.
func (w *clusterState) allowsNamespace(queue, namespace string) bool {
	state := w.queues[queue]
	return state == nil || state.selector.Selects(w.namespaces[namespace])
}

func groupKey(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: rule.PodGroupName(pod)}
}

// usage is what the pods of a queue use.
type usage struct {
	cards, terminating rule.Quota
	milliCPU, memory   int64
}

func (u *usage) addRequest(d request) {
	for _, card := range d.cards {
		u.cards[card] += d.count
	}
	u.milliCPU += d.milliCPU
	u.memory += d.memory
}

// queueUsage recounts a queue; the caller must not change the result. CPU and memory of pods
// with cards count unless Options.UnlimitedCPUMemory exempts them.
func (w *clusterState) queueUsage(queue string) usage {
	if known, ok := w.cached.queueUsage[queue]; ok {
		return known
	}

	sum := usage{cards: rule.Quota{}, terminating: rule.Quota{}}
	for _, state := range w.pods {
		if charge := state.charge; charge != nil && charge.Queue == queue {
			for card, count := range charge.Cards {
				sum.cards[card] += count
			}
			if w.countsCPUMemory(state) {
				sum.milliCPU += charge.MilliCPU
				sum.memory += charge.Memory
			}
		}

		if charge := state.terminating; charge != nil && charge.Queue == queue {
			for card, count := range charge.Cards {
				sum.terminating[card] += count
			}
		}
	}

	w.cached.queueUsage[queue] = sum
	return sum
}

func (w *clusterState) countsCPUMemory(state *podState) bool {
	return !w.options.UnlimitedCPUMemory || state.request.Count == 0
}

// nodeUsage returns what the pods on each node request, with or without terminating pods.
func (w *clusterState) nodeUsage(ending bool) map[string]amounts {
	if known, ok := w.cached.nodeUsage[ending]; ok {
		return known
	}

	used := map[string]amounts{}
	for _, state := range w.pods {
		if state.pod.Spec.NodeName == "" || (!rule.IsCharged(state.pod) && (!ending || !rule.IsTerminating(state.pod))) {
			continue
		}

		if used[state.pod.Spec.NodeName] == nil {
			used[state.pod.Spec.NodeName] = amounts{}
		}
		for name, amount := range state.requests {
			used[state.pod.Spec.NodeName][name] += amount
		}
		used[state.pod.Spec.NodeName][corev1.ResourcePods]++
	}

	w.cached.nodeUsage[ending] = used
	return used
}
