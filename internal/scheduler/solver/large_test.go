package solver

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// leastJobSeconds returns the least loss for one-card pods, by dynamic programming over the
// gangs. Each gang makes room for as many pods as it has.
func leastJobSeconds(p *Problem) int64 {
	least := make([]int64, p.PodSets[0].Count+1)
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

// TestSolveEvictsGangsOfLeastLoss: 500 nodes with 8 cards each are full, and 5 to 512 one-card pods are pending. The plan
// loses at most 1 % more than possible. Each gang frees as many cards as it has pods, so the least loss is that of a
// knapsack problem, which dynamic programming solves exactly. Gangs run on one node each, are spread over nodes, or
// have 1 to 16 pods.
func TestSolveEvictsGangsOfLeastLoss(t *testing.T) {
	for _, f := range []fleet{
		{nodes: 500, gangs: 500, size: 8},
		{nodes: 500, gangs: 500, size: 8, spread: true},
		{nodes: 500, gangs: 450, size: 8, mixed: true},
	} {
		for _, pending := range []int{5, 13, 29, 48, 61, 100, 104, 333, 400, 512} {
			t.Run(fmt.Sprintf("%+v %d", f, pending), func(t *testing.T) {
				p := f.problem(pending, 1)
				plan := mustSolve(t, p)

				least := leastJobSeconds(p)
				check.That(t, float64(plan.Loss.JobSeconds) <= 1.01*float64(least), "loses %d, the least is %d", plan.Loss.JobSeconds, least)
			})
		}
	}
}

// drawJobOfManyPods draws one job of more pods than one neighborhood has, on one node, with different
// usage and loss. It has enough elastic pods, whichever are evicted. If only those with the
// largest usage sufficed, the search would have no bound.
func drawJobOfManyPods(t *rapid.T) *Problem {
	job := Job{}
	for range rapid.IntRange(maxJobNeighbors+1, 80).Draw(t, "pods") {
		job.Pods = append(job.Pods, Pod{Usage: Amounts{float64(rapid.IntRange(1, 4).Draw(t, "gives"))}, Loss: rapid.Int64Range(1, 100).Draw(t, "loss")})
	}
	cards := rapid.IntRange(1, 3).Draw(t, "cards")
	pending := rapid.IntRange(1, len(job.Pods)/cards).Draw(t, "waiting")
	job.Elastic = rapid.IntRange(pending*cards, len(job.Pods)).Draw(t, "elastic")
	return fullProblem(1, pending, float64(cards), job)
}

// leastPodSeconds returns the least loss, by dynamic programming over the pods and how many of
// them are evicted.
func leastPodSeconds(p *Problem) int64 {
	job := &p.Jobs[0]
	need := p.PodSets[0].Count * int(p.PodSets[0].Cards)
	least := make([][]int64, job.Elastic+1)
	for taken := range least {
		least[taken] = make([]int64, need+1)
		for given := range need {
			least[taken][given+1] = math.MaxInt64 / 2
		}
	}

	for _, pod := range job.Pods {
		for taken := job.Elastic; taken > 0; taken-- {
			for given := need; given > 0; given-- {
				least[taken][given] = min(least[taken][given], least[taken-1][max(0, given-int(pod.Usage[0]))]+pod.Loss)
			}
		}
	}

	return least[job.Elastic][need]
}

// TestSolveEvictsElasticPodsOfLeastLoss: a job has 25 to 80 pods that free 1 to 4 cards, more pods than the search
// considers at once. It can lose enough of them, whichever they are. The plan loses at most 1.1 times what dynamic
// programming finds as the least loss. If the solver finds no plan, it must report that its search was cut. Problems are
// random.
func TestSolveEvictsElasticPodsOfLeastLoss(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		p := drawJobOfManyPods(t)
		least := leastPodSeconds(p)
		answer := Solve(p, MaxWork)
		if answer.Plan == nil {
			check.Must(t, answer.OutOfBudget, "no plan, and one loses %d", least)
			return
		}

		mustBeValid(t, p, answer.Plan)
		check.Must(t, float64(answer.Plan.Loss.PodSeconds) <= 1.1*float64(least), "loses %d, the least is %d", answer.Plan.Loss.PodSeconds, least)
	})
}
