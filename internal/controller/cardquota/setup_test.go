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
	shared "cardquota.dev/operator/internal/controller"
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
		check.Equal(t, "SpecChanged", tc.want, shared.SpecChanged.Update(event.UpdateEvent{ObjectOld: &v1alpha1.CardQuota{}, ObjectNew: after}))
	}
}

func TestChangedQueues(t *testing.T) {
	used := func(n card.Count) cardquota.Usage { return cardquota.Usage{Used: map[card.Name]card.Count{"A": n}} }
	got := changedKeys(
		map[string]cardquota.Usage{"same": used(1), "more": used(1), "gone": used(1)},
		map[string]cardquota.Usage{"same": used(1), "more": used(2), "new": used(1)},
		cardquota.Usage.Equal,
	)
	check.Equal(t, "queues to wake", []string{"gone", "more", "new"}, got)
}

func TestPolicyChanged(t *testing.T) {
	usual := func() *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{}
		p.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "inference", Priority: 80000}, {Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded"}}
		return p
	}

	other := usual()
	other.Status.ServiceTypes[1].Priority = 5
	counted := usual()
	counted.Status.ServiceTypes[1].CardQuotas = 7
	counted.Status.ConfigHash = "x"
	refused := usual()
	refused.Spec.ServiceTypes = []v1alpha1.ServiceType{{Name: "other"}}

	enforced := func(status, reason, message string) *v1alpha1.ServiceTypePolicy {
		p := usual()
		p.Status.Conditions = []metav1.Condition{{Type: "Enforced", Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}
		return p
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.ServiceTypePolicy
		want          bool
	}{
		"what is in force changes":                        {before: usual(), after: other, want: true},
		"something else in the status":                    {before: usual(), after: counted},
		"a spec that is not in force":                     {before: usual(), after: refused},
		"one takes effect, and the last one may be other": {before: &v1alpha1.ServiceTypePolicy{}, after: usual(), want: true},
		"quotas are enforced":                             {before: usual(), after: enforced("True", "Enforced", "yes"), want: true},
		"quotas are no longer enforced":                   {before: enforced("True", "Enforced", "yes"), after: enforced("False", "NoHeartbeat", "no"), want: true},
		"they are not, for a reason in other words":       {before: enforced("False", "NoHeartbeat", "no"), after: enforced("False", "NoHeartbeat", "none"), want: true},
		"a pod came past the scheduler":                   {before: enforced("True", "Enforced", "yes"), after: enforced("False", "CardBypass", "lab/a")},
		"another pod came past the scheduler":             {before: enforced("False", "CardBypass", "lab/a"), after: enforced("False", "CardBypass", "lab/b")},
		"the scheduler stopped, and a pod had come past":  {before: enforced("False", "CardBypass", "lab/a"), after: enforced("False", "NoHeartbeat", "no"), want: true},
	}) {
		check.Equal(t, "passes", tc.want, policyChanged.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}))
	}
}
