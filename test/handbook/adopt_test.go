package handbook

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
)

// legacy is a queue that was there before anybody spoke of quotas.
const legacy = "legacy"

// adopts follows the section about a cluster that is in use: what runs goes on
// through every step, nothing is refused or has to wait before the step that says
// so, and what each step did is undone by what stands under it.
func (e *engineer) adopts(giveBack string) {
	e.Helper()
	ran := e.worksWithoutQuotas()
	step := func(heading string, blocks int) []string {
		found := e.commands(install, "### "+heading)
		e.Expect(found).To(HaveLen(blocks), heading)
		return found
	}

	e.types(step("Ours takes over", 1)[0])
	e.Eventually(e.enforced).Should(HavePrefix("CardBypass: 1 pod holds 1 NVIDIA-H200 "))
	e.grow(map[string]int{"cards": 3, "plain": 2})
	e.Expect(e.passesBy()).To(Succeed())
	e.goOn(ran)

	quota := step("A quota for each queue", 3)
	e.types(quota[0])
	e.types(quota[1])
	e.waits("cards", 4, legacy)
	e.grow(map[string]int{"plain": 3})
	e.types(quota[2])
	e.grow(map[string]int{"cards": 4, "plain": 4})
	e.types(quota[1]) // for less than is in use now
	e.scales("cards", 3)
	e.goOn(ran)

	unmanaged := step("No cards without a quota", 2)
	e.types(unmanaged[0])
	e.isLoaded()
	e.runs("late", "default", 0, 1)
	e.waits("late", 1, "default")
	e.types(unmanaged[1])
	e.Eventually(e.count("late")).Should(Equal(1))
	e.types(unmanaged[0])
	e.Expect(e.passesBy()).To(Succeed())

	past := step("Nobody past the scheduler", 2)
	e.types(past[0])
	e.Eventually(e.passesBy).Should(MatchError(ContainSubstring(admissionpolicy.BypassPolicyName)))
	e.types(past[1])
	e.Eventually(e.passesBy).Should(Succeed())
	e.types(past[0])
	e.goOn(ran)

	tide := step("Cards are taken back", 2)
	e.types(tide[0])
	e.Expect(e.rendered()).To(HaveKeyWithValue("volcano-scheduler.conf", ContainSubstring("cardreclaim")))
	e.types(tide[1])
	e.Eventually(e.rendered).Should(HaveKeyWithValue("volcano-scheduler.conf", Not(ContainSubstring("cardreclaim"))))
	e.goOn(ran)

	e.types(quota[2])
	e.types(giveBack)
	e.goOn(ran)
	e.types(`kubectl -n team delete deployment/cards deployment/plain deployment/late job.batch.volcano.sh/job pod/past --cascade=foreground`)
}

// grow has Deployments run so many pods.
func (e *engineer) grow(replicas map[string]int) {
	e.Helper()
	for name, count := range replicas {
		e.scales(name, int32(count))
	}
	e.Eventually(e.counts(slices.Collect(maps.Keys(replicas))...)).Should(Equal(replicas))
}

// waits has a Deployment ask for one pod more, for which its queue has no quota.
func (e *engineer) waits(name string, replicas int32, queue string) {
	e.Helper()
	e.scales(name, replicas)
	e.Eventually(func() (said []string, err error) {
		events := &corev1.EventList{}
		err = e.List(e.ctx, events, client.InNamespace(team), client.MatchingFields{"reason": "InsufficientScalarQuota"})
		for _, event := range events.Items {
			said = append(said, event.Message)
		}
		return said, err
	}).Should(ContainElement(HavePrefix(fmt.Sprintf("Queue <%s> has insufficient <%s> quota: ", queue, card))))
	e.Expect(e.running(name)).To(HaveLen(int(replicas) - 1))
}

// enforced is reason and message of condition Enforced of the policy, "" before it has one.
func (e *engineer) enforced() string {
	e.Helper()
	condition := meta.FindStatusCondition(e.policy().Status.Conditions, v1alpha1.ConditionEnforced)
	if condition == nil {
		return ""
	}
	return condition.Reason + ": " + condition.Message
}

// isLoaded waits until the scheduler works by the configuration that was written.
func (e *engineer) isLoaded() {
	e.Helper()
	e.Eventually(func() bool {
		status := e.policy().Status
		return status.Scheduler != nil && status.Scheduler.ConfigHash == status.ConfigHash
	}).Should(BeTrue())
}

func (e *engineer) policy() *v1alpha1.ServiceTypePolicy {
	e.Helper()
	policy := &v1alpha1.ServiceTypePolicy{}
	e.Eventually(func() error { return e.Get(e.ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, policy) }).Should(Succeed())
	return policy
}
