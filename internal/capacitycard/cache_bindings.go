package capacitycard

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/timing"
)

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

// end closes a session: what is placed now is bound, or will be. exists tells
// whether the session saw a pod.
func (s *second) end(exists func(types.UID) bool) {
	for pod, node := range s.placed {
		s.send(pod, node)
	}
	clear(s.placed)
	for pod, sent := range s.sent {
		if s.now.Sub(sent.last) > unanswered && !exists(pod) {
			delete(s.sent, pod)
		}
	}
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

// gone forgets a pod.
func (s *second) gone(pod types.UID) { delete(s.foreign, pod) }

// names are the first of the pods that somebody else bound, sorted.
func (s *second) names() []string {
	if len(s.foreign) == 0 {
		return nil
	}
	names := make([]string, 0, len(s.foreign))
	for _, name := range s.foreign {
		names = append(names, name)
	}
	slices.Sort(names)
	return names[:min(len(names), mostPods)]
}

// closeSecond notes what the session that closes has bound.
func (c *Cache) closeSecond() {
	c.second.end(func(pod types.UID) bool { _, ok := c.pods[pod]; return ok })
}
