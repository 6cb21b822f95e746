package admissionpolicy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// uses are the variables that an expression uses.
func uses(expression string) []string {
	var out []string
	for _, match := range regexp.MustCompile(`variables\.(\w+)`).FindAllStringSubmatch(expression, -1) {
		out = append(out, match[1])
	}
	return out
}

// TestVariablesComeBeforeTheirUse: the API server refuses a policy that names one
// it has not read yet, or in a matchCondition.
func TestVariablesComeBeforeTheirUse(t *testing.T) {
	policies := Policies(owner, effective(nil), cards)
	check.Must(t, len(policies) == len(PolicyNames()), "%d policies, want one for each of %v", len(policies), PolicyNames())

	for i, p := range policies {
		if p.Name != PolicyNames()[i] || *p.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("policy %s with failurePolicy %s, want %s that fails closed", p.Name, *p.Spec.FailurePolicy, PolicyNames()[i])
		}

		checkVariables(t, p)
	}

	check.That(t, Policies(owner, effective(nil), nil) == nil && ChargePolicy(owner, effective(nil), nil) == nil, "policies about no card")
}

// checkVariables reports each variable of a policy that an expression uses before it is defined.
func checkVariables(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) {
	var known []string
	checkExpression := func(where, expression string) {
		for _, name := range uses(expression) {
			check.That(t, slices.Contains(known, name), "%s: %s uses %s, which is not defined there", p.Name, where, name)
		}
	}

	for _, c := range p.Spec.MatchConditions {
		checkExpression(c.Name, c.Expression)
		check.That(t, !strings.Contains(c.Expression, "authorizer"), "%s: %s asks the authorizer about every request", p.Name, c.Name)
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

func TestMaxGracePeriod(t *testing.T) {
	for seconds, want := range map[int64]string{0: "3600", 30: "30"} {
		spec := effective(func(s *v1alpha1.ServiceTypePolicySpec) { s.Admission.MaxTerminationGracePeriodSeconds = seconds })
		rule := BypassPolicy(owner, spec, cards).Spec.Validations[3].Expression
		check.That(t, strings.HasSuffix(rule, "<= "+want), "%d: new pods by %s, want a limit of %s", seconds, rule, want)
		for _, i := range []int{0, 1} { // deletions and evictions
			condition := ChargePolicy(owner, spec, cards).Spec.MatchConditions[i].Expression
			check.That(t, strings.Contains(condition, "> "+want), "%d: condition %s, want a limit of %s", seconds, condition, want)
		}

		if condition := ChargePolicy(owner, spec, cards).Spec.MatchConditions[0].Expression; !strings.Contains(condition, "> "+want+" && "+deletionGrace+" > "+podGrace) {
			t.Errorf("%d: condition %s refuses to delete a pod with its own grace period when that is longer", seconds, condition)
		}
	}
}

func TestExemptAccountsOfCharges(t *testing.T) {
	without := ChargePolicy(owner, effective(nil), cards).Spec.MatchConditions
	with := ChargePolicy(owner, effective(func(s *v1alpha1.ServiceTypePolicySpec) {
		s.Admission.ExemptServiceAccounts = []v1alpha1.ServiceAccountReference{{Namespace: "n", Name: "a"}}
	}), cards).Spec.MatchConditions
	check.Equal(t, fmt.Sprintf("%d conditions, with an exempt account", len(without)), len(without)+2, len(with))
	for i, want := range []string{`"system:serviceaccount:n:a"`, `"n/a"`} {
		got := with[len(without)+i].Expression
		check.That(t, strings.Contains(got, want), "condition %s lacks %s", got, want)
	}
}
