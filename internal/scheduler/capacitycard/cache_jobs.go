package capacitycard

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// reservationTimeout is how long an admitted job keeps its reservation while it
// can not be placed for other reasons than quota: a node selector that no node
// has must not keep the cards of its queue from everybody else.
const reservationTimeout = 5 * time.Minute

// reservations remembers since when admitted PodGroups make no progress, and what they
// were admitted with. Being refused for quota, or having a pod placed when a session
// closes, begins a new wait.
type reservations map[types.UID]*reservation

// reservation is what a PodGroup may wait for in a queue.
type reservation struct {
	// since is when the wait began, zero when there is none, and waits tells that it was
	// asked for since the last sweep.
	waitingSince time.Time
	isWaiting    bool
	// admitted tells that the job was admitted to the queue with the application, and asked
	// that this was asked for since the last sweep.
	enqueued, requested bool
	queue               api.QueueID
	request             quota.JobRequest
}

// entryFor is the entry of a PodGroup, a new one when there is none.
func (p reservations) entryFor(group types.UID) *reservation {
	if p[group] == nil {
		p[group] = &reservation{}
	}
	return p[group]
}

// recordEnqueued remembers what a job was admitted with.
func (p reservations) recordEnqueued(job *api.JobInfo, request quota.JobRequest) {
	a := p.entryFor(job.PgUID)
	a.queue, a.request, a.enqueued, a.requested = job.Queue, request, true, true
}

// unreservedExcess is what a job waits for now and was not admitted with.
func (p reservations) unreservedExcess(job *api.JobInfo, request quota.JobRequest) quota.JobRequest {
	a := p[job.PgUID]
	if a == nil || !a.enqueued || a.queue != job.Queue {
		return request
	}
	excess := a.request.Excess(request)
	a.requested = len(excess.Demands) == 0
	return excess
}

// isActive tells whether a waiting PodGroup still has its reservation.
func (p reservations) isActive(group types.UID, now time.Time) bool {
	a := p.entryFor(group)
	if a.isWaiting = true; a.waitingSince.IsZero() {
		a.waitingSince = now
	}
	return now.Sub(a.waitingSince) < reservationTimeout
}

// restartWait begins the wait of a PodGroup anew.
func (p reservations) restartWait(group types.UID, now time.Time) {
	if a := p[group]; a != nil && !a.waitingSince.IsZero() {
		a.waitingSince = now
	}
}

// removeStale forgets PodGroups that did not wait in this session, or for more than
// they were admitted with.
func (p reservations) removeStale() {
	for group, a := range p {
		if !a.isWaiting {
			a.waitingSince = time.Time{}
		}
		a.enqueued = a.enqueued && a.requested
		if a.isWaiting, a.requested = false, false; a.waitingSince.IsZero() && !a.enqueued {
			delete(p, group)
		}
	}
}

// removeStalePodGroupRequests forgets what two sessions did not ask for.
func (c *Cache) removeStalePodGroupRequests() {
	maps.DeleteFunc(c.podGroupRequests, func(_ types.UID, a *podGroupRequest) bool { return c.session-a.lastSession > 1 })
}

// podGroupRequest is valid while the texts and the meaning of resources are the same.
type podGroupRequest struct {
	annotation    string
	hasAnnotation bool
	minResources  *corev1.ResourceList
	generation    uint64
	// session is the last one that asked for it.
	lastSession uint64
	jobRequest  quota.JobRequest
	refusal     *workload.Refusal
}

// bindingGracePeriod is how long after the first complete session a binding may still
// be the predecessor's. Its last requests ended before its lease did, or died
// with it; this leaves time for slow ones, and for the watch that brings them.
var bindingGracePeriod = build.Wait(30 * time.Second)

const (
	// pendingBindingTimeout is how long the binding of a pod is remembered that no session
	// shows any more: its PodGroup may be back in a moment.
	pendingBindingTimeout = 10 * time.Minute
	// maxReportedPods is how many pods bound by others are named.
	maxReportedPods = 5
)

// foreignBindingDetector notices a second scheduler: a pod of ours that waited in a session and
// later is on a node where this process never placed it.
//
// Every binding of this process begins as an allocation that the session did not
// take back; those are kept until the pod shows its node. A pod that was never
// seen waiting proves nothing, nor does one that was last seen waiting before
// this process had settled. Two schedulers that choose the same node for a pod
// are not told apart.
type foreignBindingDetector struct {
	// since is when the first complete session opened, zero before; from is the
	// first session that opened when everything had settled, 0 before.
	syncedSince time.Time
	detectFrom  uint64
	// now is when this session opened.
	now time.Time
	// placed are the allocations of this session that were not taken back.
	assumed map[types.UID]string
	// sent are the nodes where earlier sessions placed pods that do not show it yet.
	pending map[types.UID]*pendingBinding
	// foreign names the pods that somebody else bound.
	foreignPods map[types.UID]string
}

// pendingBinding is where a pod may have been bound, and when the last binding was asked for.
type pendingBinding struct {
	nodes    []string
	lastSent time.Time
}

func newForeignBindingDetector() foreignBindingDetector {
	return foreignBindingDetector{assumed: map[types.UID]string{}, pending: map[types.UID]*pendingBinding{}, foreignPods: map[types.UID]string{}}
}

// openSession opens a session; complete tells that everything was seen together once.
func (s *foreignBindingDetector) openSession(session uint64, complete bool, now time.Time) {
	s.now = now
	if complete && s.syncedSince.IsZero() {
		s.syncedSince = now
	}
	if complete && s.detectFrom == 0 && now.Sub(s.syncedSince) >= bindingGracePeriod {
		s.detectFrom = session
	}
}

// assume notes that a pod was placed on a node in this session.
func (s *foreignBindingDetector) assume(pod types.UID, node string) {
	if before, ok := s.assumed[pod]; ok && before != node {
		s.addPending(pod, before)
	}
	s.assumed[pod] = node
}

// forgetAssumed notes that a placement of this session was undone.
func (s *foreignBindingDetector) forgetAssumed(pod types.UID, node string) {
	if s.assumed[pod] == node {
		delete(s.assumed, pod)
	}
}

// closeForeignBindings closes a session: what is placed now is bound, or will be.
func (c *Cache) closeForeignBindings() {
	s := &c.foreignBindings
	for pod, node := range s.assumed {
		s.addPending(pod, node)
	}
	clear(s.assumed)
	maps.DeleteFunc(s.pending, func(pod types.UID, sent *pendingBinding) bool {
		_, exists := c.pods[pod]
		return !exists && s.now.Sub(sent.lastSent) > pendingBindingTimeout
	})
}

func (s *foreignBindingDetector) addPending(pod types.UID, node string) {
	known, ok := s.pending[pod]
	if !ok {
		known = &pendingBinding{}
		s.pending[pod] = known
	}
	if !slices.Contains(known.nodes, node) {
		known.nodes = append(known.nodes, node)
	}
	known.lastSent = s.now
}

// observeBinding judges a pod that shows its node for the first time. waited is the
// session that last saw it waiting.
func (s *foreignBindingDetector) observeBinding(pod *corev1.Pod, isOurs bool, waited uint64) {
	known, ok := s.pending[pod.UID]
	delete(s.pending, pod.UID)
	if ok && slices.Contains(known.nodes, pod.Spec.NodeName) {
		return
	}
	if s.detectFrom > 0 && waited >= s.detectFrom && isOurs {
		s.foreignPods[pod.UID] = pod.Namespace + "/" + pod.Name
	}
}

// foreignPodNames are the first of the pods that somebody else bound, sorted.
func (s *foreignBindingDetector) foreignPodNames() []string {
	names := slices.Sorted(maps.Values(s.foreignPods))
	return names[:min(len(names), maxReportedPods)]
}
