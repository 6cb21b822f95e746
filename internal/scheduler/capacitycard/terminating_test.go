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
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// newRestartScene has a queue q with a quota of two cards A, on nodes with plenty. So many pods of job j are being
// deleted on node a, and one pod, the last of the job, waits to take their place. A session has tried to place it.
func newRestartScene(t *testing.T, terminating int, change func(*corev1.Pod)) *scene {
	scene := fmt.Sprintf(`node a,free model=A
		queue q quota={"A":2}
		job j queue=q min=1 running=a*%d pending=1`, terminating)
	return newScene(t, scene, func(p *corev1.Pod) {
		if p.Spec.NodeName != "" {
			deleted(p)
			change(p)
		}
	}).enqueueAndAllocate()
}

func unchanged(*corev1.Pod) {}

// TestSecondRestartWaitsForTheFirst: a pod that is being deleted counts as terminating and not as used. So a tenant can
// restart all pods of a queue at once. But if it restarts them again and again within the grace period, it would use
// more and more cards. So no pod starts while more cards terminate than the quota, here 2. Only pods that still use a
// card count as terminating. In each row so many pods of job j, with one card each, are deleted on node a. One more
// pod of j waits, and the nodes have free cards for it.
func TestSecondRestartWaitsForTheFirst(t *testing.T) {
	inPhase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}

	for t, tc := range check.Cases(t, map[string]struct {
		terminating, wantPlaced int // pods
		change                  func(*corev1.Pod)
	}{
		"no pod terminates: the new pod starts":                  {0, 1, unchanged},
		"2 terminate, the whole quota: it starts":                {2, 1, unchanged},
		"3 terminate, more than the quota: it waits":             {3, 0, unchanged},
		"3 are deleted and have succeeded: it starts":            {3, 1, inPhase(corev1.PodSucceeded)},
		"3 are deleted and have failed: it starts":               {3, 1, inPhase(corev1.PodFailed)},
		"3 are deleted while they start on their node: it waits": {3, 0, inPhase(corev1.PodPending)},
		"3 are deleted that never had a node: it starts": {3, 1, func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Phase = corev1.PodPending
		}},
		"3 are deleted whose node is gone: it starts": {3, 1, func(p *corev1.Pod) { p.Spec.NodeName = "gone" }},
		"3 are deleted that request no cards: it starts": {3, 1, func(p *corev1.Pod) {
			delete(p.Spec.Containers[0].Resources.Requests, gpu)
		}},
	}) {
		s := newRestartScene(t, tc.terminating, tc.change)
		check.Equal(t, "placed pods", tc.wantPlaced, len(strings.Fields(s.podsByNode("j"))))
		check.Equal(t, "cards that q uses, without terminating ones", tc.wantPlaced, s.usedCards("q", "A"))
	}
}

// TestEachCheckCountsTerminatingPods: 4 cards terminate, and the quota of q is 2. Volcano may skip any of its
// questions, so the hooks allocatable, onAllocate and predicate each refuse the new pod j-4 with the same reason. The
// predicate says that evictions do not help (UnschedulableAndUnresolvable). When fewer pods terminate, the reason keeps
// its first text, so that the waiting pod is not updated for each pod that ends.
func TestEachCheckCountsTerminatingPods(t *testing.T) {
	// The sentence begins with "Queue", or another word stands before "queue".
	const reason = "ueue <q> gets no more <A> while pods that are being deleted hold more than its quota: terminating <4>, but quota is <2>; " +
		"they end within 3600 s, sooner with a shorter terminationGracePeriodSeconds"
	s := newRestartScene(t, 4, unchanged)
	task := s.Task("j-4")
	queue := s.Ssn.Queues["q"]

	check.Equal(t, "allocatable permits", false, s.p.allocation.allocatable(queue, task))
	check.Contains(t, "refusals", s.refusals("j"), "Q"+reason)
	check.Says(t, s.allocateTask("j-4", "free", api.Allocated), "Q"+reason)

	var unfit *api.FitError
	check.Must(t, errors.As(s.p.nodes.predicate(task, s.Ssn.Nodes["free"]), &unfit), "predicate permits it")
	check.Says(t, unfit, "q"+reason)
	check.Equal(t, "code of the predicate", api.UnschedulableAndUnresolvable, unfit.Status[0].Code)

	before := s.m.messages.lastMessages[task.Pod.UID].text
	check.Contains(t, "message of the pod", before, "Q"+reason)
	s.p.Ledger.Release(string(s.Task("j-0").UID)) // pod j-0 has ended
	s.p.allocation.allocatable(queue, task)
	check.Equal(t, "message of the pod when 3 terminate", before, s.m.messages.lastMessages[task.Pod.UID].text)
}

// TestTerminatingPodsOutsideTheSessionAreCharged: pods whose PodGroup is gone are not in Volcano's session, but their
// cards count while they terminate. Queue q has a quota of 4 and uses 2. 4 terminating cards leave the other 2 free,
// and 5 are more than the quota. They count only while their node is ready: on a node that is not, pods may never be
// seen to end.
func TestTerminatingPodsOutsideTheSessionAreCharged(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	fits := func(count card.Count) bool {
		return s.p.Ledger.Fits("q", quota.Request{Names: []card.Name{"A"}, Count: count}, quota.Within{})
	}
	pods := s.PodsOf("job gone queue=q min=1 running=a*5", deleted, annotate("scheduling.volcano.sh/queue-name", "q"))

	s.addToPodLister(pods[:4]...)
	check.Equal(t, "2 cards fit while 4 terminate", true, fits(2))
	check.Equal(t, "3 cards fit while 4 terminate", false, fits(3))
	s.addToPodLister(pods[4])
	check.Equal(t, "1 card fits while 5 terminate", false, fits(1))

	nodes := s.Ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer()
	for ready, wantFits := range map[corev1.ConditionStatus]bool{
		corev1.ConditionFalse: true, corev1.ConditionUnknown: true, corev1.ConditionTrue: false,
	} {
		node := session.Node("a", "A", 8)
		node.Status.Conditions[0].Status = ready
		check.NoError(t, nodes.Add(node))
		s.p.builder.buildSnapshot()
		check.Equal(t, fmt.Sprintf("1 card fits while 5 terminate on a node with Ready %s", ready), wantFits, fits(1))
	}
}

// TestRepeatedDeletionUsesAtMostTwiceTheQuota: the pods of a tenant ignore their termination, and it deletes and
// creates them again and again. The quota is 2. In the first round 2 pods start, in the second 2 more, while the
// first ones terminate. Then 4 cards terminate, more than the quota, and no other pod starts in 8 rounds.
func TestRepeatedDeletionUsesAtMostTwiceTheQuota(t *testing.T) {
	s := newScene(t, `node a,more model=A
		queue q quota={"A":2}
		job j queue=q min=1`)
	for round := range 8 {
		created := s.PodsOf(fmt.Sprintf("job j%d queue=q min=1 pending=2", round), annotate("scheduling.k8s.io/group-name", "j")) // in PodGroup j
		s.Pods = append(s.Pods, created...)
		s.Cache = nil // the next session starts with a new cache of all pods
		s.enqueueAndAllocate()

		cardsInUse := 0
		for _, p := range s.Pods {
			if task := s.Task(p.Name); p.Spec.NodeName == "" && api.AllocatedStatus(task.Status) {
				p.Spec.NodeName = task.NodeName
				p.Status.Phase = corev1.PodRunning
			}
			if p.Spec.NodeName != "" {
				cardsInUse++
				deleted(p)
				p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)} // its grace period is over, and it still runs
			}
		}

		check.Equal(t, fmt.Sprintf("used and terminating cards in round %d", round), min(2*(round+1), 2*2), cardsInUse)
	}
}

// allocateTask sends the event of a placement, and undoes it as Volcano does when it is
// refused.
func (s *scene) allocateTask(pod, node string, status api.TaskStatus) error {
	task := s.Task(pod).Clone()
	task.NodeName = node
	task.Status = status
	event := &framework.Event{Task: task}
	s.p.allocation.onAllocate(event)
	if event.Err != nil {
		s.p.allocation.onDeallocate(event)
	}
	return event.Err
}
