package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func at(revision int64, uid string, deleted bool) change {
	return change{revision: revision, deleted: deleted, object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}}
}

func TestHolds(t *testing.T) {
	start := func() picture { return picture{revision: 10, objects: map[types.UID]int64{"a": 5}} }
	for _, test := range []struct {
		name    string
		arrived []change
		shown   picture
		want    bool
	}{
		{"nothing happened", nil, picture{15, map[types.UID]int64{"a": 5}}, true},
		{"a new object has not arrived", nil, picture{15, map[types.UID]int64{"a": 5, "b": 12}}, false},
		{"a change has not arrived", nil, picture{15, map[types.UID]int64{"a": 12}}, false},
		{"a deletion has not arrived", nil, picture{15, map[types.UID]int64{}}, false},
		{"the change has arrived", []change{at(12, "a", false)}, picture{15, map[types.UID]int64{"a": 12}}, true},
		{"the deletion has arrived", []change{at(12, "a", true)}, picture{15, map[types.UID]int64{}}, true},
		{"of two changes one has arrived", []change{at(12, "a", false)}, picture{15, map[types.UID]int64{"a": 12, "b": 13}}, false},
		{"an object that was listed has been deleted since", []change{at(16, "a", true)}, picture{15, map[types.UID]int64{"a": 5}}, true},
		{"something newer has arrived", []change{at(12, "b", false), at(16, "c", false)}, picture{15, map[types.UID]int64{"a": 5, "b": 12}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStream(start())
			for _, c := range test.arrived {
				s.add(c)
			}
			if got := s.holds(test.shown); got != test.want {
				t.Errorf("holds = %v, want %v", got, test.want)
			}
		})
	}
}

func TestMergeOrdersByRevisionAndKeepsTheRest(t *testing.T) {
	one, two := newStream(picture{objects: map[types.UID]int64{}}), newStream(picture{objects: map[types.UID]int64{}})
	for _, revision := range []int64{1, 4, 7} {
		one.add(at(revision, "a", false))
	}
	for _, revision := range []int64{2, 3, 9} {
		two.add(at(revision, "b", false))
	}
	streams := []*stream{one, two}
	for _, step := range []struct {
		until int64
		want  []int64
	}{{4, []int64{1, 2, 3, 4}}, {4, nil}, {8, []int64{7}}, {20, []int64{9}}} {
		got := merge(streams, step.until)
		if len(got) != len(step.want) {
			t.Fatalf("merge until %d gave %d changes, want %v", step.until, len(got), step.want)
		}
		for i, revision := range step.want {
			if got[i].revision != revision {
				t.Errorf("merge until %d: change %d has revision %d, want %d", step.until, i, got[i].revision, revision)
			}
		}
	}
}

// Nothing in a list tells of an object that came and went since the last change
// of the stream, so its changes may come when later ones were judged.
func TestAChangeThatComesTooLateIsNoticed(t *testing.T) {
	s := newStream(picture{revision: 10, objects: map[types.UID]int64{"a": 5}})
	shown := picture{15, map[types.UID]int64{"a": 5}}
	if !s.holds(shown) {
		t.Fatal("the stream lacks nothing that the list shows")
	}
	merge([]*stream{s}, 15)
	for _, c := range []struct {
		change
		late bool
	}{{at(12, "b", false), true}, {at(13, "b", true), true}, {at(16, "a", false), false}} {
		if late := s.add(c.change); late != c.late {
			t.Errorf("revision %d is late: %v, want %v", c.revision, late, c.late)
		}
	}
}

func TestOnlyWhatHoldsSomethingHasItsPlaceInTheOrder(t *testing.T) {
	waits, placed := pod("waits", "2", h200), pod("placed", "2", h200)
	placed.Spec.NodeName = "h200-0"
	for name, c := range map[string]struct {
		change
		want bool
	}{
		"a pod that waits":               {change{object: waits}, false},
		"a pod that waited, its end":     {change{object: waits, deleted: true}, false},
		"a pod on a node":                {change{object: placed}, true},
		"a pod that was on one, its end": {change{object: placed, deleted: true}, true},
		"another object":                 {change{object: queue("q", "{}")}, true},
	} {
		if got := c.ordered(); got != c.want {
			t.Errorf("%s: ordered = %v, want %v", name, got, c.want)
		}
	}
}

// A deletion that is seen later than the binding it made room for is the false
// alarm that the merging exists for.
func TestADeletionSeenLateRaisesNoAlarm(t *testing.T) {
	s := newScript()
	old, fresh := pod("old", "2", h200), pod("fresh", "2", h200)
	old.Spec.NodeName = "h200-0"
	s.load(old)
	fresh.Spec.NodeName = "h200-0"
	narrow, wide := queue("q", `{"NVIDIA-H200":2}`), queue("q", `{"NVIDIA-H200":4}`)
	at := func(revision int64, deleted bool, object *corev1.Pod) change {
		return change{revision: revision, deleted: deleted, seen: began.Add(time.Second), object: object}
	}
	pods, queues := newStream(picture{objects: map[types.UID]int64{old.UID: 1}}), newStream(picture{objects: map[types.UID]int64{}})
	// What happened: old is deleted (2), fresh is placed (3), the quota is
	// raised (4), another is placed (5), the quota is lowered (6). The queue's
	// changes arrive first.
	queues.add(change{revision: 4, seen: began, object: wide})
	queues.add(change{revision: 6, seen: began.Add(-time.Hour), object: narrow})
	pods.add(at(2, true, old))
	pods.add(at(3, false, fresh))
	another := pod("another", "2", h200)
	another.Spec.NodeName = "h200-0"
	pods.add(at(5, false, another))
	for _, c := range merge([]*stream{queues, pods}, 6) {
		s.machine.apply(c)
	}
	wantInvariants(t, s.machine.found)
}
