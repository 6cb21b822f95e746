package capacitycard

import (
	"fmt"
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

// gangs are two nodes of eight cards each, all in use by one queue.
const gangs = `node a model=A; node b model=A; queue q quota={"A":19} cpu=1000;`

// TestPreemptEvictsWholeGangs: no job runs below its minimum, and elastic pods are evicted
// first. Volcano selects some of the pods; the test compares what the session evicts.
func TestPreemptEvictsWholeGangs(t *testing.T) {
	const high = "; job high queue=q min=1 pending=1 priorityClass=high"
	urgent := changePod("j-3", func(p *corev1.Pod) { p.Annotations["volcano.sh/task-priority"] = "10" })
	for t, tc := range check.Cases(t, map[string]struct {
		jobs, goes string
		promised   int
		change     func(*corev1.Pod)
		equal      bool // gangs x and y are alike

		topologyAware bool
	}{
		"a gang on two nodes": {jobs: "job low queue=q min=4 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high" + high, goes: "low:4", promised: 1},
		"a gang on two nodes, with topology-aware preemption":                            {jobs: "job low queue=q min=4 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high" + high, goes: "low:4", promised: 1, topologyAware: true},
		"a gang on two nodes, for quota":                                                 {jobs: `queue q quota={"A":4} cpu=1000; job low queue=q min=4 running=a*2,b*2 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high cards=4`, goes: "low:4", promised: 1},
		"a gang with a spare pod, for quota":                                             {jobs: `queue q quota={"A":3,"B":4} cpu=1000; queue r quota={"A":8}; job k queue=r min=1 running=b*7; job low queue=q min=2 running=a,b,a priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high cards=2 card=A|B`, goes: "low:3", promised: 1},
		"spare pods on two nodes, for quota":                                             {jobs: `queue q quota={"A":4} cpu=1000; job low queue=q min=2 running=a*2,b*2 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high cards=4`},
		"a gang that is larger than its minimum":                                         {jobs: "job low queue=q min=3 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high" + high, goes: "low:1", promised: 1},
		"spare pods and one more":                                                        {jobs: "job low queue=q min=3 running=a*4 priorityClass=low; job other queue=q min=1 running=a*4,b*8 priorityClass=high" + high + " cards=2", goes: "low:4", promised: 1},
		"a gang of which one pod is protected":                                           {jobs: "job low queue=q min=4 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high" + high, change: changePod("low-3", annotate("volcano.sh/preemptable", "false"))},
		"a pod that another one's gang can spare":                                        {jobs: "job low queue=q min=8 running=a*8 priorityClass=low; job wide queue=q min=1 running=b*8 priorityClass=low" + high, goes: "wide:1", promised: 1},
		"spare pods of a higher priority stay":                                           {jobs: "job low queue=q min=8 running=a*8 priorityClass=low; job wide queue=q min=1 running=b*8 priorityClass=high" + high, goes: "low:8", promised: 1},
		"a gang before spare pods between its priority and the preemptor's, on one node": {jobs: "job least queue=q min=4 running=a*4; job wide queue=q min=1 running=a*4 priorityClass=low; job other queue=q min=1 running=b*8 priorityClass=high" + high, goes: "least:4", promised: 1},
		"a gang before spare pods between its priority and the preemptor's":              {jobs: "job least queue=q min=8 running=a*8; job wide queue=q min=1 running=b*8 priorityClass=low" + high, goes: "least:8", promised: 1},
		"a gang of two takes one gang":                                                   {jobs: "job x queue=q min=8 running=a*4,b*4 priorityClass=low; job y queue=q min=8 running=a*4,b*4 priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high cards=4", goes: "x:8", promised: 2, equal: true},
		"a gang of two for which one pod is enough":                                      {jobs: "job x queue=q min=1 running=a cards=8 priorityClass=low; job y queue=q min=1 running=b cards=8 priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high cards=4", goes: "x:1", promised: 2, equal: true},
		"a pod that has room where a gang leaves": {jobs: "node c model=A cards=3; job wide queue=q min=1 running=c*3 priorityClass=low; job x queue=q min=8 running=a*4,b*4 priorityClass=low; job other queue=q min=1 running=a*4,b*4 priorityClass=high; job high queue=q min=2 pending=2 priorityClass=high cards=4",
			change: changePod("high-1", requests(gpu, "2")), goes: "x:8", promised: 2},
		"a gang whose pods avoid each other": {jobs: "job x queue=q min=1 running=a cards=8 priorityClass=low; job y queue=q min=1 running=b cards=8 priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high cards=4",
			change: func(p *corev1.Pod) {
				if strings.HasPrefix(p.Name, "high") {
					wantsPort(p)
				}
			}, goes: "x:1 y:1", promised: 2},
		"who cannot run where pods of its queue are": {jobs: `queue q quota={"A":8} cpu=1000; job low queue=q min=1 running=a*8 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, change: changePod("high-0", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"}
		})},
		"a gang that does not get all":              {jobs: "job low queue=q min=4 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high; job high queue=q min=5 pending=5 priorityClass=high"},
		"tasks have minimums of their own":          {jobs: "job low queue=q min=2 running=a*4 priorityClass=low task=ps,pods:1,min:1 task=worker,pods:3,min:1; job other queue=q min=1 running=a*4,b*8 priorityClass=high" + high + " cards=2", goes: "low:2", promised: 1},
		"the minimum of a task":                     {jobs: "job low queue=q min=2 running=a*2 priorityClass=low task=ps,pods:1,min:1 task=worker,pods:1,min:1; job other queue=q min=1 running=a*6,b*8 priorityClass=high" + high, goes: "low:2", promised: 1},
		"a vcjob that goes on with fewer pods":      {jobs: "job low queue=q min=1 running=a*2 priorityClass=low owner=vcjob; job other queue=q min=1 running=a*6,b*8 priorityClass=high" + high, goes: "low:1", promised: 1},
		"a vcjob that does not":                     {jobs: "job rigid queue=q min=1 running=a*2 priorityClass=low owner=vcjob; job other queue=q min=1 running=a*6,b*8 priorityClass=high" + high, goes: "rigid:2", promised: 1},
		"a vcjob of which nothing is known":         {jobs: "job unknown queue=q min=1 running=a*2 priorityClass=low owner=vcjob; job other queue=q min=1 running=a*6,b*8 priorityClass=high" + high},
		"inside a job that can spare a pod":         {jobs: "job j queue=q min=2 running=a*3 pending=1 priority=1; job other queue=q min=1 running=a*5,b*8 priorityClass=high", change: urgent, goes: "j:1", promised: 1},
		"inside a job at its minimum":               {jobs: "job j queue=q min=3 running=a*3 pending=1 priority=1; job other queue=q min=1 running=a*5,b*8 priorityClass=high", change: urgent},
		"inside a job of which a pod is not urgent": {jobs: "job j queue=q min=2 running=a*3 pending=1 priority=1; job other queue=q min=1 running=a*5,b*8 priorityClass=high"},
	}) {
		s := newScene(t, gangs+tc.jobs, tc.change)
		s.habits = map[string]workload.EvictionPolicy{"low": {}, "rigid": {Inelastic: true}}
		s.evict(preempt.New(), topologyAwarePreempt(tc.topologyAware))
		gone := countByState(slices.Concat(s.preempted...))
		if tc.equal {
			gone = strings.Replace(gone, "y:", "x:", 1)
		}

		check.Equal(t, "go", tc.goes, gone)
		check.Equal(t, "evicted in the session", session.Spell(session.Names(slices.Concat(s.preempted...))), session.Names(s.In(api.Releasing)))
		check.Equal(t, "promised a node", tc.promised, len(s.In(api.Pipelined)))
		for _, job := range s.Ssn.Jobs {
			running := len(job.TaskStatusIndex[api.Running])
			check.That(t, running == 0 || (int32(running) >= job.MinAvailable && job.CheckTaskReady()), "of %s %d pods are left running, its minimum is %d", job.Name, running, job.MinAvailable)
		}
	}
}

// TestUndoneEvictionRestoresTheWholeGang: when the pods for which it went cannot all be placed.
func TestUndoneEvictionRestoresTheWholeGang(t *testing.T) {
	s := newScene(t, gangs+"job low queue=q min=4 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high; job high queue=q min=5 pending=5 priorityClass=high").evict(preempt.New())
	check.Equal(t, "pods that run", 4, len(s.Job("low").TaskStatusIndex[api.Running]))
	check.Equal(t, "cards in use", 16, s.usedCards("q", "A"))
	for _, node := range s.Ssn.Nodes {
		check.Equal(t, "cards on "+node.Name+" that are being released", 0, node.Releasing.Get(gpu))
	}
}

// TestUndoneEvictionRestoresAGangThatLosesAnElasticPod: one job takes the elastic pod of a
// gang. The next one, which does not fit as a whole, would have broken the gang.
func TestUndoneEvictionRestoresAGangThatLosesAnElasticPod(t *testing.T) {
	s := newScene(t, gangs+"job low queue=q min=3 running=a*2,b*2 priorityClass=low; job other queue=q min=1 running=a*6,b*6 priorityClass=high; job first queue=q min=1 pending=1 priorityClass=high; job next queue=q min=5 pending=5 priorityClass=high").evict(preempt.New())
	check.Equal(t, "go", "low:1", countByState(slices.Concat(s.preempted...)))
	check.Equal(t, "evicted in the session", "low:1", countByState(s.In(api.Releasing)))
	check.Equal(t, "pods of the first that are promised a node", 1, len(s.Job("first").TaskStatusIndex[api.Pipelined]))
	check.Equal(t, "promised a node", 1, len(s.In(api.Pipelined)))
	check.Equal(t, "pods that run", 3, len(s.Job("low").TaskStatusIndex[api.Running]))
}

// TestVolcanosOwnPreemptBreaksNoGang: Volcano's own action evicts only elastic pods.
func TestVolcanosOwnPreemptBreaksNoGang(t *testing.T) {
	for jobs, goes := range map[string]string{
		"job low queue=q min=2 running=a*2 priorityClass=low; job other queue=q min=1 running=a*6,b*8 priorityClass=high":             "",
		"job low queue=q min=1 running=a*2 priorityClass=low; job other queue=q min=1 running=a*6,b*8 priorityClass=high":             "low:1",
		"job low queue=q min=1 running=a*2 priorityClass=low owner=vcjob; job other queue=q min=1 running=a*6,b*8 priorityClass=high": "",
	} {
		s := newScene(t, gangs+jobs+"; job high queue=q min=1 pending=1 priorityClass=high").openSession()
		s.Run(preempt.New())
		check.Equal(t, fmt.Sprintf("of %q go", jobs), goes, countByState(s.In(api.Releasing)))
	}
}
