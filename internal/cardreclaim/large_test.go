package cardreclaim

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// leastInParts is what one-card pods cost at least: gangs of one-card pods, of
// which parts could be taken, those first that lose least for each card.
func leastInParts(p *Problem) float64 {
	type offer struct{ loss, cards float64 }
	var offers []offer
	for _, job := range p.Jobs {
		o := offer{cards: float64(len(job.Pods))}
		for _, pod := range job.Pods {
			o.loss += float64(pod.Loss)
		}
		offers = append(offers, o)
	}
	slices.SortFunc(offers, func(a, b offer) int {
		if a.loss*b.cards < b.loss*a.cards {
			return -1
		}
		return 1
	})
	need, least := float64(p.Claims[0].Count), 0.0
	for _, o := range offers {
		part := min(1, need/o.cards)
		least += part * o.loss
		need -= part * o.cards
	}
	return least
}

// Measured: 1.000 for gangs of 8, and at most 1.08 for gangs of 1 to 16.
func TestManyGangsLoseLittleMoreThanPartsOfThemWould(t *testing.T) {
	for _, f := range []fleet{
		{nodes: 500, gangs: 500, size: 8},
		{nodes: 500, gangs: 500, size: 8, spread: true},
		{nodes: 500, gangs: 450, size: 8, mixed: true},
	} {
		for _, waiting := range []int{48, 104, 400, 512} {
			t.Run(fmt.Sprintf("%+v %d", f, waiting), func(t *testing.T) {
				p := f.problem(waiting, 1)
				plan, ok := Choose(p)
				if !ok {
					t.Fatal("there is a plan")
				}
				if why := broken(p, plan); why != "" {
					t.Fatal(why)
				}
				if r := float64(plan.Loss.Broken) / leastInParts(p); r > 1.1 {
					t.Errorf("loses %.3f times the least", r)
				} else {
					t.Logf("%.4f", r)
				}
			})
		}
	}
}

// leastBroken is what one-card pods cost, by dynamic programming over the gangs:
// each makes room for as many as it has pods.
func leastBroken(p *Problem) int64 {
	least := make([]int64, p.Claims[0].Count+1)
	for k := range least[1:] {
		least[k+1] = math.MaxInt64 / 2
	}
	for _, job := range p.Jobs {
		loss := job.Pods[0].Loss * int64(len(job.Pods))
		for k := len(least) - 1; k > 0; k-- {
			least[k] = min(least[k], least[max(0, k-len(job.Pods))]+loss)
		}
	}
	return least[len(least)-1]
}

func TestOfGangsOfManySizesThoseThatLoseLeastGo(t *testing.T) {
	for _, waiting := range []int{5, 13, 29, 61, 100, 333, 400, 512} {
		p := fleet{nodes: 500, gangs: 450, size: 8, mixed: true}.problem(waiting, 1)
		if plan, ok := Choose(p); !ok || plan.Loss.Broken != leastBroken(p) {
			t.Errorf("%d wait: %t, loses %d, the least is %d", waiting, ok, plan.Loss.Broken, leastBroken(p))
		}
	}
}
