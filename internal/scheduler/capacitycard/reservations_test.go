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

// reservedCards is what waits in the queue q of the session that is open.
func (s *scene) reservedCards() (sum int) {
	for _, d := range s.p.inqueue["q"].Cards {
		sum += int(d.Count)
	}
	return sum
}

// announces is a PodGroup without pods or minResources, which Volcano enqueues unasked. asks is
// that of a Volcano job, whose minResources are checked.
func announces(name, phase, request string) string {
	return fmt.Sprintf("job %s queue=q min=1 phase=%s request=%s;", name, phase, request)
}

func asks(name string, cards int) string {
	return fmt.Sprintf(`job %s queue=q min=1 phase=Pending minCards=%d request={"A":%d};`, name, cards, cards)
}

const fourA = `node a model=A; queue q quota={"A":4}; namespace ns team=lab;`

// TestOnlyEnqueuedRequestsAreReserved: a PodGroup that Volcano enqueued unasked reserves cards
// only if the check would accept it.
func TestOnlyEnqueuedRequestsAreReserved(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text string
		// want is what is reserved when the session ends, when the next one opens, and
		// when the first one of another process does.
		want int
	}{
		"what fits":                          {announces("j", "Pending", `{"A":3}`), 3},
		"more than the quota":                {announces("j", "Pending", `{"A":1000000}`), 0},
		"more than the quota, after a start": {announces("j", "Inqueue", `{"A":5}`), 0},
		"what fits, after a start":           {announces("j", "Inqueue", `{"A":4}`), 4},
		"another card":                       {announces("j", "Pending", `{"B":1}`), 0},
		"either card":                        {announces("j", "Pending", `{"A|B":4}`), 4},
		"no cards":                           {announces("j", "Pending", `{"A":0,"X":0}`), 0},
		"a namespace that the queue does not select": {`queue q quota={"A":4}` + chat + announces("j", "Pending", `{"A":3}`), 0},
		"two of which one fits":                      {announces("i", "Pending", `{"A":3}`) + announces("j", "Pending", `{"A":3}`), 3},
		"what was asked about":                       {asks("j", 2), 2},
	}) {
		s := newScene(t, fourA+tc.text).enqueueAndAllocate()

		check.Equal(t, "cards that are reserved in the session", tc.want, s.reservedCards())
		check.Equal(t, "in the next one", tc.want, s.reopen().reservedCards())
		s.m = NewCache()
		check.Equal(t, "by another process", tc.want, s.reopen().reservedCards())
	}
}

// TestRefusedJobBlocksNoOtherJob: other jobs are enqueued in its session and afterwards.
func TestRefusedJobBlocksNoOtherJob(t *testing.T) {
	s := newScene(t, fourA+announces("huge", "Pending", `{"A":1000000}`)+asks("j", 4)).enqueueAndAllocate()
	job := s.Job("j")
	check.Equal(t, fmt.Sprintf("the job that fits is : %s", job.JobFitErrors), scheduling.PodGroupInqueue, job.PodGroup.Status.Phase)
	job.PodGroup.Status.Phase = scheduling.PodGroupPending
	_, refusal := s.reopen().p.checkEnqueue(job)
	check.That(t, refusal == nil, "in the next session: %v", refusal)
}

// TestReservationCoversTheEnqueuedRequest: a later change of the PodGroup counts only as far as
// it would be enqueued now.
func TestReservationCoversTheEnqueuedRequest(t *testing.T) {
	for phase, pods := range map[scheduling.PodGroupPhase]string{scheduling.PodGroupInqueue: "", scheduling.PodGroupRunning: " pending=1 cards=1000"} {
		t.Run(string(phase), func(t *testing.T) {
			s := newScene(t, fourA+strings.TrimSuffix(asks("j", 2), ";")+pods+";"+asks("other", 2)).enqueueAndAllocate()
			group := s.Job("j").PodGroup
			group.Status.Phase = phase
			group.Annotations["volcano.sh/card.request"] = `{"A":1000000}`
			group.Spec.MinResources = nil
			check.Equal(t, "cards reserved", 2, s.reopen().reservedCards())
		})
	}
}

// TestSumOfManyRequestsDoesNotOverflow: however much they ask for, it is not less than nothing.
func TestSumOfManyRequestsDoesNotOverflow(t *testing.T) {
	s := newScene(t, fourA+"job j queue=q min=1100 pending=1100 cards=0 phase=Pending minCards=0", requests("cpu", "9007199254740992"), requests("memory", "8Ei")).enqueueAndAllocate()
	application, _ := s.p.missingMinimum(s.Job("j"))
	check.That(t, application.MilliCPU == math.MaxInt64 && application.Memory == math.MaxInt64, "the minimum is %d thousandths of a core and %d bytes", application.MilliCPU, application.Memory)
}

// TestLauncherKeepsTheReservationOfItsGang: before the pods exist it is unknown that one of
// them requests no cards, so its CPU counts. That CPU may be insufficient, but the job keeps
// its reserved cards.
func TestLauncherKeepsTheReservationOfItsGang(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":4} cpu=1; job j queue=q min=3 phase=Pending minCards=2 request={"A":2} pending=2; job other queue=q min=2 minCards=2 request={"A":2}`).
		addObjects("job cpu queue=q min=1 running=a cards=0").withArguments(framework.Arguments{"cardUnlimitedCpuMemory": true})

	launcher := s.PodsOf("job launcher queue=q min=3 pending=1 cards=0", annotate("scheduling.k8s.io/group-name", "j"))[0]
	pods := s.Pods
	s.Pods = s.Pods[2:]
	s.enqueueAndAllocate()
	check.Equal(t, "reserved when the job is admitted", 4, s.reservedCards())

	s.Groups[0].Status.Phase = v1beta1.PodGroupInqueue
	s.Pods = append(pods, launcher)
	s.Cache = nil
	check.Equal(t, "reserved when its pods exist", 4, s.openSession().reservedCards())
}

// TestReservationSurvivesALoweredQuota: an enqueued job stays ahead of later ones while it
// waits and may start. When the quota is raised again, it has its reservation again.
func TestReservationSurvivesALoweredQuota(t *testing.T) {
	s := newScene(t, fourA+asks("j", 4)).enqueueAndAllocate()
	for _, quota := range []int{4, 1, 5} {
		want := map[int]int{4: 4, 1: 0, 5: 4}[quota]
		lowered := *s.Ssn.Queues["q"].Queue
		lowered.Annotations = map[string]string{"volcano.sh/card.quota": fmt.Sprintf(`{"A":%d}`, quota)}
		s.Ssn.Queues["q"].Queue = &lowered
		for range 3 {
			check.Equal(t, fmt.Sprintf("cards that are reserved with a quota of %d", quota), want, s.reopen().reservedCards())
			s.m.reservations.removeStale()
		}
	}

	delete(s.Ssn.Jobs, "ns/j")
	s.reopen().m.reservations.removeStale()
	check.Equal(t, "admissions of a PodGroup that is gone", 0, len(s.m.reservations))
}

// TestUnknownCardsAreParsedOnceAndNotReserved: the work of a session is
// bounded by what queues have, and not by what users write. Each PodGroup of the
// crowd asks for as many choices among as many cards as a card.request may hold.
func TestUnknownCardsAreParsedOnceAndNotReserved(t *testing.T) {
	s := newScene(t, fourA+asks("j", 4))
	for g := range 20 {
		var entries []string
		for e := range card.MaxQuotaEntries {
			var names []string
			for a := range card.MaxAlternatives {
				names = append(names, fmt.Sprintf("X%d%d%d", g, e+256, a))
			}
			entries = append(entries, fmt.Sprintf("%q:1", strings.Join(names, "|")))
		}
		s.addObjects(announces(fmt.Sprint("crowd-", g), "Pending", "{"+strings.Join(entries, ",")+"}"))
	}

	s.enqueueAndAllocate()
	group := s.Job("crowd-7")
	first := s.p.podGroupRequestFor(group)
	for session := range 3 {
		got := s.p.inqueue["q"].Cards
		check.That(t, len(got) == 1, "session %d: %d requests wait, want that of the job with quota alone", session, len(got))
		check.That(t, s.p.podGroupRequestFor(group) == first, "session %d: an unchanged PodGroup was read again", session)
		s.reopen()
	}

	group.PodGroup.Annotations["volcano.sh/card.request"] = `{"A":1}`
	check.Equal(t, "requests after a change", 1, len(s.reopen().p.podGroupRequestFor(group).jobRequest.Cards))

	last := s.Job("j")
	clear(s.Ssn.Jobs)
	for range 3 {
		s.reopen().p.podGroupRequestFor(last)
		s.p.cache.removeStalePodGroupRequests()
	}

	check.Equal(t, "PodGroups that are remembered after the others are gone", 1, len(s.p.cache.podGroupRequests))
}

// TestDeploymentHasNoTotalHint: what stands in its template is not asked for in advance.
func TestDeploymentHasNoTotalHint(t *testing.T) {
	s := newScene(t, fourA+`job j queue=q min=1 phase=Pending minCards=1 request={"A":9}`)
	s.Groups[0].OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "j-1", UID: "j-1"}}
	check.Equal(t, "cards reserved", 1, s.enqueueAndAllocate().reservedCards())
}
