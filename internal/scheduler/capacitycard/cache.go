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
	meaning uint64
	// unlimited tells that pods that ask for cards neither meet nor use up the CPU and
	// memory of their queue (cardUnlimitedCpuMemory).
	unlimited bool
	pods      map[types.UID]*podFacts
	// objects finds the facts of a pod by its object: a pod that did not change
	// is found without reading it.
	objects map[*corev1.Pod]*podFacts
	// seen is how many pods this session saw.
	seen   int
	queues map[string]knownQueue
	// account is kept from session to session and brought up to date when one
	// opens, so that a pod that stayed where it was costs a look-up.
	account *quota.Ledger
	// leaving is when pods were told to go, by UID, until they are gone.
	leaving map[types.UID]time.Time
	// promised is the node that a waiting pod was promised, by UID.
	promised map[types.UID]promise
	// holds are where cards were taken back for pods that wait, by UID.
	holds map[types.UID]promise
	// insisted is the last session in which the action cardreclaim was at work,
	// which sees to it that pods with a mark go.
	insisted     uint64
	unfit        unfitness
	completeness completeness
	patience     patience
	// announced remembers what PodGroups without pods announce, by UID.
	announced map[types.UID]*announcement
	resolver  workload.Resolver
	now       func() time.Time
	voice     *voice
	session   uint64
	second    second
	meters    *meters
	// open is the plugin of the session that is open, nil between two.
	open *plugin
	// heartbeat is told what a session runs with, nil for nobody.
	heartbeat func(SessionReport)
	// lastBeat is when the session that is open was opened, or reported last.
	lastBeat time.Time
}

type knownQueue struct {
	object    *scheduling.Queue
	unmanaged v1alpha1.UnmanagedQueues
	state     scheduling.QueueState
	rules     *workload.QueueRules
}

// booking is how the ledger holds what a pod is charged.
type booking int

const (
	notBooked booking = iota
	asUsed
	asEnding
)

// podFacts are what a pod asks for, valid while the pod object and the meaning
// of resources are the same.
type podFacts struct {
	object  *corev1.Pod
	meaning uint64
	ask     workload.Request
	// told tells that the pod is marked to be replaced, and of those that Volcano's
	// job controller replaces.
	told    bool
	session uint64

	// charge is what the pod was charged last, and node and placed what that was
	// worked out from; placed is nil when it must be worked out anew. A pod whose
	// node lost its label, or whose PodGroup is gone, is charged as it was last.
	charge *quota.Charge
	node   string
	placed *card.Inventory
	// charged is the queue that was written into the pod when it was bound, ""
	// before that is seen. Of a pod that is not ours, its maker wrote it.
	charged string
	// ours tells that the pod names this scheduler.
	ours bool
	// booked is how the ledger holds charge.
	booked booking
	// nowhere tells that the node in the pod's object is not real: Volcano
	// writes it there when it tries a node, and leaves it when it gives up.
	nowhere bool
	// waits tells that the pod showed no node so far. It is read off an object
	// before Volcano may write into it.
	waits bool
}

// NewCache returns the cache of a scheduler that knows nothing yet.
func NewCache() *Cache {
	return &Cache{
		inventory: card.NewInventory(nil),
		pods:      map[types.UID]*podFacts{},
		objects:   map[*corev1.Pod]*podFacts{},
		queues:    map[string]knownQueue{},
		account:   quota.New(0),
		leaving:   map[types.UID]time.Time{},
		promised:  map[types.UID]promise{},
		holds:     map[types.UID]promise{},
		unfit:     unfitness{statuses: map[unfitKey]*unfitStatus{}},
		voice:     newVoice(),
		announced: map[types.UID]*announcement{},
		patience:  patience{},
		second:    newSecond(),
		now:       time.Now,
		meters:    newMeters(),
	}
}

// facts returns what a pod asks for and notes that this session saw the pod.
func (c *Cache) facts(pod *corev1.Pod) *podFacts {
	facts, ok := c.objects[pod]
	if !ok || facts.meaning != c.meaning {
		facts = c.renew(pod)
	}
	if facts.session != c.session {
		facts.session = c.session
		c.seen++
	}
	return facts
}

// sawThisSession tells whether the session's jobs hold the pod, possibly an
// older state of it.
func (c *Cache) sawThisSession(pod *corev1.Pod) bool {
	facts, ok := c.objects[pod]
	if !ok {
		facts, ok = c.pods[pod.UID]
	}
	return ok && facts.session == c.session
}

// renew works out anew what a pod asks for, and keeps what it was charged.
func (c *Cache) renew(pod *corev1.Pod) *podFacts {
	fresh := c.newFacts(pod)
	fresh.meaning, fresh.waits = c.meaning, pod.Spec.NodeName == ""
	if old, ok := c.pods[pod.UID]; ok {
		fresh.charge, fresh.node, fresh.booked, fresh.session = old.charge, old.node, old.booked, old.session
		fresh.waits = old.waits && (old.object == pod || fresh.waits)
		fresh.nowhere = old.nowhere && old.object == pod
		if old.waits && !fresh.waits {
			c.second.arrived(pod, fresh.ours, old.session)
		}
		delete(c.objects, old.object)
	}
	if !fresh.waits { // else its node is one that Volcano tries, and the pod's maker wrote the queue
		fresh.charged = workload.ChargedQueue(pod)
	}
	c.pods[pod.UID], c.objects[pod] = fresh, fresh
	return fresh
}

func (c *Cache) newFacts(pod *corev1.Pod) *podFacts {
	facts := &podFacts{
		object: pod, ours: c.resolver.UsesOurScheduler(pod), told: workload.IsMarkedOutOfSync(pod) && workload.ManagedByVCJob(pod), ask: c.resolver.Request(pod),
	}
	if c.unlimited && facts.ask.Count > 0 {
		facts.ask.MilliCPU, facts.ask.Memory = 0, 0
	}
	return facts
}

// rules returns what a queue may use.
func (c *Cache) rules(queue *scheduling.Queue, unmanaged v1alpha1.UnmanagedQueues) *workload.QueueRules {
	known, ok := c.queues[queue.Name]
	if !ok || known.object != queue || known.unmanaged != unmanaged || known.state != queue.Status.State {
		read := &v1beta1.Queue{ // as far as the rules read it
			ObjectMeta: queue.ObjectMeta,
			Spec:       v1beta1.QueueSpec{Capability: queue.Spec.Capability},
			Status:     v1beta1.QueueStatus{State: v1beta1.QueueState(queue.Status.State)},
		}
		rules := workload.QueueRulesFor(read, unmanaged, known.rules)
		known = knownQueue{object: queue, unmanaged: unmanaged, state: queue.Status.State, rules: &rules}
		c.queues[queue.Name] = known
	}
	return known.rules
}

// refund gives back what a pod was charged, or held while it ended.
func (c *Cache) refund(facts *podFacts) {
	if facts.booked != notBooked {
		c.account.Release(string(facts.object.UID))
	}
	facts.booked = notBooked
}

// sweep forgets pods that the session did not see.
func (c *Cache) sweep() {
	if c.seen == len(c.pods) {
		return
	}
	for uid, facts := range c.pods {
		if facts.session != c.session {
			c.refund(facts)
			delete(c.pods, uid)
			delete(c.objects, facts.object)
			delete(c.second.foreign, uid)
		}
	}
}

// toldToGo tells that Volcano's job controller is to delete the pod and make
// another one in its place, and has not done so yet. On pods of others the mark
// means nothing, and neither does it where cardreclaim is not at work: anybody can
// write it on a pod of their own, and cards that nobody sees to would be promised
// to others for ever, and kept from being taken back. In the first session of a
// process nobody knows yet whether it is.
func (c *Cache) toldToGo(task *api.TaskInfo, facts *podFacts) bool {
	if c.session > 1 && c.insisted+1 < c.session {
		return false
	}
	told := facts.told
	if !told && len(c.leaving) > 0 {
		_, told = c.leaving[task.Pod.UID]
	}
	return told && task.Pod.DeletionTimestamp == nil
}
