package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// changePod applies a change to the pod of a name.
func changePod(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Name == name {
			change(p)
		}
	}
}

// checkPreemption runs preempt in both variants and compares how many pods of a job are evicted
// and how many are pipelined. Volcano chooses among equal pods. Pods of the job ended were
// deleted before.
func checkPreemption(t *testing.T, open func() *scene, goes, promised string, manners ...bool) {
	for _, topologyAware := range manners {
		t.Run(fmt.Sprintf("topologyAware=%v", topologyAware), func(t *testing.T) {
			s := open()
			s.t = t
			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))

			gone := slices.DeleteFunc(s.In(api.Releasing), func(task *api.TaskInfo) bool { return strings.HasPrefix(task.Name, "ended-") })
			check.Equal(t, "go", goes, countByState(gone))
			check.Equal(t, "promised", promised, countByState(s.In(api.Pipelined)))
		})
	}
}

// countByState writes tasks as "old:2 new@a:1".
func countByState(tasks []*api.TaskInfo) string {
	var order []string
	count := map[string]int{}
	for _, word := range strings.Fields(session.Names(tasks)) {
		name, node, placed := strings.Cut(word, "@")
		job, _, _ := strings.Cut(name, "-")
		if placed {
			job += "@" + node
		}

		count[job]++
		if count[job] == 1 {
			order = append(order, job)
		}
	}

	for i, job := range order {
		order[i] = fmt.Sprintf("%s:%d", job, count[job])
	}

	return strings.Join(order, " ")
}

func TestPreemptStaysWithinTheQueueAndItsQuota(t *testing.T) {
	const (
		old   = "job old queue=q min=1 running=a*4 priorityClass=low;"
		wants = "job new queue=q min=1 pending=1 priorityClass=high"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		quota, jobs, goes, promised string
		change                      func(*corev1.Pod)
		notAware                    bool
	}{
		"a full quota is preempted although cards are free": {quota: `{"A":4}`, jobs: old + wants, goes: "old:1", promised: "new@a:1"},
		"with alternatives the node's own card decides": { // the ghosts are of no queue: quota is free there, cards are not
			quota: `{"A":4,"B":2}`, jobs: old + "job ghost queue=none min=1 running=b*8 card=B;" + wants + " cards=2 card=A|B", goes: "old:2", promised: "new@a:1"},
		"an equal priority is not preempted":            {quota: `{"A":4}`, jobs: "job old queue=q min=1 running=a*4 priorityClass=high;" + wants},
		"no pod is evicted if that would not be enough": {quota: `{"A":4}`, jobs: old + wants + " cards=5"},
		"another card is never evicted":                 {quota: `{"A":0,"B":4}`, jobs: "job old queue=q min=1 running=b*4 card=B priorityClass=low;" + wants},
		"a pod without cards gives nothing and stays":   {quota: `{"A":2}`, jobs: "job cpu queue=q min=1 running=a*2 cards=0 priorityClass=low; job old queue=q min=1 running=a*2 priorityClass=low;" + wants + " cards=2", goes: "old:2", promised: "new@a:1"},
		"pods that say so are not evicted":              {quota: `{"A":2}`, jobs: "job old queue=q min=1 running=a*2 priorityClass=low preemptable=false;" + wants},
		"pods whose PodGroup says so are not evicted":   {quota: `{"A":2}`, jobs: "job old queue=q min=1 running=a*2 priorityClass=low groupPreemptable=false;" + wants},
		"pods that keep the cluster alive are not evicted": {quota: `{"A":2}`, jobs: "job old queue=q min=1 running=a*2 priorityClass=low;" + wants,
			change: func(p *corev1.Pod) {
				if p.Spec.NodeName != "" {
					p.Spec.PriorityClassName = "system-node-critical"
				}
			}},
		"a gang takes the place of one larger pod":               {quota: `{"A":2}`, jobs: "job old queue=q min=1 running=a cards=2 priorityClass=low; job new queue=q min=2 pending=2 priorityClass=high", goes: "old:1", promised: "new@a:2", notAware: true},
		"a gang uses what is free and takes the rest":            {quota: `{"A":8,"B":8}`, jobs: "job old queue=q min=1 running=a*2 priorityClass=low; job ghost queue=none min=1 running=a*6,b*7; job new queue=q min=3 pending=3 card=A|B priorityClass=high", goes: "old:2", promised: "new@a:2 new@b:1", notAware: true},
		"the smaller victim stays when the larger one is enough": {quota: `{"A":5}`, jobs: "job large queue=q min=1 running=a cards=4 priorityClass=low; job small queue=q min=1 running=a priorityClass=low;" + wants + " cards=4", goes: "large:1", promised: "new@a:1"},
		"no pod is evicted for cards if CPU is insufficient too": {quota: `{"A":2} cpu=2`, jobs: "job j queue=q min=1 running=a*2 pending=1 priority=1", change: changePod("j-2", func(p *corev1.Pod) { *p.Spec.Priority = 10; requests("cpu", "4")(p) })},
		"inside a job the pod of higher priority wins":           {quota: `{"A":2}`, jobs: "job j queue=q min=1 running=a*2 pending=1 priority=1", change: changePod("j-2", func(p *corev1.Pod) { *p.Spec.Priority = 10 }), goes: "j:1", promised: "j@a:1", notAware: true},
	}) {
		manners := []bool{false, true}
		if tc.notAware {
			manners = manners[:1]
		}

		checkPreemption(t, func() *scene {
			return newScene(t, "node a model=A; node b model=B; queue q quota="+tc.quota).addObjects(tc.jobs, tc.change)
		}, tc.goes, tc.promised, manners...)
	}
}

// TestPreemptEvictsOnlyIfThePreemptorCanRun: if more cards terminate than the quota has, the
// preemptor would have to wait anyway.
func TestPreemptEvictsOnlyIfThePreemptorCanRun(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		ending               int
		asks, goes, promised string
	}{
		"nothing ends":                  {0, "pending=1 cards=2", "old:2", "new@a:1"},
		"as much ends as may":           {1, "pending=1", "old:1", "new@a:1"},
		"more would end":                {1, "pending=1 cards=2", "", ""},
		"more would end for the second": {1, "pending=2", "old:1", "new@a:1"},
		"the whole quota ends already":  {2, "pending=1", "", ""},
		"more than the quota ends":      {3, "pending=1", "", ""},
		"who asks for no cards is free": {3, "pending=1 cards=0", "old:1", "new@a:1"},
	}) {
		checkPreemption(t, func() *scene {
			s := newScene(t, `node a model=A; queue q quota={"A":2}; job old queue=q min=1 running=a*2 priorityClass=low; job new queue=q min=1 priorityClass=high `+tc.asks)
			if strings.HasSuffix(tc.asks, "cards=0") {
				s.addObjects(`queue q quota={"A":2} cpu=2`)
			}

			return s.addObjects(fmt.Sprintf("job ended queue=q min=1 running=a*%d priorityClass=low", tc.ending), deleted)
		}, tc.goes, tc.promised, false, true)
	}
}

// tides are an inference queue above a training queue; FULL is quota for all of
// both nodes, and BUSY is training that holds them.
var tides = strings.NewReplacer("FULL", `{"A":8,"B":8}`, "BUSY", "job t1 queue=tra min=1 running=a*8; job t2 queue=tra min=1 running=b*8 card=B")

func newReclaimScene(t testing.TB, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, "node a model=A; node b model=B").addObjects(tides.Replace("queue inf quota=FULL priority=80000 serviceType=inference; queue tra quota=FULL priority=20000 serviceType=training;"+text), changes...)
}

func TestReclaimFollowsTheMatrixAndTheCards(t *testing.T) {
	const bare = "queue inf quota=FULL priority=80000 reclaimable=false; queue tra quota=FULL priority=20000 reclaimable=true;"
	for t, tc := range check.Cases(t, map[string]struct{ text, goes, promised string }{
		"inference takes from training, the youngest and no more":              {"BUSY; job i queue=inf min=1 pending=1 cards=2 card=B", "t2-6 t2-7", "i-0@b"},
		"training reclaims from no queue":                                      {"queue inf quota=FULL priority=80000 serviceType=training reclaimable=false; BUSY; job i queue=inf min=1 pending=1", "", ""},
		"no queue reclaims from inference":                                     {"queue tra quota=FULL priority=20000 serviceType=inference reclaimable=true; BUSY; job i queue=inf min=1 pending=1", "", ""},
		"unknown types take nothing":                                           {bare + "BUSY; job i queue=inf min=1 pending=1", "", ""},
		"nothing is taken from unknown types":                                  {bare + "BUSY; job i queue=inf min=1 pending=1 serviceType=inference", "", ""},
		"pods tell their type when the queue has none":                         {bare + "job t1 queue=tra min=1 running=a*8 serviceType=training; job t2 queue=tra min=1 running=b*8 card=B serviceType=training; job i queue=inf min=1 pending=1 serviceType=inference", "t1-7", "i-0@a"},
		"a pod cannot claim more than its queue":                               {"queue inf quota=FULL priority=80000 serviceType=training reclaimable=false; BUSY; job i queue=inf min=1 pending=1 serviceType=inference", "", ""},
		"a queue that is not reclaimable keeps its cards":                      {"queue tra quota=FULL priority=20000 serviceType=training reclaimable=false; BUSY; job i queue=inf min=1 pending=1", "", ""},
		"a queue of equal priority keeps its cards":                            {"queue tra quota=FULL priority=80000 serviceType=training; BUSY; job i queue=inf min=1 pending=1", "", ""},
		"a reclaimer beyond its own quota takes nothing":                       {`queue inf quota={"A":1} priority=80000 serviceType=inference; BUSY; job i queue=inf min=1 pending=1 cards=2`, "", ""},
		"with alternatives only the card with quota is reclaimed":              {`queue inf quota={"B":2} priority=80000 serviceType=inference; BUSY; job i queue=inf min=1 pending=1 card=A|B`, "t2-7", "i-0@b"},
		"a free card without quota does not keep another from being reclaimed": {`queue inf quota={"B":2} priority=80000 serviceType=inference; job t1 queue=tra min=1 running=a*4; job t2 queue=tra min=1 running=b*8 card=B; job i queue=inf min=1 pending=1 card=A|B`, "t2-7", "i-0@b"},
		"pods that say so are protected":                                       {"job t1 queue=tra min=1 running=a*8 preemptable=false; job i queue=inf min=1 pending=1", "", ""},
		"a protected PodGroup on one node, so the other node gives":            {"job t1 queue=tra min=1 running=a*8 groupPreemptable=false; job t2 queue=tra min=1 running=b*8 card=B; job i queue=inf min=1 pending=1 card=A|B", "t2-7", "i-0@b"},
		"pods without cards are not taken for cards":                           {"job cpu queue=tra min=1 running=a*4 cards=0; job t1 queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1", "t1-7", "i-0@a"},
		"no pod is evicted if all together would not be enough":                {`queue inf quota={"A":16} priority=80000 serviceType=inference; job t1 queue=tra min=1 running=a*4; job own queue=inf min=1 running=a cards=4; job i queue=inf min=1 pending=1 cards=5`, "", ""},
		"elastic pods go before a gang is broken":                              {"job wide queue=tra min=1 running=a*4; job gang queue=tra min=4 running=a*4; job i queue=inf min=1 pending=1 cards=2", "wide-2 wide-3", "i-0@a"},
		"a closed queue reclaims nothing":                                      {"queue inf quota=FULL priority=80000 serviceType=inference state=Closed; BUSY; job i queue=inf min=1 pending=1", "", ""},
	}) {
		newReclaimScene(t, tc.text).evict(reclaim.New()).expectEvictions(tc.goes, tc.promised)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		jobs   string
		change func(*corev1.Pod)
	}{
		"no pod is evicted for a pod that lacks CPU":      {"BUSY; job i queue=inf min=1 pending=1", changePod("i-0", requests("cpu", "65"))},
		"pods without cards are not taken for CPU either": {"job cpu queue=tra min=1 running=a cards=0; job i queue=inf min=1 pending=1", changePod("cpu-0", requests("cpu", "64"))},
		"a wrong node selector evicts no pod":             {"BUSY; job i queue=inf min=1 pending=1", changePod("i-0", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "x"} })},
	}) {
		newReclaimScene(t, tc.jobs, tc.change).evict(reclaim.New()).expectEvictions("", "")
	}
}

// TestReclaimEvictsTheLowestPriorityFirst: a gang of a low class is evicted before elastic pods
// of a higher one, unless the policy selects the smallest loss. A class that the policy does
// not list protects no pod.
func TestReclaimEvictsTheLowestPriorityFirst(t *testing.T) {
	classes := func(p *corev1.Pod) {
		p.Spec.PriorityClassName = map[byte]string{'l': "pc-low", 'h': "pc-high", 'o': "own"}[p.Name[0]]
	}

	for t, tc := range check.Cases(t, map[string]struct{ order, jobs, goes string }{
		"priority":              {"Priority", "job low queue=tra min=4 running=a*4 age=9h; job high queue=tra min=1 running=a*4", "low:2"},
		"loss":                  {"Loss", "job low queue=tra min=4 running=a*4 age=9h; job high queue=tra min=1 running=a*4", "high:2"},
		"a class of one's own":  {"Priority", "job own queue=tra min=4 running=a*4 age=9h; job high queue=tra min=1 running=a*4", "own:2"},
		"within a priority":     {"Priority", "job low queue=tra min=4 running=a*4 age=9h; job lax queue=tra min=1 running=a*4", "lax:2"},
		"the lower queue first": {"Priority", "queue less quota=FULL priority=10000 serviceType=training; job high queue=less min=4 running=a*4; job low queue=tra min=1 running=a*4", "high:2"},
	}) {
		s := newReclaimScene(t, tc.jobs+"; job i queue=inf min=1 pending=1 cards=2", classes).withArguments(framework.Arguments{"victimOrder": tc.order}).evict(reclaim.New())
		check.Equal(t, "go", tc.goes, countByState(s.In(api.Releasing)))
	}
}

// TestOwnerKindSetsTheServiceType: a Deployment is inference, a vcjob is
// training, without any annotation.
func TestOwnerKindSetsTheServiceType(t *testing.T) {
	s := newReclaimScene(t, "queue inf quota=FULL priority=80000 reclaimable=false; queue tra quota=FULL priority=20000 reclaimable=true; job t queue=tra min=1 running=a*8 owner=vcjob").addObjects("job i queue=inf min=1 pending=1", func(p *corev1.Pod) {
		p.Labels["pod-template-hash"] = "1"
		session.OwnedBy("apps/v1", "ReplicaSet", "o", "o")(p)
	}).withArguments(framework.Arguments{"podOwnerReferenceToServiceType": map[any]any{"Deployment": "inference", "Job.batch.volcano.sh": "training"}})
	s.evict(reclaim.New()).expectEvictions("t-7", "i-0@a")
}

// TestReclaimRespectsTheMinimumRuntime: Volcano's own action takes no pod of a job
// that has not run for as long as its service type grants it.
func TestReclaimRespectsTheMinimumRuntime(t *testing.T) {
	hour := framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": "1h"},
	}}
	nothing := func(p *corev1.Pod) { p.Status.StartTime = nil }
	earlier := changePod("new-0", func(p *corev1.Pod) { p.Status.StartTime.Time = p.Status.StartTime.Add(-2 * time.Hour) })

	for t, tc := range check.Cases(t, map[string]struct {
		args           framework.Arguments
		old, young     string
		change         func(*corev1.Pod)
		goes, promised string
	}{
		"the younger job goes when there is no minimum": {nil, "2h", "1m", nil, "new-3", "i-0@a"},
		"the older one when the younger may not":        {hour, "61m", "59m", nil, "old-3", "i-0@a"},
		"none if neither may":                           {hour, "59m", "1m", nil, "", ""},
		"the oldest pod of a job counts":                {hour, "59m", "1m", earlier, "new-3", "i-0@a"},
		"none if nothing has started":                   {hour, "2h", "2h", nothing, "", ""},
	}) {
		newReclaimScene(t, fmt.Sprintf("job old queue=tra min=1 running=a*4 age=%s; job new queue=tra min=1 running=a*4 age=%s; job i queue=inf min=1 pending=1", tc.old, tc.young), tc.change).withArguments(tc.args).evict(reclaim.New()).expectEvictions(tc.goes, tc.promised)
	}
}

// TestReclaimWaitsForTerminatingPods: a queue with too many terminating pods reclaims nothing
// for pods that could not be placed.
func TestReclaimWaitsForTerminatingPods(t *testing.T) {
	for ending, want := range map[int]string{2: "t:2", 3: ""} {
		t.Run(fmt.Sprint(ending), func(t *testing.T) {
			s := newReclaimScene(t, `queue inf quota={"A":2} priority=80000 serviceType=inference; job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1 cards=2`)
			for i := range ending { // on a node each, where too few cards become free
				s.addObjects(fmt.Sprintf("node old%d model=A; job ghost%d queue=none min=1 running=old%d*7", i, i, i)).addObjects(fmt.Sprintf("job ended%d queue=inf min=1 running=old%d", i, i), deleted)
			}

			s.evict(reclaim.New())
			taken := slices.DeleteFunc(s.In(api.Releasing), func(task *api.TaskInfo) bool { return !strings.HasPrefix(task.Name, "t-") })
			check.Equal(t, "taken", want, countByState(taken))
			check.That(t, want != "" || (s.reclaimPolicy().FreeQuota("inf", "A") == 0 && !s.reclaimPolicy().CanReclaim(s.Task("i-0"))),
				"there is room, or its pod takes from others")
		})
	}
}

// TestReclaimEvictsConflictingPods: reclaim evicts a training pod that conflicts with the
// reclaimer. It evicts none if a conflicting pod would stay, also because Volcano evicts only
// as much as the resources need.
func TestReclaimEvictsConflictingPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		runs   string
		goes   int
		change func(*corev1.Pod)
	}{
		"cards are free":               {"a", 1, func(*corev1.Pod) {}},
		"it may not be taken":          {"a", 0, changePod("t-0", annotate("volcano.sh/preemptable", "false"))},
		"one of them may not be taken": {"a*2", 0, changePod("t-1", annotate("volcano.sh/preemptable", "false"))},
		"two of them":                  {"a*2", 0, func(*corev1.Pod) {}},
		"all of them, and cards lack":  {"a*8", 8, func(*corev1.Pod) {}},
	}) {
		s := newReclaimScene(t, "job t queue=tra min=1 running="+tc.runs+"; job high queue=inf min=1 pending=1 cards=8", func(p *corev1.Pod) {
			avoidsX(p)
			if strings.HasPrefix(p.Name, "t-") {
				p.Labels["app"] = "x"
			} else if tc.runs != "a*8" {
				p.Spec.Containers[0].Resources.Requests[gpu] = amount("1")
			}
			tc.change(p)
		})

		s.evict(reclaim.New())
		check.Equal(t, "pods that go", tc.goes, len(s.In(api.Releasing)))
	}
}
