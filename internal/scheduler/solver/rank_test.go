package solver

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// withRank gives a job and all its pods a rank.
func withRank(rank int, job Job) Job {
	job.Rank = rank
	for i := range job.Pods {
		job.Pods[i].Rank = rank
	}
	return job
}

func TestSolveEvictsLowerRanksFirst(t *testing.T) {
	checkVictims(t, map[string]ruleCase{
		"the job of the lower rank, though it loses more": {problem: fullProblem(1, 1, 1, withRank(1, gang(1, 0)), withRank(0, gang(900, 0))),
			want: wholeJobs(1)},
		"many of the lower rank before one of the higher": {
			problem: fullProblem(1, 3, 1, withRank(7, gang(1, 0, 0, 0)), gang(90, 0), gang(90, 0), gang(90, 0)), want: wholeJobs(1, 2, 3)},
		"the higher rank when the lower ones do not suffice, and of the lower ones only what is needed": {
			problem: fullProblem(1, 3, 1, withRank(1, gang(9, 0, 0)), gang(5, 0), gang(4, 0)), want: wholeJobs(0, 2)},
		"no victims of the lower rank when the higher one must lose and suffices": {
			problem: fullProblem(1, 3, 1, withRank(1, gang(9, 0, 0, 0)), gang(5, 0), gang(4, 0)), want: wholeJobs(0)},
		"of the higher rank what loses least, with all that the lower one could give": {
			problem: fullProblem(1, 4, 1, withRank(1, gang(9, 0, 0)), withRank(1, gang(30, 0, 0, 0)), gang(5, 0, 0)), want: wholeJobs(0, 2)},
		"a gang of the lower rank before a elastic pod of the higher": {
			problem: fullProblem(1, 1, 1, withRank(1, elasticJob(1, 1, 0, 0)), gang(500, 0)), want: wholeJobs(1)},
		"elastic pods before their job, where the job ranks higher": {
			problem: fullProblem(1, 1, 1, elasticJob(1, 900, 0, 0), gang(1, 0)).changed(func(p *Problem) {
				p.Jobs[0].Rank = 1
				p.Jobs[1].Rank = 1
			}),
			want: singlePods(0, 0)},
		"of its elastic pods those of the lower rank": {
			problem: fullProblem(1, 1, 1, elasticJob(1, 5, 0, 0, 0)).changed(func(p *Problem) {
				p.Jobs[0].Pods[0].Rank = 2
				p.Jobs[0].Pods[1].Rank = 1
			}),
			want: singlePods(0, 2)},
		"a job as a whole ranks as its highest pod": {
			problem: fullProblem(1, 1, 1, gang(1, 0, 0), withRank(1, gang(50, 0))).changed(func(p *Problem) { p.Jobs[0].Pods[1].Rank = 2 }),
			want:    wholeJobs(1)},
		"the elastic pod where it helps, though the other one of the job ranks lower": {
			problem: fullProblem(2, 1, 1, elasticJob(1, 5, 0, 1)).changed(func(p *Problem) {
				p.Jobs[0].Whole = false
				p.Jobs[0].Pods[1].Rank = 1

				p.PodSets[0].Nodes = []int{1}
			}),
			want: singlePods(0, 1)},
		"ranks of units that cannot help do not matter": {problem: fullProblem(2, 1, 1, gang(1, 1), withRank(-5, gang(2, 0))).changed(func(p *Problem) {
			p.PodSets[0].Nodes = []int{0}
		}), want: wholeJobs(1)},
	})
}

// withRandomRanks gives jobs ranks, and single pods ranks of their own.
func withRandomRanks(t *rapid.T, p *Problem) *Problem {
	for j := range p.Jobs {
		p.Jobs[j] = withRank(rapid.IntRange(0, 2).Draw(t, "rank"), p.Jobs[j])
		if rapid.IntRange(0, 3).Draw(t, "ranks of pods") == 0 {
			for i := range p.Jobs[j].Pods {
				p.Jobs[j].Pods[i].Rank = rapid.IntRange(0, 3).Draw(t, "rank of pod")
			}
		}
	}
	return p
}

// ranksOf returns the ranks that units can have, the highest first.
func ranksOf(p *Problem) []int {
	var ranks []int
	for j := range p.Jobs {
		ranks = append(ranks, wholeRank(&p.Jobs[j]))
		for i := range p.Jobs[j].Pods {
			ranks = append(ranks, p.Jobs[j].Pods[i].Rank)
		}
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	slices.Reverse(ranks)
	return ranks
}

// victimsAbove returns the victims of higher ranks.
func victimsAbove(p *Problem, victims JobVictims, rank int) JobVictims {
	job := &p.Jobs[victims.Job]
	if victims.Whole {
		return JobVictims{Job: victims.Job, Whole: wholeRank(job) > rank}
	}
	kept := JobVictims{Job: victims.Job}
	for _, i := range victims.Pods {
		if job.Pods[i].Rank > rank {
			kept.Pods = append(kept.Pods, i)
		}
	}
	return kept
}

// lossAt returns the loss of a plan in a rank, and the least loss there with the plan's
// victims in all higher ranks. It tries every choice.
func lossAt(p *Problem, plan *Plan, rank int) (loss, least Loss) {
	taken := make([]JobVictims, len(p.Jobs))
	for j := range taken {
		taken[j].Job = j
	}

	for _, victims := range plan.Victims {
		taken[victims.Job] = victims
	}

	o := &oracle{Problem: p, known: map[string]bool{}}
	o.counts = func(r int) bool { return r == rank }
	o.allows = func(j int, victims JobVictims) bool {
		victims.Job = j
		return reflect.DeepEqual(victimsAbove(p, victims, rank), victimsAbove(p, taken[j], rank))
	}

	for j, victims := range taken {
		if victims.Whole {
			victims.Pods = allPods(&p.Jobs[j])
		}
		loss = o.addLoss(loss, &p.Jobs[j], victims)
	}

	least, _ = o.tryAll()
	return loss, least
}

// TestSolveEachRankAtLeastLoss compares with all choices, rank by rank.
func TestSolveEachRankAtLeastLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		draw  func(*rapid.T) *Problem
		times int
		most  float64
	}{"small": {smallProblem, 20, 1}, "middling": {midsizeProblem, 1, 1.1}, "tree": {smallTree, 10, 1}}) {
		seed.Check(t, func(t *rapid.T) {
			for range tc.times {
				p := withRandomRanks(t, tc.draw(t))
				_, possible := leastLoss(p)
				plan := mustSolve(t, p, possible)
				if plan == nil {
					continue
				}

				if tc.most == 1 {
					mustNeedAllVictims(t, p, plan)
				}

				for _, rank := range ranksOf(p) {
					loss, least := lossAt(p, plan, rank)
					check.Must(t, ratio(loss, least) <= tc.most, "in rank %d: loses %+v, the least is %+v", rank, loss, least)
				}

				mustSolveAgain(t, p, plan)
			}
		})
	}
}

// TestSmallBudgetStillSparesHighRanks: the highest rank that loses anything does not depend on
// the budget for refining.
func TestSmallBudgetStillSparesHighRanks(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"small": smallProblem, "middling": midsizeProblem}) {
		seed.Check(t, func(t *rapid.T) {
			p := withRandomRanks(t, draw(t))
			most := Solve(p, maxRefineWork)
			less := Solve(p, 0)
			if less.Plan == nil {
				check.Must(t, most.Plan == nil || less.OutOfBudget, "no plan, and the choice was not cut")
				return
			}

			mustBeValid(t, p, less.Plan)
			check.Must(t, highestVictimRank(p, less.Plan) == highestVictimRank(p, most.Plan) || less.OutOfBudget,
				"takes of rank %d, with more work of %d", highestVictimRank(p, less.Plan), highestVictimRank(p, most.Plan))
		})
	}
}

// highestVictimRank returns the highest rank of a plan's victims, -1 for none.
func highestVictimRank(p *Problem, plan *Plan) int {
	highest := -1
	for _, victims := range plan.Victims {
		if victims.Whole {
			highest = max(highest, wholeRank(&p.Jobs[victims.Job]))
		}
		for _, i := range victims.Pods {
			highest = max(highest, p.Jobs[victims.Job].Pods[i].Rank)
		}
	}
	return highest
}

// TestSolveEvictsGangsOfLowestRanks: on a full fleet the lowest ranks lose all their gangs
// before the next rank loses any.
func TestSolveEvictsGangsOfLowestRanks(t *testing.T) {
	f := fleet{nodes: 500, gangs: 500, size: 8, spread: true, ranks: 5}
	for _, waiting := range []int{8, 800, 801, 1700, 3999} {
		p := f.problem(waiting, 1)
		plan := mustSolve(t, p, true)
		taken := make([]int, f.ranks)
		for _, victims := range plan.Victims {
			taken[p.Jobs[victims.Job].Rank]++
		}

		for rank, left := 0, (waiting+7)/8; rank < f.ranks; rank++ {
			check.Equal(t, fmt.Sprintf("gangs of rank %d that are evicted for %d pods", rank, waiting), min(left, 100), taken[rank])
			left -= min(left, 100)
		}
	}
}
