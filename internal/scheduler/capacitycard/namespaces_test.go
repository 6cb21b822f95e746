package capacitycard

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// chat is a queue that chooses the namespaces of a team.
const chat = ` namespaceSelector={"matchLabels":{"team":"chat"}};`

func TestQueueAllowsSelectedNamespaces(t *testing.T) {
	const leftOut = "Namespace <ns> may not use queue <q>: ask an administrator"
	for name, tc := range map[string]struct {
		text  string
		cards int
		why   string // "" when the pods are placed
	}{
		"a queue that does not choose":                        {`queue q quota={"A":8}`, 1, ""},
		"a namespace that is chosen":                          {`queue q quota={"A":8}` + chat + "namespace ns team=chat", 1, ""},
		"every namespace":                                     {`queue q quota={"A":8} namespaceSelector={}; namespace ns team=lab`, 1, ""},
		"a namespace of another team":                         {`queue q quota={"A":8}` + chat + "namespace ns team=lab", 1, leftOut},
		"another namespace is chosen":                         {`queue q quota={"A":8}` + chat + "namespace ns team=lab; namespace other team=chat", 1, leftOut},
		"pods without cards are refused too":                  {`queue q quota={"A":8}` + chat + "namespace ns team=lab", 0, leftOut},
		"a queue without a quota chooses as well":             {`queue q` + chat + "namespace ns team=lab", 0, leftOut},
		"a namespace that is not known yet":                   {`queue q quota={"A":8}` + chat, 1, "Namespace <ns> is not known yet, and queue <q> is only for certain namespaces"},
		"not known yet, and every namespace may":              {`queue q quota={"A":8} namespaceSelector={}`, 1, ""},
		"a selector that cannot be read selects no namespace": {`queue q quota={"A":8} namespaceSelector={"matchLabel":{}}; namespace ns team=chat`, 1, "Queue <q> has an invalid volcano.sh/namespace-selector, so no namespace may use it"},
	} {
		// Before its pods exist, when they do, and when it was enqueued earlier.
		for phase, pods := range map[string]string{"Pending": "", " Pending": " pending=2", "Inqueue": " pending=2"} {
			t.Run(name+"/"+phase+pods, func(t *testing.T) {
				s := newScene(t, fmt.Sprintf("node a model=A; %s; job j queue=q min=1 phase=%s minCards=0 cards=%d", tc.text, strings.TrimSpace(phase), tc.cards)+pods).enqueueAndAllocate()
				job := s.Job("j")

				want := ""
				if pods != "" && tc.why == "" {
					want = "a:2"
				}

				check.Equal(t, "placed", want, s.podsByNode("j"))
				said := job.JobFitErrors + s.refusals("j")
				check.That(t, strings.Contains(said, tc.why), "said %q, want %q", said, tc.why)

				admitted := job.PodGroup.Status.Phase == scheduling.PodGroupInqueue
				check.That(t, phase == "Inqueue" || admitted == (tc.why == ""), "admitted %v", admitted)
				check.That(t, pods != "" || tc.why == "" || hasCondition(job.PodGroup, job.JobFitErrors), "the PodGroup's conditions do not tell why")
			})
		}
	}
}

// TestEachHookChecksTheNamespace asks each hook alone, in a tide that only the
// selector of the inference queue holds back.
func TestEachHookChecksTheNamespace(t *testing.T) {
	for team, want := range map[string]bool{"lab": true, "chat": false} {
		t.Run(team, func(t *testing.T) {
			s := newReclaimScene(t, `namespace ns team=lab; queue inf quota={"A":16} priority=80000 serviceType=inference namespaceSelector={"matchLabels":{"team":"`+team+`"}}; job t queue=tra min=1 running=a*4; job low queue=inf min=1 running=a*4; job i queue=inf min=1 pending=1 cards=2 phase=Pending minCards=1`).enqueueAndAllocate()
			p := s.p
			ssn := s.Ssn
			job := s.Job("i")
			task := s.Task("i-0")

			queue := ssn.Queues["inf"]
			node := ssn.Nodes["a"]
			job.Priority = 10
			victims := []*api.TaskInfo{s.Task("t-0"), s.Task("t-1")}
			own := []*api.TaskInfo{s.Task("low-0"), s.Task("low-1")}
			rules := s.reclaimPolicy()

			state := k8sframework.NewCycleState()
			ctx := context.Background()
			_ = p.simulationHook((*quota.Released).Add)(ctx, state, task, own[0], node)

			for _, hook := range []struct {
				name    string
				permits func() bool
			}{
				{"jobEnqueueable", func() bool { return p.jobEnqueueable(job) == util.Permit }},
				{"predicate", func() bool { return p.predicate(task, node) == nil }},
				{"preemptive", func() bool { return p.preemptive(queue, task) }},
				{"reclaimable", func() bool { got, _ := p.reclaimable(task, victims); return len(got) > 0 }},
				{"simulatePredicate", func() bool { return p.simulatePredicate(ctx, state, task, node) == nil }},
				{"simulateAllocatable", func() bool { return p.simulateAllocatable(ctx, state, queue, task) }},
				{"takes", func() bool { return rules.CanReclaim(task) }},
				{"allocated", func() bool {
					defer s.p.ledger.Release(string(task.UID))
					return s.allocateTask("i-0", "a", api.Allocated) == nil
				}},
				{"allocatable", func() bool { p.attempt.Store(nil); return p.allocatable(queue, task) }},
				{"preemptable", func() bool { got, _ := p.preemptable(task, own); return len(got) > 0 }},
				{"allocatable during an attempt", func() bool {
					r, _ := p.checkInputFor(task)
					return p.allocatableInAttempt(r, &preemptionAttempt{node: "a"})
				}},
			} {
				check.Equal(t, fmt.Sprintf("%s permits", hook.name), want, hook.permits())
			}
		})
	}
}

// TestExcludedNamespaceKeepsItsCardsAndGetsNoMore: its running pods stay
// charged, and what it waited for is free for others.
func TestExcludedNamespaceKeepsItsCardsAndGetsNoMore(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":4}`+chat+`namespace ns team=chat; namespace lab team=lab; job old queue=q min=1 running=a namespace=lab; job stuck queue=q min=3 pending=3 namespace=lab minCards=3; job j queue=q min=1 pending=4 phase=Pending minCards=1`).enqueueAndAllocate()
	check.Equal(t, "placed of the chosen namespace, on the cards that the other one does not hold", "a:3", s.podsByNode("j"))
	check.Equal(t, "used cards", 4, s.usedCards("q", "A"))
	check.Equal(t, "pending pods of the other namespace", 3, strings.Count(session.Names(s.In(api.Pending)), "stuck"))
}

// TestNamespaceCheckFollowsLabelsAndSelector: each session looks at both as they are.
func TestNamespaceCheckFollowsLabelsAndSelector(t *testing.T) {
	s := newScene(t, "node a model=A;"+`queue q quota={"A":8}`+chat+"namespace ns team=lab; job j queue=q min=1 pending=1 phase=Pending minCards=1")
	verdictOf := func(change func()) *workload.Refusal {
		change()
		s.Cache = nil // Volcano hands out other objects
		s.enqueueAndAllocate()
		return s.p.namespaceRefusals[queueNamespace{"q", "ns"}]
	}
	check.Must(t, verdictOf(func() {}) != nil, "a namespace of another team is not refused")

	chosen := s.Queues[0]
	other := verdictOf(func() {
		s.Queues[0] = chosen.DeepCopy()
		s.changeQueue("q", func(q *v1beta1.Queue) {
			q.Annotations["volcano.sh/namespace-selector"] = `{"matchLabels":{"team":"lab"}}`
		})
	})
	check.That(t, other == nil, "another selector chooses the namespace: %v", other)

	s.Queues[0] = chosen
	labelled := verdictOf(func() { s.Namespaces[0] = session.Namespace("ns", "chat") })
	check.That(t, labelled == nil, "the namespace is labelled: %v", labelled)
	check.That(t, verdictOf(func() { s.Namespaces[0] = session.Namespace("ns", "lab") }) != nil,
		"the namespace lost its label and is not refused")
	check.That(t, verdictOf(func() { s.addObjects(`queue q quota={"A":8}`) }) == nil, "a queue for every namespace refuses one")
	check.That(t, len(s.p.namespaceRefusals) == 0, "no queue chooses, and %d verdicts are kept", len(s.p.namespaceRefusals))
}

// TestQueuesWithoutSelectorReadNoNamespaces: looking whether a job may use its queue
// allocates nothing, nor does a verdict that stays.
func TestQueuesWithoutSelectorReadNoNamespaces(t *testing.T) {
	for _, selector := range []string{";", chat} {
		t.Run(selector, func(t *testing.T) {
			s := newScene(t, `node a model=A; namespace ns team=chat; queue q quota={"A":8}`+selector+"job j queue=q min=1 pending=1").enqueueAndAllocate()

			check.That(t, (s.p.namespaceLister != nil) == (selector == chat), "namespaces are looked up: %v", s.p.namespaceLister != nil)
			for gate, ask := range map[string]func(){
				"the next session": func() { clear(s.p.namespaceRefusals); _ = s.p.checkNamespace("q", s.p.queueRules["q"], "ns") },
				"the gates":        func() { _ = s.p.checkQueue(s.Job("j")) },
				"a node":           func() { check.Must(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]) == nil, "the node is refused") },
			} {
				check.Equal(t, fmt.Sprintf("%s: allocations", gate), 0, testing.AllocsPerRun(100, ask))
			}
		})
	}
}

// newNamespaceScene has a queue q that leaves the namespace evil out, and one that takes all.
func newNamespaceScene(t *testing.T, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, `node a model=A; namespace ns team=chat; namespace evil team=evil; queue q quota={"A":4}`+chat+`queue open quota={"A":4}; job j queue=q min=1 running=a`).addObjects(text, changes...).enqueueAndAllocate()
}

// TestOperatorChargesTheSameQueue: scheduler and operator charge the same queue for a pod of
// another scheduler, in a first session and with an earlier charge, also after the queue's
// selector changed.
func TestOperatorChargesTheSameQueue(t *testing.T) {
	s := newNamespaceScene(t, "")

	// Pods of every kind that a tenant may write, but for their PodGroup: by this
	// scheduler or another, in a namespace that queue q takes or leaves out, with a
	// record of a binding, the name of a queue, or both, for a card, for CPU, and for
	// a resource that is a card nowhere.
	var all []*corev1.Pod
	for _, scheduler := range []string{"volcano", "default-scheduler"} {
		for _, namespace := range []string{"ns", "evil"} {
			for _, record := range []string{"", "q", "open"} {
				for _, written := range []string{"", "q", "open"} {
					for asked, name := range map[string]corev1.ResourceName{"card": gpu, "cpu": "", "nowhere": "evil.example/x"} {
						all = append(all, s.PodsOf(fmt.Sprintf("job p queue=q min=1 running=a cards=0 scheduler=%s namespace=%s", scheduler, namespace), func(p *corev1.Pod) {
							p.Name = fmt.Sprintf("%s-%s-%s-%s-%s", scheduler, namespace, record, written, asked)
							p.UID = types.UID(p.Name)
							p.Annotations = map[string]string{"volcano.sh/card.name": "A", "cardquota.dev/charged-queue": record, "scheduling.volcano.sh/queue-name": written}
							if name != "" {
								requests(name, "3")(p)
							}
						})...)
					}
				}
			}
		}
	}

	taken := "ns"
	var last map[types.UID]quota.Charge
	agree := func(when string) {
		t.Helper()
		_, charges := cardquota.CountUsageAndCharges(cardquota.CountInput{Pods: all, Inventory: s.p.inventory, Schedulers: []string{"volcano"}, LastCharges: last,
			AllowsNamespace: func(queue, namespace string) bool { return queue != "q" || namespace == taken }})
		for _, pod := range all {
			check.Equal(t, when+", "+pod.Name+" of the operator and the scheduler", charges[pod.UID], *s.p.ledger.Charged(string(pod.UID)), cmpopts.IgnoreFields(quota.Charge{}, "MilliCPU", "Memory"))
		}
		last = charges
	}

	s.addToPodLister(all...)
	agree("at first")

	queue := s.Ssn.Queues["q"].Queue.DeepCopy()
	queue.Annotations["volcano.sh/namespace-selector"] = `{"matchLabels":{"team":"evil"}}`
	s.Ssn.Queues["q"].Queue = queue
	taken = "evil"
	s.p.buildSnapshot()
	agree("when the queue chooses another namespace")
}

// TestForgedChargedQueueWithholdsNoCards: a user who may create pods in one namespace could
// annotate a pod of no scheduler with another tenant's queue.
func TestForgedChargedQueueWithholdsNoCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pod, record string
		used        int
		cpu         int64
		inGroup     bool
	}{
		"in a namespace that the queue leaves out": {pod: "scheduler=default-scheduler namespace=evil"},
		"in a PodGroup that names it":              {pod: "scheduler=default-scheduler namespace=evil", inGroup: true},
		"in a namespace that it takes":             {pod: "scheduler=default-scheduler namespace=ns", cpu: 1000},
		"placed before the labels went":            {pod: "namespace=evil", used: 1000, cpu: 1000},
		"only a queue's name, and CPU":             {pod: "scheduler=default-scheduler namespace=evil", record: "scheduling.volcano.sh/queue-name"},
		"only a queue's name, of our own":          {pod: "namespace=evil", record: "scheduling.volcano.sh/queue-name"},
	}) {
		forge := func(p *corev1.Pod) {
			group := p.Annotations["scheduling.k8s.io/group-name"]
			p.Annotations = map[string]string{"volcano.sh/card.name": "A", cmp.Or(tc.record, "cardquota.dev/charged-queue"): "q"}
			if tc.inGroup {
				p.Annotations["scheduling.k8s.io/group-name"] = group
			}
			requests("evil.example/x", "1000")(p)
		}

		text := "job forged queue=q min=1 running=a cards=0 " + tc.pod
		s := newNamespaceScene(t, map[bool]string{true: text}[tc.inGroup], forge)
		pod := s.PodsOf(text, forge)[0]
		s.addToPodLister(pod)

		charge := s.p.ledger.Charged(string(pod.UID))
		check.Must(t, charge != nil, "the pod is not in the books at all")
		check.Equal(t, "cards that the queue uses, with one of its own", tc.used+1, s.usedCards("q", "A"))
		check.Equal(t, "CPU that is charged to the queue", tc.cpu, map[string]int64{charge.Queue: charge.MilliCPU}["q"])
	}
}
