package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestReclaimHooksEnforceQuotaAlone: Volcano's action reclaim asks the hook preemptive whether a pod may reclaim, then the
// hook reclaimable which pods of a node to evict. Volcano's actions prevent some wrong questions, but each hook is right
// without that. Pod i-0 of queue inf asks for cards of node a, all 8 of which are used by pods of queue tra.
func TestReclaimHooksEnforceQuotaAlone(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, reclaimable string
		cards              int
		wantPreemptive     bool
		wantVictims        int
	}{
		"3 cards within the quota of 8: 3 victims":                   {`{"A":8}`, "true", 3, true, 3},
		"queue tra is not reclaimable: a reclaimer, but no victims":  {`{"A":8}`, "false", 1, true, 0},
		"2 cards, beyond the quota of 1: no reclaimer and no victim": {`{"A":1}`, "true", 2, false, 0},
		"2 cards, all of the quota: 2 victims":                       {`{"A":2}`, "true", 2, true, 2},
	}) {
		s := newReclaimScene(t, fmt.Sprintf(`
			queue inf quota=%s priority=80000 serviceType=inference
			queue tra quota={"A":8} priority=20000 serviceType=training reclaimable=%s
			job t queue=tra min=1 running=a*8
			job i queue=inf min=1 pending=1 cards=%d phase=Pending minCards=1`, tc.quota, tc.reclaimable, tc.cards)).enqueueAndAllocate()
		reclaimer := s.Task("i-0")
		check.Equal(t, "preemptive", tc.wantPreemptive, s.p.preemptive(s.Ssn.Queues["inf"], reclaimer))

		victims, _ := s.p.reclaimable(reclaimer, slices.Collect(maps.Values(s.Job("t").Tasks)))
		check.Equal(t, "victims", tc.wantVictims, len(victims))

		check.That(t, !s.p.preemptive(nil, reclaimer), "preemptive without a queue")
		check.That(t, !s.p.preemptive(s.Ssn.Queues["inf"], []*api.TaskInfo{reclaimer}), "preemptive for a list instead of a pod")
	}
}

// TestRestartedGangDoesNotCountPodsOfItsLastRun: Volcano counts pods that succeeded as ready, also the terminating ones of
// the last run of a gang. So it would start a restarted gang with too few pods. The plugin delays such a gang until the
// old pods are gone, unless it has its minimum without them. Pod j-0 is of the last run: it has succeeded on node a and
// is terminating.
func TestRestartedGangDoesNotCountPodsOfItsLastRun(t *testing.T) {
	ended := changePod("j-0", func(pod *corev1.Pod) { deleted(pod); pod.Status.Phase = corev1.PodSucceeded })

	for t, tc := range check.Cases(t, map[string]struct{ job, wantPlaced string }{
		"a gang of 4 with 3 new pods is delayed":                  {"min=4 running=a pending=3", ""},
		"a gang of 4 with 4 new pods is delayed":                  {"min=4 running=a pending=4", ""},
		"a job with a minimum of 1 is no gang: its pod is placed": {"min=1 running=a pending=1", "a:1"},
		"a gang of 2 runs 2 other pods: a third one is placed":    {"min=2 running=a*3 pending=1", "a:3"},
	}) {
		s := newScene(t, `node a model=A cards=8; queue q quota={"A":8}; job j queue=q `+tc.job, ended).enqueueAndAllocate()
		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
	}
}

// TestPlacementOverQuotaIsUndone: actions and plugins of Volcano can place a pod without asking the predicate. The plugin
// hears of each placement by an event, and refuses one that breaks a rule. Queue q has a quota of 2 cards A, and its gang
// of 3 was never enqueued.
func TestPlacementOverQuotaIsUndone(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; node b model=B cards=8
		queue q quota={"A":2}
		job j queue=q min=3 pending=3 phase=Pending minCards=3`).enqueueAndAllocate()
	check.Says(t, s.allocateTask("j-0", "b", api.Allocated), "card of node b")

	// Two pods fit the quota, and a repeated event counts once.
	for _, pod := range []string{"j-1", "j-2", "j-1"} {
		check.NoError(t, s.allocateTask(pod, "a", api.Pipelined))
	}
	check.Says(t, s.allocateTask("j-0", "a", api.Allocated), "requested <1>, total would be <3>, but capability is <2>")

	// A pod that runs again, because its eviction failed, was placed before, so it is never refused.
	check.NoError(t, s.allocateTask("j-0", "a", api.Running))
}

// TestBindingCarriesTheChargedQueue: the binding of a pod writes the queue that is charged for it into an annotation, because
// the owner of a PodGroup may move it to another queue later. It replaces what the pod's creator wrote there. The pod
// object is shared with Volcano's informer and stays unchanged. Pod j-0 is charged to queue q.
func TestBindingCarriesTheChargedQueue(t *testing.T) {
	s := newScene(t, `node a model=A cards=8
		queue q quota={"A":4}; queue second quota={"A":4}
		job j queue=q min=1 running=a*2`).enqueueAndAllocate()

	for t, tc := range check.Cases(t, map[string]struct {
		change    func(*api.TaskInfo)
		wantQueue string
	}{
		"the pod is charged":                            {func(*api.TaskInfo) {}, "q"},
		"the pod has no annotations":                    {func(task *api.TaskInfo) { task.Pod.Annotations = nil }, "q"},
		"the creator of the pod wrote another queue":    {func(task *api.TaskInfo) { task.Pod.Annotations["cardquota.dev/charged-queue"] = "second" }, "q"},
		"its PodGroup was moved to another queue since": {func(*api.TaskInfo) { s.Job("j").Queue = "second" }, "q"},
		"the pod is not charged: no queue is written":   {func(task *api.TaskInfo) { task.UID = "unknown" }, ""},
	}) {
		task := s.Task("j-0").Clone()
		task.Pod = task.Pod.DeepCopy()
		tc.change(task)
		before := task.Pod.DeepCopy()

		binding := &cache.BindContext{TaskInfo: task}
		s.p.SetupBindContextExtension(nil, binding)
		check.Equal(t, "the pod of the informer", before, task.Pod)

		bound := binding.TaskInfo
		check.Equal(t, "queue of the binding", tc.wantQueue, bound.Pod.Annotations["cardquota.dev/charged-queue"])
		check.Equal(t, "UID of the bound task", task.UID, bound.UID)
		check.Equal(t, "UID of the bound pod", task.Pod.UID, bound.Pod.UID)
		check.Equal(t, "node of the bound task", task.NodeName, bound.NodeName)
		check.Equal(t, "job of the bound task", task.Job, bound.Job)
	}
}

// TestEvictionReleasesTheChargedQueue: the eviction of a pod releases quota of the queue that is charged for it, here q. It
// releases none of another queue, such as one to which its PodGroup was moved.
func TestEvictionReleasesTheChargedQueue(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":4}; job j queue=q min=1 running=a*2`).enqueueAndAllocate()
	check.Equal(t, "cards released of the charged queue", 1, s.p.releasedAmounts(s.Task("j-0"), "q", "A")[quotaCards])

	released := s.p.releasedAmounts(s.Task("j-0"), "second", "A")
	check.Equal(t, "cards released of another queue", 0, released[quotaCards])
	check.Equal(t, "CPU released of another queue", 0, released[quotaCPU])
	check.Equal(t, "memory released of another queue", 0, released[quotaMemory])
}

// TestClosedSessionReports: each session reports once when it closes, which proves to the operator with which configuration
// the scheduler enforces quotas. So it names the hash of its configuration, none if it could not read the arguments, and
// pods that another scheduler bound.
func TestClosedSessionReports(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	for t, tc := range check.Cases(t, map[string]struct {
		args       framework.Arguments
		change     func(*plugin)
		wantReport SessionReport
	}{
		"the hash of its configuration": {
			framework.Arguments{"configHash": "abc"}, func(*plugin) {}, SessionReport{ConfigHash: "abc", At: noon}},
		"the hash also while the cache is not synced and it places nothing": {
			framework.Arguments{"configHash": "abc"}, func(p *plugin) { p.notReadyReason = "not all was seen" },
			SessionReport{ConfigHash: "abc", At: noon}},
		"no hash, but the problem, with invalid arguments": {
			framework.Arguments{"configHash": "abc", "overCommitFactor": 0}, func(*plugin) {},
			SessionReport{Problem: "argument overCommitFactor is 0: write a number from 1 to 100", At: noon}},
		"a pod that another scheduler bound": {
			framework.Arguments{"configHash": "abc"}, func(p *plugin) { p.cache.otherBindings.boundByOthers["u"] = "ns/p" },
			SessionReport{ConfigHash: "abc", BoundByOthers: []string{"ns/p"}, At: noon}},
	}) {
		s := newScene(t, "queue q quota={}").withArguments(tc.args)
		var reports []SessionReport
		s.m.SetSessionObserver(func(r SessionReport) { reports = append(reports, r) })
		s.enqueueAndAllocate()
		check.Equal(t, "reports of an open session", 0, len(reports))

		tc.change(s.p)
		s.m.now = func() time.Time { return noon }
		s.Close()
		check.Equal(t, "reports of the closed session", []SessionReport{tc.wantReport}, reports)

		s.m.SetSessionObserver(nil)
		s.enqueueAndAllocate().Close()
		check.Equal(t, "reports after the observer was removed", 1, len(reports))
	}
}

// TestLongSessionReportsBeforeItCloses: without a report for 20 seconds the operator takes quotas for unenforced. A session
// that places many pods can last longer. So it also reports every 5 seconds while it decides about pods, here for 60
// seconds, with a pod each second.
func TestLongSessionReportsBeforeItCloses(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":8}; job j queue=q min=1 pending=8`)
	s.withArguments(framework.Arguments{"configHash": "abc"}).useClock().openSession()
	var reports []SessionReport
	s.m.SetSessionObserver(func(r SessionReport) { reports = append(reports, r) })
	for i := range 60 {
		s.clock = s.clock.Add(time.Second)
		check.NoError(t, s.Ssn.PrePredicateFn(s.Task(fmt.Sprintf("j-%d", i%8))))
	}

	var want []SessionReport
	for seconds := 5; seconds <= 60; seconds += 5 {
		want = append(want, SessionReport{ConfigHash: "abc", At: s.Now.Add(time.Duration(seconds) * time.Second)})
	}
	check.Equal(t, "reports of the open session", want, reports)

	s.Close()
	check.Equal(t, "reports, with that of the closed session", len(want)+1, len(reports))
}

// TestPlacementsOfASessionAreStored: a closed session remembers where it placed pods, so that the plugin does not take them
// for pods that another scheduler bound. With a quota of 2, job j gets a card. Of gang, one more pod would fit, so its
// placement is undone and not remembered.
func TestPlacementsOfASessionAreStored(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":2}
		job j queue=q min=1 pending=1
		job gang queue=q min=3 pending=3`).enqueueAndAllocate()
	check.Equal(t, "placed", "a:1", s.podsByNode("j"))

	s.Close()
	remembered := s.m.otherBindings.pending
	check.Equal(t, "remembered pods", 1, len(remembered))
	check.Equal(t, "nodes of pod j-0", []string{"a"}, remembered[s.Pod("j-0").UID].nodes)
}

// TestOrphanQueuesAreReparented: Volcano panics, or never returns, on a queue whose ancestors do not end at queue root. For
// the session the plugin makes root the parent of such a queue, and of each queue of a circle. All other queues keep
// their parents, and root has none. The pod of each queue is placed, within its quota of 1.
func TestOrphanQueuesAreReparented(t *testing.T) {
	type parents map[string]string // by queue

	for t, tc := range check.Cases(t, map[string]struct{ before, after parents }{
		"the parent does not exist":                   {parents{"a": "gone"}, parents{"a": "root"}},
		"a queue is its own parent":                   {parents{"a": "a"}, parents{"a": "root"}},
		"two queues are parents of each other":        {parents{"a": "b", "b": "a"}, parents{"a": "root", "b": "root"}},
		"a is below a circle of b and c: a stays":     {parents{"a": "b", "b": "c", "c": "b"}, parents{"a": "b", "b": "root", "c": "root"}},
		"a is below b, whose parent is gone: a stays": {parents{"a": "b", "b": "gone"}, parents{"a": "b", "b": "root"}},
		"all is well, and c has no parent":            {parents{"a": "b", "b": "root", "c": ""}, parents{"a": "b", "b": "root", "c": ""}},
		"all is well in a chain of four": {
			parents{"a": "b", "b": "c", "c": "d", "d": "root"}, parents{"a": "b", "b": "c", "c": "d", "d": "root"}},
		"root has a parent": {parents{"root": "nowhere", "a": "root"}, parents{"root": "", "a": "root"}},
	}) {
		s := newScene(t, "node a model=A cards=8; queue root")
		for queue, parent := range tc.before {
			s.addObjects(fmt.Sprintf(`queue %s quota={"A":1} parent=%s; job of-%s queue=%s min=1 pending=1`, queue, parent, queue, queue))
		}
		// A running pod in root makes Volcano look for the ancestors.
		s.addObjects("job r queue=root min=1 running=a cards=0").enqueueAndAllocate()

		after := parents{}
		for queue := range tc.before {
			after[queue] = s.Ssn.Queues[api.QueueID(queue)].Queue.Spec.Parent
			if queue != "root" {
				check.Equal(t, "placed of queue "+queue, "a:1", s.podsByNode("of-"+queue))
			}
		}

		check.Equal(t, "parents in the session", tc.after, after)
		check.Equal(t, "parent of root", "", s.Ssn.Queues["root"].Queue.Spec.Parent)
		s.Close()
	}
}
