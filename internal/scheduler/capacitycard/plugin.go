// Package capacitycard is the Volcano scheduler plugin capacity-card. It holds every queue to
// its quota per card model.
//
// The package connects Volcano's hooks to pure packages. Package workload derives requests and
// charges from objects, package quota checks whether they fit. Volcano creates a plugin for
// every session. State that outlives a session is kept in a Cache.
package capacitycard

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// Builder returns the plugin builder of a scheduler with this cache.
func Builder(cache *Cache) framework.PluginBuilder {
	return func(arguments framework.Arguments) framework.Plugin { return buildPlugin(cache, arguments) }
}

func buildPlugin(cache *Cache, arguments framework.Arguments) *Plugin {
	args, err := parseArguments(arguments)
	if err != nil {
		// The configuration loader refuses such arguments. If they arrive all the same, the
		// plugin gives no cards away.
		klog.ErrorS(err, "Arguments of capacity-card are invalid, the scheduler places no pods")
	}
	return &Plugin{args: args, argumentsErr: err, cache: cache}
}

// Plugin is the plugin in one session, with its state. Actions ask it too. Hooks that Volcano calls in parallel (predicate) only
// read it.
type Plugin struct {
	args         arguments
	argumentsErr error
	cache        *Cache

	ssn        *framework.Session
	inventory  *card.Inventory
	ledger     *quota.Ledger
	queueRules map[api.QueueID]*workload.QueueRules
	inqueue    map[api.QueueID]*quota.Reservations
	// namespaceLister is nil if no queue has a namespace selector.
	namespaceLister corev1listers.NamespaceLister
	// namespaceRefusals says for each namespace why a queue does not allow it.
	namespaceRefusals map[queueNamespace]*workload.Refusal
	namespaceLock     sync.Mutex
	// unreserved are the jobs with requests beyond their reservation, while the session opens.
	unreserved []unreservedJob
	// refusedRequests are those that the quota refused in enqueue.
	refusedRequests map[refusedRequest]*workload.Refusal
	// preemption is what the action preempt evicts, nil unless it runs.
	preemption *preemption
	// prices are what evictions cost jobs.
	prices jobPrices
	// deservedFirst is the state of the action allocate in a tree, nil unless it runs in parts.
	deservedFirst *deservedFirst
	// step is the state of the action allocate in a tree, nil unless a step of it runs.
	step *allocationStep
	// awaited are the free cards that are kept for waiting jobs, nil for none.
	awaited *awaitedCards
	// jobsAhead are jobs below their minimum that the running part of allocate has not tried, nil for none.
	jobsAhead *jobsAhead
	// belowMinimum are the jobs that run below their minimum, exhausted those whose reservation ended for
	// good.
	belowMinimum, exhausted map[api.JobID]bool
	// preemptors are the pods that the action preempt pipelined.
	preemptors map[types.UID]bool
	// attempt is the pod and node that preempt tries now, nil if none.
	attempt atomic.Pointer[preemptionAttempt]
	// reclaimerCandidate is the pod that preemptive allowed last.
	reclaimerCandidate api.TaskID
	// ignoringQuota is the pod that the predicate checks without quota now.
	ignoringQuota quotaIgnorer
	// search is the node search that Volcano started last.
	search atomic.Pointer[nodeSearch]
	// triedTasks are the pods that the session tried on nodes, and ownFitErrors what this plugin states
	// about a pod.
	triedTasks   map[api.TaskID]bool
	ownFitErrors map[api.TaskID]*api.FitErrors
	// evictingTasks are the pods whose eviction was requested and that still exist.
	evictingTasks []*api.TaskInfo
	// reclaimedCards are the pods for which cards were reclaimed on a node, by node.
	reclaimedCards map[string][]keptCardsOwner
	// elasticUsages are what running jobs use above their minimum. preemptableUsages and
	// placedJobs are filled when a vote needs them.
	elasticUsages     map[api.JobID]quota.ElasticUsage
	preemptableUsages map[queuePriority]*preemptableUsage
	placedJobs        map[api.QueueID][]*api.JobInfo
	// preemptedCards are kept for the pods for which preempt freed them.
	preemptedCards preemptedCards
	// keptCharges are what the pods of reclaimedCards hold of the quotas of a tree.
	keptCharges map[api.TaskID]*quota.Charge
	// stuckPods are terminating pods long past their grace period, by node.
	stuckPods map[string][]*api.TaskInfo
	// percentageOfNodes is --percentage-nodes-to-find: the sample for a pod without
	// alternatives. 0 lets Volcano choose.
	percentageOfNodes int32
	// notReadyReason says what is missing before the scheduler may decide, "" if nothing is.
	notReadyReason string
}

var (
	_ framework.Plugin             = &Plugin{}
	_ framework.BindContextHandler = &Plugin{}
)

// Name returns PluginName.
func (p *Plugin) Name() string { return PluginName }

// OnSessionOpen builds the snapshot and registers the hooks.
func (p *Plugin) OnSessionOpen(ssn *framework.Session) {
	defer p.cache.metrics.startTimer("open")()
	p.ssn = ssn
	p.percentageOfNodes = options.ServerOpts.PercentageOfNodesToFind
	p.triedTasks = map[api.TaskID]bool{}
	p.ownFitErrors = map[api.TaskID]*api.FitErrors{}
	p.elasticUsages = map[api.JobID]quota.ElasticUsage{}
	p.cache.lastReport = p.cache.now()

	p.buildSnapshot()
	p.stopBorrowing()
	p.notReadyReason = p.cache.cacheSync.notReadyReason(p.missingFromSession, p.cache.now())
	p.cache.openPlugin = p
	p.loadReclaimedCards()
	p.findStuckPods()

	// Allocation.
	ssn.AddJobValidFn(PluginName, jobValid)
	ssn.AddJobEnqueueableFn(PluginName, p.jobEnqueueable)
	ssn.AddJobEnqueuedFn(PluginName, p.jobEnqueued)
	ssn.AddOverusedFn(PluginName, p.overused)
	ssn.AddAllocatableFn(PluginName, p.allocatable)
	ssn.AddPrePredicateFn(PluginName, p.prePredicate)
	ssn.AddPredicateFn(PluginName, p.predicate)

	// Eviction, inside a queue (preempt) and between queues (reclaim).
	ssn.AddPreemptableFn(PluginName, p.preemptable)
	ssn.AddJobStarvingFns(PluginName, p.jobStarving)
	ssn.AddSimulateAddTaskFn(PluginName, p.simulationHook((*quota.Released).Remove))
	ssn.AddSimulateRemoveTaskFn(PluginName, p.simulationHook((*quota.Released).Add))
	ssn.AddSimulateAllocatableFn(PluginName, p.simulateAllocatable)
	ssn.AddSimulatePredicateFn(PluginName, p.simulatePredicate)
	ssn.AddPreemptiveFn(PluginName, p.preemptive)
	ssn.AddReclaimableFn(PluginName, p.reclaimable)
	ssn.AddQueueOrderFn(PluginName, p.queueOrder)
	ssn.AddJobOrderFn(PluginName, p.jobOrder)
	ssn.AddNodeOrderFn(PluginName, p.nodeOrder)

	ssn.AddBestNodeFn(PluginName, p.bestNode)
	ssn.AddEventHandler(&framework.EventHandler{
		AllocateFunc:   p.onAllocate,
		DeallocateFunc: p.onDeallocate,
	})

	if p.notReadyReason != "" {
		// Nothing may be decided. Without jobs Volcano does not write a refusal to each of
		// thousands of pending pods, which would delay the first real decision.
		clear(ssn.Jobs)
		clear(ssn.Queues)
	}

	p.cache.metrics.publishSnapshot(p.newMetricsSnapshot(), func(queue string) bool { _, exists := p.queueRules[api.QueueID(queue)]; return exists })
}

// OnSessionClose stores what later sessions need and drops the rest.
func (p *Plugin) OnSessionClose(*framework.Session) {
	defer p.cache.metrics.startTimer("close")()
	p.statePodShortages()
	p.cache.openPlugin = nil
	options.ServerOpts.PercentageOfNodesToFind = p.percentageOfNodes

	p.cache.messages.removeStale()
	p.recordProgress()
	p.cache.reservations.removeStale()
	p.cache.removeStalePodGroupRequests()
	p.saveNominations()
	p.cache.closeOtherBindings()
	p.reportSession()

	p.ssn = nil
	p.inventory = nil
	p.ledger = nil
	p.queueRules = nil
	p.inqueue = nil
	p.evictingTasks = nil
	p.namespaceLister = nil
	p.namespaceRefusals = nil
	p.reclaimedCards = nil
	p.stuckPods = nil
	p.triedTasks = nil
	p.ownFitErrors = nil
	p.preemptedCards = preemptedCards{}
	p.elasticUsages = nil
	p.preemptableUsages = nil
	p.placedJobs = nil
	p.awaited = nil
	p.belowMinimum = nil
	p.exhausted = nil
}

// SetupBindContextExtension adds the charged queue to the annotations of the binding. The API
// server merges them into the pod in the write that assigns the node. A PodGroup is no reliable
// source later, since its owner may move or recreate it.
//
// Task and pod are copies: the pod belongs to the informer, and the session still uses the
// task.
func (p *Plugin) SetupBindContextExtension(_ *k8sframework.CycleState, binding *cache.BindContext) {
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

// SessionReport is what a session proves when it closes, or while it runs. A session that waits
// for the cache to sync enforces quotas, too.
type SessionReport struct {
	// ConfigHash is the hash of the session's configuration, "" if its arguments are invalid.
	ConfigHash string
	// Problem is why the arguments are invalid, "" if they are valid.
	Problem string
	// BoundByOthers are pods of this scheduler that another scheduler bound, as namespace/name,
	// sorted, at most five.
	BoundByOthers []string
	// At is when the session closed, or decided last.
	At time.Time
}

// SetSessionObserver registers observe, which is called when a session closes, and every few
// seconds during a long one. It must not block, because it delays the next session. nil removes
// it.
func (c *Cache) SetSessionObserver(observe func(SessionReport)) { c.sessionObserver = observe }

// reportInterval is how often a long session reports.
var reportInterval = enforcement.StaleAfter / 4

// reportLongSession reports a session that runs long, so that the heartbeat does not expire
// while it places many pods. Decisions call it, not a timer, so a session that hangs stays
// visible.
func (p *Plugin) reportLongSession() {
	if now := p.cache.now(); now.Sub(p.cache.lastReport) >= reportInterval {
		p.cache.lastReport = now
		p.reportSession()
	}
}

// reportSession reports the session to the observer.
func (p *Plugin) reportSession() {
	if p.cache.sessionObserver == nil {
		return
	}
	report := SessionReport{ConfigHash: p.args.configHash, BoundByOthers: p.cache.otherBindings.boundByOthersNames(), At: p.cache.now()}
	if p.argumentsErr != nil {
		report.ConfigHash = ""
		report.Problem = p.argumentsErr.Error()
	}
	p.cache.sessionObserver(report)
}
