package integration

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// bindCommand is the beginning of the command that messages name for missing rights.
const bindCommand = "kubectl create clusterrolebinding cardquota-manager-enforce "

// unbindRights takes the rights to enforce from the operator, and waits until the API server denies them.
func (e *treeEnv) unbindRights(t *testing.T) {
	e.g.Expect(e.Delete(t.Context(), builder.EnforceBinding(systemNamespace))).To(gomega.Succeed())
	e.g.Eventually(func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: operatorUser, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Group: "scheduling.volcano.sh", Resource: "queues"},
		}}
		err := e.Create(t.Context(), review)
		return review.Status.Allowed, err
	}).Should(gomega.BeFalse())
}

// typeCommandOf waits for a condition "status/reason" whose message ends with a command that begins with a text. It types
// that command, as an administrator does.
func (e *treeEnv) typeCommandOf(t *testing.T, object client.Object, kind, want, begin string) {
	message := ""
	e.g.Eventually(func() (text string, err error) {
		message, err = e.Condition(t, object, kind)()
		return message, err
	}).Should(gomega.And(gomega.HavePrefix(want+":"), gomega.ContainSubstring(begin)), "%s of %T %s", kind, object, object.GetName())

	command := message[strings.LastIndex(message, begin):]
	check.Value(e.server.Kubectl(t.Context(), strings.Fields(command)[1:]...))(t)
}

// setQuota changes the quota of the first card of a CardQuota.
func (e *treeEnv) setQuota(t *testing.T, name string, quota int64) {
	e.change(t, name, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(quota) })
}

// TestRightsAreBoundAndUnboundByTheCommandsOfConditions: the operator may only observe, and a policy wants to enforce. Nothing
// is written to the Queue of a user, no Queue is created, and the policy says why. The command of its condition lets the
// operator enforce. Back in mode Observe, when all is restored, the policy names the command that takes the rights
// away, until they are gone.
func TestRightsAreBoundAndUnboundByTheCommandsOfConditions(t *testing.T) {
	e := newVolcanoEnv(t)
	e.unbindRights(t)
	policy, old, fresh := e.createAdoption(t, v1alpha1.ModeEnforce)
	before, err := e.describeFields(t, "old")()
	e.g.Expect(err).NotTo(gomega.HaveOccurred())

	e.expectCondition(t, policy, "Ready", "False/RightsMissing")
	e.expectCondition(t, policy, "Enforced", "False/RightsMissing")
	for _, quota := range []*v1alpha1.CardQuota{old, fresh} {
		e.expectCondition(t, quota, "Ready", "True/Observing")
		e.expectCondition(t, quota, "Enforced", "False/RightsMissing")
	}
	e.expectNothingWritten(t, old, fresh)
	e.g.Expect(e.describeFields(t, "old")()).To(gomega.Equal(before))

	e.typeCommandOf(t, policy, "Ready", "False/RightsMissing", bindCommand)
	e.expectSynced(t, old, fresh)
	e.expectCondition(t, policy, "ConfigSynced", "True/Synced")
	e.g.Eventually(e.Condition(t, policy, "Ready")).ShouldNot(gomega.ContainSubstring("RightsMissing"))

	e.setMode(t, v1alpha1.ModeObserve)
	e.typeCommandOf(t, policy, "Ready", "True/Observing", "kubectl delete clusterrolebinding ")
	e.g.Expect(e.describeFields(t, "old")()).To(gomega.Equal(before))
	e.g.Expect(e.IsGone(t.Context(), builder.EnforceBinding(systemNamespace))()).To(gomega.BeTrue())
	e.g.Eventually(e.Condition(t, policy, "Ready")).Should(gomega.And(gomega.HavePrefix("True/Observing"), gomega.Not(gomega.ContainSubstring("kubectl"))))
}

// TestRightsThatAreTakenAwayEndNothing: without rights and without a policy, condition QueueSynced names the command that
// helps. The rights are taken away three times. While the operator enforces, Queues keep their quotas, and a
// changed CardQuota says that its Queue has the old one. A CardQuota that is deleted stays. On the way back to mode
// Observe, policy and CardQuotas say what prevents it. Each time everything goes on when the command is typed.
func TestRightsThatAreTakenAwayEndNothing(t *testing.T) {
	e := newVolcanoEnv(t)
	e.unbindRights(t)
	early := newQuota("early", nil)
	e.g.Expect(e.Create(t.Context(), early)).To(gomega.Succeed())
	e.typeCommandOf(t, early, "QueueSynced", "False/RightsMissing", bindCommand)
	e.expectSynced(t, early)

	policy, old, fresh := e.createAdoption(t, v1alpha1.ModeObserve)
	e.expectCondition(t, fresh, "Ready", "True/Observing")
	before, err := e.describeFields(t, "old")()
	e.g.Expect(err).NotTo(gomega.HaveOccurred())
	e.setMode(t, v1alpha1.ModeEnforce)
	e.expectSynced(t, old, fresh)

	e.unbindRights(t)
	e.g.Eventually(e.Condition(t, policy, "Ready")).Should(gomega.HavePrefix("False/RightsMissing: what was written stays enforced"))
	e.setQuota(t, "old", 6)
	e.g.Expect(e.Delete(t.Context(), fresh)).To(gomega.Succeed())
	e.expectCondition(t, old, "QueueSynced", "False/RightsMissing")
	e.expectCondition(t, fresh, "QueueSynced", "False/RightsMissing")
	e.g.Expect(e.describeFields(t, "old")()).To(gomega.ContainSubstring(`volcano.sh/card.quota:{"NVIDIA-H200":8}`))
	e.g.Expect(framework.Fetch[v1alpha1.ServiceTypePolicy](t, e, client.ObjectKeyFromObject(policy)).Status.Mode).To(gomega.Equal(v1alpha1.ModeEnforce))

	e.typeCommandOf(t, old, "QueueSynced", "False/RightsMissing", bindCommand)
	e.expectSynced(t, old)
	e.g.Expect(e.describeFields(t, "old")()).To(gomega.ContainSubstring(`volcano.sh/card.quota:{"NVIDIA-H200":6}`))
	e.g.Eventually(e.IsGone(t.Context(), fresh)).Should(gomega.BeTrue())

	e.unbindRights(t)
	e.setMode(t, v1alpha1.ModeObserve)
	e.expectCondition(t, old, "QueueSynced", "False/RightsMissing")
	e.typeCommandOf(t, policy, "Ready", "False/Restoring", bindCommand)
	e.g.Eventually(e.describeFields(t, "old")).Should(gomega.Equal(before))
	e.expectCondition(t, policy, "Ready", "True/Observing")
	e.g.Eventually(func() error { return e.Get(t.Context(), client.ObjectKey{Name: "early"}, &v1beta1.Queue{}) }).Should(framework.NotFound())
}
