package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// TestAnAutoscalerUsesNoMoreThanTheQuota: Kubernetes' autoscaler changes replicas without regard to quotas. The
// load needs 8 pods, maxReplicas is 6 and the quota 4: 4 run, 2 wait and say why, in events, statuses and kubectl
// cardquota why. When the load falls, waiting pods are deleted first, then those of the lowest deletion cost. Cards
// of removed replicas serve a job of 2 pods that waited for the same quota.
func TestAnAutoscalerUsesNoMoreThanTheQuota(t *testing.T) {
	s := newScene(t, "autoscaling")
	const (
		queue = "autoscaling"
		quota = 4
		most  = 6
	)

	s.createAndAwaitOpen(builder.CardQuota(queue).ServiceType("inference").Card(h200, quota).With(func(q *api.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
	}).Obj())

	s.createObjects(s.deploymentOf(podSet{name: "chat", queue: queue, card: h200, count: 1, pods: 1}))
	load := s.serveLoad()
	load.set(1)
	s.createAutoscaler("chat", most)
	s.wantRunningAndWaiting("chat", 1, 0)

	// The load asks for twice the quota, and maxReplicas allows two more than the quota.
	load.set(2 * quota)
	s.wantRunningAndWaiting("chat", quota, most-quota)
	s.wantReason("chat", insufficientMessage(queue, h200, 1, quota))
	s.wantUsedPendingAndOver(queue, h200, quota, most-quota, 0)
	s.wantBlocked(queue, "insufficient <"+h200+"> quota", "Deployment/chat")
	s.Eventually(func() string { return s.describeView(queue) }).Should(Equal("used 4/4, pending 2, Deployment/chat QuotaExhausted"))
	text, code := s.askWhy("deployment/chat")
	s.Expect(code).To(Equal(2), text) // exit code 2: some of it waits
	s.Expect(text).To(ContainSubstring("quota"))

	// Other work of the tenant waits for the same quota.
	s.createObjects(s.newVCJob(podSet{name: "nightly", queue: queue, card: h200, count: 1, pods: 2, gang: 2}))
	s.wantReason("nightly", insufficientMessage(queue, h200, 1, quota))

	// The replicas that wait are deleted first.
	stay := s.runningPods("chat")
	load.set(quota)
	s.wantRunningAndWaiting("chat", quota, 0)
	s.Expect(s.countSurvivors(stay)).To(Equal(quota))
	s.wantUsedPendingAndOver(queue, h200, quota, 2, 0) // pending: the job of 2 pods

	// Then those with the lowest deletion cost, and their cards serve the other work.
	for _, pod := range s.podsOf("chat")[:2] {
		s.setAnnotation(&pod, corev1.PodDeletionCost, "-1")
		delete(stay, pod.UID)
	}

	load.set(2)
	s.wantPods(map[string]string{"chat": runningAndWaiting(2, 0), "nightly": runningAndWaiting(2, 0)})
	s.Expect(s.countSurvivors(stay)).To(Equal(2))
	s.wantUsedPendingAndOver(queue, h200, quota, 0, 0)
	s.wantAllocated(queue)
}

// describeView returns what the LocalCardQuota of a queue says of its first card and its first blocked
// workload.
func (s *scene) describeView(queue string) string {
	status := readObject(s, &api.LocalCardQuota{ObjectMeta: s.objectMeta(queue)}).Status
	if len(status.Cards) == 0 || len(status.Blocked) == 0 {
		return fmt.Sprintf("%+v", status)
	}
	card := status.Cards[0]
	blocked := status.Blocked[0]
	return fmt.Sprintf("used %d/%d, pending %d, %s/%s %s", card.Used, card.Quota, card.Pending, blocked.Workload.Kind, blocked.Workload.Name, blocked.Reason)
}
