package capacitycard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
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
// status Releasing, as Volcano does for deleted pods. So Volcano can pipeline another pod to its card. The pod keeps its
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
			wait 1h
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
			# In the first of these sessions marks still count, because cardreclaim ran in the session before.
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
	plugin *Plugin
}

// evictionSteps are the lines of its scripts by their first word. The other words are pods, a time span or a count.
var evictionSteps = map[string]func(*evictionScript, words.Line){
	"session":                   func(s *evictionScript, _ words.Line) { s.plugin = s.openSession().pluginForActions() },
	"sessionWithoutCardreclaim": func(s *evictionScript, _ words.Line) { s.openSession() },
	"restart": func(s *evictionScript, _ words.Line) {
		s.m = NewCache()
		s.m.Now = func() time.Time { return s.clock }
	},
	"wait":            func(s *evictionScript, line words.Line) { s.clock = s.clock.Add(mustParseDuration(line.Name())) },
	"requestEviction": func(s *evictionScript, line words.Line) { s.plugin.Evictions.MarkEvicting(s.Task(line.Name())) },
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
		overdue := s.plugin.Evictions.OverdueEvictions(mustParseDuration(line.Name()))
		check.Equal(s.t, line.String()+": pods that are not deleted so long after the request", strings.Join(line.Names[1:], " "), session.Names(overdue))
	},
	"wantRequested": func(s *evictionScript, line words.Line) {
		check.Equal(s.t, line.String()+": requested evictions in the cache", line.Name(), fmt.Sprint(len(s.m.EvictingSince)))
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
		s.pluginForActions().Evictions.MarkEvicting(s.Task("j-1"))
		s.openSession() // the session after the request

		expectUsage := func(when, want string) {
			terminating, _ := s.p.Ledger.Terminating("q", "A")
			check.Equal(t, hierarchy+" "+when, want, fmt.Sprintf("%d used, %d terminating", s.usedCards("q", "A"), terminating))
		}
		expectUsage("before the search", "4 used, 0 terminating")

		endSearch := s.pluginForActions().Evictions.AssumeEvicted()
		expectUsage("during the search", "3 used, 1 terminating")

		endSearch()
		expectUsage("after the search", "4 used, 0 terminating")
	}
}
