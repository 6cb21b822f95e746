package cardreclaim

import (
	"fmt"
	"math"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

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

func TestOfGangsThoseThatLoseLeastGo(t *testing.T) {
	for _, f := range []fleet{
		{nodes: 500, gangs: 500, size: 8},
		{nodes: 500, gangs: 500, size: 8, spread: true},
		{nodes: 500, gangs: 450, size: 8, mixed: true},
	} {
		for _, waiting := range []int{5, 13, 29, 48, 61, 100, 104, 333, 400, 512} {
			t.Run(fmt.Sprintf("%+v %d", f, waiting), func(t *testing.T) {
				p := f.problem(waiting, 1)
				plan, ok := Choose(p)
				check.Must(t, ok, "there is a plan")
				why := broken(p, plan)
				check.Must(t, why == "", "%v", why)
				least := leastBroken(p)
				check.That(t, float64(plan.Loss.Broken) <= 1.01*float64(least), "loses %d, the least is %d", plan.Loss.Broken, least)
			})
		}
	}
}
