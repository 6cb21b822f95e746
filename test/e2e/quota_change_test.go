package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// TestTwoQueuesDoNotDisturbEachOther: 20 pods request ten times the quota of queue a, which is 2, before queue b has
// work. Queue b gets all of its cards all the same. Queue a gets none of the cards that b releases.
func TestTwoQueuesDoNotDisturbEachOther(t *testing.T) {
	s := newScene(t, "neighbours")
	s.createQuota("neighbours-a", cardList(h200, 2))
	s.createQuota("neighbours-b", cardList(h200, 4, rtx4090, 1))

	// a requests ten times its quota before b comes.
	s.createObjects(s.deploymentOf(podSet{name: "greedy", queue: "neighbours-a", card: h200, count: 1, pods: 20}))
	s.wantRunningAndWaiting("greedy", 2, 18)

	s.createObjects(s.newVCJob(podSet{name: "modest", queue: "neighbours-b", card: h200, count: 2, pods: 2, gang: 2}))
	s.createObjects(s.deploymentOf(podSet{name: "small", queue: "neighbours-b", card: rtx4090, count: 1, pods: 1}))
	s.wantRunningAndWaiting("modest", 2, 0)
	s.wantRunningAndWaiting("small", 1, 0)
	s.Expect(s.countRunning("greedy")).To(Equal(2))

	// Cards that b releases do not go to a.
	s.scaleDeployment("small", 0)
	s.Expect(s.Delete(s.ctx, s.newVCJob(podSet{name: "modest"}))).To(Succeed())
	s.wantUsedPendingAndOver("neighbours-b", h200, 0, 0, 0)
	s.wantRunningAndWaiting("greedy", 2, 18)
	s.wantUsedPendingAndOver("neighbours-a", h200, 2, 18, 0)
}

// TestRaisingAQuotaReleasesWhatWaits: a queue with a quota of 1 has a Deployment of 3 pods and a gang of 4. One pod of
// the Deployment runs; the gang has no pods while it waits. When the quota is 7, all 7 pods run.
func TestRaisingAQuotaReleasesWhatWaits(t *testing.T) {
	s := newScene(t, "raising")
	s.createQuota("raising", cardList(h200, 1))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "raising", card: h200, count: 1, pods: 3}))
	s.createObjects(s.newVCJob(podSet{name: "gang", queue: "raising", card: h200, count: 1, pods: 4, gang: 4}))
	s.wantRunningAndWaiting("web", 1, 2)
	s.wantRunningAndWaiting("gang", 0, 0)

	at := time.Now()
	s.setQuota("raising", cardList(h200, 7))
	s.Eventually(func() int { return s.countRunning("web") + s.countRunning("gang") }).Should(Equal(7))
	t.Logf("7 pods run %s after the quota was raised", time.Since(at).Round(10*time.Millisecond))
}

// TestLoweringAQuotaBelowUseKillsNothingAndStartsNothing: a queue uses 4 cards when its quota falls to 2. No pod is
// evicted, and the status says that the queue is over its quota. No new pod starts until only 1 card is used.
func TestLoweringAQuotaBelowUseKillsNothingAndStartsNothing(t *testing.T) {
	s := newScene(t, "lowering")
	s.createQuota("lowering", cardList(h200, 4))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "lowering", card: h200, count: 1, pods: 4}))
	s.wantRunningAndWaiting("web", 4, 0)
	first := s.runningPods("web")

	s.setQuota("lowering", cardList(h200, 2))
	s.wantUsedPendingAndOver("lowering", h200, 4, 0, 2)
	s.Expect(s.waitForCondition("lowering", api.ConditionWithinQuota, metav1.ConditionFalse).Reason).To(Equal(api.ReasonOverQuota))
	s.waitForCondition("lowering", api.ConditionReady, metav1.ConditionTrue)
	s.createPods(podSet{name: "more", queue: "lowering", card: h200, count: 1, pods: 1})
	s.wantRunningAndWaiting("more", 0, 1)
	s.wantRunningAndWaiting("web", 4, 0)
	s.Expect(s.runningPods("web")).To(Equal(first), "nothing was replaced")

	// With 3 pods the queue is still over its quota of 2, with 2 it is full, and with 1 there is a card for "more".
	s.scaleDeployment("web", 3)
	s.wantRunningAndWaiting("web", 3, 0)
	s.wantRunningAndWaiting("more", 0, 1)
	s.scaleDeployment("web", 2)
	s.wantRunningAndWaiting("more", 0, 1)
	s.waitForCondition("lowering", api.ConditionWithinQuota, metav1.ConditionTrue)
	s.scaleDeployment("web", 1)
	s.wantRunningAndWaiting("more", 1, 0)
	s.wantUsedPendingAndOver("lowering", h200, 2, 0, 0) // one pod of web, and "more"
}
