package admissionpolicy

import (
	"regexp"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestPoliciesDefineVariablesBeforeTheirUse: the API server refuses a policy with an expression that uses a variable
// before its definition. In a match condition no variable is known, and none calls the authorizer, which would slow
// down each request. All policies fail closed: what cannot be evaluated is refused. Without card resources there are
// no policies.
func TestPoliciesDefineVariablesBeforeTheirUse(t *testing.T) {
	policies := Policies(owner, specWith(), cards)
	check.Must(t, len(policies) == len(PolicyNames()), "%d policies, want one for each of %v", len(policies), PolicyNames())

	for i, p := range policies {
		check.Equal(t, "name", PolicyNames()[i], p.Name)
		check.Equal(t, "failurePolicy of "+p.Name, admissionv1.Fail, *p.Spec.FailurePolicy)
		checkVariables(t, p)
	}

	check.Equal(t, "policies without card resources", nil, Policies(owner, specWith(), nil))
	check.That(t, ChargePolicy(owner, specWith(), nil) == nil, "there is a charge policy although no card resource is known")
}

// checkVariables reports each variable of a policy that an expression uses before it is defined.
func checkVariables(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) {
	var known []string
	checkExpression := func(where, expression string) {
		for _, use := range regexp.MustCompile(`variables\.(\w+)`).FindAllStringSubmatch(expression, -1) {
			check.That(t, slices.Contains(known, use[1]), "%s: %s uses %s, which is not defined there", p.Name, where, use[1])
		}
	}

	for _, c := range p.Spec.MatchConditions {
		checkExpression(c.Name, c.Expression)
		// The authorizer would be asked about every request to the API server, which is slow.
		check.Text(t, p.Name+" "+c.Name, c.Expression).Lacks("authorizer")
	}

	for _, v := range p.Spec.Variables {
		checkExpression(v.Name, v.Expression)
		known = append(known, v.Name)
	}

	for _, v := range p.Spec.Validations {
		checkExpression(v.Message, v.Expression)
		checkExpression(v.Message, v.MessageExpression)
	}
}

// TestGracePeriodsOfPodsWithCardsAreBounded: a terminating pod uses cards that no queue is charged for, so a
// long grace period would be free cards. maxTerminationGracePeriodSeconds is one hour unless it is set. It
// bounds the grace period of new pods, of evictions, and of deletions that prolong the pod's own. A "$" marks
// the end of an expression.
func TestGracePeriodsOfPodsWithCardsAreBounded(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		seconds int64
		want    string
	}{
		"not set: one hour": {0, "3600"},
		"30 seconds":        {30, "30"},
	}) {
		spec := specWith(func(s *v1alpha1.ServiceTypePolicySpec) { s.Admission.MaxTerminationGracePeriodSeconds = tc.seconds })
		check.Contains(t, "rule for new pods", BypassPolicy(owner, spec, cards).Spec.Validations[3].Expression+"$", "<= "+tc.want+"$")

		conditions := ChargePolicy(owner, spec, cards).Spec.MatchConditions
		// A pod may be deleted with its own grace period, even when that is longer than the limit.
		check.Contains(t, "condition for deletions", conditions[0].Expression, "> "+tc.want+" && "+deletionGrace+" > "+podGrace)
		check.Contains(t, "condition for evictions", conditions[1].Expression, "> "+tc.want)
	}
}

// TestChargePolicyExemptsNamedAccounts: the charge policy refuses requests that move or end the charge for used cards.
// One exempt account adds two match conditions: one for its requests, one for the pods that run as it.
func TestChargePolicyExemptsNamedAccounts(t *testing.T) {
	without := ChargePolicy(owner, specWith(), cards).Spec.MatchConditions
	with := ChargePolicy(owner, specWith(exemptAccounts("a")), cards).Spec.MatchConditions

	check.Must(t, len(with) == len(without)+2, "%d conditions, without an exempt account %d", len(with), len(without))
	check.Contains(t, "condition for requests", with[len(with)-2].Expression, `"system:serviceaccount:n:a"`)
	check.Contains(t, "condition for pods", with[len(with)-1].Expression, `"n/a"`)
}
