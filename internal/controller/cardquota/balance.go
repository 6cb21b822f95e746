package cardquota

import (
	"slices"
	"time"

	"cardquota.dev/operator/internal/quotastatus"
	"cardquota.dev/operator/internal/timing"
)

var (
	// balancePause is how long the numbers of an over-allocated card may be old in
	// a condition that does not turn.
	balancePause = timing.Wait(10 * time.Second)
	// balanceAgain is when the next queues hear of such numbers.
	balanceAgain = timing.Wait(time.Second)
)

// balanceBatch is how many queues hear of such numbers with one count.
const balanceBatch = 16

// balanceNews decides which balance conditions are written by, who hears of it,
// and when. Queues of a card of which too many are granted now, or no longer, hear
// at once. With many CardQuotas of one card each change of one quota moves the
// numbers of all: those change from time to time, and a few hear at once, so that
// status writes do not hold up the Queues.
type balanceNews struct {
	// told is the balance that everybody heard of, or is about to, since toldAt.
	told   *quotastatus.Balance
	toldAt time.Time
	// behind are queues that are about to hear.
	behind []string
}

// heard notes that all queues are told of a balance.
func (n *balanceNews) heard(balance *quotastatus.Balance, now time.Time) {
	n.told, n.toldAt, n.behind = balance, now, nil
}

// atOnce takes the balance of a count after which the cards of nodes are others, and
// lists who is to hear: whoever's numbers moved, and who has not heard of the last move.
func (n *balanceNews) atOnce(balance *quotastatus.Balance, now time.Time) []string {
	queues := append(balance.News(n.told).Moved, n.behind...)
	n.heard(balance, now)
	return queues
}

// next takes the balance of a count. It lists who is to hear, and after which time
// to count again for the others, 0 when there are none.
func (n *balanceNews) next(balance *quotastatus.Balance, now time.Time) (queues []string, again time.Duration) {
	news := balance.News(n.told)
	wait := balancePause - now.Sub(n.toldAt)
	switch {
	case len(news.Moved) == 0:
		n.told = balance // says the same to everybody
	case len(news.Turned) > 0 || wait <= 0:
		for _, queue := range news.Moved {
			if !slices.Contains(news.Turned, queue) && !slices.Contains(n.behind, queue) {
				n.behind = append(n.behind, queue)
			}
		}
		n.told, n.toldAt = balance, now
	default:
		again = wait
	}
	batch := min(len(n.behind), balanceBatch)
	queues, n.behind = append(news.Turned, n.behind[:batch]...), n.behind[batch:]
	if len(n.behind) > 0 {
		again = balanceAgain
	}
	return queues, again
}
