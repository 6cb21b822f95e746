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
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// requestTenThousand returns the requests for CardQuotas q0 to q9999, all of which a count wakes.
func requestTenThousand(context.Context, string) []reconcile.Request {
	requests := make([]reconcile.Request, 10_000)
	for i := range requests {
		requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint("q", i)}}
	}
	return requests
}

// changeQuota returns the event of CardQuota q9999 whose quota of H200 changes, from generation 1 to 2.
func changeQuota(before, after int64) event.UpdateEvent {
	quota := func(count, generation int64) *v1alpha1.CardQuota {
		q := builder.CardQuota("q9999").Card("NVIDIA-H200", count).Obj()
		q.Generation = generation
		return q
	}
	return event.UpdateEvent{ObjectOld: quota(before, 1), ObjectNew: quota(after, 2)}
}

// TestALoweredQuotaOvertakesTenThousandStatuses: a count of the pods wakes (reconciles) CardQuotas q0 to q9999, and
// writing their statuses takes minutes. An administrator sets the quota of the last one, q9999, to 0 in an emergency:
// it is the next to be reconciled.
func TestALoweredQuotaOvertakesTenThousandStatuses(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("lowered")
	defer queue.ShutDown()

	wakeupHandler(requestTenThousand).Generic(t.Context(), event.TypedGenericEvent[wakeup]{Object: wakeup{queue: allQueues}}, queue)
	first, _ := queue.Get() // a worker takes one before the change
	check.That(t, first.Name != "q9999", "q9999 was taken before the change")
	loweredHandler.Update(t.Context(), changeQuota(8, 0), queue)

	next, priority, _ := queue.GetWithPriority()
	check.Equal(t, "next", "q9999", next.Name)
	check.Equal(t, "priority of a lowered quota", loweredPriority, priority)

	queue.Done(first)
	queue.Done(next)
	_, priority, _ = queue.GetWithPriority()
	check.That(t, priority < 0, "priority of what a count woke: %d", priority) // other changes have 0
}

// TestChangesThatTakeCardsAwayOvertake: only a change by which a queue may use fewer cards is urgent and
// overtakes other reconciles. Under the old quota more pods could start. An event with the same generation is a
// change of the status alone, so it is not urgent.
func TestChangesThatTakeCardsAwayOvertake(t *testing.T) {
	deleted := changeQuota(8, 8)
	deleted.ObjectNew.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	sameGeneration := changeQuota(8, 0)
	sameGeneration.ObjectNew.SetGeneration(1)
	removed := changeQuota(8, 8)
	removed.ObjectNew.(*v1alpha1.CardQuota).Spec.Cards = nil

	for t, tc := range check.Cases(t, map[string]struct {
		change       event.UpdateEvent
		wantOvertake bool
	}{
		"the quota falls from 8 to 7":                       {changeQuota(8, 7), true},
		"the quota falls from 8 to 0":                       {changeQuota(8, 0), true},
		"the quota rises from 7 to 8":                       {changeQuota(7, 8), false},
		"the quota stays":                                   {changeQuota(8, 8), false},
		"the CardQuota is deleted":                          {deleted, true},
		"the quota falls from 8 to 0, the generation stays": {sameGeneration, false},
		"the card is removed from the spec":                 {removed, true},
	}) {
		check.Equal(t, "overtakes", tc.wantOvertake, isLowered.Update(tc.change))
	}
}

// TestANodeWakesCardQuotasOnlyWithTheFirstOrLastCard: each status shows how many H200 all nodes have. A node that joins
// or leaves would rewrite the statuses of all 10,000 CardQuotas. So it wakes (reconciles) none, unless it has the first
// or the last H200 of all nodes.
func TestANodeWakesCardQuotasOnlyWithTheFirstOrLastCard(t *testing.T) {
	quotas := map[string]card.Quota{}
	for i := range 10_000 {
		quotas[fmt.Sprint("q", i)] = card.Quota{"NVIDIA-H200": 8}
	}

	for t, tc := range check.Cases(t, map[string]struct{ before, after, wantWoken int }{
		"a node of 8 cards joins 800":    {before: 800, after: 808, wantWoken: 0},
		"the node of the last 8 leaves":  {before: 8, after: 0, wantWoken: 10_000},
		"the first node with H200 joins": {before: 0, after: 8, wantWoken: 10_000},
	}) {
		check.Equal(t, "woken", tc.wantWoken, len(queuesWithCards(changedKeys(h200s(tc.before), h200s(tc.after), bothOrNone), nil, quotas)))
	}
}

// h200s returns a number of cards of all nodes.
func h200s(count int) map[card.Name]card.Count {
	return map[card.Name]card.Count{"NVIDIA-H200": card.Count(count)}
}

// TestANodeMoreIsShownWithTheNextChange: a status that differs from the stored one only in the cards of all nodes is
// not written. The present number is written when another number changes too, or when the last card of the nodes is
// gone.
func TestANodeMoreIsShownWithTheNextChange(t *testing.T) {
	quota := builder.CardQuota("q").Card("NVIDIA-H200", 8).Obj()
	for _, step := range []struct {
		name           string
		physical, used int
		wantWritten    bool
		wantPhysical   int64
	}{
		{name: "the first status", physical: 800, used: 0, wantWritten: true, wantPhysical: 800},
		{name: "a node of 8 cards more", physical: 808, used: 0, wantWritten: false, wantPhysical: 800},
		{name: "a used card", physical: 808, used: 1, wantWritten: true, wantPhysical: 808},
		{name: "no card of any node", physical: 0, used: 1, wantWritten: true, wantPhysical: 0},
	} {
		usage := &queueusage.Usage{Used: h200s(step.used)}
		status := cardquota.NewStatus(cardquota.StatusInput{
			Tree:  cardquota.Flat,
			Quota: quota, Usage: usage, Own: usage, Physical: h200s(step.physical), Totals: cardquota.Flat.QuotaTotals(nil, nil, nil), Now: time.Unix(0, 0),
		})

		check.Equal(t, step.name+" is written", step.wantWritten, !equality.Semantic.DeepEqual(quota.Status, status))
		check.Equal(t, step.name+": cards of all nodes", step.wantPhysical, status.Cards[0].Physical)
		quota.Status = status
	}
}

// TestAFlappingNodeRefreshesOverAllocationRarely: the healthy cards are a number in condition
// InventorySatisfied of every CardQuota of an over-allocated card. A node that flaps changes that number again
// and again, and a count wakes (reconciles) the CardQuotas. At most 20 statuses a second follow it. So with
// 1,000 CardQuotas the number may be 50 seconds old, and with few CardQuotas 10 seconds. There are 16 cards,
// and each CardQuota grants 8. The node with 8 of the 16 flaps.
func TestAFlappingNodeRefreshesOverAllocationRarely(t *testing.T) {
	for _, tc := range []struct {
		quotas int
		maxAge time.Duration
	}{{10, 10 * time.Second}, {1000, 50 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			stores, nodes := podsOfScheduler(16, "volcano") // nodes n0 and n1 of 8 cards; their pods do not matter
			for i := range tc.quotas {
				_ = stores.quotas.Add(builder.CardQuota(fmt.Sprint("quota-", i)).Card("NVIDIA-H200", 8).Obj())
			}

			collector := newCollector(nodes)
			flap := func(cards int) int {
				nodes.Update(builder.Node("n1").GPUs("NVIDIA-H200", cards).Obj())
				return len(collector.countUsage(stores))
			}

			check.Equal(t, "woken by the first count: all queues in one request", 1, flap(8))
			check.Equal(t, "woken by the first change", tc.quotas, flap(0))
			for range 5 {
				check.Equal(t, "woken by a node that flaps", 0, flap(8)+flap(0))
			}

			time.Sleep(tc.maxAge - time.Second)
			check.Equal(t, "woken before the numbers are old", 0, flap(8))
			time.Sleep(time.Second)
			check.Equal(t, "woken by old numbers", tc.quotas, flap(4)) // 12 healthy cards, which no status shows yet

			latest := slices.Max(slices.Collect(maps.Values(collector.delays)))
			check.Equal(t, "delay of the last one, at 20 a second", time.Duration(tc.quotas-1)*time.Second/20, latest)
		})
	}
}

// TestUrgentQueuesDoNotWait: at most 20 statuses a second follow a number of the nodes, one in 50 ms. Here they are
// those of a, b and c. The own use of b and d has changed, which is urgent: they are reconciled without a delay. But b
// keeps its place among the three, so c waits for 100 ms.
func TestUrgentQueuesDoNotWait(t *testing.T) {
	refreshed := []string{"a", "b", "c"}
	urgent := []string{"b", "d"}
	check.Equal(t, "delays", map[string]time.Duration{"a": 0, "c": 100 * time.Millisecond}, spreadOver(refreshed, urgent))
}

// TestOldNumbersAreCountedOnce: six counts at the same moment put off the numbers of 1, 101, … 501 CardQuotas. Each
// puts them off for as long as the writes of so many statuses take. One later count is for all of them: within the two
// minutes that the test waits there is no second one.
func TestOldNumbersAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, nodes := podsOfScheduler(16, "volcano")
		collector := newCollector(nodes)
		collector.countUsage(stores)
		for i := range 600 {
			_ = stores.quotas.Add(builder.CardQuota(fmt.Sprint("quota-", i)).Card("NVIDIA-H200", 8).Obj())
			if i%100 == 0 {
				collector.countUsage(stores)
			}
		}

		recounts := 0
		for range 120 {
			time.Sleep(time.Second)
			select {
			case <-collector.dirty:
				recounts++
			default:
			}
		}

		check.Equal(t, "counts for old numbers", 1, recounts)
	})
}
