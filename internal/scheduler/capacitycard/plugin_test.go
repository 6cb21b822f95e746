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
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

const gpu = session.GPU

// scene is a cluster with a scheduler process of its own.
type scene struct {
	*session.Cluster
	t testing.TB
	// m is what the process keeps between sessions. p is the plugin of the open session, with its arguments.
	m    *Cache
	p    *Plugin
	args framework.Arguments
	// clock is the time of the scheduler once useClock was called.
	clock time.Time
	// vcjobPolicies say how Volcano jobs handle evictions, by name. Those of other jobs are unknown.
	vcjobPolicies map[string]workload.EvictionPolicy
	// preempted are the pods that the last preempt evicts, job by job.
	preempted [][]*api.TaskInfo
}

func (s *scene) evictionPolicyOf(_, name string) (workload.EvictionPolicy, bool) {
	policy, known := s.vcjobPolicies[name]
	return policy, known
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
	s.m.Now = func() time.Time { return s.clock }
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
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, func(a framework.Arguments) framework.Plugin {
		s.p = buildPlugin(s.m, a)
		return s.p
	})
	s.Open([][]string{{"priority", "gang", schedulerconfig.CapacityCard, "predicates"}}, map[string]framework.Arguments{schedulerconfig.CapacityCard: s.args}, configurations...)
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
	if rules, ok := s.m.PluginFor(s.Ssn.UID); ok {
		rules.Allocate(place)
	} else {
		place()
	}
	return s
}

// evict opens the next session, in which pods are placed and then an action evicts pods. The first pod of the scene
// is the oldest.
func (s *scene) evict(action framework.Action, configurations ...conf.Configuration) *scene {
	for i, pod := range s.Pods {
		pod.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC))
	}
	s.openSession(configurations...).Run(allocate.New())
	if rules, ok := s.m.PluginFor(s.Ssn.UID); ok && action.Name() == "preempt" {
		s.preempted = rules.Preempt(preemption.Hooks{PolicyFor: s.evictionPolicyOf}, func() { s.Run(action) })
		return s
	}
	s.Run(action)
	return s
}

// reopen opens the plugin's next session on the same jobs and nodes of Volcano's session, with their changes.
func (s *scene) reopen() *scene {
	s.p = buildPlugin(s.m, s.args)
	s.p.OnSessionOpen(s.Ssn)
	return s
}

// addToPodLister has the API server show pods that Volcano's session does not have, and counts all pods again, as
// the next session would.
func (s *scene) addToPodLister(pods ...*corev1.Pod) {
	for _, pod := range pods {
		check.NoError(s.t, s.Ssn.InformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(pod))
	}
	s.p.builder.buildSnapshot()
}

// listNode has the API server show a node. The plugin's cache takes it, as when a session opens.
func (s *scene) listNode(node *corev1.Node) {
	check.NoError(s.t, s.Ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer().Add(node))
	s.m.Nodes.Update(node)
}

// usedCards is how many cards a queue uses.
func (s *scene) usedCards(queue, name string) int {
	return int(s.p.Ledger.Used(queue, card.Name(name)))
}

// pluginForActions returns the plugin of the open session, as the program's actions get it.
func (s *scene) pluginForActions() *Plugin {
	plugin, ok := s.m.PluginFor(s.Ssn.UID)
	check.Must(s.t, ok, "the session gives no plugin to actions")
	return plugin
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

// saysWhy reports whether a PodGroup says to people why it is not enqueued, and the same to programs.
func saysWhy(group *api.PodGroup, text string) bool {
	var unschedulable, refused scheduling.PodGroupCondition
	for _, condition := range group.Status.Conditions {
		switch v1beta1.PodGroupConditionType(condition.Type) {
		case v1beta1.PodGroupUnschedulableType:
			unschedulable = condition
		case workload.PodGroupCardsRefused:
			refused = condition
		}
	}

	refusal, isRefusal := workload.ReadRefusalData(refused.Message)
	return isRefusal && unschedulable.Message == text && refusal.Message() == text && unschedulable.TransitionID == refused.TransitionID
}

// containsText reports whether a text contains the wanted one, or is empty if that is "".
func containsText(text, want string) bool {
	return strings.Contains(text, want) && (want != "" || text == "")
}

// checkText compares a text, which contains the wanted one, or is empty if that is "".
func checkText(t testing.TB, what, want, got string) {
	check.That(t, containsText(got, want), "%s: %q, want %q", what, got, want)
}

// expectEvictions compares which pods are evicted and which are pipelined, in the notation of
// session.Spell.
func (s *scene) expectEvictions(wantEvicted, wantPipelined string) {
	evicted, pipelined := s.Outcome()
	check.Equal(s.t, "evicted pods", session.Spell(wantEvicted), evicted)
	check.Equal(s.t, "pipelined pods", session.Spell(wantPipelined), pipelined)
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

// annotateQueue replaces a queue of the open session by a copy with an annotation, as when the Queue was updated.
func (s *scene) annotateQueue(name api.QueueID, key, value string) {
	queue := s.Ssn.Queues[name]
	queue.Queue = queue.Queue.DeepCopy()
	queue.Queue.Annotations[key] = value
}

// annotate sets an annotation of a pod.
func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// requests has a pod request so much of a resource.
func requests(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = amount(quantity) }
}

// deleted has a pod terminate.
func deleted(p *corev1.Pod) {
	p.DeletionTimestamp = ptr.To(metav1.Now())
	p.DeletionGracePeriodSeconds = ptr.To(int64(3600))
}

// oneJob is a scene in which queue q has a quota of four cards A. The two pods of job j use two on node a. Node b has
// cards B.
func oneJob(t testing.TB) *scene {
	return newScene(t, `node a model=A
		node b model=B
		queue q quota={"A":4}
		job j queue=q min=1 running=a*2`)
}

// TestQuotaIsEnforcedForTheCardOfTheNode: a queue has a quota for each card model, and a pod is charged for the cards
// of the node where it is placed. Pods beyond the quota wait although cards are free, and the reason says what is
// missing. Node a has 8 cards A, node b 8 cards B. A pod's card.name says which models it accepts. A pod requests one
// card A unless the row says more.
func TestQuotaIsEnforcedForTheCardOfTheNode(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, job             string
		wantPlaced, wantReason string // "a:2" is two pods on node a
	}{
		"two pods of two cards, quota 4: both run": {
			quota: `{"A":4}`, job: "min=1 pending=2 cards=2",
			wantPlaced: "a:2",
		},
		"three pods of two cards, quota 4: the third waits": {
			quota: `{"A":4}`, job: "min=1 pending=3 cards=2",
			wantPlaced: "a:2", wantReason: "Queue <q> has insufficient <A> quota: requested <2>, total would be <6>, but capability is <4>",
		},
		"a gang of three pods of two cards, quota 4: none runs": {
			quota: `{"A":4}`, job: "min=3 pending=3 cards=2",
			wantPlaced: "", wantReason: "requested <2>, total would be <6>, but capability is <4>",
		},
		"the pod names A, and the quota is for B: it waits": {
			quota: `{"B":8}`, job: "min=1 pending=1",
			wantPlaced: "", wantReason: "requested <1>, total would be <1>, but capability is <0>",
		},
		"the pods name no card, quota for two B: two run on b": {
			quota: `{"B":2}`, job: "min=1 pending=3 card=none",
			wantPlaced: "b:2", wantReason: "capability is <2>",
		},
		"five pods accept A or B, quota for one A and two B: three run": {
			quota: `{"A":1,"B":2}`, job: "min=1 pending=5 card=A|B",
			wantPlaced: "a:1 b:2", wantReason: "the other card it may use has no more room",
		},
		"three pods run and two wait, quota 4: one more runs": {
			quota: `{"A":4}`, job: "min=1 running=a*3 pending=2",
			wantPlaced: "a:4", wantReason: "total would be <5>",
		},
		"three pods run, and the quota was lowered to 1: they run on, and no other starts": {
			quota: `{"A":1}`, job: "min=1 running=a*3 pending=1",
			wantPlaced: "a:3", wantReason: "total would be <4>",
		},
		"the quota is not a whole number: no pod starts": {
			quota: `{"A":1.5}`, job: "min=1 pending=1",
			wantPlaced: "", wantReason: "invalid volcano.sh/card.quota",
		},
		"the queue has no quota: it gets no cards": {
			quota: "none", job: "min=1 pending=1",
			wantPlaced: "", wantReason: "capability is <0>",
		},
		"card.name has a space: the pod waits": {
			quota: `{"A":8}`, job: "min=1 pending=1 card=A_B", // a scene writes _ for a space
			wantPlaced: "", wantReason: "must be a label value",
		},
	}) {
		s := newScene(t, "node a model=A; node b model=B; queue q quota="+tc.quota+"; job j queue=q "+tc.job).enqueueAndAllocate()

		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
		checkText(t, "reasons", tc.wantReason, s.refusals("j"))
	}
}

// TestPredicateRefusesPodsBeyondTheQuota: Volcano asks the predicate about a pod and a node. The quota of one A is in
// use. On node a an eviction could help the second pod (Unschedulable). On node b, which has another card than the
// pod names, it could not (UnschedulableAndUnresolvable).
func TestPredicateRefusesPodsBeyondTheQuota(t *testing.T) {
	s := newScene(t, `node a model=A
		node b model=B
		queue q quota={"A":1}
		job j queue=q min=1 running=a pending=1`).enqueueAndAllocate()

	for node, wantCode := range map[string]int{"a": api.Unschedulable, "b": api.UnschedulableAndUnresolvable} {
		var fit *api.FitError
		check.Must(t, errors.As(s.p.nodes.predicate(s.Task("j-1"), s.Ssn.Nodes[node]), &fit), "node %s is not refused", node)
		check.Equal(t, "code of node "+node, wantCode, fit.Status[0].Code)
	}
}

// TestJobIsEnqueuedIfTheQuotaCoversWhatItNeeds: a PodGroup in phase Pending waits until Volcano enqueues it; only then
// are its pods created or scheduled. A job without pods needs the larger of its minimum (minCards) and its total
// (request, annotation card.request). Without card.request it may use each card of the nodes, A or B. Once pods exist,
// those of the minimum are counted instead. What other jobs of the queue use, or reserve since they were enqueued
// (those without phase=Pending), counts too. Elastic pods, those above a job's minimum, do not count. Each pod requests
// 1 CPU. A refused job gets the reason as a condition of its PodGroup.
func TestJobIsEnqueuedIfTheQuotaCoversWhatItNeeds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		queue, jobs string
		args        framework.Arguments
		wantRefusal string // "" if job j is enqueued
	}{
		"2 cards, quota 2: enqueued": {
			queue: `quota={"A":2}`, jobs: `job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
		},
		"5 cards, quota 3: refused": {
			queue: `quota={"A":3}`, jobs: `job j queue=q min=5 phase=Pending minCards=5 request={"A":5}`,
			wantRefusal: "Queue <q> has insufficient <A> quota: requested <5>, total would be <5>, but capability is <3>",
		},
		"a minimum of 3 and a total of 5, quota 3: refused for the total": {
			queue: `quota={"A":3}`, jobs: `job j queue=q min=3 phase=Pending minCards=3 request={"A":5}`,
			wantRefusal: "requested <5>, total would be <5>, but capability is <3> " +
				"(volcano.sh/card.request requests 5 cards in all, the job's minimum is 3)",
		},
		"a minimum of 5 and a total of 2, quota 3: refused for the minimum": {
			queue: `quota={"A":3}`, jobs: `job j queue=q min=5 phase=Pending minCards=5 request={"A":2}`,
			wantRefusal: "requested <5>",
		},
		"a minimum of 3, a total of 5 and 5 pods exist, quota 3: enqueued for the minimum": {
			queue: `quota={"A":3}`, jobs: `job j queue=q min=3 phase=Pending minCards=3 request={"A":5} pending=5`,
		},
		"2 cards beside 2 of a job that was enqueued before, quota 3: refused": {
			queue: `quota={"A":3}`, jobs: `job j queue=q min=2 phase=Pending minCards=2 request={"A":2}
				job i queue=q min=2 minCards=2 request={"A":2}`,
			wantRefusal: "total would be <4>",
		},
		"5 cards, quota 3, and overCommitFactor 2 lets jobs of 3 × 2 cards be enqueued: enqueued": {
			queue: `quota={"A":3}`, jobs: `job j queue=q min=5 phase=Pending minCards=5 request={"A":5}`,
			args: framework.Arguments{"overCommitFactor": 2},
		},
		"2 cards without card.request, quota for 2 B: enqueued": {
			queue: `quota={"B":2}`, jobs: "job j queue=q min=2 phase=Pending minCards=2",
		},
		"2 cards without card.request, quota for 1 B: refused": {
			queue: `quota={"B":1}`, jobs: "job j queue=q min=2 phase=Pending minCards=2",
			wantRefusal: "insufficient <B> quota: requested <2>, total would be <2>, but capability is <1>",
		},
		"2 cards without card.request, quota only for C, which no node has: refused": {
			queue: `quota={"C":1}`, jobs: "job j queue=q min=2 phase=Pending minCards=2",
			wantRefusal: "insufficient <A> quota: requested <2>, total would be <2>, but capability is <0>; " +
				"the other card it may use has no more room",
		},
		"4 pods exist, the minimum is one of them with 1 card, quota 1: enqueued": {
			queue: `quota={"A":1}`, jobs: "job j queue=q min=1 phase=Pending minCards=1 pending=4",
		},
		"quota 2 is used by a job with one elastic pod: enqueued": {
			queue: `quota={"A":2}`, jobs: `job j queue=q min=1 phase=Pending minCards=1 pending=1
				job i queue=q min=1 running=a*2 minCards=1`,
		},
		"the CPU limit of 2 is used by a job with one elastic pod: enqueued": {
			queue: `quota={"A":2} cpu=2`, jobs: `job j queue=q min=1 phase=Pending minCards=1 pending=1
				job i queue=q min=1 running=a*2 minCards=1`,
		},
		"the CPU limit is 1, and 2 pods use 2, one of them elastic: refused for CPU": {
			queue: `quota={"A":3} cpu=1`, jobs: `job j queue=q min=1 phase=Pending minCards=1 request={"A":1}
				job i queue=q min=1 running=a*2 minCards=1`,
			wantRefusal: "insufficient CPU quota: requested <1000m>, total would be <2000m>, but capability is <1000m>",
		},
		"the CPU limit of 2 is used by a job at its minimum: refused for CPU": {
			queue: `quota={"A":4} cpu=2`, jobs: `job j queue=q min=1 phase=Pending minCards=1 request={"A":1}
				job i queue=q min=2 running=a*2 minCards=2`,
			wantRefusal: "insufficient CPU quota",
		},
		"the CPU limit of 2 is used by a job without cards and with one elastic pod: enqueued": {
			queue: `quota={"A":2} cpu=2`, jobs: `job j queue=q min=1 phase=Pending minCards=1 pending=1
				job i queue=q min=1 running=a*2 cards=0 minCards=0`,
		},
		"card.request is half a card: refused": {
			queue: `quota={"A":8}`, jobs: `job j queue=q min=1 phase=Pending minCards=1 request={"A":0.5}`,
			wantRefusal: "write a whole number",
		},
		"a job without cards needs 1 CPU, the limit is 0.5: refused": {
			queue: "quota={} cpu=0.5", jobs: "job j queue=q min=1 phase=Pending minCards=0",
			wantRefusal: "insufficient CPU quota: requested <1000m>",
		},
	}) {
		s := newScene(t, "node a model=A; node b model=B; queue q "+tc.queue+"; "+tc.jobs).withArguments(tc.args).enqueueAndAllocate()

		s.checkEnqueued(t, "j", tc.wantRefusal)
		job := s.Job("j")
		check.That(t, tc.wantRefusal == "" || saysWhy(job.PodGroup, job.JobFitErrors),
			"the conditions of the PodGroup do not say why: %v", job.PodGroup.Status.Conditions)
	}
}

// checkEnqueued checks that the session enqueued a job, or refused it with a reason that contains wantRefusal.
func (s *scene) checkEnqueued(t testing.TB, name, wantRefusal string) {
	job := s.Job(name)
	check.Equal(t, "enqueued", wantRefusal == "", job.PodGroup.Status.Phase == scheduling.PodGroupInqueue)
	checkText(t, "reason", wantRefusal, job.JobFitErrors)
}

// TestCardPodsAreFreeOfCPULimitsWhenConfigured: queue q has a quota of 8 A and states no limit of CPU and memory
// (cpu=unlimited). In a queue with a quota for cards that means none at all. So a pod with a card and 1 CPU starts
// only if cardUnlimitedCpuMemory says that CPU and memory of pods with cards are not limited.
func TestCardPodsAreFreeOfCPULimitsWhenConfigured(t *testing.T) {
	for isUnlimited, wantPlaced := range map[bool]string{false: "", true: "a:1"} {
		s := newScene(t, `node a model=A
			queue q quota={"A":8} cpu=unlimited
			job j queue=q min=1 pending=1 minCards=1`).
			withArguments(framework.Arguments{"cardUnlimitedCpuMemory": isUnlimited}).enqueueAndAllocate()

		check.Equal(t, fmt.Sprintf("placed with cardUnlimitedCpuMemory %v", isUnlimited), wantPlaced, s.podsByNode("j"))
	}
}

// TestUnlimitedResourcesLiftWhatTheyName: queue q has a quota of 8 A and states no limit of CPU and memory
// (cpu=unlimited), which means none at all. unlimited.resources lifts that for what it names. A name that is unknown
// withholds everything. In a tree, where queue top is above q, its limits count: of 100 CPU and memory, of 0 CPU, or
// what it names itself.
func TestUnlimitedResourcesLiftWhatTheyName(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		queues     string
		wantReason string // "" if the pod starts
	}{
		"both":         {queues: `queue q quota={"A":8} cpu=unlimited unlimited=cpu,memory`},
		"CPU alone":    {queues: `queue q quota={"A":8} cpu=unlimited unlimited=cpu`, wantReason: "Queue <q> has no memory capability"},
		"memory alone": {queues: `queue q quota={"A":8} cpu=unlimited unlimited=memory`, wantReason: "Queue <q> has no cpu capability"},
		"an unknown name": {
			queues:     `queue q quota={"A":8} cpu=unlimited unlimited=cpu,memory,pods`,
			wantReason: `Queue <q> has an invalid volcano.sh/unlimited.resources: "pods" is neither cpu nor memory`,
		},
		"both, below a queue with 100": {queues: `queue top quota={"A":8}; queue q parent=top quota={"A":8} cpu=unlimited unlimited=cpu,memory`},
		"both, below a queue with no CPU": {
			queues:     `queue top quota={"A":8} cpu=0; queue q parent=top quota={"A":8} cpu=unlimited unlimited=cpu,memory`,
			wantReason: "Queue <q> has no cpu capability", // that of top, which q inherits
		},
		"both, below a queue that limits neither": {
			queues: `queue top quota={"A":8} cpu=unlimited unlimited=cpu,memory; queue q parent=top quota={"A":8} cpu=unlimited unlimited=cpu,memory`,
		},
	}) {
		arguments := framework.Arguments{}
		if strings.Contains(tc.queues, "parent=") {
			arguments["queueHierarchy"] = "Tree"
		}

		s := newScene(t, "node a model=A; "+tc.queues+"; job j queue=q min=1 pending=1 minCards=1").withArguments(arguments).enqueueAndAllocate()
		check.Equal(t, "placed", map[bool]string{true: "a:1"}[tc.wantReason == ""], s.podsByNode("j"))
		checkText(t, "reasons", tc.wantReason, s.refusals("j"))
	}
}

// TestAQueueDoesNotDisturbOthers: a queue with an unreadable quota starts no pod, and one with a quota of 1 starts
// one of 3 pods. Neither they nor a job of a missing queue keep the two pods of queue q from its quota of 2.
func TestAQueueDoesNotDisturbOthers(t *testing.T) {
	s := newScene(t, `node a model=A
		queue bad quota=nonsense
		queue full quota={"A":1}
		queue q quota={"A":2}
		job of-bad queue=bad min=1 pending=1
		job of-full queue=full min=1 pending=3
		job of-q queue=q min=1 pending=2
		job of-missing queue=missing min=1 pending=1`).enqueueAndAllocate()

	for job, wantPlaced := range map[string]string{"of-bad": "", "of-full": "a:1", "of-q": "a:2"} {
		check.Equal(t, "placed of job "+job, wantPlaced, s.podsByNode(job))
	}
}

// TestInvalidArgumentsAllowNoPods: with an invalid argument, here an overCommitFactor below 1, the plugin does not know
// which rules to enforce. So it starts no pod, although the quota is 8.
func TestInvalidArgumentsAllowNoPods(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":8}
		job j queue=q min=1 pending=1`).withArguments(framework.Arguments{"overCommitFactor": 0.5}).enqueueAndAllocate()

	check.Equal(t, "placed", "", s.podsByNode("j"))
}
