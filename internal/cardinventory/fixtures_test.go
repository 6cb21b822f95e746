package cardinventory

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
)

// scene are the objects of a cluster.
type scene struct {
	// earlier are nodes as they were before, in nodes again if they are still there.
	earlier, nodes []*corev1.Node

	pods     []*corev1.Pod
	quotas   []*v1alpha1.CardQuota
	queues   []*v1beta1.Queue
	mappings card.Mappings
	// isTree reports whether queues form a tree.
	isTree bool
	// queueOfNamespace is the queue of each namespace in mode Observe, nil in mode Enforce.
	queueOfNamespace func(namespace string) string
}

// status counts the scene as the operator does.
func (cluster scene) status() v1alpha1.CardInventoryStatus {
	var tracker card.Tracker
	tracker.SetMappings(cluster.mappings)
	for _, node := range cluster.earlier {
		tracker.Update(node)
	}

	now := map[string]*corev1.Node{}
	for _, node := range cluster.nodes {
		now[node.Name] = node
	}

	tracker.Replace(now)
	usage, charges := queueusage.CountWithCharges(queueusage.Input{Pods: cluster.pods, Inventory: tracker.Inventory(), QueueOfNamespace: cluster.queueOfNamespace})
	owners := map[string]*v1alpha1.CardQuota{}
	quotas := map[string]card.Quota{}

	queues := cluster.queues
	for _, q := range cluster.quotas {
		owners[q.QueueName()] = q
		object := builder.Queue(q.QueueName()).Obj()
		object.Spec.Parent = q.Spec.Parent
		queues = append(queues, object)
	}

	tree := cardquota.Flat
	if cluster.isTree {
		tree = cardquota.NewTree(cluster.quotas, queues, v1alpha1.UnmanagedEnforce)
	}

	for queue, owner := range owners {
		quotas[queue] = tree.QuotaFor(owner)
	}

	return NewStatus(Input{
		Nodes: tracker.TrackedNodes(),
		Cards: tracker.Inventory(),
		Count: NewCount(CountInput{
			Pods:             cluster.pods,
			Charges:          charges,
			Usage:            usage,
			Owners:           owners,
			ServiceTypes:     cardquota.ServiceTypesByQueue(owners, queues),
			Quotas:           quotas,
			Queues:           queues,
			Tree:             tree,
			QueueOfNamespace: cluster.queueOfNamespace,
			Totals:           tree.QuotaTotals(cluster.quotas, cardquota.UnownedQuotas(cluster.quotas, tree.GrantingQueues(queues)), tracker.Healthy()),
		}),
	})
}

// quotaInTree returns a CardQuota of a tree with one card.
func quotaInTree(name, parent, serviceType string, quota, deserved int64) *v1alpha1.CardQuota {
	return builder.CardQuota(name).ServiceType(serviceType).Card("NVIDIA-H200", quota).Parent(parent).With(func(q *v1alpha1.CardQuota) {
		q.Spec.Cards[0].Deserved = ptr.To(deserved)
	}).Obj()
}

// cardOf returns the entry of a card.
func cardOf(status v1alpha1.CardInventoryStatus, name string) v1alpha1.InventoryCard {
	for _, entry := range status.Cards {
		if entry.Name == name {
			return entry
		}
	}
	return v1alpha1.InventoryCard{}
}

// nodeWithEightH200 is a ready node with 8 NVIDIA-H200, and labels that say so.
func nodeWithEightH200(name string) *builder.NodeBuilder {
	return builder.Node(name).GPUs("NVIDIA-H200", 8)
}

// runningPod returns a pod of namespace lab with cards of a node.
func runningPod(name, queue, node string, count int) *corev1.Pod {
	return builder.Pod("lab", name).Queue(queue).GPUs(count).Running(node).Obj()
}
