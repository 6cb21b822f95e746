package cardquota

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestPolicyChanged(t *testing.T) {
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
	enforced := func(status, reason, message string) *v1alpha1.ServiceTypePolicy {
		p := usual()
		p.Status.Conditions = []metav1.Condition{{Type: "Enforced", Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}
		return p
	}
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.ServiceTypePolicy
		want          bool
	}{
		"what is in force changes":                       {before: usual(), after: other, want: true},
		"something else in the status":                   {before: usual(), after: counted},
		"a spec that is not in force":                    {before: usual(), after: refused},
		"one takes effect that says what is usual":       {before: &v1alpha1.ServiceTypePolicy{}, after: usual()},
		"quotas are enforced":                            {before: usual(), after: enforced("True", "Enforced", "yes"), want: true},
		"quotas are no longer enforced":                  {before: enforced("True", "Enforced", "yes"), after: enforced("False", "NoHeartbeat", "no"), want: true},
		"they are not, for a reason in other words":      {before: enforced("False", "NoHeartbeat", "no"), after: enforced("False", "NoHeartbeat", "none"), want: true},
		"a pod came past the scheduler":                  {before: enforced("True", "Enforced", "yes"), after: enforced("False", "CardBypass", "lab/a")},
		"another pod came past the scheduler":            {before: enforced("False", "CardBypass", "lab/a"), after: enforced("False", "CardBypass", "lab/b")},
		"the scheduler stopped, and a pod had come past": {before: enforced("False", "CardBypass", "lab/a"), after: enforced("False", "NoHeartbeat", "no"), want: true},
	}) {
		check.Equal(t, "passes", tc.want, policyChanged.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}))
	}
}
