package servicetypepolicy

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newObservingPolicy returns a policy with mode Observe.
func newObservingPolicy() *v1alpha1.ServiceTypePolicy {
	p := newPolicy()
	p.Spec.Mode = v1alpha1.ModeObserve
	return p
}

// ready returns condition Ready of the policy as "status/reason".
func (s *scene) ready() string {
	c := conditions.Get(s.policy().Status.Conditions, v1alpha1.ConditionReady)
	return string(c.Status) + "/" + c.Reason
}

// TestObserveWritesNothingForTheScheduler: a first policy with mode Observe writes neither the scheduler's ConfigMap
// nor PriorityClasses. Its service types are in force: CardQuotas are counted by them.
func TestObserveWritesNothingForTheScheduler(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newObservingPolicy())
	s.settleTo("True/Observing: ")
	check.That(t, s.rendered() == nil, "the scheduler's ConfigMap exists")
	check.Equal(t, "PriorityClasses", 0, len(s.classNames()))

	status := s.policy().Status
	check.Equal(t, "mode in force", v1alpha1.ModeObserve, status.Mode)
	check.Equal(t, "service types", 2, len(status.ServiceTypes))
	check.Equal(t, "Ready", "True/Observing", s.ready())
}

// TestTheWayBackToObserve: the policy was in force. With mode Observe the operator deletes the scheduler's ConfigMap, and
// keeps the PriorityClasses, which pods name. Ready waits for CardQuota lab, whose finalizer says that its Queue is not
// restored. Enforce writes the ConfigMap again.
func TestTheWayBackToObserve(t *testing.T) {
	lab := builder.CardQuota("lab").Obj()
	lab.Finalizers = []string{cardquota.Finalizer}
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy(), lab)
	s.settleTo("True/Synced: ")
	classes := s.classNames()
	check.Equal(t, "mode in force", v1alpha1.ModeEnforce, s.policy().Status.Mode)

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Mode = v1alpha1.ModeObserve })
	s.settleTo("True/Observing: ")
	check.That(t, s.rendered() == nil, "the scheduler's ConfigMap exists")
	check.Equal(t, "PriorityClasses", classes, s.classNames())
	check.Equal(t, "Ready before the Queue of lab is restored", "False/Restoring", s.ready())

	stored := read(s, client.ObjectKeyFromObject(lab), &v1alpha1.CardQuota{})
	stored.Finalizers = nil
	check.NoError(t, s.client.Update(s.Context(), stored))
	s.settle()
	check.Equal(t, "Ready afterwards", "True/Observing", s.ready())

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Mode = v1alpha1.ModeEnforce })
	s.settleTo("True/Synced: ")
	check.That(t, s.rendered() != nil, "the scheduler's ConfigMap does not exist")
}

// TestAnotherConfigMapStaysInModeObserve: an administrator wrote the ConfigMap of that name, without the label of the
// operator. It is not deleted.
func TestAnotherConfigMapStaysInModeObserve(t *testing.T) {
	byHand := newConfigMap("cardquota-scheduler-configmap", plain)
	byHand.Namespace = home
	s := newScene(t, newConfigMap(place.Name, plain), byHand, newObservingPolicy())
	s.settleTo("True/Observing: ")
	check.Equal(t, "text", plain, s.text())
}

// TestObserveIsNotInForceWhileTheSchedulerMayRun: an operator that just started finds the report of a scheduler. It
// cannot know yet whether that scheduler still runs, so Observe has to wait. 20 seconds after the last report the
// scheduler does not run, and without any report there is nothing to wait for.
func TestObserveIsNotInForceWhileTheSchedulerMayRun(t *testing.T) {
	s := newEnforcedScene(t)
	mayRun := func() bool { return check.Value(s.schedulerMayRun(t.Context(), s.now))(t) }

	check.That(t, mayRun(), "the report is a second old")
	s.now = s.now.Add(enforcement.StaleAfter - 1)
	check.That(t, mayRun(), "the operator has watched for less than 20 seconds")
	s.now = s.now.Add(1)
	check.That(t, !mayRun(), "no report arrived for 20 seconds")

	s.writeHeartbeat("ours_1", s.now)
	check.That(t, mayRun(), "a report arrived")

	check.NoError(t, s.client.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace(system)))
	check.That(t, !mayRun(), "there is no report")
}
