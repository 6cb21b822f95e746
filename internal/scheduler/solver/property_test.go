package solver

import (
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// smallProblem is small enough for the oracle.
func smallProblem(t *rapid.T) *Problem {
	dims := rapid.IntRange(1, 3).Draw(t, "resources")
	p := &Problem{}

	// The first resource is the cards, of which every pod has some.
	amounts := func(most int, label string) Amounts {
		a := make(Amounts, dims)
		for r := range a {
			a[r] = float64(rapid.IntRange(0, most).Draw(t, label))
		}
		if label != "room" {
			a[0] = max(a[0], 1)
		}
		return a
	}

	for range rapid.IntRange(1, 2).Draw(t, "pools") {
		p.Quotas = append(p.Quotas, flatQuota(int64(rapid.SampledFrom([]int{8, 4, 2, 6, 1, 0}).Draw(t, "pool"))))
	}
	for range rapid.IntRange(1, 3).Draw(t, "nodes") {
		p.Nodes = append(p.Nodes, Node{Free: amounts(1, "room"), Quota: rapid.IntRange(0, len(p.Quotas)-1).Draw(t, "pool of node")})
	}

	pending := rapid.SampledFrom([]int{4, 3, 2, 1}).Draw(t, "waiting")
	for pending > 0 && len(p.PodSets) < 2 {
		c := PodSet{Count: pending, Request: amounts(3, "request"), Cards: int64(rapid.IntRange(0, 2).Draw(t, "cards"))}
		if len(p.PodSets) == 0 {
			c.Count = rapid.IntRange(1, pending).Draw(t, "count")
		}
		pending -= c.Count

		for node := range p.Nodes {
			if rapid.IntRange(0, 5).Draw(t, "wanted") < 5 {
				c.Nodes = append(c.Nodes, node)
			}
		}
		p.PodSets = append(p.PodSets, c)
	}

	for range rapid.SampledFrom([]int{5, 4, 3, 2, 1, 0}).Draw(t, "jobs") {
		p.Jobs = append(p.Jobs, smallJob(t, p, amounts))
	}

	return p
}

func smallJob(t *rapid.T, p *Problem, amounts func(int, string) Amounts) Job {
	job := Job{Whole: rapid.IntRange(0, 3).Draw(t, "whole") < 3}
	most := rapid.SampledFrom([]int64{0, 3, 20, 1000}).Draw(t, "most loss")
	if rapid.Bool().Draw(t, "roles") {
		job.RoleElastic = []int{rapid.IntRange(0, 2).Draw(t, "role elastic"), rapid.IntRange(0, 2).Draw(t, "role elastic")}
	}

	for range rapid.SampledFrom([]int{4, 3, 2, 1}).Draw(t, "pods") {
		pod := Pod{
			Node:  rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node"),
			Usage: amounts(3, "gives"),
			Loss:  rapid.Int64Range(0, most).Draw(t, "loss"),
			Role:  rapid.IntRange(0, 1).Draw(t, "role"),
		}
		pod.Protected = !job.Whole && rapid.IntRange(0, 4).Draw(t, "protected") == 0
		job.Pods = append(job.Pods, pod)
	}

	job.Elastic = rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "elastic")
	return job
}

// withWholeLosses lets jobs lose more as a whole than their pods do.
func withWholeLosses(t *rapid.T, p *Problem) *Problem {
	for j := range p.Jobs {
		p.Jobs[j].WholeLoss = rapid.SampledFrom([]int64{0, 0, 5, 100}).Draw(t, "loss of the whole")
	}
	return p
}

// TestSolveSmallProblemsAtLeastLoss: for small problems the plan loses exactly as little as possible. It evicts no pod
// that is not needed, and solving the problem again gives the same plan. An oracle that tries every choice of victims
// says what the least loss is, and whether there is a plan. Problems are random.
func TestSolveSmallProblemsAtLeastLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		draw     func(*rapid.T) *Problem
		problems int // for each draw of the property
	}{
		"flat":                           {smallProblem, 30},
		"in a tree":                      {smallTree, 20},
		"jobs that lose more as a whole": {func(t *rapid.T) *Problem { return withWholeLosses(t, smallProblem(t)) }, 20},
		"jobs that lose more as a whole, in a tree": {func(t *rapid.T) *Problem { return withWholeLosses(t, smallTree(t)) }, 20},
	}) {
		seed.Check(t, func(t *rapid.T) {
			for range tc.problems {
				p := tc.draw(t)
				optimum, possible := leastLoss(p)

				plan := solveIfPossible(t, p, possible)
				if plan != nil {
					check.Must(t, compareLoss(plan.Loss, optimum) == 0, "loses %+v, the least is %+v", plan.Loss, optimum)
					mustNeedAllVictims(t, p, plan)
					mustSolveAgain(t, p, plan)
				}
			}
		})
	}
}
