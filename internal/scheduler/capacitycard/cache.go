package capacitycard

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Cache is what the scheduler keeps from session to session: what pods ask for and were
// charged, reservations, which of its own bindings it waits to see, and what users were
// told already. It knows no session: the plugin of a session reads it and writes to it.
//
// A program has one. Volcano runs one session at a time, and its hooks that run in parallel
// only read.
type Cache struct {
	nodes     card.Tracker
	inventory *card.Inventory
	// meaning counts how often a resource or a card name came to mean something
	// else, or unlimited changed, and with it what pods ask for.
	requestGeneration uint64
	// unlimited tells that pods that ask for cards neither meet nor use up the CPU and
	// memory of their queue (cardUnlimitedCpuMemory).
	cardUnlimitedCPUMemory bool
	pods                   map[types.UID]*podState
	// objects finds the facts of a pod by its object: a pod that did not change
	// is found without reading it.
	podsByObject map[*corev1.Pod]*podState
	// seen is how many pods this session saw.
	podsSeen int
	queues   map[string]cachedQueue
	// account is kept from session to session and brought up to date when one
	// opens, so that a pod that stayed where it was costs a look-up.
	ledger *quota.Ledger
	// leaving is when pods were told to go, by UID, until they are gone.
	evictingSince map[types.UID]time.Time
	// promised is the node that a waiting pod was promised, by UID.
	nominations map[types.UID]nomination
	// holds are where cards were taken back for pods that wait, by UID.
	reclaimedRoom map[types.UID]nomination
	// insisted is the last session in which the action cardreclaim was at work,
	// which sees to it that pods with a mark go.
	lastReclaimSession uint64
	fitErrors          fitErrorCache
	cacheSync          cacheSync
	reservations       reservations
	// announced remembers what PodGroups without pods announce, by UID.
	podGroupRequests map[types.UID]*podGroupRequest
	resolver         workload.Resolver
	now              func() time.Time
	messages         *messageDeduper
	session          uint64
	foreignBindings  foreignBindingDetector
	metrics          *pluginMetrics
	// open is the plugin of the session that is open, nil between two.
	openPlugin *plugin
	// heartbeat is told what a session runs with, nil for nobody.
	sessionObserver func(SessionReport)
	// lastBeat is when the session that is open was opened, or reported last.
	lastReport time.Time
}

type cachedQueue struct {
	object    *scheduling.Queue
	unmanaged v1alpha1.UnmanagedQueues
	state     scheduling.QueueState
	rules     *workload.QueueRules
}

// chargeKind is how the ledger holds what a pod is charged.
type chargeKind int

const (
	notCharged chargeKind = iota
	chargedAsUsed
	chargedAsTerminating
)

// podState are what a pod asks for, valid while the pod object and the meaning
// of resources are the same.
type podState struct {
	object     *corev1.Pod
	generation uint64
	request    workload.Request
	// told tells that the pod is marked to be replaced, and of those that Volcano's
	// job controller replaces.
	outOfSync   bool
	lastSession uint64

	// charge is what the pod was charged last, and node and placed what that was
	// worked out from; placed is nil when it must be worked out anew. A pod whose
	// node lost its label, or whose PodGroup is gone, is charged as it was last.
	charge           *quota.Charge
	chargedNode      string
	chargedInventory *card.Inventory
	// charged is the queue that was written into the pod when it was bound, ""
	// before that is seen. Of a pod that is not ours, its maker wrote it.
	annotatedQueue string
	// ours tells that the pod names this scheduler.
	isOurs bool
	// booked is how the ledger holds charge.
	chargedAs chargeKind
	// nowhere tells that the node in the pod's object is not real: Volcano
	// writes it there when it tries a node, and leaves it when it gives up.
	assumedNodeInvalid bool
	// waits tells that the pod showed no node so far. It is read off an object
	// before Volcano may write into it.
	unassigned bool
}

// NewCache returns the cache of a scheduler that knows nothing yet.
func NewCache() *Cache {
	return &Cache{
		inventory:        card.NewInventory(nil),
		pods:             map[types.UID]*podState{},
		podsByObject:     map[*corev1.Pod]*podState{},
		queues:           map[string]cachedQueue{},
		ledger:           quota.New(0),
		evictingSince:    map[types.UID]time.Time{},
		nominations:      map[types.UID]nomination{},
		reclaimedRoom:    map[types.UID]nomination{},
		fitErrors:        fitErrorCache{statuses: map[fitErrorKey]*cachedFitError{}},
		messages:         newMessageDeduper(),
		podGroupRequests: map[types.UID]*podGroupRequest{},
		reservations:     reservations{},
		foreignBindings:  newForeignBindingDetector(),
		now:              time.Now,
		metrics:          newPluginMetrics(),
	}
}

// observePod returns what a pod asks for and notes that this session saw the pod.
func (c *Cache) observePod(pod *corev1.Pod) *podState {
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

// sawThisSession tells whether the session's jobs hold the pod, possibly an
// older state of it.
func (c *Cache) sawThisSession(pod *corev1.Pod) bool {
	state, ok := c.podsByObject[pod]
	if !ok {
		state, ok = c.pods[pod.UID]
	}
	return ok && state.lastSession == c.session
}

// refreshPod works out anew what a pod asks for, and keeps what it was charged.
func (c *Cache) refreshPod(pod *corev1.Pod) *podState {
	fresh := c.newPodState(pod)
	fresh.generation, fresh.unassigned = c.requestGeneration, pod.Spec.NodeName == ""
	if old, ok := c.pods[pod.UID]; ok {
		fresh.charge, fresh.chargedNode, fresh.chargedAs, fresh.lastSession = old.charge, old.chargedNode, old.chargedAs, old.lastSession
		fresh.unassigned = old.unassigned && (old.object == pod || fresh.unassigned)
		fresh.assumedNodeInvalid = old.assumedNodeInvalid && old.object == pod
		if old.unassigned && !fresh.unassigned {
			c.foreignBindings.observeBinding(pod, fresh.isOurs, old.lastSession)
		}
		delete(c.podsByObject, old.object)
	}
	if !fresh.unassigned { // else its node is one that Volcano tries, and the pod's maker wrote the queue
		fresh.annotatedQueue = workload.ChargedQueue(pod)
	}
	c.pods[pod.UID], c.podsByObject[pod] = fresh, fresh
	return fresh
}

func (c *Cache) newPodState(pod *corev1.Pod) *podState {
	state := &podState{
		object: pod, isOurs: c.resolver.UsesOurScheduler(pod), outOfSync: workload.IsMarkedOutOfSync(pod) && workload.ManagedByVCJob(pod), request: c.resolver.Request(pod),
	}
	if c.cardUnlimitedCPUMemory && state.request.Count > 0 {
		state.request.MilliCPU, state.request.Memory = 0, 0
	}
	return state
}

// rulesFor returns what a queue may use.
func (c *Cache) rulesFor(queue *scheduling.Queue, unmanaged v1alpha1.UnmanagedQueues) *workload.QueueRules {
	known, ok := c.queues[queue.Name]
	if !ok || known.object != queue || known.unmanaged != unmanaged || known.state != queue.Status.State {
		read := &v1beta1.Queue{ // as far as the rules read it
			ObjectMeta: queue.ObjectMeta,
			Spec:       v1beta1.QueueSpec{Capability: queue.Spec.Capability},
			Status:     v1beta1.QueueStatus{State: v1beta1.QueueState(queue.Status.State)},
		}
		rules := workload.QueueRulesFor(read, unmanaged, known.rules)
		known = cachedQueue{object: queue, unmanaged: unmanaged, state: queue.Status.State, rules: &rules}
		c.queues[queue.Name] = known
	}
	return known.rules
}

// releasePod gives back what a pod was charged, or held while it ended.
func (c *Cache) releasePod(state *podState) {
	if state.chargedAs != notCharged {
		c.ledger.Release(string(state.object.UID))
	}
	state.chargedAs = notCharged
}

// forgetUnseenPods forgets pods that the session did not see.
func (c *Cache) forgetUnseenPods() {
	if c.podsSeen == len(c.pods) {
		return
	}
	for uid, state := range c.pods {
		if state.lastSession != c.session {
			c.releasePod(state)
			delete(c.pods, uid)
			delete(c.podsByObject, state.object)
			delete(c.foreignBindings.foreignPods, uid)
		}
	}
}

// isOutOfSync tells that Volcano's job controller is to delete the pod and make
// another one in its place, and has not done so yet. On pods of others the mark
// means nothing, and neither does it where cardreclaim is not at work: anybody can
// write it on a pod of their own, and cards that nobody sees to would be promised
// to others for ever, and kept from being taken back. In the first session of a
// process nobody knows yet whether it is.
func (c *Cache) isOutOfSync(task *api.TaskInfo, state *podState) bool {
	if c.session > 1 && c.lastReclaimSession+1 < c.session {
		return false
	}
	marked := state.outOfSync
	if !marked && len(c.evictingSince) > 0 {
		_, marked = c.evictingSince[task.Pod.UID]
	}
	return marked && task.Pod.DeletionTimestamp == nil
}
