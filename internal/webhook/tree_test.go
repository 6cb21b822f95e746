package webhook

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// treeHandlers know a parent CardQuota with one child, and their queues.
func treeHandlers(t *testing.T, hierarchy v1alpha1.QueueHierarchy) *handlers {
	h := handlersOf(t, &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: hierarchy}})
	queue := func(name, parent string) client.Object {
		return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.QueueSpec{Parent: parent}}
	}
	for _, object := range []client.Object{treeQuota("chat", "", 8), treeQuota("search", "chat", 8), queue("chat", "root"), queue("search", "chat")} {
		check.NoError(t, h.cached.(client.Client).Create(t.Context(), object))
	}
	return h
}

func treeQuota(name, parent string, count int64) *v1alpha1.CardQuota {
	c := &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CardQuotaSpec{
		Tenant: "chat", Parent: parent, NamespaceSelector: &metav1.LabelSelector{}, Cards: []v1alpha1.Card{{Name: "A", Quota: &count, Deserved: ptr.To(int64(4))}},
	}}
	if parent != "" {
		c.Spec.ServiceType = "training"
	}
	return c
}

// TestAWebhookKnowsTheTree: the handlers hand the rules what they need to know of a tree.
func TestAWebhookKnowsTheTree(t *testing.T) {
	h := treeHandlers(t, v1alpha1.QueueHierarchyTree)
	result, err := h.validateCardQuota(t.Context(), treeQuota("ads", "chat", 9), nil)
	check.Must(t, err == nil && len(result.Errors) == 2, "%v, %v", err, result.Errors)
	check.Contains(t, "refusal", result.Errors.ToAggregate().Error(), "is 9, but parent chat has 8", "(4 here, 4 by search), but chat has 4, 4 too many")

	raw := check.Value(json.Marshal(treeQuota("chat", "", 8)))(t)
	answer := h.warnCardQuotaDeletion(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: raw}}})
	check.Must(t, answer.Allowed && len(answer.Warnings) == 1, "%+v", answer)
	check.Contains(t, "warning", answer.Warnings[0], "it is the parent of search; queue chat keeps its quota")
}

// TestPodsOfATree: a pod in the queue of a parent is refused in a tree only.
func TestPodsOfATree(t *testing.T) {
	raw := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"lab","annotations":{"scheduling.volcano.sh/queue-name":"chat"}},"spec":{"schedulerName":"volcano","containers":[{"name":"main"}]}}`)
	for hierarchy, allowed := range map[v1alpha1.QueueHierarchy]bool{v1alpha1.QueueHierarchyTree: false, v1alpha1.QueueHierarchyFlat: true} {
		answer := treeHandlers(t, hierarchy).validateWorkload(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "lab", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		}})
		check.Must(t, answer.Allowed == allowed && len(answer.Warnings) == 0, "%s: %+v", hierarchy, answer)
		if !allowed {
			check.Contains(t, "refusal", answer.Result.Message, "Queue <chat> is the parent of other queues and takes no jobs")
		}
	}
}

// policyKept is an inventory that remembers a policy in force.
type policyKept struct {
	noCards
	last *v1alpha1.ServiceTypePolicy
}

func (k policyKept) PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	return policy.InForce(read, k.last)
}

// TestATreeOutlivesItsPolicyInWebhooks: the operator keeps the tree while the policy is deleted.
func TestATreeOutlivesItsPolicyInWebhooks(t *testing.T) {
	h := treeHandlers(t, v1alpha1.QueueHierarchyFlat)
	check.NoError(t, h.cached.(client.Client).Delete(t.Context(), &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}))
	wide := treeQuota("ads", "chat", 9)
	result, err := h.validateCardQuota(t.Context(), wide, nil)
	check.Must(t, err == nil && len(result.Errors) == 0, "never a tree: %v, %v", err, result.Errors)

	h.inventory = policyKept{last: &v1alpha1.ServiceTypePolicy{Status: v1alpha1.ServiceTypePolicyStatus{
		QueueHierarchy: v1alpha1.QueueHierarchyTree, ServiceTypes: []v1alpha1.ServiceTypeStatus{{Name: "training"}},
	}}}
	result, err = h.validateCardQuota(t.Context(), wide, nil)
	check.Must(t, err == nil && len(result.Errors) == 2, "after a tree: %v, %v", err, result.Errors)

	input, err := h.workloadInput(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "lab"}})
	check.Must(t, err == nil && input.HasChildren != nil && input.HasChildren("chat"), "%v: a parent is not known", err)
}
