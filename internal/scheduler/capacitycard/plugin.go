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
	return func(arguments framework.Arguments) framework.Plugin { return newPlugin(cache, arguments) }
}

func newPlugin(cache *Cache, arguments framework.Arguments) *plugin {
	args, err := parseArguments(arguments)
	if err != nil {
		// The configuration gate lets no such text through. Should one arrive
		// all the same, no card is given away by guessing what was meant.
		klog.ErrorS(err, "Arguments of capacity-card are invalid, no pod is admitted")
	}
	return &plugin{args: args, invalid: err, cache: cache}
}

// plugin is the state of one session. Hooks that Volcano calls in parallel
// (predicate) only read it.
type plugin struct {
	args    arguments
	invalid error
	cache   *Cache

	ssn     *framework.Session
	inv     *card.Inventory
	account *quota.Ledger
	rules   map[api.QueueID]*workload.QueueRules
	waiting map[api.QueueID]*quota.InqueueDemand
	// namespaces finds those of queues that choose theirs; nil when none does.
	namespaces corev1listers.NamespaceLister
	// tenants are the namespaces that have jobs in queues that choose theirs, and why
	// these do not take them.
	tenants     map[tenant]*workload.Refusal
	tenantsLock sync.Mutex
	// unasked are the jobs that wait for something that they were not admitted with,
	// while the session opens.
	unasked []unasked
	// preemption is what the action preempt evicts, nil while it does not run.
	preemption *preemption
	// attempt is what preempt tries now, nil when nothing.
	attempt atomic.Pointer[attempt]
	// reclaims is the pod that was last found to be allowed to take cards from other queues.
	reclaims api.TaskID
	// withoutQuota is the pod of which it is asked now where it could run if its queue had
	// quota.
	withoutQuota atomic.Pointer[api.TaskID]
	// search is the search for a node that Volcano began last.
	search atomic.Pointer[search]
	// leavers are the pods that were told to go and are still there.
	leavers []*api.TaskInfo
	// held are the pods for which room is held, by node.
	held map[string][]held
	// hanging are the pods that should be gone and are not, by node.
	hanging map[string][]*api.TaskInfo
	// percentage is that of the nodes that Volcano looks at for a pod without
	// alternatives: --percentage-nodes-to-find, where 0 depends on how many there are.
	percentage int32
	// notReady says what is missing before anything may be decided, "" when
	// nothing is.
	notReady string
}

var (
	_ framework.Plugin             = &plugin{}
	_ framework.BindContextHandler = &plugin{}
)

// Name returns PluginName.
func (p *plugin) Name() string { return PluginName }

// OnSessionOpen takes stock and registers the hooks.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	defer p.cache.meters.time("open")()
	p.ssn, p.percentage = ssn, options.ServerOpts.PercentageOfNodesToFind
	p.cache.lastBeat = p.cache.now()
	p.openBooks()
	p.notReady = p.cache.completeness.check(p.missingFromSession, p.cache.now())
	p.cache.open = p
	p.openHolds()
	p.openHanging()

	// Who gets cards.
	ssn.AddJobValidFn(PluginName, jobValid)
	ssn.AddJobEnqueueableFn(PluginName, p.jobEnqueueable)
	ssn.AddJobEnqueuedFn(PluginName, p.jobEnqueued)
	ssn.AddAllocatableFn(PluginName, p.allocatable)
	ssn.AddPrePredicateFn(PluginName, p.beginSearch)
	ssn.AddPredicateFn(PluginName, p.predicate)
	// Who gives cards back, inside a queue (preempt) and between queues (reclaim).
	ssn.AddPreemptableFn(PluginName, p.preemptable)
	ssn.AddSimulateAddTaskFn(PluginName, p.simulate((*quota.Released).Remove))
	ssn.AddSimulateRemoveTaskFn(PluginName, p.simulate((*quota.Released).Add))
	ssn.AddSimulateAllocatableFn(PluginName, p.simulateAllocatable)
	ssn.AddSimulatePredicateFn(PluginName, p.simulatePredicate)
	ssn.AddPreemptiveFn(PluginName, p.preemptive)
	ssn.AddReclaimableFn(PluginName, p.reclaimable)
	ssn.AddQueueOrderFn(PluginName, p.queueOrder)
	ssn.AddNodeOrderFn(PluginName, p.nodeOrder)
	ssn.AddBestNodeFn(PluginName, p.bestNode)
	ssn.AddEventHandler(&framework.EventHandler{
		AllocateFunc:   p.allocated,
		DeallocateFunc: p.deallocated,
	})
	if p.notReady != "" {
		// Nothing may be decided, so nothing is tried either: Volcano would
		// write the refusal to every waiting pod when it closes the session,
		// thousands of writes that hold up the first real one.
		clear(ssn.Jobs)
		clear(ssn.Queues)
	}
	p.cache.meters.publish(p.view(), func(queue string) bool { _, exists := p.rules[api.QueueID(queue)]; return exists })
}

// OnSessionClose lets go of the session.
func (p *plugin) OnSessionClose(*framework.Session) {
	defer p.cache.meters.time("close")()
	p.cache.open = nil
	options.ServerOpts.PercentageOfNodesToFind = p.percentage
	p.cache.voice.sweep()
	p.noteProgress()
	p.cache.patience.sweep()
	p.cache.sweepAnnouncements()
	p.keepPromises()
	p.cache.closeSecond()
	p.beat()
	p.ssn, p.inv, p.account, p.rules, p.waiting, p.leavers, p.namespaces, p.tenants, p.held, p.hanging = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
}

// SetupBindContextExtension puts into the annotations that a binding carries
// which queue the pod is charged to: the API server merges them into the pod in
// the same write that gives it its node. A PodGroup is its owner's to move,
// delete and make again, and says nothing reliable of cards that were handed out.
//
// Task and pod are copied: the pod is the informer's, which everybody reads, and
// the session goes on with the task while it is bound.
func (p *plugin) SetupBindContextExtension(_ *k8sframework.CycleState, binding *cache.BindContext) {
	charge := p.account.Charged(string(binding.TaskInfo.UID))
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
	SecondScheduler []string
	// At is when the session was closed, or decided last.
	At time.Time
}

// SetHeartbeat has beat called whenever a session closes, and every few seconds in
// one that takes long. It must not block:
// the next session begins when it returns. nil ends that.
func (c *Cache) SetHeartbeat(beat func(SessionReport)) { c.heartbeat = beat }

// beatEvery is how often a session that takes long reports before it closes.
var beatEvery = enforcement.StaleAfter / 4

// beatInSession reports a session that takes long, so that the proof of enforcement
// does not run out while many pods are placed. It is called where the session
// decides about a pod or a job, never by a timer: a session that hangs shows.
func (p *plugin) beatInSession() {
	if now := p.cache.now(); now.Sub(p.cache.lastBeat) >= beatEvery {
		p.cache.lastBeat = now
		p.beat()
	}
}

// beat reports what the session runs with, when it closes and while it goes on.
func (p *plugin) beat() {
	if p.cache.heartbeat == nil {
		return
	}
	report := SessionReport{ConfigHash: p.args.configHash, SecondScheduler: p.cache.second.names(), At: p.cache.now()}
	if p.invalid != nil {
		report.ConfigHash, report.Problem = "", p.invalid.Error()
	}
	p.cache.heartbeat(report)
}
