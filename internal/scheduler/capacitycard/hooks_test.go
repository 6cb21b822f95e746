package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestEachHookEnforcesQuotaAlone asks hooks directly what Volcano's actions already
// keep from them: each has to be right when it is the only one that is asked.
func TestEachHookEnforcesQuotaAlone(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text       string
		preemptive bool // reclaimable gives the pods of goes
		goes       int
	}{
		"a queue that does not give":         {"queue tra quota=FULL priority=20000 serviceType=training reclaimable=false; job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1 phase=Pending minCards=1", true, 0},
		"as much as is needed":               {"job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1 cards=3 phase=Pending minCards=1", true, 3},
		"the quota of the reclaimer":         {`queue inf quota={"A":1} priority=80000 serviceType=inference; job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1 cards=2 phase=Pending minCards=1`, false, 0},
		"the quota of the reclaimer, enough": {`queue inf quota={"A":2} priority=80000 serviceType=inference; job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1 cards=2 phase=Pending minCards=1`, true, 2},
	}) {
		s := newReclaimScene(t, tc.text).enqueueAndAllocate()
		reclaimer := s.Task("i-0")
		check.Equal(t, "preemptive", tc.preemptive, s.p.preemptive(s.Ssn.Queues["inf"], reclaimer))

		got, _ := s.p.reclaimable(reclaimer, slices.Collect(maps.Values(s.Job("t").Tasks)))
		check.Equal(t, "pods that would be evicted", tc.goes, len(got))
		check.That(t, !s.p.preemptive(s.Ssn.Queues["inf"], []*api.TaskInfo{reclaimer}) && !s.p.preemptive(nil, reclaimer),
			"permitted without knowing what")
	}
}

// TestRestartedGangDoesNotCountPodsOfItsLastRun: Volcano counts pods that succeeded as ready,
// also the terminating ones of the last run of a gang.
func TestRestartedGangDoesNotCountPodsOfItsLastRun(t *testing.T) {
	ended := func(pod *corev1.Pod) { deleted(pod); pod.Status.Phase = corev1.PodSucceeded }
	for run, want := range map[string]string{
		"job j queue=q min=4 running=a pending=3":   "",    // three of four new pods wait, one of the last run is leaving
		"job j queue=q min=4 running=a pending=4":   "",    // the leaving one may still become a fifth
		"job j queue=q min=1 running=a pending=1":   "a:1", // a pod by itself is its gang
		"job j queue=q min=2 running=a*3 pending=1": "a:3", // the gang has its minimum without what is leaving
	} {
		s := newScene(t, `node a model=A; queue q quota={"A":8}; `+run, changePod("j-0", ended)).enqueueAndAllocate()
		check.Equal(t, fmt.Sprintf("%s: placed on", run), want, s.podsByNode("j"))
	}
}

// TestPlacementOverQuotaIsUndone checks that the session keeps no placement over quota,
// whichever path it takes.
func TestPlacementOverQuotaIsUndone(t *testing.T) {
	s := newScene(t, `node a model=A; node b model=B; queue q quota={"A":2}; job j queue=q min=3 pending=3 phase=Pending minCards=3`).enqueueAndAllocate() // never admitted
	check.Says(t, s.allocateTask("j-0", "b", api.Allocated), "card of node b")
	for _, pod := range []string{"j-1", "j-2", "j-1"} { // the last event is repeated
		check.NoError(t, s.allocateTask(pod, "a", api.Pipelined))
	}
	check.Says(t, s.allocateTask("j-0", "a", api.Allocated), "requested <1>, total would be <3>, but capability is <2>")
	check.That(t, s.allocateTask("j-0", "a", api.Running) == nil, "a pod whose eviction failed was placed before")
}

// TestBindingCarriesTheChargedQueue: the binding of a pod carries the charged queue, and the
// shared pod object stays unchanged.
func TestBindingCarriesTheChargedQueue(t *testing.T) {
	s := oneJob(t).addObjects(`queue second quota={"A":4}`).enqueueAndAllocate()
	job := s.Job("j")
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*api.TaskInfo)
		want   string
	}{
		"charged":                       {func(*api.TaskInfo) {}, "q"},
		"without annotations":           {func(task *api.TaskInfo) { task.Pod.Annotations = nil }, "q"},
		"its maker wrote another queue": {func(task *api.TaskInfo) { task.Pod.Annotations["cardquota.dev/charged-queue"] = "second" }, "q"},
		"its PodGroup was just moved":   {func(*api.TaskInfo) { job.Queue = "second" }, "q"},
		"not charged":                   {func(task *api.TaskInfo) { task.UID = "without-owner" }, ""},
	}) {
		task := s.Task("j-0").Clone()
		task.Pod = task.Pod.DeepCopy()
		tc.change(task)
		binding := &cache.BindContext{TaskInfo: task}
		before := maps.Clone(task.Pod.Annotations)
		s.p.SetupBindContextExtension(nil, binding)
		check.That(t, maps.Equal(task.Pod.Annotations, before), "the informer's pod bears %v now", task.Pod.Annotations)

		bound := binding.TaskInfo
		check.Equal(t, "bound with queue", tc.want, bound.Pod.Annotations["cardquota.dev/charged-queue"])
		check.That(t, bound.UID == task.UID && bound.NodeName == task.NodeName && bound.Pod.UID == task.Pod.UID && bound.Job == task.Job,
			"another task is bound: %v", bound)
	}
}

// TestEvictionReleasesTheChargedQueue: a pod that another queue pays for makes no
// room in the queue that its PodGroup is in now.
func TestEvictionReleasesTheChargedQueue(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	check.Equal(t, "cards that its queue gets back", 1, s.p.releasedAmounts(s.Task("j-0"), "q", "A")[quotaCards])
	give := s.p.releasedAmounts(s.Task("j-0"), "second", "A")
	check.That(t, give[quotaCards] == 0 && give[quotaCPU] == 0 && give[quotaMemory] == 0, "another queue gets back %v", give)
}

func TestClosedSessionReports(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for t, tc := range check.Cases(t, map[string]struct {
		args    framework.Arguments
		prepare func(*plugin)
		want    SessionReport
	}{
		"what it ran with":              {framework.Arguments{"configHash": "abc"}, func(*plugin) {}, SessionReport{ConfigHash: "abc", At: noon}},
		"while it withholds everything": {framework.Arguments{"configHash": "abc"}, func(p *plugin) { p.notReadyReason = "not all was seen" }, SessionReport{ConfigHash: "abc", At: noon}},
		"no hash whose arguments it could not read": {framework.Arguments{"configHash": "abc", "overCommitFactor": 0}, func(*plugin) {},
			SessionReport{Problem: "argument overCommitFactor is 0: write a number from 1 to 100", At: noon}},
		"pods that another scheduler bound": {framework.Arguments{"configHash": "abc"},
			func(p *plugin) { p.cache.otherBindings.boundByOthers["u"] = "ns/p" }, SessionReport{ConfigHash: "abc", BoundByOthers: []string{"ns/p"}, At: noon}},
	}) {
		s := newScene(t, "queue q quota={}").withArguments(tc.args)
		var reports []SessionReport
		s.m.SetSessionObserver(func(r SessionReport) { reports = append(reports, r) })
		s.enqueueAndAllocate()
		check.Must(t, len(reports) == 0, "a session reports before it is closed")

		tc.prepare(s.p)
		s.m.now = func() time.Time { return noon }
		s.Close()
		check.Equal(t, "reports", []SessionReport{tc.want}, reports)

		s.m.SetSessionObserver(nil)
		s.enqueueAndAllocate().Close()
		check.That(t, len(reports) == 1, "a session reports to no listener")
	}
}

// TestLongSessionReportsBeforeItCloses: while it decides about pods, and as often
// as the proof needs it.
func TestLongSessionReportsBeforeItCloses(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":8}; job j queue=q min=1 pending=8`).withArguments(framework.Arguments{"configHash": "abc"}).useClock().openSession()
	var reports []SessionReport
	s.m.SetSessionObserver(func(r SessionReport) { reports = append(reports, r) })
	for i := range 60 {
		s.clock = s.clock.Add(time.Second)
		check.NoError(t, s.Ssn.PrePredicateFn(s.Task(fmt.Sprintf("j-%d", i%8))))
	}

	check.That(t, len(reports) == 12 && reports[0].ConfigHash == "abc", "60 s of one session gave the reports %v, want 12", reports)
	for i := range reports {
		check.Equal(t, "at", s.Now.Add(time.Duration(i+1)*5*time.Second), reports[i].At)
	}

	s.Close()
	check.Equal(t, "reports with that of the close", 13, len(reports))
}

// TestPlacementsOfASessionAreStored: what the session keeps is known as this
// process's own when the pod shows its node; what it undoes is not.
func TestPlacementsOfASessionAreStored(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":2}; job j queue=q min=1 pending=1; job gang queue=q min=3 pending=3`).enqueueAndAllocate()
	check.Equal(t, "placed", "a:1", s.podsByNode("j"))
	s.Close()
	sent := s.m.otherBindings.pending
	check.That(t, len(sent) == 1 && slices.Equal(sent[s.Pod("j-0").UID].nodes, []string{"a"}), "sent to be bound: %v", sent)
}

// TestOrphanQueuesAreReparented opens and closes sessions with queues
// on which Volcano itself would panic or never return. A job runs in each.
func TestOrphanQueuesAreReparented(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ queues, adopted string }{ // child:parent
		"a parent that does not exist":           {"a:gone", "a"},
		"its own parent":                         {"a:a", "a"},
		"a circle of two":                        {"a:b b:a", "a b"},
		"a child below a circle":                 {"a:b b:c c:b", "b c"},
		"a queue below one whose parent is gone": {"a:b b:gone", "b"},
		"a good tree is left alone":              {"a:b b:root c:", ""},
		"a long chain that is all good":          {"a:b b:c c:d d:root", ""},
		"a root with a parent":                   {"root:nowhere a:root", "root"},
	}) {
		s := newScene(t, "node a model=A; queue root")
		for _, word := range strings.Fields(tc.queues) {
			child, parent, _ := strings.Cut(word, ":")
			s.addObjects("queue " + child + ` quota={"A":1} parent=` + parent + "; job j-" + child + " queue=" + child + " min=1 pending=1")
		}

		s.addObjects("job r queue=root min=1 running=a cards=0").enqueueAndAllocate() // a pod in root makes Volcano look for it
		var got []string
		for _, original := range s.Queues {
			child := s.Ssn.Queues[api.QueueID(original.Name)].Queue
			if child.Spec.Parent == original.Spec.Parent {
				continue
			}
			check.Equal(t, "parent of queue "+child.Name, map[bool]string{true: "", false: "root"}[child.Name == "root"], child.Spec.Parent)
			got = append(got, child.Name)
		}

		slices.Sort(got)
		check.Equal(t, "adopted", tc.adopted, strings.Join(got, " "))
		for _, queue := range s.Queues {
			if queue.Name != "root" {
				check.Equal(t, "placed of queue "+queue.Name+" with a quota of 1", "a:1", s.podsByNode("j-"+queue.Name))
			}
		}

		s.Close()
	}
}
