package solver

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
)

// comparison compares first plans, and the plans that refining makes of them, with the least loss.
type comparison struct{ first, refined lossRatios }

// solveNearLeastLoss solves a problem, and checks that the plan loses at most 1.1 times the optimum.
func (c *comparison) solveNearLeastLoss(t *rapid.T, p *Problem, optimum Loss, possible bool) {
	plan := solveIfPossible(t, p, possible)
	if plan == nil {
		return
	}

	check.Must(t, ratio(plan.Loss, optimum) <= 1.1, "loses %+v, the least is %+v", plan.Loss, optimum)
	c.refined.add(plan, optimum)

	first := Solve(p, 0).Plan
	check.Must(t, first != nil, "no first plan")
	c.first.add(first, optimum)
}

// log prints both distributions. With many draws it is the table of docs/victims.md.
func (c *comparison) log(t *testing.T) {
	t.Logf("first plan: %s", c.first)
	t.Logf("refined:    %s", c.refined)
}

// lossRatios are how many times the least loss plans lose.
type lossRatios []float64

// add adds the ratio of a plan, unless it needs no victims.
func (r *lossRatios) add(plan *Plan, optimum Loss) {
	if len(plan.Victims) > 0 {
		*r = append(*r, ratio(plan.Loss, optimum))
	}
}

// String describes the distribution. A plan has no bound if it evicts a whole job where another one
// evicts none, or loses something where another one loses nothing.
func (r lossRatios) String() string {
	finite := slices.DeleteFunc(slices.Sorted(slices.Values(r)), func(x float64) bool { return math.IsInf(x, 1) })
	n := len(finite)
	if n == 0 {
		return "no plans"
	}

	least := 0
	sum := 0.0
	for _, x := range finite {
		sum += x
		if x == 1 {
			least++
		}
	}

	return fmt.Sprintf("of %d plans %.1f %% lose the least; mean %.3f, 95 %% within %.2f, at most %.2f; %d without bound",
		len(r), 100*float64(least)/float64(len(r)), sum/float64(n), finite[n*95/100], finite[n-1], len(r)-n)
}
