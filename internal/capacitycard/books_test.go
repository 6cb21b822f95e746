package capacitycard

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/decision"
)

// listed puts pods into the pod lister of the open session and takes stock
// again, as the next session would.
func listed(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := opened.ssn.InformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	opened.openBooks()
}

func oneJobWorld() *uthelper.TestCommonStruct {
	return &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":4}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "")},
		Pods:      pods(2, "j", "1", "NVIDIA-H200", "h200"),
	}
}

func TestPodsOutsideTheSessionStillHoldTheirCards(t *testing.T) {
	run(t, oneJobWorld(), nil)
	orphans := pods(3, "gone", "1", "NVIDIA-H200", "h200")
	orphans[0].Annotations["scheduling.volcano.sh/queue-name"] = "q" // a Deployment's pod whose PodGroup is deleted
	orphans[1].Annotations["volcano.sh/queue-name"] = "q"            // a vcjob's pod while the job restarts
	orphans[2].Spec.SchedulerName = "default-scheduler"              // placed past us, names no queue
	finished := pods(1, "done", "1", "NVIDIA-H200", "h200")
	finished[0].Annotations["volcano.sh/queue-name"] = "q"
	finished[0].Status.Phase = corev1.PodSucceeded
	listed(t, append(orphans, finished...)...)
	if got := opened.account.Used("q", "NVIDIA-H200"); got != 4 {
		t.Errorf("queue uses %d cards, want 2 of its job and 2 of orphans", got)
	}
	if opened.account.FitsOn("q", "NVIDIA-H200", 1) {
		t.Error("a fifth card fits although orphans hold the quota")
	}
}

func TestAPodWhosePodGroupGoesIsChargedToTheSameQueue(t *testing.T) {
	world := oneJobWorld()
	ssn := run(t, world, nil)
	delete(ssn.Jobs, "ns/j") // what Volcano's snapshot does without a PodGroup
	listed(t, world.Pods...)
	if got := opened.account.Used("q", "NVIDIA-H200"); got != 2 {
		t.Errorf("queue uses %d cards after its PodGroup vanished, want 2", got)
	}
}

// TestPlacedPodsStayWithTheirQueue: who may move a PodGroup, or delete it and
// make it again in another queue, would have the quota of the first one back
// and keep the cards.
func TestPlacedPodsStayWithTheirQueue(t *testing.T) {
	bound := func(j *api.JobInfo, to string) {
		for _, task := range j.Tasks {
			task.Pod = task.Pod.DeepCopy()
			task.Pod.Annotations["cardquota.dev/charged-queue"] = to
		}
	}
	for what, tc := range map[string]struct {
		change    func(*api.JobInfo)
		q, second card.Count
	}{
		"as it was":                         {func(*api.JobInfo) {}, 2, 0},
		"made anew":                         {func(j *api.JobInfo) { j.PgUID = "another" }, 2, 0},
		"made anew elsewhere":               {func(j *api.JobInfo) { j.PgUID, j.Queue = "another", "second" }, 2, 0},
		"moved":                             {func(j *api.JobInfo) { j.Queue = "second" }, 2, 0},
		"moved, the binding is seen":        {func(j *api.JobInfo) { j.Queue = "second"; bound(j, "q") }, 2, 0},
		"moved, of an older version":        {func(j *api.JobInfo) { j.Queue = "second"; opened.memory = newMemory() }, 0, 2},
		"moved, after a start":              {func(j *api.JobInfo) { j.Queue = "second"; bound(j, "q"); opened.memory = newMemory() }, 2, 0},
		"its pods are rewritten":            {func(j *api.JobInfo) { bound(j, "second") }, 2, 0},
		"bound by a scheduler before":       {func(j *api.JobInfo) { bound(j, "second"); opened.memory = newMemory() }, 0, 2},
		"its first queue is gone":           {func(j *api.JobInfo) { j.Queue = "second"; delete(opened.ssn.Queues, "q") }, 0, 2},
		"the queue of the binding is gone":  {func(j *api.JobInfo) { bound(j, "gone") }, 2, 0},
		"that, after a start":               {func(j *api.JobInfo) { bound(j, "gone"); opened.memory = newMemory() }, 2, 0},
		"its maker wrote a queue, unbound":  {func(j *api.JobInfo) { forge(j, "second") }, 2, 0},
		"that, and Volcano tries its nodes": {func(j *api.JobInfo) { forge(j, "second"); tried(j) }, 2, 0},
	} {
		t.Run(what, func(t *testing.T) {
			world := oneJobWorld()
			world.Queues = append(world.Queues, quotaQueue("second", `{"NVIDIA-H200":4}`))
			world.PodGroups[0].UID = "first"
			job := run(t, world, nil).Jobs["ns/j"]
			for range 2 { // and again in the session after that
				tc.change(job)
				opened.openBooks()
			}
			if q, second := opened.account.Used("q", "NVIDIA-H200"), opened.account.Used("second", "NVIDIA-H200"); q != tc.q || second != tc.second {
				t.Errorf("the queues are charged %d and %d cards, want %d and %d", q, second, tc.q, tc.second)
			}
		})
	}
}

// forge has pods that are being bound bear a queue that their maker wrote.
func forge(j *api.JobInfo, queue string) {
	for _, task := range j.Tasks {
		task.Pod = task.Pod.DeepCopy()
		task.Pod.Annotations["cardquota.dev/charged-queue"], task.Pod.Spec.NodeName = queue, ""
	}
}

// tried has Volcano write the node into the pods, as it does with the informer's.
func tried(j *api.JobInfo) {
	opened.openBooks()
	for _, task := range j.Tasks {
		task.Pod.Spec.NodeName = task.NodeName
	}
}

func TestANodeThatLosesItsLabelMovesNoNumber(t *testing.T) {
	ssn := run(t, oneJobWorld(), nil)
	bare := cardNode("h200", "NVIDIA-H200")
	bare.Labels = nil
	ssn.Nodes["h200"].Node = bare
	listed(t)
	if got := opened.account.Used("q", "NVIDIA-H200"); got != 2 {
		t.Errorf("queue uses %d cards after the label is gone, want 2", got)
	}
	if err := opened.predicate(ssn.Jobs["ns/j"].Tasks["j-h2000"], ssn.Nodes["h200"]); err == nil || !strings.Contains(err.Error(), "no named card") {
		t.Errorf("a node without a label takes new pods: %v", err)
	}
	ssn.Nodes["h200"].Node = cardNode("h200", "NVIDIA-H800")
	listed(t)
	if h200, h800 := opened.account.Used("q", "NVIDIA-H200"), opened.account.Used("q", "NVIDIA-H800"); h200 != 0 || h800 != 2 {
		t.Errorf("after relabelling %d H200 and %d H800 are charged, want the card the node has now", h200, h800)
	}
}

func TestEventsMoveTheBooksExactlyOnce(t *testing.T) {
	ssn := run(t, oneJobWorld(), nil)
	task := ssn.Jobs["ns/j"].Tasks["j-h2000"].Clone() // Volcano replays clones
	used := func() int64 { return int64(opened.account.Used("q", "NVIDIA-H200")) }
	steps := []struct {
		name string
		do   func(*framework.Event)
		want int64
	}{
		{"allocate again", opened.allocated, 2},
		{"evict", opened.deallocated, 1},
		{"evict twice", opened.deallocated, 1},
		{"take the eviction back", opened.allocated, 2},
	}
	for _, step := range steps {
		step.do(&framework.Event{Task: task})
		if used() != step.want {
			t.Errorf("%s: %d cards in use, want %d", step.name, used(), step.want)
		}
	}
}

func TestNothingIsDecidedBeforeTheBooksAreComplete(t *testing.T) {
	start := time.Now()
	absent := "node h200 is not in the session"
	missing := func() string { return absent }
	var c completeness
	if c.check(missing, start) == "" || c.check(missing, start.Add(startUpEnds-time.Second)) == "" {
		t.Error("decided although a node is missing")
	}
	if c.check(missing, start.Add(startUpEnds)) != "" {
		t.Error("still waiting after all patience")
	}
	c = completeness{}
	absent = ""
	if c.check(missing, start) != "" {
		t.Error("waits although nothing is missing")
	}
	absent = "pod ns/p is not in the session"
	if c.check(missing, start) != "" {
		t.Error("complete once is complete for good: later misses are charged, not waited for")
	}

	ssn := run(t, oneJobWorld(), nil)
	opened.notReady = "waits"
	job := ssn.Jobs["ns/j"]
	task := job.Tasks["j-h2000"]
	if opened.allocatable(ssn.Queues["q"], task) || opened.predicate(task, ssn.Nodes["h200"]) == nil || opened.jobEnqueueable(job) > 0 {
		t.Error("a gate is open before the books are complete")
	}
}

func TestMissingFromSessionNamesWhatIsMissing(t *testing.T) {
	run(t, oneJobWorld(), nil)
	if got := opened.missingFromSession(); got != "" {
		t.Fatalf("missing %q in a complete session", got)
	}
	stranger := pods(1, "s", "1", "", "h200")
	listed(t, stranger...)
	if got := opened.missingFromSession(); !strings.Contains(got, "pod ns/s-h2000 on node h200") {
		t.Errorf("missing %q, want the pod that no node of the session has", got)
	}
	delete(opened.ssn.Nodes, "h800")
	opened.memory.nodes["h800"] = knownNode{}
	if got := opened.missingFromSession(); got != "node h800 is not in the session" {
		t.Errorf("missing %q, want the node", got)
	}
}

func short(message string) *decision.Refusal {
	return &decision.Refusal{Reason: decision.ReasonInsufficientScalarQuota, Message: message}
}

func TestRefusalsAreToldOnce(t *testing.T) {
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":1}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Inqueue", "")},
		Pods:      pods(1, "j", "2", "NVIDIA-H200", ""),
	}, nil)
	v := opened.memory.voice
	task := ssn.Jobs["ns/j"].Tasks["j-0"]
	ask := opened.askOf(task)
	refusal := func(total string) string {
		return "Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <" + total + ">, but capability is <1>"
	}
	if len(ssn.Jobs["ns/j"].NodesFitErrors) != 1 || ask.Count != 2 {
		t.Fatalf("fit errors %v, ask %+v", ssn.Jobs["ns/j"].NodesFitErrors, ask)
	}
	again := *short(refusal("3"))
	if text, isNew := v.say(task.Pod.UID, &again); isNew || text != refusal("2") {
		t.Errorf("a moved total is told again: new %v, %q", isNew, text)
	}
	other := *short(strings.Replace(refusal("3"), "capability is <1>", "capability is <0>", 1))
	if text, isNew := v.say(task.Pod.UID, &other); !isNew || text != other.Message {
		t.Errorf("a changed quota is not told: new %v, %q", isNew, text)
	}
	for range 3 { // this session and two without a refusal
		v.sweep()
	}
	if _, isNew := v.say(task.Pod.UID, &other); !isNew {
		t.Error("a refusal that comes back after the pod was well is not told")
	}
	if api.AllocatedStatus(task.Status) {
		t.Error("the pod was placed")
	}
}

func TestAReservationEndsWhenNothingButQuotaIsMissing(t *testing.T) {
	clock := time.Now()
	p := newPatience()
	if !p.lasts("g", clock) || !p.lasts("g", clock.Add(reservationEnds-time.Second)) {
		t.Error("the reservation ended early")
	}
	p.renew("g", clock.Add(time.Minute))
	if !p.lasts("g", clock.Add(reservationEnds)) {
		t.Error("a job that was refused for quota lost its reservation")
	}
	if p.lasts("g", clock.Add(reservationEnds+time.Minute)) {
		t.Error("the reservation never ends")
	}
	p.sweep()
	p.sweep() // a session without it
	if !p.lasts("g", clock.Add(time.Hour)) {
		t.Error("a PodGroup that waits again has no reservation")
	}

	stuck := pods(4, "stuck", "1", "NVIDIA-H200", "")
	for _, pod := range stuck {
		pod.Spec.NodeSelector = map[string]string{"nobody": "has-this"}
	}
	run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":8}`)},
		PodGroups: []*v1beta1.PodGroup{group("stuck", "q", 4, "Inqueue", "4"), group("next", "q", 4, "Inqueue", "4")},
		Pods:      append(stuck, pods(4, "next", "1", "NVIDIA-H200", "")...),
	}, nil)
	reserved := func() (sum int64) {
		for _, d := range opened.waiting["q"].Demands {
			sum += int64(d.Count)
		}
		return sum
	}
	opened.openBooks()
	before := reserved()
	opened.memory.now = func() time.Time { return time.Now().Add(time.Hour) }
	opened.openBooks()
	if before < 4 || reserved() != before-4 {
		t.Errorf("%d cards reserved at first and %d after an hour, want the stuck job's 4 given up", before, reserved())
	}
}

func TestATaskThatVolcanoEvictsHoldsItsCardsUntilTheAPIKnows(t *testing.T) {
	ssn := run(t, oneJobWorld(), nil)
	job := ssn.Jobs["ns/j"]
	task := job.Tasks["j-h2000"]
	delete(job.TaskStatusIndex[api.Running], task.UID)
	job.TaskStatusIndex[api.Releasing] = api.TasksMap{task.UID: task}
	listed(t)
	if got := opened.account.Used("q", "NVIDIA-H200"); got != 2 {
		t.Errorf("queue uses %d cards while an eviction is under way, want 2", got)
	}
	task.Pod = task.Pod.DeepCopy()
	now := metav1.Now()
	task.Pod.DeletionTimestamp = &now
	listed(t)
	if got := opened.account.Used("q", "NVIDIA-H200"); got != 1 {
		t.Errorf("queue uses %d cards after the pod was deleted, want 1", got)
	}
}

func TestAPodOfAMissingQueueIsTold(t *testing.T) {
	run(t, oneJobWorld(), nil)
	lost := pods(1, "lost", "1", "NVIDIA-H200", "")[0]
	lost.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": "nowhere"}
	lost.Spec.SchedulerName = "volcano"
	foreign := lost.DeepCopy()
	foreign.Name, foreign.UID, foreign.Spec.SchedulerName = "foreign", "foreign", "default-scheduler"
	// What cannot be written is said again, so the pod has to be there.
	if _, err := opened.ssn.KubeClient().CoreV1().Pods(lost.Namespace).Create(t.Context(), lost, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	listed(t, lost, foreign)
	voice := opened.memory.voice
	voice.mutex.Lock()
	defer voice.mutex.Unlock()
	if s := voice.said[lost.UID]; s == nil || s.text != "Queue <nowhere> does not exist" {
		t.Errorf("the pod was told %+v", s)
	}
	if s := voice.said[foreign.UID]; s != nil {
		t.Errorf("a pod of another scheduler was told %q", s.text)
	}
}

// TestASessionThatMayNotDecideIsEmpty: Volcano writes a refusal to every pod it
// tried, which would hold up the first session that may decide.
func TestASessionThatMayNotDecideIsEmpty(t *testing.T) {
	ssn := run(t, oneJobWorld(), nil)
	listed(t, pods(1, "unseen", "1", "", "h200")...)
	process.completeness = completeness{}
	jobs, queues := maps.Clone(ssn.Jobs), maps.Clone(ssn.Queues)
	if New(nil).OnSessionOpen(ssn); len(ssn.Jobs) != 0 || len(ssn.Queues) != 0 {
		t.Errorf("%d jobs in %d queues would be tried although a pod is missing", len(ssn.Jobs), len(ssn.Queues))
	}
	process.completeness.since = time.Now().Add(-startUpEnds)
	ssn.Jobs, ssn.Queues = jobs, queues
	if New(nil).OnSessionOpen(ssn); len(ssn.Jobs) == 0 || len(ssn.Queues) == 0 {
		t.Errorf("%d jobs in %d queues once deciding began", len(ssn.Jobs), len(ssn.Queues))
	}
}

// TestPodsAskAnewWhenResourcesMeanSomethingElse: what a pod may run on follows
// the nodes, and a failed card alone changes nothing of it.
func TestPodsAskAnewWhenResourcesMeanSomethingElse(t *testing.T) {
	world := oneJobWorld()
	world.Pods = append(world.Pods, pods(1, "j", "1", "", "")...)
	ssn := run(t, world, nil)
	task := ssn.Jobs["ns/j"].Tasks["j-0"]
	before := opened.askOf(task)
	failed := cardNode("h800", "NVIDIA-H800")
	failed.Status.Allocatable[gpu] = resource.MustParse("7")
	ssn.Nodes["h800"].Node = failed
	if opened.openBooks(); opened.askOf(task) != before {
		t.Error("a failed card made a pod ask anew")
	}
	ssn.Nodes["h800"].Node = cardNode("h800", "NVIDIA-H20")
	opened.openBooks()
	if got := opened.askOf(task).Names; !slices.Equal(got, []card.Name{"NVIDIA-H20", "NVIDIA-H200"}) {
		t.Errorf("after the node was relabelled the pod may run on %v", got)
	}
}

// TestANodeThatWasOnlyTriedIsNotCharged: Volcano writes the node into the pod's
// object when it tries it and leaves it there when it gives up.
func TestANodeThatWasOnlyTriedIsNotCharged(t *testing.T) {
	world := oneJobWorld()
	world.PodGroups = append(world.PodGroups, group("w", "q", 2, "Inqueue", "2"))
	world.Pods = append(world.Pods, pods(1, "w", "1", "NVIDIA-H200", "")...)
	ssn := run(t, world, nil) // a gang of two with one pod is not tried, so try it here
	task := ssn.Jobs["ns/w"].Tasks["w-0"]
	task.Pod.Annotations["scheduling.volcano.sh/queue-name"] = "q"
	task.Pod.Spec.NodeName, task.NodeName, task.Status = "h200", "h200", api.Allocated
	opened.allocated(&framework.Event{Task: task})
	task.Status = api.Pending
	opened.deallocated(&framework.Event{Task: task})
	delete(ssn.Jobs, "ns/w") // its PodGroup is deleted
	for range 3 {
		listed(t, task.Pod)
		if got := opened.account.Used("q", "NVIDIA-H200"); got != 2 {
			t.Fatalf("queue uses %d cards, want the 2 of its running pods", got)
		}
	}
	bound := task.Pod.DeepCopy() // what the API server says counts
	if err := opened.ssn.InformerFactory().Core().V1().Pods().Informer().GetIndexer().Delete(task.Pod); err != nil {
		t.Fatal(err)
	}
	if listed(t, bound); opened.account.Used("q", "NVIDIA-H200") != 3 {
		t.Errorf("queue uses %d cards after the pod was really bound, want 3", opened.account.Used("q", "NVIDIA-H200"))
	}
}
