package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// TestPodsPreemptOtherJobsOnlyForTheMinimumOfTheirJob: preempt evicts pods of lower priority in the same queue. A
// pod of a Volcano job or of a gang preempts other jobs only while its job lacks pods for its minimum (min=): more
// pods would make it faster, at the cost of others. Each pod of a Deployment counts as a job of its own; here that
// is a job with min=1 that is no Volcano job. Inside a job, the pods' own task priority decides. All 8 cards of
// node a are in use.
func TestPodsPreemptOtherJobsOnlyForTheMinimumOfTheirJob(t *testing.T) {
	urgent := changePod("j-3", annotate("volcano.sh/task-priority", "10"))
	for t, tc := range check.Cases(t, map[string]struct {
		scene                      string
		change                     func(*corev1.Pod)
		wantEvicted, wantPipelined string // "high@a:4": four pods of job high get the freed cards of node a
	}{
		"a Volcano job of 8 pods lacks its minimum of 4: 4 pods are evicted": {
			scene: `job low queue=q min=1 running=a*8 priorityClass=low owner=vcjob
				job high queue=q min=4 pending=8 priorityClass=high owner=vcjob`,
			wantEvicted: "low:4", wantPipelined: "high@a:4",
		},
		"a gang of 8 pods lacks its minimum of 4: 4 pods are evicted": {
			scene: `job low queue=q min=1 running=a*8 priorityClass=low
				job high queue=q min=4 pending=8 priorityClass=high`,
			wantEvicted: "low:4", wantPipelined: "high@a:4",
		},
		"a Volcano job of 8 pods lacks its minimum of 1: 1 pod is evicted": {
			scene: `job low queue=q min=1 running=a*8 priorityClass=low
				job high queue=q min=1 pending=8 priorityClass=high owner=vcjob`,
			wantEvicted: "low:1", wantPipelined: "high@a:1",
		},
		"a Volcano job runs its minimum of 4: no eviction": {
			scene: `job low queue=q min=1 running=a*4 priorityClass=low
				job high queue=q min=4 running=a*4 pending=4 priorityClass=high owner=vcjob`,
		},
		"a Volcano job runs 3 of its minimum of 4: 1 pod is evicted": {
			scene: `job low queue=q min=1 running=a*5 priorityClass=low
				job high queue=q min=4 running=a*3 pending=4 priorityClass=high owner=vcjob`,
			wantEvicted: "low:1", wantPipelined: "high@a:1",
		},
		"3 pods of a Deployment wait beside one that runs: 3 pods are evicted": {
			scene: `job low queue=q min=1 running=a*7 priorityClass=low
				job high queue=q min=1 running=a pending=3 priorityClass=high`,
			wantEvicted: "low:3", wantPipelined: "high@a:3",
		},
		"of 3 waiting pods only the one of task ps is needed for the minimum: 1 pod is evicted": {
			scene: `job low queue=q min=1 running=a*4 priorityClass=low
				job high queue=q min=5 running=a*4 pending=3 priorityClass=high` +
				" task=worker,pods:4,min:4 task=extra,pods:2,min:0 task=ps,pods:1,min:1",
			wantEvicted: "low:1", wantPipelined: "high@a:1",
		},
		"no pod has a lower priority: no eviction": {
			scene: `job equal queue=q min=1 running=a*8 priorityClass=high
				job high queue=q min=1 pending=1 priorityClass=high`,
		},
		"j-3 has a higher task priority than the running pods of its Volcano job, which is above its minimum: one of them is evicted": {
			scene: `job low queue=q min=1 running=a*5 priorityClass=low
				job j queue=q min=2 running=a*3 pending=1 priorityClass=high owner=vcjob`,
			change:      urgent,
			wantEvicted: "j:1", wantPipelined: "j@a:1",
		},
		"3 pods of a Volcano job above its minimum wait, and only j-3 has a higher task priority than those that run: one is evicted": {
			scene: `job low queue=q min=1 running=a*5 priorityClass=low
				job j queue=q min=2 running=a*3 pending=3 priorityClass=high owner=vcjob`,
			change:      urgent,
			wantEvicted: "j:1", wantPipelined: "j@a:1",
		},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && strings.Contains(tc.wantEvicted, ":4") {
				continue // Volcano decides on a copy of the node, and evicts for the first pod only
			}

			s := newScene(t, `node a model=A
				queue q quota={"A":8} cpu=1000
				`+tc.scene, tc.change)
			// Each Volcano job continues when it loses a pod above its minimum.
			s.vcjobPolicies = map[string]workload.EvictionPolicy{"low": {}, "high": {}, "j": {}}
			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))

			check.Equal(t, "pods that are evicted", tc.wantEvicted, countByState(slices.Concat(s.preempted...)))
			check.Equal(t, "pipelined pods", tc.wantPipelined, countByState(s.In(api.Pipelined)))
		}
	}
}

// topologyAwarePreempt is the configuration of Volcano's action preempt, with or without its topology-aware search.
func topologyAwarePreempt(isEnabled bool) conf.Configuration {
	return conf.Configuration{Name: "preempt", Arguments: map[string]any{preempt.EnableTopologyAwarePreemptionKey: isEnabled}}
}

// TestEveryQueuePreemptsInEachSession: in a session (one scheduling cycle) Volcano's preempt alone serves one
// queue, and passes over pods of the others. The plugin runs preempt once for each queue, and shows it only the
// jobs of that queue. Afterwards the session has all 16 jobs again. In each of 8 queues a pod of high priority
// waits for the one card of its node, which a pod of low priority uses. So 8 pods are evicted, and 8 get their
// cards.
func TestEveryQueuePreemptsInEachSession(t *testing.T) {
	s := newScene(t, "")
	for i := range 8 {
		s.addObjects(strings.ReplaceAll(`node nI model=A cards=1
			queue qI quota={"A":1} cpu=10
			job lowI queue=qI min=1 running=nI priorityClass=low
			job highI queue=qI min=1 pending=1 priorityClass=high`, "I", fmt.Sprint(i)))
	}
	s.evict(preempt.New())

	check.Equal(t, "evicted pods", 8, len(s.In(api.Releasing)))
	check.Equal(t, "pipelined pods", 8, len(s.In(api.Pipelined)))
	check.Equal(t, "jobs that the session has after preempt", 16, len(s.Ssn.Jobs))
}

// TestPreemptLooksAtAllNodes: of more than a hundred nodes Volcano looks at a sample. The plugin has it look at all,
// because the best victim may be outside. Each node has two cards and a gang of two. Only the job on the middle node
// has a minimum of one, so one of its two pods is elastic. That one is evicted for the one card that is needed.
func TestPreemptLooksAtAllNodes(t *testing.T) {
	for _, nodes := range []int{99, 101, 250} {
		s := newScene(t, `queue q quota={"A":1000} cpu=1000
			job high queue=q min=1 pending=1 priorityClass=high`)
		for i := range nodes {
			s.addObjects(fmt.Sprintf(`node n%d model=A cards=2
				job gang%d queue=q min=2 running=n%d*2 priorityClass=low`, i, i, i))
		}
		elastic := s.Groups[1+nodes/2] // the middle one; the first is that of job high
		elastic.Spec.MinMember = 1
		s.evict(preempt.New())

		check.Equal(t, fmt.Sprintf("evicted pods at %d nodes", nodes), elastic.Name+":1", countByState(slices.Concat(s.preempted...)))
	}
}

// TestJobIsEnqueuedIntoAFullQueueIfItMayPreempt: no pod of a job with the PodGroup phase Pending is scheduled;
// Volcano enqueues the job when its queue has quota. Queue q has a quota of 8 A and uses all. If job high were not
// enqueued, its pods could never preempt. So it is enqueued if it may preempt jobs of lower priority for its minimum.
// Pods that may not be evicted do not count. Only the action enqueue runs; preempt is configured, but evicts no pod.
func TestJobIsEnqueuedIntoAFullQueueIfItMayPreempt(t *testing.T) {
	const (
		high = `
			job high queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high`
		lowGang = "job low queue=q min=8 running=a*8 priorityClass=low"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		scene         string
		change        func(*corev1.Pod)
		withoutAction bool // preempt is not among the configured actions
		wantEnqueued  int
	}{
		"a gang of lower priority: enqueued":                                          {scene: lowGang + high, wantEnqueued: 1},
		"a gang of lower priority, and the action preempt is not configured: refused": {scene: lowGang + high, withoutAction: true},
		"a job of one pod of lower priority: enqueued": {
			scene: `job low queue=q min=1 running=a*1 priorityClass=low
				job top queue=q min=7 running=a*7 priorityClass=high` + high,
			wantEnqueued: 1,
		},
		"a gang of equal priority: refused": {scene: "job equal queue=q min=8 running=a*8 priorityClass=high" + high},
		"one pod of the gang of lower priority may not be evicted: refused": {
			scene:  lowGang + high,
			change: changePod("low-3", annotate("volcano.sh/preemptable", "false")),
		},
		"the PodGroup of the gang may not be evicted: refused": {scene: lowGang + " groupPreemptable=false" + high},
		"the gang has a priority class of the cluster itself: refused": {
			scene: lowGang + high,
			change: func(p *corev1.Pod) {
				if strings.HasPrefix(p.Name, "low") {
					p.Spec.PriorityClassName = "system-node-critical"
				}
			},
		},
		"a Volcano job whose policy for evictions is known: enqueued": {
			scene:        "job known queue=q min=8 running=a*8 priorityClass=low owner=vcjob" + high,
			wantEnqueued: 1,
		},
		"a Volcano job whose policy for evictions is unknown: refused": {scene: lowGang + " owner=vcjob" + high},
		"the preemption policy of the pod that waits is Never: refused": {
			scene:  lowGang + high,
			change: changePod("high-0", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }),
		},
		"the job needs card B, of which a job of equal priority has the only one, and the gang has cards A: refused": {
			scene: lowGang + `
				node c model=B cards=1
				job top queue=q min=1 running=c card=B priorityClass=high
				job high queue=q min=1 pending=1 card=B minCards=0 request={"B":1} phase=Pending priorityClass=high`,
		},
		"three jobs wait for one card each, and the gang has two: two are enqueued": {
			scene: `job low queue=q min=2 running=a*2 priorityClass=low
				job top queue=q min=6 running=a*6 priorityClass=high` + high + `
				job h1 queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high
				job h2 queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high`,
			wantEnqueued: 2,
		},
		"the gang of lower priority is in another queue: refused": {
			scene: `queue other quota={"A":8} cpu=1000
				job low queue=other min=8 running=a*8 priorityClass=low
				job top queue=q min=8 running=b*8 card=A priorityClass=high` + high,
		},
	}) {
		s := newScene(t, `node a,b model=A
			queue q quota={"A":8,"B":1} cpu=1000
			`+tc.scene, tc.change)
		s.vcjobPolicies = map[string]workload.EvictionPolicy{"known": {}} // of Volcano jobs
		s.m.EvictionPolicies = s.evictionPolicyOf
		s.openSession()
		actions := []framework.Action{enqueue.New(), idleAction{preempt.New()}}
		if tc.withoutAction {
			actions = actions[:1]
		}
		s.Run(actions...)

		enqueued := slices.DeleteFunc([]string{"high", "h1", "h2"}, func(name string) bool {
			return s.Job(name) == nil || s.Job(name).IsPending()
		})
		check.That(t, len(enqueued) == tc.wantEnqueued, "%v are enqueued, want %d jobs", enqueued, tc.wantEnqueued)
	}
}

// idleAction is preempt as a configured action that evicts no pod.
type idleAction struct{ *preempt.Action }

func (idleAction) Execute(*framework.Session) {}

// TestPreemptedCardsAreKeptForTheirPreemptor: preempt evicted a pod on node a for preemptor-0 of PriorityClass low.
// Node a has one card, queue q a quota of 4. Until preemptor-0 is placed, and for five minutes at most, that card is
// kept for preemptor-0. Pods of its queue with the same or a lower priority do not get it, nor do pods of other queues.
// Otherwise the eviction would be in vain. preemptor-0 itself waits, because it has a scheduling gate. A queue or node that
// a row names again replaces the first one.
func TestPreemptedCardsAreKeptForTheirPreemptor(t *testing.T) {
	const otherQueue = `
		job v queue=other min=1 pending=1 priorityClass=high`
	for t, tc := range check.Cases(t, map[string]struct {
		scene      string
		after      time.Duration
		minMember  int    // the minimum of the job of preemptor-0, 1 unless the row says more
		wantPlaced string // pods of job v; "a:1" is one on node a
	}{
		"v is in another queue: it waits": {
			scene: otherQueue, after: time.Minute, wantPlaced: "",
		},
		"v has the same priority in the same queue: it waits": {
			scene: "job v queue=q min=1 pending=1 priorityClass=low", after: time.Minute, wantPlaced: "",
		},
		"v has a lower priority in the same queue: it waits": {
			scene: "job v queue=q min=1 pending=1", after: time.Minute, wantPlaced: "",
		},
		"v has a higher priority in the same queue: placed": {
			scene: "job v queue=q min=1 pending=1 priorityClass=high", after: time.Minute, wantPlaced: "a:1",
		},
		"v is in another queue, just before five minutes: it waits": {
			scene: otherQueue, after: 5*time.Minute - time.Second, wantPlaced: "",
		},
		"v is in another queue, after five minutes: placed": {
			scene: otherQueue, after: 5 * time.Minute, wantPlaced: "a:1",
		},
		"node a has a second card, which is not kept: placed": {
			scene: "node a model=A cards=2" + otherQueue, after: time.Minute, wantPlaced: "a:1",
		},
		"the quota was lowered to nothing, so preemptor-0 cannot start: placed": {
			scene: "queue q quota={} priority=10" + otherQueue, after: time.Minute, wantPlaced: "a:1",
		},
		"the gang of preemptor-0 lacks a pod, so it cannot start: placed": {
			scene: otherQueue, minMember: 2, after: time.Minute, wantPlaced: "a:1",
		},
		"v has the same priority and node c is free, but the quota of 1 is kept for preemptor-0: it waits": {
			scene: `queue q quota={"A":1} priority=10 cpu=1000
				node c model=A cards=1
				job v queue=q min=1 pending=1 priorityClass=low`,
			after: time.Minute, wantPlaced: "",
		},
		"v has the same priority and node c is free, and the quota of 2 suffices for both: placed": {
			scene: `queue q quota={"A":2} priority=10 cpu=1000
				node c model=A cards=1
				job v queue=q min=1 pending=1 priorityClass=low`,
			after: time.Minute, wantPlaced: "c:1",
		},
	}) {
		s := newScene(t, fmt.Sprintf(`node a model=A cards=1
			queue q quota={"A":4} priority=10 cpu=1000
			queue other quota={"A":4} priority=20 cpu=1000
			job preemptor queue=q min=%d pending=1 priorityClass=low
			%s`, max(1, tc.minMember), tc.scene)).useClock()
		s.openSession()
		s.m.kept.Preempted[s.Pod("preemptor-0").UID] = keptcards.Nomination{Node: "a", Since: s.clock}
		s.clock = s.clock.Add(tc.after)

		s.Update("preemptor-0", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
		s.enqueueAndAllocate()
		check.Equal(t, "v is placed on", tc.wantPlaced, s.podsByNode("v"))
	}
}

// TestSecondPreemptorUsesNoKeptCards: node a has 4 cards, all used by pods of low priority. In the first session one
// of them is evicted for high-0. In the next one late-0 needs a card too. The card that becomes free is kept for
// high-0, which waits for it. So preempt evicts a second pod, and late-0 does not wait until high-0 is placed.
func TestSecondPreemptorUsesNoKeptCards(t *testing.T) {
	s := newScene(t, `node a model=A cards=4
		queue q quota={"A":4} cpu=1000
		job low queue=q min=1 running=a*4 priorityClass=low
		job high queue=q min=1 pending=1 priorityClass=high`)
	s.evict(preempt.New())
	check.Equal(t, "evicted pods of the first session", 1, len(s.In(api.Releasing)))

	// The second session: the eviction of the first one was requested, its pod still runs, and late-0 waits as well.
	for _, task := range slices.Concat(s.preempted...) {
		s.pluginForActions().Evictions.MarkEvicting(task)
	}
	s.addObjects("job late queue=q min=1 pending=1 priorityClass=high")
	s.Cache.AddPodGroupV1beta1(s.Groups[len(s.Groups)-1])
	s.Cache.AddPod(s.Pods[len(s.Pods)-1].DeepCopy())
	s.openSession()
	defer s.pluginForActions().Evictions.AssumeEvicted()() // as the program does while it runs preempt
	s.pluginForActions().Preempt(preemption.Hooks{PolicyFor: s.evictionPolicyOf}, func() { s.Run(preempt.New()) })

	check.Equal(t, "pods that are being evicted, with that of the first session", 2, len(s.In(api.Releasing)))
	check.Equal(t, "pipelined pods", "late-0@a", session.Names(s.In(api.Pipelined)))
}

// TestPreemptTakesNoCardsThatAGangAwaits: node a has 6 cards. Pods of low priority use 4; the 2 free ones are kept
// for an inference gang of 4 pods, which waits for 2 more. For a training pod of high priority, preempt may use only
// cards that it frees: not the kept ones.
func TestPreemptTakesNoCardsThatAGangAwaits(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		cards                      int    // of the pod with high priority
		wantEvicted, wantPipelined string // "low:2" is two pods of job low, "high@a:1" one of job high that gets its cards on a
	}{
		"1 card is needed: 1 pod is evicted although 2 cards are free":           {1, "low:1", "high@a:1"},
		"2 cards are needed: 2 pods are evicted":                                 {2, "low:2", "high@a:1"},
		"4 cards are needed: 4 pods are evicted":                                 {4, "low:4", "high@a:1"},
		"5 cards are needed, more than the 4 that can be freed: none is evicted": {5, "", ""},
	}) {
		for _, topologyAware := range []bool{false, true} {
			s := newScene(t, fmt.Sprintf(`node a model=A cards=6
				queue inf quota={"A":20} priority=80000 serviceType=inference cpu=100
				queue tra quota={"A":20} priority=20000 serviceType=training cpu=100
				job g queue=inf min=4 pending=4 minCards=4
				job low queue=tra min=1 running=a*4 priorityClass=low
				job high queue=tra min=1 pending=1 priorityClass=high cards=%d`, tc.cards))
			s.openSession(topologyAwarePreempt(topologyAware)).Run(enqueue.New())
			s.allocate()
			check.Equal(t, "nodes with cards that are kept", []string{"a"}, s.p.Kept.Nodes())

			evicted := s.pluginForActions().Preempt(preemption.Hooks{PolicyFor: s.evictionPolicyOf}, func() { s.Run(preempt.New()) })
			check.Equal(t, "evicted pods", tc.wantEvicted, countByState(slices.Concat(evicted...)))
			check.Equal(t, "pipelined pods", tc.wantPipelined, countByState(s.In(api.Pipelined)))
		}
	}
}
