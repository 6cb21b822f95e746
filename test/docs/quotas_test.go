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
	"cardquota.dev/operator/test/observer"
)

// Two Deployments ask for more than their queues may have, at every handover:
// patient, whose queue has one card, and trainer, whose queue has three.
const (
	patient = "patient"
	trainer = "trainer"
)

// waitsBeyondItsQuota has patient run and wait, beyond its quota: the stock
// scheduler knows none, and hands out what the node has.
func (e *engineer) waitsBeyondItsQuota() {
	e.Helper()
	e.Expect(e.Create(e.ctx, builder.CardQuota(patient).Card(card, 1).Obj())).To(Succeed())
	e.typeCommands(`kubectl wait cardq patient --for=condition=Ready --timeout=1m`)
	e.createDeployment(patient, patient, 8, 1)
	e.fillsTheNode()
}

// fillsTheNode waits until the stock scheduler has handed out all cards that
// nobody else holds. They are still too few for all who wait.
func (e *engineer) fillsTheNode() map[types.UID]string {
	e.Helper()
	held := func() map[types.UID]string {
		all := e.runningPods(patient)
		for uid, name := range e.runningPods(trainer) {
			all[uid] = name
		}
		return all
	}
	e.Eventually(held).Should(HaveLen(6))
	return held()
}

// quotasHold has all pods of both made anew: by ours, each gets what its quota
// gives, and no more although cards are free.
func (e *engineer) quotasHold(turns *schedulerRuns) {
	e.Helper()
	e.typeCommands(`kubectl -n team delete pods -l 'app in (patient, trainer)'`)
	granted := map[string]int{patient: 1, trainer: 3}
	e.Eventually(e.runningCounts(patient, trainer)).Should(Equal(granted))
	told := turns.countHeartbeats()
	e.Eventually(turns.countHeartbeats).Should(BeNumerically(">=", told+2), "several sessions later")
	e.Expect(e.runningCounts(patient, trainer)()).To(Equal(granted))
}

// watchesQuotas has an observer look at both and their queues from now on.
func (e *engineer) watchesQuotas() *observer.Observer {
	e.Helper()
	watched, err := observer.Start(context.WithoutCancel(e.ctx), e.cluster.Config(), observer.Options{
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
	})
	e.Expect(err).NotTo(HaveOccurred())
	e.Cleanup(watched.Stop)
	watched.Excuse(observer.Reason) // the stock scheduler does not know why
	return watched
}

// exceededOnlyUnderStock ends the watching. No quota may have been exceeded but by
// pods that the stock scheduler placed in its turns: it knows no quota. That it
// did so shows that the observer would have seen it of ours.
func (e *engineer) exceededOnlyUnderStock(watched *observer.Observer, turns *schedulerRuns) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	e.Expect(watched.Settle(ctx)).To(Succeed())
	watched.Stop()
	stock := 0
	for _, found := range watched.Violations() {
		if found.Invariant == observer.Quota && turns.ofStock(found.Time) {
			stock++
			continue
		}
		e.Errorf("observer: %s", found)
	}
	e.Expect(stock).NotTo(BeZero(), "nobody was beyond a quota in any turn of the stock scheduler")
}

// livesWhoEnforces checks that who is said to enforce quotas is a pod that runs.
func (e *engineer) livesWhoEnforces() {
	e.Helper()
	reported := e.readPolicy().Status.Scheduler
	e.Expect(reported).NotTo(BeNil())
	pods := &corev1.PodList{}
	e.Expect(e.List(e.ctx, pods)).To(Succeed())
	e.Expect(slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return isRunning(&pod) && strings.HasPrefix(reported.Identity, pod.Name+"_")
	})).To(BeTrue(), "no pod of %s runs", reported.Identity)
}
