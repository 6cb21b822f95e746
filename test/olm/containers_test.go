package olm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantEnforcedBy waits for the proof that the scheduler of a version enforces quotas.
func (a *administrator) wantEnforcedBy(v version) {
	a.mustKubectl("wait", "servicetypepolicy/default", "--for=jsonpath={.status.scheduler.version}=v"+v.number, "--timeout=1m")
	a.mustKubectl("wait", "servicetypepolicy/default", "--for=condition=Enforced", "--timeout=1m")
}

// wantContainers checks that both programs of a version run in containers of its images, ready
// and without a restart.
func (a *administrator) wantContainers(v version) {
	list := func() ([]string, error) {
		pods, err := a.cluster.Client().CoreV1().Pods(namespace).List(a.ctx, metav1.ListOptions{LabelSelector: ours})
		if err != nil {
			return nil, err
		}

		var running []string
		for _, pod := range pods.Items {
			for _, container := range pod.Status.ContainerStatuses {
				running = append(running, fmt.Sprintf("%s %s %s ready=%t restarts=%d", pod.Spec.NodeName, pod.Status.Phase,
					container.Image, container.Ready, container.RestartCount))
			}
		}

		slices.Sort(running)
		return running, nil
	}

	container := func(image string) string {
		return fmt.Sprintf("real-0 Running %s ready=true restarts=0", v.images[image])
	}

	a.Eventually(list).Should(Equal([]string{
		container("cardquota-manager"), container("cardquota-scheduler"), container("cardquota-scheduler"),
	}))
}

// ours selects the pods of both programs.
const ours = "app.kubernetes.io/name in (cardquota-manager,cardquota-scheduler)"

// wantWrongQuotaRefused applies a CardQuota that only the webhook can recognise as wrong.
func (a *administrator) wantWrongQuotaRefused() {
	a.Eventually(func() error { // a container that is ready is not in the API server's sight yet
		_, err := a.cluster.Kubectl(a.ctx, "apply", "-f", "testdata/wrong.yaml")
		return err
	}).Should(MatchError(ContainSubstring("is invalid: spec.queueName: Forbidden: queue research belongs to CardQuota research of tenant research")))
}

// workloadPods returns the pods of the workloads. It retries when the API server does not
// answer: one failed request must not end a poll.
func (a *administrator) workloadPods() (pods []corev1.Pod) {
	a.Eventually(func() error {
		list, err := a.cluster.Client().CoreV1().Pods("tenants").List(a.ctx, metav1.ListOptions{})
		if err == nil {
			pods = list.Items
		}
		return err
	}).Should(Succeed())
	return pods
}

// workloadIdentities returns the identities and states of the workloads' pods.
func (a *administrator) workloadIdentities() map[string]string {
	list := map[string]string{}
	for _, pod := range a.workloadPods() {
		restarts := int32(0)
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}
		list[pod.Name] = fmt.Sprintf("%s on %q %s, %d restarts", pod.UID, pod.Spec.NodeName, pod.Status.Phase, restarts)
	}
	return list
}

// countRunning counts the running pods by job.
func (a *administrator) countRunning() map[string]int {
	count := map[string]int{}
	for _, pod := range a.workloadPods() {
		job := pod.Labels["volcano.sh/job-name"]
		count[job] += 0
		if pod.Status.Phase == corev1.PodRunning {
			count[job]++
		}
	}
	return count
}

// wantQuotasUsed waits until every job runs as many pods as its queue's quota allows.
func (a *administrator) wantQuotasUsed() {
	a.Eventually(a.countRunning).Should(Equal(map[string]int{"train": 4, "serve": 2, "containers": 1}))
	a.Eventually(func() (string, error) { return a.quotaSummary("research") }).Should(And(
		ContainSubstring("4/4 NVIDIA-H200"), ContainSubstring("1/1 NVIDIA-L40S")))
}

// quotaSummary returns the operator's summary of a CardQuota's usage.
func (a *administrator) quotaSummary(quota string) (string, error) {
	return a.cluster.Kubectl(a.ctx, "get", "cardquota", quota, "-o", "jsonpath={.status.summary}")
}

// wantRaisedQuotaUsed raises a quota: waiting pods start by themselves, and no more than the
// quota allows.
func (a *administrator) wantRaisedQuotaUsed() {
	a.mustKubectl("patch", "cardquota", "research", "--type=json",
		`--patch=[{"op":"replace","path":"/spec/cards/0/quota","value":5}]`)
	a.Eventually(a.countRunning).Should(HaveKeyWithValue("train", 5))
}

// queueQuotas returns the card quotas of the tenants' queues.
func (a *administrator) queueQuotas() map[string]string {
	out := a.mustKubectl("get", "queues.scheduling.volcano.sh",
		`-o=jsonpath={range .items[*]}{.metadata.name}={.metadata.annotations.volcano\.sh/card\.quota}{"\n"}{end}`)
	list := map[string]string{}
	for line := range strings.Lines(out) {
		name, quota, _ := strings.Cut(strings.TrimSpace(line), "=")
		list[name] = quota
	}
	maps.DeleteFunc(list, func(name, _ string) bool { return name == "root" || name == "default" })
	return list
}
