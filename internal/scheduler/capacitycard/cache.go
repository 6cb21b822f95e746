package capacitycard

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/loss"
	"cardquota.dev/operator/internal/workload"
)

// Cache is what the scheduler keeps between sessions: what all who decide share, and what one of them
// keeps for itself. The plugin of a session reads and writes it.
//
// A program has one. Volcano runs one session at a time, and its parallel hooks only read.
type Cache struct {
	*sharedCache
	kept *freedCards
	// borrowStops are the cards that others reclaimed from a queue that had borrowed them.
	borrowStops borrowStops
	fitErrors   fitErrorCache
	// podGroups are the requests of PodGroups without pods, by UID.
	podGroups podGroupRequests
	messages  *messageDeduper
	reports   *sessionReports
	metrics   *pluginMetrics
	// openPlugin is the plugin of the open session, nil between sessions.
	openPlugin *Plugin
}

// sharedCache is what all who decide in a session share: requests and charges of pods, the ledger, the
// tree of queues, reservations and pending bindings.
type sharedCache struct {
	nodes     card.Tracker
	inventory *card.Inventory
	// requestGeneration counts changes that alter what pods request: of the meaning of a
	// resource or card name, or of cardUnlimitedCPUMemory.
	requestGeneration uint64
	// cardUnlimitedCPUMemory exempts pods with cards from the CPU and memory limits of their
	// queue.
	cardUnlimitedCPUMemory bool
	pods                   map[types.UID]*podState
	// podsByObject finds the state of a pod that did not change without reading it.
	podsByObject map[*corev1.Pod]*podState
	// podsSeen is how many pods this session saw.
	podsSeen int
	queues   map[string]cachedQueue
	// ledger is updated when a session opens, so a pod that did not move costs one look-up.
	ledger *quota.Ledger
	// evictingSince is when the eviction of a pod was requested, by UID, until the pod is gone.
	evictingSince map[types.UID]time.Time
	// evictionPolicies are those that the last preempt knew, nil before.
	evictionPolicies EvictionPolicies
	// failureLimits are those of Kubernetes Jobs, nil if none is known.
	failureLimits loss.FailureLimits
	// tree is the tree of queues, as the last session resolved it.
	tree treeState
	// lastReclaimSession is the last session with the action cardreclaim, which deletes pods
	// whose eviction is overdue.
	lastReclaimSession uint64
	cacheSync          cacheSync
	reservations       reservations
	vcJobs             cache.VCJobs
	resolver           workload.Resolver
	now                func() time.Time
	session            uint64
	otherBindings      otherBindings
}

type cachedQueue struct {
	object    *scheduling.Queue
	unmanaged v1alpha1.UnmanagedQueues
	state     scheduling.QueueState
	rules     *workload.QueueRules
}

// chargeKind is how the ledger charges a pod.
type chargeKind int

const (
	notCharged chargeKind = iota
	chargedAsUsed
	chargedAsTerminating
)

// podState is the request and charge of a pod. The request is valid for one object and
// generation.
type podState struct {
	object     *corev1.Pod
	generation uint64
	request    workload.Request
	// outOfSync is set if the pod is marked for recreation and Volcano's job controller owns
	// it.
	outOfSync   bool
	lastSession uint64

	// charge is the last charge of the pod, chargedNode and chargedInventory what it was
	// computed from. chargedInventory is nil if it must be computed again. If the node loses
	// its label or the PodGroup is deleted, the last charge stays.
	charge           *quota.Charge
	chargedNode      string
	chargedInventory *card.Inventory
	// annotatedQueue is the queue in the pod's annotation since its binding, "" before. On a
	// pod of another scheduler its creator wrote it.
	annotatedQueue string
	// isOurs is set if the pod names this scheduler.
	isOurs bool
	// isProtected is set in a tree if the pod itself may not be evicted. serviceType is what the
	// pod says, ownerType that of its owner's kind. treeGeneration is that of the tree when the
	// charge was found right.
	isProtected            bool
	serviceType, ownerType string
	treeGeneration         uint64
	// chargedAs is how the ledger charges the pod.
	chargedAs chargeKind
	// assumedNodeInvalid is set if the node in the pod object is not real: Volcano writes it
	// when it tries a node, and leaves it there when it gives up.
	assumedNodeInvalid bool
	// unassigned is set if the API server has shown no node so far. It is read before Volcano
	// may write into the object.
	unassigned bool
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{
		sharedCache: newSharedCache(),
		kept:        newFreedCards(),
		borrowStops: borrowStops{},
		fitErrors:   fitErrorCache{statuses: map[fitErrorKey]*cachedFitError{}},
		podGroups:   podGroupRequests{},
		messages:    newMessageDeduper(),
		reports:     &sessionReports{},
		metrics:     newPluginMetrics(),
	}
}

// newSharedCache returns an empty cache.
func newSharedCache() *sharedCache {
	return &sharedCache{
		inventory:     card.NewInventory(nil),
		pods:          map[types.UID]*podState{},
		podsByObject:  map[*corev1.Pod]*podState{},
		queues:        map[string]cachedQueue{},
		ledger:        quota.New(0),
		tree:          treeState{Tree: quota.Flat},
		evictingSince: map[types.UID]time.Time{},
		vcJobs:        cache.NewVCJobs(),
		reservations:  reservations{},
		otherBindings: newOtherBindings(),
		now:           time.Now,
	}
}

// VCJobs returns the Volcano jobs that the sessions of this cache read.
func (c *sharedCache) VCJobs() cache.VCJobs { return c.vcJobs }

// UseVCJobs replaces the jobs, which the API server has otherwise.
func (c *sharedCache) UseVCJobs(jobs cache.VCJobs) { c.vcJobs = jobs }

// observePod returns the state of a pod and marks the pod as seen in this session.
func (c *sharedCache) observePod(pod *corev1.Pod) *podState {
	state, ok := c.podsByObject[pod]
	if !ok || state.generation != c.requestGeneration {
		state = c.refreshPod(pod)
	}
	if state.lastSession != c.session {
		state.lastSession = c.session
		c.podsSeen++
	}
	return state
}

// sawThisSession reports whether the session's jobs contain the pod, possibly an older version
// of it.
func (c *sharedCache) sawThisSession(pod *corev1.Pod) bool {
	state, ok := c.podsByObject[pod]
	if !ok {
		state, ok = c.pods[pod.UID]
	}
	return ok && state.lastSession == c.session
}

// refreshPod reads a changed pod again and keeps its charge.
func (c *sharedCache) refreshPod(pod *corev1.Pod) *podState {
	fresh := c.newPodState(pod)
	fresh.generation = c.requestGeneration
	fresh.unassigned = pod.Spec.NodeName == ""
	if old, ok := c.pods[pod.UID]; ok {
		fresh.request.IsUnreclaimable = old.request.IsUnreclaimable
		fresh.treeGeneration = old.treeGeneration
		fresh.charge = old.charge
		fresh.chargedNode = old.chargedNode
		fresh.chargedAs = old.chargedAs
		fresh.lastSession = old.lastSession
		// Volcano may have written the node into the same object, but not into a new one of the API
		// server.
		fresh.unassigned = old.unassigned && (old.object == pod || fresh.unassigned)
		fresh.assumedNodeInvalid = old.assumedNodeInvalid && old.object == pod

		if old.unassigned && !fresh.unassigned {
			c.otherBindings.observeBinding(pod, fresh.isOurs, old.lastSession)
		}
		delete(c.podsByObject, old.object)
	}

	if !fresh.unassigned { // else Volcano may have set the node, and the pod's creator the annotation
		fresh.annotatedQueue = workload.ChargedQueue(pod)
	}
	c.pods[pod.UID] = fresh
	c.podsByObject[pod] = fresh

	return fresh
}

func (c *sharedCache) newPodState(pod *corev1.Pod) *podState {
	state := &podState{
		object: pod, isOurs: c.resolver.UsesOurScheduler(pod), outOfSync: workload.IsMarkedOutOfSync(pod) && workload.ManagedByVCJob(pod), request: c.resolver.Request(pod),
	}
	if !c.tree.IsFlat() {
		state.isProtected = !workload.IsEvictable(pod, nil)
		state.serviceType = workload.ServiceTypeFor(nil, pod.Annotations, nil, "")
		state.ownerType = c.tree.owners.TypeFor(pod)
	}

	if c.cardUnlimitedCPUMemory && state.request.Count > 0 {
		state.request.MilliCPU = 0
		state.request.Memory = 0
	}

	return state
}

// beginSession counts a new session, which has seen no pods yet.
func (c *sharedCache) beginSession() {
	c.session++
	c.podsSeen = 0
	c.otherBindings.openSession(c.session, c.cacheSync.synced, c.now())
}

// replaceNodes takes the nodes that the session has. unlimited exempts pods with cards from the CPU and memory
// limits of their queue. A new generation of requests begins when either changes what pods request: then all
// pods are read again.
func (c *sharedCache) replaceNodes(nodes map[string]*corev1.Node, unlimited bool) {
	before := c.inventory
	c.nodes.Replace(nodes)
	c.inventory = c.nodes.Inventory()
	if c.cardUnlimitedCPUMemory != unlimited || (c.inventory != before && !c.inventory.SameNames(before)) {
		c.requestGeneration++
	}
	c.cardUnlimitedCPUMemory = unlimited
}

// podState returns the state of a pod that was read in this generation, false if it was not.
func (c *sharedCache) podState(pod *corev1.Pod) (*podState, bool) {
	state, isKnown := c.podsByObject[pod]
	return state, isKnown && state.generation == c.requestGeneration
}

// forgetQueues forgets the rules of queues that do not exist any more.
func (c *sharedCache) forgetQueues(exists func(name string) bool) {
	maps.DeleteFunc(c.queues, func(name string, _ cachedQueue) bool { return !exists(name) })
}

// rulesFor returns the quota and the other rules of a queue.
func (c *sharedCache) rulesFor(queue *scheduling.Queue, unmanaged v1alpha1.UnmanagedQueues) *workload.QueueRules {
	known, ok := c.queues[queue.Name]
	if !ok || known.object != queue || known.unmanaged != unmanaged || known.state != queue.Status.State {
		read := &v1beta1.Queue{ // only what the rules read
			ObjectMeta: queue.ObjectMeta,
			Spec: v1beta1.QueueSpec{
				Parent: queue.Spec.Parent, Weight: queue.Spec.Weight, Capability: queue.Spec.Capability,
				Deserved: queue.Spec.Deserved, Guarantee: v1beta1.Guarantee{Resource: queue.Spec.Guarantee.Resource},
			},
			Status: v1beta1.QueueStatus{State: v1beta1.QueueState(queue.Status.State)},
		}

		rules := workload.QueueRulesFor(read, unmanaged, known.rules)
		known = cachedQueue{object: queue, unmanaged: unmanaged, state: queue.Status.State, rules: &rules}
		c.queues[queue.Name] = known
	}

	return known.rules
}

// releasePod removes the charge of a pod.
func (c *sharedCache) releasePod(state *podState) {
	if state.chargedAs != notCharged {
		c.ledger.Release(string(state.object.UID))
	}
	state.chargedAs = notCharged
}

// forgetUnseenPods removes the pods that the session did not see.
func (c *sharedCache) forgetUnseenPods() {
	// No pod is gone in most sessions, and then none has to be looked for.
	if c.podsSeen == len(c.pods) {
		return
	}

	for uid, state := range c.pods {
		if state.lastSession != c.session {
			c.releasePod(state)
			delete(c.pods, uid)
			delete(c.podsByObject, state.object)
			delete(c.otherBindings.boundByOthers, uid)
		}
	}
}

// isOutOfSync reports whether Volcano's job controller is about to delete and recreate the pod.
// The mark counts only on pods of Volcano jobs, and only if the action cardreclaim runs, which
// enforces it. Otherwise a user could mark a pod to protect its cards from reclaim. In the
// first session of a process it is unknown whether the action runs.
func (c *sharedCache) isOutOfSync(task *api.TaskInfo, state *podState) bool {
	if c.session > 1 && c.lastReclaimSession+1 < c.session {
		return false
	}
	marked := state.outOfSync
	if !marked && len(c.evictingSince) > 0 {
		_, marked = c.evictingSince[task.Pod.UID]
	}
	return marked && task.Pod.DeletionTimestamp == nil
}

// bindingGracePeriod is how long after the first synced session a binding may still be the
// predecessor's. It covers slow requests and the delay of the watch.
var bindingGracePeriod = build.Wait(30 * time.Second)

const (
	// pendingBindingTimeout is how long a binding is kept for a pod that no session contains.
	// Its PodGroup may soon be back.
	pendingBindingTimeout = 10 * time.Minute
	// maxReportedPods is how many pods bound by others are reported.
	maxReportedPods = 5
)

// otherBindings detects bindings by another scheduler with our name: a pod of ours was pending in
// one session and later has a node where this process never placed it.
//
// Every binding of this process starts as an allocation that its session keeps. The detector
// stores it until the pod shows its node. A pod that was never seen pending proves nothing, and
// neither does one last seen pending before bindingGracePeriod ended. The detector cannot see
// two schedulers that choose the same node.
type otherBindings struct {
	// syncedSince is when the first synced session opened, zero before. detectFrom is the first
	// session after bindingGracePeriod, 0 before.
	syncedSince time.Time
	detectFrom  uint64
	// now is when this session opened.
	now time.Time
	// assumed are the allocations of this session.
	assumed map[types.UID]string
	// pending are the nodes on which earlier sessions placed pods that do not show it yet.
	pending map[types.UID]*pendingBinding
	// boundByOthers are the names of pods that another scheduler bound.
	boundByOthers map[types.UID]string
}

// pendingBinding is where a pod may have been bound, and when the last binding was sent.
type pendingBinding struct {
	nodes    []string
	lastSent time.Time
}

func newOtherBindings() otherBindings {
	return otherBindings{assumed: map[types.UID]string{}, pending: map[types.UID]*pendingBinding{}, boundByOthers: map[types.UID]string{}}
}

// openSession starts a session. synced is set once every node and pod was seen together.
func (o *otherBindings) openSession(session uint64, synced bool, now time.Time) {
	o.now = now
	if synced && o.syncedSince.IsZero() {
		o.syncedSince = now
	}
	if synced && o.detectFrom == 0 && now.Sub(o.syncedSince) >= bindingGracePeriod {
		o.detectFrom = session
	}
}

// assume records that this session placed a pod on a node.
func (o *otherBindings) assume(pod types.UID, node string) {
	if before, ok := o.assumed[pod]; ok && before != node {
		o.addPending(pod, before)
	}
	o.assumed[pod] = node
}

// forgetAssumed records that a placement was undone.
func (o *otherBindings) forgetAssumed(pod types.UID, node string) {
	if o.assumed[pod] == node {
		delete(o.assumed, pod)
	}
}

// closeOtherBindings closes a session: what it assumed is bound, or will be.
func (c *sharedCache) closeOtherBindings() {
	s := &c.otherBindings
	for pod, node := range s.assumed {
		s.addPending(pod, node)
	}
	clear(s.assumed)
	maps.DeleteFunc(s.pending, func(pod types.UID, sent *pendingBinding) bool {
		_, exists := c.pods[pod]
		return !exists && s.now.Sub(sent.lastSent) > pendingBindingTimeout
	})
}

func (o *otherBindings) addPending(pod types.UID, node string) {
	known, ok := o.pending[pod]
	if !ok {
		known = &pendingBinding{}
		o.pending[pod] = known
	}
	if !slices.Contains(known.nodes, node) {
		known.nodes = append(known.nodes, node)
	}
	known.lastSent = o.now
}

// observeBinding checks a pod that shows its node for the first time. lastPending is the last
// session that saw the pod pending.
func (o *otherBindings) observeBinding(pod *corev1.Pod, isOurs bool, lastPending uint64) {
	known, ok := o.pending[pod.UID]
	delete(o.pending, pod.UID)
	if ok && slices.Contains(known.nodes, pod.Spec.NodeName) {
		return
	}
	if o.detectFrom > 0 && lastPending >= o.detectFrom && isOurs {
		o.boundByOthers[pod.UID] = pod.Namespace + "/" + pod.Name
	}
}

// boundByOthersNames returns the first pods that another scheduler bound, sorted.
func (o *otherBindings) boundByOthersNames() []string {
	names := slices.Sorted(maps.Values(o.boundByOthers))
	return names[:min(len(names), maxReportedPods)]
}
