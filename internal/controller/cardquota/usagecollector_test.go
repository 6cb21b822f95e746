package cardquota

import (
	"fmt"
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

func newStore(objects ...client.Object) toolscache.Store {
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for _, object := range objects {
		_ = store.Add(object)
	}
	return store
}

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

// TestQueuesWithChangedCards: a driver that is rolled out changes labels of each node several
// times. A status follows only that no node has a card any more, or that one has it again.
func TestQueuesWithChangedCards(t *testing.T) {
	h200 := func() *builder.NodeBuilder { return builder.Node("a").GPUs("NVIDIA-H200", 8) }
	for t, tc := range check.Cases(t, map[string]struct {
		change *corev1.Node
		want   []string
	}{
		"another label":                {change: h200().Label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done").Obj()},
		"a node without cards comes":   {change: builder.Node("c").Obj()},
		"a node with fewer cards":      {change: builder.Node("a").GPUs("NVIDIA-H200", 7).Obj()},
		"a node with another model":    {change: builder.Node("a").GPUs("NVIDIA-H20", 8).Obj(), want: []string{"grants", "holds"}},
		"a node that is not ready":     {change: h200().NotReady().Obj(), want: []string{"grants"}},
		"a card that no node had":      {change: builder.Node("c").GPUs("NVIDIA-H20", 8).Obj(), want: []string{"holds"}},
		"more cards of the other kind": {change: builder.Node("c").GPUs("NVIDIA-H800", 8).Obj()},
	}) {
		cards := trackNodes(h200().Obj(), builder.Node("b").GPUs("NVIDIA-H800", 8).Obj())
		r := newUsageCollector(nil, 0, cards)

		s := objectStores{
			quotas: newStore(builder.CardQuota("grants").Card("NVIDIA-H200", 1).Obj(), builder.CardQuota("other").Card("NVIDIA-H800", 1).Obj(),
				builder.CardQuota("holds").Card("NVIDIA-H20-3e", 1).Obj()),
			pods:   newStore(builder.Pod("lab", "p").Queue("holds").Card("NVIDIA-H200").GPUs(1).Obj()),
			groups: newStore(), queues: newStore(), namespaces: newStore(), policies: newStore(),
		}
		check.Equal(t, "woken by the first count", []string{allQueues}, r.countUsage(s))

		cards.Update(tc.change)
		check.Equal(t, fmt.Sprintf("woken by node %s", tc.change.Name), tc.want, r.countUsage(s), cmpopts.EquateEmpty())
	}
}

// TestBlockedNamesHolders: the collector gives the count the nodes, the service types of queues
// and the tree.
func TestBlockedNamesHolders(t *testing.T) {
	nodes := trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Cordoned().Obj())
	running := func(name, queue string) *corev1.Pod {
		return builder.Pod("lab", name).Queue(queue).GPUs(4).Running("a").Obj()
	}

	waits := func(name, queue, message string) *corev1.Pod {
		return builder.Pod("lab", name).Queue(queue).Card("NVIDIA-H200").GPUs(1).Unschedulable(message).Obj()
	}
	s := objectStores{
		quotas: newStore(builder.CardQuota("web").ServiceType("").Card("NVIDIA-H200", 8).Selects("team", "chat").Obj(),
			builder.CardQuota("chat").ServiceType("inference").Card("NVIDIA-H200", 8).Parent("web").Obj()),
		pods: newStore(running("one", "chat"), running("two", "byhand"), waits("x", "chat", "0/1 nodes are unavailable: 1 node(s) were unschedulable."),
			waits("y", "chat", "Queue <web>, an ancestor of <chat>, has insufficient <NVIDIA-H200> quota: requested <1>, total would be <9>, but capability is <8>")),
		groups: newStore(), queues: newStore(builder.Queue("byhand").ServiceType("training").Obj()), namespaces: newStore(builder.Namespace("lab", "team", "chat")),
		policies: newStore(builder.ServiceTypePolicy().Hierarchy(v1alpha1.QueueHierarchyTree).Obj()),
	}

	u := newUsageCollector(nil, 0, nodes)
	u.countUsage(s)
	usage, _, _ := u.QueueUsage("chat")

	got := map[string][]string{}
	for _, b := range usage.Blocked {
		for _, h := range b.Holders {
			got[string(b.Reason)] = append(got[string(b.Reason)], h.Workload.Name+" "+h.Queue+" "+h.ServiceType)
		}
	}

	_, parent, _ := u.QueueUsage("web")
	check.Equal(t, "seen in namespaces, by the parent's selector", 2, parent.Local["lab"].Total)
	check.Equal(t, "holders", map[string][]string{"NoFreeCard": {"one chat inference", "two byhand training"}, "AncestorQuotaExhausted": {"one chat inference"}}, got)
}
