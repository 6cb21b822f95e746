package cardquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/check"
)

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
	used := func(n card.Count) cardquota.Usage { return cardquota.Usage{Used: map[card.Name]card.Count{"A": n}} }
	got := changedQueues(
		map[string]cardquota.Usage{"same": used(1), "more": used(1), "gone": used(1)},
		map[string]cardquota.Usage{"same": used(1), "more": used(2), "new": used(1)},
	)
	check.Equal(t, "queues to wake", []string{"gone", "more", "new"}, got)
}
