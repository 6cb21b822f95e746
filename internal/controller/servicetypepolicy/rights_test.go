package servicetypepolicy

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// reviewer answers which rights the operator has: all but those for the denied resources.
type reviewer struct{ denied []string }

func (r *reviewer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review, isReview := object.(*authorizationv1.SelfSubjectAccessReview)
	if !isReview {
		return errors.New("this is no review")
	}
	review.Status.Allowed = !slices.Contains(r.denied, review.Spec.ResourceAttributes.Resource)
	return nil
}

// askForRights lets the operator ask for its rights, and look again as soon as it may.
func (s *scene) askForRights(denied ...string) *reviewer {
	answers := &reviewer{denied: denied}
	s.r.rights = enforcerights.New(enforcerights.Options{Client: answers, Namespace: home, Retry: time.Nanosecond, Refresh: time.Nanosecond})
	return answers
}

// TestAPolicyWithoutRightsObserves: the operator may write everything but PriorityClasses, and the first policy wants to
// enforce. Nothing is written for the scheduler, since quotas would be enforced by half. With all rights the
// configuration and the PriorityClasses are written, without a change of the policy.
func TestAPolicyWithoutRightsObserves(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.watchScheduler()
	answers := s.askForRights("priorityclasses")
	check.Value(s.reconcile())(t)
	check.Equal(t, "mode in force", v1alpha1.ModeObserve, s.policy().Status.Mode)
	check.Equal(t, "Ready", "False/RightsMissing", s.readyState())
	check.Equal(t, "Enforced", "False/RightsMissing", s.enforcedState())
	check.That(t, s.rendered() == nil && len(s.classNames()) == 0, "something is written for the scheduler")

	answers.denied = nil
	check.Value(s.reconcile())(t)
	check.Equal(t, "mode in force with all rights", v1alpha1.ModeEnforce, s.policy().Status.Mode)
	check.That(t, s.rendered() != nil && len(s.classNames()) > 0, "nothing is written for the scheduler")
	check.Text(t, "Ready", s.readyState()).Lacks("RightsMissing")
}

// TestWrittenQuotasStayEnforcedWithoutRights: CardQuota lab was written to its Queue before there was a policy, as its
// finalizer says. The first policy wants to enforce, and the rights are missing. Enforce is in force, and Ready says
// what is missing.
func TestWrittenQuotasStayEnforcedWithoutRights(t *testing.T) {
	lab := builder.CardQuota("lab").Obj()
	lab.Finalizers = []string{cardquota.Finalizer}
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy(), lab)
	s.askForRights("queues")
	check.Value(s.reconcile())(t)
	check.Equal(t, "mode in force", v1alpha1.ModeEnforce, s.policy().Status.Mode)
	check.Equal(t, "Ready", "False/RightsMissing", s.readyState())
	check.That(t, s.rendered() != nil, "nothing is written for the scheduler")
}

// TestRightsThatAreTakenAwayStopNoOtherWork: the policy is in force, and the rights to PriorityClasses are taken away. The policy
// names another PriorityClass, which the API server refuses. That is no error of the reconcile: the configuration is
// written, Enforce stays in force, and Ready says what is missing.
func TestRightsThatAreTakenAwayStopNoOtherWork(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.settleTo("True/Synced: ")
	before := s.text()

	s.askForRights("priorityclasses")
	s.refuse = func(object client.Object) error {
		if _, isClass := object.(*schedulingv1.PriorityClass); isClass {
			return apierrors.NewForbidden(schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}, object.GetName(), errors.New("the account cannot create it"))
		}
		return nil
	}
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) {
		spec.PriorityClasses = []v1alpha1.PriorityClass{{Name: "urgent", Value: 70000}}
		spec.OverCommitPercent = 150
	})
	check.Value(s.reconcile())(t)

	check.That(t, s.text() != before, "the configuration is not written")
	check.Equal(t, "mode in force", v1alpha1.ModeEnforce, s.policy().Status.Mode)
	check.Equal(t, "Ready", "False/RightsMissing", s.readyState())
}

// TestTheWayBackNamesMissingRights: the policy was in force, and CardQuota lab was written to its Queue. The rights are
// unbound before everything is restored. Ready says so, and what to bind. When everything is restored, missing
// rights do not matter.
func TestTheWayBackNamesMissingRights(t *testing.T) {
	lab := builder.CardQuota("lab").Obj()
	lab.Finalizers = []string{cardquota.Finalizer}
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy(), lab)
	s.settleTo("True/Synced: ")

	s.askForRights("cardquotas")
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Mode = v1alpha1.ModeObserve })
	check.Value(s.reconcile())(t)
	ready := conditions.Get(s.policy().Status.Conditions, v1alpha1.ConditionReady)
	check.Equal(t, "Ready", "False/Restoring", s.readyState())
	check.Contains(t, "message of Ready", ready.Message, "may not patch cardquotas.cardquota.dev", "--serviceaccount="+home+":cardquota-manager")

	stored := read(s, client.ObjectKeyFromObject(lab), &v1alpha1.CardQuota{})
	stored.Finalizers = nil
	check.NoError(t, s.client.Update(s.Context(), stored))
	check.Value(s.reconcile())(t)
	check.Equal(t, "Ready", "True/Observing", s.readyState())
}
