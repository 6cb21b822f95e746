package observer

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is one change of one object.
type change struct {
	// revision is the resourceVersion of the change: its place among all changes of the
	// cluster. A deletion has its own.
	revision int64
	deleted  bool
	// seen is when the watch delivered it.
	seen   time.Time
	object client.Object
}

// needsOrder reports whether a check may depend on when the change happened. A pod without a
// node used nothing.
func (c change) needsOrder() bool {
	pod, ok := c.object.(*corev1.Pod)
	return !ok || pod.Spec.NodeName != ""
}

// listing is the result of a list: the revision of each object, and that of the whole list.
type listing struct {
	revision int64
	objects  map[types.UID]int64
}

// stream collects the changes of one kind, which arrive in order.
type stream struct {
	// latest is the newest revision of every object that exists, as far as this stream has
	// advanced.
	latest map[types.UID]int64
	// reached is the revision of the newest change or bookmark.
	reached int64
	// applied is the revision up to which changes were applied.
	applied int64
	waiting []change
}

func newStream(start listing) *stream {
	return &stream{latest: start.objects, reached: start.revision, applied: start.revision}
}

// addChange adds the next change. It is late when later changes were already applied.
func (s *stream) addChange(c change) (late bool) {
	s.reached = max(s.reached, c.revision)
	if c.deleted {
		delete(s.latest, c.object.GetUID())
	} else {
		s.latest[c.object.GetUID()] = c.revision
	}
	s.waiting = append(s.waiting, c)
	return c.revision <= s.applied
}

// hasReached reports whether the stream has delivered everything up to a list. Every listed
// object must be at the listed revision or newer, and no object may be left that the list no
// longer has. A listed object that is missing here may have been deleted since; then the stream
// has passed the list.
//
// An object that was created and deleted after the stream's last change is in neither. Its
// changes arrive late.
func (s *stream) hasReached(p listing) bool {
	if s.reached >= p.revision {
		return true
	}

	for uid, revision := range p.objects {
		if s.latest[uid] < revision {
			return false
		}
	}

	for uid := range s.latest {
		if _, ok := p.objects[uid]; !ok {
			return false
		}
	}

	return true
}

// takeInOrder removes the changes up to a revision from all streams and returns them in their
// order.
func takeInOrder(streams []*stream, until int64) []change {
	var out []change
	for _, s := range streams {
		n := 0
		for n < len(s.waiting) && s.waiting[n].revision <= until {
			n++
		}
		out = append(out, s.waiting[:n]...)
		s.waiting = slices.Clone(s.waiting[n:])
		s.applied = max(s.applied, until)
	}

	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	return out
}
