package admissionpolicy

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	// cards are the resources by which pods request cards in these tests.
	cards = []corev1.ResourceName{"huawei.com/Ascend910", "nvidia.com/gpu"}
)

// specWith returns the spec of a ServiceTypePolicy with the given changes, and defaults elsewhere.
func specWith(changes ...func(*v1alpha1.ServiceTypePolicySpec)) v1alpha1.ServiceTypePolicySpec {
	var spec v1alpha1.ServiceTypePolicySpec
	for _, change := range changes {
		change(&spec)
	}
	return policy.Effective(spec)
}

// exemptAccounts exempts service accounts of namespace "n" from the admission policies.
func exemptAccounts(names ...string) func(*v1alpha1.ServiceTypePolicySpec) {
	return func(s *v1alpha1.ServiceTypePolicySpec) {
		for _, name := range names {
			s.Admission.ExemptServiceAccounts = append(s.Admission.ExemptServiceAccounts, v1alpha1.ServiceAccountReference{Namespace: "n", Name: name})
		}
	}
}

// TestBypassPolicyQuotesCardsAndSchedulers: the bypass policy is a ValidatingAdmissionPolicy that refuses pods
// with cards under a scheduler that is not in the ServiceTypePolicy. Its CEL expressions contain the names of
// cards and schedulers. A hostile name with quotes, a backslash, a newline or a letter beyond ASCII must stay a
// string there.
func TestBypassPolicyQuotesCardsAndSchedulers(t *testing.T) {
	hostile := specWith(func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.Names = []string{`vol"cano`, "a\\b\n", "é"} })
	expressions := map[string]string{}
	for _, variable := range BypassPolicy(owner, hostile, cards).Spec.Variables {
		expressions[variable.Name] = variable.Expression
	}

	check.Equal(t, "variable cards", `["huawei.com/Ascend910", "nvidia.com/gpu"]`, expressions["cards"])
	check.Equal(t, "variable schedulers", `["vol\"cano", "a\\b\n", "\u00e9"]`, expressions["schedulers"])
}

// TestBypassPolicyFailsClosed: a pod that the API server cannot evaluate is refused, since it may take cards uncharged.
// The policy belongs to the ServiceTypePolicy, without blocking its deletion, and its annotation remembers the card
// resources for the next start of the operator. Without card resources there is no policy.
func TestBypassPolicyFailsClosed(t *testing.T) {
	p := BypassPolicy(owner, specWith(), cards)

	check.Equal(t, "failurePolicy", admissionv1.Fail, *p.Spec.FailurePolicy)
	check.Equal(t, "remembered resources", cards, card.SplitResources(p.Annotations[v1alpha1.AnnotationCardResources]))

	controller := metav1.GetControllerOf(p)
	check.Must(t, controller != nil, "the policy has no owner")
	check.Equal(t, "UID of the owner", owner.UID, controller.UID)
	check.Equal(t, "the policy blocks the deletion of its owner", false, *controller.BlockOwnerDeletion)

	check.That(t, BypassPolicy(owner, specWith(), nil) == nil, "there is a policy although no card resource is known")
}

// TestPodsWithCardsHaveAtMost512Containers: Kubernetes has no such limit, and schedulers keep whole pods in memory.
// Pods without cards may have more, since the policy is only about cards. The test compiles and evaluates the CEL
// expressions of the policy as the API server does. Its variable "requested" has the card resources that the pod requests.
func TestPodsWithCardsHaveAtMost512Containers(t *testing.T) {
	set := check.Value(environment.MustBaseEnvSet(version.MajorMinor(1, 34), true).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: []cel.EnvOption{cel.Variable("variables", cel.DynType)},
	}))(t)

	// evaluate returns the value of an expression for pod "train" with so many containers that requests resources.
	evaluate := func(expression string, containers int, resources ...string) any {
		ast, issues := set.StoredExpressionsEnv().Compile(expression)
		check.NoError(t, issues.Err())
		program := check.Value(set.StoredExpressionsEnv().Program(ast))(t)
		value, _, err := program.Eval(map[string]any{"variables": map[string]any{"containers": make([]any, containers), "requested": resources, "pod": "train"}})
		check.NoError(t, err)
		return value.Value()
	}

	rule := BypassPolicy(owner, specWith(), cards).Spec.Validations[0]
	check.Equal(t, "512 containers with cards are allowed", any(true), evaluate(rule.Expression, 512, "nvidia.com/gpu"))
	check.Equal(t, "513 containers with cards are allowed", any(false), evaluate(rule.Expression, 513, "nvidia.com/gpu"))
	check.Equal(t, "20,000 containers without cards are allowed", any(true), evaluate(rule.Expression, 20_000))

	want := "pod train requests nvidia.com/gpu and has 513 containers, but a pod with cards has at most 512, init containers included: divide it into several pods"
	check.Equal(t, "message", any(want), evaluate(rule.MessageExpression, 513, "nvidia.com/gpu"))
}

// TestBypassPolicyExemptsMirrorPodsAndNamedAccounts: match conditions say to which requests the policy does not
// apply. Mirror pods, which kubelets create, are always exempt. An administrator exempts service accounts, both as
// the user of the request and as the account of the pod.
func TestBypassPolicyExemptsMirrorPodsAndNamedAccounts(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		exempt []string
		want   []string
	}{
		"no exempt account: the condition for mirror pods alone": {nil, []string{isNotMirrorPod}},
		"accounts a and b of namespace n": {[]string{"a", "b"}, []string{
			isNotMirrorPod,
			`!(request.userInfo.username in ["system:serviceaccount:n:a", "system:serviceaccount:n:b"])`,
			`!(has(object.spec.serviceAccountName) && (request.namespace + '/' + object.spec.serviceAccountName) in ["n/a", "n/b"])`,
		}},
	}) {
		var expressions []string
		for _, condition := range BypassPolicy(owner, specWith(exemptAccounts(tc.exempt...)), cards).Spec.MatchConditions {
			expressions = append(expressions, condition.Expression)
		}

		check.Equal(t, "match conditions", tc.want, expressions)
	}
}

// TestSchedulerBypassPolicyDecidesActionAndCondition: spec.admission.schedulerBypassPolicy is Deny, Warn or Allow.
// The binding carries the action to the API server, and condition BypassGuarded says whether pods can bypass the
// scheduler. With Allow there is no binding, so the policies have no effect.
func TestSchedulerBypassPolicyDecidesActionAndCondition(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		mode          v1alpha1.SchedulerBypassPolicy
		wantActions   []admissionv1.ValidationAction
		wantCondition string
	}{
		"not set, which means Deny":  {"", []admissionv1.ValidationAction{admissionv1.Deny}, "True/Denied"},
		"Deny":                       {v1alpha1.SchedulerBypassDeny, []admissionv1.ValidationAction{admissionv1.Deny}, "True/Denied"},
		"Warn":                       {v1alpha1.SchedulerBypassWarn, []admissionv1.ValidationAction{admissionv1.Warn}, "False/OnlyWarned"},
		"Allow: there is no binding": {v1alpha1.SchedulerBypassAllow, nil, "False/SwitchedOff"},
	}) {
		spec := specWith(func(s *v1alpha1.ServiceTypePolicySpec) { s.Admission.SchedulerBypassPolicy = tc.mode })
		condition := GuardCondition(spec, cards)
		check.Equal(t, "condition", tc.wantCondition, string(condition.Status)+"/"+condition.Reason)

		binding := Binding(owner, spec, ChargePolicyName)
		if tc.wantActions == nil {
			check.That(t, binding == nil, "there is a binding: %+v", binding)
			continue
		}
		check.Must(t, binding != nil, "there is no binding")
		check.Equal(t, "actions", tc.wantActions, binding.Spec.ValidationActions)
		check.Equal(t, "name of the binding", ChargePolicyName, binding.Name)
		check.Equal(t, "policy of the binding", ChargePolicyName, binding.Spec.PolicyName)
	}
}

// TestBypassGuardedNamesMissingCardsAndRefusedWrites: before a node offers a card there is nothing to guard, so the
// condition is Unknown. When the API server refuses the policies, it is False and quotes the error.
func TestBypassGuardedNamesMissingCardsAndRefusedWrites(t *testing.T) {
	unknown := GuardCondition(specWith(), nil)
	check.Equal(t, "condition without card resources", "Unknown/NoCardResources", string(unknown.Status)+"/"+unknown.Reason)

	refused := GuardRefusedCondition(errors.New("forbidden"))
	check.Equal(t, "status after a refused write", metav1.ConditionFalse, refused.Status)
	check.Contains(t, "message", refused.Message, "forbidden")
}

// TestRememberedResourcesAreReadSortedAndOnce: the annotation on the bypass policy lists the card resources, and a user
// may have edited it. The names are sorted. Blanks, empty names and repetitions are dropped.
func TestRememberedResourcesAreReadSortedAndOnce(t *testing.T) {
	for text, want := range map[string][]corev1.ResourceName{
		"": nil, ",": nil, "b,a": {"a", "b"}, " a , a": {"a"},
	} {
		check.Equal(t, fmt.Sprintf("resources in %q", text), want, card.SplitResources(text), cmpopts.EquateEmpty())
	}
}

// TestMappedResourcesAreGuardedButNotRemembered: a resource that only a mapping of the administrator makes a card stops
// being one with the mapping. Here that is nvidia.com/gpu, and huawei.com/Ascend910 is a card without a mapping. Each
// policy guards nvidia.com/gpu. But the annotation of the bypass policy, which a restarted operator reads, lists only
// huawei.com/Ascend910. Other policies have no such annotation.
func TestMappedResourcesAreGuardedButNotRemembered(t *testing.T) {
	const mapped = "nvidia.com/gpu"
	lasting := []corev1.ResourceName{"huawei.com/Ascend910"}

	remembered := map[string]string{}
	for _, p := range rememberResources(Policies(owner, specWith(), cards), lasting) {
		if text, remembers := p.Annotations[v1alpha1.AnnotationCardResources]; remembers {
			remembered[p.Name] = text
		}
		check.Contains(t, "cards of "+p.Name, p.Spec.Variables[0].Expression, mapped)
	}

	check.Equal(t, "remembered resources by policy", map[string]string{BypassPolicyName: "huawei.com/Ascend910"}, remembered)
}
