package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/framework"
)

const (
	adopt = "docs/adopt.md"
	// legacy is a Queue from before the installation, spare one that the engineer limits later.
	legacy = "legacy"
	spare  = "spare"
	// web is a namespace whose workloads name no queue.
	web = "web"
)

// adoption follows docs/adopt.md on a cluster on which workloads run.
type adoption struct {
	*engineer
	// kept are the pods that must continue, by UID.
	kept map[types.UID]placedPod
	took []stepTime
}

// placedPod is what of a running pod must stay.
type placedPod struct {
	name, node string
	restarts   int32
}

// stepTime is how long a step took.
type stepTime struct {
	name string
	took time.Duration
}

// newAdoption builds what the steps install, and creates the namespaces of the workloads.
func newAdoption(e *engineer) *adoption {
	a := &adoption{engineer: e, kept: map[types.UID]placedPod{}}
	e.Cleanup(a.logSteps)
	for _, namespace := range []string{team, web} {
		e.Expect(e.Create(e.ctx, builder.Namespace(namespace))).To(Succeed())
	}
	e.Expect(e.cluster.ImportImage(e.ctx, check.Value(e.cluster.BuildImage(e.ctx, workImage, "./test/cluster/cmd/pause"))(e))).To(Succeed())

	e.typeCommands(e.sectionCommands(install, "## Images")[0])
	e.pushImages()
	// The other programs of ./bin are those of the clone.
	e.typeCommands("make kubectl-cardquota BIN=$PWD/dist/plugin\nexport PATH=$PWD/dist/plugin:$PATH")
	return a
}

// blocks returns the commands of a section of docs/adopt.md.
func (a *adoption) blocks(heading string, want int) []string {
	found := a.sectionCommands(adopt, heading)
	a.Expect(found).To(HaveLen(want), heading)
	return found
}

// startWorkloadsOfVolcano lets the stock schedulers, Volcano's and Kubernetes' own, run workloads of all kinds: with cards
// and without, as a Deployment and as a vcjob, in a Queue and in none.
func (a *adoption) startWorkloadsOfVolcano() {
	a.createQueue(legacy)
	a.createDeployment("cards", legacy, 2, 1)
	a.createDeployment("plain", legacy, 1, 0)
	a.Eventually(a.runningCounts("cards", "plain")).Should(Equal(map[string]int{"cards": 2, "plain": 1}))

	pod := builder.Pod(team, "").Label("app", "job").GPUs(1).With(useTestImage)
	a.Expect(a.Create(a.ctx, builder.VCJob(team, "job").Queue(legacy).Task("work", 1, pod).Obj())).To(Succeed())
	a.Eventually(a.countRunning("job")).Should(Equal(1))
	a.startUnqueued(web, "serve", 2)
	a.keepRunningPods()
}

// startWorkloadsOfKubernetes lets Kubernetes' scheduler run Deployments with cards in two namespaces.
func (a *adoption) startWorkloadsOfKubernetes() {
	a.startUnqueued(team, "cards", 2)
	a.startUnqueued(team, "job", 1)
	a.startUnqueued(web, "serve", 2)
	a.keepRunningPods()
}

// startUnqueued lets Kubernetes' scheduler run a Deployment of pods with a card each.
func (a *adoption) startUnqueued(namespace, name string, replicas int32) {
	pod := builder.Pod(namespace, name).Scheduler("").GPUs(1).With(useTestImage)
	a.Expect(a.Create(a.ctx, builder.Deployment(namespace, name, replicas, pod))).To(Succeed())
	a.Eventually(func() int {
		running := slices.Collect(maps.Values(a.placedPods()))
		return len(slices.DeleteFunc(running, func(pod placedPod) bool { return !strings.HasPrefix(pod.name, name+"-") }))
	}).Should(BeEquivalentTo(replicas))
}

// createQueue creates a Queue with all fields that the operator may write, and waits until it is open.
func (a *adoption) createQueue(name string) {
	queue := &v1beta1.Queue{}
	queue.Name = name
	queue.Annotations = map[string]string{"example.com/owner": team}
	queue.Spec = v1beta1.QueueSpec{Weight: 3, Priority: 7, Reclaimable: ptr.To(true), Capability: builder.Resources("4", "")}
	a.Expect(a.Create(a.ctx, queue)).To(Succeed())
	a.Eventually(framework.Read(a.ctx, a, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) v1beta1.QueueState {
		return queue.Status.State
	})).Should(Equal(v1beta1.QueueStateOpen))
}

// placedPods returns the running pods of the workloads, by UID.
func (a *adoption) placedPods() map[types.UID]placedPod {
	placed := map[types.UID]placedPod{}
	for _, namespace := range []string{team, web} {
		pods := &corev1.PodList{}
		a.Eventually(func() error { return a.List(a.ctx, pods, client.InNamespace(namespace)) }).Should(Succeed())
		for i := range pods.Items {
			if pod := &pods.Items[i]; isRunning(pod) {
				placed[pod.UID] = placedPod{pod.Name, pod.Spec.NodeName, pod.Status.ContainerStatuses[0].RestartCount}
			}
		}
	}
	return placed
}

// keepRunningPods adds the pods that run now to those that must continue.
func (a *adoption) keepRunningPods() { maps.Copy(a.kept, a.placedPods()) }

// mayEnd removes the pods of a Deployment from those that must continue.
func (a *adoption) mayEnd(deployment string) {
	maps.DeleteFunc(a.kept, func(_ types.UID, pod placedPod) bool { return strings.HasPrefix(pod.name, deployment+"-") })
}

// checkContinues checks that the pods that must continue run where they ran, in the same container.
func (a *adoption) checkContinues() {
	now := a.placedPods()
	for uid, pod := range a.kept {
		a.Expect(now).To(HaveKeyWithValue(uid, pod), "pod %s ran before", pod.name)
	}
}

// describeQueues returns what each Queue has but its status, as JSON behind its name. Volcano's own annotation, which its
// controller adds at some time, is left out.
func (a *adoption) describeQueues() []string {
	queues := &v1beta1.QueueList{}
	a.Expect(a.List(a.ctx, queues)).To(Succeed())

	var described []string
	for _, queue := range queues.Items {
		delete(queue.Annotations, "volcano.sh/closed-by-parent")
		if len(queue.Annotations) == 0 {
			queue.Annotations = nil
		}
		text := check.Value(json.Marshal(map[string]any{"spec": queue.Spec, "labels": queue.Labels, "annotations": queue.Annotations, "finalizers": queue.Finalizers}))(a)
		described = append(described, queue.Name+" "+string(text))
	}
	return described
}

// describeForecasts returns the forecast of each CardQuota, by name: "<workloads that would wait> needs <workloads
// without a queue>", with "nothing" for none.
func (a *adoption) describeForecasts() (map[string]string, error) {
	quotas := &v1alpha1.CardQuotaList{}
	err := a.List(a.ctx, quotas)

	described := map[string]string{}
	for _, quota := range quotas.Items {
		found := ptr.Deref(quota.Status.Forecast, v1alpha1.CardQuotaForecast{})
		described[quota.Name] = nameForecast(found.Waiting) + " needs " + nameForecast(found.WithoutQueue)
	}
	return described, err
}

// nameForecast returns the names of workloads, the youngest first.
func nameForecast(workloads *v1alpha1.ForecastWorkloads) string {
	if workloads == nil {
		return "nothing"
	}
	var names []string
	for _, listed := range workloads.Workloads {
		names = append(names, listed.Workload.Name)
	}
	return strings.Join(names, ",")
}

// canWriteQueues asks whether the operator may write Queues: yes or no.
func (a *adoption) canWriteQueues() string {
	answer, err := a.runShell(`kubectl auth can-i patch queues.scheduling.volcano.sh --as=system:serviceaccount:` + cluster.VolcanoNamespace + `:cardquota-manager 2>/dev/null || true`)
	a.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(answer)
}

// correctQuotas replaces a text in quotas.yaml, which must have it once.
func (a *adoption) correctQuotas(old, text string) {
	file := filepath.Join(a.project, "quotas.yaml")
	quotas := string(check.Value(os.ReadFile(file))(a))
	a.Expect(strings.Count(quotas, old)).To(Equal(1), quotas)
	a.Expect(os.WriteFile(file, []byte(strings.Replace(quotas, old, text, 1)), 0o600)).To(Succeed())
}

// addQuota adds a CardQuota to quotas.yaml.
func (a *adoption) addQuota(queue string, cards int) {
	file := check.Value(os.OpenFile(filepath.Join(a.project, "quotas.yaml"), os.O_APPEND|os.O_WRONLY, 0))(a)
	_, err := fmt.Fprintf(file, `
---
apiVersion: cardquota.dev/v1alpha1
kind: CardQuota
metadata: {name: %s}
spec: {tenant: research, serviceType: training, cards: [{name: %s, quota: %d}]}
`, queue, card, cards)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(file.Close()).To(Succeed())
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

// tryBypass tries to create a pod with a card for Kubernetes' scheduler, and returns why it is denied.
func (e *engineer) tryBypass() error {
	pod := builder.Pod(team, "another").Scheduler("").GPUs(1).With(useTestImage).Obj()
	return e.Create(e.ctx, pod, client.DryRunAll)
}
