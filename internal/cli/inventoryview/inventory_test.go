package inventoryview

import (
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

func nodeItems(hasPods bool, pods ...*corev1.Pod) []Node {
	var tracker card.Tracker
	tracker.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	tracker.Update(builder.Node("cpu").Obj())
	tracker.Update(builder.Node("unnamed").Resource("nvidia.com/gpu", "8").Obj())
	resolver := workload.Resolver{Inventory: tracker.Inventory()}
	charge := func(pod *corev1.Pod) quota.Charge { return resolver.Usage(pod, nil, nil) }
	return NewNodeList(tracker.Nodes(), pods, charge, hasPods).Items
}

func TestWhatIsFreeOnANode(t *testing.T) {
	pod := func(name string) *builder.PodBuilder { return builder.Pod("lab", name).GPUs(3) }
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		used int64
	}{
		"no pods":           {nil, 0},
		"a running pod":     {[]*corev1.Pod{pod("p").Running("a").Obj()}, 3},
		"a terminating pod": {[]*corev1.Pod{pod("p").Running("a").Deleted(time.Unix(1, 0)).Obj()}, 3},
		"a finished pod":    {[]*corev1.Pod{pod("p").Node("a").Phase(corev1.PodSucceeded).Obj()}, 0},
		"a waiting pod":     {[]*corev1.Pod{pod("p").Obj()}, 0},
		"too many":          {pod("p").Running("a").Copies(3), 9},
	} {
		items := nodeItems(true, tc.pods...)
		check.Must(t, len(items) == 2, "%s: items %+v", name, items)

		check.That(t, *items[0].Used == tc.used && *items[0].Free == max(0, 8-tc.used), "%s: %d used, %d free", name, *items[0].Used, *items[0].Free)
		check.That(t, items[1].Name == "unnamed" && items[1].Card == "" && len(items[1].Anomalies) == 1, "%s: %+v", name, items[1])
	}
}

func TestUsageIsUnknownWithoutPods(t *testing.T) {
	item := nodeItems(false)[0]
	check.That(t, item.Used == nil && item.Free == nil && item.Total == 8, "item %+v", item)
}

func TestStates(t *testing.T) {
	for want, node := range map[string]Node{"Ready": {Ready: true}, "NotReady": {Cordoned: true}, "Cordoned": {Ready: true, Cordoned: true}, "Anomaly": {Ready: true, Anomalies: []string{"x"}}} {
		check.Equal(t, "state", want, node.state())
	}
}

func TestListsAreNeverNull(t *testing.T) {
	list := NewList(v1alpha1.CardInventoryStatus{})
	check.That(t, list.Cards != nil && list.Anomalies != nil && NewNodeList(nil, nil, nil, true).Items != nil, "programs read [] more easily than null")
}

// TestSharesOfDifferentKindsAreShownApart: time slices and MPS shares have names of one form.
func TestSharesOfDifferentKindsAreShownApart(t *testing.T) {
	var tracker card.Tracker
	tracker.Update(builder.Node("mps").GPUs("NVIDIA-H200", 8).MPS(4).Obj())
	tracker.Update(builder.Node("slices").GPUs("NVIDIA-H200", 8).MPS(4).Label("nvidia.com/gpu.sharing-strategy", "time-slicing").Obj())
	tracker.Update(builder.Node("whole").GPUs("NVIDIA-H200", 8).Obj())
	nodes := NewNodeList(tracker.Nodes(), nil, nil, true)

	var sharing []string
	for _, item := range nodes.Items {
		sharing = append(sharing, item.Name+" "+item.Sharing)
	}
	check.Equal(t, "nodes", []string{"mps mps", "slices time-slicing", "whole "}, sharing)

	status := cardinventory.NewStatus(cardinventory.Input{Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: &cardinventory.Count{}})
	cards := NewList(status)
	for _, tc := range []struct {
		table interface {
			Write(io.Writer, output.Style) error
		}
		want string
	}{{nodes, "time-slicing"}, {cards, "mps,time-slicing"}} {
		var text strings.Builder
		check.NoError(t, tc.table.Write(&text, output.Style{}))
		check.Contains(t, "table", text.String(), "SHARING", tc.want)
	}

	var plain strings.Builder
	check.NoError(t, NewNodeList(tracker.Nodes()[2:], nil, nil, true).Write(&plain, output.Style{}))
	check.That(t, !strings.Contains(plain.String(), "SHARING"), "a column without values is shown")
}
