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

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// TestWhoPreempts: a pod of a vcjob or of a gang preempts other jobs only for the minimum of its
// job. Pods of other owners are each a job of their own. Inside a job the minimum does not
// matter.
func TestWhoPreempts(t *testing.T) {
	urgent := changePod("j-3", func(p *corev1.Pod) { p.Annotations["volcano.sh/task-priority"] = "10" })
	for t, tc := range check.Cases(t, map[string]struct {
		jobs, goes, promised string
		change               func(*corev1.Pod)
	}{
		"an elastic vcjob leaves half to another one":  {jobs: "job low queue=q min=1 running=a*8 priorityClass=low owner=vcjob; job high queue=q min=4 pending=8 priorityClass=high owner=vcjob", goes: "low:4", promised: "high@a:4"},
		"so does an elastic gang of another owner":     {jobs: "job low queue=q min=1 running=a*8 priorityClass=low; job high queue=q min=4 pending=8 priorityClass=high", goes: "low:4", promised: "high@a:4"},
		"an elastic vcjob with a minimum of one":       {jobs: "job low queue=q min=1 running=a*8 priorityClass=low; job high queue=q min=1 pending=8 priorityClass=high owner=vcjob", goes: "low:1", promised: "high@a:1"},
		"an elastic vcjob that has its minimum":        {jobs: "job low queue=q min=1 running=a*4 priorityClass=low; job high queue=q min=4 running=a*4 pending=4 priorityClass=high owner=vcjob"},
		"an elastic vcjob that lacks one pod of it":    {jobs: "job low queue=q min=1 running=a*5 priorityClass=low; job high queue=q min=4 running=a*3 pending=4 priorityClass=high owner=vcjob", goes: "low:1", promised: "high@a:1"},
		"the pods of a Deployment":                     {jobs: "job low queue=q min=1 running=a*7 priorityClass=low; job high queue=q min=1 running=a pending=3 priorityClass=high", goes: "low:3", promised: "high@a:3"},
		"a role that lacks its minimum, and no other":  {jobs: "job low queue=q min=1 running=a*4 priorityClass=low; job high queue=q min=5 running=a*4 pending=3 priorityClass=high task=worker,pods:4,min:4 task=extra,pods:2,min:0 task=ps,pods:1,min:1", goes: "low:1", promised: "high@a:1"},
		"nothing of lower priority is there":           {jobs: "job low queue=q min=1 running=a*8 priorityClass=high; job high queue=q min=1 pending=1 priorityClass=high"},
		"inside a vcjob that has its minimum":          {jobs: "job low queue=q min=1 running=a*5 priorityClass=low; job j queue=q min=2 running=a*3 pending=1 priorityClass=high owner=vcjob", change: urgent, goes: "j:1", promised: "j@a:1"},
		"inside it, while other jobs would be evicted": {jobs: "job low queue=q min=1 running=a*5 priorityClass=low; job j queue=q min=2 running=a*3 pending=3 priorityClass=high owner=vcjob", change: urgent, goes: "j:1", promised: "j@a:1"},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && strings.Contains(tc.goes, ":4") {
				continue // Volcano decides on a copy of the node, and evicts for the first pod only
			}

			s := newScene(t, `node a model=A; queue q quota={"A":8} cpu=1000;`+tc.jobs, tc.change)
			s.habits = map[string]workload.EvictionPolicy{"low": {}, "high": {}, "j": {}}
			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))
			check.Equal(t, "go", tc.goes, countByState(slices.Concat(s.preempted...)))
			check.Equal(t, "promised", tc.promised, countByState(s.In(api.Pipelined)))
		}
	}
}

func topologyAwarePreempt(is bool) conf.Configuration {
	return conf.Configuration{Name: "preempt", Arguments: map[string]any{preempt.EnableTopologyAwarePreemptionKey: is}}
}

// TestEveryQueuePreemptsInEachSession: Volcano alone serves one queue, and skips pods of the
// others.
func TestEveryQueuePreemptsInEachSession(t *testing.T) {
	var text strings.Builder
	for i := range 8 {
		fmt.Fprintf(&text, `node n%d model=A cards=1; queue q%d quota={"A":1} cpu=10; job low%d queue=q%d min=1 running=n%d priorityClass=low; job high%d queue=q%d min=1 pending=1 priorityClass=high;`, i, i, i, i, i, i, i)
	}
	s := newScene(t, text.String()).evict(preempt.New())
	check.Equal(t, "pods that go", 8, len(s.In(api.Releasing)))
	check.Equal(t, "pods that are promised a node", 8, len(s.In(api.Pipelined)))
	check.Equal(t, "jobs of the session", 16, len(s.Ssn.Jobs))
}

// TestPreemptLooksAtAllNodes: with more than a hundred nodes Volcano looks at a sample. No gang
// breaks in it while one elastic pod elsewhere suffices, whatever the number of nodes.
func TestPreemptLooksAtAllNodes(t *testing.T) {
	for _, nodes := range []int{99, 101, 250} {
		var text strings.Builder
		fmt.Fprintf(&text, `queue q quota={"A":1000} cpu=1000;`)
		for i := range nodes {
			fmt.Fprintf(&text, "node n%d model=A cards=2; ", i)
			if i != nodes/2 {
				fmt.Fprintf(&text, "job g%d queue=q min=2 running=n%d*2 priorityClass=low;", i, i)
			}
		}

		fmt.Fprintf(&text, "job spare queue=q min=1 running=n%d*2 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high", nodes/2)
		s := newScene(t, text.String()).evict(preempt.New())
		check.Equal(t, fmt.Sprintf("pods that go at %d nodes", nodes), "spare:1", countByState(slices.Concat(s.preempted...)))
	}
}

// TestVotesCountWhatAJobMayPreempt: a job whose queue is full is enqueued if it may preempt
// others for its minimum. Equal jobs are not counted, and neither are pods that stay.
func TestVotesCountWhatAJobMayPreempt(t *testing.T) {
	critical := func(p *corev1.Pod) {
		if strings.HasPrefix(p.Name, "low") {
			p.Spec.PriorityClassName = "system-node-critical"
		}
	}

	never := changePod("high-0", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
	const high = "; job high queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high"
	for t, tc := range check.Cases(t, map[string]struct {
		text     string
		change   func(*corev1.Pod)
		enqueued string
		without  bool // the action preempt is not configured
	}{
		"a gang of lower priority":                {text: "job low queue=q min=8 running=a*8 priorityClass=low" + high, enqueued: "high"},
		"without the action preempt":              {text: "job low queue=q min=8 running=a*8 priorityClass=low" + high, without: true},
		"single pods of lower priority":           {text: "job l queue=q min=1 running=a*1 priorityClass=low; job low queue=q min=7 running=a*7 priorityClass=high" + high, enqueued: "high"},
		"a gang of equal priority":                {text: "job low queue=q min=8 running=a*8 priorityClass=high" + high},
		"a gang of which a pod is protected":      {text: "job low queue=q min=8 running=a*8 priorityClass=low", change: changePod("low-3", annotate("volcano.sh/preemptable", "false"))},
		"a gang whose PodGroup is protected":      {text: "job low queue=q min=8 running=a*8 priorityClass=low groupPreemptable=false" + high},
		"a gang that the cluster depends on":      {text: "job low queue=q min=8 running=a*8 priorityClass=low" + high, change: critical},
		"a vcjob with a known policy":             {text: "job known queue=q min=8 running=a*8 priorityClass=low owner=vcjob" + high, enqueued: "high"},
		"a vcjob of which nothing is known":       {text: "job low queue=q min=8 running=a*8 priorityClass=low owner=vcjob" + high},
		"a job that never preempts":               {text: "job low queue=q min=8 running=a*8 priorityClass=low" + high, change: never},
		"another card than the gang has":          {text: "job low queue=q min=8 running=a*8 priorityClass=low; job high queue=q min=1 pending=1 card=B minCards=0 request={\"B\":1} phase=Pending priorityClass=high"},
		"as many jobs as the gang gives place to": {text: "job low queue=q min=2 running=a*2 priorityClass=low; job top queue=q min=6 running=a*6 priorityClass=high; job h1 queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high; job h2 queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high; job h3 queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=high", enqueued: "2"},
		"a gang of another queue":                 {text: `queue other quota={"A":8} cpu=1000; job low queue=other min=8 running=a*8 priorityClass=low; job top queue=q min=8 running=b*8 card=A priorityClass=high` + high},
	}) {
		s := newScene(t, `node a model=A; node b model=A; queue q quota={"A":8} cpu=1000;`+tc.text, tc.change)
		s.habits = map[string]workload.EvictionPolicy{"known": {}}
		s.m.evictionPolicies = s.evictionPolicyOf
		s.openSession()
		if tc.without {
			s.Run(enqueue.New())
		} else {
			s.Run(enqueue.New(), idleAction{preempt.New()})
		}

		var enqueued []string
		for _, name := range []string{"high", "h1", "h2", "h3"} {
			if job := s.Job(name); job != nil && !job.IsPending() {
				enqueued = append(enqueued, name)
			}
		}

		if tc.enqueued == "2" {
			check.Equal(t, "jobs that are enqueued", 2, len(enqueued))
			continue
		}
		check.Equal(t, "enqueued", tc.enqueued, strings.Join(enqueued, " "))
	}
}

// idleAction is configured and does nothing.
type idleAction struct{ *preempt.Action }

func (idleAction) Execute(*framework.Session) {}

// TestPreemptedCardsAreKept: what preempt freed for a pod goes to no other pod for five minutes:
// neither to other queues, nor to jobs of its queue without a higher priority. high-0 has
// preempted the pod that was on node a.
func TestPreemptedCardsAreKept(t *testing.T) {
	const kept = `node a model=A cards=1; queue q quota={"A":4} priority=10 cpu=1000; queue other quota={"A":4} priority=20 cpu=1000; job high queue=q min=1 pending=1 priorityClass=low; `
	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		after  time.Duration
		placed string
	}{
		"another queue":                        {kept + "job v queue=other min=1 pending=1 priorityClass=high", time.Minute, ""},
		"an equal job of the queue":            {kept + "job v queue=q min=1 pending=1 priorityClass=low", time.Minute, ""},
		"a lower job of the queue":             {kept + "job v queue=q min=1 pending=1", time.Minute, ""},
		"a higher job of the queue":            {kept + "job v queue=q min=1 pending=1 priorityClass=high", time.Minute, "a:1"},
		"for five minutes":                     {kept + "job v queue=other min=1 pending=1 priorityClass=high", 5*time.Minute - time.Second, ""},
		"and no longer":                        {kept + "job v queue=other min=1 pending=1 priorityClass=high", 5 * time.Minute, "a:1"},
		"what is left beside them is given":    {kept + "node a model=A cards=2; job v queue=other min=1 pending=1 priorityClass=high", time.Minute, "a:1"},
		"the quota was lowered":                {kept + `queue q quota={} priority=10; job v queue=other min=1 pending=1 priorityClass=high`, time.Minute, "a:1"},
		"the gang lacks a pod":                 {strings.Replace(kept, "job high queue=q min=1", "job high queue=q min=2", 1) + "job v queue=other min=1 pending=1 priorityClass=high", time.Minute, "a:1"},
		"an equal job gets no other free card": {kept + `queue q quota={"A":1} priority=10 cpu=1000; node c model=A cards=1; job v queue=q min=1 pending=1 priorityClass=low`, time.Minute, ""},
		"but if the quota suffices for both":   {kept + `queue q quota={"A":2} priority=10 cpu=1000; node c model=A cards=1; job v queue=q min=1 pending=1 priorityClass=low`, time.Minute, "c:1"},
	}) {
		s := newScene(t, tc.text).useClock()
		s.openSession()
		s.m.preemptedCards[s.Pod("high-0").UID] = nomination{node: "a", since: s.clock}
		s.clock = s.clock.Add(tc.after)

		// The pod itself waits, as long as its gate is there.
		s.Update("high-0", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
		s.enqueueAndAllocate()
		check.Equal(t, "v is placed on", tc.placed, s.podsByNode("v"))
	}
}

// TestSecondPreemptorUsesNoKeptCards: on a node whose cards are kept for one pod, the next one
// preempts further pods. It does not wait until the first one is placed.
func TestSecondPreemptorUsesNoKeptCards(t *testing.T) {
	s := newScene(t, `node a model=A cards=4; queue q quota={"A":4} cpu=1000; job low queue=q min=1 running=a*4 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`)
	s.evict(preempt.New())
	check.Equal(t, "go", 1, len(s.In(api.Releasing)))

	for _, task := range slices.Concat(s.preempted...) {
		s.reclaimPolicy().MarkEvicting(task)
	}

	s.addObjects("job late queue=q min=1 pending=1 priorityClass=high")
	s.Cache.AddPodGroupV1beta1(s.Groups[len(s.Groups)-1])
	s.Cache.AddPod(s.Pods[len(s.Pods)-1].DeepCopy())
	s.openSession()
	defer s.reclaimPolicy().AssumeEvicted()()

	rules := s.reclaimPolicy()
	rules.Preempt(PreemptHooks{PolicyFor: s.evictionPolicyOf}, func() { s.Run(preempt.New()) })
	check.Equal(t, "go in the second session", 2, len(s.In(api.Releasing)))
	check.Equal(t, "promised a node", "late-0@a", session.Names(s.In(api.Pipelined)))
}

// TestPreemptTakesNoCardsThatAGangAwaits: of six cards two are free, and kept for a gang of inference.
func TestPreemptTakesNoCardsThatAGangAwaits(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		cards, goes, promised string
	}{
		"as many pods as it needs":  {"2", "low:2", "high@a:1"},
		"all of them":               {"4", "low:4", "high@a:1"},
		"none if that would not do": {"5", "", ""},
		"one although two are free": {"1", "low:1", "high@a:1"},
	}) {
		for _, topologyAware := range []bool{false, true} {
			s := newScene(t, `node a model=A cards=6; queue inf quota={"A":20} priority=80000 serviceType=inference cpu=100; queue tra quota={"A":20} priority=20000 serviceType=training cpu=100
				job g queue=inf min=4 pending=4 minCards=4; job low queue=tra min=1 running=a*4 priorityClass=low; job high queue=tra min=1 pending=1 priorityClass=high cards=`+tc.cards)
			s.openSession(topologyAwarePreempt(topologyAware)).Run(enqueue.New())
			s.allocate()
			check.Equal(t, "cards that are kept", 1, len(s.p.awaited.byNode))

			gone := s.reclaimPolicy().Preempt(PreemptHooks{PolicyFor: s.evictionPolicyOf}, func() { s.Run(preempt.New()) })
			check.Equal(t, "go", tc.goes, countByState(slices.Concat(gone...)))
			check.Equal(t, "promised", tc.promised, countByState(s.In(api.Pipelined)))
		}
	}
}
