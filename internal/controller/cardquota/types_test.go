package cardquota

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/queue"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

func TestTypesChanged(t *testing.T) {
	usual := func() *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{}
		p.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "inference", Priority: 80000}, {Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded"}}
		return p
	}
	other := usual()
	other.Status.ServiceTypes[1].Priority = 5
	counted := usual()
	counted.Status.ServiceTypes[1].CardQuotas, counted.Status.ConfigHash = 7, "x"
	refused := usual()
	refused.Spec.ServiceTypes = []v1alpha1.ServiceType{{Name: "other"}}
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.ServiceTypePolicy // nil: it comes or goes
		want          bool
	}{
		"one comes that says what is usual":        {after: usual()},
		"one comes that says something else":       {after: other, want: true},
		"one goes that said what is usual":         {before: usual()},
		"one goes that said something else":        {before: other, want: true},
		"what is in force changes":                 {before: usual(), after: other, want: true},
		"something else in the status":             {before: usual(), after: counted},
		"a spec that is not in force":              {before: usual(), after: refused},
		"one takes effect that says what is usual": {before: &v1alpha1.ServiceTypePolicy{}, after: usual()},
	}) {
		var got bool
		switch {
		case tc.before == nil:
			got = typesChanged.Create(event.CreateEvent{Object: tc.after})
		case tc.after == nil:
			got = typesChanged.Delete(event.DeleteEvent{Object: tc.before})
		default:
			got = typesChanged.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after})
		}
		check.Equal(t, "passes", tc.want, got)
	}
}

func TestAChangedPolicyIsNobodysEdit(t *testing.T) {
	priority := int32(1)
	types := func(string) (servicetype.Type, bool) { return servicetype.Type{Priority: priority}, true }
	quota := &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.CardQuotaSpec{ServiceType: "batch"}}
	owned := &v1beta1.Queue{}
	owned.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "cardquota", Operation: "Apply", FieldsV1: &metav1.FieldsV1{
		Raw: []byte(`{"f:spec":{"f:priority":{},"f:reclaimable":{}}}`)}}}
	owned.Spec.Priority, owned.Spec.Reclaimable = 1, new(bool)
	p := &pass{Reconciler: &Reconciler{meanings: newMeanings()}, quota: quota, types: types, queue: owned}
	expect := func(when string, want bool) {
		t.Helper()
		check.Equal(t, fmt.Sprintf("%s: redefined", when), want, p.redefined(queue.Desired(quota, types, p.queue, "")))
	}
	expect("after a start, the Queue as it was", false)
	priority = 2
	expect("after a start, the policy changed meanwhile", true)
	p.meanings.remember("team", p.meaning())
	expect("once it was written", false)
	p.queue = &v1beta1.Queue{}
	expect("somebody took everything off the Queue", false)
	priority = 3
	expect("the policy changed", true)
	p.meanings.forget("team")
	expect("a Queue without any of it", true)
}
