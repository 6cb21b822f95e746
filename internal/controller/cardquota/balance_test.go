package cardquota

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quotastatus"
	"cardquota.dev/operator/internal/testing/check"
)

// crowd is a balance in which so many CardQuotas grant one card each, and the
// first of them so many more.
func crowd(quotas int, more int64, healthy card.Count) *quotastatus.Balance {
	var all []*v1alpha1.CardQuota
	for i := range quotas {
		quota := &v1alpha1.CardQuota{}
		quota.Name, quota.Spec.Cards = fmt.Sprintf("q%02d", i), []v1alpha1.Card{{Name: "H200", Quota: 1}}
		all = append(all, quota)
	}
	all[0].Spec.Cards[0].Quota += more
	return quotastatus.NewBalance(all, map[card.Name]card.Count{"H200": healthy})
}

func TestNumbersThatMoveAreToldAFewAtOnce(t *testing.T) {
	const quotas, healthy = 40, 8
	n, now := balanceNews{}, time.Unix(0, 0)
	n.heard(crowd(quotas, 0, healthy), now)
	// Every second a quota changes, for 30 seconds.
	heard, most, told := map[string]int{}, 0, 0
	step := func(balance *quotastatus.Balance) time.Duration {
		now = now.Add(time.Second)
		before := n.told
		queues, again := n.next(balance, now)
		most = max(most, len(queues))
		if n.told != before {
			told++
		}
		for _, queue := range queues {
			heard[queue]++
		}
		return again
	}
	for i := range int64(30) {
		again := step(crowd(quotas, i+1, healthy))
		check.That(t, again > 0 && again <= balancePause, "second %d: counts again after %s, and somebody has not heard", i+1, again)
	}
	check.That(t, told <= 3, "the numbers that are told changed %d times in 30 seconds, want three times", told)
	check.That(t, most <= balanceBatch, "%d queues heard at once, at most %d may", most, balanceBatch)
	for range 20 { // nothing changes any more
		step(crowd(quotas, 30, healthy))
	}
	check.Equal(t, "everybody has heard, and it counts again after", 0, step(crowd(quotas, 30, healthy)))
	for i := range quotas {
		got := heard[fmt.Sprintf("q%02d", i)]
		check.That(t, got >= 3 && got <= 5, "q%02d heard %d times in 51 seconds, want once in about ten while numbers moved", i, got)
	}
}

func TestWhatTurnsIsToldAtOnce(t *testing.T) {
	const quotas = 40
	n, now := balanceNews{}, time.Unix(0, 0)
	short, enough := crowd(quotas, 1, quotas), crowd(quotas, 0, quotas)
	n.heard(enough, now)
	for turn, is := range []*quotastatus.Balance{short, enough, short} {
		now = now.Add(time.Second)
		queues, again := n.next(is, now)
		check.That(t, len(queues) == quotas && again == 0 && n.told == is,
			"turn %d: %d queues heard, want all %d; again after %s", turn, len(queues), quotas, again)
	}
	for _, is := range []*quotastatus.Balance{crowd(quotas, 1, quotas), short} {
		queues, again := n.next(is, now)
		check.That(t, len(queues) == 0 && again == 0, "nothing moved, and %v hear, again after %s", queues, again)
	}
}

func TestWhatIsGrantedWithinTheInventoryIsNoNews(t *testing.T) {
	n, now := balanceNews{}, time.Unix(0, 0)
	n.heard(crowd(40, 0, 100), now)
	for more := range int64(50) {
		is := crowd(40, more, 100)
		queues, again := n.next(is, now)
		check.That(t, len(queues) == 0 && again == 0 && n.told == is, "%d more are granted, and %v hear, again after %s", more, queues, again)
	}
}
