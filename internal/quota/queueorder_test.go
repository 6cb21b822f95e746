package quota

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestBorrowersDivideIdleCardsByWeight: queues that deserve no cards borrow idle ones in proportion to their weights.
// Here two queues with endless jobs divide 24 cards by weights 1 and 2. So they get 8 and 16 cards on average over an
// hour, within one card. Their jobs have different sizes and end at different times, both drawn from the seed.
func TestBorrowersDivideIdleCardsByWeight(t *testing.T) {
	const seconds = 3600
	for seed := range int64(4) {
		f := newLendingFleet(seed)
		var average [2]float64
		for now := range seconds {
			f.step(now)
			for i, q := range f.queues {
				average[i] += float64(f.ledger.Used(q, "X")) / seconds
			}
		}

		total := average[0] + average[1]
		check.That(t, total > 23, "seed %d: the queues used %.2f of 24 cards on average, want more than 23", seed, total)
		check.That(t, math.Abs(average[0]-total/3) <= 1,
			"seed %d: weights 1 and 2 used %.2f and %.2f cards on average, want %.2f and %.2f", seed, average[0], average[1], total/3, 2*total/3)
	}
}

// lendingFleet is 24 cards and two queues that deserve none, with weights 1 and 2.
type lendingFleet struct {
	random  *rand.Rand
	ledger  *Ledger
	queues  [2]string
	pending map[string][]card.Count
	ends    map[string]int // by job
	free    card.Count
	jobs    int
}

func newLendingFleet(seed int64) *lendingFleet {
	limits := Limits{Cards: card.Quota{"X": 24}, Deserved: Amounts{}, Guarantee: Amounts{}}
	tree := map[string]position{"light": {weight: 1}, "heavy": {weight: 2}}
	return &lendingFleet{
		random: rand.New(rand.NewSource(seed)), queues: [2]string{"light", "heavy"},
		ledger:  newTreeLedger(tree, map[string]Limits{"light": limits, "heavy": limits}, card.Quota{"X": 24}),
		pending: map[string][]card.Count{}, ends: map[string]int{}, free: 24,
	}
}

// step is one session: it ends jobs, and starts pending ones in the order of the queues.
func (f *lendingFleet) step(now int) {
	if now%10 == 9 { // as often as the scheduler observes
		f.ledger.ObserveBorrowing(10 * time.Second)
	}

	for id, end := range f.ends {
		if end == now {
			f.free += f.ledger.Charged(id).Cards[0].Count
			f.ledger.Release(id)
			delete(f.ends, id)
		}
	}

	next := map[string]int{}
	for _, q := range f.queues {
		for len(f.pending[q]) < 100 {
			f.pending[q] = append(f.pending[q], []card.Count{1, 1, 2, 2, 3, 4, 4, 8}[f.random.Intn(8)])
		}
	}

	for {
		q := f.queues[0]
		if next[q] == len(f.pending[q]) || (next[f.queues[1]] < len(f.pending[f.queues[1]]) && f.ledger.CompareShares(f.queues[1], q) < 0) {
			q = f.queues[1]
		}

		if next[q] == len(f.pending[q]) {
			return
		}

		if count := f.pending[q][next[q]]; count <= f.free {
			f.start(q, count, now)
			f.pending[q] = slices.Delete(f.pending[q], next[q], next[q]+1)
		} else {
			next[q]++
		}
	}
}

func (f *lendingFleet) start(queue string, count card.Count, now int) {
	f.jobs++
	id := fmt.Sprint(f.jobs)
	f.ledger.Charge(id, &Charge{Queue: queue, Cards: []card.Amount{{Name: "X", Count: count}}})
	f.free -= count
	f.ends[id] = now + 60 + f.random.Intn(540)
}
