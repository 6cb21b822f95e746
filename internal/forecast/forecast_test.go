package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const h200 = "NVIDIA-H200"

// noon is when the scenes begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// scene is a cluster with one node of 16 cards NVIDIA-H200, node h200, and one of 8 cards NVIDIA-H100, node h100.
type scene struct {
	quotas     []*builder.CardQuotaBuilder
	namespaces []*corev1.Namespace
	pods       []*builder.PodBuilder
	groups     []*builder.PodGroupBuilder
	isTree     bool
	queues     []*v1beta1.Queue // without a CardQuota
	bypasses   []enforcement.Bypass
}

// newInput returns the input of the forecast. The pods were created in their order, one a minute, and so were the
// PodGroups an hour before.
func (s *scene) newInput() *Input {
	inventory := card.NewInventory(map[string]card.Node{
		"h200": {Model: h200, Cards: []card.NodeCard{{Name: h200, Resource: builder.GPU, Count: 16}}},
		"h100": {Model: "NVIDIA-H100", Cards: []card.NodeCard{{Name: "NVIDIA-H100", Resource: builder.GPU, Count: 8}}},
	})
	input := &Input{
		Inventory: inventory, Healthy: inventory.Physical(), Schedulers: []string{"volcano"},
		TypeFor: func(name string) (servicetype.Type, bool) { return servicetype.BuiltIn(name) }, Matrix: servicetype.DefaultMatrix(),
		IgnoresComputeOfCardPods: true, Bypasses: s.bypasses,
	}

	var quotas []*v1alpha1.CardQuota
	for _, q := range s.quotas {
		quotas = append(quotas, q.Obj())
	}
	input.Owners = cardquota.OwnersByQueue(quotas)
	input.Tree = quota.Flat.WithFlat(cardquota.FlatLimits(input.Owners))
	if s.isTree {
		input.Tree = cardquota.NewTree(quotas, s.queues, v1alpha1.UnmanagedIgnore).Queues()
	}

	input.Namespaces = NewNamespaces(input.Owners, input.Tree, s.namespaces)
	input.AllowsNamespace = func(queue, namespace string) bool {
		owner := input.Owners[queue]
		if owner == nil {
			return true
		}
		selector := workload.ExplicitSelector(owner.Spec.NamespaceSelector)
		at := slices.IndexFunc(s.namespaces, func(n *corev1.Namespace) bool { return n.Name == namespace })
		return selector == nil || (at >= 0 && selector.Matches(labels.Set(s.namespaces[at].Labels)))
	}

	s.addWork(input)
	return input
}

// addWork adds the PodGroups, and the pods with their charges, as a count leaves them.
func (s *scene) addWork(input *Input) {
	for i, g := range s.groups {
		group := g.Obj()
		group.CreationTimestamp.Time = noon.Add(time.Duration(i)*time.Minute - time.Hour)
		input.PodGroups = append(input.PodGroups, group)
	}

	for i, p := range s.pods {
		pod := p.Obj()
		pod.CreationTimestamp.Time = noon.Add(time.Duration(i) * time.Minute)
		input.Pods = append(input.Pods, pod)
	}

	input.Facts = &queueusage.PodFacts{}
	_, input.Charges = queueusage.CountWithCharges(queueusage.Input{
		Pods: input.Pods, PodGroups: input.PodGroups, Inventory: input.Inventory, Facts: input.Facts,
		Schedulers: input.Schedulers, AllowsNamespace: input.AllowsNamespace, QueueOfNamespace: input.Namespaces.QueueFor, Now: noon,
	})
}

// namesOf returns the workloads of a list in its order, each as "name:cards", and nil for an empty list.
func namesOf(list *v1alpha1.ForecastWorkloads) (names []string) {
	if list == nil {
		return nil
	}
	for _, entry := range list.Workloads {
		names = append(names, fmt.Sprintf("%s:%d", entry.Workload.Name, entry.Count))
	}
	return names
}

// outcome is what a forecast says of one queue: the workloads of each list, as namesOf names them.
type outcome struct{ Waiting, Reclaimed, WithoutQueue, Bypassing, UnknownType []string }

// outcomeOf returns what a forecast says of a queue.
func outcomeOf(f *v1alpha1.CardQuotaForecast) outcome {
	if f == nil {
		return outcome{}
	}
	return outcome{namesOf(f.Waiting), namesOf(f.Reclaimed), namesOf(f.WithoutQueue), namesOf(f.Bypassing), namesOf(f.UnknownServiceType)}
}

// running is a pod of namespace lab and scheduler volcano with cards on node h200.
func running(name string, cards int) *builder.PodBuilder {
	return pending(name, cards).Running("h200")
}

// pending is such a pod that waits.
func pending(name string, cards int) *builder.PodBuilder {
	return builder.Pod("lab", name).Scheduler("volcano").Queue("train").GPUs(cards)
}

// train is a CardQuota of 8 cards NVIDIA-H200 for training.
func train() *builder.CardQuotaBuilder { return builder.CardQuota("train").Card(h200, 8) }

// TestEnforceKeepsTheYoungestWaiting: the forecast places the workloads of a queue once more, the oldest first. What does
// not fit the quota of 8 cards would wait, the youngest first in the list, with the number of its cards that would wait.
// Pods are created one a minute, in the order of the row.
func TestEnforceKeepsTheYoungestWaiting(t *testing.T) {
	cases := map[string]struct {
		scene
		want []string
	}{
		"8 of 8 cards in use: none": {scene{quotas: quotas(train()), pods: pods(running("a", 4), running("b", 4))}, nil},
		"12 of 8 cards: the youngest": {
			scene{quotas: quotas(train()), pods: pods(running("a", 4), running("b", 4), running("c", 4))}, []string{"c:4"}},
		"a younger one fits beside the one that does not": {
			scene{quotas: quotas(train()), pods: pods(running("a", 6), running("b", 4), running("c", 2))}, []string{"b:4"}},
		"two that do not fit: the youngest first": {
			scene{quotas: quotas(train()), pods: pods(running("a", 8), running("b", 1), running("c", 2))}, []string{"c:2", "b:1"}},
		"a pod that waits already counts after older ones": {
			scene{quotas: quotas(train()), pods: pods(running("a", 8), pending("b", 1))}, []string{"b:1"}},
		"a card without a quota": {
			scene{quotas: quotas(train()), pods: pods(pending("a", 2).Card("NVIDIA-H100").Running("h100"))}, []string{"a:2"}},
		"a pod that may use another card, for which there is quota": {
			scene{quotas: quotas(train()), pods: pods(pending("a", 2).Card("NVIDIA-H100|" + h200).Running("h100"))}, nil},
		"a gang of which one pod does not fit: all of it": {
			scene{
				quotas: quotas(train()), groups: groups(gang("g", 3)),
				pods: pods(running("a", 4).PodGroup("g"), running("b", 4).PodGroup("g"), running("c", 4).PodGroup("g")),
			}, []string{"a:12"}},
		"a pod beyond the minimum of its gang: that pod alone": {
			scene{
				quotas: quotas(train()), groups: groups(gang("g", 2)),
				pods: pods(running("a", 4).PodGroup("g"), running("b", 4).PodGroup("g"), running("c", 4).PodGroup("g")),
			}, []string{"a:4"}},
		"a gang whose pods were created again: as old as its PodGroup": {
			scene{quotas: quotas(train()), groups: groups(gang("g", 1)), pods: pods(running("a", 4), running("b", 8).PodGroup("g"))}, []string{"a:4"}},
		"a job without pods": {
			scene{quotas: quotas(train()), groups: groups(gang("big", 1).Request(`{"NVIDIA-H200":16}`))}, []string{"big:16"}},
		"a namespace that the quota does not select": {
			scene{
				quotas: quotas(train().Selects("team", "other")), namespaces: namespaces(builder.Namespace("lab", "team", "lab")),
				pods: pods(running("a", 1).ChargedQueue("train")),
			}, []string{"a:1"}},
		"a pod that waits, of a namespace that the quota does not select: it never starts there": {
			scene{
				quotas: quotas(train().Selects("team", "other")), namespaces: namespaces(builder.Namespace("lab", "team", "lab")),
				pods: pods(pending("a", 1)),
			}, nil},
		"a limit of CPU, which counts for pods without cards": {
			scene{
				quotas: quotas(train().Resources("4", "")),
				pods:   pods(pending("a", 0).CPU("3").Running("h200"), pending("b", 0).CPU("3").Running("h200"), running("c", 1).CPU("9")),
			}, []string{"b:0"}},
	}

	for t, tc := range check.Cases(t, cases) {
		found := New(tc.newInput())
		check.Equal(t, "workloads that would wait", outcome{Waiting: tc.want}, outcomeOf(found.Quotas["train"]))
	}
}

// TestPodsWithoutAQueueCountByTheirNamespace: a pod with cards that names no queue counts for the CardQuota that alone
// selects its namespace by a written selector. If several do, it counts for none, and its namespace is named.
func TestPodsWithoutAQueueCountByTheirNamespace(t *testing.T) {
	lab := namespaces(builder.Namespace("lab", "team", "lab", "stage", "dev"))
	own := func(name string, cards int) *builder.PodBuilder {
		return builder.Pod("lab", name).Scheduler("default-scheduler").GPUs(cards).Running("h200")
	}

	for t, tc := range check.Cases(t, map[string]struct {
		scene
		want      outcome
		unlimited []string
		ambiguous []v1alpha1.AmbiguousNamespace
	}{
		"one CardQuota selects the namespace: its pods need the queue": {
			scene: scene{quotas: quotas(train().Selects("team", "lab")), namespaces: lab, pods: pods(own("a", 2))},
			want:  outcome{WithoutQueue: []string{"a:2"}},
		},
		"they use the quota like all others": {
			scene: scene{quotas: quotas(train().Selects("team", "lab")), namespaces: lab, pods: pods(own("a", 8), own("b", 2))},
			want:  outcome{Waiting: []string{"b:2"}, WithoutQueue: []string{"b:2", "a:8"}},
		},
		"a pod without cards counts nowhere": {
			scene: scene{quotas: quotas(train().Selects("team", "lab")), namespaces: lab, pods: pods(own("a", 0))},
		},
		"a CardQuota without a selector selects no namespace": {
			scene: scene{quotas: quotas(train()), namespaces: lab, pods: pods(own("a", 2))}, unlimited: []string{"a:2"},
		},
		"two CardQuotas select the namespace: none counts the pod": {
			scene: scene{
				quotas:     quotas(train().Selects("team", "lab"), builder.CardQuota("dev").Card(h200, 8).Selects("stage", "dev")),
				namespaces: lab, pods: pods(own("a", 2)),
			},
			unlimited: []string{"a:2"}, ambiguous: []v1alpha1.AmbiguousNamespace{{Name: "lab", CardQuotas: []string{"dev", "train"}}},
		},
		"a queue without a CardQuota": {
			scene: scene{quotas: quotas(train()), pods: pods(running("a", 2).Queue("other"))}, unlimited: []string{"a:2"},
		},
		"a pod of another scheduler that names the queue": {
			scene: scene{quotas: quotas(train()), pods: pods(own("a", 2).Queue("train"))}, want: outcome{Bypassing: []string{"a:2"}},
		},
		"a pod whose creator chose its node": {
			scene: scene{quotas: quotas(train()), pods: pods(running("a", 2)), bypasses: []enforcement.Bypass{{Pod: "lab/a", Reason: "nodeName was set by kubectl"}}},
			want:  outcome{Bypassing: []string{"a:2"}},
		},
		"a service type that the policy does not have": {
			scene: scene{quotas: quotas(train().ServiceType("batch")), pods: pods(running("a", 2))}, want: outcome{UnknownType: []string{"a:2"}},
		},
	}) {
		found := New(tc.newInput())
		check.Equal(t, "forecast of queue train", tc.want, outcomeOf(found.Quotas["train"]))
		if found.Policy == nil {
			check.That(t, tc.unlimited == nil, "nothing is unlimited, want %v", tc.unlimited)
			continue
		}
		check.Equal(t, "workloads that no quota limits", tc.unlimited, namesOf(found.Policy.Unlimited))
		check.Equal(t, "ambiguous namespaces", tc.ambiguous, found.Policy.AmbiguousNamespaces)
	}
}

// TestAQueueWithoutACardQuotaGetsCardsOnlyIfThePolicyIgnoresIt: the message of a workload that no quota limits says that it
// would wait, unless queues without a CardQuota may use any cards.
func TestAQueueWithoutACardQuotaGetsCardsOnlyIfThePolicyIgnoresIt(t *testing.T) {
	s := scene{pods: pods(running("a", 2).Queue("other"))}
	for unmanaged, wants := range map[v1alpha1.UnmanagedQueues]bool{v1alpha1.UnmanagedIgnore: false, v1alpha1.UnmanagedEnforce: true, v1alpha1.UnmanagedDeny: true} {
		input := s.newInput()
		input.UnmanagedQueues = unmanaged
		message := New(input).Policy.Unlimited.Workloads[0].Message
		check.Contains(t, "message", message, "queue other has no CardQuota")
		check.Equal(t, fmt.Sprintf("%s: %q says that it would wait", unmanaged, message), wants, strings.Contains(message, "unmanagedQueues: "+string(unmanaged)+" it would wait"))
	}
}

// TestWaitingWorkWithinItsQuotaReclaims: inference that waits within its quota, and finds too few free cards, would take
// cards from training: of the youngest gangs, as few as are needed, and only if they suffice. Node h200 has 16 cards.
// Work beyond its own quota would not run, so its cards count as free.
func TestWaitingWorkWithinItsQuotaReclaims(t *testing.T) {
	serve := func() *builder.CardQuotaBuilder {
		return builder.CardQuota("serve").Card(h200, 8).ServiceType("inference")
	}
	big := builder.CardQuota("train").Card(h200, 16)

	for t, tc := range check.Cases(t, map[string]struct {
		scene
		want outcome // of queue train
	}{
		"free cards suffice": {scene: scene{quotas: quotas(big, serve()), pods: pods(running("a", 8), pending("i", 8).Queue("serve").Card(h200))}},
		"8 more are needed: the youngest gang of training": {
			scene{quotas: quotas(big, serve()), pods: pods(running("a", 8), running("b", 8), pending("i", 8).Queue("serve").Card(h200))},
			outcome{Reclaimed: []string{"b:8"}}},
		"training that may not be evicted: nothing": {
			scene: scene{quotas: quotas(big, serve()), pods: pods(
				running("a", 16).Annotation(v1beta1.PodPreemptable, "false"), pending("i", 8).Queue("serve").Card(h200))}},
		"training waits: it takes nothing from training": {
			scene: scene{quotas: quotas(big, serve().ServiceType("training")), pods: pods(running("a", 16), pending("i", 8).Queue("serve").Card(h200))}},
		"training beyond its quota: its cards are free then": {
			scene{quotas: quotas(train(), serve()), pods: pods(running("a", 8), running("b", 8), pending("i", 8).Queue("serve").Card(h200))},
			outcome{Waiting: []string{"b:8"}}},
		"two alike that nothing suffices for, and a smaller one: the gang for that": {
			scene{
				quotas: quotas(big, builder.CardQuota("serve").Card(h200, 64).ServiceType("inference")),
				pods: pods(running("a", 8), running("b", 8), pending("i", 24).Queue("serve").Card(h200), pending("j", 24).Queue("serve").Card(h200),
					pending("k", 8).Queue("serve").Card(h200)),
			},
			outcome{Reclaimed: []string{"b:8"}}},
		"inference beyond its own quota takes nothing": {
			scene: scene{quotas: quotas(big, builder.CardQuota("serve").Card(h200, 4).ServiceType("inference")), pods: pods(
				running("a", 16), pending("i", 8).Queue("serve").Card(h200))}},
	}) {
		found := New(tc.newInput())
		check.Equal(t, "forecast of queue train", tc.want, outcomeOf(found.Quotas["train"]))
	}
}

// TestCardsThatNodesDoNotOfferAreNeitherFreeNorReclaimed: node h200 offers 16 cards. A pod with 8 other ones, on a node that
// offers them no more, leaves these 16 free, and is not reclaimed: no other pod could get its cards.
func TestCardsThatNodesDoNotOfferAreNeitherFreeNorReclaimed(t *testing.T) {
	serve := builder.CardQuota("serve").Card(h200, 16).ServiceType("inference")
	forecastWith := func(all ...*builder.PodBuilder) outcome {
		s := scene{quotas: quotas(builder.CardQuota("train").Card(h200, 24), serve), pods: append(all, running("gone", 8).UID("gone"))}
		input := s.newInput()
		charge := input.Charges["gone"]
		charge.NotOffered = charge.Cards
		input.Charges["gone"] = charge
		return outcomeOf(New(input).Quotas["train"])
	}

	waits := pending("i", 8).Queue("serve").Card(h200)
	check.Equal(t, "8 of 16 cards are free", outcome{}, forecastWith(running("b", 8), waits))
	check.Equal(t, "none is free", outcome{Reclaimed: []string{"b:8"}}, forecastWith(running("b", 8), running("c", 8).Annotation(v1beta1.PodPreemptable, "false"), waits))
}

// TestCardsOfANodeThatIsNotReadyAreNeitherFreeNorReclaimed: node h200 has 16 cards, and node lost, which is not ready, had 8
// that a pod uses. These leave the 16 as they are, and that pod is not reclaimed, though it is the youngest.
func TestCardsOfANodeThatIsNotReadyAreNeitherFreeNorReclaimed(t *testing.T) {
	serve := builder.CardQuota("serve").Card(h200, 16).ServiceType("inference")
	waits := pending("i", 8).Queue("serve").Card(h200)

	for t, tc := range check.Cases(t, map[string]struct {
		used int
		want outcome
	}{
		"8 of 16 cards are free": {8, outcome{}},
		"none is free":           {16, outcome{Reclaimed: []string{"b:16"}}},
	}) {
		s := scene{quotas: quotas(builder.CardQuota("train").Card(h200, 24), serve), pods: pods(running("b", tc.used), waits, pending("gone", 8).Card(h200).Running("lost").UID("gone"))}
		input := s.newInput()
		charge := input.Charges["gone"]
		charge.NotOffered = nil // the inventory keeps a node that is not ready
		input.Charges["gone"] = charge
		input.Nodes = []card.NodeState{{Name: "h200", IsReady: true}, {Name: "h100", IsReady: true}, {Name: "lost"}}
		check.Equal(t, "forecast of queue train", tc.want, outcomeOf(New(input).Quotas["train"]))
	}
}

// TestAParentSaysWhatItsChildrenSay: in a tree a quota of an ancestor keeps work waiting, too, and the forecast of a
// parent has the workloads of its children.
func TestAParentSaysWhatItsChildrenSay(t *testing.T) {
	s := scene{
		isTree: true,
		quotas: quotas(builder.CardQuota("org").ServiceType("").Card(h200, 8), train().Parent("org"), builder.CardQuota("other").Card(h200, 8).Parent("org")),
		pods:   pods(running("a", 6), running("b", 4).Queue("other")),
	}

	found := New(s.newInput())
	waits := outcome{Waiting: []string{"b:4"}}
	check.Equal(t, "forecast of queue other, whose parent has 8 cards", waits, outcomeOf(found.Quotas["other"]))
	check.Equal(t, "forecast of the parent", waits, outcomeOf(found.Quotas["org"]))
	check.Equal(t, "forecast of queue train", outcome{}, outcomeOf(found.Quotas["train"]))
}

// TestAQuotaLimitsQueuesWithoutACardQuotaBelow: Queue hand has no CardQuota, and stands below that of one with 8 cards. Its
// work uses that quota, so it is not unlimited, and leaves less for the other queue below.
func TestAQuotaLimitsQueuesWithoutACardQuotaBelow(t *testing.T) {
	s := scene{
		isTree: true, queues: []*v1beta1.Queue{builder.Queue("hand").Quota(`{"NVIDIA-H200":8}`).Parent("org").Obj()},
		quotas: quotas(builder.CardQuota("org").ServiceType("").Card(h200, 8), train().Parent("org")),
		pods:   pods(running("a", 6).Queue("hand"), running("b", 4), pending("c", 4).Queue("hand")),
	}

	found := New(s.newInput())
	check.Equal(t, "forecast of queue train", outcome{Waiting: []string{"b:4"}}, outcomeOf(found.Quotas["train"]))
	check.Equal(t, "forecast of the parent", outcome{Waiting: []string{"c:4", "b:4"}}, outcomeOf(found.Quotas["org"]))
	check.That(t, found.Quotas["hand"] == nil && found.Policy.Unlimited == nil, "hand has a forecast of its own, or is not limited")
}

// TestAListNamesTenWorkloads: a list names the ten youngest workloads, and counts all of them. With ListsAll it names all
// of them, the youngest first.
func TestAListNamesTenWorkloads(t *testing.T) {
	s := scene{quotas: quotas(builder.CardQuota("train"))}
	for i := range 12 {
		s.pods = append(s.pods, running(fmt.Sprintf("p%02d", i), 1))
	}

	input := s.newInput()
	waits := New(input).Quotas["train"].Waiting
	check.Equal(t, "workloads in all", int32(12), waits.Total)
	check.Equal(t, "their cards", int64(12), waits.Cards)
	names := namesOf(waits)
	check.Equal(t, "named workloads", 10, len(names))
	check.Equal(t, "the youngest", "p11:1", names[0])
	check.Contains(t, "its message", waits.Workloads[0].Message, "train", h200, "quota")

	input.ListsAll = true
	all := namesOf(New(input).Quotas["train"].Waiting)
	check.Equal(t, "named workloads with ListsAll", append(names, "p01:1", "p00:1"), all)
}

// TestTheSummaryNamesEachOutcome: one line says how many workloads Enforce would change, and how.
func TestTheSummaryNamesEachOutcome(t *testing.T) {
	s := scene{
		quotas: quotas(train(), builder.CardQuota("serve").Card(h200, 16).ServiceType("inference")),
		pods:   pods(running("a", 8), running("b", 1).Scheduler("default-scheduler"), pending("i", 15).Queue("serve").Card(h200), running("x", 1).Queue("none")),
	}

	found := New(s.newInput())
	check.Equal(t, "summary of queue train",
		"1 workload would wait (1 card), 1 workload would lose cards to other queues (8 cards), 1 workload would bypass the scheduler (1 card)",
		Summary(found.Quotas["train"]))
	check.Equal(t, "summary of the policy", "workloads of 1 CardQuota, 1 workload that no CardQuota counts (1 card)", PolicySummary(found.Policy))
	check.Equal(t, "summary of nothing", "", Summary(nil)+PolicySummary(nil))
}
