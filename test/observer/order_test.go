package observer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// changeAt is the change of a pod with a UID at a revision: the place of the change among all changes in etcd.
func changeAt(revision int64, uid string, deleted bool) change {
	return change{revision: revision, deleted: deleted, object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}}
}

// TestAStreamHasReachedAListWhenItMissesNothingOfIt: the observer watches each kind by a stream, and lists it again from
// time to time. The stream has reached the list if it has delivered all that the list shows. The stream began with
// object a at revision 5. The list is of revision 15, and shows objects with their last revision.
func TestAStreamHasReachedAListWhenItMissesNothingOfIt(t *testing.T) {
	type objects = map[types.UID]int64
	for t, tc := range check.Cases(t, map[string]struct {
		delivered   []change
		listed      objects
		wantReached bool
	}{
		"nothing has changed":                           {nil, objects{"a": 5}, true},
		"b was created, and is not delivered":           {nil, objects{"a": 5, "b": 12}, false},
		"a was changed, and is not delivered":           {nil, objects{"a": 12}, false},
		"a was deleted, and is not delivered":           {nil, objects{}, false},
		"a was changed, and is delivered":               {[]change{changeAt(12, "a", false)}, objects{"a": 12}, true},
		"a was deleted, and is delivered":               {[]change{changeAt(12, "a", true)}, objects{}, true},
		"a and b were changed, and only a is delivered": {[]change{changeAt(12, "a", false)}, objects{"a": 12, "b": 13}, false},
		"a is listed, and was deleted after the list":   {[]change{changeAt(16, "a", true)}, objects{"a": 5}, true},
		"b is delivered, and also c, which is newer than the list": {
			[]change{changeAt(12, "b", false), changeAt(16, "c", false)}, objects{"a": 5, "b": 12}, true,
		},
	}) {
		s := newStream(listing{revision: 10, objects: objects{"a": 5}})
		for _, c := range tc.delivered {
			s.addChange(c)
		}

		check.Equal(t, "has reached the list", tc.wantReached, s.hasReached(listing{15, tc.listed}))
	}
}

// TestChangesOfAllStreamsAreTakenInTheOrderOfTheirRevisions: one stream delivers the changes 1, 4 and 7, and
// another one 2, 3 and 9. The observer takes those up to a revision in one order, each of them once. Later
// changes stay in their streams.
func TestChangesOfAllStreamsAreTakenInTheOrderOfTheirRevisions(t *testing.T) {
	streams := []*stream{
		newStream(listing{objects: map[types.UID]int64{}}),
		newStream(listing{objects: map[types.UID]int64{}}),
	}
	for i, revisions := range [][]int64{{1, 4, 7}, {2, 3, 9}} {
		for _, revision := range revisions {
			streams[i].addChange(changeAt(revision, fmt.Sprint("pod of stream ", i), false))
		}
	}

	for _, step := range []struct {
		until int64
		want  []int64
	}{
		{4, []int64{1, 2, 3, 4}},
		{4, nil},
		{8, []int64{7}},
		{20, []int64{9}},
	} {
		var got []int64
		for _, c := range takeInOrder(streams, step.until) {
			got = append(got, c.revision)
		}
		check.Equal(t, fmt.Sprintf("revisions until %d", step.until), step.want, got)
	}
}

// TestAChangeThatArrivesAfterLaterOnesWereAppliedIsLate: a list does not show an object that was created and
// deleted since the last change of the stream. So its changes may arrive after later ones were applied, and the
// observer must notice that. The list of revision 15 shows a, and all up to 15 is applied. Then b arrives,
// created at 12 and deleted at 13: both are late. A change of 16 is not.
func TestAChangeThatArrivesAfterLaterOnesWereAppliedIsLate(t *testing.T) {
	s := newStream(listing{revision: 10, objects: map[types.UID]int64{"a": 5}})
	check.Must(t, s.hasReached(listing{15, map[types.UID]int64{"a": 5}}), "the stream lacks something that the list shows")
	takeInOrder([]*stream{s}, 15)

	check.That(t, s.addChange(changeAt(12, "b", false)), "the creation at revision 12 is not late")
	check.That(t, s.addChange(changeAt(13, "b", true)), "the deletion at revision 13 is not late")
	check.That(t, !s.addChange(changeAt(16, "a", false)), "the change at revision 16 is late")
}

// TestOnlyAPodWithoutANodeNeedsNoOrder: a check may depend on when a change happened, and then a late change is an
// error. A pod without a node uses no cards, so it does not matter when it was created or deleted.
func TestOnlyAPodWithoutANodeNeedsNoOrder(t *testing.T) {
	waiting := builder.Pod("test", "waiting").GPUs(2).Obj()
	placed := builder.Pod("test", "placed").GPUs(2).Node("h200-0").Obj()

	for t, tc := range check.Cases(t, map[string]struct {
		change
		wantOrder bool
	}{
		"a pod without a node":          {change{object: waiting}, false},
		"a pod without a node, deleted": {change{object: waiting, deleted: true}, false},
		"a pod on a node":               {change{object: placed}, true},
		"a pod on a node, deleted":      {change{object: placed, deleted: true}, true},
		"a queue":                       {change{object: builder.Queue("q").Obj()}, true},
	}) {
		check.Equal(t, "needs its order", tc.wantOrder, tc.needsOrder())
	}
}

// TestADeletionThatArrivesLateRaisesNoFalseAlarm: the observer checks changes in the order of their revisions,
// not as they arrive. Queue q has a quota of 2 H200, used by pod old. At revision 2 old is deleted, and at 3
// fresh is placed with 2. At 4 the quota is raised to 4, at 5 another is placed with 2, and at 6 the quota is
// lowered to 2. All of that is right, but the changes of the queue arrive first.
func TestADeletionThatArrivesLateRaisesNoFalseAlarm(t *testing.T) {
	s := newSceneWithQuotaOfTwo().playScript(`load pod old cards=2 node=h200-0`)
	old := s.Pod("old")
	pods := newStream(listing{objects: map[types.UID]int64{old.UID: 1}})
	queues := newStream(listing{objects: map[types.UID]int64{}})

	queues.addChange(change{revision: 4, seen: began, object: s.Queue("q", "quota="+h200+":4")})
	// An hour ago, so that the quota of 4 does not count as one of a moment ago.
	queues.addChange(change{revision: 6, seen: began.Add(-time.Hour), object: s.Queue("q", "quota="+h200+":2")})
	seen := began.Add(time.Second)
	pods.addChange(change{revision: 2, seen: seen, deleted: true, object: old})
	pods.addChange(change{revision: 3, seen: seen, object: s.Pod("fresh", "cards=2", "node=h200-0")})
	pods.addChange(change{revision: 5, seen: seen, object: s.Pod("another", "cards=2", "node=h200-0")})

	for _, c := range takeInOrder([]*stream{queues, pods}, 6) {
		s.observed.applyChange(c)
	}
	s.expectViolations(t, "")
}
