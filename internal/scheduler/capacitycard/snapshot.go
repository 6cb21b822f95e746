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
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// snapshot fills a Session when it opens, and updates the ledger.
type snapshot struct {
	*Session
	events     *Events
	evictions  *Evictions
	sums       *reservationSums
	reserver   *reserver
	allocation *allocation
}

// buildSnapshot updates the ledger: the limits of every queue, the charges of all placed pods,
// and the reservations of enqueued jobs.
func (p *snapshot) buildSnapshot() {
	c := p.cache
	c.BeginSession()
	nodes := p.listNodes()

	if p.argumentsErr == nil { // otherwise the last valid mappings stay
		c.Nodes.SetMappings(p.args.cards)
	}
	c.ReplaceNodes(nodes, p.args.cardUnlimitedCPUMemory)

	p.inventory = c.Inventory
	c.Resolver = workload.Resolver{Inventory: p.inventory, Schedulers: append([]string{}, options.ServerOpts.SchedulerNames...), AllowsNamespace: p.allowsNamespace}
	p.ledger = c.Ledger
	p.loadQueueRules()
	p.reparentOrphanQueues()
	c.SetInventory(nodes)
	p.allocation.belowMinimum = nil
	p.reserver.exhausted = nil

	var outOfSync []*api.TaskInfo
	for _, job := range p.ssn.Jobs {
		var allocated int
		allocated, outOfSync = p.chargeJob(job, outOfSync)
		if p.isBelowMinimum(job, allocated) {
			p.allocation.belowMinimum = addJob(p.allocation.belowMinimum, job.UID)
		}
		p.reserver.reserveForJob(job, allocated, !p.allowsNamespace(string(job.Queue), job.Namespace))
	}

	// This moves tasks between the indexes that the loop reads.
	p.evictions.markReleasing(outOfSync)
	p.chargePodsWithoutJob()
	p.reserver.reserveUnreserved()
	c.ForgetUnseenPods()
}

// chargeJob charges the pods of a job, and releases those that use no cards any more. It returns
// how many pods are allocated, and appends the tasks that are out of sync.
func (p *snapshot) chargeJob(job *api.JobInfo, outOfSync []*api.TaskInfo) (int, []*api.TaskInfo) {
	c := p.cache
	allocated := 0
	known := p.hasQueue(string(job.Queue))

	var unreclaimable unreclaimableRule
	if !c.Tree.IsFlat() {
		unreclaimable = p.unreclaimableRuleFor(job)
	}

	for status, tasks := range job.TaskStatusIndex {
		placed := api.AllocatedStatus(status)
		if placed {
			allocated += len(tasks)
		}

		for _, task := range tasks {
			state := c.ObservePod(task.Pod)
			state.Request.IsUnreclaimable = !c.Tree.IsFlat() && p.isUnreclaimable(&unreclaimable, state)
			switch {
			case placed || isEvictionPending(task, status):
				if c.IsOutOfSync(task, state) {
					outOfSync = append(outOfSync, task)
				}
				p.cache.ChargePod(task.Pod, state, p.chargedQueueFor(state, job, known, task.NodeName), task.NodeName, cache.ChargedAsUsed)
			case status == api.Releasing && p.isTerminatingOn(task.Pod, task.NodeName):
				p.cache.ChargePod(task.Pod, state, p.chargedQueueFor(state, job, known, task.NodeName), task.NodeName, cache.ChargedAsTerminating)
			default:
				c.ReleasePod(state)
			}
		}
	}

	return allocated, outOfSync
}

// chargedQueueFor returns the queue to charge for a placed pod. A pod on the same node stays
// charged to the same queue. Else the annotation of its binding decides, and without one the
// queue of its PodGroup. So placed pods keep their charge when a user moves or recreates their
// PodGroup: the user would otherwise regain quota and keep the cards. No admission check covers
// pods of other schedulers. Such a pod is charged to its queue only if the queue allows the
// namespace (see workload.Resolver). known is whether the PodGroup's queue exists, computed
// once per job.
func (p *Session) chargedQueueFor(state *cache.PodState, job *api.JobInfo, known bool, node string) string {
	isChargedHere := state.Charge != nil && state.ChargedNode == node
	if isChargedHere && ((known && state.Charge.Queue == string(job.Queue)) || p.hasQueue(state.Charge.Queue)) {
		return state.Charge.Queue
	}

	queue := string(job.Queue)
	if state.AnnotatedQueue != "" && p.hasQueue(state.AnnotatedQueue) {
		queue = state.AnnotatedQueue
	}
	if !state.IsOurs && !p.allowsNamespace(queue, job.Namespace) {
		return ""
	}
	return queue
}

// allowsNamespace reports whether a queue allows pods of a namespace.
func (p *Session) allowsNamespace(queue, namespace string) bool {
	return p.checkNamespace(api.QueueID(queue), p.queueRules[api.QueueID(queue)], namespace) == nil
}

// chargeInQueue returns the charge of a task, nil if it has none or another queue is charged.
func (p *Session) chargeInQueue(queue api.QueueID, task *api.TaskInfo) *quota.Charge {
	if charge := p.ledger.Charged(string(task.UID)); charge != nil && charge.Queue == string(queue) {
		return charge
	}
	return nil
}

func (p *Session) hasQueue(queue string) bool {
	_, ok := p.ssn.Queues[api.QueueID(queue)]
	return ok
}

// isEvictionPending reports whether Volcano evicts a task whose pod is not deleted yet. The
// eviction may still fail, so until then the pod keeps its cards.
func isEvictionPending(task *api.TaskInfo, status api.TaskStatus) bool {
	return status == api.Releasing && task.Pod.DeletionTimestamp == nil
}

// loadQueueRules reads the limits and rules of every queue.
func (p *snapshot) loadQueueRules() {
	p.queueRules = make(map[api.QueueID]*workload.QueueRules, len(p.ssn.Queues))
	p.sums.inqueue = make(map[api.QueueID]*quota.Reservations, len(p.ssn.Queues))
	p.namespaceRefusals = map[queueNamespace]*workload.Refusal{}
	isTree := p.args.queueHierarchy == v1alpha1.QueueHierarchyTree
	if !isTree {
		p.cache.DropTree()
	}

	for id, queue := range p.ssn.Queues {
		rules := p.cache.RulesFor(queue.Queue, p.args.unmanagedQueues)
		p.queueRules[id] = rules
		if factory := p.ssn.InformerFactory(); rules.Namespaces != nil && p.namespaceLister == nil && factory != nil {
			p.namespaceLister = factory.Core().V1().Namespaces().Lister()
		}

		if rules.Refusal != nil && rules.Refusal.Reason == workload.ReasonInvalidNamespaceSelector {
			p.events.recordOnQueue(queue.Queue, rules.Refusal)
		}

		// Of a tree, LoadTree sets the limits of all queues below root.
		if !isTree || id == workload.RootQueue {
			p.ledger.SetLimits(queue.Name, rules.Limits)
		}
		p.sums.inqueue[id] = &quota.Reservations{}
	}

	p.sums.inqueue[allQueues] = &quota.Reservations{}
	p.ledger.EndAllKeeping() // loadReclaimedCards keeps again what is still kept
	p.ledger.Retain(p.hasQueue)
	if isTree {
		for _, n := range p.cache.LoadTree(p.queueRules, p.args.owners) {
			p.events.recordNotice(p.ssn.Queues[n.Queue].Queue, n.Kind, n.Refusal)
		}
	}
	p.cache.ForgetQueues(p.hasQueue)
}

// listNodes returns all nodes: those of the lister, which is complete from the start, and those
// of the session, for tests without a lister.
func (p *snapshot) listNodes() map[string]*corev1.Node {
	objects := make(map[string]*corev1.Node, len(p.ssn.Nodes))
	for name, node := range p.ssn.Nodes {
		if node.Node != nil {
			objects[name] = node.Node
		}
	}

	if p.ssn.InformerFactory() == nil {
		return objects
	}

	listed, _ := p.ssn.InformerFactory().Core().V1().Nodes().Lister().List(labels.Everything()) // the lister cannot fail
	for _, node := range listed {
		objects[node.Name] = node
	}

	return objects
}

// chargePodsWithoutJob charges placed pods without a job in the session. Their PodGroup or
// queue is gone, another scheduler placed them, or Volcano's cache does not have them yet.
func (p *snapshot) chargePodsWithoutJob() {
	for _, pod := range p.listPods() {
		if p.cache.SawThisSession(pod) {
			continue
		}
		isTerminating := p.isTerminatingOn(pod, pod.Spec.NodeName)
		if !isTerminating && !workload.IsAssigned(pod) {
			p.events.reportPodWithoutPodGroup(pod)
			continue
		}

		state := p.cache.ObservePod(pod)
		// Actions evict only pods of jobs.
		state.Request.IsUnreclaimable = p.IsTree()
		// Volcano tried this node in an earlier session and gave it up.
		if state.AssumedNodeInvalid {
			p.cache.ReleasePod(state)
			continue
		}

		// A pod without PodGroup stays with the queue that was charged last. Its own annotations come
		// after that.
		var last string
		if state.Charge != nil {
			last = state.Charge.Queue
		}

		as := cache.ChargedAsUsed
		if isTerminating {
			as = cache.ChargedAsTerminating
		}
		p.cache.ChargePod(pod, state, p.cache.Resolver.Queue(pod, nil, last), pod.Spec.NodeName, as)
	}
}

func (p *snapshot) listPods() []*corev1.Pod {
	if p.ssn.InformerFactory() == nil {
		return nil
	}
	pods, _ := p.ssn.InformerFactory().Core().V1().Pods().Lister().List(labels.Everything()) // the lister cannot fail
	return pods
}

// RequestFor returns what a task requests. The caller must not change it.
func (p *Session) RequestFor(task *api.TaskInfo) *workload.Request {
	if state, isKnown := p.cache.StateOf(task.Pod); isKnown {
		return &state.Request
	}
	state := p.cache.NewPodState(task.Pod)
	if p.IsTree() {
		rule := p.unreclaimableRuleFor(p.ssn.Jobs[task.Job])
		state.Request.IsUnreclaimable = p.isUnreclaimable(&rule, state)
	}
	return &state.Request
}

// isTerminatingOn reports whether a pod is deleted and uses its cards until it ends. A pod on
// a node that is gone or not ready uses none that others could use.
func (p *snapshot) isTerminatingOn(pod *corev1.Pod, node string) bool {
	if node == "" || !workload.IsTerminating(pod) {
		return false
	}
	known := p.cache.Nodes.Node(node)
	return known != nil && workload.NodeReady(known)
}

// exceedsEvictionHeadroom reports whether victims use more of a card than may terminate in a
// queue. Then neither the preemptor nor any other pod of the queue could be placed until they
// end.
func (p *preemption) exceedsEvictionHeadroom(queue api.QueueID, name card.Name, victims []*api.TaskInfo) bool {
	return p.releasedBy(queue, victims...).Cards[name] > p.ledger.EvictionHeadroom(string(queue), name)
}

// releasedBy returns the charges of pods in a queue.
func (p *Session) releasedBy(queue api.QueueID, tasks ...*api.TaskInfo) (released quota.Released) {
	for _, task := range tasks {
		if charge := p.chargeInQueue(queue, task); charge != nil {
			released.Add(charge)
		}
	}
	return released
}

// missingFromSession names one node or placed pod that the listers know and the session does
// not.
func (p *snapshot) missingFromSession() string {
	for name, node := range p.listNodes() {
		if _, ok := p.ssn.Nodes[name]; !ok && isInVolcanoCache(node) {
			return fmt.Sprintf("node %s is not in the session", name)
		}
	}

	placed := map[string]bool{}
	for _, node := range p.ssn.Nodes {
		for _, task := range node.Tasks {
			placed[string(task.UID)] = true
		}
	}

	for _, pod := range p.listPods() {
		if node := p.cache.Nodes.Node(pod.Spec.NodeName); node == nil || (p.ssn.Nodes[pod.Spec.NodeName] == nil && !isInVolcanoCache(node)) {
			continue // its node is gone or belongs to another scheduler, so no session will have it
		}
		if workload.IsAssigned(pod) && !placed[string(pod.UID)] {
			return fmt.Sprintf("pod %s/%s on node %s is not in the session", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}

	return ""
}

// isInVolcanoCache reports whether Volcano's cache accepts a node. --node-selector limits it to
// nodes with one of the labels. Of several schedulers each computes its own part, so no node
// can be expected (pkg/scheduler/cache, nodeCanAddCache).
func isInVolcanoCache(node *corev1.Node) bool {
	if os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" {
		return false
	}

	selected := true
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
		selected = false
	}

	return selected
}
