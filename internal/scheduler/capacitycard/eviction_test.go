package capacitycard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
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
func checkPreemption(t *testing.T, world func() *scene, goes, promised string, manners ...bool) {
	for _, topologyAware := range manners {
		t.Run(fmt.Sprintf("topologyAware=%v", topologyAware), func(t *testing.T) {
			s := world()
			s.t = t
			s.evict(preempt.New(), conf.Configuration{Name: "preempt", Arguments: map[string]any{preempt.EnableTopologyAwarePreemptionKey: topologyAware}})

			var gone []*api.TaskInfo
			for _, task := range s.In(api.Releasing) {
				if !strings.HasPrefix(task.Name, "ended-") {
					gone = append(gone, task)
				}
			}

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
		old   = "old q 1: a*4 class=low;"
		wants = "new q 1: - class=high"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		quota, jobs, goes, promised string
		change                      func(*corev1.Pod)
		notAware                    bool
	}{
		"a full quota is preempted although cards are free": {quota: `{"A":4}`, jobs: old + wants, goes: "old:1", promised: "new@a:1"},
		"with alternatives the node's own card decides": { // the ghosts are of no queue: quota is free there, cards are not
			quota: `{"A":4,"B":2}`, jobs: old + "ghost none 1: b*8 card=B;" + wants + " cards=2 card=A|B", goes: "old:2", promised: "new@a:1"},
		"an equal priority is not preempted":            {quota: `{"A":4}`, jobs: "old q 1: a*4 class=high;" + wants},
		"nobody is evicted when it would not be enough": {quota: `{"A":4}`, jobs: old + wants + " cards=5"},
		"another card is never evicted":                 {quota: `{"A":0,"B":4}`, jobs: "old q 1: b*4 card=B class=low;" + wants},
		"a pod without cards gives nothing and stays":   {quota: `{"A":2}`, jobs: "cpu q 1: a*2 cards=0 class=low; old q 1: a*2 class=low;" + wants + " cards=2", goes: "old:2", promised: "new@a:1"},
		"pods that say so are not evicted":              {quota: `{"A":2}`, jobs: "old q 1: a*2 class=low protected;" + wants},
		"pods whose PodGroup says so are not evicted":   {quota: `{"A":2}`, jobs: "old q 1: a*2 class=low protectedgroup;" + wants},
		"pods that keep the cluster alive are not evicted": {quota: `{"A":2}`, jobs: "old q 1: a*2 class=low;" + wants,
			change: func(p *corev1.Pod) {
				if p.Spec.NodeName != "" {
					p.Spec.PriorityClassName = "system-node-critical"
				}
			}},
		"a gang takes the place of one larger pod":               {quota: `{"A":2}`, jobs: "old q 1: a cards=2 class=low; new q 2: -*2 class=high", goes: "old:1", promised: "new@a:2", notAware: true},
		"a gang uses what is free and takes the rest":            {quota: `{"A":8,"B":8}`, jobs: "old q 1: a*2 class=low; ghost none 1: a*6 b*7; new q 3: -*3 card=A|B class=high", goes: "old:2", promised: "new@a:2 new@b:1", notAware: true},
		"the smaller victim stays when the larger one is enough": {quota: `{"A":5}`, jobs: "large q 1: a cards=4 class=low; small q 1: a class=low;" + wants + " cards=4", goes: "large:1", promised: "new@a:1"},
		"nobody is evicted for cards when CPU is short as well":  {quota: `{"A":2} cpu=2`, jobs: "j q 1: a*2 - priority=1", change: changePod("j-2", func(p *corev1.Pod) { *p.Spec.Priority = 10; requests("cpu", "4")(p) })},
		"inside a job the pod of higher priority wins":           {quota: `{"A":2}`, jobs: "j q 1: a*2 - priority=1", change: changePod("j-2", func(p *corev1.Pod) { *p.Spec.Priority = 10 }), goes: "j:1", promised: "j@a:1", notAware: true},
	}) {
		manners := []bool{false, true}
		if tc.notAware {
			manners = manners[:1]
		}

		checkPreemption(t, func() *scene {
			s := newScene(t, "node a A; node b B; queue q "+tc.quota)
			if tc.change == nil {
				return s.addObjects(tc.jobs)
			}
			return s.addObjects(tc.jobs, tc.change)
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
		"nothing ends":                  {0, "- cards=2", "old:2", "new@a:1"},
		"as much ends as may":           {1, "-", "old:1", "new@a:1"},
		"more would end":                {1, "- cards=2", "", ""},
		"more would end for the second": {1, "-*2", "old:1", "new@a:1"},
		"the whole quota ends already":  {2, "-", "", ""},
		"more than the quota ends":      {3, "-", "", ""},
		"who asks for no cards is free": {3, "- cards=0", "old:1", "new@a:1"},
	}) {
		checkPreemption(t, func() *scene {
			s := newScene(t, `node a A; queue q {"A":2}; old q 1: a*2 class=low; new q 1: class=high `+tc.asks)
			if strings.HasSuffix(tc.asks, "cards=0") {
				s.addObjects(`queue q {"A":2} cpu=2`)
			}

			return s.addObjects(fmt.Sprintf("ended q 1: a*%d class=low", tc.ending), deleted)
		}, tc.goes, tc.promised, false, true)
	}
}

// tides are an inference queue above a training queue; FULL is quota for all of
// both nodes, and BUSY is training that holds them.
var tides = strings.NewReplacer("FULL", `{"A":8,"B":8}`, "BUSY", "t1 tra 1: a*8; t2 tra 1: b*8 card=B")

func newReclaimScene(t testing.TB, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, "node a A; node b B").addObjects(tides.Replace("queue inf FULL 80000 inference; queue tra FULL 20000 training;"+text), changes...)
}

func TestReclaimFollowsTheMatrixAndTheCards(t *testing.T) {
	const bare = "queue inf FULL 80000 keeps; queue tra FULL 20000 gives;"
	for t, tc := range check.Cases(t, map[string]struct{ text, goes, promised string }{
		"inference takes from training, the youngest and no more":              {"BUSY; i inf 1: - cards=2 card=B", "t2-6 t2-7", "i-0@b"},
		"training takes from nobody":                                           {"queue inf FULL 80000 training keeps; BUSY; i inf 1: -", "", ""},
		"nobody takes from inference":                                          {"queue tra FULL 20000 inference gives; BUSY; i inf 1: -", "", ""},
		"unknown types take nothing":                                           {bare + "BUSY; i inf 1: -", "", ""},
		"nothing is taken from unknown types":                                  {bare + "BUSY; i inf 1: - type=inference", "", ""},
		"pods tell their type when the queue has none":                         {bare + "t1 tra 1: a*8 type=training; t2 tra 1: b*8 card=B type=training; i inf 1: - type=inference", "t1-7", "i-0@a"},
		"a pod cannot claim more than its queue":                               {"queue inf FULL 80000 training keeps; BUSY; i inf 1: - type=inference", "", ""},
		"a queue that is not reclaimable keeps its cards":                      {"queue tra FULL 20000 training keeps; BUSY; i inf 1: -", "", ""},
		"a queue of equal priority keeps its cards":                            {"queue tra FULL 80000 training; BUSY; i inf 1: -", "", ""},
		"a reclaimer beyond its own quota takes nothing":                       {`queue inf {"A":1} 80000 inference; BUSY; i inf 1: - cards=2`, "", ""},
		"with alternatives only the card with quota is reclaimed":              {`queue inf {"B":2} 80000 inference; BUSY; i inf 1: - card=A|B`, "t2-7", "i-0@b"},
		"a free card without quota does not keep another from being reclaimed": {`queue inf {"B":2} 80000 inference; t1 tra 1: a*4; t2 tra 1: b*8 card=B; i inf 1: - card=A|B`, "t2-7", "i-0@b"},
		"pods that say so are protected":                                       {"t1 tra 1: a*8 protected; i inf 1: -", "", ""},
		"a protected PodGroup on one node, so the other node gives":            {"t1 tra 1: a*8 protectedgroup; t2 tra 1: b*8 card=B; i inf 1: - card=A|B", "t2-7", "i-0@b"},
		"pods without cards are not taken for cards":                           {"cpu tra 1: a*4 cards=0; t1 tra 1: a*8; i inf 1: -", "t1-7", "i-0@a"},
		"nobody is evicted when all of it would not be enough":                 {`queue inf {"A":16} 80000 inference; t1 tra 1: a*4; own inf 1: a cards=4; i inf 1: - cards=5`, "", ""},
		"elastic pods go before a gang is broken":                              {"wide tra 1: a*4; gang tra 4: a*4; i inf 1: - cards=2", "wide-2 wide-3", "i-0@a"},
		"a closed queue reclaims nothing":                                      {"queue inf FULL 80000 inference closed; BUSY; i inf 1: -", "", ""},
	}) {
		newReclaimScene(t, tc.text).evict(reclaim.New()).expectEvictions(tc.goes, tc.promised)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		jobs   string
		change func(*corev1.Pod)
	}{
		"nobody is evicted for a pod that lacks CPU":      {"BUSY; i inf 1: -", changePod("i-0", requests("cpu", "65"))},
		"pods without cards are not taken for CPU either": {"cpu tra 1: a cards=0; i inf 1: -", changePod("cpu-0", requests("cpu", "64"))},
		"a wrong node selector evicts nobody":             {"BUSY; i inf 1: -", changePod("i-0", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "x"} })},
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
		"priority":              {"Priority", "low tra 4: a*4 ran=9h; high tra 1: a*4", "low:2"},
		"loss":                  {"Loss", "low tra 4: a*4 ran=9h; high tra 1: a*4", "high:2"},
		"a class of one's own":  {"Priority", "own tra 4: a*4 ran=9h; high tra 1: a*4", "own:2"},
		"within a priority":     {"Priority", "low tra 4: a*4 ran=9h; lax tra 1: a*4", "lax:2"},
		"the lower queue first": {"Priority", "queue less FULL 10000 training; high less 4: a*4; low tra 1: a*4", "high:2"},
	}) {
		s := newReclaimScene(t, tc.jobs+"; i inf 1: - cards=2", classes).withArguments(framework.Arguments{"victimOrder": tc.order}).evict(reclaim.New())
		check.Equal(t, "go", tc.goes, countByState(s.In(api.Releasing)))
	}
}

// TestOwnerKindSetsTheServiceType: a Deployment is inference, a vcjob is
// training, without any annotation.
func TestOwnerKindSetsTheServiceType(t *testing.T) {
	s := newReclaimScene(t, "queue inf FULL 80000 keeps; queue tra FULL 20000 gives; t tra 1: a*8 vcjob").addObjects("i inf 1: -", func(p *corev1.Pod) {
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

	as := func(*corev1.Pod) {}
	for t, tc := range check.Cases(t, map[string]struct {
		args           framework.Arguments
		old, young     string
		change         func(*corev1.Pod)
		goes, promised string
	}{
		"the younger job goes when there is no minimum": {nil, "2h", "1m", as, "new-3", "i-0@a"},
		"the older one when the younger may not":        {hour, "61m", "59m", as, "old-3", "i-0@a"},
		"nobody when neither may":                       {hour, "59m", "1m", as, "", ""},
		"the oldest pod of a job counts":                {hour, "59m", "1m", earlier, "new-3", "i-0@a"},
		"nobody when nothing has started":               {hour, "2h", "2h", nothing, "", ""},
	}) {
		newReclaimScene(t, fmt.Sprintf("old tra 1: a*4 ran=%s; new tra 1: a*4 ran=%s; i inf 1: -", tc.old, tc.young), tc.change).withArguments(tc.args).evict(reclaim.New()).expectEvictions(tc.goes, tc.promised)
	}
}

// TestReclaimWaitsForTerminatingPods: a queue with too many terminating pods reclaims nothing
// for pods that could not be placed.
func TestReclaimWaitsForTerminatingPods(t *testing.T) {
	for ending, want := range map[int]string{2: "t:2", 3: ""} {
		t.Run(fmt.Sprint(ending), func(t *testing.T) {
			s := newReclaimScene(t, `queue inf {"A":2} 80000 inference; t tra 1: a*8; i inf 1: - cards=2`)
			for i := range ending { // on a node each, where too few cards become free
				s.addObjects(fmt.Sprintf("node old%d A; ghost%d none 1: old%d*7", i, i, i)).addObjects(fmt.Sprintf("ended%d inf 1: old%d", i, i), deleted)
			}

			s.evict(reclaim.New())
			var taken []*api.TaskInfo
			for _, task := range s.In(api.Releasing) {
				if strings.HasPrefix(task.Name, "t-") {
					taken = append(taken, task)
				}
			}

			got := countByState(taken)
			check.Must(t, got == want, "taken are %q, want %q", got, want)
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
		s := newReclaimScene(t, "t tra 1: "+tc.runs+"; high inf 1: - cards=8", func(p *corev1.Pod) {
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
