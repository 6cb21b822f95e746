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

// opening fills a Session when it opens, and updates the ledger.
type opening struct {
	*snapshot.Session
	events     *Events
	evictions  *snapshot.Evictions
	sums       *enqueue.Sums
	reserver   *enqueue.Reserver
	allocation *allocation
}

// buildSnapshot updates the ledger: the limits of every queue, the charges of all placed pods,
// and the reservations of enqueued jobs.
func (p *opening) buildSnapshot() {
	c := p.Cache
	c.BeginSession()
	nodes := p.listNodes()

	if p.ArgumentsErr == nil { // otherwise the last valid mappings stay
		c.Nodes.SetMappings(p.Args.Cards)
	}
	c.ReplaceNodes(nodes, p.Args.CardUnlimitedCPUMemory)

	p.Inventory = c.Inventory
	c.Resolver = workload.Resolver{Inventory: p.Inventory, Schedulers: append([]string{}, options.ServerOpts.SchedulerNames...), AllowsNamespace: p.AllowsNamespace}
	p.Ledger = c.Ledger
	p.loadQueueRules()
	p.reparentOrphanQueues()
	c.SetInventory(nodes)
	p.allocation.belowMinimum = map[api.JobID]bool{}
	p.reserver.Begin()

	var outOfSync []*api.TaskInfo
	for _, job := range p.Volcano.Jobs {
		var allocated int
		allocated, outOfSync = p.chargeJob(job, outOfSync)
		if p.isBelowMinimum(job, allocated) {
			p.allocation.belowMinimum[job.UID] = true
		}
		p.reserver.ReserveForJob(job, allocated, !p.AllowsNamespace(string(job.Queue), job.Namespace))
	}

	// This moves tasks between the indexes that the loop reads.
	p.evictions.MarkReleasing(outOfSync)
	p.chargePodsWithoutJob()
	p.reserver.ReserveUnreserved()
	c.ForgetUnseenPods()
}

// chargeJob charges the pods of a job, and releases those that use no cards any more. It returns
// how many pods are allocated, and appends the tasks that are out of sync.
func (p *opening) chargeJob(job *api.JobInfo, outOfSync []*api.TaskInfo) (int, []*api.TaskInfo) {
	c := p.Cache
	allocated := 0
	known := p.HasQueue(string(job.Queue))

	var unreclaimable snapshot.UnreclaimableRule
	if !c.Tree.IsFlat() {
		unreclaimable = p.UnreclaimableRuleFor(job)
	}

	for status, tasks := range job.TaskStatusIndex {
		placed := api.AllocatedStatus(status)
		if placed {
			allocated += len(tasks)
		}

		for _, task := range tasks {
			state := c.ObservePod(task.Pod)
			state.Request.IsUnreclaimable = !c.Tree.IsFlat() && p.IsUnreclaimable(&unreclaimable, state)
			switch {
			case placed || snapshot.IsEvictionPending(task, status):
				if c.IsOutOfSync(task, state) {
					outOfSync = append(outOfSync, task)
				}
				p.Cache.ChargePod(task.Pod, state, p.ChargedQueueFor(state, job, known, task.NodeName), task.NodeName, cache.ChargedAsUsed)
			case status == api.Releasing && p.isTerminatingOn(task.Pod, task.NodeName):
				p.Cache.ChargePod(task.Pod, state, p.ChargedQueueFor(state, job, known, task.NodeName), task.NodeName, cache.ChargedAsTerminating)
			default:
				c.ReleasePod(state)
			}
		}
	}

	return allocated, outOfSync
}

// loadQueueRules reads the limits and rules of every queue.
func (p *opening) loadQueueRules() {
	p.QueueRules = make(map[api.QueueID]*workload.QueueRules, len(p.Volcano.Queues))
	p.NamespaceRefusals = map[snapshot.QueueNamespace]*workload.Refusal{}
	isTree := p.Args.QueueHierarchy == v1alpha1.QueueHierarchyTree
	if !isTree {
		p.Cache.DropTree()
	}

	for id, queue := range p.Volcano.Queues {
		rules := p.Cache.RulesFor(queue.Queue, p.Args.UnmanagedQueues)
		p.QueueRules[id] = rules
		if factory := p.Volcano.InformerFactory(); rules.Namespaces != nil && p.NamespaceLister == nil && factory != nil {
			p.NamespaceLister = factory.Core().V1().Namespaces().Lister()
		}

		if rules.Refusal != nil && rules.Refusal.Code == workload.CodeInvalidSelector {
			p.events.recordOnQueue(queue.Queue, notice{rules.Refusal.Reason(), rules.Refusal.Message()})
		}

		// Of a tree, LoadTree sets the limits of all queues below root.
		if !isTree || id == workload.RootQueue {
			p.Ledger.SetLimits(queue.Name, rules.Limits)
		}
	}

	p.sums.Reset()
	p.Ledger.EndAllKeeping() // keptcards.Kept keeps again what is still kept
	p.Ledger.Retain(p.HasQueue)
	if isTree {
		for _, n := range p.Cache.LoadTree(p.QueueRules, p.Args.Owners) {
			p.events.recordNotice(p.Volcano.Queues[n.Queue].Queue, n.Kind, notice{n.Reason, n.Message})
		}
	}
	p.Cache.ForgetQueues(p.HasQueue)
}

// listNodes returns all nodes: those of the lister, which is complete from the start, and those
// of the session, for tests without a lister.
func (p *opening) listNodes() map[string]*corev1.Node {
	objects := make(map[string]*corev1.Node, len(p.Volcano.Nodes))
	for name, node := range p.Volcano.Nodes {
		if node.Node != nil {
			objects[name] = node.Node
		}
	}

	if p.Volcano.InformerFactory() == nil {
		return objects
	}

	listed, _ := p.Volcano.InformerFactory().Core().V1().Nodes().Lister().List(labels.Everything()) // the lister cannot fail
	for _, node := range listed {
		objects[node.Name] = node
	}

	return objects
}

// chargePodsWithoutJob charges placed pods without a job in the session. Their PodGroup or
// queue is gone, another scheduler placed them, or Volcano's cache does not have them yet.
func (p *opening) chargePodsWithoutJob() {
	for _, pod := range p.listPods() {
		if p.Cache.SawThisSession(pod) {
			continue
		}
		isTerminating := p.isTerminatingOn(pod, pod.Spec.NodeName)
		if !isTerminating && !workload.IsAssigned(pod) {
			p.events.reportPodWithoutPodGroup(pod)
			continue
		}

		state := p.Cache.ObservePod(pod)
		// Actions evict only pods of jobs.
		state.Request.IsUnreclaimable = p.IsTree()
		// Volcano tried this node in an earlier session and gave it up.
		if state.AssumedNodeInvalid {
			p.Cache.ReleasePod(state)
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
		p.Cache.ChargePod(pod, state, p.Cache.Resolver.Queue(pod, nil, last), pod.Spec.NodeName, as)
	}
}

func (p *opening) listPods() []*corev1.Pod {
	if p.Volcano.InformerFactory() == nil {
		return nil
	}
	pods, _ := p.Volcano.InformerFactory().Core().V1().Pods().Lister().List(labels.Everything()) // the lister cannot fail
	return pods
}

// isTerminatingOn reports whether a pod is deleted and uses its cards until it ends. A pod on
// a node that is gone or not ready uses none that others could use.
func (p *opening) isTerminatingOn(pod *corev1.Pod, node string) bool {
	if node == "" || !workload.IsTerminating(pod) {
		return false
	}
	known := p.Cache.Nodes.Node(node)
	return known != nil && workload.NodeReady(known)
}

// missingFromSession names one node or placed pod that the listers know and the session does
// not.
func (p *opening) missingFromSession() string {
	for name, node := range p.listNodes() {
		if _, ok := p.Volcano.Nodes[name]; !ok && isInVolcanoCache(node) {
			return fmt.Sprintf("node %s is not in the session", name)
		}
	}

	placed := map[string]bool{}
	for _, node := range p.Volcano.Nodes {
		for _, task := range node.Tasks {
			placed[string(task.UID)] = true
		}
	}

	for _, pod := range p.listPods() {
		if node := p.Cache.Nodes.Node(pod.Spec.NodeName); node == nil || (p.Volcano.Nodes[pod.Spec.NodeName] == nil && !isInVolcanoCache(node)) {
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
