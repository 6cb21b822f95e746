package observer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func changeAt(revision int64, uid string, deleted bool) change {
	return change{revision: revision, deleted: deleted, object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}}
}

func TestHolds(t *testing.T) {
	start := func() listing { return listing{revision: 10, objects: map[types.UID]int64{"a": 5}} }
	for t, tc := range check.Cases(t, map[string]struct {
		arrived []change
		shown   listing
		want    bool
	}{
		"nothing happened":                                 {nil, listing{15, map[types.UID]int64{"a": 5}}, true},
		"a new object has not arrived":                     {nil, listing{15, map[types.UID]int64{"a": 5, "b": 12}}, false},
		"a change has not arrived":                         {nil, listing{15, map[types.UID]int64{"a": 12}}, false},
		"a deletion has not arrived":                       {nil, listing{15, map[types.UID]int64{}}, false},
		"the change has arrived":                           {[]change{changeAt(12, "a", false)}, listing{15, map[types.UID]int64{"a": 12}}, true},
		"the deletion has arrived":                         {[]change{changeAt(12, "a", true)}, listing{15, map[types.UID]int64{}}, true},
		"of two changes one has arrived":                   {[]change{changeAt(12, "a", false)}, listing{15, map[types.UID]int64{"a": 12, "b": 13}}, false},
		"an object that was listed has been deleted since": {[]change{changeAt(16, "a", true)}, listing{15, map[types.UID]int64{"a": 5}}, true},
		"something newer has arrived":                      {[]change{changeAt(12, "b", false), changeAt(16, "c", false)}, listing{15, map[types.UID]int64{"a": 5, "b": 12}}, true},
	}) {
		s := newStream(start())
		for _, c := range tc.arrived {
			s.addChange(c)
		}

		check.Equal(t, "holds", tc.want, s.hasReached(tc.shown))
	}
}

func TestMergeOrdersByRevisionAndKeepsTheRest(t *testing.T) {
	one := newStream(listing{objects: map[types.UID]int64{}})
	two := newStream(listing{objects: map[types.UID]int64{}})
	for _, revision := range []int64{1, 4, 7} {
		one.addChange(changeAt(revision, "a", false))
	}

	for _, revision := range []int64{2, 3, 9} {
		two.addChange(changeAt(revision, "b", false))
	}

	streams := []*stream{one, two}
	for _, step := range []struct {
		until int64
		want  []int64
	}{{4, []int64{1, 2, 3, 4}}, {4, nil}, {8, []int64{7}}, {20, []int64{9}}} {
		var got []int64
		for _, c := range takeInOrder(streams, step.until) {
			got = append(got, c.revision)
		}
		check.Equal(t, fmt.Sprintf("revisions until %d", step.until), step.want, got)
	}
}

// A list does not show an object that came and went since the last change of the stream. So its
// changes may arrive after later ones were applied.
func TestAChangeThatComesTooLateIsNoticed(t *testing.T) {
	s := newStream(listing{revision: 10, objects: map[types.UID]int64{"a": 5}})
	shown := listing{15, map[types.UID]int64{"a": 5}}
	check.Must(t, s.hasReached(shown), "the stream lacks nothing that the list shows")
	takeInOrder([]*stream{s}, 15)
	for _, c := range []struct {
		change
		late bool
	}{{changeAt(12, "b", false), true}, {changeAt(13, "b", true), true}, {changeAt(16, "a", false), false}} {
		check.Equal(t, fmt.Sprintf("revision %d is late", c.revision), c.late, s.addChange(c.change))
	}
}

func TestOnlyWhatHoldsSomethingHasItsPlaceInTheOrder(t *testing.T) {
	waits := builder.Pod("test", "waits").GPUs(2).Obj()
	placed := builder.Pod("test", "placed").GPUs(2).Node("h200-0").Obj()

	for name, c := range map[string]struct {
		change
		want bool
	}{
		"a pod that waits":               {change{object: waits}, false},
		"a pod that waited, its end":     {change{object: waits, deleted: true}, false},
		"a pod on a node":                {change{object: placed}, true},
		"a pod that was on one, its end": {change{object: placed, deleted: true}, true},
		"another object":                 {change{object: builder.Queue("q").Obj()}, true},
	} {
		check.Equal(t, name+": ordered", c.want, c.needsOrder())
	}
}

// Merging exists to avoid a false alarm when a deletion is seen later than the binding that it
// made room for.
func TestADeletionSeenLateRaisesNoAlarm(t *testing.T) {
	w := newScene().playScript(`load pod old cards=2 node=h200-0`)
	at := func(revision int64, deleted bool, object client.Object) change {
		return change{revision: revision, deleted: deleted, seen: began.Add(time.Second), object: object}
	}

	old := w.Pod("old")
	pods := newStream(listing{objects: map[types.UID]int64{old.UID: 1}})
	queues := newStream(listing{objects: map[types.UID]int64{}})

	// What happened: old is deleted (2), fresh is placed (3), the quota is
	// raised (4), another is placed (5), the quota is lowered (6). The queue's
	// changes arrive first.
	queues.addChange(change{revision: 4, seen: began, object: w.Queue("q", "quota="+h200+":4")})
	queues.addChange(change{revision: 6, seen: began.Add(-time.Hour), object: w.Queue("q", "quota="+h200+":2")})
	pods.addChange(at(2, true, old))
	pods.addChange(at(3, false, w.Pod("fresh", "cards=2", "node=h200-0")))
	pods.addChange(at(5, false, w.Pod("another", "cards=2", "node=h200-0")))
	for _, c := range takeInOrder([]*stream{queues, pods}, 6) {
		w.machine.applyChange(c)
	}
	w.expectViolations(t, "")
}
