package servicetypepolicy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
)

// restartWith starts another operator, for which the API server lacks some kinds of Volcano, and lets it work.
func (s *scene) restartWith(missingKinds ...string) {
	s.restart()
	s.r.missingKinds = missingKinds
	s.watchScheduler()
	s.settle()
}

// enforcedState returns condition Enforced of the policy as "status/reason".
func (s *scene) enforcedState() string {
	c := conditions.Get(s.policy().Status.Conditions, v1alpha1.ConditionEnforced)
	return string(c.Status) + "/" + c.Reason
}

// TestAPolicyWaitsForVolcano: a policy wants Enforce on a cluster without Volcano. The operator observes, writes nothing for
// the scheduler, and says why. When Volcano comes, Enforce comes into force. When Volcano goes again, Enforce and its
// configuration stay for its return, and the conditions say why nothing is enforced. With mode Observe the operator
// observes without Volcano as well.
func TestAPolicyWaitsForVolcano(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.restartWith("PodGroup", "Queue")
	check.Equal(t, "mode without Volcano", v1alpha1.ModeObserve, s.policy().Status.Mode)
	check.Equal(t, "Ready without Volcano", "False/VolcanoMissing", s.readyState())
	check.Equal(t, "Enforced without Volcano", "False/VolcanoMissing", s.enforcedState())
	check.That(t, s.rendered() == nil, "the scheduler's ConfigMap exists")
	check.Equal(t, "PriorityClasses", 0, len(s.classNames()))

	s.restartWith()
	s.expect("True/Synced: ")
	check.Equal(t, "mode with Volcano", v1alpha1.ModeEnforce, s.policy().Status.Mode)
	text := s.text()

	s.restartWith("Queue")
	check.Equal(t, "mode after Volcano", v1alpha1.ModeEnforce, s.policy().Status.Mode)
	check.Equal(t, "Ready after Volcano", "False/VolcanoMissing", s.readyState())
	check.Equal(t, "Enforced after Volcano", "False/VolcanoMissing", s.enforcedState())
	check.Equal(t, "configuration after Volcano", text, s.text())

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Mode = v1alpha1.ModeObserve })
	s.settle()
	check.Equal(t, "Ready in mode Observe", "True/Observing", s.readyState())
	check.Equal(t, "Enforced in mode Observe", "False/Observing", s.enforcedState())
}
