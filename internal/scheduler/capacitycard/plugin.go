// Package capacitycard is the Volcano scheduler plugin capacity-card: it holds
// every queue to its quota per card model.
//
// The package only translates: what a pod asks for and what it is charged is
// decided by package decision, whether it fits by package account. Volcano
// makes a new plugin for every scheduling session; what must outlive a session
// is kept in a Cache.
package capacitycard

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// PluginName is the name of the plugin in volcano-scheduler.conf.
const PluginName = "capacity-card"

// Builder returns what makes the plugin for each session, with what is kept in a cache.
func Builder(cache *Cache) framework.PluginBuilder {
	return func(arguments framework.Arguments) framework.Plugin { return buildPlugin(cache, arguments) }
}

func buildPlugin(cache *Cache, arguments framework.Arguments) *plugin {
	args, err := parseArguments(arguments)
	if err != nil {
		// The configuration gate lets no such text through. Should one arrive
		// all the same, no card is given away by guessing what was meant.
		klog.ErrorS(err, "Arguments of capacity-card are invalid, no pod is admitted")
	}
	return &plugin{args: args, argumentsErr: err, cache: cache}
}

// plugin is the state of one session. Hooks that Volcano calls in parallel
// (predicate) only read it.
type plugin struct {
	args         arguments
	argumentsErr error
	cache        *Cache

	ssn        *framework.Session
	inventory  *card.Inventory
	ledger     *quota.Ledger
	queueRules map[api.QueueID]*workload.QueueRules
	inqueue    map[api.QueueID]*quota.InqueueDemand
	// namespaces finds those of queues that choose theirs; nil when none does.
	namespaceLister corev1listers.NamespaceLister
	// tenants are the namespaces that have jobs in queues that choose theirs, and why
	// these do not take them.
	namespaceRefusals map[queueNamespace]*workload.Refusal
	namespaceLock     sync.Mutex
	// unasked are the jobs that wait for something that they were not admitted with,
	// while the session opens.
	unreserved []unreservedJob
	// preemption is what the action preempt evicts, nil while it does not run.
	preemption *preemption
	// attempt is what preempt tries now, nil when nothing.
	attempt atomic.Pointer[preemptionAttempt]
	// reclaims is the pod that was last found to be allowed to take cards from other queues.
	reclaimerCandidate api.TaskID
	// withoutQuota is the pod of which it is asked now where it could run if its queue had
	// quota.
	ignoringQuota atomic.Pointer[api.TaskID]
	// search is the search for a node that Volcano began last.
	search atomic.Pointer[nodeSearch]
	// leavers are the pods that were told to go and are still there.
	evictingTasks []*api.TaskInfo
	// held are the pods for which room is held, by node.
	reclaimedRoom map[string][]roomOwner
	// hanging are the pods that should be gone and are not, by node.
	stuckPods map[string][]*api.TaskInfo
	// percentage is that of the nodes that Volcano looks at for a pod without
	// alternatives: --percentage-nodes-to-find, where 0 depends on how many there are.
	percentageOfNodes int32
	// notReady says what is missing before anything may be decided, "" when
	// nothing is.
	notReadyReason string
}

var (
	_ framework.Plugin             = &plugin{}
	_ framework.BindContextHandler = &plugin{}
)

// Name returns PluginName.
func (p *plugin) Name() string { return PluginName }

// OnSessionOpen takes stock and registers the hooks.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	defer p.cache.metrics.startTimer("open")()
	p.ssn, p.percentageOfNodes = ssn, options.ServerOpts.PercentageOfNodesToFind
	p.cache.lastReport = p.cache.now()
	p.buildSnapshot()
	p.notReadyReason = p.cache.cacheSync.notReadyReason(p.missingFromSession, p.cache.now())
	p.cache.openPlugin = p
	p.loadReclaimedRoom()
	p.findStuckPods()

	// Who gets cards.
	ssn.AddJobValidFn(PluginName, jobValid)
	ssn.AddJobEnqueueableFn(PluginName, p.jobEnqueueable)
	ssn.AddJobEnqueuedFn(PluginName, p.jobEnqueued)
	ssn.AddAllocatableFn(PluginName, p.allocatable)
	ssn.AddPrePredicateFn(PluginName, p.prePredicate)
	ssn.AddPredicateFn(PluginName, p.predicate)
	// Who gives cards back, inside a queue (preempt) and between queues (reclaim).
	ssn.AddPreemptableFn(PluginName, p.preemptable)
	ssn.AddSimulateAddTaskFn(PluginName, p.simulationHook((*quota.Released).Remove))
	ssn.AddSimulateRemoveTaskFn(PluginName, p.simulationHook((*quota.Released).Add))
	ssn.AddSimulateAllocatableFn(PluginName, p.simulateAllocatable)
	ssn.AddSimulatePredicateFn(PluginName, p.simulatePredicate)
	ssn.AddPreemptiveFn(PluginName, p.preemptive)
	ssn.AddReclaimableFn(PluginName, p.reclaimable)
	ssn.AddQueueOrderFn(PluginName, p.queueOrder)
	ssn.AddNodeOrderFn(PluginName, p.nodeOrder)
	ssn.AddBestNodeFn(PluginName, p.bestNode)
	ssn.AddEventHandler(&framework.EventHandler{
		AllocateFunc:   p.onAllocate,
		DeallocateFunc: p.onDeallocate,
	})
	if p.notReadyReason != "" {
		// Nothing may be decided, so nothing is tried either: Volcano would
		// write the refusal to every waiting pod when it closes the session,
		// thousands of writes that hold up the first real one.
		clear(ssn.Jobs)
		clear(ssn.Queues)
	}
	p.cache.metrics.publishSnapshot(p.newMetricsSnapshot(), func(queue string) bool { _, exists := p.queueRules[api.QueueID(queue)]; return exists })
}

// OnSessionClose lets go of the session.
func (p *plugin) OnSessionClose(*framework.Session) {
	defer p.cache.metrics.startTimer("close")()
	p.cache.openPlugin = nil
	options.ServerOpts.PercentageOfNodesToFind = p.percentageOfNodes
	p.cache.messages.removeStale()
	p.recordProgress()
	p.cache.reservations.removeStale()
	p.cache.removeStalePodGroupRequests()
	p.saveNominations()
	p.cache.closeForeignBindings()
	p.reportSession()
	p.ssn, p.inventory, p.ledger, p.queueRules, p.inqueue, p.evictingTasks, p.namespaceLister, p.namespaceRefusals, p.reclaimedRoom, p.stuckPods = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
}

// SetupBindContextExtension puts into the annotations that a binding carries
// which queue the pod is charged to: the API server merges them into the pod in
// the same write that gives it its node. A PodGroup is its owner's to move,
// delete and make again, and says nothing reliable of cards that were handed out.
//
// Task and pod are copied: the pod is the informer's, which everybody reads, and
// the session goes on with the task while it is bound.
func (p *plugin) SetupBindContextExtension(_ *k8sframework.CycleState, binding *cache.BindContext) {
	charge := p.ledger.Charged(string(binding.TaskInfo.UID))
	if charge == nil {
		return
	}
	task := binding.TaskInfo.Clone()
	pod := *task.Pod
	pod.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[v1alpha1.AnnotationChargedQueue] = charge.Queue
	task.Pod = &pod
	binding.TaskInfo = task
}

// SessionReport is what a session proves, when it closes or while it goes on. A
// session that withholds everything, because not all was seen yet, enforces as well.
type SessionReport struct {
	// ConfigHash is the hash of the configuration that the session ran with, ""
	// when it could not read its arguments and so admitted nobody.
	ConfigHash string
	// Problem is why the arguments could not be read, "" when they were.
	Problem string
	// SecondScheduler names pods of this scheduler that somebody else bound, as
	// namespace/name, sorted, at most five.
	BoundByOthers []string
	// At is when the session was closed, or decided last.
	At time.Time
}

// SetSessionObserver has beat called whenever a session closes, and every few seconds in
// one that takes long. It must not block:
// the next session begins when it returns. nil ends that.
func (c *Cache) SetSessionObserver(observe func(SessionReport)) { c.sessionObserver = observe }

// reportInterval is how often a session that takes long reports before it closes.
var reportInterval = enforcement.StaleAfter / 4

// reportLongSession reports a session that takes long, so that the proof of enforcement
// does not run out while many pods are placed. It is called where the session
// decides about a pod or a job, never by a timer: a session that hangs shows.
func (p *plugin) reportLongSession() {
	if now := p.cache.now(); now.Sub(p.cache.lastReport) >= reportInterval {
		p.cache.lastReport = now
		p.reportSession()
	}
}

// reportSession reports what the session runs with, when it closes and while it goes on.
func (p *plugin) reportSession() {
	if p.cache.sessionObserver == nil {
		return
	}
	report := SessionReport{ConfigHash: p.args.configHash, BoundByOthers: p.cache.foreignBindings.foreignPodNames(), At: p.cache.now()}
	if p.argumentsErr != nil {
		report.ConfigHash, report.Problem = "", p.argumentsErr.Error()
	}
	p.cache.sessionObserver(report)
}
