package admissionpolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

var (
	owner = &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u"}}
	cards = []corev1.ResourceName{"huawei.com/Ascend910", "nvidia.com/gpu"}
)

func effective(change func(*v1alpha1.ServiceTypePolicySpec)) v1alpha1.ServiceTypePolicySpec {
	var spec v1alpha1.ServiceTypePolicySpec
	if change != nil {
		change(&spec)
	}
	return policy.Effective(spec)
}

// variable returns the expression of a variable of the policy.
func variable(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy, name string) string {
	for _, v := range p.Spec.Variables {
		if v.Name == name {
			return v.Expression
		}
	}
	check.Must(t, false, "no variable %s", name)
	return ""
}

func TestPolicyNamesTheCardsAndTheSchedulers(t *testing.T) {
	hostile := effective(func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.Names = []string{`vol"cano`, "a\\b\n", "é"} })
	p := BypassPolicy(owner, hostile, cards)
	check.Equal(t, "cards", `["huawei.com/Ascend910", "nvidia.com/gpu"]`, variable(t, p, "cards"))
	check.Equal(t, "schedulers", `["vol\"cano", "a\\b\n", "\u00e9"]`, variable(t, p, "schedulers"))
	check.Equal(t, "a pod is admitted although the policy fails", admissionv1.Fail, *p.Spec.FailurePolicy)
	got := card.SplitResources(p.Annotations[v1alpha1.AnnotationCardResources])
	check.That(t, slices.Equal(got, cards), "read back %v, want %v", got, cards)
	controls := metav1.GetControllerOf(p)
	check.That(t, controls != nil && controls.UID == "u" && !*controls.BlockOwnerDeletion, "owner %+v", controls)
	check.That(t, BypassPolicy(owner, hostile, nil) == nil, "a policy about no card")
}

// TestContainersOfPodsWithCardsAreBounded evaluates the rule as the API server does.
func TestContainersOfPodsWithCardsAreBounded(t *testing.T) {
	set := check.Value(environment.MustBaseEnvSet(version.MajorMinor(1, 34), true).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: []cel.EnvOption{cel.Variable("variables", cel.DynType)},
	}))(t)

	evaluate := func(expression string, containers int, asked ...string) any {
		ast, issues := set.StoredExpressionsEnv().Compile(expression)
		check.NoError(t, issues.Err())
		program := check.Value(set.StoredExpressionsEnv().Program(ast))(t)
		answer, _, err := program.Eval(map[string]any{"variables": map[string]any{"containers": make([]any, containers), "asked": asked, "pod": "train"}})
		check.NoError(t, err)
		return answer.Value()
	}

	rule := BypassPolicy(owner, effective(nil), cards).Spec.Validations[0]
	for _, tc := range []struct {
		containers int
		asked      []string
		want       bool
	}{{512, []string{"nvidia.com/gpu"}, true}, {513, []string{"nvidia.com/gpu"}, false}, {20_000, nil, true}} {
		check.Equal(t, fmt.Sprintf("a pod of %d containers that requests %v is admitted", tc.containers, tc.asked), any(tc.want), evaluate(rule.Expression, tc.containers, tc.asked...))
	}

	want := "pod train requests nvidia.com/gpu and has 513 containers, but a pod with cards has at most 512, init containers included: divide it into several pods"
	check.Equal(t, "message", any(want), evaluate(rule.MessageExpression, 513, "nvidia.com/gpu"))
}

func TestExemptAccounts(t *testing.T) {
	if p := BypassPolicy(owner, effective(nil), cards); len(p.Spec.MatchConditions) != 1 {
		t.Errorf("conditions %+v, want that of mirror pods alone", p.Spec.MatchConditions)
	}

	p := BypassPolicy(owner, effective(func(s *v1alpha1.ServiceTypePolicySpec) {
		s.Admission.ExemptServiceAccounts = []v1alpha1.ServiceAccountReference{{Namespace: "n", Name: "a"}, {Namespace: "n", Name: "b"}}
	}), cards)

	var all []string
	for _, c := range p.Spec.MatchConditions {
		all = append(all, c.Expression)
	}

	for _, want := range []string{`["system:serviceaccount:n:a", "system:serviceaccount:n:b"]`, `["n/a", "n/b"]`} {
		text := strings.Join(all, "\n")
		check.That(t, strings.Contains(text, want), "conditions lack %s:\n%s", want, text)
	}
}

func TestModes(t *testing.T) {
	for mode, want := range map[v1alpha1.SchedulerBypassPolicy]struct {
		action  admissionv1.ValidationAction
		verdict string
	}{
		"":                            {admissionv1.Deny, "True/Denied"},
		v1alpha1.SchedulerBypassDeny:  {admissionv1.Deny, "True/Denied"},
		v1alpha1.SchedulerBypassWarn:  {admissionv1.Warn, "False/OnlyWarned"},
		v1alpha1.SchedulerBypassAllow: {"", "False/SwitchedOff"},
	} {
		spec := effective(func(s *v1alpha1.ServiceTypePolicySpec) { s.Admission.SchedulerBypassPolicy = mode })
		checkBinding(t, mode, Binding(owner, spec, ChargePolicyName), want.action)

		v := GuardCondition(spec, cards)
		check.That(t, string(v.Status)+"/"+v.Reason == want.verdict, "%s: verdict %+v, want %s", mode, v, want.verdict)
	}

	if v := GuardCondition(effective(nil), nil); v.Reason != v1alpha1.ReasonNoCardResources || v.Status != metav1.ConditionUnknown {
		t.Errorf("without cards: %+v", v)
	}
	if v := GuardRefusedCondition(errors.New("forbidden")); v.Status != metav1.ConditionFalse || !strings.Contains(v.Message, "forbidden") {
		t.Errorf("refused: %+v", v)
	}
}

// checkBinding checks the binding of the charge policy. There is none without an action.
func checkBinding(t *testing.T, mode v1alpha1.SchedulerBypassPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding, action admissionv1.ValidationAction) {
	switch {
	case binding != nil && (binding.Name != ChargePolicyName || binding.Spec.PolicyName != binding.Name):
		check.That(t, false, "%s: binding %s of policy %s", mode, binding.Name, binding.Spec.PolicyName)
	case action == "" && binding != nil:
		check.That(t, false, "%s: binding %+v, want none", mode, binding.Spec)
	case action != "" && (binding == nil || !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{action})):
		check.That(t, false, "%s: binding %+v, want %s", mode, binding, action)
	}
}

func TestResourcesOf(t *testing.T) {
	for text, want := range map[string][]corev1.ResourceName{
		"": nil, ",": nil, "b,a": {"a", "b"}, " a , a": {"a"},
	} {
		object := &metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCardResources: text}}
		got := card.SplitResources(object.Annotations[v1alpha1.AnnotationCardResources])
		check.That(t, slices.Equal(got, want), "%q: %v, want %v", text, got, want)
	}
}

// TestOnlyLastingCardsAreRemembered: the policies guard mapped cards, and a restart forgets them
// with their mapping.
func TestOnlyLastingCardsAreRemembered(t *testing.T) {
	policies := rememberResources(Policies(owner, effective(nil), cards), cards[:1])
	for _, p := range policies {
		text, remembers := p.Annotations[v1alpha1.AnnotationCardResources]
		check.Equal(t, p.Name+" remembers", p.Name == BypassPolicyName, remembers)
		check.That(t, !remembers || text == string(cards[0]), "remembers %q", text)
		check.Contains(t, p.Name, p.Spec.Variables[0].Expression, string(cards[len(cards)-1]))
	}
}
