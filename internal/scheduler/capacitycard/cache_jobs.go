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

// reservationTimeout is how long an enqueued job keeps its reservation while something other
// than quota blocks it, such as a node selector that no node matches.
const reservationTimeout = 5 * time.Minute

// reservations holds the reservations of enqueued PodGroups. A refusal for quota, or a placed
// pod at the end of a session, restarts the wait.
type reservations map[types.UID]*reservation

// reservation is what an enqueued PodGroup may wait for in a queue.
type reservation struct {
	// waitingSince is when the wait began, zero if the job does not wait. isWaiting is set if
	// it waited since the last removeStale.
	waitingSince time.Time
	isWaiting    bool
	// enqueued is set if the job was enqueued to queue with request, requested if the job still
	// asks for no more cards than that.
	enqueued, requested bool
	queue               api.QueueID
	request             quota.JobRequest
}

// entryFor returns the entry of a PodGroup and creates it if needed.
func (p reservations) entryFor(group types.UID) *reservation {
	if p[group] == nil {
		p[group] = &reservation{}
	}
	return p[group]
}

// recordEnqueued stores the request with which a job was enqueued.
func (p reservations) recordEnqueued(job *api.JobInfo, request quota.JobRequest) {
	a := p.entryFor(job.PgUID)
	a.queue, a.request, a.enqueued, a.requested = job.Queue, request, true, true
}

// unreservedExcess returns the part of a job's request with which it was not enqueued.
func (p reservations) unreservedExcess(job *api.JobInfo, request quota.JobRequest) quota.JobRequest {
	a := p[job.PgUID]
	if a == nil || !a.enqueued || a.queue != job.Queue {
		return request
	}
	excess := a.request.Excess(request)
	a.requested = len(excess.Demands) == 0
	return excess
}

// isActive reports whether a waiting PodGroup still has its reservation.
func (p reservations) isActive(group types.UID, now time.Time) bool {
	a := p.entryFor(group)
	if a.isWaiting = true; a.waitingSince.IsZero() {
		a.waitingSince = now
	}
	return now.Sub(a.waitingSince) < reservationTimeout
}

// restartWait restarts the timeout of a reservation.
func (p reservations) restartWait(group types.UID, now time.Time) {
	if a := p[group]; a != nil && !a.waitingSince.IsZero() {
		a.waitingSince = now
	}
}

// removeStale removes PodGroups that did not wait in this session, or that wait for more cards
// than they were enqueued with.
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

// removeStalePodGroupRequests removes entries that two sessions did not use.
func (c *Cache) removeStalePodGroupRequests() {
	maps.DeleteFunc(c.podGroupRequests, func(_ types.UID, a *podGroupRequest) bool { return c.session-a.lastSession > 1 })
}

// podGroupRequest is the request of a PodGroup. It is valid for the same texts and generation.
type podGroupRequest struct {
	annotation    string
	hasAnnotation bool
	minResources  *corev1.ResourceList
	generation    uint64
	// lastSession is the last session that used it.
	lastSession uint64
	jobRequest  quota.JobRequest
	refusal     *workload.Refusal
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

// foreignBindingDetector detects another scheduler with our name: a pod of ours was pending in
// one session and later has a node where this process never placed it.
//
// Every binding of this process starts as an allocation that its session keeps. The detector
// stores it until the pod shows its node. A pod that was never seen pending proves nothing, and
// neither does one last seen pending before bindingGracePeriod ended. The detector cannot see
// two schedulers that choose the same node.
type foreignBindingDetector struct {
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
	// foreignPods are the names of pods that another scheduler bound.
	foreignPods map[types.UID]string
}

// pendingBinding is where a pod may have been bound, and when the last binding was sent.
type pendingBinding struct {
	nodes    []string
	lastSent time.Time
}

func newForeignBindingDetector() foreignBindingDetector {
	return foreignBindingDetector{assumed: map[types.UID]string{}, pending: map[types.UID]*pendingBinding{}, foreignPods: map[types.UID]string{}}
}

// openSession starts a session. synced is set once every node and pod was seen together.
func (s *foreignBindingDetector) openSession(session uint64, complete bool, now time.Time) {
	s.now = now
	if complete && s.syncedSince.IsZero() {
		s.syncedSince = now
	}
	if complete && s.detectFrom == 0 && now.Sub(s.syncedSince) >= bindingGracePeriod {
		s.detectFrom = session
	}
}

// assume records that this session placed a pod on a node.
func (s *foreignBindingDetector) assume(pod types.UID, node string) {
	if before, ok := s.assumed[pod]; ok && before != node {
		s.addPending(pod, before)
	}
	s.assumed[pod] = node
}

// forgetAssumed records that a placement was undone.
func (s *foreignBindingDetector) forgetAssumed(pod types.UID, node string) {
	if s.assumed[pod] == node {
		delete(s.assumed, pod)
	}
}

// closeForeignBindings closes a session: what it assumed is bound, or will be.
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

// observeBinding checks a pod that shows its node for the first time. waited is the last
// session that saw the pod pending.
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

// foreignPodNames returns the first pods that another scheduler bound, sorted.
func (s *foreignBindingDetector) foreignPodNames() []string {
	names := slices.Sorted(maps.Values(s.foreignPods))
	return names[:min(len(names), maxReportedPods)]
}
