package servicetypepolicy

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newObservingPolicy returns a policy with mode Observe.
func newObservingPolicy() *v1alpha1.ServiceTypePolicy {
	p := newPolicy()
	p.Spec.Mode = v1alpha1.ModeObserve
	return p
}

// readyState returns condition Ready of the policy as "status/reason".
func (s *scene) readyState() string {
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
	check.Equal(t, "Ready", "True/Observing", s.readyState())
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
	check.Equal(t, "Ready before the Queue of lab is restored", "False/Restoring", s.readyState())

	stored := read(s, client.ObjectKeyFromObject(lab), &v1alpha1.CardQuota{})
	stored.Finalizers = nil
	check.NoError(t, s.client.Update(s.Context(), stored))
	s.settle()
	check.Equal(t, "Ready afterwards", "True/Observing", s.readyState())

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

// TestEnforceComesWithItsConfiguration: a policy observes. With mode Enforce and an invalid spec there is no
// configuration of the scheduler. Then quotas would be enforced by half, so Observe stays in force until the policy is
// valid.
func TestEnforceComesWithItsConfiguration(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newObservingPolicy())
	s.settleTo("True/Observing: ")

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) {
		spec.Mode = v1alpha1.ModeEnforce
		spec.Cards = []v1alpha1.CardMapping{{}}
	})
	s.settleTo("False/InvalidPolicy: ")
	check.Equal(t, "mode in force with an invalid spec", v1alpha1.ModeObserve, s.policy().Status.Mode)

	s.takeEvents()
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Cards = nil })
	s.settleTo("True/Synced: ")
	check.Equal(t, "mode in force with a valid spec", v1alpha1.ModeEnforce, s.policy().Status.Mode)
}

// TestTheReturnToEnforceIsNoCorrection: the operator itself deleted the scheduler's ConfigMap on the way to Observe. When
// it writes the ConfigMap again, no event says that another client had deleted it.
func TestTheReturnToEnforceIsNoCorrection(t *testing.T) {
	s := newSettledScene(t)
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Mode = v1alpha1.ModeObserve })
	s.settle()
	s.now = s.now.Add(time.Minute)
	s.takeEvents()

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Mode = v1alpha1.ModeEnforce })
	s.settle()
	check.Text(t, "events", strings.Join(s.takeEvents(), "\n")).Lacks(v1alpha1.EventConfigCorrected)
}

// TestAnUndecidedModeIsNotKept: the first policy wants to observe, and a scheduler may still run. Nothing of the policy
// is in force, so nothing is kept. If the policy is deleted now, everything is as before it.
func TestAnUndecidedModeIsNotKept(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newObservingPolicy())
	s.watchScheduler()
	check.NoError(t, s.client.Create(t.Context(), enforcement.Report{Identity: "ours_1", At: s.now.Add(-time.Hour), Version: "v1", ConfigHash: "aa"}.Lease(home)))
	check.Value(s.reconcile())(t)

	check.Equal(t, "mode in force", v1alpha1.Mode(""), s.policy().Status.Mode)
	s.expect("False/SchedulerRuns: ")
	check.That(t, s.configMap(home, policy.KeptConfigMapName) == nil, "a policy is kept")
}

// TestWrittenQuotasStayEnforcedBesideTheScheduler: CardQuota lab was written to its Queue before there was a policy, as
// its finalizer says, and the scheduler may run. The first policy wants to observe. Until it can, Enforce is in force.
func TestWrittenQuotasStayEnforcedBesideTheScheduler(t *testing.T) {
	lab := builder.CardQuota("lab").Obj()
	lab.Finalizers = []string{cardquota.Finalizer}
	s := newScene(t, newConfigMap(place.Name, plain), newObservingPolicy(), lab)
	s.watchScheduler()
	check.NoError(t, s.client.Create(t.Context(), enforcement.Report{Identity: "ours_1", At: s.now, Version: "v1", ConfigHash: "aa"}.Lease(home)))
	check.Value(s.reconcile())(t)
	check.Equal(t, "mode in force", v1alpha1.ModeEnforce, s.policy().Status.Mode)
	check.Equal(t, "Ready", "False/SchedulerRuns", s.readyState())
}

// watchScheduler lets the operator look for the reports of a scheduler.
func (s *scene) watchScheduler() {
	s.r.evidence = &evidence{cached: s.client, live: s.client, schedulerNamespace: home, volcanoNamespace: home, bypasses: &bypasses{}, metric: newEnforcedMetric()}
}
