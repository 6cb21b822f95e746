package capacitycard

import (
	"fmt"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// reservedCards returns how many cards enqueued jobs of queue q reserve in the open session.
func (s *scene) reservedCards() (sum int) {
	for _, d := range s.p.sums.Of("q").Cards {
		sum += int(d.Count)
	}
	return sum
}

// uncheckedJob is a PodGroup without pods and without minResources, which Volcano enqueues without asking any plugin.
// request is its annotation card.request.
func uncheckedJob(name, phase, request string) string {
	return fmt.Sprintf("job %s queue=q min=1 phase=%s request=%s;", name, phase, request)
}

// checkedJob is the PodGroup of a job without pods that needs so many cards A, in phase Pending. Volcano asks the
// plugin whether to enqueue it.
func checkedJob(name string, cards int) string {
	return fmt.Sprintf(`job %s queue=q min=1 phase=Pending minCards=%d request={"A":%d};`, name, cards, cards)
}

// quotaOfFour is a queue q with a quota of four cards A, in a cluster with eight.
const quotaOfFour = `node a model=A; queue q quota={"A":4}; namespace ns team=lab;`

// TestOnlyEnqueuedRequestsAreReserved: an enqueued job (PodGroup phase Inqueue) reserves the cards that it needs
// until its pods are placed. Volcano enqueues a PodGroup without minResources without asking the plugin (uncheckedJob),
// and the annotation card.request of such a PodGroup may say any number. The job reserves cards only if the plugin
// would have enqueued it, within the quota of 4 A. The next session and a new process of the scheduler find the same.
func TestOnlyEnqueuedRequestsAreReserved(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs         string
		wantReserved int
	}{
		"job j requests 3 A: 3 are reserved":                 {uncheckedJob("j", "Pending", `{"A":3}`), 3},
		"job j requests a million A: none":                   {uncheckedJob("j", "Pending", `{"A":1000000}`), 0},
		"job j requests 5 A and was enqueued before: none":   {uncheckedJob("j", "Inqueue", `{"A":5}`), 0},
		"job j requests 4 A and was enqueued before: 4":      {uncheckedJob("j", "Inqueue", `{"A":4}`), 4},
		"job j requests one B, and the quota has none: none": {uncheckedJob("j", "Pending", `{"B":1}`), 0},
		"job j requests 4 of A or B: 4":                      {uncheckedJob("j", "Pending", `{"A|B":4}`), 4},
		"job j requests 0 cards: none":                       {uncheckedJob("j", "Pending", `{"A":0,"X":0}`), 0},
		"two jobs request 3 A each, and one fits: 3": {
			uncheckedJob("i", "Pending", `{"A":3}`) + uncheckedJob("j", "Pending", `{"A":3}`), 3,
		},
		"Volcano asked the plugin about job j, which requests 2 A: 2": {checkedJob("j", 2), 2},
		"the queue selects namespaces of team chat, and that of job j is of team lab: none": {
			`queue q quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}};` + uncheckedJob("j", "Pending", `{"A":3}`), 0,
		},
	}) {
		s := newScene(t, quotaOfFour+tc.jobs).enqueueAndAllocate()
		check.Equal(t, "reserved cards in the session", tc.wantReserved, s.reservedCards())
		check.Equal(t, "reserved cards in the next session", tc.wantReserved, s.reopen().reservedCards())

		s.m = NewCache()
		check.Equal(t, "reserved cards in a new process", tc.wantReserved, s.reopen().reservedCards())
	}
}

// TestRefusedJobBlocksNoOtherJob: a job that requests a million cards cannot start with a quota of 4. It reserves
// nothing, so job j with 4 cards is enqueued in the same session. The next session would enqueue j too.
func TestRefusedJobBlocksNoOtherJob(t *testing.T) {
	s := newScene(t, quotaOfFour+uncheckedJob("huge", "Pending", `{"A":1000000}`)+checkedJob("j", 4)).enqueueAndAllocate()
	s.checkEnqueued(t, "j", "")

	job := s.Job("j")
	job.PodGroup.Status.Phase = scheduling.PodGroupPending
	_, refusal := s.reopen().p.enqueue.Check(job)
	check.That(t, refusal == nil, "the next session refuses the job: %v", refusal)
}

// TestReservationCoversTheEnqueuedRequest: jobs j and other request 2 cards each, within the quota of 4. After the
// session that enqueues jobs, the owner of j raises the request of j to a million. In the second row, j also has a
// waiting pod of 1000 cards, and its PodGroup is Running. The plugin would not enqueue j with such a request. So j
// reserves nothing, and job other keeps its 2 cards.
func TestReservationCoversTheEnqueuedRequest(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		phase scheduling.PodGroupPhase
		pods  string
	}{
		"job j has no pods":                          {scheduling.PodGroupInqueue, ""},
		"job j has a pod of 1000 cards, which waits": {scheduling.PodGroupRunning, " pending=1 cards=1000"},
	}) {
		s := newScene(t, quotaOfFour+strings.TrimSuffix(checkedJob("j", 2), ";")+tc.pods+";"+checkedJob("other", 2)).enqueueAndAllocate()
		group := s.Job("j").PodGroup
		group.Status.Phase = tc.phase
		group.Annotations["volcano.sh/card.request"] = `{"A":1000000}`
		group.Spec.MinResources = nil

		check.Equal(t, "reserved cards", 2, s.reopen().reservedCards())
	}
}

// TestSumOfManyRequestsDoesNotOverflow: 1,100 pods request so much CPU and memory that the sum is beyond an int64.
// The minimum of their job is then the largest number, and not a negative one that would fit any limit.
func TestSumOfManyRequestsDoesNotOverflow(t *testing.T) {
	s := newScene(t, quotaOfFour+"job j queue=q min=1100 pending=1100 cards=0 phase=Pending minCards=0",
		requests("cpu", "9007199254740992"), requests("memory", "8Ei")).enqueueAndAllocate()

	minimum, _ := s.p.enqueue.MissingMinimum(s.Job("j"))
	check.Equal(t, "thousandths of a CPU", math.MaxInt64, minimum.MilliCPU)
	check.Equal(t, "bytes of memory", math.MaxInt64, minimum.Memory)
}

// TestLauncherKeepsTheReservationOfItsGang: job j has two pods with a card each and a launcher without cards, and job
// other needs two cards. With cardUnlimitedCpuMemory only pods without cards need CPU quota. The quota of 1 CPU is in
// use by job cpu, so the launcher gets none. The scheduler sees the launcher only when the pods of j exist, after j was
// enqueued. Still j keeps its 2 reserved cards. With the 2 of job other, 4 cards are reserved.
func TestLauncherKeepsTheReservationOfItsGang(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":4} cpu=1
		job j queue=q min=3 phase=Pending minCards=2 request={"A":2} pending=2
		job other queue=q min=2 minCards=2 request={"A":2}
		job cpu queue=q min=1 running=a cards=0`).withArguments(framework.Arguments{"cardUnlimitedCpuMemory": true})
	launcher := s.PodsOf("job launcher queue=q min=3 pending=1 cards=0", annotate("scheduling.k8s.io/group-name", "j"))
	pods := s.Pods
	s.Pods = s.Pods[2:] // those of j do not exist yet
	s.enqueueAndAllocate()
	check.Equal(t, "reserved cards when the job is enqueued", 4, s.reservedCards())

	s.Groups[0].Status.Phase = v1beta1.PodGroupInqueue
	s.Pods = append(pods, launcher...)
	s.Cache = nil
	check.Equal(t, "reserved cards when its pods exist", 4, s.openSession().reservedCards())
}

// TestReservationSurvivesALoweredQuota: job j was enqueued with 4 cards. While the quota is 1, j reserves nothing,
// since it cannot start. When the quota is raised again, j has its reservation again. The scheduler forgets a job
// that did not wait in the last session, so each quota lasts three sessions.
func TestReservationSurvivesALoweredQuota(t *testing.T) {
	s := newScene(t, quotaOfFour+checkedJob("j", 4)).enqueueAndAllocate()
	for _, step := range []struct{ quota, wantReserved int }{{4, 4}, {1, 0}, {5, 4}} {
		s.annotateQueue("q", "volcano.sh/card.quota", fmt.Sprintf(`{"A":%d}`, step.quota))
		for range 3 {
			check.Equal(t, fmt.Sprintf("reserved cards with a quota of %d", step.quota), step.wantReserved, s.reopen().reservedCards())
			s.m.Reservations.RemoveStale()
		}
	}

	delete(s.Ssn.Jobs, "ns/j")
	s.reopen().m.Reservations.RemoveStale()
	check.Equal(t, "reservations that are remembered after the PodGroup is gone", 0, len(s.m.Reservations))
}

// TestUnknownCardsAreParsedOnceAndNotReserved: users may write requests for many cards that no queue has. The work of
// a session must not grow with that. 20 PodGroups request as many alternatives of as many cards as card.request may
// have. Each is parsed once and again only when it changes. None is counted in the queue beside job j, which requests
// cards of the quota.
func TestUnknownCardsAreParsedOnceAndNotReserved(t *testing.T) {
	s := newScene(t, quotaOfFour+checkedJob("j", 4))
	for g := range 20 {
		var entries []string
		for e := range card.MaxQuotaEntries {
			var names []string
			for a := range card.MaxAlternatives {
				names = append(names, fmt.Sprintf("X%d-%d-%d", g, e, a))
			}
			entries = append(entries, fmt.Sprintf("%q:1", strings.Join(names, "|")))
		}
		s.addObjects(uncheckedJob(fmt.Sprint("crowd-", g), "Pending", "{"+strings.Join(entries, ",")+"}"))
	}

	s.enqueueAndAllocate()
	group := s.Job("crowd-7")
	first := s.p.enqueue.PodGroupRequestFor(group)
	for session := range 3 {
		check.Equal(t, fmt.Sprintf("requests that the queue counts in session %d", session), 1, len(s.p.sums.Of("q").Cards))
		check.That(t, s.p.enqueue.PodGroupRequestFor(group) == first, "session %d: an unchanged PodGroup is parsed again", session)
		s.reopen()
	}

	group.PodGroup.Annotations["volcano.sh/card.request"] = `{"A":1}`
	check.Equal(t, "requests of the PodGroup after a change", 1, len(s.reopen().p.enqueue.PodGroupRequestFor(group).JobRequest.Cards))

	last := s.Job("j")
	clear(s.Ssn.Jobs)
	for range 3 { // the others are forgotten after two sessions without them
		s.reopen().p.enqueue.PodGroupRequestFor(last)
		s.p.cache.podGroups.RemoveStale(s.p.cache.SessionCount)
	}
	check.Equal(t, "PodGroups that are remembered after the others are gone", 1, len(s.p.cache.podGroups))
}

// TestPodGroupOfADeploymentHasNoTotal: each pod of a Deployment has a PodGroup of its own, but copies the annotation
// card.request of the template, here 9 cards for all replicas. So only its minimum of 1 card is reserved.
func TestPodGroupOfADeploymentHasNoTotal(t *testing.T) {
	s := newScene(t, quotaOfFour+`job j queue=q min=1 phase=Pending minCards=1 request={"A":9}`)
	s.Groups[0].OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "j-1", UID: "j-1"}}

	check.Equal(t, "reserved cards", 1, s.enqueueAndAllocate().reservedCards())
}
