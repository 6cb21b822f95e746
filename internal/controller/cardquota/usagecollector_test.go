package cardquota

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/card"
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

// tracked are cards of which all nodes were read.
type tracked struct{ card.Tracker }

func (t *tracked) Inventory() (*card.Inventory, bool) { return t.Tracker.Inventory(), true }

func (*tracked) OnChange(func()) {}

// TestQueuesWithChangedCards: a driver that is rolled out changes labels of each node several
// times. Only CardQuotas that show another number of cards have news.
func TestQueuesWithChangedCards(t *testing.T) {
	h200 := func() *builder.NodeBuilder { return builder.Node("a").GPUs("NVIDIA-H200", 8) }
	for t, tc := range check.Cases(t, map[string]struct {
		change *corev1.Node
		want   []string
	}{
		"another label":                {change: h200().Label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done").Obj()},
		"a node without cards comes":   {change: builder.Node("c").Obj()},
		"a node with fewer cards":      {change: builder.Node("a").GPUs("NVIDIA-H200", 7).Obj(), want: []string{"grants", "holds"}},
		"a node with another model":    {change: builder.Node("a").GPUs("NVIDIA-H20", 8).Obj(), want: []string{"grants", "holds"}},
		"a node that is not ready":     {change: h200().NotReady().Obj(), want: []string{"grants"}},
		"more cards of the other kind": {change: builder.Node("c").GPUs("NVIDIA-H800", 8).Obj(), want: []string{"other"}},
	}) {
		cards := &tracked{}
		cards.Update(h200().Obj())
		cards.Update(builder.Node("b").GPUs("NVIDIA-H800", 8).Obj())
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
