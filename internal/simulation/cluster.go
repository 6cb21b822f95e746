// Package simulation describes what kubectl cardquota whatif asks: a cluster, changes of it, and the
// pods of new workloads. Package simulator answers with the scheduler.
package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// Cluster is a snapshot of what the scheduler reads. The methods replace objects that they change, so
// the objects of the caller stay as they are.
type Cluster struct {
	Nodes           []*corev1.Node
	Namespaces      []*corev1.Namespace
	Queues          []*v1beta1.Queue
	PodGroups       []*v1beta1.PodGroup
	Pods            []*corev1.Pod
	Jobs            []*batch.Job
	KubernetesJobs  []*batchv1.Job
	PriorityClasses []*schedulingv1.PriorityClass
	Budgets         []*policyv1.PodDisruptionBudget
	// Mappings name the cards that labels of nodes do not name.
	Mappings card.Mappings
	// Policy is the ServiceTypePolicy, nil if there is none.
	Policy *v1alpha1.ServiceTypePolicy
	// Schedulers are the names by which pods choose our scheduler.
	Schedulers []string
	// Evicted are the pods that Drain evicted.
	Evicted []Eviction
}

// Eviction is a pod that a drain evicts.
type Eviction struct {
	// Pod is the pod as it was.
	Pod *corev1.Pod
	// Successor is the pod that waits for another node in its place, "" if the pod ends for good.
	Successor types.UID
}

// SetQuota changes the quota of a queue for one card. In a tree, what the queue deserves stays as it is, unless
// leavesDeservedOut is set: then the CardQuota of the queue leaves deserved out, and it follows the quota. An error is an
// unknown queue, or an annotation that cannot be read.
func (c *Cluster) SetQuota(queue string, name card.Name, count card.Count, leavesDeservedOut bool) error {
	i := slices.IndexFunc(c.Queues, func(q *v1beta1.Queue) bool { return q.Name == queue })
	if i < 0 {
		return fmt.Errorf("there is no queue %s", queue)
	}

	quota, _, err := readCards(c.Queues[i], v1alpha1.AnnotationCardQuota)
	if err != nil {
		return err
	}

	// Only Queues of a tree have this annotation.
	deserved, isTree, err := readCards(c.Queues[i], v1alpha1.AnnotationCardDeserved)
	if err != nil {
		return err
	}

	if leavesDeservedOut {
		deserved[name] = count
	}

	quota[name] = count

	// Snapshots share their objects, and whatif still compares with the one before the change.
	changed := c.Queues[i].DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AnnotationCardQuota, quota.String())
	if isTree {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AnnotationCardDeserved, deserved.String())
	}

	c.Queues[i] = changed
	return nil
}

// readCards returns the cards in an annotation of a queue, and whether the queue has it.
func readCards(queue *v1beta1.Queue, key string) (card.Quota, bool, error) {
	text, isWritten := queue.Annotations[key]
	if !isWritten {
		return card.Quota{}, false, nil
	}
	cards, err := card.ParseQuota(text)
	if err != nil {
		return nil, true, fmt.Errorf("annotation %s of queue %s: %w", key, queue.Name, err)
	}
	return cards, true, nil
}

// MaxAddedNodes bounds the nodes that AddNodes adds.
const MaxAddedNodes = 1000

// AddNodes adds empty nodes with a card. They are copies of a node that has the card, the one with the
// most of it.
func (c *Cluster) AddNodes(count int, name card.Name) error {
	if count < 1 || count > MaxAddedNodes {
		return fmt.Errorf("%d nodes cannot be added: write a number from 1 to %d", count, MaxAddedNodes)
	}

	var like *corev1.Node
	var most card.Count // the cards of like
	for _, node := range c.Nodes {
		for _, offered := range card.Recognise(node, c.Mappings).Cards {
			if offered.Name == name && offered.Count > most {
				like = node
				most = offered.Count
			}
		}
	}

	if like == nil {
		return fmt.Errorf("no node has %s, so it is unknown what such a node would be like", name)
	}

	taken := map[string]bool{}
	for _, node := range c.Nodes {
		taken[node.Name] = true
	}

	for number := 1; count > 0; number++ {
		if name := fmt.Sprintf("added-%d", number); !taken[name] {
			c.Nodes = append(c.Nodes, newNodeLike(like, name))
			count--
		}
	}

	return nil
}

// newNodeLike returns an empty, Ready node with the labels, annotations, taints and resources of another one. It drops the
// taints that Kubernetes writes because the other one is cordoned or has a problem.
func newNodeLike(like *corev1.Node, name string) *corev1.Node {
	node := like.DeepCopy()
	node.ObjectMeta = metav1.ObjectMeta{Name: name, UID: types.UID("whatif-node-" + name), Labels: node.Labels, Annotations: node.Annotations}
	metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelHostname, name)
	node.Spec.Unschedulable = false
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return isStateOfNode(taint.Key) })
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// isStateOfNode reports whether Kubernetes writes a taint because of what a node is at the moment.
func isStateOfNode(key string) bool {
	return slices.Contains([]string{
		corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeOutOfService,
	}, key)
}

// Inventory returns the cards of all nodes.
func (c *Cluster) Inventory() *card.Inventory {
	nodes := make(map[string]card.Node, len(c.Nodes))
	for _, node := range c.Nodes {
		nodes[node.Name] = card.Recognise(node, c.Mappings)
	}
	return card.NewInventory(nodes)
}

// Tracker returns the cards of all nodes and the state of each node.
func (c *Cluster) Tracker() *card.Tracker {
	tracker := &card.Tracker{}
	tracker.SetMappings(c.Mappings)
	for _, node := range c.Nodes {
		tracker.Update(node)
	}
	return tracker
}

// Simulator runs the scheduler with a configuration on a snapshot, see package simulator. It is nil where
// the scheduler cannot be built.
type Simulator func(ctx context.Context, c *Cluster, added []Workload, configuration string, now time.Time) (Result, error)

// NodeRefusals returns why nodes refuse a pod, by node, see package simulator. It is nil where the scheduler
// cannot be built.
type NodeRefusals func(c *Cluster, pod *corev1.Pod, now time.Time) (map[string]NodeRefusal, error)

// NodeRefusal is why a node refuses a pod, whatever cards it has.
type NodeRefusal struct {
	Cause RefusalCause
	// Text has the details of the cause.
	Text string
}

// RefusalCause is what of a node keeps a pod away.
type RefusalCause int

// The causes, with the text of each.
const (
	// OtherRefusal is in the words of Kubernetes.
	OtherRefusal RefusalCause = iota
	// Cordoned: the pod does not tolerate that the node is cordoned. It has no text.
	Cordoned
	// UntoleratedTaint: the taint.
	UntoleratedTaint
	// NotSelected: the node selector or the node affinity of the pod, in the words of Kubernetes.
	NotSelected
	// LacksCompute: how much CPU, memory and room for pods is left. Nothing else is in the way.
	LacksCompute
)

// A Scheduler is the part of the scheduler that answers questions about a snapshot.
type Scheduler struct {
	Simulate     Simulator
	NodeRefusals NodeRefusals
}

// Result is what the scheduler would do.
type Result struct {
	// Pods are those of the new workloads, in their order.
	Pods []Placement
	// Victims are the workloads that lose pods, in the order of their evictions. Of those that a drain
	// evicts, they are the ones with cards.
	Victims []Victim
	// DrainedPods counts the pods that a drain moves, DrainedPlaced those that find another node, and
	// DrainedEnded those that end for good.
	DrainedPods, DrainedPlaced, DrainedEnded int
	// DrainedWaiting are the pods that the drain moves and that find no node.
	DrainedWaiting []Placement
	// OthersPlaced counts the pods that wait in the cluster and would start as well. Others are their
	// workloads.
	OthersPlaced int
	Others       []Started
	// Waiting are the workloads of the cluster that would still wait.
	Waiting []Waiting
	// UncheckedClaims are the pods that a session placed although they have ResourceClaims, which it did not
	// check, sorted by name. It is empty if unmanagedQueues is Ignore.
	UncheckedClaims []types.NamespacedName
	// Sessions is how many sessions the scheduler ran, and IsSettled whether the last ones changed
	// nothing.
	Sessions  int
	IsSettled bool
}

// Started is a workload of the cluster that waits, and of which pods would start.
type Started struct {
	Workload v1alpha1.WorkloadReference
	Queue    string
	Pods     int
	Cards    map[card.Name]card.Count
	// Nodes are where the pods would run, sorted.
	Nodes []string
}

// Waiting is why pods of a workload would still wait.
type Waiting struct {
	Queue string
	v1alpha1.BlockedStatus
}

// Placement is where a pod would run, or why it would not.
type Placement struct {
	Namespace, Name string
	// Node is "" for a pod that waits, Cards what it uses there.
	Node  string
	Cards []card.Amount
	// Reason is why it waits, as in the status of a CardQuota. Message is what the scheduler would
	// write on the pod.
	Reason  v1alpha1.BlockedReason
	Message string
}

// Victim is a workload that loses pods.
type Victim struct {
	Workload v1alpha1.WorkloadReference
	Queue    string
	Pods     int
	Cards    map[card.Name]card.Count
	// CardSeconds is the work that is lost.
	CardSeconds int64
	// For are the workloads that get its place. IsDrained reports whether a drain evicts it.
	For       []v1alpha1.WorkloadReference
	IsDrained bool
	// Restarted counts its pods that would find another node.
	Restarted int
}
