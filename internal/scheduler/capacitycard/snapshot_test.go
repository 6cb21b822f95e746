package capacitycard

import (
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
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

func amount(quantity string) resource.Quantity { return resource.MustParse(quantity) }

// TestPodsOutsideTheSessionAreChargedToTheirQueue: a pod may be on a node although Volcano's session does not have
// it: its PodGroup is deleted, its job restarts, or another scheduler placed it. It still uses its card. Its
// annotations name the queue. Of four such pods two name queue q and run. With the two of job j they use the whole
// quota of four.
func TestPodsOutsideTheSessionAreChargedToTheirQueue(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	pods := s.PodsOf("job gone queue=q min=1 running=a*4")
	annotate("scheduling.volcano.sh/queue-name", "q")(pods[0]) // a Deployment's pod whose PodGroup is deleted
	annotate("volcano.sh/queue-name", "q")(pods[1])            // a Volcano job's pod while the job restarts
	pods[2].Spec.SchedulerName = "default-scheduler"           // names no queue
	annotate("volcano.sh/queue-name", "q")(pods[3])
	pods[3].Status.Phase = corev1.PodSucceeded // uses its card no more
	s.addToPodLister(pods...)

	check.Equal(t, "cards that q uses", 4, s.usedCards("q", "A"))
	check.Equal(t, "another card fits the quota of 4", false, s.p.Ledger.Fits("q", quota.Request{Names: []card.Name{"A"}, Count: 1}, quota.Within{}))
}

// TestDeletedPodGroupKeepsTheChargedQueue: Volcano's session skips a job whose PodGroup is deleted. Its two pods
// run on, and the scheduler remembers their queue, so q still uses two cards.
func TestDeletedPodGroupKeepsTheChargedQueue(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	delete(s.Ssn.Jobs, "ns/j")
	s.addToPodLister(s.Pods...)

	check.Equal(t, "cards that q uses", 2, s.usedCards("q", "A"))
}

// TestMovedPodGroupKeepsTheChargedQueue: the two pods of job j run on node a and are charged to queue q. A tenant may
// move their PodGroup to another queue, or delete it and create it there. If the charge moved too, the tenant would get
// the quota of q back and keep the cards. So a scheduler process charges the pods to q as long as queue q exists.
//
// When the scheduler binds a pod, it writes the charged queue into the annotation charged-queue. A new process has
// charged no pod yet: it charges the queue in the annotation, or that of the PodGroup if there is no such queue. The
// annotation counts only in a bound pod, which has spec.nodeName: before the binding, the pod's creator can write it.
//
// Each word in events is a step: "recreate" and "move" change the PodGroup, "delete-queue=q" deletes a queue, "restart"
// starts a new process. "annotate=q" writes charged-queue=q into both pods. "annotate-unbound=second" does too, and
// removes spec.nodeName: the session still has the pods on node a, but the pod objects do not show it yet. "try-node"
// is a session after which Volcano itself writes the node into the pod objects, as it does when it tries nodes.
func TestMovedPodGroupKeepsTheChargedQueue(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		events                string
		wantOfQ, wantOfSecond int // charged cards
	}{
		"no event: q": {"", 2, 0},

		// The same process: the first charge stays.
		"the PodGroup is created again in q: q":                                     {"recreate", 2, 0},
		"the PodGroup is created again in the second queue: q":                      {"recreate move", 2, 0},
		"the PodGroup is moved: q":                                                  {"move", 2, 0},
		"the PodGroup is moved, and charged-queue is q: q":                          {"move annotate=q", 2, 0},
		"charged-queue is changed to the second queue: q":                           {"annotate=second", 2, 0},
		"charged-queue is changed to a queue that does not exist: q":                {"annotate=gone", 2, 0},
		"the PodGroup is moved, and q is deleted: the second queue":                 {"move delete-queue=q", 0, 2},
		"charged-queue is second, the pod objects have no node yet: q":              {"annotate-unbound=second", 2, 0},
		"charged-queue is second, and Volcano writes the node into unbound pods: q": {"annotate-unbound=second try-node", 2, 0},

		// A new process: charged-queue decides, then the PodGroup.
		"moved, new process, no charged-queue: the second queue":             {"move restart", 0, 2},
		"moved, new process, charged-queue is q: q":                          {"move annotate=q restart", 2, 0},
		"not moved, new process, charged-queue is second: the second queue":  {"annotate=second restart", 0, 2},
		"not moved, new process, charged-queue names no existing queue: q":   {"annotate=gone restart", 2, 0},
		"not moved, new process, charged-queue is second in unbound pods: q": {"annotate-unbound=second restart", 2, 0},
	}) {
		s := oneJob(t).addObjects(`queue second quota={"A":4}`).enqueueAndAllocate()
		for range 2 { // the events happen before each of two sessions, which charge the same
			for _, event := range strings.Fields(tc.events) {
				s.applyEvent(event)
			}
			s.p.builder.buildSnapshot()
		}

		check.Equal(t, "cards that are charged to q", tc.wantOfQ, s.usedCards("q", "A"))
		check.Equal(t, "cards that are charged to second", tc.wantOfSecond, s.usedCards("second", "A"))
	}
}

// applyEvent changes job j or the process by one of the steps that TestMovedPodGroupKeepsTheChargedQueue explains.
func (s *scene) applyEvent(event string) {
	job := s.Job("j")
	switch event, queue, _ := strings.Cut(event, "="); event {
	case "recreate":
		job.PgUID = "another"
	case "move":
		job.Queue = "second"
	case "delete-queue":
		delete(s.Ssn.Queues, api.QueueID(queue))
	case "restart":
		s.p.Cache = cache.New()
	case "annotate", "annotate-unbound":
		for _, task := range job.Tasks {
			task.Pod = task.Pod.DeepCopy()
			annotate("cardquota.dev/charged-queue", queue)(task.Pod)

			if event == "annotate-unbound" {
				task.Pod.Spec.NodeName = ""
			}
		}
	case "try-node":
		s.p.builder.buildSnapshot()
		for _, task := range job.Tasks {
			task.Pod.Spec.NodeName = task.NodeName
		}
	}
}

// TestChargesFollowTheLabelOfTheNode: two pods of queue q run on node a, which has cards A at first. Without its
// label they stay charged for A, because they still use those cards. With the label of B they are charged for B. The
// node takes no new pod that names A either way: the predicate refuses j-0, which names A, as if it were new.
func TestChargesFollowTheLabelOfTheNode(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	for _, tc := range []struct {
		model            string // "-" for none
		wantOfA, wantOfB int
		wantReason       string
	}{
		{model: "-", wantOfA: 2, wantReason: "no named card"},
		{model: "B", wantOfB: 2, wantReason: "another card than <A>"},
	} {
		s.Ssn.Nodes["a"].Node = session.Node("a", tc.model, 8)
		s.p.builder.buildSnapshot()

		check.Equal(t, "cards A that are charged with label "+tc.model, tc.wantOfA, s.usedCards("q", "A"))
		check.Equal(t, "cards B that are charged with label "+tc.model, tc.wantOfB, s.usedCards("q", "B"))
		check.Says(t, s.p.nodes.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), tc.wantReason)
	}
}

// TestNodeWithMoreCardsThanItsLabelSaysKeepsTheCharges: node a has 8 cards A, and job j uses two. Then the node offers
// 80 cards, but its label still says 8: a device plugin shares each card and no label says so. The two pods stay
// charged for two cards A, also by a new process of the scheduler. New pods get none of the cards of node a: the
// predicate refuses j-0 as if it were new.
func TestNodeWithMoreCardsThanItsLabelSaysKeepsTheCharges(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	node := session.Node("a", "A", 80)
	node.Labels["nvidia.com/gpu.count"] = "8"
	s.Ssn.Nodes["a"].Node = node

	for _, when := range []string{"after the change", "in a new process"} {
		s.p.builder.buildSnapshot()
		check.Equal(t, "cards that q uses "+when, 2, s.usedCards("q", "A"))
		check.Says(t, s.p.nodes.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), "no named card")
		s.p.Cache = cache.New() // a new process
	}
}

// TestRepeatedEventsChangeTheLedgerOnce: Volcano sends an event for each placement and eviction, and may send it
// twice, with a copy of the task. Two pods run and use two cards. The test sends events of pod j-0: it is placed again,
// evicted twice, and its eviction is undone.
func TestRepeatedEventsChangeTheLedgerOnce(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	task := s.Task("j-0").Clone()

	for _, step := range []struct {
		name     string
		send     func(*framework.Event)
		wantUsed int
	}{
		{"pod j-0 is placed once more", s.p.allocation.onAllocate, 2},
		{"pod j-0 is evicted", s.p.allocation.onDeallocate, 1},
		{"pod j-0 is evicted once more", s.p.allocation.onDeallocate, 1},
		{"the eviction of pod j-0 is undone", s.p.allocation.onAllocate, 2},
	} {
		step.send(&framework.Event{Task: task})
		check.Equal(t, "cards that q uses after "+step.name, step.wantUsed, s.usedCards("q", "A"))
	}
}

// TestEachHookRefusesUntilTheCacheHasSynced: after a start the scheduler is not ready until its cache has synced. Until
// then the three hooks that Volcano asks before it places a pod refuse: allocatable, predicate and jobEnqueueable.
// With a synced cache they permit pod j-0, which is on node a, within the quota of queue q.
func TestEachHookRefusesUntilTheCacheHasSynced(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	task := s.Task("j-0")

	for awaitsSync, wantPermits := range map[bool]bool{false: true, true: false} {
		s.p.AwaitsSync = awaitsSync
		check.Equal(t, "allocatable permits", wantPermits, s.p.allocation.allocatable(s.Ssn.Queues["q"], task))
		check.Equal(t, "predicate permits", wantPermits, s.p.nodes.predicate(task, s.Ssn.Nodes["a"]) == nil)
		check.Equal(t, "jobEnqueueable permits", wantPermits, s.p.jobEnqueueable(s.Job("j")) > 0)
	}
}

// TestUnsyncedSessionIsEmpty: pod unseen-0 runs on node a, and Volcano's session lacks it. After a start, the session
// gets no jobs and queues until the pod is there or the timeout has passed. Otherwise Volcano would try the jobs and
// write a refusal to each pod, which delays the first session that may decide.
func TestUnsyncedSessionIsEmpty(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	check.Equal(t, "missing from a complete session", "", s.p.builder.missingFromSession())
	s.addToPodLister(s.PodsOf("job unseen queue=q min=1 running=a")...)
	check.Contains(t, "missing", s.p.builder.missingFromSession(), "pod ns/unseen-0 on node a")

	s.m.Sync = cache.Sync{} // as after a start
	jobs := maps.Clone(s.Ssn.Jobs)
	queues := maps.Clone(s.Ssn.Queues)
	s.reopen()
	check.Equal(t, "jobs of the session while the pod is missing", 0, len(s.Ssn.Jobs))
	check.Equal(t, "queues of the session while the pod is missing", 0, len(s.Ssn.Queues))

	s.m.Now = func() time.Time { return time.Now().Add(time.Minute) } // the timeout is over
	s.Ssn.Jobs = jobs
	s.Ssn.Queues = queues
	s.reopen()
	check.Equal(t, "jobs of the session after the timeout", 1, len(s.Ssn.Jobs))
	check.Equal(t, "queues of the session after the timeout", 1, len(s.Ssn.Queues))
}

// TestSyncIgnoresNodesOfOtherSchedulers: Volcano's flag --node-selector makes its cache take only nodes with one of
// some labels, and MULTI_SCHEDULER_ENABLE only a part of the nodes. A node b that the cache never takes, and pods
// there, must not delay the start. Node b has the label pool=b and is not in the session.
func TestSyncIgnoresNodesOfOtherSchedulers(t *testing.T) {
	const waitsForB = "node b is not in the session"
	for t, tc := range check.Cases(t, map[string]struct {
		nodeSelector   []string
		multiScheduler string // the environment variable
		wantMissing    string
	}{
		"no selector, so all nodes are taken: waits for b":            {nil, "", waitsForB},
		"b has one of the labels: waits for b":                        {[]string{"pool:other", "pool:b"}, "", waitsForB},
		"b has another label: does not wait":                          {[]string{"pool:other"}, "", ""},
		"the selectors cannot be read, so all are taken: waits for b": {[]string{"pool", "pool:"}, "", waitsForB},
		"several schedulers share the nodes: does not wait":           {nil, "true", ""},
	}) {
		s := oneJob(t).enqueueAndAllocate()
		t.Setenv("MULTI_SCHEDULER_ENABLE", tc.multiScheduler)
		before := options.ServerOpts.NodeSelector
		t.Cleanup(func() { options.ServerOpts.NodeSelector = before })
		options.ServerOpts.NodeSelector = tc.nodeSelector

		delete(s.Ssn.Nodes, "b")
		node := session.Node("b", "B", 8)
		node.Labels["pool"] = "b"
		s.listNode(node)
		check.Equal(t, "missing", tc.wantMissing, s.p.builder.missingFromSession())

		if tc.wantMissing == "" {
			s.addToPodLister(s.PodsOf("job unseen queue=q min=1 running=b")...)
			check.Equal(t, "missing with a pod on b", "", s.p.builder.missingFromSession())
		}
	}
}

// TestRefusalIsReportedOnce: the scheduler writes the reason why it refuses a pod into the pod's status and events. If
// only the total in the text changes, the first text stays. So the pod is not updated whenever other pods of the queue
// start and end. A refusal with another limit is a new message. So is the same refusal after two sessions without it.
func TestRefusalIsReportedOnce(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":1}
		job j queue=q min=1 pending=1 cards=2`).enqueueAndAllocate()
	task := s.Task("j-0")
	refusal := func(total, limit int64) *workload.Refusal {
		return workload.RefusalFor(&quota.InsufficientQuota{
			Queue: "q", Names: []card.Name{"A"}, Requested: 2, Total: total, Limit: limit,
		})
	}

	// The session has refused the pod: it requests 2 cards, the total would be 2, and the limit is 1.
	check.Must(t, len(s.Job("j").NodesFitErrors) == 1, "fit errors %v, status %s", s.Job("j").NodesFitErrors, task.Status)
	for _, tc := range []struct {
		what          string
		refusal       *workload.Refusal
		sessionsEnded int // since the refusal before
		wantNew       bool
		wantText      string
	}{
		{what: "a total of 3 instead of 2", refusal: refusal(3, 1), wantText: refusal(2, 1).Message()},
		{what: "a limit of 0 instead of 1", refusal: refusal(3, 0), wantNew: true, wantText: refusal(3, 0).Message()},
		{what: "the same refusal in the next session", refusal: refusal(3, 0), sessionsEnded: 1, wantText: refusal(3, 0).Message()},
		{
			what: "the same refusal after two sessions without it", refusal: refusal(3, 0),
			sessionsEnded: 1 + 2, wantNew: true, wantText: refusal(3, 0).Message(), // its own session, and two without it
		},
	} {
		for range tc.sessionsEnded {
			s.m.messages.removeStale()
		}
		text, isNew := s.m.messages.currentMessage(task.Pod.UID, tc.refusal)
		check.Equal(t, "message is new: "+tc.what, tc.wantNew, isNew)
		check.Equal(t, "text of the message: "+tc.what, tc.wantText, text)
	}
}

// TestStuckJobGivesUpItsReservation: queue q has a quota of 8. Job next is placed on 4 cards. Job stuck reserves the
// other 4, but its node selector fits no node. An hour later it reserves none, so that other jobs may use them.
func TestStuckJobGivesUpItsReservation(t *testing.T) {
	fitsNoNode := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }
	s := newScene(t, `node a model=A
		queue q quota={"A":8}
		job next queue=q min=4 pending=4 minCards=4`).
		addObjects("job stuck queue=q min=4 pending=4 minCards=4", fitsNoNode).enqueueAndAllocate()

	s.p.builder.buildSnapshot()
	check.Equal(t, "placed of job next", "a:4", s.podsByNode("next"))
	check.Equal(t, "reserved cards at first", 4, s.reservedCards())
	s.m.Now = func() time.Time { return time.Now().Add(time.Hour) }
	s.p.builder.buildSnapshot()
	check.Equal(t, "reserved cards an hour later", 0, s.reservedCards())
}

// TestEvictedPodUsesItsCardUntilItIsDeleted: two pods of queue q run. One of them is being evicted (Releasing in
// Volcano), but the API server has not deleted it yet, so both still count as used. Once it is deleted, it counts as
// terminating, and one card is used.
func TestEvictedPodUsesItsCardUntilItIsDeleted(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	job := s.Job("j")
	task := s.Task("j-0")
	delete(job.TaskStatusIndex[api.Running], task.UID)
	job.TaskStatusIndex[api.Releasing] = api.TasksMap{task.UID: task}
	s.p.builder.buildSnapshot()
	check.Equal(t, "cards that q uses during the eviction", 2, s.usedCards("q", "A"))

	task.Pod = task.Pod.DeepCopy()
	deleted(task.Pod)
	s.p.builder.buildSnapshot()
	check.Equal(t, "cards that q uses after the deletion", 1, s.usedCards("q", "A"))
}

// TestPodOfAMissingQueueGetsAMessage: a pod names a queue that does not exist, so Volcano's session has no job for
// it, and it would wait without a reason. The plugin writes one to it, but not to a pod of another scheduler.
func TestPodOfAMissingQueueGetsAMessage(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	ours := s.PodsOf("job lost queue=nowhere min=1 pending=1", annotate("scheduling.volcano.sh/queue-name", "nowhere"))[0]
	delete(ours.Annotations, "scheduling.k8s.io/group-name") // it has no PodGroup, as Volcano creates none for it
	ofOthers := ours.DeepCopy()
	ofOthers.Name = "other"
	ofOthers.UID = "other"
	ofOthers.Spec.SchedulerName = "default-scheduler"

	// A message that cannot be written is forgotten, so the pod has to exist.
	check.Value(s.Ssn.KubeClient().CoreV1().Pods(ours.Namespace).Create(t.Context(), ours, metav1.CreateOptions{}))(t)
	s.addToPodLister(ours, ofOthers)
	messages := s.m.messages
	messages.mutex.Lock()
	defer messages.mutex.Unlock()

	message := messages.lastMessages[ours.UID]
	check.Must(t, message != nil, "the pod gets no message")
	check.Equal(t, "message", "Queue <nowhere> does not exist", message.text)
	check.That(t, messages.lastMessages[ofOthers.UID] == nil, "a pod of another scheduler gets a message")
}

// TestArgumentNamesTheCardsOfNodes: the argument cards maps a resource of nodes to a card name, here nvidia.com/gpu
// to X, whatever the label (A) says. Invalid arguments do not change what cards are called. Otherwise pods that run
// would be charged for other cards.
func TestArgumentNamesTheCardsOfNodes(t *testing.T) {
	gpusAreX := framework.Arguments{"cards": []any{map[any]any{"resource": "nvidia.com/gpu", "model": "X"}}}
	invalid := framework.Arguments{"overCommitFactor": 0.5}
	s := newScene(t, `node a model=A
		queue q quota={"X":4}
		job j queue=q min=1 pending=1 card=X`).withArguments(gpusAreX).enqueueAndAllocate()
	check.Equal(t, "placed", "a:1", s.podsByNode("j"))
	check.Equal(t, "charged cards X", 1, s.usedCards("q", "X"))

	for _, step := range []struct {
		what     string
		args     framework.Arguments
		wantName card.Name
	}{
		{"invalid arguments", invalid, "X"},
		{"the same arguments as first", gpusAreX, "X"},
		{"no arguments", nil, "A"},
		{"invalid arguments after none", invalid, "A"},
	} {
		s.withArguments(step.args).reopen()
		check.Equal(t, "cards with "+step.what, []card.Name{step.wantName}, s.p.Inventory.Names())
	}
}

// TestRequestsFollowTheCardsOfNodes: a pod that names no card may use each card that the nodes have. Its request is
// computed once, and again only when the nodes have other cards: not when one of 8 cards of node b fails, but when b
// gets the label of another model.
func TestRequestsFollowTheCardsOfNodes(t *testing.T) {
	s := newScene(t, `node a model=A
		node b model=B
		queue q quota={"A":4}
		job j queue=q min=1 running=a pending=1 card=none`).enqueueAndAllocate()
	task := s.Task("j-1")
	before := s.p.RequestFor(task)

	s.Ssn.Nodes["b"].Node = session.Node("b", "B", 7)
	s.p.builder.buildSnapshot()
	check.That(t, s.p.RequestFor(task) == before, "the request is computed again when a card fails")

	s.Ssn.Nodes["b"].Node = session.Node("b", "C", 8)
	s.p.builder.buildSnapshot()
	check.Equal(t, "cards of the pod after the label changed", []card.Name{"A", "C"}, s.p.RequestFor(task).Names)
}

// TestTriedNodeIsNotCharged: when Volcano tries a node for a pod, it writes the node into the informer's pod, and
// leaves it there when it gives up. Such a pod looks as if it ran, but uses no card: q uses the two of job j. Only
// another object of the pod, which shows what the API server has, counts: then q uses three.
func TestTriedNodeIsNotCharged(t *testing.T) {
	// Volcano does not try a gang that needs two pods and has one. So the test tries node a for it.
	s := oneJob(t).addObjects("job w queue=q min=2 pending=1", annotate("scheduling.volcano.sh/queue-name", "q")).enqueueAndAllocate()
	task := s.Task("w-0")
	task.Pod.Spec.NodeName = "a"
	task.NodeName = "a"
	task.Status = api.Allocated
	s.p.allocation.onAllocate(&framework.Event{Task: task})

	task.Status = api.Pending
	s.p.allocation.onDeallocate(&framework.Event{Task: task})
	task.Pod.Spec.NodeName = "a"                      // as Volcano leaves it
	s.Ssn.Nodes["b"].Node = session.Node("b", "C", 8) // with other cards, the plugin reads all pods again
	s.p.builder.buildSnapshot()

	delete(s.Ssn.Jobs, "ns/w") // its PodGroup is deleted, so the plugin reads the pod of the informer
	for range 3 {              // in each of three sessions
		s.addToPodLister(task.Pod)
		check.Equal(t, "cards that q uses", 2, s.usedCards("q", "A"))
	}

	bound := task.Pod.DeepCopy()
	check.NoError(t, s.Ssn.InformerFactory().Core().V1().Pods().Informer().GetIndexer().Delete(task.Pod))
	s.addToPodLister(bound)
	check.Equal(t, "cards that q uses once the pod is bound", 3, s.usedCards("q", "A"))
}
