package cardquota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// tenThousand are the requests of a count that wakes all CardQuotas.
func tenThousand(context.Context, string) []reconcile.Request {
	requests := make([]reconcile.Request, 10_000)
	for i := range requests {
		requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint("q", i)}}
	}
	return requests
}

// changedTo returns the event of a CardQuota whose quota of a card changes.
func changedTo(before, after int64) event.UpdateEvent {
	quota := func(count, generation int64) *v1alpha1.CardQuota {
		q := builder.CardQuota("q9999").Card("NVIDIA-H200", count).Obj()
		q.Generation = generation
		return q
	}
	return event.UpdateEvent{ObjectOld: quota(before, 1), ObjectNew: quota(after, 2)}
}

// TestALoweredQuotaOvertakesTenThousandStatuses: with ten thousand CardQuotas woken by a count, an
// emergency quota of 0 is the next to be reconciled.
func TestALoweredQuotaOvertakesTenThousandStatuses(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("lowered")
	defer queue.ShutDown()

	wakeupHandler(tenThousand).Generic(t.Context(), event.TypedGenericEvent[wakeup]{Object: wakeup{queue: allQueues}}, queue)
	first, _ := queue.Get() // a worker takes one before the change
	lowered := changedTo(8, 0)
	check.Must(t, isLowered.Update(lowered), "0 of 8 cards is not less")
	loweredHandler.Update(t.Context(), lowered, queue)

	began := time.Now()
	next, priority, _ := queue.GetWithPriority()
	check.That(t, first.Name != next.Name, "it was taken before")
	check.Equal(t, "next", "q9999", next.Name)
	check.Equal(t, "priority", loweredPriority, priority)

	t.Logf("taken after %s", time.Since(began))
	queue.Done(first)
	queue.Done(next)
	_, priority, _ = queue.GetWithPriority()
	check.That(t, priority < 0, "priority of what a count woke: %d", priority)
}

// TestWhichChangesOvertake: only those that take cards away.
func TestWhichChangesOvertake(t *testing.T) {
	deleted := changedTo(8, 8)
	deleted.ObjectNew.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	status := changedTo(8, 0)
	status.ObjectNew.SetGeneration(1)
	removed := changedTo(8, 8)
	removed.ObjectNew.(*v1alpha1.CardQuota).Spec.Cards = nil

	for t, tc := range check.Cases(t, map[string]struct {
		change event.UpdateEvent
		want   bool
	}{
		"lowered":     {changedTo(8, 7), true},
		"raised":      {changedTo(7, 8), false},
		"unchanged":   {changedTo(8, 8), false},
		"deleted":     {deleted, true},
		"the status":  {status, false},
		"a card gone": {removed, true},
	}) {
		check.Equal(t, "overtakes", tc.want, isLowered.Update(tc.change))
	}
}

// TestANodeRewritesNoStatus: how many cards all nodes have is a fact of the cluster. One that joins,
// leaves or flaps wakes no CardQuota, and a status that is written anyway follows it.
func TestANodeRewritesNoStatus(t *testing.T) {
	quotas := map[string]card.Quota{}
	for i := range 10_000 {
		quotas[fmt.Sprint("q", i)] = card.Quota{"NVIDIA-H200": 8}
	}

	physical := func(count card.Count) map[card.Name]card.Count { return map[card.Name]card.Count{"NVIDIA-H200": count} }
	woken := func(before, after card.Count) int {
		return len(queuesWithCards(changedKeys(physical(before), physical(after), bothOrNone), nil, quotas))
	}
	check.Equal(t, "woken by a node more", 0, woken(800, 808))
	check.Equal(t, "woken by the last node that leaves", len(quotas), woken(8, 0))

	quota := builder.CardQuota("q0").Card("NVIDIA-H200", 8).Obj()
	next := func(count card.Count, used card.Count) bool {
		usage := &cardquota.Usage{Used: map[card.Name]card.Count{"NVIDIA-H200": used}}
		status := cardquota.NewStatus(cardquota.StatusInput{
			Quota: quota, Usage: usage, Own: usage, Physical: physical(count), Totals: cardquota.NewQuotaTotals(nil, nil, nil), Now: time.Unix(0, 0),
		})
		isWritten := !equality.Semantic.DeepEqual(quota.Status, status)
		quota.Status = status
		return isWritten
	}

	check.That(t, next(800, 0), "the first status is not written")
	check.That(t, !next(808, 0), "a node more rewrites the status")
	check.Equal(t, "physical", 800, quota.Status.Cards[0].Physical)
	check.That(t, next(808, 1), "a used card does not")
	check.Equal(t, "physical beside another change", 808, quota.Status.Cards[0].Physical)
	check.That(t, next(0, 1), "the last node that leaves does not")
	check.Equal(t, "physical without a node", 0, quota.Status.Cards[0].Physical)
}

// TestAFlappingNodeRefreshesOverAllocationRarely: the healthy cards are a number in condition
// InventorySatisfied of every CardQuota of an over-allocated card. The more CardQuotas there are, the more
// rarely a node that flaps wakes them.
func TestAFlappingNodeRefreshesOverAllocationRarely(t *testing.T) {
	for _, tc := range []struct {
		quotas int
		age    time.Duration
	}{{10, 10 * time.Second}, {1000, 50 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s, nodes := podsOfScheduler(16, "volcano")
			for i := range tc.quotas {
				_ = s.quotas.Add(builder.CardQuota(fmt.Sprint("quota-", i)).Card("NVIDIA-H200", 8).Obj())
			}

			u := newUsageCollector(nil, 0, nodes)
			flap := func(cards int) int {
				nodes.Update(builder.Node("n1").GPUs("NVIDIA-H200", cards).Obj())
				return len(u.countUsage(s))
			}

			check.Equal(t, "woken by the first count", 1, flap(8))
			check.Equal(t, "woken by the first change", tc.quotas, flap(0))
			for range 5 {
				check.Equal(t, "woken by a node that flaps", 0, flap(8)+flap(0))
			}

			time.Sleep(tc.age - time.Second)
			check.Equal(t, "woken before the numbers are old", 0, flap(8))
			time.Sleep(time.Second)
			check.Equal(t, "woken by old numbers", tc.quotas, flap(4))

			latest := slices.Max(slices.Collect(maps.Values(u.delays)))
			check.Equal(t, "the last of them is reconciled after", time.Duration(tc.quotas-1)*time.Second/20, latest)
		})
	}
}

// TestUrgentQueuesDoNotWait: a queue whose use changes as well is reconciled at once.
func TestUrgentQueuesDoNotWait(t *testing.T) {
	want := map[string]time.Duration{"a": 0, "c": 100 * time.Millisecond}
	check.Equal(t, "delays", want, spreadOver([]string{"a", "b", "c"}, []string{"b", "d"}))
}

// TestOldNumbersAreCountedOnce: counts that put off the numbers of more and more CardQuotas cause one count
// together.
func TestOldNumbersAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := podsOfScheduler(16, "volcano")
		u := newUsageCollector(nil, 0, nodes)
		u.countUsage(s)
		for i := range 600 {
			_ = s.quotas.Add(builder.CardQuota(fmt.Sprint("quota-", i)).Card("NVIDIA-H200", 8).Obj())
			if i%100 == 0 {
				u.countUsage(s)
			}
		}

		recounts := 0
		for range 120 {
			time.Sleep(time.Second)
			select {
			case <-u.dirty:
				recounts++
			default:
			}
		}

		check.Equal(t, "counts for old numbers", 1, recounts)
	})
}
