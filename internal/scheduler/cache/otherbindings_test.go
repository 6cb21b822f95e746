package cache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/words"
	"cardquota.dev/operator/internal/workload"
)

// TestPodsBoundByAnotherSchedulerAreReported: two schedulers of one name would exceed quotas together. The plugin detects
// the other scheduler by a pod that a session saw pending. Later the pod has a node on which this process never placed it.
// A placement that was undone does not count. Only the first node that a pod has is checked.
//
// In the scripts "settle" waits the 30 seconds in which a binding may still be that of the process before. "see" is a
// session that sees pod ns/p: pending, on node n1 or n2, or not at all ("nothing"). "see same" sees the same object as the
// session before, every other "see" a new one. The words after it say what this process does in that session: it places the
// pod (place=n1), undoes that (undo=n1), or Volcano writes a node into the object (write=n1).
//
// After "changeCards" the plugin reads each pod again, because cards of nodes have changed. "unsync" means that Volcano's
// cache is not synced. wantReported is the name of the pod if the plugin reports it.
func TestPodsBoundByAnotherSchedulerAreReported(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ script, wantReported string }{
		"pending, then bound without a placement":                                  {"settle; see pending; see n1", "ns/p"},
		"pending for several sessions, then bound without a placement":             {"settle; see pending; see same; see pending; see n1", "ns/p"},
		"bound to another node than where this process placed it":                  {"settle; see pending place=n1; see n2", "ns/p"},
		"bound to a node where this process undid the placement":                   {"settle; see pending place=n1 undo=n1; see n1", "ns/p"},
		"bound where this process placed it":                                       {"settle; see pending place=n1; see n1", ""},
		"bound where this process placed it 24 hours before":                       {"settle; see pending place=n1; wait 24h; see pending; see n1", ""},
		"placed on two nodes in two sessions, bound to the first":                  {"settle; see pending place=n1; see pending place=n2; see n1", ""},
		"placed on two nodes in one session, bound to the first":                   {"settle; see pending place=n1 place=n2; see n1", ""},
		"placed twice on n1, the second time undone, and bound to n1":              {"settle; see pending place=n1; see pending place=n1 undo=n1; see n1", ""},
		"placed on n2 after n1 was undone, with a repeated event, and bound to n2": {"settle; see pending place=n1 undo=n1 place=n2 place=n2; see n2", ""},
		"not seen in a session between placement and binding":                      {"settle; see pending place=n1; see nothing; see pending; see n1", ""},
		"Volcano wrote a node into the object of the pod, which is no binding, and then undid the placement": {
			"settle; see pending write=n1 place=n1 undo=n1; changeCards; see same; see pending", ""},
		"bound already when a session sees it first":              {"settle; see n1; see n1", ""},
		"an old object shows the pod pending after it was bound":  {"settle; see n1; see pending; see n1", ""},
		"a pod with another scheduler's name":                     {"useSchedulerName other; settle; see pending; see n1", ""},
		"pending only before the 30 seconds are over":             {"see pending; wait 29s; see pending; wait 1h; see n1", ""},
		"pending once the 30 seconds are over":                    {"see pending; wait 30s; see pending; see n1", "ns/p"},
		"the cache is not synced, so that sessions may miss pods": {"unsync; settle; see pending; see n1", ""},
		"the pod is gone: the report ends":                        {"settle; see pending; see n1; see nothing", ""},
		"the pod stays: the report stays":                         {"settle; see pending; see n1; see same; see n1", "ns/p"},
	}) {
		s := newBindingScript()
		s.runScript(tc.script)

		check.Equal(t, "reported pods", tc.wantReported, strings.Join(s.OtherBindings.BoundByOthersNames(), " "))
	}
}

// bindingScript is what a process sees of pod ns/p and does with it, one session after the other.
type bindingScript struct {
	*Cache
	at        time.Time
	scheduler string
	last      *corev1.Pod
}

func newBindingScript() *bindingScript {
	s := &bindingScript{Cache: New(), at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), scheduler: "volcano"}
	s.Now = func() time.Time { return s.at }
	s.Sync.Synced = true
	s.Resolver = workload.Resolver{Inventory: s.Inventory, Schedulers: []string{"volcano"}}
	return s
}

func (s *bindingScript) runScript(script string) {
	for _, line := range words.Lines(script) {
		bindingSteps[line.Verb](s, line)
	}
}

// bindingSteps are the lines of its scripts by their first word.
var bindingSteps = map[string]func(*bindingScript, words.Line){
	"unsync":           func(s *bindingScript, _ words.Line) { s.Sync.Synced = false },
	"useSchedulerName": func(s *bindingScript, line words.Line) { s.scheduler = line.Name() },
	"wait":             func(s *bindingScript, line words.Line) { s.waitFor(line.Name()) },
	"settle": func(s *bindingScript, _ words.Line) {
		s.runSession(nil, nil)
		s.at = s.at.Add(bindingGracePeriod)
	},
	// The cards of nodes change, so the next session reads each pod again.
	"changeCards": func(s *bindingScript, _ words.Line) { s.RequestGeneration++ },
	"see":         func(s *bindingScript, line words.Line) { s.runSession(s.podToSee(line.Name()), line.Words) },
}

// waitFor lets a duration pass.
func (s *bindingScript) waitFor(text string) {
	duration, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	s.at = s.at.Add(duration)
}

// podToSee returns the pod that a session sees, nil for "nothing".
func (s *bindingScript) podToSee(state string) *corev1.Pod {
	switch state {
	case "nothing":
		return nil
	case "same":
	default:
		s.last = builder.Pod("ns", "p").UID("p").Scheduler(s.scheduler).Node(strings.TrimPrefix(state, "pending")).Obj()
	}
	return s.last
}

// runSession opens a session that sees a pod, or none for nil, and closes it after what it does.
func (s *bindingScript) runSession(pod *corev1.Pod, does []words.Word) {
	s.SessionCount++
	s.podsSeen = 0
	s.OtherBindings.openSession(s.SessionCount, s.Sync.Synced, s.at)
	if pod != nil {
		s.ObservePod(pod)
	}

	s.ForgetUnseenPods()
	for _, word := range does {
		switch word.Key {
		case "place":
			s.OtherBindings.Assume("p", word.Value)
		case "undo":
			s.OtherBindings.ForgetAssumed("p", word.Value)
		case "write":
			pod.Spec.NodeName = word.Value
		}
	}
	s.CloseOtherBindings()
}

// TestAtMostFivePodsBoundByOthersAreReported: another scheduler bound seven pods, from ns/1 to ns/7. The report names only
// the first five, in the order of their names.
func TestAtMostFivePodsBoundByOthersAreReported(t *testing.T) {
	s := newOtherBindings()
	for _, n := range []int{6, 2, 7, 4, 1, 3, 5} {
		s.boundByOthers[types.UID(fmt.Sprint(n))] = fmt.Sprint("ns/", n)
	}
	check.Equal(t, "reported pods", "[ns/1 ns/2 ns/3 ns/4 ns/5]", fmt.Sprint(s.BoundByOthersNames()))
}

// TestBindingsOfDeletedPodsAreForgotten: the plugin remembers where it placed a pod until a session sees the pod on its
// node. If the pod is deleted before that, the plugin forgets the placement after more than ten minutes.
//
// In the script "see" is a session. The first one sees a pending pod and places it on node n1. The others do not see it.
func TestBindingsOfDeletedPodsAreForgotten(t *testing.T) {
	s := newBindingScript()
	s.runScript("see pending place=n1; see nothing; wait 10m; see nothing")
	check.Equal(t, "placements that the plugin remembers after ten minutes", 1, len(s.OtherBindings.pending))

	s.runScript("wait 1s; see nothing")
	check.Equal(t, "placements that the plugin remembers after more than ten minutes", 0, len(s.OtherBindings.pending))
	check.Equal(t, "placements in the last session", 0, len(s.OtherBindings.assumed))
}
