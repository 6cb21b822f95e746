package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/usage"
)

func TestCardsChanged(t *testing.T) {
	node := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-H200"}},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
		}
	}
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat is no change":           {change: func(n *corev1.Node) { n.ResourceVersion = "2" }},
		"the same amount in another writing": {change: func(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8000m") }},
		"a failed card":                      {change: func(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("7") }, want: true},
		"a new resource":                     {change: func(n *corev1.Node) { n.Status.Allocatable["a/b"] = resource.MustParse("1") }, want: true},
		"a node that became ready": {change: func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}, want: true},
		"another condition": {change: func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}},
		"a lost label": {change: func(n *corev1.Node) { n.Labels = nil }, want: true},
	}) {
		after := node()
		tc.change(after)
		check.Equal(t, "cardsChanged", tc.want, cardsChanged(node(), after))
	}
}

func TestQueueChanged(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*v1beta1.Queue)
		want   bool
	}{
		"numbers of the scheduler": {change: func(q *v1beta1.Queue) { q.Status.Allocated = corev1.ResourceList{"cpu": resource.MustParse("1")} }},
		"its state":                {change: func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateClosed }, want: true},
		"an annotation":            {change: func(q *v1beta1.Queue) { q.Annotations = map[string]string{"a": "b"} }, want: true},
		"its spec":                 {change: func(q *v1beta1.Queue) { q.Generation = 2 }, want: true},
		"the beginning of its end": {change: func(q *v1beta1.Queue) { q.DeletionTimestamp = &metav1.Time{} }, want: true},
	}) {
		after := &v1beta1.Queue{}
		tc.change(after)
		check.Equal(t, "queueChanged", tc.want, queueChanged.Update(event.TypedUpdateEvent[*v1beta1.Queue]{ObjectOld: &v1beta1.Queue{}, ObjectNew: after}))
	}
}

func TestQuotaChanged(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*v1alpha1.CardQuota)
		want   bool
	}{
		"its own status":           {change: func(q *v1alpha1.CardQuota) { q.Status.Summary = "new" }},
		"its spec":                 {change: func(q *v1alpha1.CardQuota) { q.Generation = 2 }, want: true},
		"the beginning of its end": {change: func(q *v1alpha1.CardQuota) { q.DeletionTimestamp = &metav1.Time{} }, want: true},
	}) {
		after := &v1alpha1.CardQuota{}
		tc.change(after)
		check.Equal(t, "quotaChanged", tc.want, quotaChanged.Update(event.UpdateEvent{ObjectOld: &v1alpha1.CardQuota{}, ObjectNew: after}))
	}
}

func TestChangedQueues(t *testing.T) {
	used := func(n card.Count) usage.Queue { return usage.Queue{Used: map[card.Name]card.Count{"A": n}} }
	got := changedQueues(
		map[string]usage.Queue{"same": used(1), "more": used(1), "gone": used(1)},
		map[string]usage.Queue{"same": used(1), "more": used(2), "new": used(1)},
	)
	check.Equal(t, "queues to wake", []string{"gone", "more", "new"}, got)
}

func TestTakeStock(t *testing.T) {
	node := func(name, model string) *corev1.Node { return builder.Node(name).GPUs(model, 8).Obj() }
	r := newRecounter(nil, 0, nil)
	expect := func(when string, changed, wantChanged bool, want map[card.Name]card.Count) {
		t.Helper()
		check.Equal(t, fmt.Sprintf("%s: changed", when), wantChanged, changed)
		check.Equal(t, fmt.Sprintf("%s: inventory", when), want, r.inventory.Physical())
	}
	a, b := node("a", "H200"), node("b", "H800")
	expect("first", r.takeStock([]*corev1.Node{a, b}), true, map[card.Name]card.Count{"H200": 8, "H800": 8})
	before := r.inventory
	expect("a heartbeat", r.takeStock([]*corev1.Node{node("a", "H200"), b}), false, map[card.Name]card.Count{"H200": 8, "H800": 8})
	check.That(t, r.inventory == before, "an unchanged fleet must not be put together again")
	expect("another model", r.takeStock([]*corev1.Node{node("a", "H20"), b}), true, map[card.Name]card.Count{"H20": 8, "H800": 8})
	expect("one node replaced by another", r.takeStock([]*corev1.Node{b, node("c", "H20")}), true, map[card.Name]card.Count{"H20": 8, "H800": 8})
	expect("no node", r.takeStock(nil), true, map[card.Name]card.Count{})
	check.That(t, r.inventory.IsCard("nvidia.com/gpu"), "a resource that was a card stays one")
}
