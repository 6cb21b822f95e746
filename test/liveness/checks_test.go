package liveness

import (
	"testing"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling"

	"cardquota.dev/operator/internal/testing/check"
)

// preempted returns a view in which hi, a job of one pod of queue q, waits for the card of node n that
// was freed for it. Pods of others, on that node now, are given.
func preempted(others ...*group) *sessionView {
	free := 1
	var groups []*group
	for _, g := range append(others, &group{name: "hi", queue: "q", min: 1, priority: 9, phase: scheduling.PodGroupInqueue, waiting: []*pod{{name: "hi-0", uid: "hi-0", group: "hi", cards: 1, names: []string{"A"}}}}) {
		free -= cardsOf(g.placed)
		groups = append(groups, g)
	}

	unused := map[string]int{"A": 4}
	return &sessionView{
		nodes:  []*nodeView{{name: "n", card: "A", cards: free, total: 1, apart: map[string]int{}}},
		queues: map[string]*queue{"q": {priority: 5, kind: "inference", free: unused, quota: unused}, "other": {priority: 5, free: unused}, "tra": {priority: 1, free: unused, kind: "training", gives: true}},
		groups: groups,
	}
}

// placedGroup returns a job with one pod on node n.
func placedGroup(name, queue string, priority int32) *group {
	return &group{name: name, queue: queue, min: 1, priority: priority, placed: []*pod{{name: name + "-0", uid: name + "-0", group: name, node: "n", cards: 1}}}
}

// wantOf returns what hi wants since a moment.
func wantOf(since time.Duration, preempts bool) *want {
	record := reclaimRecord{from: "lo", at: time.Now().Add(-since), placed: map[string]bool{}, promised: map[string]bool{"hi-0": true}}
	return &want{reclaimRecord: record, group: "hi", preempts: preempts, nodes: map[string]string{"hi-0": "n"}}
}

// TestKeptCardsAreChecked places another job on what was freed for hi.
func TestKeptCardsAreChecked(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		other    *group
		since    time.Duration
		preempts bool
		wrong    string
	}{
		"a job of another queue":               {placedGroup("x", "other", 9), time.Second, true, "took what was freed for another"},
		"which may take what was reclaimed":    {placedGroup("x", "other", 9), time.Second, false, ""},
		"but a job from which hi may take":     {placedGroup("x", "tra", 9), time.Second, false, "took what was freed for another"},
		"a job of equal priority":              {placedGroup("x", "q", 9), time.Second, true, "took what was freed for another"},
		"a job of higher priority":             {placedGroup("x", "q", 10), time.Second, true, ""},
		"five minutes later it is not kept":    {placedGroup("x", "other", 9), 5 * time.Minute, true, ""},
		"nor if it does not use the card":      {&group{name: "x", queue: "other", min: 1}, time.Second, true, ""},
		"who was promised the same has a want": {placedGroup("y", "other", 9), time.Second, true, ""},
	}) {
		w := &sequenceRun{sessionMemory: newSessionMemory()}
		w.wants["hi"] = wantOf(tc.since, tc.preempts)
		w.wants["y"] = wantOf(time.Hour, true)
		check.Equal(t, "wrong", tc.wrong, failureKind(w.checkKeptCards(preempted(), preempted(tc.other))))
	}

	w := &sequenceRun{sessionMemory: newSessionMemory()}
	w.wants["hi"] = wantOf(time.Second, true)
	both := preempted(placedGroup("x", "other", 9), placedGroup("y", "q", 10))
	both.nodes[0].cards = 0
	both.nodes[0].total = 2
	check.Equal(t, "beside a job of higher priority", "", failureKind(w.checkKeptCards(preempted(), both)))
}

// TestWantsAreServedOnce evicts another job for hi.
func TestWantsAreServedOnce(t *testing.T) {
	const twice = "evicted twice for the same"
	for t, tc := range check.Cases(t, map[string]struct {
		since    time.Duration
		promised string
		closed   bool
		wrong    string
	}{
		"for the same pod":           {time.Second, "hi-0", false, twice},
		"for another pod":            {time.Second, "hi-1", false, ""},
		"much later":                 {5 * time.Minute, "hi-0", false, ""},
		"because its node is closed": {time.Second, "hi-0", true, ""},
	}) {
		w := &sequenceRun{sessionMemory: newSessionMemory()}
		w.wants["hi"] = wantOf(tc.since, true)
		w.last = preempted()
		w.last.nodes[0].closed = tc.closed

		by := &group{name: "hi", queue: "q", promised: []*pod{{uid: tc.promised}}}
		check.Equal(t, "wrong", tc.wrong, failureKind(w.checkWantedTwice(w.last, by, &group{name: "lo"})))
	}
}

// TestTurnsAreCounted lets pods of training end and start while a gang of inference waits.
func TestTurnsAreCounted(t *testing.T) {
	gang := func() *group {
		g := &group{name: "w", queue: "inf", min: 2, phase: scheduling.PodGroupInqueue}
		for _, name := range []string{"w-0", "w-1"} {
			g.waiting = append(g.waiting, &pod{name: name, uid: name, group: "w", cards: 1, names: []string{"A"}})
		}
		return g
	}

	view := func(kind string, running ...string) *sessionView {
		v := &sessionView{
			nodes:  []*nodeView{{name: "n", card: "A", cards: 2 - len(running), total: 2, apart: map[string]int{}}},
			queues: map[string]*queue{"inf": {priority: 9, kind: "inference", free: map[string]int{"A": 2}}, "tra": {priority: 1, kind: kind, gives: true, free: map[string]int{"A": 0}}},
			groups: []*group{gang()},
		}
		for _, name := range running {
			v.groups = append(v.groups, &group{name: name, queue: "tra", min: 1, placed: []*pod{{name: name, uid: name, group: name, node: "n", cards: 1}}})
		}
		return v
	}

	for t, tc := range check.Cases(t, map[string]struct {
		kind     string
		sessions [][]string
		wrong    string
	}{
		"as many ends as are needed":  {"training", [][]string{{"a", "b"}, {"a"}, {}}, ""},
		"others start all the time":   {"training", [][]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}, {"e", "f"}, {"f", "g"}}, "does not get its turn"},
		"a few starts are allowed":    {"training", [][]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}, {"e", "f"}}, ""},
		"others that it may not take": {"notebook", [][]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}, {"e", "f"}, {"f", "g"}}, ""},
	}) {
		w := &sequenceRun{sessionMemory: newSessionMemory(), server: newServer()}
		wrong := ""
		for _, running := range tc.sessions {
			w.last = view(tc.kind, running...)
			wrong = w.checkTurns(w.last)
		}
		check.Equal(t, "wrong", tc.wrong, failureKind(wrong))
	}
}
