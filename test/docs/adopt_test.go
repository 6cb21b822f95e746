package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// legacy is a queue from before the installation.
const legacy = "legacy"

// adoptCluster follows docs/adopt.md on a cluster in use. Running pods continue through every
// step. Nothing is denied or has to wait before the step that says so. The commands below each
// step undo it.
func (e *engineer) adoptCluster(giveBack string) {
	ran := e.startWorkloadsWithoutQuota()
	step := func(heading string, blocks int) []string {
		found := e.sectionCommands("docs/adopt.md", "## "+heading)
		e.Expect(found).To(HaveLen(blocks), heading)
		return found
	}

	e.checkWhatWouldChange(step("What would change", 1)[0])
	e.typeCommands(step("Our scheduler takes over", 1)[0])
	e.Eventually(e.enforcedCondition).Should(HavePrefix("CardBypass: 1 pod holds 1 NVIDIA-H200 "))
	e.scaleDeployments(map[string]int{"cards": 3, "plain": 2})
	e.Expect(e.tryBypass()).To(Succeed())
	e.checkStillRunning(ran)

	quota := step("A quota for each queue", 3)
	e.typeCommands(quota[0])
	e.typeCommands(quota[1])
	e.checkNextPodWaits("cards", 4, legacy)
	e.scaleDeployments(map[string]int{"plain": 3})
	e.typeCommands(quota[2])
	e.scaleDeployments(map[string]int{"cards": 4, "plain": 4})
	e.typeCommands(quota[1]) // for less than is in use now
	e.scaleDeployment("cards", 3)
	e.checkStillRunning(ran)

	unmanaged := step("No cards without a quota", 2)
	e.typeCommands(unmanaged[0])
	e.waitUntilLoaded()
	e.createDeployment("late", "default", 0, 1)
	e.checkNextPodWaits("late", 1, "default")
	e.typeCommands(unmanaged[1])
	e.Eventually(e.countRunning("late")).Should(Equal(1))
	e.typeCommands(unmanaged[0])
	e.Expect(e.tryBypass()).To(Succeed())

	past := step("No bypass of the scheduler", 2)
	e.typeCommands(past[0])
	e.Eventually(e.tryBypass).Should(MatchError(ContainSubstring(admissionpolicy.BypassPolicyName)))
	e.typeCommands(past[1])
	e.Eventually(e.tryBypass).Should(Succeed())
	e.typeCommands(past[0])
	e.checkStillRunning(ran)

	tide := step("Cards are taken back", 2)
	e.typeCommands(tide[0])
	e.Expect(e.schedulerConfig()).To(HaveKeyWithValue("volcano-scheduler.conf", ContainSubstring("cardreclaim")))
	e.typeCommands(tide[1])
	e.Eventually(e.schedulerConfig).Should(HaveKeyWithValue("volcano-scheduler.conf", Not(ContainSubstring("cardreclaim"))))
	e.checkStillRunning(ran)

	e.typeCommands(quota[2])
	e.typeCommands(giveBack)
	e.checkStillRunning(ran)
	e.typeCommands(`kubectl -n ` + team + ` delete deployment/cards deployment/plain deployment/late job.batch.volcano.sh/job pod/past --cascade=foreground`)
}

// checkWhatWouldChange asks kubectl cardquota before the handover. It finds the pod past the scheduler,
// and with the CardQuotas that it prints itself no queue without a quota.
func (e *engineer) checkWhatWouldChange(commands string) {
	e.typeCommands("make kubectl-cardquota BIN=$PWD/dist/plugin\nexport PATH=$PWD/dist/plugin:$PATH")
	found := check.Value(e.runShell(commands))(e)
	e.Expect(found).To(And(ContainSubstring("pod/"+team+"/past  Bypass\n"), Not(ContainSubstring("queue/"+legacy+"  QueueWithoutQuota"))), commands)
	e.Expect(string(check.Value(os.ReadFile(filepath.Join(e.project, "quotas.yaml")))(e))).To(ContainSubstring("name: " + legacy))
}

// scaleDeployments scales Deployments.
func (e *engineer) scaleDeployments(replicas map[string]int) {
	for name, count := range replicas {
		e.scaleDeployment(name, int32(count))
	}
	e.Eventually(e.runningCounts(slices.Collect(maps.Keys(replicas))...)).Should(Equal(replicas))
}

// checkNextPodWaits scales a Deployment by one pod, for which its queue has no quota.
func (e *engineer) checkNextPodWaits(name string, replicas int32, queue string) {
	e.scaleDeployment(name, replicas)
	e.Eventually(func() ([]corev1.Event, error) {
		events := &corev1.EventList{}
		err := e.List(e.ctx, events, client.InNamespace(team), client.MatchingFields{"reason": "InsufficientScalarQuota"})
		return events.Items, err
	}).Should(ContainElement(HaveField("Message", HavePrefix(fmt.Sprintf("Queue <%s> has insufficient <%s> quota: ", queue, card)))))
	e.Expect(e.runningPods(name)).To(HaveLen(int(replicas) - 1))
}

// enforcedCondition returns reason and message of condition Enforced of the policy, or "".
func (e *engineer) enforcedCondition() string {
	condition := meta.FindStatusCondition(e.readPolicy().Status.Conditions, v1alpha1.ConditionEnforced)
	if condition == nil {
		return ""
	}
	return condition.Reason + ": " + condition.Message
}

// waitUntilLoaded waits until the scheduler uses the written configuration.
func (e *engineer) waitUntilLoaded() {
	e.Eventually(func() bool {
		status := e.readPolicy().Status
		return status.Scheduler != nil && status.Scheduler.ConfigHash == status.ConfigHash
	}).Should(BeTrue())
}

func (e *engineer) readPolicy() *v1alpha1.ServiceTypePolicy {
	policy := &v1alpha1.ServiceTypePolicy{}
	e.Eventually(func() error { return e.Get(e.ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, policy) }).Should(Succeed())
	return policy
}

// startWorkloadsWithoutQuota lets the stock schedulers, Volcano's and Kubernetes' own, run all kinds of
// workloads. They are in a queue without a quota, with cards and without, as a Deployment and
// as a vcjob, and a pod with a card past Volcano.
func (e *engineer) startWorkloadsWithoutQuota() map[types.UID]string {
	e.Eventually(e.runningCounts(patient, trainer)).Should(Equal(map[string]int{patient: 0, trainer: 0}))
	e.Expect(e.Create(e.ctx, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: legacy}})).To(Succeed())
	e.Eventually(framework.Read(e.ctx, e, client.ObjectKey{Name: legacy}, func(queue *v1beta1.Queue) v1beta1.QueueState {
		return queue.Status.State
	})).Should(Equal(v1beta1.QueueStateOpen))

	e.createDeployment("cards", legacy, 2, 1)
	e.createDeployment("plain", legacy, 1, 0)
	job := builder.Pod(team, "").Label("app", "job").GPUs(1).With(useTestImage)
	e.Expect(e.Create(e.ctx, builder.VCJob(team, "job").Queue(legacy).Task("work", 1, job).Obj())).To(Succeed())

	// The garbage collector deletes the admission policies some time after their owner.
	e.Eventually(func() error { return e.Create(e.ctx, e.podForKubeScheduler("past")) }).Should(Succeed())
	kinds := map[string]int{"cards": 2, "plain": 1, "job": 1, "past": 1, "before": 2}
	e.Eventually(e.runningCounts(slices.Collect(maps.Keys(kinds))...)).Should(Equal(kinds))

	return e.runningPods(slices.Collect(maps.Keys(kinds))...)
}

// podForKubeScheduler returns a pod with a card for Kubernetes' scheduler.
func (e *engineer) podForKubeScheduler(name string) *corev1.Pod {
	return builder.Pod(team, name).Scheduler("").Label("app", name).GPUs(1).With(useTestImage).Obj()
}

// tryBypass tries to create another such pod, and returns why it is denied.
func (e *engineer) tryBypass() error {
	return e.Create(e.ctx, e.podForKubeScheduler("another"), client.DryRunAll)
}
