package e2e

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/observer"
)

// killScheduler kills the scheduler like a crash.
func (s *scene) killScheduler() {
	s.letSchedulerEnd()
	s.deployment.Scheduler.Kill()
}

// stopScheduler stops the scheduler in order.
func (s *scene) stopScheduler() {
	s.letSchedulerEnd()
	s.Expect(s.deployment.Scheduler.Stop()).To(Succeed())
	s.Expect(s.deployment.Scheduler.Wait()).To(Succeed(), "exit code 0")
}

func (s *scene) startScheduler() {
	s.Expect(s.deployment.StartScheduler(s.ctx)).To(Succeed())
	s.letSchedulerEnd = s.followProcess(s.deployment.Scheduler)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{} // what another scheduler has said is no answer of this one
}

func (s *scene) startManager() {
	s.Expect(s.deployment.StartManager(s.ctx)).To(Succeed())
	s.letManagerEnd = s.followProcess(s.deployment.Manager)
}

// countSucceeded counts the succeeded pods of a workload.
func (s *scene) countSucceeded(name string) int { return inPhase(s.podsOf(name), corev1.PodSucceeded) }

// killingTheSchedulerUnderLoadNeverExceedsAQuota: 72 short pods start and end in two queues while the scheduler is
// killed three times. The observer checks every single binding against the quota. All pods succeed in the end.
func killingTheSchedulerUnderLoadNeverExceedsAQuota(t *testing.T, st *testCluster) {
	s := newSceneOn(t, "crash", st)
	s.createQuota("crash-a", cardList(h200, 5))
	s.createQuota("crash-b", cardList(h200, 3, h800, 4))
	short := map[string]string{"test.cardquota.dev/run-for": "1s"}
	resume := s.observer.Excuse(observer.Reason)

	const pods = 24
	load := []podSet{
		{name: "a", queue: "crash-a", card: h200, count: 1, pods: pods, annotations: short},
		{name: "b", queue: "crash-b", card: h200, count: 1, pods: pods, annotations: short},
		{name: "c", queue: "crash-b", card: h800, count: 2, pods: pods, annotations: short},
	}

	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "crash-a", card: h200, count: 1, pods: 2}))
	for _, w := range load {
		s.createPods(w)
	}

	done := func() int { return s.countSucceeded("a") + s.countSucceeded("b") + s.countSucceeded("c") }
	for i := range 3 {
		s.Eventually(done, "60s").Should(BeNumerically(">=", 4+i*12), "work goes on after %d crashes", i)
		s.killScheduler()
		s.startScheduler()
	}

	resume()
	s.Eventually(done, "120s").Should(Equal(3 * pods))
	s.wantRunningAndWaiting("web", 2, 0)
}

// quotaIsEnforcedWithoutTheOperatorAndItsStatusCatchesUp: the operator is killed. The scheduler goes on with the quotas
// in the Queues: 3 of 5 pods run. A quota of 4 and a new CardQuota that were written meanwhile take effect when the
// operator is back.
func quotaIsEnforcedWithoutTheOperatorAndItsStatusCatchesUp(t *testing.T, st *testCluster) {
	s := newSceneOn(t, "alone", st)
	s.createQuota("alone", cardList(h200, 3))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "alone", card: h200, count: 1, pods: 1}))
	s.wantRunningAndWaiting("web", 1, 0)

	resume := s.observer.Excuse(observer.Status)
	s.letManagerEnd()
	s.deployment.Manager.Kill()
	s.scaleDeployment("web", 5)
	s.wantRunningAndWaiting("web", 3, 2)
	s.setQuota("alone", cardList(h200, 4))
	s.createObjects(builder.CardQuota("alone-late").Card(h800, 1).Obj())

	s.startManager()
	// The crashed operator's lease must expire first.
	s.Eventually(func() string { return s.quotaOfQueue("alone") }).Should(Equal(`{"NVIDIA-H200":4}`))
	s.waitForCondition("alone-late", api.ConditionReady, metav1.ConditionTrue)
	resume()
	s.wantRunningAndWaiting("web", 4, 1)
	s.wantUsedPendingAndOver("alone", h200, 4, 1, 0)
}

// TestAQuotaThatChangesAllTheTimeIsNeverExceeded: the quota changes between 1 and 9 while pods start and end. A stale
// number anywhere would let one pod too many start, and the observer of the test cluster would report it. In the end
// 5 of 8 pods run.
func TestAQuotaThatChangesAllTheTimeIsNeverExceeded(t *testing.T) {
	s := newScene(t, "restless")
	s.createQuota("restless", cardList(h200, 4))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "restless", card: h200, count: 1, pods: 12}))
	s.Eventually(func() int { return s.countRunning("web") }).Should(Equal(4))
	for i := range 12 {
		n := []int{1, 7, 3, 9}[i%4]
		s.setQuota("restless", cardList(h200, n))
		s.Eventually(func() string { return s.quotaOfQueue("restless") }).Should(Equal(fmt.Sprintf(`{"NVIDIA-H200":%d}`, n)))
		s.scaleDeployment("web", []int{12, 2, 10}[i%3])
		s.Eventually(func() int { return len(s.podsOf("web")) }).Should(Equal([]int{12, 2, 10}[i%3]))

		// The quota has fallen from 7 to 3, or from 9 to 1. After 12 sessions the observer surely allows no more than the
		// lower one. Then two pods are added to the 10 of the second time: one that starts would be reported.
		if i == 6 || i == 8 {
			s.Expect(s.deployment.AwaitSessions(s.ctx, 12)).To(Succeed())
			s.scaleDeployment("web", 12)
		}
	}

	s.setQuota("restless", cardList(h200, 5))
	s.scaleDeployment("web", 0)
	s.Eventually(func() int { return len(s.podsOf("web")) }).Should(BeZero())
	s.Eventually(func() int { // a late Volcano would delete the PodGroup that the new pods get
		groups := &v1beta1.PodGroupList{}
		s.listObjects(groups, client.InNamespace(s.namespace))
		return len(groups.Items)
	}).Should(BeZero())
	s.scaleDeployment("web", 8)
	s.wantRunningAndWaiting("web", 5, 3)
}
