package capacitycard

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// TestQueueAllowsSelectedNamespaces: a queue with a namespace selector is only for pods of the namespaces that it
// selects, by their labels. A queue without a selector is for all. Job j is in namespace ns. Each row runs with three
// states of the job: not enqueued and without pods, not enqueued and with two pods, or enqueued before and with two
// pods. If the namespace is allowed, the job is enqueued and its pods run. Otherwise the session neither enqueues the
// job nor places a pod, and the reason says why.
func TestQueueAllowsSelectedNamespaces(t *testing.T) {
	const refused = "Namespace <ns> may not use queue <q>: ask an administrator"

	for t, tc := range check.Cases(t, map[string]struct {
		objects    string
		cards      int
		wantReason string // "" if the namespace is allowed
	}{
		"the queue has no selector": {`queue q quota={"A":8}`, 1, ""},
		"the queue selects the namespace": {
			`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=chat`, 1, ""},
		"the queue selects all namespaces": {`queue q quota={"A":8} namespaceSelector={}; namespace ns team=lab`, 1, ""},
		"the namespace is of another team": {
			`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=lab`, 1, refused},
		"the queue selects another namespace": {
			`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=lab; namespace other team=chat`, 1, refused},
		"the namespace is of another team, and the pods need no cards": {
			`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=lab`, 0, refused},
		"the namespace is of another team, the pods need no cards, the queue has no quota": {
			`queue q namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=lab`, 0, refused},
		"the namespace is not known yet": {
			`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}`, 1,
			"Namespace <ns> is not known yet, and queue <q> is only for certain namespaces"},
		"the namespace is not known yet, and the queue selects all": {`queue q quota={"A":8} namespaceSelector={}`, 1, ""},
		"the selector has the unknown field matchLabel: refused for all": {
			`queue q quota={"A":8} namespaceSelector={"matchLabel":{}}; namespace ns team=chat`, 1,
			"Queue <q> has an invalid volcano.sh/namespace-selector, so no namespace may use it"},
	}) {
		for when, of := range map[string]struct {
			job             string
			placedIfAllowed string // "a:2" is two pods on node a
		}{
			"before its pods exist": {"phase=Pending", ""},
			"with its pods":         {"phase=Pending pending=2", "a:2"},
			"enqueued before":       {"phase=Inqueue pending=2", "a:2"},
		} {
			text := fmt.Sprintf("node a model=A cards=8; %s; job j queue=q min=1 minCards=0 cards=%d %s", tc.objects, tc.cards, of.job)
			s := newScene(t, text).enqueueAndAllocate()
			job := s.Job("j")
			wantPlaced := of.placedIfAllowed
			wantPhase := scheduling.PodGroupInqueue
			if tc.wantReason != "" {
				wantPlaced = ""
				wantPhase = scheduling.PodGroupPending
			}

			check.Equal(t, when+": placed", wantPlaced, s.podsByNode("j"))
			check.Contains(t, when+": reasons", job.JobFitErrors+s.refusals("j"), tc.wantReason)
			if when != "enqueued before" {
				check.Equal(t, when+": phase", wantPhase, job.PodGroup.Status.Phase)
			}
			if when == "before its pods exist" && tc.wantReason != "" {
				check.That(t, saysWhy(job.PodGroup, job.JobFitErrors), "%s: the conditions of the PodGroup do not say why", when)
			}
		}
	}
}

// TestEachHookChecksTheNamespace: Volcano asks many hooks until it has placed a pod, not always in the same order.
// So each hook refuses a pod whose namespace its queue does not select, also if it is the only one that is asked.
// Nothing else keeps pod i-0 of namespace ns from running: of the 8 cards of node a, training uses 4, from which
// i-0 may reclaim, and job low 4, which it may preempt.
func TestEachHookChecksTheNamespace(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		selectedTeam string
		wantPermits  bool
	}{
		"the queue selects team lab, that of the namespace": {"lab", true},
		"the queue selects team chat":                       {"chat", false},
	}) {
		s := newReclaimScene(t, `namespace ns team=lab
			queue inf quota={"A":16} priority=80000 serviceType=inference namespaceSelector={"matchLabels":{"team":"`+tc.selectedTeam+`"}}
			job t queue=tra min=1 running=a*4
			job low queue=inf min=1 running=a*4
			job i queue=inf min=1 pending=1 cards=2 phase=Pending minCards=1`).enqueueAndAllocate()
		p := s.p
		queue := s.Ssn.Queues["inf"]
		node := s.Ssn.Nodes["a"]
		training := []*api.TaskInfo{s.Task("t-0"), s.Task("t-1")}
		ofQueue := []*api.TaskInfo{s.Task("low-0"), s.Task("low-1")}

		job := s.Job("i")
		job.Priority = 10 // above that of job low
		task := s.Task("i-0")
		input, _ := p.CheckInputFor(task)

		// The simulation of topology-aware preempt has evicted a pod of the queue.
		state := k8sframework.NewCycleState()
		ctx := context.Background()
		_ = p.allocation.simulationHook((*quota.Released).Add)(ctx, state, task, ofQueue[0], node)

		for _, hook := range []struct {
			name    string
			permits func() bool
		}{
			{"jobEnqueueable", func() bool { return p.jobEnqueueable(job) == util.Permit }},
			{"predicate", func() bool { return p.nodes.predicate(task, node) == nil }},
			{"preemptive", func() bool { return p.podReclaim.preemptive(queue, task) }},
			{"reclaimable", func() bool { victims, _ := p.podReclaim.reclaimable(task, training); return len(victims) > 0 }},
			{"simulatePredicate", func() bool { return p.allocation.simulatePredicate(ctx, state, task, node) == nil }},
			{"simulateAllocatable", func() bool { return p.allocation.simulateAllocatable(ctx, state, queue, task) }},
			{"CanReclaim", func() bool { return s.pluginForActions().Rules.CanReclaim(task) }},
			{"onAllocate", func() bool {
				defer p.Ledger.Release(string(task.UID))
				return s.allocateTask("i-0", "a", api.Allocated) == nil
			}},
			{"allocatable", func() bool { p.preemption.BeginSearch(input, false); return p.allocation.allocatable(queue, task) }}, // outside preempt
			{"preemptable", func() bool { victims, _ := p.preemption.Preemptable(task, ofQueue); return len(victims) > 0 }},
			{"allocatable while preempt tries a node", func() bool {
				_, _ = p.preemption.Preemptable(task, ofQueue)
				return p.allocation.allocatable(queue, task)
			}},
		} {
			check.Equal(t, hook.name+" permits the pod", tc.wantPermits, hook.permits())
		}
	}
}

// TestExcludedNamespaceKeepsItsCardsAndGetsNoMore: queue q has a quota of 4 and selects only namespace ns.
// Namespace lab was excluded later: its running pod keeps its card and stays charged. Its waiting gang of 3 gets
// nothing, and reserves nothing. So beside the running pod, 3 of the 4 pods of job j in namespace ns fit.
func TestExcludedNamespaceKeepsItsCardsAndGetsNoMore(t *testing.T) {
	s := newScene(t, `node a model=A cards=8
		queue q quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}}
		namespace ns team=chat; namespace lab team=lab
		job old queue=q min=1 running=a namespace=lab
		job waits queue=q min=3 pending=3 namespace=lab minCards=3
		job j queue=q min=1 pending=4 phase=Pending minCards=1`).enqueueAndAllocate()
	check.Equal(t, "placed of namespace ns", "a:3", s.podsByNode("j"))
	check.Equal(t, "used cards", 1+3, s.usedCards("q", "A"))
	check.Equal(t, "placed of the gang of namespace lab", "", s.podsByNode("waits"))
}

// TestNamespaceCheckFollowsLabelsAndSelector: each session compares the labels of a namespace and the selector of a
// queue as they are then. First the queue selects team chat, and namespace ns is of team lab.
func TestNamespaceCheckFollowsLabelsAndSelector(t *testing.T) {
	s := newScene(t, `node a model=A cards=8
		queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}
		namespace ns team=lab
		job j queue=q min=1 pending=1 phase=Pending minCards=1`)
	runSession := func() *workload.Refusal {
		s.Cache = nil // so that Volcano reads the changed objects
		s.enqueueAndAllocate()
		for _, refusal := range s.p.NamespaceRefusals { // of the one queue and namespace
			return refusal
		}
		return nil
	}
	check.That(t, runSession() != nil, "the queue selects team chat: a namespace of team lab is not refused")

	s.addObjects(`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"lab"}}`)
	check.Equal(t, "refusal while the queue selects team lab", nil, runSession())

	s.addObjects(`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}`)
	s.Namespaces[0] = session.Namespace("ns", "chat")
	check.Equal(t, "refusal while queue and namespace are of team chat", nil, runSession())

	s.Namespaces[0] = session.Namespace("ns", "lab")
	check.That(t, runSession() != nil, "the namespace lost team chat and is not refused")

	s.addObjects(`queue q quota={"A":8}`)
	check.Equal(t, "refusal while the queue has no selector", nil, runSession())
	check.Equal(t, "answers that the session keeps while no queue has a selector", 0, len(s.p.NamespaceRefusals))
}

// TestNamespaceChecksAllocateNothing: thousands of pods ask in each session whether they may use their queue. The answer
// allocates no memory, with and without a selector. If no queue has a selector, sessions read no namespaces at all.
func TestNamespaceChecksAllocateNothing(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		queue               string
		wantReadsNamespaces bool
	}{
		"the queue has no selector":       {`queue q quota={"A":8}`, false},
		"the queue selects the namespace": {`queue q quota={"A":8} namespaceSelector={"matchLabels":{"team":"chat"}}`, true},
	}) {
		s := newScene(t, "node a model=A cards=8; namespace ns team=chat; job j queue=q min=1 pending=1; "+tc.queue).enqueueAndAllocate()
		check.Equal(t, "the session reads namespaces", tc.wantReadsNamespaces, s.p.NamespaceLister != nil)

		for question, ask := range map[string]func(){
			"the first one of a session": func() { clear(s.p.NamespaceRefusals); _ = s.p.AllowsNamespace("q", "ns") },
			"may a job use its queue":    func() { _ = s.p.CheckQueue(s.Job("j")) },
			"does a pod fit a node":      func() { check.NoError(t, s.p.nodes.predicate(s.Task("j-0"), s.Ssn.Nodes["a"])) },
		} {
			check.Equal(t, "allocations of the question: "+question, 0, testing.AllocsPerRun(100, ask))
		}
	}
}

// newNamespaceScene has node a with 8 cards, queue q for namespaces of team chat, and queue open for all, each with a
// quota of 4. Namespace ns is of team chat and namespace evil is not. One pod of queue q runs with a card.
func newNamespaceScene(t *testing.T, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, `node a model=A cards=8
		namespace ns team=chat; namespace evil team=evil
		queue q quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}}
		queue open quota={"A":4}
		job j queue=q min=1 running=a`).addObjects(text, changes...).enqueueAndAllocate()
}

// podsAsTenantsMayWrite returns a running pod of node a without a PodGroup for each combination of what a tenant may
// write: the scheduler's name, a namespace that queue q selects or not, a queue in the annotation of bindings, a queue
// in Volcano's annotation, and a request for a card, for CPU, or for a resource that is a card on no node.
func podsAsTenantsMayWrite(s *scene) (all []*corev1.Pod) {
	resources := []corev1.ResourceName{gpu, "cpu", "evil.example/x"}
	for _, scheduler := range []string{"volcano", "default-scheduler"} {
		for _, namespace := range []string{"ns", "evil"} {
			text := fmt.Sprintf("job p queue=q min=1 running=a cards=0 scheduler=%s namespace=%s", scheduler, namespace)

			for _, charged := range []string{"", "q", "open"} {
				for _, named := range []string{"", "q", "open"} {
					for _, resource := range resources {
						all = append(all, s.PodsOf(text, requests(resource, "3"), func(p *corev1.Pod) {
							p.Name = fmt.Sprintf("%s of %s, charged %q, names queue %q, requests %s", scheduler, namespace, charged, named, resource)
							p.UID = types.UID(p.Name)
							p.Annotations = map[string]string{
								"volcano.sh/card.name": "A", "cardquota.dev/charged-queue": charged, "scheduling.volcano.sh/queue-name": named,
							}
						})...)
					}
				}
			}
		}
	}

	return all
}

// TestOperatorChargesTheSameQueue: the operator shows in a quota's status what the scheduler enforces. So both charge
// the same queue with the same cards for a pod, whatever its creator wrote into it. The pods are all combinations of
// two schedulers, two namespaces, three values of charged-queue, three queue names and three resources. Both sides
// count twice: first queue q selects namespace ns, then namespace evil. The second time both know their first charges.
func TestOperatorChargesTheSameQueue(t *testing.T) {
	s := newNamespaceScene(t, "")
	pods := podsAsTenantsMayWrite(s)

	var charges map[types.UID]quota.Charge
	compareCharges := func(when, selected string) {
		_, charges = queueusage.CountWithCharges(queueusage.Input{
			Pods: pods, Inventory: s.p.Inventory, Schedulers: []string{"volcano"}, LastCharges: charges,
			AllowsNamespace: func(queue, namespace string) bool { return queue != "q" || namespace == selected },
		})
		for _, pod := range pods {
			ofScheduler := *s.p.Ledger.Charged(string(pod.UID))
			check.Equal(t, when+", "+pod.Name, charges[pod.UID], ofScheduler, cmpopts.IgnoreFields(quota.Charge{}, "MilliCPU", "Memory"))
		}
	}

	s.addToPodLister(pods...)
	compareCharges("queue q selects namespace ns", "ns")

	s.annotateQueue("q", "volcano.sh/namespace-selector", `{"matchLabels":{"team":"evil"}}`)
	s.p.builder.buildSnapshot()
	compareCharges("queue q selects namespace evil", "evil")
}

// TestForgedChargedQueueWithholdsNoCards: a user who may create pods in one namespace could write the queue of another
// tenant into them, to fill its quota. So queue q, which does not select namespace evil, is charged for a pod there
// only if this scheduler has bound the pod. The scheduler writes the annotation charged-queue when it binds a pod.
//
// The pod names card A. It requests 1 CPU, and 1000 of a resource that is a card on no node now. Such a resource counts
// as cards only if this scheduler has bound the pod, because it was a card then. Queue q also uses one card of its own.
func TestForgedChargedQueueWithholdsNoCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pod, annotation string
		isInPodGroup    bool
		wantCards       int
		wantMilliCPU    int64
	}{
		"another scheduler, namespace evil: nothing is charged": {
			pod: "scheduler=default-scheduler namespace=evil", annotation: "cardquota.dev/charged-queue", wantCards: 1},
		"another scheduler, namespace evil, in a PodGroup of queue q: nothing is charged": {
			pod: "scheduler=default-scheduler namespace=evil", annotation: "cardquota.dev/charged-queue", isInPodGroup: true, wantCards: 1},
		"another scheduler, namespace ns, which q selects: its CPU is charged": {
			pod: "scheduler=default-scheduler namespace=ns", annotation: "cardquota.dev/charged-queue", wantCards: 1, wantMilliCPU: 1000},
		"this scheduler bound the pod before the namespace lost its label: all is charged": {
			pod: "namespace=evil", annotation: "cardquota.dev/charged-queue", wantCards: 1001, wantMilliCPU: 1000},
		"another scheduler, namespace evil, the queue is only in Volcano's annotation: nothing is charged": {
			pod: "scheduler=default-scheduler namespace=evil", annotation: "scheduling.volcano.sh/queue-name", wantCards: 1},
		"this scheduler, namespace evil, the queue is only in Volcano's annotation: nothing is charged": {
			pod: "namespace=evil", annotation: "scheduling.volcano.sh/queue-name", wantCards: 1},
	}) {
		forge := func(p *corev1.Pod) {
			group := p.Annotations["scheduling.k8s.io/group-name"]
			p.Annotations = map[string]string{"volcano.sh/card.name": "A", tc.annotation: "q"}
			if tc.isInPodGroup {
				p.Annotations["scheduling.k8s.io/group-name"] = group
			}
			requests("evil.example/x", "1000")(p)
		}

		text := "job forged queue=q min=1 running=a cards=0 " + tc.pod
		inSession := ""
		if tc.isInPodGroup {
			inSession = text
		}
		s := newNamespaceScene(t, inSession, forge)
		pod := s.PodsOf(text, forge)[0]
		s.addToPodLister(pod)

		charge := s.p.Ledger.Charged(string(pod.UID))
		check.Must(t, charge != nil, "the pod is not in the ledger at all")
		check.Equal(t, "cards that queue q uses, with one of its own", tc.wantCards, s.usedCards("q", "A"))
		check.Equal(t, "CPU of the pod that is charged to queue q", tc.wantMilliCPU, map[string]int64{charge.Queue: charge.MilliCPU}["q"])
	}
}
