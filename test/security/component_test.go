package security

import (
	"context"
	"encoding/base64"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// guardName is the policy of config/rbac/webhookguard.
const guardName = "cardquota-webhooks.cardquota.dev"

// applyForTest applies a file for the duration of a test.
func applyForTest(t *testing.T, file string) {
	check.NoError(t, suite.cluster.ApplyFile(t.Context(), file))
	t.Cleanup(func() {
		check.Value(suite.cluster.Kubectl(context.WithoutCancel(t.Context()), "delete", "-f", file))(t)
	})
}

// TestTheOperatorChangesOnlyItsAuthority: an attacker with a token of the operator could redirect webhooks to read
// Secrets. With the component webhookguard the operator's account may write the CA of its webhooks, which it needs,
// and nothing else of them. An administrator may write all. The API server finds no wrong types in the policy's rules.
func TestTheOperatorChangesOnlyItsAuthority(t *testing.T) {
	applyForTest(t, "../../config/rbac/webhookguard/policy.yaml")
	g := newGomega(t)
	operator := check.Value(client.New(newCaller(t, system, manager).config, client.Options{Scheme: suite.admin.Scheme()}))(t)

	change := func(as client.Client, object client.Object, patch string) error {
		kind := types.JSONPatchType
		if patch[0] == '{' {
			kind = types.MergePatchType
		}
		copied, ok := object.DeepCopyObject().(client.Object)
		check.Must(t, ok, "%T is no object", object)
		return as.Patch(t.Context(), copied, client.RawPatch(kind, []byte(patch)), client.DryRunAll)
	}
	const secrets = `[{"op":"add","path":"/webhooks/0/rules/-","value":{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["secrets"],"scope":"*"}}]`

	// Any CA will do for a dry run.
	other := base64.StdEncoding.EncodeToString(suite.cluster.Config().CAData)
	refused := MatchError(And(ContainSubstring(guardName), ContainSubstring("may change nothing but clientConfig.caBundle")))
	for t, object := range check.Cases(t, map[string]client.Object{
		"validating": &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cardquota"}},
		"mutating":   &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cardquota"}},
	}) {
		g := newGomega(t)
		g.Eventually(func() error { return change(operator, object, secrets) }).Should(refused, "until the API server knows the policy")
		for what, patch := range map[string]string{ // what the first webhook becomes, or the list of webhooks
			"to another server":                    `[{"op":"remove","path":"/webhooks/0/clientConfig/service"},{"op":"add","path":"/webhooks/0/clientConfig/url","value":"https://example.com/"}]`,
			"to another Service":                   `[{"op":"replace","path":"/webhooks/0/clientConfig/service/namespace","value":"tenant"}]`,
			"for other resources":                  `[{"op":"replace","path":"/webhooks/0/rules/0/resources/0","value":"*"}]`,
			"one webhook more":                     `[{"op":"copy","from":"/webhooks/0","path":"/webhooks/-"},{"op":"replace","path":"/webhooks/0/name","value":"more.cardquota.dev"}]`,
			"no webhook":                           `[{"op":"replace","path":"/webhooks","value":[]}]`,
			"with a timeout of 30 seconds":         `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}]`,
			"for namespaces with a label":          `[{"op":"add","path":"/webhooks/0/namespaceSelector","value":{"matchLabels":{"a":"b"}}}]`,
			"under a condition that is never true": `[{"op":"add","path":"/webhooks/0/matchConditions","value":[{"name":"never","expression":"false"}]}]`,
			"with an owner that does not exist":    `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"gone"}]}}`,
		} {
			g.Expect(change(operator, object, patch)).To(refused, what)
		}

		authority := `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"` + other + `"}]`
		g.Expect(change(operator, object, authority)).To(Succeed(), "the operator changes the CA, as it must")
		g.Expect(change(suite.admin, object, secrets)).To(Succeed(), "an administrator changes what they want")
	}

	suite.admin.ExpectTyped(t, guardName)

	// The real operator writes its CA under the policy, too.
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	authority := func() ([]byte, error) {
		err := suite.admin.Get(t.Context(), client.ObjectKey{Name: "cardquota"}, configuration)
		return configuration.Webhooks[0].ClientConfig.CABundle, err
	}

	before := check.Value(authority())(t)
	g.Expect(before).NotTo(BeEmpty())

	lost := configuration.DeepCopy()
	lost.Webhooks[0].ClientConfig.CABundle = nil
	g.Expect(suite.admin.Patch(t.Context(), lost, client.MergeFrom(configuration))).To(Succeed())
	g.Eventually(authority).Should(Equal(before))
}

// TestTheOperatorWritesOnlyFinalizersOfCardQuotas: an attacker with a token of the operator could raise quotas.
// With the component webhookguard the operator's account may write only finalizers of CardQuotas, and delete only
// PriorityClasses that it created for the policy.
func TestTheOperatorWritesOnlyFinalizersOfCardQuotas(t *testing.T) {
	applyForTest(t, "../../config/rbac/webhookguard/policy.yaml")
	g := newGomega(t)
	operator := check.Value(client.New(newCaller(t, system, manager).config, client.Options{Scheme: suite.admin.Scheme()}))(t)

	quota := newCardQuota("pinned", nil)
	createReadyQuota(t, quota)
	patch := func(as client.Client, text string) error {
		return as.Patch(t.Context(), quota.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}

	refused := MatchError(And(ContainSubstring("cardquota-finalizers.cardquota.dev"), ContainSubstring("may change nothing but the finalizers")))
	const otherTenant = `{"spec":{"tenant":"another"}}`
	g.Eventually(func() error { return patch(operator, otherTenant) }).Should(refused, "until the API server knows the policy")
	g.Expect(patch(operator, `{"metadata":{"labels":{"a":"b"}}}`)).To(refused)
	g.Expect(patch(operator, `{"metadata":{"annotations":{"a":"b"}}}`)).To(refused)
	g.Expect(patch(operator, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"gone"}]}}`)).To(refused)
	g.Expect(patch(operator, `{"metadata":{"finalizers":["example.com/another"]}}`)).To(Succeed(), "the operator changes finalizers, as it must")
	g.Expect(patch(suite.admin, otherTenant)).To(Succeed(), "an administrator changes what they want")

	others := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Value: 7}
	createForTest(t, others)
	own := others.DeepCopy()
	own.ObjectMeta = metav1.ObjectMeta{Name: "made-for-the-policy", Annotations: map[string]string{v1alpha1.AnnotationCreatedBy: v1alpha1.PolicyName}}
	createForTest(t, own)

	erase := func(as client.Client, class *schedulingv1.PriorityClass) error {
		return as.Delete(t.Context(), class.DeepCopy(), client.DryRunAll)
	}
	g.Eventually(func() error { return erase(operator, others) }).Should(MatchError(ContainSubstring("may delete only PriorityClasses of the ServiceTypePolicy")))
	g.Expect(erase(operator, own)).To(Succeed())
	g.Expect(erase(suite.admin, others)).To(Succeed())

	// The real operator adds its finalizer under the policy, and removes it.
	deleteObject(t, quota)
	g.Eventually(func() error {
		return suite.admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota.DeepCopy())
	}).Should(MatchError(ContainSubstring("not found")))
}

// TestSharedDevicesNeedAComponent: Volcano's plugin deviceshare updates and patches nodes, patches pods, and reads a
// ConfigMap of kube-system. Our scheduler needs that for nothing else, so its shipped role allows none of it. The
// component deviceshare adds these rights, but neither nodes/status, nor the deletion of nodes, nor another ConfigMap. A
// right is written as verbs, resources and namespace/name.
func TestSharedDevicesNeedAComponent(t *testing.T) {
	caller := newCaller(t, system, scheduler)
	shared := parsePermissions("update,patch nodes /any\npatch pods tenant/any\nget configmaps kube-system/volcano-vgpu-device-config")
	caller.expectDenied(t, shared)
	applyForTest(t, "../../config/rbac/deviceshare/role.yaml")
	caller.expectAllowed(t, shared)
	caller.expectDenied(t, parsePermissions("patch nodes/status /any\ndelete nodes /any\nget configmaps kube-system/another"))
}
