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

	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestReclaimHooksEnforceQuotaAlone: Volcano's action reclaim asks the hook preemptive whether a pod may reclaim,
// then the hook reclaimable which pods of a node to evict. Here the test calls both hooks itself, without the action:
// each hook enforces the quota alone. The hook reclaimable also returns no pods of queues that are not reclaimable.
// The hook preemptive also says no without a queue, and for a list of pods instead of a pod.
//
// Pod i-0 of queue inf requests the cards of a row. The pods of queue tra use all 8 cards of node a.
func TestReclaimHooksEnforceQuotaAlone(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, reclaimable string
		cards              int
		wantPreemptive     bool
		wantVictims        int
	}{
		"3 cards, within the quota of 8: 3 victims":                                {`{"A":8}`, "true", 3, true, 3},
		"1 card, but queue tra is not reclaimable: i-0 may reclaim, but no victim": {`{"A":8}`, "false", 1, true, 0},
		"2 cards, beyond the quota of 1: i-0 may not reclaim, and no victim":       {`{"A":1}`, "true", 2, false, 0},
		"2 cards, all of the quota of 2: 2 victims":                                {`{"A":2}`, "true", 2, true, 2},
	}) {
		s := newReclaimScene(t, fmt.Sprintf(`
			queue inf quota=%s priority=80000 serviceType=inference
			queue tra quota={"A":8} priority=20000 serviceType=training reclaimable=%s
			job t queue=tra min=1 running=a*8
			job i queue=inf min=1 pending=1 cards=%d`, tc.quota, tc.reclaimable, tc.cards)).enqueueAndAllocate()
		reclaimer := s.Task("i-0")
		check.Equal(t, "preemptive", tc.wantPreemptive, s.p.podReclaim.preemptive(s.Ssn.Queues["inf"], reclaimer))

		victims, _ := s.p.podReclaim.reclaimable(reclaimer, slices.Collect(maps.Values(s.Job("t").Tasks)))
		check.Equal(t, "victims", tc.wantVictims, len(victims))

		check.That(t, !s.p.podReclaim.preemptive(nil, reclaimer), "preemptive says yes without a queue")
		check.That(t, !s.p.podReclaim.preemptive(s.Ssn.Queues["inf"], []*api.TaskInfo{reclaimer}), "preemptive says yes to a list instead of a pod")
	}
}

// TestRestartedGangDoesNotCountPodsOfItsLastRun: Volcano counts pods that succeeded as ready, also the terminating ones of
// the last run of a gang. So Volcano would start a restarted gang with too few pods. The plugin delays such a gang until
// the old pods are gone, unless its running pods are its minimum without them. Pod j-0 is of the last run: it has succeeded
// on node a and is terminating. wantPlaced "a:1" is one running or newly placed pod on node a, besides j-0.
func TestRestartedGangDoesNotCountPodsOfItsLastRun(t *testing.T) {
	ended := changePod("j-0", func(pod *corev1.Pod) { deleted(pod); pod.Status.Phase = corev1.PodSucceeded })

	for t, tc := range check.Cases(t, map[string]struct{ job, wantPlaced string }{
		"a gang of 4 with 3 new pods is delayed":                  {"min=4 running=a pending=3", ""},
		"a gang of 4 with 4 new pods is delayed":                  {"min=4 running=a pending=4", ""},
		"a job with a minimum of 1 is no gang: its pod is placed": {"min=1 running=a pending=1", "a:1"},
		"a gang of 2 runs 2 pods besides j-0: a third is placed":  {"min=2 running=a*3 pending=1", "a:3"},
	}) {
		s := newScene(t, `node a model=A cards=8; queue q quota={"A":8}; job j queue=q `+tc.job, ended).enqueueAndAllocate()
		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
	}
}

// TestPlacementBeyondTheRulesIsRefused: actions and plugins of Volcano can place a pod without asking the predicate. The
// plugin gets an event for each placement. It answers with an error if the placement breaks a rule. Then Volcano undoes
// the placement, as allocateTask does here. Queue q has a quota of 2 cards A. Its gang j of 3 pods, which need cards A, is
// not enqueued, so the session itself places none.
func TestPlacementBeyondTheRulesIsRefused(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; node b model=B cards=8
		queue q quota={"A":2}
		job j queue=q min=3 pending=3 phase=Pending minCards=3`).enqueueAndAllocate()
	check.Says(t, s.allocateTask("j-0", "b", api.Allocated), "card of node b") // node b has cards B

	// Two pods fit the quota, and the repeated event for pod j-1 counts once.
	for _, pod := range []string{"j-1", "j-2", "j-1"} {
		check.NoError(t, s.allocateTask(pod, "a", api.Pipelined))
	}
	check.Says(t, s.allocateTask("j-0", "a", api.Allocated), "requested <1>, total would be <3>, but capability is <2>")

	// The status Running is that of a pod whose eviction failed. It was placed before, so it is never refused.
	check.NoError(t, s.allocateTask("j-0", "a", api.Running))
}

// TestBindingCarriesTheChargedQueue: the binding of a pod writes the queue that is charged for the pod into an annotation.
// The owner of its PodGroup may move the PodGroup to another queue later. The binding replaces what the pod's creator wrote
// there. It changes a copy: the pod object is shared with Volcano's informer and stays as it is. Pod j-0 is charged to
// queue q.
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
		check.Equal(t, "the pod object of the informer", before, task.Pod)

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
	check.Equal(t, "cards released of the charged queue", 1, s.p.victims.ReleasedAmounts(s.Task("j-0"), "q", "A")[victims.QuotaCards])

	released := s.p.victims.ReleasedAmounts(s.Task("j-0"), "second", "A")
	check.Equal(t, "cards released of another queue", 0, released[victims.QuotaCards])
	check.Equal(t, "CPU released of another queue", 0, released[victims.QuotaCPU])
	check.Equal(t, "memory released of another queue", 0, released[victims.QuotaMemory])
}

// TestClosedSessionReports: each session reports once when it closes, to the observer that is set. The report proves to the
// operator with which configuration the scheduler enforces quotas. So it has the hash of the configuration, or a problem
// instead if the arguments are invalid. It also names pods that another scheduler bound.
func TestClosedSessionReports(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	for t, tc := range check.Cases(t, map[string]struct {
		args       framework.Arguments
		change     func(*Plugin)
		wantReport SessionReport
	}{
		"valid arguments: the hash of the configuration": {
			framework.Arguments{"configHash": "abc"}, func(*Plugin) {}, SessionReport{ConfigHash: "abc", At: noon}},
		"the cache is not synced, so that the session places nothing: the hash as well": {
			framework.Arguments{"configHash": "abc"}, func(p *Plugin) { p.AwaitsSync = true },
			SessionReport{ConfigHash: "abc", At: noon}},
		"invalid arguments: no hash, but the problem": {
			framework.Arguments{"configHash": "abc", "overCommitFactor": 0}, func(*Plugin) {},
			SessionReport{Problem: "argument overCommitFactor is 0: write a number from 1 to 100", At: noon}},
		"another scheduler bound a pod: its name": {
			framework.Arguments{"configHash": "abc"}, bindByAnother,
			SessionReport{ConfigHash: "abc", BoundByOthers: []string{"ns/p"}, At: noon}},
	}) {
		s := newScene(t, "queue q quota={}").withArguments(tc.args)
		var reports []SessionReport
		s.m.SetSessionObserver(func(r SessionReport) { reports = append(reports, r) })
		s.enqueueAndAllocate()
		check.Equal(t, "reports of an open session", 0, len(reports))

		tc.change(s.p)
		s.m.Now = func() time.Time { return noon }
		s.Close()
		check.Equal(t, "reports of the closed session", []SessionReport{tc.wantReport}, reports)

		s.m.SetSessionObserver(nil)
		s.enqueueAndAllocate().Close()
		check.Equal(t, "reports after one more session, without an observer", 1, len(reports))
	}
}

// bindByAnother has pod ns/p pending in one session, and on a node in the next one, although the plugin did not place it.
func bindByAnother(p *Plugin) {
	c := p.cache
	now := c.Now
	c.BeginSession()
	c.Now = func() time.Time { return now().Add(time.Minute) }
	c.BeginSession()
	c.ObservePod(builder.Pod("ns", "p").UID("u").Scheduler("volcano").Obj())

	c.BeginSession()
	c.ObservePod(builder.Pod("ns", "p").UID("u").Scheduler("volcano").Node("n").Obj())
	c.Now = now
}

// TestLongSessionReportsBeforeItCloses: without a report for 20 seconds the operator takes quotas for unenforced. A session
// that places many pods can last longer. So the session also reports every 5 seconds while it decides about pods, here for
// 60 seconds, with a pod each second.
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
// for pods that another scheduler bound. With a quota of 2, job j gets a card. One pod of job gang would fit as well, but
// the gang needs 3. So the session undoes the placement of this pod, and does not remember it. Then pods of both jobs show
// node a: the one of the gang must be another scheduler's doing.
func TestPlacementsOfASessionAreStored(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":2}
		job j queue=q min=1 pending=1
		job gang queue=q min=3 pending=3`).useClock()
	for range 2 { // the second session may detect other bindings, since the first has seen all nodes and pods
		s.openSession()
		s.clock = s.clock.Add(time.Minute)
	}
	s.enqueueAndAllocate()
	check.Equal(t, "placed", "a:1", s.podsByNode("j"))

	for i, pod := range s.Pods {
		if pod.Name == "j-0" || pod.Name == "gang-0" {
			s.Pods[i] = pod.DeepCopy()
			s.Pods[i].Spec.NodeName = "a"
			s.Pods[i].Status.Phase = corev1.PodRunning
		}
	}
	s.Close()
	s.Cache = nil // Volcano reads the pods again
	s.openSession()
	check.Equal(t, "pods that another scheduler bound", []string{"ns/gang-0"}, s.m.OtherBindings.BoundByOthersNames())
}

// TestOrphanQueuesAreReparented: Volcano panics, or never returns, on a queue whose ancestors do not end at queue
// root. So for the session the plugin makes root the parent of a queue whose parent does not exist, and of each queue
// of a cycle. All other queues keep their parents, and root has none. Then the one pod of each queue below root is
// placed, on node a. queueHierarchy is Flat, the default: the quota of one A of a queue does not limit the queues
// below it.
func TestOrphanQueuesAreReparented(t *testing.T) {
	type parents map[string]string // by queue

	for t, tc := range check.Cases(t, map[string]struct{ before, after parents }{
		"the parent does not exist":                   {parents{"a": "gone"}, parents{"a": "root"}},
		"a queue is its own parent":                   {parents{"a": "a"}, parents{"a": "root"}},
		"two queues are parents of each other":        {parents{"a": "b", "b": "a"}, parents{"a": "root", "b": "root"}},
		"a is below a cycle of b and c: a stays":      {parents{"a": "b", "b": "c", "c": "b"}, parents{"a": "b", "b": "root", "c": "root"}},
		"a is below b, whose parent is gone: a stays": {parents{"a": "b", "b": "gone"}, parents{"a": "b", "b": "root"}},
		"nothing is wrong, and c has no parent":       {parents{"a": "b", "b": "root", "c": ""}, parents{"a": "b", "b": "root", "c": ""}},
		"nothing is wrong in a chain of four": {
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
