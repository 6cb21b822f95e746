package liveness

import (
	"strings"
	"testing"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling"

	"cardquota.dev/operator/internal/testing/check"
)

// viewWithWaitingHi returns a view of one session. Job hi of queue q has one pod of priority 9, which waits for
// the one card A of node n that was freed for it. Pods of other jobs, on that node now, are given.
func viewWithWaitingHi(others ...*group) *sessionView {
	hi := &group{name: "hi", queue: "q", min: 1, priority: 9, phase: scheduling.PodGroupInqueue}
	hi.waiting = []*pod{{name: "hi-0", uid: "hi-0", group: "hi", cards: 1, names: []string{"A"}}}
	groups := append(others, hi)

	free := 1
	for _, g := range groups {
		free -= cardsOf(g.placed)
	}

	unused := map[string]int{"A": 4}
	return &sessionView{
		nodes: []*nodeView{{name: "n", card: "A", cards: free, total: 1, apart: map[string]int{}}},
		queues: map[string]*queue{
			"q":     {priority: 5, kind: "inference", free: unused, quota: unused},
			"other": {priority: 5, free: unused},
			"tra":   {priority: 1, free: unused, kind: "training", gives: true},
		},
		groups: groups,
	}
}

// placedGroup returns a job with one pod on node n.
func placedGroup(name, queue string, priority int32) *group {
	return &group{name: name, queue: queue, min: 1, priority: priority, placed: []*pod{{name: name + "-0", uid: name + "-0", group: name, node: "n", cards: 1}}}
}

// newWantOfHi is what job hi wants: the card of node n that was freed for it so long ago, by preempt or by
// cardreclaim.
func newWantOfHi(since time.Duration, preempts bool) *want {
	record := reclaimRecord{from: "lo", at: time.Now().Add(-since), placed: map[string]bool{}, pipelined: map[string]bool{"hi-0": true}}
	return &want{reclaimRecord: record, group: "hi", preempts: preempts, nodes: map[string]string{"hi-0": "n"}}
}

// TestAJobThatTakesCardsKeptForAnotherIsFound: a check of the random sequences must find a job that takes a card
// which is kept for another. An eviction frees a card for a pod, and the scheduler keeps the card for it for five
// minutes. Only jobs of higher priority in the queue of the pod, and jobs for which cards were freed too, may take
// what preempt freed. What cardreclaim freed is kept only from jobs from which the pod may reclaim. Job hi (queue q
// of inference, priority 9) waits for the card of node n. Queue other has no service type, so hi may not reclaim from
// it. Between two sessions, the job of the row is placed there: placedGroup("x", "tra", 9) is job x of queue tra, of
// training, with priority 9.
func TestAJobThatTakesCardsKeptForAnotherIsFound(t *testing.T) {
	const tookIt = "took what was freed for another"

	for t, tc := range check.Cases(t, map[string]struct {
		placed      *group
		freedAgo    time.Duration
		isPreempt   bool
		wantFailure string
	}{
		"preempt freed it: a job of another queue takes it 4 minutes later": {placedGroup("x", "other", 9), 4 * time.Minute, true, tookIt},
		"preempt freed it: a job of equal priority in the queue takes it":   {placedGroup("x", "q", 9), time.Second, true, tookIt},
		"preempt freed it: a job of higher priority in the queue takes it":  {placedGroup("x", "q", 10), time.Second, true, ""},
		"preempt freed it: a job takes it five minutes later":               {placedGroup("x", "other", 9), 5 * time.Minute, true, ""},
		"preempt freed it: a job without pods on the node": {
			&group{name: "x", queue: "other", min: 1}, time.Second, true, "",
		},
		"preempt freed it: job y takes it, for which a card was freed too":   {placedGroup("y", "other", 9), time.Second, true, ""},
		"cardreclaim freed it: a job takes it from which hi may not reclaim": {placedGroup("x", "other", 9), time.Second, false, ""},
		"cardreclaim freed it: a job of training takes it":                   {placedGroup("x", "tra", 9), time.Second, false, tookIt},
	}) {
		w := &sequenceRun{sessionMemory: newSessionMemory()}
		w.wants["hi"] = newWantOfHi(tc.freedAgo, tc.isPreempt)
		w.wants["y"] = newWantOfHi(time.Hour, true) // for job y, too, but so long ago that no card is kept for it any more
		check.Equal(t, "failure", tc.wantFailure, failureKind(w.checkKeptCards(viewWithWaitingHi(), viewWithWaitingHi(tc.placed))))
	}
}

// TestAJobOfHigherPriorityMayTakeKeptCardsBesideAnother: node n has two cards, one of them freed for job hi of
// priority 9. Between two sessions both are taken: one by job x of another queue, one by job y of hi's queue with
// priority 10. Then y may be the one that took the card which is kept for hi, so the check reports nothing.
func TestAJobOfHigherPriorityMayTakeKeptCardsBesideAnother(t *testing.T) {
	w := &sequenceRun{sessionMemory: newSessionMemory()}
	w.wants["hi"] = newWantOfHi(time.Second, true) // true: by preempt
	after := viewWithWaitingHi(placedGroup("x", "other", 9), placedGroup("y", "q", 10))
	after.nodes[0].total = 2
	after.nodes[0].cards = 0 // that are free

	check.Equal(t, "failure", "", failureKind(w.checkKeptCards(viewWithWaitingHi(), after)))
}

// TestASecondEvictionForTheSamePodIsFound: a check of the random sequences must find a second eviction for the same
// pod. A card was freed for pod hi-0. So no other job may be evicted for hi-0 until five minutes are over, or the
// node of the card takes no pods any more. Now job lo is evicted for the pod of the row.
func TestASecondEvictionForTheSamePodIsFound(t *testing.T) {
	const twice = "evicted twice for the same"
	for t, tc := range check.Cases(t, map[string]struct {
		freedAgo     time.Duration
		evictedFor   string
		isNodeClosed bool
		wantFailure  string
	}{
		"for hi-0, 4 minutes later":                        {4 * time.Minute, "hi-0", false, twice},
		"for hi-1, another pod of the job":                 {time.Second, "hi-1", false, ""},
		"for hi-0, five minutes later":                     {5 * time.Minute, "hi-0", false, ""},
		"for hi-0, and the node of its card takes no pods": {time.Second, "hi-0", true, ""},
	}) {
		w := &sequenceRun{sessionMemory: newSessionMemory()}
		w.wants["hi"] = newWantOfHi(tc.freedAgo, true) // true: by preempt
		w.last = viewWithWaitingHi()
		w.last.nodes[0].closed = tc.isNodeClosed

		hi := &group{name: "hi", queue: "q", pipelined: []*pod{{uid: tc.evictedFor}}}
		check.Equal(t, "failure", tc.wantFailure, failureKind(w.checkWantedTwice(w.last, hi, &group{name: "lo"})))
	}
}

// TestAGangThatNeverGetsItsTurnIsFound: pods of other jobs end one by one, and new pods would take each card. A gang
// of inference that may reclaim from all of them must start after a bounded number of such ends. A check of the
// random sequences must find one that does not. The bound is the pods that run on its nodes, plus the cards that it
// lacks. Node n has two cards, and gang w needs both, so it may wait for 2 + 2 ends. A session is the list of pods
// that run, with a card each. From "a b" to "b c" pod a has ended, and c took its card.
func TestAGangThatNeverGetsItsTurnIsFound(t *testing.T) {
	// view is one session, in which the given pods of a queue of this service type run.
	view := func(serviceType string, running []string) *sessionView {
		gang := &group{name: "w", queue: "inf", min: 2, phase: scheduling.PodGroupInqueue}
		for _, name := range []string{"w-0", "w-1"} {
			gang.waiting = append(gang.waiting, &pod{name: name, uid: name, group: "w", cards: 1, names: []string{"A"}})
		}

		v := &sessionView{
			nodes: []*nodeView{{name: "n", card: "A", cards: 2 - len(running), total: 2, apart: map[string]int{}}},
			queues: map[string]*queue{
				"inf": {priority: 9, kind: "inference", free: map[string]int{"A": 2}},
				"tra": {priority: 1, kind: serviceType, gives: true, free: map[string]int{"A": 0}},
			},
			groups: []*group{gang},
		}
		for _, name := range running {
			v.groups = append(v.groups, placedGroup(name, "tra", 0))
		}

		return v
	}

	for t, tc := range check.Cases(t, map[string]struct {
		serviceType string
		sessions    []string
		wantFailure string
	}{
		"both pods end, and none starts":               {"training", []string{"a b", "a", ""}, ""},
		"4 pods end, and each time another one starts": {"training", []string{"a b", "b c", "c d", "d e", "e f"}, ""},
		"5 pods end, and each time another one starts": {
			"training", []string{"a b", "b c", "c d", "d e", "e f", "f g"}, "does not get its turn",
		},
		"5 pods end, of a type from which it may not reclaim": {"notebook", []string{"a b", "b c", "c d", "d e", "e f", "f g"}, ""},
	}) {
		w := &sequenceRun{sessionMemory: newSessionMemory(), server: newServer()}
		wrong := ""
		for _, running := range tc.sessions {
			w.last = view(tc.serviceType, strings.Fields(running))
			wrong = w.checkTurns(w.last)
		}
		check.Equal(t, "failure", tc.wantFailure, failureKind(wrong))
	}
}
