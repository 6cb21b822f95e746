package servicetypepolicy

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// found is a Guard that says what a test wants.
type found struct{ last *policy.Guard }

func (f *found) Latest() *policy.Guard                         { return f.last }
func (*found) Changed() <-chan event.TypedGenericEvent[string] { return nil }

// TestGuardConditionIsWrittenByThePolicyController: no write loses the condition, whatever it is
// found to be while the API server refuses a write.
func TestGuardConditionIsWrittenByThePolicyController(t *testing.T) {
	w := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	guard := &found{}
	w.r.guard = guard
	guarded := func() string {
		c := meta.FindStatusCondition(w.policy().Status.Conditions, v1alpha1.ConditionBypassGuarded)
		if c == nil {
			return "none"
		}
		return string(c.Status) + "/" + c.Reason
	}

	find := func(status metav1.ConditionStatus, reason string) {
		guard.last = &policy.Guard{Condition: metav1.Condition{Status: status, Reason: reason}, UID: w.policy().UID, Generation: w.policy().Generation}
	}
	w.settle()
	check.Equal(t, "before anything was found", "none", guarded())

	find(metav1.ConditionTrue, v1alpha1.ReasonBypassDenied)
	w.settle()
	check.Equal(t, "once it was found", "True/"+v1alpha1.ReasonBypassDenied, guarded())

	w.write(w.rendered(), "kubectl-edit", plain)
	w.settle()
	check.Equal(t, "after the configuration was corrected", "True/"+v1alpha1.ReasonBypassDenied, guarded())

	slow := errors.New("etcdserver: request timed out")
	w.refuse = func(object client.Object) error {
		if _, ok := object.(*v1alpha1.ServiceTypePolicy); ok {
			return slow
		}
		return nil
	}

	w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Reclaim = v1alpha1.ReclaimPods })
	_, err := w.look()
	check.That(t, errors.Is(err, slow), "the status cannot be written, and the pass says %v", err)

	find(metav1.ConditionFalse, v1alpha1.ReasonGuardRefused)
	w.refuse = nil
	w.takeEvents()
	w.settle()
	check.Equal(t, "after the API server took a write again", "False/"+v1alpha1.ReasonGuardRefused, guarded())
	check.Contains(t, "events", strings.Join(w.takeEvents(), "\n"), "Warning "+v1alpha1.ReasonGuardRefused)

	w.restart()
	w.r.guard = &found{}
	w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Reclaim = v1alpha1.ReclaimGangs })
	w.settle()
	check.Equal(t, "after a restart, before anything was found", "False/"+v1alpha1.ReasonGuardRefused, guarded())
}
