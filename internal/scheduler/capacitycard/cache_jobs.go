package capacitycard

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/timing"
	"cardquota.dev/operator/internal/workload"
)

// reservationEnds is how long an admitted job keeps its reservation while it
// can not be placed for other reasons than quota: a node selector that no node
// has must not keep the cards of its queue from everybody else.
const reservationEnds = 5 * time.Minute

// patience remembers since when admitted PodGroups make no progress, and what they
// were admitted with. Being refused for quota, or having a pod placed when a session
// closes, begins a new wait.
type patience map[types.UID]*admission

// admission is what a PodGroup may wait for in a queue.
type admission struct {
	// since is when the wait began, zero when there is none, and waits tells that it was
	// asked for since the last sweep.
	since time.Time
	waits bool
	// admitted tells that the job was admitted to the queue with the application, and asked
	// that this was asked for since the last sweep.
	admitted, asked bool
	queue           api.QueueID
	application     quota.JobRequest
}

// of is the entry of a PodGroup, a new one when there is none.
func (p patience) of(group types.UID) *admission {
	if p[group] == nil {
		p[group] = &admission{}
	}
	return p[group]
}

// admit remembers what a job was admitted with.
func (p patience) admit(job *api.JobInfo, application quota.JobRequest) {
	a := p.of(job.PgUID)
	a.queue, a.application, a.admitted, a.asked = job.Queue, application, true, true
}

// beyond is what a job waits for now and was not admitted with.
func (p patience) beyond(job *api.JobInfo, application quota.JobRequest) quota.JobRequest {
	a := p[job.PgUID]
	if a == nil || !a.admitted || a.queue != job.Queue {
		return application
	}
	beyond := a.application.Excess(application)
	a.asked = len(beyond.Demands) == 0
	return beyond
}

// lasts tells whether a waiting PodGroup still has its reservation.
func (p patience) lasts(group types.UID, now time.Time) bool {
	a := p.of(group)
	if a.waits = true; a.since.IsZero() {
		a.since = now
	}
	return now.Sub(a.since) < reservationEnds
}

// renew begins the wait of a PodGroup anew.
func (p patience) renew(group types.UID, now time.Time) {
	if a := p[group]; a != nil && !a.since.IsZero() {
		a.since = now
	}
}

// sweep forgets PodGroups that did not wait in this session, or for more than
// they were admitted with.
func (p patience) sweep() {
	for group, a := range p {
		if !a.waits {
			a.since = time.Time{}
		}
		a.admitted = a.admitted && a.asked
		if a.waits, a.asked = false, false; a.since.IsZero() && !a.admitted {
			delete(p, group)
		}
	}
}

// sweepAnnouncements forgets what two sessions did not ask for.
func (c *Cache) sweepAnnouncements() {
	maps.DeleteFunc(c.announced, func(_ types.UID, a *announcement) bool { return c.session-a.session > 1 })
}

// announcement is valid while the texts and the meaning of resources are the same.
type announcement struct {
	request  string
	requests bool
	least    *corev1.ResourceList
	meaning  uint64
	// session is the last one that asked for it.
	session     uint64
	application quota.JobRequest
	refusal     *workload.Refusal
}

// settled is how long after the first complete session a binding may still
// be the predecessor's. Its last requests ended before its lease did, or died
// with it; this leaves time for slow ones, and for the watch that brings them.
var settled = timing.Wait(30 * time.Second)

const (
	// unanswered is how long the binding of a pod is remembered that no session
	// shows any more: its PodGroup may be back in a moment.
	unanswered = 10 * time.Minute
	// mostPods is how many pods bound by others are named.
	mostPods = 5
)

// second notices a second scheduler: a pod of ours that waited in a session and
// later is on a node where this process never placed it.
//
// Every binding of this process begins as an allocation that the session did not
// take back; those are kept until the pod shows its node. A pod that was never
// seen waiting proves nothing, nor does one that was last seen waiting before
// this process had settled. Two schedulers that choose the same node for a pod
// are not told apart.
type second struct {
	// since is when the first complete session opened, zero before; from is the
	// first session that opened when everything had settled, 0 before.
	since time.Time
	from  uint64
	// now is when this session opened.
	now time.Time
	// placed are the allocations of this session that were not taken back.
	placed map[types.UID]string
	// sent are the nodes where earlier sessions placed pods that do not show it yet.
	sent map[types.UID]*sent
	// foreign names the pods that somebody else bound.
	foreign map[types.UID]string
}

// sent is where a pod may have been bound, and when the last binding was asked for.
type sent struct {
	nodes []string
	last  time.Time
}

func newSecond() second {
	return second{placed: map[types.UID]string{}, sent: map[types.UID]*sent{}, foreign: map[types.UID]string{}}
}

// begin opens a session; complete tells that everything was seen together once.
func (s *second) begin(session uint64, complete bool, now time.Time) {
	s.now = now
	if complete && s.since.IsZero() {
		s.since = now
	}
	if complete && s.from == 0 && now.Sub(s.since) >= settled {
		s.from = session
	}
}

// place notes that a pod was placed on a node in this session.
func (s *second) place(pod types.UID, node string) {
	if before, ok := s.placed[pod]; ok && before != node {
		s.send(pod, before)
	}
	s.placed[pod] = node
}

// takeBack notes that a placement of this session was undone.
func (s *second) takeBack(pod types.UID, node string) {
	if s.placed[pod] == node {
		delete(s.placed, pod)
	}
}

// closeSecond closes a session: what is placed now is bound, or will be.
func (c *Cache) closeSecond() {
	s := &c.second
	for pod, node := range s.placed {
		s.send(pod, node)
	}
	clear(s.placed)
	maps.DeleteFunc(s.sent, func(pod types.UID, sent *sent) bool {
		_, exists := c.pods[pod]
		return !exists && s.now.Sub(sent.last) > unanswered
	})
}

func (s *second) send(pod types.UID, node string) {
	known, ok := s.sent[pod]
	if !ok {
		known = &sent{}
		s.sent[pod] = known
	}
	if !slices.Contains(known.nodes, node) {
		known.nodes = append(known.nodes, node)
	}
	known.last = s.now
}

// arrived judges a pod that shows its node for the first time. waited is the
// session that last saw it waiting.
func (s *second) arrived(pod *corev1.Pod, isOurs bool, waited uint64) {
	known, ok := s.sent[pod.UID]
	delete(s.sent, pod.UID)
	if ok && slices.Contains(known.nodes, pod.Spec.NodeName) {
		return
	}
	if s.from > 0 && waited >= s.from && isOurs {
		s.foreign[pod.UID] = pod.Namespace + "/" + pod.Name
	}
}

// names are the first of the pods that somebody else bound, sorted.
func (s *second) names() []string {
	names := slices.Sorted(maps.Values(s.foreign))
	return names[:min(len(names), mostPods)]
}
