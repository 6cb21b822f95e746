package enforcerights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// apiServer answers reviews.
type apiServer struct {
	// denied are the resources for which the operator has no rights.
	denied []string
	// fault is what each review ends with, nil for an answer.
	fault error
	// asked counts the reviews.
	asked int
}

func (a *apiServer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	a.asked++
	if a.fault != nil {
		return a.fault
	}
	review, isReview := object.(*authorizationv1.SelfSubjectAccessReview)
	if !isReview {
		return fmt.Errorf("a %T is created", object)
	}
	review.Status.Allowed = !slices.Contains(a.denied, review.Spec.ResourceAttributes.Resource)
	return nil
}

// scene is an API server, a clock and the rights that the operator knows.
type scene struct {
	apiServer
	*Rights
	at time.Time
}

func newScene() *scene {
	s := &scene{at: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	s.Rights = New(Options{Client: &s.apiServer, Namespace: "cards", Retry: 10 * time.Second, Refresh: time.Minute})
	s.now = func() time.Time { return s.at }
	return s
}

// looks returns how often the operator has asked for all permissions.
func (s *scene) looks() int { return s.asked / len(policy.EnforcePermissions()) }

// forbidden is the answer to a write of a Queue without the right to it.
func forbidden(resource string) error {
	err := apierrors.NewForbidden(schema.GroupResource{Group: "scheduling.volcano.sh", Resource: resource}, "lab", errors.New("the account cannot patch it"))
	return fmt.Errorf("apply queue lab: %w", err)
}

// TestRightsAreAskedForMoreOftenWhileTheyAreMissing: the operator asks for all permissions when it needs them first. It asks
// again a minute later, but ten seconds later while some are missing, and at once after a change of the policy.
func TestRightsAreAskedForMoreOftenWhileTheyAreMissing(t *testing.T) {
	s := newScene()
	current := func() policy.Rights { return check.Value(s.Current(t.Context()))(t) }

	check.That(t, !current().AreMissing(), "rights are missing")
	s.denied = []string{"cardquotas", "priorityclasses"}
	s.at = s.at.Add(time.Minute - 1)
	check.That(t, !current().AreMissing(), "the operator asked again before a minute has passed")
	s.at = s.at.Add(1)
	check.Equal(t, "missing after a minute", []policy.Permission{
		{Verb: "patch", Group: "cardquota.dev", Resource: "cardquotas"},
		{Verb: "create", Group: "scheduling.k8s.io", Resource: "priorityclasses"}, {Verb: "delete", Group: "scheduling.k8s.io", Resource: "priorityclasses"},
	}, current().Missing)
	check.Equal(t, "namespace of the operator", "cards", current().Namespace)

	s.denied = nil
	s.at = s.at.Add(10*time.Second - 1)
	check.That(t, current().AreMissing(), "the operator asked again before ten seconds have passed")
	check.That(t, !check.Value(s.CurrentNow(t.Context()))(t).AreMissing(), "the operator did not ask at once")
	check.Equal(t, "looks", 3, s.looks())
}

// TestTheLastAnswerCountsWhileTheAPIServerIsSilent: while the API server does not answer, the last answer counts. Before the
// first one, nothing can be decided.
func TestTheLastAnswerCountsWhileTheAPIServerIsSilent(t *testing.T) {
	s := newScene()
	s.fault = errors.New("timeout")
	_, err := s.Current(t.Context())
	check.Refused(t, err, "create queues", "timeout")

	s.fault = nil
	s.denied = []string{"queues"}
	check.Equal(t, "missing", 3, len(check.Value(s.Current(t.Context()))(t).Missing))
	s.fault = errors.New("timeout")
	s.at = s.at.Add(time.Hour)
	check.Equal(t, "missing, as it was", 3, len(check.Value(s.Current(t.Context()))(t).Missing))
}

// TestAnAPIServerThatAllowsNoReviews: the operator may not ask. Then it counts as allowed to do everything, and refused
// writes show what is missing.
func TestAnAPIServerThatAllowsNoReviews(t *testing.T) {
	s := newScene()
	s.fault = apierrors.NewForbidden(schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}, "", errors.New("no"))
	check.Equal(t, "rights", policy.Rights{}, check.Value(s.Current(t.Context()))(t))
	_, areMissing := s.ExplainRefusal(t.Context(), forbidden("queues"))
	check.That(t, !areMissing, "missing rights explain the refusal")

	var unknown *Rights
	check.Equal(t, "rights that are not asked for", policy.Rights{}, check.Value(unknown.CurrentNow(t.Context()))(t))
}

// TestRefusalsAreExplainedByTheirResource: the rights to Queues are taken away within the minute after the operator asked.
// A refused write of a Queue makes it ask again, but at most once a second. Another error, or another resource, has
// another reason.
func TestRefusalsAreExplainedByTheirResource(t *testing.T) {
	s := newScene()
	check.Value(s.Current(t.Context()))(t)
	isExplained := func(err error) bool {
		_, areMissing := s.ExplainRefusal(t.Context(), err)
		return areMissing
	}

	s.denied = []string{"queues"}
	s.at = s.at.Add(minInterval - 1)
	check.That(t, !isExplained(forbidden("queues")), "the operator asked twice in a second")
	s.at = s.at.Add(1)
	check.That(t, !isExplained(errors.New("timeout")), "a timeout is explained")
	check.That(t, isExplained(forbidden("queues")), "the refused write of a Queue is not explained")
	check.That(t, !isExplained(forbidden("podgroups")), "the refused write of a PodGroup is explained")
	check.Equal(t, "looks", 2, s.looks())

	check.Equal(t, "next look while something waits", 10*time.Second, s.NextLook(true))
	check.Equal(t, "next look otherwise", time.Minute, s.NextLook(false))
	check.Equal(t, "next look of an operator that does not ask", 0, (*Rights)(nil).NextLook(true))
}
