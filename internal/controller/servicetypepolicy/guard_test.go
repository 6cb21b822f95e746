package servicetypepolicy

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// guardSource is the controller of the admission policies, which found a condition BypassGuarded, or none yet.
type guardSource struct{ last *policy.Guard }

func (g *guardSource) Latest() *policy.Guard                         { return g.last }
func (*guardSource) Changed() <-chan event.TypedGenericEvent[string] { return nil }

// TestGuardConditionIsWrittenByThePolicyController: the controller of the admission policies finds out
// condition BypassGuarded. The controller of the ServiceTypePolicy writes it with the other conditions. The
// condition outlives a correction of the configuration. After a restart it stays until the new operator finds
// it out. A condition that changes while the API server refuses writes of the status is written later, with
// its event.
func TestGuardConditionIsWrittenByThePolicyController(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	guard := &guardSource{}
	s.r.guard = guard
	find := func(status metav1.ConditionStatus, reason string) {
		guard.last = &policy.Guard{Condition: metav1.Condition{Status: status, Reason: reason}, UID: s.policy().UID, Generation: s.policy().Generation}
	}
	expectCondition := func(when, want string) {
		s.settle()
		c := conditions.Get(s.policy().Status.Conditions, v1alpha1.ConditionBypassGuarded)
		check.Equal(t, "condition "+when, want, string(c.Status)+"/"+c.Reason)
	}

	expectCondition("before it was found", "/") // there is no condition
	find(metav1.ConditionTrue, v1alpha1.ReasonBypassDenied)
	expectCondition("once it was found", "True/"+v1alpha1.ReasonBypassDenied)
	s.write(s.rendered(), "kubectl-edit", plain) // a user changes the configuration, and the operator corrects it
	expectCondition("after the configuration was corrected", "True/"+v1alpha1.ReasonBypassDenied)

	// The condition changes while the status cannot be written.
	timeout := errors.New("etcdserver: request timed out")
	s.refuse = func(object client.Object) error {
		if _, ok := object.(*v1alpha1.ServiceTypePolicy); ok {
			return timeout
		}
		return nil
	}

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Reclaim = v1alpha1.ReclaimPods }) // so that the status changes too
	_, err := s.reconcile()
	check.That(t, errors.Is(err, timeout), "the status cannot be written, and the error is %v", err)
	find(metav1.ConditionFalse, v1alpha1.ReasonGuardRefused)
	s.refuse = nil
	s.takeEvents()
	expectCondition("after the API server accepts writes again", "False/"+v1alpha1.ReasonGuardRefused)
	check.Contains(t, "events", strings.Join(s.takeEvents(), "\n"), "Warning "+v1alpha1.ReasonGuardRefused)

	s.restart()
	s.r.guard = &guardSource{}
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Reclaim = v1alpha1.ReclaimGangs }) // so that the status changes too
	expectCondition("after a restart, before it was found", "False/"+v1alpha1.ReasonGuardRefused)
}
