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
	// revision is the resourceVersion of the change: its place in the order of
	// all changes of the cluster. A deletion has its own.
	revision int64
	deleted  bool
	// seen is when the watch brought it.
	seen   time.Time
	object client.Object
}

// needsOrder tells whether a judgement may depend on when the change happened. A
// pod that was on no node held nothing and took nobody's place.
func (c change) needsOrder() bool {
	pod, ok := c.object.(*corev1.Pod)
	return !ok || pod.Spec.NodeName != ""
}

// listing is what a list showed: every object's revision, and the revision of
// the list as a whole.
type listing struct {
	revision int64
	objects  map[types.UID]int64
}

// stream collects the changes of one kind, which arrive in order.
type stream struct {
	// latest is the newest revision of every object that exists, as far as this
	// stream has got.
	latest map[types.UID]int64
	// reached is the revision of the newest change or bookmark.
	reached int64
	// judged is the revision up to which changes were taken out.
	applied int64
	waiting []change
}

func newStream(start listing) *stream {
	return &stream{latest: start.objects, reached: start.revision, applied: start.revision}
}

// addChange takes the next change. It is late when later ones were judged already.
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

// hasReached tells whether the stream has brought everything up to the picture:
// every object in it as new as there or newer, and no object that the picture
// shows to be gone. An object that is missing here but was listed may also have
// been deleted since, which shows in a stream that got beyond the picture.
//
// One thing cannot be told: an object that was made and deleted since the
// stream's last change is in neither. Its changes come late then.
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

// takeInOrder takes the changes up to a revision out of all streams, in the order in
// which they happened.
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
