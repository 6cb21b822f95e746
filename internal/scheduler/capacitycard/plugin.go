// Package capacitycard is the Volcano scheduler plugin capacity-card. It keeps every queue within
// its quota per card model.
//
// The package connects Volcano's hooks to pure packages. Package workload derives requests and
// charges from objects, package quota checks whether they fit. Volcano creates a plugin for
// every session. State that outlives a session is kept in a Cache.
package capacitycard

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/enqueue"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/scheduler/waitingjobs"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// Builder returns the plugin builder of a scheduler with this cache.
func Builder(cache *Cache) framework.PluginBuilder {
	return func(arguments framework.Arguments) framework.Plugin { return buildPlugin(cache, arguments) }
}

// buildPlugin returns a plugin with the arguments of the configuration.
func buildPlugin(cache *Cache, arguments framework.Arguments) *Plugin {
	args, err := snapshot.ParseArguments(arguments)
	if err != nil {
		// The configuration loader refuses such arguments. If they arrive all the same, the
		// plugin gives no cards away.
		klog.ErrorS(err, "Arguments of capacity-card are invalid, the scheduler places no pods")
	}
	return newPlugin(cache, &snapshot.Session{Args: args, ArgumentsErr: err, Cache: cache.Cache})
}

// Plugin is the plugin in one session: what the session sees, and the parts that decide by it. Each part
// knows only parts above it here. Hooks that Volcano calls in parallel (predicate) only read.
type Plugin struct {
	*snapshot.Session
	cache     *Cache
	Drains    *reclaimrules.Drains
	Events    *Events
	Prices    *victims.Prices
	Rules     *reclaimrules.Rules
	Evictions *snapshot.Evictions

	// What is kept for pods that wait.
	stuck   *snapshot.StuckPods
	Kept    *keptcards.Kept
	waiting *waitingjobs.Jobs

	// Evictions inside of a queue, and by Volcano's action reclaim.
	victims    *victims.Selection
	preemption *preemption.Preemption
	podReclaim *podReclaim

	// The steps of a pod: enqueue, reservation, allocation, node.
	sums       *enqueue.Sums
	enqueue    *enqueue.Votes
	reserver   *enqueue.Reserver
	allocation *allocation
	nodes      *nodeChoice
	shortages  *shortages

	builder *snapshotBuilder
}

// newPlugin connects the parts of the plugin. They share s, which OnSessionOpen fills, and keep in the cache
// what later sessions need.
func newPlugin(cache *Cache, s *snapshot.Session) *Plugin {
	p := &Plugin{Session: s, cache: cache}
	p.Drains = &reclaimrules.Drains{Session: s}
	p.Events = &Events{Session: s, messages: cache.messages, reports: cache.reports, countRefusal: cache.metrics.countRefusal}
	p.Prices = victims.NewPrices(s)
	p.Rules = reclaimrules.New(s, cache.borrowStops)
	p.Evictions = &snapshot.Evictions{Session: s}

	p.stuck = &snapshot.StuckPods{Session: s}
	p.Kept = keptcards.New(s, p.stuck, cache.kept)
	p.waiting = waitingjobs.New(s, p.Rules, p.stuck, p.Kept)

	p.victims = victims.NewSelection(s, p.Kept)
	p.preemption = preemption.New(s, p.Prices, p.stuck, p.Kept, p.victims)
	p.podReclaim = &podReclaim{Session: s, prices: p.Prices, rules: p.Rules, stuck: p.stuck, kept: p.Kept, victims: p.victims}

	p.sums = enqueue.NewSums(s)
	p.enqueue = enqueue.New(s, p.Evictions, p.preemption, p.sums, cache.podGroups)
	p.reserver = enqueue.NewReserver(s, p.sums, p.enqueue)
	p.allocation = &allocation{
		Session: s, prices: p.Prices, events: p.Events, stuck: p.stuck, kept: p.Kept, waiting: p.waiting,
		victims: p.victims, preemption: p.preemption, enqueue: p.enqueue, reserver: p.reserver,
	}
	p.nodes = &nodeChoice{
		Session: s, fitErrors: &cache.fitErrors, events: p.Events, stuck: p.stuck, kept: p.Kept,
		victims: p.victims, preemption: p.preemption, podReclaim: p.podReclaim, allocation: p.allocation,
	}
	p.shortages = &shortages{Session: s, events: p.Events}
	p.builder = &snapshotBuilder{
		Session: s, events: p.Events, evictions: p.Evictions,
		sums: p.sums, reserver: p.reserver, allocation: p.allocation,
	}

	return p
}

var (
	_ framework.Plugin             = &Plugin{}
	_ framework.BindContextHandler = &Plugin{}
)

// Name returns the name of the plugin in volcano-scheduler.conf.
func (p *Plugin) Name() string { return schedulerconfig.CapacityCard }

// OnSessionOpen builds the snapshot and registers the hooks.
func (p *Plugin) OnSessionOpen(ssn *framework.Session) {
	defer p.cache.metrics.startTimer("open")()
	p.Volcano = ssn
	p.nodes.percentageOfNodes = options.ServerOpts.PercentageOfNodesToFind // prePredicate changes the option for single pods
	p.TriedTasks = map[api.TaskID]bool{}
	p.Events.ownFitErrors = map[api.TaskID]*api.FitErrors{}
	p.Events.reports.last = p.cache.Now()

	// All that follows reads the ledger, which this updates.
	p.builder.buildSnapshot()
	p.Rules.StopBorrowing() // of queues that lost borrowed cards a short time ago
	p.AwaitsSync = p.cache.Sync.IsAwaited(p.builder.missingFromSession, p.cache.Now())
	p.cache.openPlugin = p
	p.Kept.Load()
	p.stuck.Find() // pods that terminate long past their grace period

	// Allocation.
	ssn.AddJobValidFn(schedulerconfig.CapacityCard, jobValid)
	ssn.AddJobEnqueueableFn(schedulerconfig.CapacityCard, p.jobEnqueueable)
	ssn.AddJobEnqueuedFn(schedulerconfig.CapacityCard, func(obj any) { p.enqueue.RecordEnqueued(obj.(*api.JobInfo)) })
	ssn.AddOverusedFn(schedulerconfig.CapacityCard, p.allocation.overused)
	ssn.AddAllocatableFn(schedulerconfig.CapacityCard, p.allocation.allocatable)
	ssn.AddPrePredicateFn(schedulerconfig.CapacityCard, p.nodes.prePredicate)
	ssn.AddPredicateFn(schedulerconfig.CapacityCard, p.nodes.predicate)

	// Eviction, inside a queue (preempt) and between queues (reclaim).
	ssn.AddPreemptableFn(schedulerconfig.CapacityCard, p.preemption.Preemptable)
	ssn.AddJobStarvingFns(schedulerconfig.CapacityCard, p.preemption.JobStarving)
	ssn.AddSimulateAddTaskFn(schedulerconfig.CapacityCard, p.allocation.simulationHook((*quota.Released).Remove))
	ssn.AddSimulateRemoveTaskFn(schedulerconfig.CapacityCard, p.allocation.simulationHook((*quota.Released).Add))
	ssn.AddSimulateAllocatableFn(schedulerconfig.CapacityCard, p.allocation.simulateAllocatable)
	ssn.AddSimulatePredicateFn(schedulerconfig.CapacityCard, p.allocation.simulatePredicate)
	ssn.AddPreemptiveFn(schedulerconfig.CapacityCard, p.podReclaim.preemptive)
	ssn.AddReclaimableFn(schedulerconfig.CapacityCard, p.podReclaim.reclaimable)

	// Order of queues, jobs and nodes.
	ssn.AddQueueOrderFn(schedulerconfig.CapacityCard, p.allocation.queueOrder)
	ssn.AddJobOrderFn(schedulerconfig.CapacityCard, p.allocation.jobOrder)
	ssn.AddNodeOrderFn(schedulerconfig.CapacityCard, p.nodes.nodeOrder)
	ssn.AddBestNodeFn(schedulerconfig.CapacityCard, p.nodes.bestNode)

	ssn.AddEventHandler(&framework.EventHandler{
		AllocateFunc:   p.allocation.onAllocate,
		DeallocateFunc: p.allocation.onDeallocate,
	})

	if p.AwaitsSync {
		// Nothing may be decided. Without jobs Volcano does not write a refusal to each of
		// thousands of pending pods, which would delay the first real decision.
		clear(ssn.Jobs)
		clear(ssn.Queues)
	}

	// QueueRules has all queues, also while the session lacks them.
	p.cache.metrics.publishSnapshot(p.newMetricsSnapshot(), func(queue string) bool { _, exists := p.QueueRules[api.QueueID(queue)]; return exists })
}

// newMetricsSnapshot copies what the metrics show. It must run when the session opens: later in the session a
// placed pod is in the ledger and still in the reservations. Cards that are charged to a queue that does not
// exist are unowned.
func (p *Plugin) newMetricsSnapshot() *metricsSnapshot {
	usages := p.Ledger.Snapshot()
	pending := p.pendingCards()
	found := &metricsSnapshot{
		at: p.cache.Now(), ready: !p.AwaitsSync && p.ArgumentsErr == nil, inventory: p.Inventory,
		queues: make([]queueMetrics, 0, len(usages)), unowned: map[card.Name]card.Count{},
	}

	for _, usage := range usages {
		found.pods += usage.Pods
		queue := queueMetrics{usage: usage}
		if _, exists := p.QueueRules[queue.queueID()]; !exists {
			for _, amount := range usage.Used {
				found.unowned[amount.Name] = found.unowned[amount.Name].Add(amount.Count)
			}
			continue
		}

		queue.inqueue = slices.Clone(p.sums.Of(usage.Queue).Cards)
		queue.pending = pending[queue.queueID()]
		found.queues = append(found.queues, queue)
	}

	return found
}

// pendingCards sums the requests of pending pods by queue, for the metric of requested cards: without gated pods
// and refused requests. A queue of a tree has those of its subtree. Requests that name the same cards are one.
func (p *Plugin) pendingCards() map[api.QueueID][]quota.CardRequest {
	type requestKey struct {
		queue   api.QueueID
		request string // "" for any card of the resource
		of      corev1.ResourceName
	}

	sums := map[requestKey]quota.CardRequest{}
	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			state, isKnown := p.cache.StateOf(task.Pod) // buildSnapshot saw every pod of a job
			// A refused request has no names, and neither has one for a resource of which no node has cards.
			if task.SchGated || !isKnown || state.Request.Count == 0 || len(state.Request.Names) == 0 {
				continue
			}

			key := requestKey{job.Queue, state.Request.Named.String(), state.Request.Resource}
			sums[key] = quota.CardRequest{Names: state.Request.Names, Count: sums[key].Count.Add(state.Request.Count)}
			for _, ancestor := range p.cache.Tree.Ancestors(string(job.Queue)) {
				key.queue = api.QueueID(ancestor)
				sums[key] = quota.CardRequest{Names: state.Request.Names, Count: sums[key].Count.Add(state.Request.Count)}
			}
		}
	}

	all := map[api.QueueID][]quota.CardRequest{}
	for key, request := range sums {
		all[key.queue] = append(all[key.queue], request)
	}

	return all
}

// OnSessionClose completes what the session reports, stores what later sessions need, and drops the rest.
func (p *Plugin) OnSessionClose(*framework.Session) {
	defer p.cache.metrics.startTimer("close")()
	p.shortages.statePodShortages()
	p.cache.openPlugin = nil

	// prePredicate sets this option of the process for single pods. The next session must find the user's
	// value.
	options.ServerOpts.PercentageOfNodesToFind = p.nodes.percentageOfNodes

	p.cache.messages.removeStale()
	p.reserver.RecordProgress()
	p.cache.Reservations.RemoveStale()
	p.cache.podGroups.RemoveStale(p.cache.SessionCount)
	p.Kept.SaveNominations()
	p.cache.CloseOtherBindings()
	p.Events.reportSession()

	// The plugin may be referred to for longer, and what it knows is large.
	*p = Plugin{}
}

// jobEnqueueable votes whether Volcano may enqueue a job, and states on its PodGroup why not.
func (p *Plugin) jobEnqueueable(obj any) int {
	p.Events.reportLongSession()
	job := obj.(*api.JobInfo)
	if refusal := p.enqueue.RefusalOf(job); refusal != nil {
		p.Events.recordJobUnschedulable(job, refusal)
		return util.Reject
	}
	return util.Permit
}

// Allocate runs Volcano's action allocate, which execute is. In a tree it takes the queues in their order,
// and no pod borrows before the pods that need not borrow.
func (p *Plugin) Allocate(execute func()) { p.allocation.allocate(execute) }

// Preempt runs Volcano's action preempt, which execute is, and returns the pods it evicts, by job. A gang
// loses only elastic pods, or all pods. The caller carries out the evictions.
func (p *Plugin) Preempt(hooks preemption.Hooks, execute func()) [][]*api.TaskInfo {
	return p.preemption.Preempt(hooks, execute)
}

// SetupBindContextExtension adds the charged queue to the annotations of the binding. The API
// server merges them into the pod in the write that assigns the node. A PodGroup is no reliable
// source later, since its owner may move or recreate it.
//
// Task and pod are copies: the pod belongs to the informer, and the session still uses the
// task.
func (p *Plugin) SetupBindContextExtension(_ *k8sframework.CycleState, binding *vcache.BindContext) {
	charge := p.Ledger.Charged(string(binding.TaskInfo.UID))
	if charge == nil { // its job was not in the session
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

// jobValid delays a restarted gang while succeeded pods of its last run are still being
// deleted. Volcano counts these as ready (ReadyTaskNum), so it would bind the first new pods
// without the rest of the gang.
func jobValid(obj any) *api.ValidateResult {
	job := obj.(*api.JobInfo)
	terminating := int32(0)
	for _, task := range job.TaskStatusIndex[api.Succeeded] {
		if task.Pod.DeletionTimestamp != nil {
			terminating++
		}
	}

	// Nothing is left of the last run, no gang is at stake, or enough other pods are ready.
	if terminating == 0 || job.MinAvailable <= 1 || job.ReadyTaskNum()-terminating >= job.MinAvailable {
		return nil
	}

	return &api.ValidateResult{
		Reason:  v1beta1.NotEnoughPodsReason,
		Message: fmt.Sprintf("%d pods of the last run are still being deleted", terminating),
	}
}
