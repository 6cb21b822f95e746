package capacitycard

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

func amount(quantity string) resource.Quantity { return resource.MustParse(quantity) }

func TestPodsOutsideTheSessionStillHoldTheirCards(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	orphans := s.PodsOf("job gone queue=q min=1 running=a*4")
	annotate("scheduling.volcano.sh/queue-name", "q")(orphans[0]) // a Deployment's pod whose PodGroup is deleted
	annotate("volcano.sh/queue-name", "q")(orphans[1])            // a vcjob's pod while the job restarts
	orphans[2].Spec.SchedulerName = "default-scheduler"           // placed past us, names no queue
	annotate("volcano.sh/queue-name", "q")(orphans[3])
	orphans[3].Status.Phase = corev1.PodSucceeded
	s.addToPodLister(orphans...)
	check.Equal(t, "used cards, two of the job and two of pods without one", 4, s.usedCards("q", "A"))
	check.That(t, !s.p.ledger.FitsCard("q", "A", 1, false), "a card is left")
}

func TestDeletedPodGroupKeepsTheChargedQueue(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	delete(s.Ssn.Jobs, "ns/j") // what Volcano's snapshot does without a PodGroup
	s.addToPodLister(s.Pods...)
	check.Equal(t, "cards that the queue uses after its PodGroup vanished", 2, s.usedCards("q", "A"))
}

// TestMovedPodGroupKeepsTheChargedQueue: who may move a PodGroup, or delete it and
// make it again in another queue, would have the quota of the first one back
// and keep the cards.
func TestMovedPodGroupKeepsTheChargedQueue(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		events    string
		q, second int
	}{
		"as it was":                         {"", 2, 0},
		"created again":                     {"recreate", 2, 0},
		"created again in another queue":    {"recreate move", 2, 0},
		"moved":                             {"move", 2, 0},
		"moved, the binding is seen":        {"move bound=q", 2, 0},
		"moved, of an older version":        {"move restart", 0, 2},
		"moved, after a start":              {"move bound=q restart", 2, 0},
		"its pods are rewritten":            {"bound=second", 2, 0},
		"bound by a scheduler before":       {"bound=second restart", 0, 2},
		"its first queue is gone":           {"move drop=q", 0, 2},
		"the queue of the binding is gone":  {"bound=gone", 2, 0},
		"that, after a start":               {"bound=gone restart", 2, 0},
		"its maker wrote a queue, unbound":  {"forged=second", 2, 0},
		"that, and Volcano tries its nodes": {"forged=second tried", 2, 0},
	}) {
		s := oneJob(t).addObjects(`queue second quota={"A":4}`).enqueueAndAllocate()
		for range 2 { // and again in the session after that
			for _, event := range strings.Fields(tc.events) {
				s.applyEvent(event)
			}
			s.p.buildSnapshot()
		}

		check.Equal(t, "cards that q is charged", tc.q, s.usedCards("q", "A"))
		check.Equal(t, "cards that second is charged", tc.second, s.usedCards("second", "A"))
	}
}

// applyEvent plays an event of the job j.
func (s *scene) applyEvent(event string) {
	job := s.Job("j")
	switch event, queue, _ := strings.Cut(event, "="); event {
	case "recreate":
		job.PgUID = "another"
	case "move":
		job.Queue = "second"
	case "drop":
		delete(s.Ssn.Queues, api.QueueID(queue))
	case "restart":
		s.p.cache = NewCache()
	case "bound", "forged": // by the binder, or by the maker of a pod that is not bound yet
		for _, task := range job.Tasks {
			task.Pod = task.Pod.DeepCopy()
			annotate("cardquota.dev/charged-queue", queue)(task.Pod)

			if event == "forged" {
				task.Pod.Spec.NodeName = ""
			}
		}
	case "tried": // Volcano writes the node into the informer's pods
		s.p.buildSnapshot()
		for _, task := range job.Tasks {
			task.Pod.Spec.NodeName = task.NodeName
		}
	}
}

func TestNodeWithoutLabelKeepsTheCharges(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	for _, tc := range []struct {
		model string
		a, b  int
		why   string
	}{{"-", 2, 0, "no named card"}, {"B", 0, 2, "another card than <A>"}} {
		s.Ssn.Nodes["a"].Node = session.Node("a", tc.model, 8)
		s.p.buildSnapshot()

		check.Equal(t, "charged of A with label "+tc.model, tc.a, s.usedCards("q", "A"))
		check.Equal(t, "charged of B with label "+tc.model, tc.b, s.usedCards("q", "B"))
		check.Says(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), tc.why)
	}
}

// TestSharesWithoutALabelKeepTheCharges: new pods get none of them, also after a restart.
func TestSharesWithoutALabelKeepTheCharges(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	node := session.Node("a", "A", 80)
	node.Labels["nvidia.com/gpu.count"] = "8"
	s.Ssn.Nodes["a"].Node = node
	for _, when := range []string{"after the change", "after a restart"} {
		s.p.buildSnapshot()
		check.Equal(t, when+": cards in use", 2, s.usedCards("q", "A"))
		check.Says(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), "no named card")
		s.p.cache = NewCache()
	}
}

func TestEventsChangeTheLedgerExactlyOnce(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()

	task := s.Task("j-0").Clone() // Volcano replays clones
	for _, step := range []struct {
		name string
		do   func(*framework.Event)
		want int
	}{
		{"allocate again", s.p.onAllocate, 2}, {"evict", s.p.onDeallocate, 1}, {"evict twice", s.p.onDeallocate, 1}, {"take the eviction back", s.p.onAllocate, 2},
	} {
		step.do(&framework.Event{Task: task})
		check.That(t, s.usedCards("q", "A") == step.want, "%s: %d cards in use, want %d", step.name, s.usedCards("q", "A"), step.want)
	}
}

func TestNoDecisionBeforeTheCacheHasSynced(t *testing.T) {
	start := time.Now()
	absent := "node a is not in the session"
	missing := func() string { return absent }
	var c cacheSync
	check.That(t, c.notReadyReason(missing, start) != "" && c.notReadyReason(missing, start.Add(cacheSyncTimeout-time.Second)) != "", "decided although a node is missing")
	check.That(t, c.notReadyReason(missing, start.Add(cacheSyncTimeout)) == "", "still waiting after all patience")

	c = cacheSync{}
	absent = ""
	check.That(t, c.notReadyReason(missing, start) == "", "waits although nothing is missing")
	absent = "pod ns/p is not in the session"
	check.That(t, c.notReadyReason(missing, start) == "", "complete once is complete for good: later misses are charged, not waited for")

	s := oneJob(t).enqueueAndAllocate()
	s.p.notReadyReason = "waits"
	task := s.Task("j-0")
	check.That(t, !s.p.allocatable(s.Ssn.Queues["q"], task) && s.p.predicate(task, s.Ssn.Nodes["a"]) != nil && s.p.jobEnqueueable(s.Job("j")) <= 0,
		"a gate is open before the books are complete")
}

// TestUnsyncedSessionIsEmpty: Volcano writes a refusal to every pod it
// tried, which would hold up the first session that may decide.
func TestUnsyncedSessionIsEmpty(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	check.Equal(t, "missing in a complete session", "", s.p.missingFromSession())
	s.addToPodLister(s.PodsOf("job unseen queue=q min=1 running=a")...)
	check.Contains(t, "missing", s.p.missingFromSession(), "pod ns/unseen-0 on node a")

	s.m.cacheSync = cacheSync{}
	jobs := maps.Clone(s.Ssn.Jobs)
	queues := maps.Clone(s.Ssn.Queues)

	s.reopen()
	check.That(t, len(s.Ssn.Jobs) == 0 && len(s.Ssn.Queues) == 0,
		"%d jobs in %d queues would be tried although a pod is missing", len(s.Ssn.Jobs), len(s.Ssn.Queues))

	s.m.cacheSync.waitingSince = time.Now().Add(-cacheSyncTimeout)
	s.Ssn.Jobs = jobs
	s.Ssn.Queues = queues
	s.reopen()
	check.That(t, len(s.Ssn.Jobs) != 0 && len(s.Ssn.Queues) != 0, "%d jobs in %d queues once deciding began", len(s.Ssn.Jobs), len(s.Ssn.Queues))

	delete(s.Ssn.Nodes, "b")
	s.listNode(session.Node("b", "B", 8))
	check.Equal(t, "missing", "node b is not in the session", s.p.missingFromSession())
}

// TestSyncIgnoresNodesOfOtherSchedulers: a node that Volcano's cache never takes, and pods there,
// hold up no start.
func TestSyncIgnoresNodesOfOtherSchedulers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		selectors []string
		several   string
		want      string
	}{
		"all nodes are selected":        {nil, "", "node b is not in the session"},
		"b is selected":                 {[]string{"pool:other", "pool:b"}, "", "node b is not in the session"},
		"b is not selected":             {[]string{"pool:other"}, "", ""},
		"what is no selector":           {[]string{"pool", "pool:"}, "", "node b is not in the session"},
		"nodes are shared among others": {nil, "true", ""},
	}) {
		s := oneJob(t).enqueueAndAllocate()
		t.Setenv("MULTI_SCHEDULER_ENABLE", tc.several)
		kept := options.ServerOpts.NodeSelector
		t.Cleanup(func() { options.ServerOpts.NodeSelector = kept })

		options.ServerOpts.NodeSelector = tc.selectors
		delete(s.Ssn.Nodes, "b")
		node := session.Node("b", "B", 8)
		node.Labels["pool"] = "b"

		s.listNode(node)
		check.Equal(t, "missing", tc.want, s.p.missingFromSession())
		if tc.want == "" {
			s.addToPodLister(s.PodsOf("job unseen queue=q min=1 running=b")...)
			check.Equal(t, "missing with a pod there", "", s.p.missingFromSession())
		}
	}
}

func TestRefusalIsReportedOnce(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":1}; job j queue=q min=1 pending=1 cards=2`).enqueueAndAllocate()
	task := s.Task("j-0")
	refusal := func(total, capability int64) *workload.Refusal {
		return workload.RefusalFor(&quota.InsufficientQuota{Kind: quota.Cards, Queue: "q", Names: []card.Name{"A"}, Requested: 2, Total: total, Limit: capability})
	}

	check.Must(t, len(s.Job("j").NodesFitErrors) == 1, "fit errors %v, status %s", s.Job("j").NodesFitErrors, task.Status)
	for _, tc := range []struct {
		what    string
		refusal *workload.Refusal
		sweeps  int
		isNew   bool
		text    string
	}{
		{"a moved total", refusal(3, 1), 0, false, refusal(2, 1).Message},
		{"a changed quota", refusal(3, 0), 0, true, refusal(3, 0).Message},
		{"one that comes back in the next session", refusal(3, 0), 1, false, refusal(3, 0).Message},
		{"one that comes back after two sessions without", refusal(3, 0), 3, true, refusal(3, 0).Message},
	} {
		for range tc.sweeps {
			s.m.messages.removeStale()
		}
		text, isNew := s.m.messages.currentMessage(task.Pod.UID, tc.refusal)
		check.That(t, isNew == tc.isNew && text == tc.text, "%s: got %v, %q, want %v, %q", tc.what, isNew, text, tc.isNew, tc.text)
	}
}

func TestReservationEndsWhenSomethingElseThanQuotaBlocks(t *testing.T) {
	clock := time.Now()
	p := reservations{}
	check.That(t, p.isActive("g", clock, time.Hour) && p.isActive("g", clock.Add(reservationTimeout-time.Second), time.Hour), "the reservation ended early")

	p.restartWait("g", clock.Add(time.Minute))
	check.That(t, p.isActive("g", clock.Add(reservationTimeout), time.Hour), "a job that was refused for quota lost its reservation")
	check.That(t, !p.isActive("g", clock.Add(reservationTimeout+time.Minute), time.Hour), "the reservation never ends")

	p.removeStale()
	p.removeStale() // a session without it
	check.That(t, p.isActive("g", clock.Add(time.Hour), time.Hour), "a PodGroup that waits again has no reservation")

	s := newScene(t, `node a model=A; queue q quota={"A":8}; job next queue=q min=4 pending=4 minCards=4`)
	s.addObjects("job stuck queue=q min=4 pending=4 minCards=4", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"nobody": "has-this"} }).enqueueAndAllocate()
	s.p.buildSnapshot()
	before := s.reservedCards()
	s.m.now = func() time.Time { return time.Now().Add(time.Hour) }

	s.p.buildSnapshot()
	check.That(t, before >= 4 && s.reservedCards() == before-4, "%d cards reserved at first and %d after an hour, want the stuck job's 4 given up", before, s.reservedCards())
}

func TestEvictedTaskKeepsItsCardsUntilThePodIsDeleted(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	job := s.Job("j")
	task := s.Task("j-0")
	delete(job.TaskStatusIndex[api.Running], task.UID)
	job.TaskStatusIndex[api.Releasing] = api.TasksMap{task.UID: task}
	s.p.buildSnapshot()
	check.Equal(t, "used cards while an eviction is under way", 2, s.usedCards("q", "A"))
	task.Pod = task.Pod.DeepCopy()
	deleted(task.Pod)
	s.p.buildSnapshot()
	check.Equal(t, "used cards after the pod was deleted", 1, s.usedCards("q", "A"))
}

func TestPodOfMissingQueueGetsAnEvent(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	lost := s.PodsOf("job lost queue=nowhere min=1 pending=1", annotate("scheduling.volcano.sh/queue-name", "nowhere"))[0]
	delete(lost.Annotations, "scheduling.k8s.io/group-name")
	foreign := lost.DeepCopy()
	foreign.Name = "foreign"
	foreign.UID = "foreign"
	foreign.Spec.SchedulerName = "default-scheduler"

	// What cannot be written is said again, so the pod has to be there.
	check.Value(s.Ssn.KubeClient().CoreV1().Pods(lost.Namespace).Create(t.Context(), lost, metav1.CreateOptions{}))(t)
	s.addToPodLister(lost, foreign)
	voice := s.m.messages
	voice.mutex.Lock()
	defer voice.mutex.Unlock()

	said := voice.lastMessages[lost.UID]
	check.That(t, said != nil && said.text == "Queue <nowhere> does not exist", "the pod got %+v", said)
	check.That(t, voice.lastMessages[foreign.UID] == nil, "a pod of another scheduler gets a message")
}

// TestMappedCards: the argument cards names the cards of nodes. Invalid arguments change nothing of
// that, because pods that run would be charged for other cards.
func TestMappedCards(t *testing.T) {
	mapped := framework.Arguments{"cards": []any{map[any]any{"resource": "nvidia.com/gpu", "model": "X"}}}
	s := newScene(t, `node a model=A; queue q quota={"X":4}; job j queue=q min=1 pending=1`, annotate("volcano.sh/card.name", "X")).withArguments(mapped).enqueueAndAllocate()
	check.Equal(t, "placed", "a:1", s.podsByNode("j"))
	check.Equal(t, "charged", 1, s.usedCards("q", "X"))
	for _, step := range []struct {
		args framework.Arguments
		want card.Name
	}{{framework.Arguments{"overCommitFactor": 0.5}, "X"}, {mapped, "X"}, {nil, "A"}, {framework.Arguments{"overCommitFactor": 0.5}, "A"}} {
		s.withArguments(step.args).reopen()
		check.Equal(t, fmt.Sprint(step.args), []card.Name{step.want}, s.p.inventory.Names())
	}
}

// TestRequestsFollowChangedResourceMeanings: what a pod may run on follows
// the nodes, and a failed card alone changes nothing of it.
func TestRequestsFollowChangedResourceMeanings(t *testing.T) {
	s := newScene(t, `node a model=A; node b model=B; queue q quota={"A":4}; job j queue=q min=1 running=a pending=1`, func(p *corev1.Pod) { delete(p.Annotations, "volcano.sh/card.name") }).enqueueAndAllocate()
	task := s.Task("j-1")
	before := s.p.RequestFor(task)
	s.Ssn.Nodes["b"].Node = session.Node("b", "B", 7)
	s.p.buildSnapshot()
	check.That(t, s.p.RequestFor(task) == before, "a failed card made a pod request again")
	s.Ssn.Nodes["b"].Node = session.Node("b", "C", 8)
	s.p.buildSnapshot()
	check.Equal(t, "cards of the pod after the node was relabelled", []card.Name{"A", "C"}, s.p.RequestFor(task).Names)
}

// TestTriedNodeIsNotCharged: Volcano writes the node into the pod's
// object when it tries it and leaves it there when it gives up.
func TestTriedNodeIsNotCharged(t *testing.T) {
	s := oneJob(t).addObjects("job w queue=q min=2 pending=1", annotate("scheduling.volcano.sh/queue-name", "q")).enqueueAndAllocate() // a gang of two with one pod is not tried, so try it here
	task := s.Task("w-0")
	task.Pod.Spec.NodeName = "a"
	task.NodeName = "a"
	task.Status = api.Allocated
	s.p.onAllocate(&framework.Event{Task: task})

	task.Status = api.Pending
	s.p.onDeallocate(&framework.Event{Task: task})
	task.Pod.Spec.NodeName = "a"                      // as Volcano leaves it
	s.Ssn.Nodes["b"].Node = session.Node("b", "C", 8) // cards come to mean something else
	s.p.buildSnapshot()

	delete(s.Ssn.Jobs, "ns/w") // its PodGroup is deleted
	for range 3 {
		s.addToPodLister(task.Pod)
		check.Equal(t, "used cards of its running pods", 2, s.usedCards("q", "A"))
	}

	bound := task.Pod.DeepCopy() // what the API server says counts
	check.NoError(t, s.Ssn.InformerFactory().Core().V1().Pods().Informer().GetIndexer().Delete(task.Pod))
	s.addToPodLister(bound)
	check.Equal(t, "used cards after the pod was really bound", 3, s.usedCards("q", "A"))
}
