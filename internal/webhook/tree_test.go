package webhook

import (
	"encoding/json"
	"fmt"
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

// newTreeHandlers returns handlers that know CardQuota chat and its child search, with a quota of 8 A each of which they
// deserve 4, and their queues.
func newTreeHandlers(t *testing.T, hierarchy v1alpha1.QueueHierarchy) *handlers {
	webhooks := newHandlers(t, &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: hierarchy}})
	queue := func(name, parent string) client.Object {
		return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.QueueSpec{Parent: parent}}
	}
	for _, object := range []client.Object{newTreeQuota("chat", "", 8), newTreeQuota("search", "chat", 8), queue("chat", "root"), queue("search", "chat")} {
		check.NoError(t, webhooks.cached.(client.Client).Create(t.Context(), object))
	}
	return webhooks
}

// newTreeQuota returns a CardQuota with a quota of A, of which it deserves 4.
func newTreeQuota(name, parent string, count int64) *v1alpha1.CardQuota {
	c := &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CardQuotaSpec{
		Tenant: "chat", Parent: parent, NamespaceSelector: &metav1.LabelSelector{}, Cards: []v1alpha1.Card{{Name: "A", Quota: &count, Deserved: ptr.To(int64(4))}},
	}}
	if parent != "" {
		c.Spec.ServiceType = "training"
	}
	return c
}

// TestWebhookOfCardQuotasKnowsTheTree: the webhook passes to the rules which parent and which siblings a CardQuota
// has. Parent chat and its child search have a quota of 8 A each and deserve 4. A second child, ads, has 9 A and
// deserves 4. It is refused for two reasons: chat has 8 A only, and both children together deserve 8, but chat 4. The
// user who deletes chat reads that search is its child.
func TestWebhookOfCardQuotasKnowsTheTree(t *testing.T) {
	webhooks := newTreeHandlers(t, v1alpha1.QueueHierarchyTree)
	result := check.Value(webhooks.validateCardQuota(t.Context(), newTreeQuota("ads", "chat", 9), nil))(t)
	check.Equal(t, "refusals", 2, len(result.Errors))
	check.Contains(t, "refusal", result.Errors.ToAggregate().Error(), "is 9, but parent chat has 8", "(4 here, 4 by search), but chat has 4, 4 too many")

	raw := check.Value(json.Marshal(newTreeQuota("chat", "", 8)))(t)
	answer := webhooks.warnCardQuotaDeletion(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: raw}}})
	check.That(t, answer.Allowed, "the deletion is refused: %+v", answer)
	check.Contains(t, "warnings of the deletion", fmt.Sprint(answer.Warnings), "it is the parent of search; queue chat keeps its quota")
}

// TestPodInTheQueueOfAParentIsRefusedInATreeOnly: chat is the parent of search. In a tree parents take no work. While queues
// are flat, chat is a queue like any other.
func TestPodInTheQueueOfAParentIsRefusedInATreeOnly(t *testing.T) {
	raw := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"lab","annotations":{"scheduling.volcano.sh/queue-name":"chat"}},"spec":{"schedulerName":"volcano","containers":[{"name":"main"}]}}`)

	for hierarchy, wantRefusal := range map[v1alpha1.QueueHierarchy]string{
		v1alpha1.QueueHierarchyTree: "Queue <chat> is the parent of other queues and takes no jobs",
		v1alpha1.QueueHierarchyFlat: "",
	} {
		answer := newTreeHandlers(t, hierarchy).validateWorkload(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "lab", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		}})
		check.Equal(t, string(hierarchy)+": allowed", wantRefusal == "", answer.Allowed)
		check.Contains(t, string(hierarchy)+": refusal", answer.Result.Message, wantRefusal)
		check.Equal(t, string(hierarchy)+": warnings", 0, len(answer.Warnings))
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

// TestATreeOutlivesItsPolicyInWebhooks: a policy that is deleted by mistake must not lift the limits of parents. So
// the operator keeps the tree, and the webhook asks the operator which policy is in force. There is no policy now. A
// child of 9 below a parent of 8 is accepted if there never was a tree. After a policy with a tree it is refused for
// two reasons: its quota, and that the children deserve 8 of 4. The webhook of workloads then knows that chat is a
// parent.
func TestATreeOutlivesItsPolicyInWebhooks(t *testing.T) {
	webhooks := newTreeHandlers(t, v1alpha1.QueueHierarchyFlat)
	check.NoError(t, webhooks.cached.(client.Client).Delete(t.Context(), &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}))
	tooLarge := newTreeQuota("ads", "chat", 9)
	result := check.Value(webhooks.validateCardQuota(t.Context(), tooLarge, nil))(t)
	check.Equal(t, "refusals, never a tree", nil, result.Errors)

	webhooks.inventory = policyKept{last: &v1alpha1.ServiceTypePolicy{Status: v1alpha1.ServiceTypePolicyStatus{
		QueueHierarchy: v1alpha1.QueueHierarchyTree, ServiceTypes: []v1alpha1.ServiceTypeStatus{{Name: "training"}}, // it has taken effect
	}}}
	result = check.Value(webhooks.validateCardQuota(t.Context(), tooLarge, nil))(t)
	check.Equal(t, "refusals after a tree", 2, len(result.Errors))

	input := check.Value(webhooks.workloadInput(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "lab"}}))(t)
	tree := input.Tree(input.Queue("chat"))
	check.Must(t, !tree.IsFlat(), "the webhook of workloads knows no tree")
	check.Equal(t, "children of chat", []string{"search"}, tree.Queue("chat").Children)
}
