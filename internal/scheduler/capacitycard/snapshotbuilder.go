package capacitycard

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/enqueue"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// snapshotBuilder fills the Session when it opens: it reads queues and nodes, and updates the ledger.
type snapshotBuilder struct {
	*snapshot.Session
	events     *Events
	evictions  *snapshot.Evictions
	sums       *enqueue.Sums
	reserver   *enqueue.Reserver
	allocation *allocation
}

// buildSnapshot updates the ledger: the limits of every queue, the charges of all placed pods,
// and the reservations of enqueued jobs. The order matters: a charge needs the cards of the nodes
// and the rules of its queue, and a reservation needs the charges.
func (b *snapshotBuilder) buildSnapshot() {
	c := b.Cache
	c.BeginSession()
	nodes := b.listNodes()

	if b.ArgumentsErr == nil { // otherwise the last valid mappings stay
		c.Nodes.SetMappings(b.Args.Cards)
	}
	c.ReplaceNodes(nodes, b.Args.CardUnlimitedCPUMemory)

	b.Inventory = c.Inventory
	c.Resolver = workload.Resolver{Inventory: b.Inventory, Schedulers: append([]string{}, options.ServerOpts.SchedulerNames...), AllowsNamespace: b.AllowsNamespace}
	b.Ledger = c.Ledger
	b.loadQueueRules()
	b.reparentOrphanQueues() // after the rules, which read the parents that users wrote
	c.SetInventory(nodes)
	b.allocation.belowMinimum = map[api.JobID]bool{}
	b.reserver.Begin()

	var outOfSync []*api.TaskInfo // the pods that Volcano's job controller is about to delete and recreate
	for _, job := range b.Volcano.Jobs {
		allocated, evicting := b.chargeJob(job)
		outOfSync = append(outOfSync, evicting...)
		if b.isBelowMinimum(job, allocated) {
			b.allocation.belowMinimum[job.UID] = true
		}
		b.reserver.ReserveForJob(job, allocated, !b.AllowsNamespace(string(job.Queue), job.Namespace))
	}

	// After the loop, because it moves tasks between the indexes that the loop reads.
	b.evictions.MarkReleasing(outOfSync)
	b.chargePodsWithoutJob()
	b.reserver.ReserveUnreserved() // after all charges: it reserves only what fits beside them
	c.ForgetUnseenPods()
}

// chargeJob charges the pods of a job, and releases those that use no cards any more. It returns how many
// pods are allocated, and those that Volcano's job controller is about to delete and recreate.
func (b *snapshotBuilder) chargeJob(job *api.JobInfo) (allocated int, outOfSync []*api.TaskInfo) {
	c := b.Cache
	queueExists := b.HasQueue(string(job.Queue))

	// Only the ledger of a tree knows which usage cannot be reclaimed.
	var unreclaimable snapshot.UnreclaimableRule
	if !c.Tree.IsFlat() {
		unreclaimable = b.UnreclaimableRuleFor(job)
	}

	for status, tasks := range job.TaskStatusIndex {
		placed := api.AllocatedStatus(status)
		if placed {
			allocated += len(tasks)
		}

		for _, task := range tasks {
			state := c.ObservePod(task.Pod)
			state.Request.IsUnreclaimable = !c.Tree.IsFlat() && b.IsUnreclaimable(&unreclaimable, state)
			switch {
			case placed || snapshot.IsEvictionPending(task, status):
				if c.IsOutOfSync(task, state) {
					outOfSync = append(outOfSync, task)
				}
				c.ChargePod(task.Pod, state, b.ChargedQueueFor(state, job, queueExists, task.NodeName), task.NodeName, cache.ChargedAsUsed)
			case status == api.Releasing && b.isTerminatingOn(task.Pod, task.NodeName):
				c.ChargePod(task.Pod, state, b.ChargedQueueFor(state, job, queueExists, task.NodeName), task.NodeName, cache.ChargedAsTerminating)
			default: // pending, finished, or terminating on a node that is gone or not ready
				c.ReleasePod(state)
			}
		}
	}

	return allocated, outOfSync
}

// loadQueueRules reads the rules of every queue, and puts the queues into their tree. It drops what was reserved and
// kept in the last session. What is wrong with a queue becomes an event on it.
func (b *snapshotBuilder) loadQueueRules() {
	b.QueueRules = make(map[api.QueueID]*workload.QueueRules, len(b.Volcano.Queues))
	b.NamespaceRefusals = map[snapshot.QueueNamespace]*workload.Refusal{}
	for id, queue := range b.Volcano.Queues {
		rules := b.Cache.RulesFor(queue.Queue, b.Args.UnmanagedQueues)
		b.QueueRules[id] = rules
		// Namespaces are watched from the first queue with a namespace selector on.
		if factory := b.Volcano.InformerFactory(); rules.Namespaces != nil && b.NamespaceLister == nil && factory != nil {
			b.NamespaceLister = factory.Core().V1().Namespaces().Lister()
		}

		// Other refusals are reported on the pods alone. An invalid namespace selector is a fault of the
		// queue itself.
		if rules.Refusal != nil && rules.Refusal.Code == workload.CodeInvalidSelector {
			b.events.recordOnQueue(queue.Queue, notice{rules.Refusal.Reason(), rules.Refusal.Message()})
		}
	}

	b.sums.Reset()
	b.Ledger.EndAllKeeping() // keptcards.Kept keeps again what is still kept
	isFlat := b.Args.QueueHierarchy != v1alpha1.QueueHierarchyTree
	for _, fault := range b.Cache.LoadTree(b.QueueRules, isFlat, b.Args.Owners) {
		b.events.recordNotice(b.Volcano.Queues[fault.Queue].Queue, fault.Kind, notice{fault.Reason, fault.Message})
	}
	b.Ledger.ForgetUnused()
	b.Cache.ForgetQueues(b.HasQueue)
}

// reparentOrphanQueues puts every queue whose parents do not lead to root under root, in this
// session only. Volcano follows the parents when it closes the session, and would panic or loop
// (pkg/scheduler/framework/session.go, updateQueueStatus). Flat queues lose nothing. In a tree
// such a queue takes no new work, and LoadTree reports why.
func (b *snapshotBuilder) reparentOrphanQueues() {
	var orphans []*api.QueueInfo
	for id, info := range b.Volcano.Queues {
		if isOrphan(b.Volcano.Queues, id) {
			orphans = append(orphans, info)
		}
	}

	// The search for orphans has ended: it reads the parents that change now.
	for _, info := range orphans {
		name := info.Queue.Name
		parent := info.Queue.Spec.Parent
		newParent := workload.RootQueue
		message := fmt.Sprintf(
			"Queue <%s> names parent <%s>, which does not exist or leads back to it: it is treated as a child of <%s>; set spec.parent to an existing queue",
			name, parent, workload.RootQueue)

		if name == workload.RootQueue {
			newParent = ""
			message = fmt.Sprintf("Queue <%s> names parent <%s>, which the scheduler ignores: it can have no parent; remove spec.parent", workload.RootQueue, parent)
		}
		if !b.IsTree() || name == workload.RootQueue {
			b.events.recordOnQueue(info.Queue, notice{workload.ReasonParentNotFound, message})
		}

		// The Queue itself belongs to Volcano's cache.
		info.Queue = info.Queue.DeepCopy()
		info.Queue.Spec.Parent = newParent
	}
}

// listNodes returns all nodes by name: those of the lister, which is complete from the start, and those
// of the session, which is all that tests have.
func (b *snapshotBuilder) listNodes() map[string]*corev1.Node {
	objects := make(map[string]*corev1.Node, len(b.Volcano.Nodes))
	for name, node := range b.Volcano.Nodes {
		if node.Node != nil {
			objects[name] = node.Node
		}
	}

	if b.Volcano.InformerFactory() == nil {
		return objects
	}

	listed, _ := b.Volcano.InformerFactory().Core().V1().Nodes().Lister().List(labels.Everything()) // the lister cannot fail
	for _, node := range listed {
		objects[node.Name] = node
	}

	return objects
}

// chargePodsWithoutJob charges placed pods without a job in the session. Their PodGroup or
// queue is gone, another scheduler placed them, or Volcano's cache does not have them yet.
func (b *snapshotBuilder) chargePodsWithoutJob() {
	for _, pod := range b.listPods() {
		if b.Cache.SawThisSession(pod) {
			continue
		}
		isTerminating := b.isTerminatingOn(pod, pod.Spec.NodeName)
		if !isTerminating && !workload.IsAssigned(pod) { // it uses no cards
			b.events.reportPodWithoutPodGroup(pod)
			continue
		}

		state := b.Cache.ObservePod(pod)
		// Actions evict only pods of jobs, so a tree cannot reclaim it.
		state.Request.IsUnreclaimable = b.IsTree()
		// Volcano wrote the node into the pod when it tried it in an earlier session, and gave it up.
		if state.AssumedNodeInvalid {
			b.Cache.ReleasePod(state)
			continue
		}

		// Without a PodGroup, the queue that was charged last counts before the one in the pod's annotations,
		// which its owner may change.
		var last string
		if state.Charge != nil {
			last = state.Charge.Queue
		}

		as := cache.ChargedAsUsed
		if isTerminating {
			as = cache.ChargedAsTerminating
		}
		b.Cache.ChargePod(pod, state, b.Cache.Resolver.Queue(pod, nil, last), pod.Spec.NodeName, as)
	}
}

// listPods returns all pods of the lister, which is complete from the start.
func (b *snapshotBuilder) listPods() []*corev1.Pod {
	if b.Volcano.InformerFactory() == nil {
		return nil
	}
	pods, _ := b.Volcano.InformerFactory().Core().V1().Pods().Lister().List(labels.Everything()) // the lister cannot fail
	return pods
}

// isTerminatingOn reports whether a pod is deleted and uses its cards until it ends. A pod on
// a node that is gone or not ready uses none that others could use.
func (b *snapshotBuilder) isTerminatingOn(pod *corev1.Pod, node string) bool {
	if node == "" || !workload.IsTerminating(pod) {
		return false
	}
	known := b.Cache.Nodes.Node(node)
	return known != nil && workload.NodeReady(known)
}

// missingFromSession names one node or placed pod that the listers know and the session does
// not, "" if there is none.
func (b *snapshotBuilder) missingFromSession() string {
	for name, node := range b.listNodes() {
		if _, ok := b.Volcano.Nodes[name]; !ok && isInVolcanoCache(node) {
			return fmt.Sprintf("node %s is not in the session", name)
		}
	}

	placed := map[string]bool{}
	for _, node := range b.Volcano.Nodes {
		for _, task := range node.Tasks {
			placed[string(task.UID)] = true
		}
	}

	for _, pod := range b.listPods() {
		if node := b.Cache.Nodes.Node(pod.Spec.NodeName); node == nil || (b.Volcano.Nodes[pod.Spec.NodeName] == nil && !isInVolcanoCache(node)) {
			continue // its node is gone or belongs to another scheduler, so no session will have it
		}
		if workload.IsAssigned(pod) && !placed[string(pod.UID)] {
			return fmt.Sprintf("pod %s/%s on node %s is not in the session", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}

	return ""
}

// isInVolcanoCache reports whether Volcano's cache certainly accepts a node. --node-selector limits it to
// nodes with one of the labels, and an empty one accepts all. With MULTI_SCHEDULER_ENABLE each of several
// schedulers computes its own part, so no node is certain (pkg/scheduler/cache, nodeCanAddCache).
func isInVolcanoCache(node *corev1.Node) bool {
	if os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" {
		return false
	}

	acceptsAll := true
	for _, selector := range options.ServerOpts.NodeSelector {
		name, value, ok := strings.Cut(selector, ":")
		name = strings.TrimSpace(name)
		value = strings.TrimSpace(value)
		if !ok || value == "" {
			continue // Volcano ignores it
		}
		if found, has := node.Labels[name]; has && found == value {
			return true
		}
		acceptsAll = false
	}

	return acceptsAll
}

// isOrphan reports whether a queue names a missing parent or is its own ancestor. Its
// descendants are no orphans: they reach root once it is under root. root is one if it names a parent.
func isOrphan(queues map[api.QueueID]*api.QueueInfo, id api.QueueID) bool {
	if id == workload.RootQueue {
		return queues[id].Queue.Spec.Parent != ""
	}

	at := id
	for range queues { // no path to root is longer
		parent := api.QueueID(queues[at].Queue.Spec.Parent)
		switch {
		case parent == "" || parent == workload.RootQueue:
			return false
		case parent == id:
			return true
		case queues[parent] == nil:
			return at == id // only the one that names the missing parent
		}
		at = parent
	}

	return false // it leads into a cycle of other queues
}

// isBelowMinimum reports whether a job runs, but lacks pods for its minimum. allocated is how many of its
// pods have a node. Volcano's IsReady ignores the minimums of task roles, so it says nothing about a job with
// several roles.
func (b *snapshotBuilder) isBelowMinimum(job *api.JobInfo, allocated int) bool {
	hasRoles := len(job.TaskMinAvailable) > 1
	if allocated == 0 || len(job.TaskStatusIndex[api.Pending]) == 0 || (!hasRoles && job.IsReady()) {
		return false
	}
	return len(b.MissingTasks(job)) > 0
}
