package capacitycard

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// twoNodes are two nodes of eight cards each, and a queue whose quota is above their 16 cards. So pods wait for
// cards, and not for quota.
const twoNodes = `
	node a model=A
	node b model=A
	queue q quota={"A":19} cpu=1000
	`

// TestPreemptEvictsOnlyElasticPodsOrWholeGangs: a gang below its minimum (min=) does no work, but uses cards. So
// preempt evicts elastic pods, which are those above the minimum, or all pods of a gang. Volcano itself selects
// single pods of a gang; the plugin adds the rest. It evicts pods of a job of lower priority first; among jobs of
// equal priority, elastic pods before gangs. For one pod, preempt evicts only victims that are on one node, and the
// rest of their gangs.
//
// Nodes a and b have 8 cards each and the quota of q is 19: cards are missing, unless a row says that quota is.
// Job low has a lower priority than job high. A job without priorityClass has the lowest. Job other has high's
// priority, and stays. A queue or node that a row names again replaces the first one.
func TestPreemptEvictsOnlyElasticPodsOrWholeGangs(t *testing.T) {
	const high = `
		job high queue=q min=1 pending=1 priorityClass=high`
	urgent := changePod("j-3", annotate("volcano.sh/task-priority", "10")) // the pods of j have 1 (priority=1) without it
	for t, tc := range check.Cases(t, map[string]struct {
		scene         string
		change        func(*corev1.Pod)
		topologyAware bool   // preempt runs with its setting enableTopologyAwarePreemption
		wantEvicted   string // "low:4" is four pods of job low
		areAlike      bool   // gangs x and y are, and either may be evicted
		wantPipelined int    // pods that get the cards of the evicted ones
	}{
		"the gang has two pods on each node: all four are evicted for one card": {
			scene: `job low queue=q min=4 running=a*2,b*2 priorityClass=low
				job other queue=q min=1 running=a*6,b*6 priorityClass=high` + high,
			wantEvicted: "low:4", wantPipelined: 1,
		},
		"topology-aware preemption, the gang has two pods on each node: all four are evicted for one card": {
			scene: `job low queue=q min=4 running=a*2,b*2 priorityClass=low
				job other queue=q min=1 running=a*6,b*6 priorityClass=high` + high,
			topologyAware: true,
			wantEvicted:   "low:4", wantPipelined: 1,
		},
		"quota for four cards is missing: the gang of four is evicted": {
			scene: `queue q quota={"A":4} cpu=1000
				job low queue=q min=4 running=a*2,b*2 priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high cards=4`,
			wantEvicted: "low:4", wantPipelined: 1,
		},
		"quota for two A is missing, k leaves no place on b, no node has B, and only one pod is elastic: the whole job of three is evicted": {
			scene: `queue q quota={"A":3,"B":4} cpu=1000
				queue r quota={"A":8}
				job k queue=r min=1 running=b*7
				job low queue=q min=2 running=a,b,a priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high cards=2 card=A|B`,
			wantEvicted: "low:3", wantPipelined: 1,
		},
		"quota for four cards is missing, and two of four pods are elastic: those of one node free only two, so no eviction": {
			scene: `queue q quota={"A":4} cpu=1000
				job low queue=q min=2 running=a*2,b*2 priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high cards=4`,
		},
		"the job has one pod more than its minimum of three: that one is evicted": {
			scene: `job low queue=q min=3 running=a*2,b*2 priorityClass=low
				job other queue=q min=1 running=a*6,b*6 priorityClass=high` + high,
			wantEvicted: "low:1", wantPipelined: 1,
		},
		"two cards are needed and only one pod is elastic: the whole job is evicted": {
			scene: `job low queue=q min=3 running=a*4 priorityClass=low
				job other queue=q min=1 running=a*4,b*8 priorityClass=high` + high + " cards=2",
			wantEvicted: "low:4", wantPipelined: 1,
		},
		"one pod of the gang may not be evicted: the gang stays": {
			scene: `job low queue=q min=4 running=a*2,b*2 priorityClass=low
				job other queue=q min=1 running=a*6,b*6 priorityClass=high` + high,
			change: changePod("low-3", annotate("volcano.sh/preemptable", "false")),
		},
		"job elastic of the same priority as the gang has elastic pods: one of those is evicted": {
			scene: `job low queue=q min=8 running=a*8 priorityClass=low
				job elastic queue=q min=1 running=b*8 priorityClass=low` + high,
			wantEvicted: "elastic:1", wantPipelined: 1,
		},
		"the elastic pods have high's own priority: the gang is evicted": {
			scene: `job low queue=q min=8 running=a*8 priorityClass=low
				job elastic queue=q min=1 running=b*8 priorityClass=high` + high,
			wantEvicted: "low:8", wantPipelined: 1,
		},
		"elastic pods have a higher priority than gang least on their node: the gang is evicted": {
			scene: `job least queue=q min=4 running=a*4
				job elastic queue=q min=1 running=a*4 priorityClass=low
				job other queue=q min=1 running=b*8 priorityClass=high` + high,
			wantEvicted: "least:4", wantPipelined: 1,
		},
		"elastic pods have a higher priority than gang least on another node: the gang is evicted": {
			scene: `job least queue=q min=8 running=a*8
				job elastic queue=q min=1 running=b*8 priorityClass=low` + high,
			wantEvicted: "least:8", wantPipelined: 1,
		},
		"two pods of four cards wait: one gang of eight is evicted, and frees four cards on each node": {
			scene: `job x queue=q min=8 running=a*4,b*4 priorityClass=low
				job y queue=q min=8 running=a*4,b*4 priorityClass=low
				job high queue=q min=2 pending=2 priorityClass=high cards=4`,
			wantEvicted: "x:8", areAlike: true, wantPipelined: 2,
		},
		"two pods of four cards wait: one pod of eight cards is evicted for both": {
			scene: `job x queue=q min=1 running=a cards=8 priorityClass=low
				job y queue=q min=1 running=b cards=8 priorityClass=low
				job high queue=q min=2 pending=2 priorityClass=high cards=4`,
			wantEvicted: "x:1", areAlike: true, wantPipelined: 2,
		},
		"the gang that is evicted for high-0 leaves cards for high-1 too: no further eviction on c": {
			scene: `node c model=A cards=3
				job elastic queue=q min=1 running=c*3 priorityClass=low
				job x queue=q min=8 running=a*4,b*4 priorityClass=low
				job other queue=q min=1 running=a*4,b*4 priorityClass=high
				job high queue=q min=2 pending=2 priorityClass=high cards=4`,
			change:      changePod("high-1", requests(gpu, "2")),
			wantEvicted: "x:8", wantPipelined: 2,
		},
		"pods of the waiting gang want the same host port: a victim on each node is evicted": {
			scene: `job x queue=q min=1 running=a cards=8 priorityClass=low
				job y queue=q min=1 running=b cards=8 priorityClass=low
				job high queue=q min=2 pending=2 priorityClass=high cards=4`,
			change: func(p *corev1.Pod) {
				if strings.HasPrefix(p.Name, "high") {
					wantsPort(p)
				}
			},
			wantEvicted: "x:1 y:1", wantPipelined: 2,
		},
		"quota is missing, high-0 may only run on b, and all pods of its queue are on a: no eviction": {
			scene: `queue q quota={"A":8} cpu=1000
				job low queue=q min=1 running=a*8 priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high`,
			change: changePod("high-0", func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"}
			}),
		},
		"a gang of five waits, and only four cards can be freed: no eviction": {
			scene: `job low queue=q min=4 running=a*2,b*2 priorityClass=low
				job other queue=q min=1 running=a*6,b*6 priorityClass=high
				job high queue=q min=5 pending=5 priorityClass=high`,
		},
		"tasks ps and worker each need one pod of four: the two other workers are evicted": {
			scene: `job low queue=q min=2 running=a*4 priorityClass=low task=ps,pods:1,min:1 task=worker,pods:3,min:1
				job other queue=q min=1 running=a*4,b*8 priorityClass=high` + high + " cards=2",
			wantEvicted: "low:2", wantPipelined: 1,
		},
		"tasks ps and worker have no pod more than they need: both are evicted": {
			scene: `job low queue=q min=2 running=a*2 priorityClass=low task=ps,pods:1,min:1 task=worker,pods:1,min:1
				job other queue=q min=1 running=a*6,b*8 priorityClass=high` + high,
			wantEvicted: "low:2", wantPipelined: 1,
		},
		"a Volcano job continues without a pod: one pod is evicted": {
			scene: `job low queue=q min=1 running=a*2 priorityClass=low owner=vcjob
				job other queue=q min=1 running=a*6,b*8 priorityClass=high` + high,
			wantEvicted: "low:1", wantPipelined: 1,
		},
		"a Volcano job restarts as a whole when it loses a pod: both pods are evicted": {
			scene: `job rigid queue=q min=1 running=a*2 priorityClass=low owner=vcjob
				job other queue=q min=1 running=a*6,b*8 priorityClass=high` + high,
			wantEvicted: "rigid:2", wantPipelined: 1,
		},
		"the scheduler does not know what a Volcano job does when it loses a pod: no eviction": {
			scene: `job unknown queue=q min=1 running=a*2 priorityClass=low owner=vcjob
				job other queue=q min=1 running=a*6,b*8 priorityClass=high` + high,
		},
		"pod j-3 has a higher task priority than the pods of its job that run, one of them elastic: that one is evicted": {
			scene: `job j queue=q min=2 running=a*3 pending=1 priority=1
				job other queue=q min=1 running=a*5,b*8 priorityClass=high`,
			change:      urgent,
			wantEvicted: "j:1", wantPipelined: 1,
		},
		"pod j-3 has a higher task priority than the pods of its job that run, and they are the minimum: no eviction": {
			scene: `job j queue=q min=3 running=a*3 pending=1 priority=1
				job other queue=q min=1 running=a*5,b*8 priorityClass=high`,
			change: urgent,
		},
		"pod j-3 waits with the same task priority as the pods of its job that run: no eviction": {
			scene: `job j queue=q min=2 running=a*3 pending=1 priority=1
				job other queue=q min=1 running=a*5,b*8 priorityClass=high`,
		},
	}) {
		s := newScene(t, twoNodes+tc.scene, tc.change)
		// Of Volcano jobs: low continues when it loses a pod, and rigid restarts as a whole.
		s.vcjobPolicies = map[string]workload.EvictionPolicy{"low": {}, "rigid": {Inelastic: true}}
		s.evict(preempt.New(), topologyAwarePreempt(tc.topologyAware))

		preempted := slices.Concat(s.preempted...)
		evicted := countByState(preempted)
		if tc.areAlike {
			evicted = strings.Replace(evicted, "y:", "x:", 1)
		}

		check.Equal(t, "pods that are evicted", tc.wantEvicted, evicted)
		check.Equal(t, "evicted pods in the session", session.Spell(session.Names(preempted)), session.Names(s.In(api.Releasing)))
		check.Equal(t, "pipelined pods", tc.wantPipelined, len(s.In(api.Pipelined)))
		for _, job := range s.Ssn.Jobs {
			running := len(job.TaskStatusIndex[api.Running])
			check.That(t, running == 0 || (int32(running) >= job.MinAvailable && job.CheckTaskReady()),
				"of %s %d pods are left running, its minimum is %d", job.Name, running, job.MinAvailable)
		}
	}
}

// TestUndoneEvictionRestoresTheWholeGang: Volcano undoes an eviction when not all pods of the preemptor's gang get a
// place. Then the plugin restores the rest of the victim's gang, which it evicted besides. A gang of five waits, and
// only gang low of four pods may be evicted: job other has high's priority. So the four pods run on, and all 16 cards
// of nodes a and b stay in use.
func TestUndoneEvictionRestoresTheWholeGang(t *testing.T) {
	s := newScene(t, twoNodes+`job low queue=q min=4 running=a*2,b*2 priorityClass=low
		job other queue=q min=1 running=a*6,b*6 priorityClass=high
		job high queue=q min=5 pending=5 priorityClass=high`).evict(preempt.New())

	check.Equal(t, "pods of the gang that run", 4, len(s.Job("low").TaskStatusIndex[api.Running]))
	check.Equal(t, "cards in use", 16, s.usedCards("q", "A"))
	for _, node := range s.Ssn.Nodes {
		check.Equal(t, "cards on "+node.Name+" that are being released", 0, node.Releasing.Get(gpu))
	}
}

// TestUndoneEvictionKeepsAnEarlierOneOfTheSameGang: preempt evicts the one elastic pod of gang low, whose minimum is
// three, for pod first-0. Then it evicts pods for job next, a gang of five, which does not fit. Volcano undoes the
// evictions for job next. The eviction for first-0 stays, and the other three pods of low run on.
func TestUndoneEvictionKeepsAnEarlierOneOfTheSameGang(t *testing.T) {
	s := newScene(t, twoNodes+`job low queue=q min=3 running=a*2,b*2 priorityClass=low
		job other queue=q min=1 running=a*6,b*6 priorityClass=high
		job first queue=q min=1 pending=1 priorityClass=high
		job next queue=q min=5 pending=5 priorityClass=high`).evict(preempt.New())

	check.Equal(t, "pods that preempt reports as evicted", "low:1", countByState(slices.Concat(s.preempted...)))
	check.Equal(t, "pods that are evicted in the session", "low:1", countByState(s.In(api.Releasing)))
	check.Equal(t, "pods of job first that are pipelined", 1, len(s.Job("first").TaskStatusIndex[api.Pipelined]))
	check.Equal(t, "pods that are pipelined", 1, len(s.In(api.Pipelined)))
	check.Equal(t, "pods of gang low that run", 3, len(s.Job("low").TaskStatusIndex[api.Running]))
}

// TestVolcanosOwnPreemptBreaksNoGang: here Volcano's action preempt runs by itself, and nothing adds the
// rest of a gang. It would leave a gang without some of its pods, so the plugin offers it only elastic pods, and the
// pod of a job that has one only. All 16 cards are in use, and only job low has a lower priority than the pod that
// waits. "low:1" is one pod of job low.
func TestVolcanosOwnPreemptBreaksNoGang(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ low, wantEvicted string }{
		"two pods, a minimum of two: none is evicted": {"job low queue=q min=2 running=a*2 priorityClass=low", ""},
		"two pods, a minimum of one: one is evicted":  {"job low queue=q min=1 running=a*2 priorityClass=low", "low:1"},
		"one pod of two cards: it is evicted":         {"job low queue=q min=1 running=a cards=2 priorityClass=low", "low:1"},
		"two pods of a Volcano job, which may restart as a whole when it loses one: none is evicted": {
			"job low queue=q min=1 running=a*2 priorityClass=low owner=vcjob", "",
		},
	}) {
		s := newScene(t, twoNodes+tc.low+`
			job other queue=q min=1 running=a*6,b*8 priorityClass=high
			job high queue=q min=1 pending=1 priorityClass=high`).openSession()
		s.Run(preempt.New())

		check.Equal(t, "pods that are evicted", tc.wantEvicted, countByState(s.In(api.Releasing)))
	}
}
