package capacitycard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
	"cardquota.dev/operator/internal/workload"
)

// ownByVCJob makes a pod one of the Volcano job t.
func ownByVCJob(p *corev1.Pod) {
	session.OwnedBy("batch.volcano.sh/v1alpha1", "Job", "t", "t")(p)
	p.Annotations["volcano.sh/job-name"] = "t"
	p.Annotations["volcano.sh/job-version"] = "0"
}

// markOutOfSync sets the annotation by which Volcano's job controller deletes a pod and creates it again.
func markOutOfSync(p *corev1.Pod) { annotate("volcano.sh/controller-out-of-sync", "true")(p) }

// TestOutOfSyncPodsAreReleasing: the action cardreclaim requests the eviction of a pod of a Volcano job by an annotation,
// the mark. Volcano's job controller deletes marked pods a moment later. From the request on the plugin gives the pod the
// status Releasing, as Volcano does for deleted pods. So its card can be promised to another pod. The pod keeps its
// charge until it is deleted.
//
// The mark counts only where it leads to a deletion: on a pod of a Volcano job, while cardreclaim runs, as that deletes
// marked pods that stay. Otherwise a user could protect cards from eviction with the mark.
//
// A script is about the four pods of gang t, which use a card each on node a. "session" opens a session in which
// cardreclaim runs. delete lets a pod terminate, remove removes it at once, and restart starts a new scheduler.
// wantReleasing are the pods with that status, and wantCharged is how many cards are charged to the queue.
// wantOverdueAfter are the pods whose eviction was requested longer ago than that, and that are not deleted.
// wantRequested is how many requests the plugin remembers. A line without pods wants none.
func TestOutOfSyncPodsAreReleasing(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		owner, mark func(*corev1.Pod) // of the pods when the script begins
		script      string
	}{
		"one pod is evicted: its eviction is requested, it is marked, then deleted": {owner: ownByVCJob, script: `
			session
			wantReleasing
			wantCharged 4
			requestEviction t-1
			session
			wantReleasing t-1
			wantCharged 4
			# Volcano counts 3 pods as ready for the gang.
			wantReady 3
			wantOverdueAfter 30s
			wait 20s
			mark t-1
			session
			wantReleasing t-1
			wantCharged 4
			wantOverdueAfter 20s
			wait 11s
			session
			# The time counts from the request, 31 seconds ago, not from the mark, 11 seconds ago.
			wantOverdueAfter 30s t-1
			delete t-1
			session
			wantReleasing t-1
			wantCharged 3
			wantOverdueAfter 0s
			wantRequested 0`},
		"the plugin forgets requested evictions when the pods are gone or have failed": {owner: ownByVCJob, script: `
			session
			requestEviction t-1
			session
			requestEviction t-2
			session
			wantReleasing t-1 t-2
			wantCharged 4
			remove t-1
			fail t-2
			session
			wantReleasing
			wantCharged 2
			wantRequested 0`},
		"a new scheduler sees the mark, and counts the time from its own first session": {owner: ownByVCJob, mark: changePod("t-3", markOutOfSync), script: `
			session
			wantReleasing t-3
			wantCharged 4
			wait 31s
			wantOverdueAfter 30s t-3
			restart
			session
			wantReleasing t-3
			wantCharged 4
			wantOverdueAfter 30s`},
		"a mark on pods without an owner means nothing": {mark: markOutOfSync, script: `
			session
			wantReleasing
			wantCharged 4
			wait 1h
			wantOverdueAfter 0s`},
		"a mark on a Deployment's pods means nothing": {owner: session.OwnedBy("apps/v1", "ReplicaSet", "o", "o"), mark: markOutOfSync, script: `
			session
			wantReleasing
			wantCharged 4
			wait 1h
			wantOverdueAfter 0s`},
		"a mark on a Kubernetes Job's pods means nothing": {owner: session.OwnedBy("batch/v1", "Job", "o", "o"), mark: markOutOfSync, script: `
			session
			wantReleasing
			wantCharged 4
			wait 1h
			wantOverdueAfter 0s`},
		"a mark means nothing on pods with a Volcano job as owner, but without its annotation job-name": {
			owner: func(p *corev1.Pod) {
				ownByVCJob(p)
				delete(p.Annotations, "volcano.sh/job-name")
			},
			mark: markOutOfSync,
			script: `
			session
			wantReleasing
			wantCharged 4
			wantOverdueAfter 0s
			wait 1h
			session
			wantReleasing
			wantCharged 4
			wantOverdueAfter 0s
			wait 1h
			session
			wantReleasing
			wantCharged 4
			wantOverdueAfter 0s`},
		"a mark counts in the first session of a scheduler, then means nothing while cardreclaim does not run": {owner: ownByVCJob, mark: markOutOfSync, script: `
			sessionWithoutCardreclaim
			# The first session does not know yet whether cardreclaim runs.
			wantReleasing t-0 t-1 t-2 t-3
			wantCharged 4
			wait 1h
			sessionWithoutCardreclaim
			wantReleasing
			wantCharged 4
			wantRequested 0
			wait 1h
			sessionWithoutCardreclaim
			wantReleasing
			wantCharged 4
			wantRequested 0
			session
			# A session knows only whether cardreclaim ran in the session before. There it did not run.
			wantReleasing
			wantCharged 4
			session
			wantReleasing t-0 t-1 t-2 t-3
			wantCharged 4
			sessionWithoutCardreclaim
			sessionWithoutCardreclaim
			wantReleasing
			wantCharged 4`},
	}) {
		s := &evictionScript{scene: newReclaimScene(t, "job t queue=tra min=4 running=a*4", tc.owner, tc.mark).useClock()}

		for _, line := range words.Lines(tc.script) {
			evictionSteps[line.Verb](s, line)
		}
	}
}

// evictionScript is a scene with a clock, and what its open session gives to cardreclaim.
type evictionScript struct {
	*scene
	policy *Plugin
}

// evictionSteps are the lines of its scripts by their first word. The other words are pods, a time span or a count.
var evictionSteps = map[string]func(*evictionScript, words.Line){
	"session":                   func(s *evictionScript, _ words.Line) { s.policy = s.openSession().reclaimPolicy() },
	"sessionWithoutCardreclaim": func(s *evictionScript, _ words.Line) { s.openSession() },
	"restart": func(s *evictionScript, _ words.Line) {
		s.m = NewCache()
		s.m.now = func() time.Time { return s.clock }
	},
	"wait":            func(s *evictionScript, line words.Line) { s.clock = s.clock.Add(mustParseDuration(line.Name())) },
	"requestEviction": func(s *evictionScript, line words.Line) { s.policy.Evictions.MarkEvicting(s.Task(line.Name())) },
	"mark":            func(s *evictionScript, line words.Line) { s.Update(line.Name(), markOutOfSync) },
	"delete":          func(s *evictionScript, line words.Line) { s.Update(line.Name(), deleted) },
	"fail": func(s *evictionScript, line words.Line) {
		s.Update(line.Name(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	},
	"remove": func(s *evictionScript, line words.Line) { s.Cache.DeletePod(s.Pod(line.Name())) },

	"wantReleasing": (*evictionScript).checkReleasing,
	"wantCharged": func(s *evictionScript, line words.Line) {
		check.Equal(s.t, line.String()+": cards that are charged to the queue", line.Name(), fmt.Sprint(s.usedCards("tra", "A")))
	},
	"wantReady": func(s *evictionScript, line words.Line) {
		check.Equal(s.t, line.String()+": pods that Volcano counts for the gang", line.Name(), fmt.Sprint(s.Job("t").ReadyTaskNum()))
	},
	"wantOverdueAfter": func(s *evictionScript, line words.Line) {
		overdue := s.policy.Evictions.OverdueEvictions(mustParseDuration(line.Name()))
		check.Equal(s.t, line.String()+": pods that are not deleted so long after the request", strings.Join(line.Names[1:], " "), session.Names(overdue))
	},
	"wantRequested": func(s *evictionScript, line words.Line) {
		check.Equal(s.t, line.String()+": requested evictions in the cache", line.Name(), fmt.Sprint(len(s.m.evictingSince)))
	},
}

// checkReleasing compares which pods are Releasing, in the session, on their node, and in the sum of the node.
func (s *evictionScript) checkReleasing(line words.Line) {
	node := s.Ssn.Nodes["a"]
	check.Equal(s.t, line.String()+": in the session", strings.Join(line.Names, " "), session.Names(s.In(api.Releasing)))
	check.Equal(s.t, line.String()+": thousandths of a card", float64(1000*len(line.Names)), node.Releasing.ScalarResources[gpu])
	for _, pod := range line.Names {
		check.Equal(s.t, line.String()+": status of "+pod+" on its node", api.Releasing, node.Tasks[api.TaskID("ns/"+pod)].Status)
	}
}

func mustParseDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// TestOutOfSyncPodOnAnUnknownNodeIsReleasing: Volcano's job controller deletes a pod of a Volcano job that has a certain
// annotation, the mark. Such a pod has the status Releasing, here pod t-4, although the session has no node "lost".
func TestOutOfSyncPodOnAnUnknownNodeIsReleasing(t *testing.T) {
	s := newReclaimScene(t, "job t queue=tra min=4 running=a*4,lost", ownByVCJob, changePod("t-4", markOutOfSync)).openSession()
	check.Equal(t, "status of the pod on node lost", api.Releasing, s.Task("t-4").Status)
}

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

		check.Equal(t, "reported pods", tc.wantReported, strings.Join(s.otherBindings.boundByOthersNames(), " "))
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
	s := &bindingScript{Cache: NewCache(), at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), scheduler: "volcano"}
	s.now = func() time.Time { return s.at }
	s.cacheSync.synced = true
	s.resolver = workload.Resolver{Inventory: s.inventory, Schedulers: []string{"volcano"}}
	return s
}

func (s *bindingScript) runScript(script string) {
	for _, line := range words.Lines(script) {
		bindingSteps[line.Verb](s, line)
	}
}

// bindingSteps are the lines of its scripts by their first word.
var bindingSteps = map[string]func(*bindingScript, words.Line){
	"unsync":           func(s *bindingScript, _ words.Line) { s.cacheSync.synced = false },
	"useSchedulerName": func(s *bindingScript, line words.Line) { s.scheduler = line.Name() },
	"wait":             func(s *bindingScript, line words.Line) { s.at = s.at.Add(mustParseDuration(line.Name())) },
	"settle": func(s *bindingScript, _ words.Line) {
		s.runSession(nil, nil)
		s.at = s.at.Add(bindingGracePeriod)
	},
	// The cards of nodes change, so the next session reads each pod again.
	"changeCards": func(s *bindingScript, _ words.Line) { s.requestGeneration++ },
	"see":         func(s *bindingScript, line words.Line) { s.runSession(s.podToSee(line.Name()), line.Words) },
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
	s.session++
	s.podsSeen = 0
	s.otherBindings.openSession(s.session, s.cacheSync.synced, s.at)
	if pod != nil {
		s.observePod(pod)
	}

	s.forgetUnseenPods()
	for _, word := range does {
		switch word.Key {
		case "place":
			s.otherBindings.assume("p", word.Value)
		case "undo":
			s.otherBindings.forgetAssumed("p", word.Value)
		case "write":
			pod.Spec.NodeName = word.Value
		}
	}
	s.closeOtherBindings()
}

// TestAtMostFivePodsBoundByOthersAreReported: another scheduler bound seven pods, from ns/1 to ns/7. The report names only
// the first five, in the order of their names.
func TestAtMostFivePodsBoundByOthersAreReported(t *testing.T) {
	s := newOtherBindings()
	for _, n := range []int{6, 2, 7, 4, 1, 3, 5} {
		s.boundByOthers[types.UID(fmt.Sprint(n))] = fmt.Sprint("ns/", n)
	}
	check.Equal(t, "reported pods", "[ns/1 ns/2 ns/3 ns/4 ns/5]", fmt.Sprint(s.boundByOthersNames()))
}

// TestBindingsOfDeletedPodsAreForgotten: the plugin remembers where it placed a pod until a session sees the pod on its
// node. If the pod is deleted before that, the plugin forgets the placement after more than ten minutes.
//
// In the script "see" is a session. The first one sees a pending pod and places it on node n1. The others do not see it.
func TestBindingsOfDeletedPodsAreForgotten(t *testing.T) {
	s := newBindingScript()
	s.runScript("see pending place=n1; see nothing; wait 10m; see nothing")
	check.Equal(t, "placements that the plugin remembers after ten minutes", 1, len(s.otherBindings.pending))

	s.runScript("wait 1s; see nothing")
	check.Equal(t, "placements that the plugin remembers after more than ten minutes", 0, len(s.otherBindings.pending))
	check.Equal(t, "placements in the last session", 0, len(s.otherBindings.assumed))
}

// TestEvictedPodsCountAsUsed: the cards of a pod whose eviction was requested count as used until the pod is deleted,
// because the eviction may fail. Only while cardreclaim searches further victims, these cards count as terminating, so that
// it evicts no other pods for the same cards. Four pods use a card each, and the eviction of j-1 is requested. The rule is
// the same for flat queues and in a tree.
func TestEvictedPodsCountAsUsed(t *testing.T) {
	for _, hierarchy := range []string{"Tree", "Flat"} {
		s := newScene(t, `node a model=A cards=8
			queue t quota={"A":4} guarantee={"A":2}
			queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}
			job j queue=q min=1 running=a*4`)
		s.withArguments(framework.Arguments{"queueHierarchy": hierarchy, "cardUnlimitedCpuMemory": true}).openSession()
		s.reclaimPolicy().Evictions.MarkEvicting(s.Task("j-1"))
		s.openSession() // the session after the request

		expectUsage := func(when, want string) {
			terminating, _ := s.p.ledger.Terminating("q", "A")
			check.Equal(t, hierarchy+" "+when, want, fmt.Sprintf("%d used, %d terminating", s.usedCards("q", "A"), terminating))
		}
		expectUsage("before the search", "4 used, 0 terminating")

		endSearch := s.reclaimPolicy().Evictions.AssumeEvicted()
		expectUsage("during the search", "3 used, 1 terminating")

		endSearch()
		expectUsage("after the search", "4 used, 0 terminating")
	}
}
