package docs

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer"
)

// Two Deployments exceed the quotas of their queues at every handover: patient, whose queue has
// one card, and trainer, whose queue has three.
const (
	patient = "patient"
	trainer = "trainer"
)

// runBeyondQuota lets patient run beyond its quota and wait: the stock scheduler knows no
// quota and uses all cards of the node.
func (e *engineer) runBeyondQuota() {
	e.Expect(e.Create(e.ctx, builder.CardQuota(patient).Card(card, 1).Obj())).To(Succeed())
	e.typeCommands(`kubectl wait cardq patient --for=condition=Ready --timeout=1m`)
	e.createDeployment(patient, patient, 8, 1)
	e.waitUntilNodeFull()
}

// waitUntilNodeFull waits until the stock scheduler has used all free cards. They are still too few
// for all waiting pods.
func (e *engineer) waitUntilNodeFull() map[types.UID]string {
	// 8 cards - 2 of the pods that run before = 6
	e.Eventually(func() map[types.UID]string { return e.runningPods(patient, trainer) }).Should(HaveLen(6))
	return e.runningPods(patient, trainer)
}

// checkQuotas recreates all pods of both Deployments. Our scheduler places as many of each as
// the quota allows, and no more although cards are free.
func (e *engineer) checkQuotas(turns *schedulerRuns) {
	e.typeCommands(`kubectl -n ` + team + ` delete pods -l 'app in (patient, trainer)'`)
	granted := map[string]int{patient: 1, trainer: 3}
	e.Eventually(e.runningCounts(patient, trainer)).Should(Equal(granted))
	before := turns.countHeartbeats()
	e.Eventually(turns.countHeartbeats).Should(BeNumerically(">=", before+2), "several sessions later")
	e.Expect(e.runningCounts(patient, trainer)()).To(Equal(granted))
}

// observeQuotas starts an observer of both Deployments and their queues.
func (e *engineer) observeQuotas() *observer.Observer {
	watched := check.Value(observer.Start(context.WithoutCancel(e.ctx), e.cluster.Config(), observer.Options{
		StatusWithin: 20 * time.Second, ReasonWithin: 30 * time.Second, PlacedWithin: 40 * time.Second,
		Concerns: func(object string) bool {
			kind, name, _ := strings.Cut(object, "/")
			switch kind {
			case "cardquota", "queue":
				return slices.Contains([]string{patient, "llm-training"}, name)
			case "pod":
				return strings.HasPrefix(name, team+"/"+patient+"-") || strings.HasPrefix(name, team+"/"+trainer+"-")
			}
			return false
		},
	}))(e)

	e.Cleanup(watched.Stop)
	watched.Excuse(observer.Reason) // the stock scheduler does not know why
	return watched
}

// checkExceededOnlyByStock stops the observer. Only pods that the stock scheduler placed in its
// time may have exceeded a quota. Such a violation must exist: it shows that the observer would
// have seen one of ours.
func (e *engineer) checkExceededOnlyByStock(watched *observer.Observer, turns *schedulerRuns) {
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()

	e.Expect(watched.Settle(ctx)).To(Succeed())
	watched.Stop()
	stock := 0
	for _, found := range watched.Violations() {
		if found.Invariant == observer.Quota && turns.stockRanAt(found.Time) {
			stock++
			continue
		}
		check.That(e, false, "observer: %s", found)
	}
	e.Expect(stock).NotTo(BeZero(), "no quota was exceeded while the stock scheduler ran")
}

// checkEnforcingPodRuns checks that the scheduler named in the condition is a running pod.
func (e *engineer) checkEnforcingPodRuns() {
	reported := e.readPolicy().Status.Scheduler
	e.Expect(reported).NotTo(BeNil())
	pods := &corev1.PodList{}
	e.Expect(e.List(e.ctx, pods)).To(Succeed())
	e.Expect(slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return isRunning(&pod) && strings.HasPrefix(reported.Identity, pod.Name+"_")
	})).To(BeTrue(), "no pod of %s runs", reported.Identity)
}
