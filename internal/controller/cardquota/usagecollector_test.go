package cardquota

import (
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newStore returns the cache of one kind with the given objects.
func newStore(objects ...client.Object) toolscache.Store {
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for _, object := range objects {
		_ = store.Add(object)
	}
	return store
}

// newObjectStores returns empty caches of every kind that a count reads.
func newObjectStores() objectStores {
	return objectStores{
		quotas: newStore(), pods: newStore(), groups: newStore(), queues: newStore(), namespaces: newStore(), policies: newStore(),
	}
}

// newCollector returns a collector of these cards, which counts when a test calls countUsage.
func newCollector(cards InventorySource) *UsageCollector { return newUsageCollector(nil, 0, cards) }

// tracked are cards of which all nodes were read, and the last policy that took effect.
type tracked struct {
	card.Tracker
	last *v1alpha1.ServiceTypePolicy
}

func trackNodes(nodes ...*corev1.Node) *tracked {
	t := &tracked{}
	for _, node := range nodes {
		t.Update(node)
	}
	return t
}

func (t *tracked) Inventory() (*card.Inventory, bool) { return t.Tracker.Inventory(), true }

func (*tracked) OnChange(func()) {}

func (t *tracked) PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	if read != nil && policy.HasTakenEffect(read) {
		t.last = read
	}
	return policy.InForce(read, t.last)
}

// TestACountWakesQueuesWhoseCardsComeOrGo: a driver that is rolled out changes labels of each node several times, and
// that must not rewrite every status. A count wakes (reconciles) a queue for a change of the nodes in three cases:
//
//  1. Its status shows a card of which the first node joins, or the last one leaves.
//  2. The quotas for its card, added up, begin or cease to exceed the healthy cards.
//  3. It grants a card that no node has, so its condition suggests another one, and the card names of nodes change.
//
// Node a has 8 H200, node b 8 H800, and CardQuotas h200 and h800 grant one of these each. CardQuota unknown grants
// NVIDIA-H20-3e, which no node has. A pod waits in queue h800 for H200, so the status of h800 shows H200 as well. Each
// row has the case by which a queue is woken, "h800: 1".
func TestACountWakesQueuesWhoseCardsComeOrGo(t *testing.T) {
	h200 := func() *builder.NodeBuilder { return builder.Node("a").GPUs("NVIDIA-H200", 8) }
	for t, tc := range check.Cases(t, map[string]struct {
		change    *corev1.Node
		wantWoken []string
	}{
		"a label of node a changes: none":  {change: h200().Label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done").Obj()},
		"a node without cards joins: none": {change: builder.Node("c").Obj()},
		"node a has 7 cards left: none":    {change: builder.Node("a").GPUs("NVIDIA-H200", 7).Obj()},
		"node a has H20 instead of the last H200 (h200: 1 and 2, h800: 1, unknown: 3)": {
			change: builder.Node("a").GPUs("NVIDIA-H20", 8).Obj(), wantWoken: []string{"h200", "h800", "unknown"},
		},
		"node a with all H200 is not ready (h200: 2)":                 {change: h200().NotReady().Obj(), wantWoken: []string{"h200"}},
		"a node with H20 joins, which no other node has (unknown: 3)": {change: builder.Node("c").GPUs("NVIDIA-H20", 8).Obj(), wantWoken: []string{"unknown"}},
		"a second node with H800 joins: none":                         {change: builder.Node("c").GPUs("NVIDIA-H800", 8).Obj()},
	}) {
		cards := trackNodes(h200().Obj(), builder.Node("b").GPUs("NVIDIA-H800", 8).Obj())
		collector := newCollector(cards)
		stores := newObjectStores()
		stores.quotas = newStore(
			builder.CardQuota("h200").Card("NVIDIA-H200", 1).Obj(),
			builder.CardQuota("h800").Card("NVIDIA-H800", 1).Obj(),
			builder.CardQuota("unknown").Card("NVIDIA-H20-3e", 1).Obj(),
		)
		stores.pods = newStore(builder.Pod("lab", "p").Queue("h800").Card("NVIDIA-H200").GPUs(1).Obj())
		check.Equal(t, "woken by the first count", []string{allQueues}, collector.countUsage(stores))

		cards.Update(tc.change)
		check.Equal(t, "woken by node "+tc.change.Name, tc.wantWoken, collector.countUsage(stores), cmpopts.EquateEmpty())
	}
}

// TestBlockedPodsNameWhoUsesTheCards: the status says which workloads use the cards for which a blocked pod
// waits. Pods one (queue chat, inference) and two (a Queue by hand, training) use 4 cards each on a node that
// is cordoned. Pod x finds no free card: both use them. By its message, pod y lacks quota of web, the parent
// of chat: only pod one is below web. The numbers in the message do not matter. Both blocked pods count in
// namespace lab, which the selector of the parent selects.
func TestBlockedPodsNameWhoUsesTheCards(t *testing.T) {
	running := func(name, queue string) *corev1.Pod {
		return builder.Pod("lab", name).Queue(queue).GPUs(4).Running("a").Obj()
	}
	blocked := func(name, queue, message string) *corev1.Pod {
		return builder.Pod("lab", name).Queue(queue).Card("NVIDIA-H200").GPUs(1).Unschedulable(message).Obj()
	}

	stores := newObjectStores()
	stores.quotas = newStore(
		builder.CardQuota("web").ServiceType("").Card("NVIDIA-H200", 8).Selects("team", "chat").Obj(),
		builder.CardQuota("chat").ServiceType("inference").Card("NVIDIA-H200", 8).Parent("web").Obj(),
	)
	stores.queues = newStore(builder.Queue("byhand").ServiceType("training").Obj())
	stores.namespaces = newStore(builder.Namespace("lab", "team", "chat"))
	stores.policies = newStore(builder.ServiceTypePolicy().Hierarchy(v1alpha1.QueueHierarchyTree).Obj())
	stores.pods = newStore(
		running("one", "chat"),
		running("two", "byhand"),
		blocked("x", "chat", "0/1 nodes are unavailable: 1 node(s) were unschedulable."),
		blocked("y", "chat", "Queue <web>, an ancestor of <chat>, has insufficient <NVIDIA-H200> quota: requested <1>, total would be <9>, but capability is <8>"),
	)

	collector := newCollector(trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Cordoned().Obj()))
	collector.countUsage(stores)

	usage, _, _ := collector.QueueUsage("chat")
	holders := map[string][]string{}
	for _, b := range usage.Blocked {
		for _, h := range b.Holders {
			holders[string(b.Reason)] = append(holders[string(b.Reason)], h.Workload.Name+" "+h.Queue+" "+h.ServiceType)
		}
	}
	check.Equal(t, "holders by reason", map[string][]string{
		"NoFreeCard":             {"one chat inference", "two byhand training"},
		"AncestorQuotaExhausted": {"one chat inference"},
	}, holders)

	_, parent, _ := collector.QueueUsage("web")
	check.Equal(t, "blocked workloads in namespace lab below web", 2, parent.Local["lab"].Total)
}
