package integration

import (
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/framework"
)

// refuseChanges makes the API server deny changes of one Queue while it is Closing, like
// Volcano's webhook.
func refuseChanges(t *testing.T, queue string) {
	g := framework.NewGomega(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: queue}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			ResourceNames: []string{queue},
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"scheduling.volcano.sh"}, APIVersions: []string{"*"}, Resources: []string{"queues"}},
			},
		}}},
		Validations: []admissionv1.Validation{{
			Expression: "!has(oldObject.status) || !has(oldObject.status.state) || oldObject.status.state != 'Closing'",
			Message:    "queue state must be in [Open Closed]",
		}},
	}}

	admin.CreateWithCleanup(t, policy)
	admin.CreateWithCleanup(t, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: queue}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: queue, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}})

	g.Eventually(func() error {
		q := &v1beta1.Queue{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: queue}, q); err != nil {
			return err
		}
		base := q.DeepCopy()
		q.Labels = map[string]string{"probe": "x"}
		return admin.Patch(t.Context(), q, client.MergeFrom(base), client.DryRunAll)
	}).Should(gomega.MatchError(gomega.ContainSubstring("queue state must be in")), "the refusal must be in force")
}

// TestQueueThatRefusesChangesIsWrittenAndDeletedLater: Volcano's webhook refuses changes of a queue that is
// Closing; an admission policy does so here. The operator reports it, and writes the new quota of 4 as soon as the
// queue is Closed. A deletion in that state is finished later in the same way.
func TestQueueThatRefusesChangesIsWrittenAndDeletedLater(t *testing.T) {
	g, name, quota := startQuotaTest(t)
	setState(t, name, v1beta1.QueueStateClosing)
	refuseChanges(t, name)
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(4)) })

	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.SatisfyAll(
		gomega.HavePrefix("False/QueueRefused: queue "+name+" could not be written"),
		gomega.ContainSubstring("Volcano refuses changes of a queue that is Closing"),
		gomega.ContainSubstring("queue state must be in [Open Closed]")))

	g.Expect(cardQuotaCondition(t, name, "Ready")()).To(gomega.HavePrefix("False/QueueRefused"))
	g.Eventually(admin.EventMessages(t, quota, "QueueRefused")).Should(gomega.HaveLen(1))
	g.Expect(queueAnnotation(t, name, "volcano.sh/card.quota")()).To(gomega.Equal(`{"NVIDIA-H200":8}`))

	setState(t, name, v1beta1.QueueStateClosed)
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":4}`))
	setState(t, name, v1beta1.QueueStateOpen)
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready"))

	// This is the state when the CardQuota is deleted.
	setState(t, name, v1beta1.QueueStateClosing)
	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("False/QueueRefused"))

	setState(t, name, v1beta1.QueueStateClosed)
	g.Eventually(readError(statusOf(t, name))).Should(framework.NotFound())
	g.Expect(readError(queueOf(t, name))()).To(framework.NotFound())
}
