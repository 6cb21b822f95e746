package capacitycard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// newRestartScene is a queue with a quota of two cards, so many pods that end and one
// that takes their place, on nodes with plenty of cards.
func newRestartScene(t *testing.T, ending int, changes ...func(*corev1.Pod)) *scene {
	t.Helper()
	return newScene(t, fmt.Sprintf(`node a,free model=A; queue q quota={"A":2}; job j queue=q min=1 running=a*%d pending=1`, ending), func(p *corev1.Pod) {
		if p.Spec.NodeName == "" {
			return
		}
		deleted(p)
		for _, change := range changes {
			change(p)
		}
	}).enqueueAndAllocate()
}

// TestSecondRestartWaitsForTheFirst: a queue may be restarted as a whole at once.
// Who does it again and again within the grace period would hold ever more cards.
func TestSecondRestartWaitsForTheFirst(t *testing.T) {
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }

	for t, tc := range check.Cases(t, map[string]struct {
		ending, placed int
		change         func(*corev1.Pod)
	}{
		"nothing ends":             {0, 1, func(*corev1.Pod) {}},
		"the whole quota ends":     {2, 1, func(*corev1.Pod) {}},
		"more than the quota ends": {3, 0, func(*corev1.Pod) {}},
		"they have finished":       {3, 1, phase(corev1.PodSucceeded)},
		"they have failed":         {3, 1, phase(corev1.PodFailed)},
		"they never had a node": {3, 1, func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Phase = corev1.PodPending
		}},
		"their node is gone":    {3, 1, func(p *corev1.Pod) { p.Spec.NodeName = "gone" }},
		"they are starting":     {3, 0, phase(corev1.PodPending)},
		"they ask for no cards": {3, 1, func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Requests, gpu) }},
	}) {
		s := newRestartScene(t, tc.ending, tc.change)
		check.Equal(t, "placed", tc.placed, len(strings.Fields(s.podsByNode("j"))))
		check.Equal(t, "used cards without those of terminating pods", tc.placed, s.usedCards("q", "A"))
	}
}

// TestEachCheckCountsTerminatingPods: Volcano may skip any of them.
func TestEachCheckCountsTerminatingPods(t *testing.T) {
	s := newRestartScene(t, 4)
	task := s.Task("j-4")
	queue := s.Ssn.Queues["q"]
	check.That(t, !s.p.allocatable(queue, task), "allocatable permits it")

	const why = "ueue <q> gets no more <A> while pods that are being deleted hold more than its quota: terminating <4>, but quota is <2>; " +
		"they end within 3600 s, sooner with a shorter terminationGracePeriodSeconds"

	check.Contains(t, "refusals", s.refusals("j"), "Q"+why)
	var unfit *api.FitError
	check.Must(t, errors.As(s.p.predicate(task, s.Ssn.Nodes["free"]), &unfit), "predicate permits it")
	check.Says(t, unfit, "q"+why)
	check.Equal(t, "code, with which preemption does not make more pods terminate", api.UnschedulableAndUnresolvable, unfit.Status[0].Code)
	check.Says(t, s.allocateTask("j-4", "free", api.Allocated), "Q"+why)

	// It is reported once, and not whenever one of many pods is gone.
	before := s.m.messages.lastMessages[task.Pod.UID].text
	s.p.ledger.Release(string(s.Task("j-0").UID))
	s.p.allocatable(queue, task)
	check.Must(t, before != "", "the pod has no message")
	check.Equal(t, "message", before, s.m.messages.lastMessages[task.Pod.UID].text)
}

func TestTerminatingPodsOutsideTheSessionAreCharged(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate() // two of four cards are used
	fits := func(count int) bool { return s.p.ledger.FitsCard("q", "A", card.Count(count), false) }
	orphans := s.PodsOf("job gone queue=q min=1 running=a*5", deleted, annotate("scheduling.volcano.sh/queue-name", "q"))
	s.addToPodLister(orphans[:4]...)
	check.That(t, fits(2) && !fits(3), "what ends is counted")

	s.addToPodLister(orphans[4])
	check.That(t, !fits(1), "a card fits although five end and the quota is four")

	store := s.Ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer()
	for ready, want := range map[corev1.ConditionStatus]bool{corev1.ConditionFalse: true, corev1.ConditionUnknown: true, corev1.ConditionTrue: false} {
		node := session.Node("a", "A", 8)
		node.Status.Conditions[0].Status = ready
		check.NoError(t, store.Add(node))
		s.p.buildSnapshot()
		check.That(t, fits(1) == want, "their node is ready: %s; a card fits %v, want %v", ready, fits(1), want)
	}
}

// TestRepeatedDeletionHoldsAtMostTwiceTheQuota runs the attack: pods ignore their termination,
// and their owner deletes and creates them again and again.
func TestRepeatedDeletionHoldsAtMostTwiceTheQuota(t *testing.T) {
	s := newScene(t, `node a,more model=A; queue q quota={"A":2}; job j queue=q min=1`)
	for round := range 8 {
		made := s.PodsOf(fmt.Sprintf("job j%d queue=q min=1 pending=2", round), annotate("scheduling.k8s.io/group-name", "j"))
		s.Pods = append(s.Pods, made...)
		s.Cache = nil
		s.enqueueAndAllocate()

		held := 0
		for _, p := range s.Pods {
			if task := s.Task(p.Name); p.Spec.NodeName == "" && api.AllocatedStatus(task.Status) {
				p.Spec.NodeName = task.NodeName
				p.Status.Phase = corev1.PodRunning
			}

			if p.Spec.NodeName != "" {
				held++
				deleted(p)
				p.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)}
			}
		}

		// Four after the second round; then those of the first two terminate.
		check.Must(t, held <= 4 && (round >= 2 || held == 2*(round+1)), "%d cards are held in round %d with a quota of 2", held, round)
	}
}

// allocateTask sends the event of a placement, and undoes it as Volcano does when it is
// refused.
func (s *scene) allocateTask(pod, node string, status api.TaskStatus) error {
	task := s.Task(pod).Clone()
	task.NodeName = node
	task.Status = status
	event := &framework.Event{Task: task}
	s.p.onAllocate(event)
	if event.Err != nil {
		s.p.onDeallocate(event)
	}
	return event.Err
}
