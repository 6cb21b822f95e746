package capacitycard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

const gpu = session.GPU

// scene is a cluster with a scheduler process of its own, and the plugin of the
// session that is open.
type scene struct {
	*session.Cluster
	t    testing.TB
	m    *Cache
	p    *plugin
	args framework.Arguments
	// clock is the time of the scheduler once useClock was called.
	clock time.Time
	// habits are those of Volcano jobs by name; of others it is not known.
	habits map[string]workload.EvictionPolicy
	// preempted are the pods that the last preempt evicts, job by job.
	preempted [][]*api.TaskInfo
}

func (s *scene) evictionPolicyOf(_, name string) (workload.EvictionPolicy, bool) {
	habit, known := s.habits[name]
	return habit, known
}

// newScene returns a scene of texts as package session reads them.
func newScene(t testing.TB, text string, changes ...func(*corev1.Pod)) *scene {
	s := &scene{Cluster: session.New(text, changes...), t: t, m: NewCache()}
	t.Cleanup(s.Close)
	return s
}

// useClock stops the time of the scheduler at the time of the scene, until a test sets the clock.
func (s *scene) useClock() *scene {
	s.clock = s.Now
	s.m.now = func() time.Time { return s.clock }
	return s
}

// addObjects adds a text to the scene.
func (s *scene) addObjects(text string, changes ...func(*corev1.Pod)) *scene {
	s.Add(text, changes...)
	return s
}

// withArguments sets the arguments of the plugin.
func (s *scene) withArguments(args framework.Arguments) *scene {
	s.args = args
	return s
}

// openSession closes the session that is open, and opens the next one.
func (s *scene) openSession(configurations ...conf.Configuration) *scene {
	framework.RegisterPluginBuilder(PluginName, func(a framework.Arguments) framework.Plugin {
		s.p = buildPlugin(s.m, a)
		return s.p
	})
	s.Open([][]string{{"priority", "gang", PluginName, "predicates"}}, map[string]framework.Arguments{PluginName: s.args}, configurations...)
	return s
}

// enqueueAndAllocate opens the next session, which enqueues jobs and places pods.
func (s *scene) enqueueAndAllocate() *scene {
	s.openSession().Run(enqueue.New())
	return s.allocate()
}

// allocate places pods as the program does: Volcano's action allocate in the order of the plugin.
func (s *scene) allocate() *scene {
	place := func() { s.Run(allocate.New()) }
	if rules, ok := s.m.ReclaimPolicyFor(s.Ssn.UID); ok {
		rules.Allocate(place)
	} else {
		place()
	}
	return s
}

// evict opens the next session, in which pods are placed and an action evicts.
// Of pods the first is the oldest.
func (s *scene) evict(action framework.Action, configurations ...conf.Configuration) *scene {
	for i, pod := range s.Pods {
		pod.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC))
	}
	s.openSession(configurations...).Run(allocate.New())
	if rules, ok := s.m.ReclaimPolicyFor(s.Ssn.UID); ok && action.Name() == "preempt" {
		s.preempted = rules.Preempt(PreemptHooks{PolicyFor: s.evictionPolicyOf}, func() { s.Run(action) })
		return s
	}
	s.Run(action)
	return s
}

// reopen opens another session on what the first one has, as if Volcano had handed
// it out again.
func (s *scene) reopen() *scene {
	s.p = buildPlugin(s.m, s.args)
	s.p.OnSessionOpen(s.Ssn)
	return s
}

// addToPodLister puts pods into the pod lister and takes stock again, as the next session
// would.
func (s *scene) addToPodLister(pods ...*corev1.Pod) {
	s.t.Helper()
	for _, pod := range pods {
		check.NoError(s.t, s.Ssn.InformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(pod))
	}
	s.p.buildSnapshot()
}

// listNode puts a node into the node lister, and into the cache as a session would that
// opens.
func (s *scene) listNode(node *corev1.Node) {
	s.t.Helper()
	check.NoError(s.t, s.Ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer().Add(node))
	s.m.nodes.Update(node)
}

// usedCards is how many cards a queue uses.
func (s *scene) usedCards(queue, name string) int {
	return int(s.p.ledger.Used(queue, card.Name(name)))
}

// reclaimPolicy is what the session says to an action that takes cards back.
func (s *scene) reclaimPolicy() *ReclaimPolicy {
	s.t.Helper()
	rules, ok := s.m.ReclaimPolicyFor(s.Ssn.UID)
	check.Must(s.t, ok, "the session has no rules")
	return rules
}

// podsByNode returns how many pods of a job are placed on each node, as "a:2 b:1".
func (s *scene) podsByNode(job string) string {
	count := map[string]int{}
	for _, task := range s.Job(job).Tasks {
		if api.AllocatedStatus(task.Status) {
			count[task.NodeName]++
		}
	}
	var words []string
	for _, node := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%s:%d", node, count[node]))
	}
	return strings.Join(words, " ")
}

// refusals returns the fit errors of a job's pods.
func (s *scene) refusals(job string) string {
	var reasons []string
	for _, fit := range s.Job(job).NodesFitErrors {
		reasons = append(reasons, fit.Error())
	}
	return strings.Join(reasons, "\n")
}

// hasCondition reports whether a condition of a PodGroup has the message.
func hasCondition(group *api.PodGroup, text string) bool {
	return slices.ContainsFunc(group.Status.Conditions, func(c scheduling.PodGroupCondition) bool {
		return c.Type == scheduling.PodGroupUnschedulableType && c.Message == text
	})
}

// containsText reports whether what is said holds what is wanted, nothing when that is "".
func containsText(said, want string) bool {
	return strings.Contains(said, want) && (want != "" || said == "")
}

// expectEvictions compares which pods are evicted and which are pipelined, in the notation of
// session.Spell.
func (s *scene) expectEvictions(wantGoes, wantPromised string) {
	s.t.Helper()
	goes, promised := s.Outcome()
	check.That(s.t, goes == session.Spell(wantGoes) && promised == session.Spell(wantPromised),
		"%q go and %q are promised nodes, want %q and %q", goes, promised, wantGoes, wantPromised)
}

// changeQueue changes a queue before the session opens.
func (s *scene) changeQueue(name string, change func(*v1beta1.Queue)) *scene {
	for _, queue := range s.Queues {
		if queue.Name == name {
			change(queue)
		}
	}
	return s
}

// annotate sets an annotation of a pod.
func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// requests has a pod ask for so much of a resource.
func requests(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = amount(quantity) }
}

// deleted has a pod end within an hour.
func deleted(p *corev1.Pod) {
	p.DeletionTimestamp = ptr.To(metav1.Now())
	p.DeletionGracePeriodSeconds = ptr.To(int64(3600))
}

func oneJob(t testing.TB) *scene {
	return newScene(t, `node a model=A; node b model=B; queue q quota={"A":4}; job j queue=q min=1 running=a*2`)
}

func TestQuotaIsEnforcedByTheCardAPodLandsOn(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ quota, job, want, why string }{
		"what fits runs": {`{"A":4}`, "min=1 pending=2 cards=2", "a:2", ""},
		"the third pod waits although cards are free": {`{"A":4}`, "min=1 pending=3 cards=2", "a:2",
			"Queue <q> has insufficient <A> quota: requested <2>, total would be <6>, but capability is <4>"},
		"a gang that does not fit starts nothing":          {`{"A":4}`, "min=3 pending=3 cards=2", "", "requested <2>, total would be <6>, but capability is <4>"},
		"quota for another model does not help":            {`{"B":8}`, "min=1 pending=1", "", "requested <1>, total would be <1>, but capability is <0>"},
		"without card.name only cards with quota are used": {`{"B":2}`, "min=1 pending=3 card=none", "b:2", "capability is <2>"},
		"alternatives use both quotas and no more":         {`{"A":1,"B":2}`, "min=1 pending=5 card=A|B", "a:1 b:2", "the other card it may use has no more room"},
		"running pods count":                               {`{"A":4}`, "min=1 running=a*3 pending=2", "a:4", "total would be <5>"},
		"a lowered quota kills nothing and starts nothing": {`{"A":1}`, "min=1 running=a*3 pending=1", "a:3", "total would be <4>"},
		"an unreadable quota withholds everything":         {`{"A":1.5}`, "min=1 pending=1", "", "invalid volcano.sh/card.quota"},
		"an unmanaged queue has no cards":                  {"none", "min=1 pending=1", "", "capability is <0>"},
		"a bad card.name is refused with the reason":       {`{"A":8}`, "min=1 pending=1 card=A_B", "", "must be a label value"},
	}) {
		s := newScene(t, "node a model=A; node b model=B; queue q quota="+tc.quota+"; job j queue=q "+tc.job).enqueueAndAllocate()
		check.Equal(t, "placed", tc.want, s.podsByNode("j"))

		got := s.refusals("j")
		check.That(t, containsText(got, tc.why), "reasons %q, want %q", got, tc.why)
	}
}

func TestPredicateAloneKeepsTheQuota(t *testing.T) {
	s := newScene(t, `node a model=A; node b model=B; queue q quota={"A":1}; job j queue=q min=1 running=a pending=1`).enqueueAndAllocate()
	for node, code := range map[string]int{"a": api.Unschedulable, "b": api.UnschedulableAndUnresolvable} {
		var fit *api.FitError
		check.That(t, errors.As(s.p.predicate(s.Task("j-1"), s.Ssn.Nodes[node]), &fit) && fit.Status[0].Code == code,
			"node %s: %+v, want code %d: a full quota is Unschedulable, another card is unresolvable", node, fit, code)
	}
}

func TestEnqueue(t *testing.T) {
	const announced = `job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`
	for t, tc := range check.Cases(t, map[string]struct {
		quota, jobs string
		args        framework.Arguments
		why         string // "" for admitted
	}{
		"a vcjob that fits":                             {`{"A":2}`, announced, nil, ""},
		"a vcjob without pods gets the reason":          {`{"A":3}`, `job j queue=q min=5 phase=Pending minCards=5 request={"A":5}`, nil, "Queue <q> has insufficient <A> quota: requested <5>, total would be <5>, but capability is <3>"},
		"the total is asked for":                        {`{"A":3}`, `job j queue=q min=3 phase=Pending minCards=3 request={"A":5}`, nil, "requested <5>, total would be <5>, but capability is <3> (volcano.sh/card.request requests 5 cards in all, the job's minimum is 3)"},
		"the minimum is asked for when it is larger":    {`{"A":3}`, `job j queue=q min=5 phase=Pending minCards=5 request={"A":2}`, nil, "requested <5>"},
		"the pods are asked for once they exist":        {`{"A":3}`, `job j queue=q min=3 phase=Pending minCards=3 request={"A":5} pending=5`, nil, ""},
		"what was admitted before is reserved":          {`{"A":3}`, announced + `; job i queue=q min=2 minCards=2 request={"A":2}`, nil, "total would be <4>"},
		"over-commitment admits more than it gives":     {`{"A":3}`, `job j queue=q min=5 phase=Pending minCards=5 request={"A":5}`, framework.Arguments{"overCommitFactor": 2}, ""},
		"without card.request any card with quota":      {`{"B":2}`, "job j queue=q min=2 phase=Pending minCards=2", nil, ""},
		"without card.request and without quota":        {`{"B":1}`, "job j queue=q min=2 phase=Pending minCards=2", nil, "insufficient <B> quota: requested <2>, total would be <2>, but capability is <1>"},
		"without card.request and without any quota":    {`{"C":1}`, "job j queue=q min=2 phase=Pending minCards=2", nil, "insufficient <A> quota: requested <2>, total would be <2>, but capability is <0>; the other card it may use has no more room"},
		"a Deployment's pods tell, one by one":          {`{"A":1}`, "job j queue=q min=1 phase=Pending minCards=1 pending=4", nil, ""},
		"elastic pods make way for the next":            {`{"A":2}`, "job j queue=q min=1 phase=Pending minCards=1 pending=1; job i queue=q min=1 running=a*2 minCards=1", nil, ""},
		"elastic pods make way in CPU as well":          {`{"A":2} cpu=2`, "job j queue=q min=1 phase=Pending minCards=1 pending=1; job i queue=q min=1 running=a*2 minCards=1", nil, ""},
		"and in no more CPU than they hold":             {`{"A":3} cpu=1`, `job j queue=q min=1 phase=Pending minCards=1 request={"A":1}; job i queue=q min=1 running=a*2 minCards=1`, nil, "insufficient CPU quota: requested <1000m>, total would be <2000m>, but capability is <1000m>"},
		"pods at the minimum keep their CPU":            {`{"A":4} cpu=2`, `job j queue=q min=1 phase=Pending minCards=1 request={"A":1}; job i queue=q min=2 running=a*2 minCards=2`, nil, "insufficient CPU quota"},
		"elastic pods without cards make way":           {`{"A":2} cpu=2`, "job j queue=q min=1 phase=Pending minCards=1 pending=1; job i queue=q min=1 running=a*2 cards=0 minCards=0", nil, ""},
		"a bad card.request is refused with the reason": {`{"A":8}`, `job j queue=q min=1 phase=Pending minCards=1 request={"A":0.5}`, nil, "write a whole number"},
		"CPU beyond the capability":                     {`{} cpu=0.5`, "job j queue=q min=1 phase=Pending minCards=0", nil, "insufficient CPU quota: requested <1000m>"},
	}) {
		s := newScene(t, "node a model=A; node b model=B; queue q quota="+tc.quota+";"+tc.jobs).withArguments(tc.args).enqueueAndAllocate()
		job := s.Job("j")

		got := job.PodGroup.Status.Phase == "Inqueue"
		check.That(t, got == (tc.why == "") && containsText(job.JobFitErrors, tc.why), "admitted %v, reason %q, want %q", got, job.JobFitErrors, tc.why)
		check.That(t, tc.why == "" || hasCondition(job.PodGroup, job.JobFitErrors),
			"the PodGroup's conditions do not tell why: %v", job.PodGroup.Status.Conditions)
	}
}

func TestCardPodsAreFreeOfCPULimitsWhenConfigured(t *testing.T) {
	for unlimited, want := range map[bool]string{false: "", true: "a:1"} {
		s := newScene(t, `node a model=A; queue q quota={"A":8} cpu=unlimited; job j queue=q min=1 pending=1 minCards=1`).withArguments(framework.Arguments{"cardUnlimitedCpuMemory": unlimited}).enqueueAndAllocate()
		check.Equal(t, fmt.Sprintf("cardUnlimitedCpuMemory %v: placed", unlimited), want, s.podsByNode("j"))
	}
}

func TestTwoQueuesDoNotDisturbEachOther(t *testing.T) {
	s := newScene(t, `node a model=A; queue bad quota=nonsense; queue full quota={"A":1}; queue q quota={"A":2}
		job a queue=bad min=1 pending=1; job b queue=full min=1 pending=3; job j queue=q min=1 pending=2; job l queue=lost min=1 pending=1`).enqueueAndAllocate()
	for job, want := range map[string]string{"a": "", "b": "a:1", "j": "a:2"} {
		check.Equal(t, fmt.Sprintf("of job %s is placed", job), want, s.podsByNode(job))
	}
}

func TestInvalidArgumentsAllowNoPods(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":8}; job j queue=q min=1 pending=1`).withArguments(framework.Arguments{"overCommitFactor": 0.5}).enqueueAndAllocate()
	check.Equal(t, "placed with invalid arguments", "", s.podsByNode("j"))
}
