package e2e

import (
	"maps"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/cli/whatif"
	"cardquota.dev/operator/internal/testing/check"
)

// lostWork is what whatif says about the work that the scene's queues lose, and what the scheduler had
// counted before.
type lostWork struct {
	asked, answered time.Time
	// predicted are card-seconds by queue, cards what its victims use.
	predicted, cards map[string]int64
	counted          map[string]float64
}

// askLoss calls ask, and returns the lost work of its answer.
func (t *whatIfTest) askLoss(ask func() whatif.Result) (whatif.Result, lostWork) {
	l := lostWork{asked: time.Now(), predicted: map[string]int64{}, cards: map[string]int64{}, counted: map[string]float64{}}
	result := ask()

	l.answered = time.Now()
	for _, v := range result.Victims {
		if v.Workload.Namespace != t.namespace || v.Drained { // the scheduler counts what it evicts itself
			continue
		}
		l.predicted[v.Queue] += v.CardSeconds
		for _, amount := range v.Cards {
			l.cards[v.Queue] += amount.Count
		}
	}

	for queue := range l.cards {
		l.counted[queue] = t.countedLoss(queue)
	}

	return result, l
}

// countedLoss returns the card-seconds of a queue that the scheduler has counted as lost.
func (t *whatIfTest) countedLoss(queue string) float64 {
	pages := check.Value(t.metricsPages(t.ctx))(t)
	return check.Value(pages.Scheduler.ReclaimedCardSeconds(queue))(t)
}

// wantLoss expects that whatif has named the work of the pods that were evicted since, and that the
// scheduler counts the same and what they did until it evicted them. Both count whole seconds of each pod.
func (t *whatIfTest) wantLoss(l lostWork, before map[types.UID]corev1.Pod) {
	now := t.holders()
	total := int64(0)

	least := int64(0)
	most := int64(0)
	for uid, pod := range before {
		if _, stays := now[uid]; stays || len(l.cards) == 0 {
			continue
		}
		count, _ := t.usedCardOf(&pod)
		least += count * int64(l.asked.Sub(pod.Status.StartTime.Time)/time.Second)
		most += count * int64(l.answered.Sub(pod.Status.StartTime.Time)/time.Second)
	}

	for _, queue := range slices.Sorted(maps.Keys(l.cards)) {
		total += l.predicted[queue]
		until := int64(time.Since(l.asked)/time.Second) + 1
		t.Eventually(func() float64 { return t.countedLoss(queue) - l.counted[queue] }).Should(And(
			BeNumerically(">=", l.predicted[queue]), BeNumerically("<=", l.predicted[queue]+l.cards[queue]*until)), "card-seconds of queue %s, of which whatif says %d", queue, l.predicted[queue])
	}
	t.Expect(total).To(And(BeNumerically(">=", least), BeNumerically("<=", most)), "card-seconds that whatif says")
}
