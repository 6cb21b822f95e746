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

// TestSolveEvictsLowerRanksFirst: ranks come from priorities. No rank loses anything if lower ranks suffice,
// however much more these lose. Within a rank the least loss counts, and elastic pods are evicted before
// gangs. rank= is that of a job and its pods, jobRank= that of the job alone. A line "pod" gives a pod
// another rank, which counts if it is evicted alone. Jobs and pods without a written rank have rank 0.
// running=n*2 are two pods of one card on the full node n. loss= is that of each pod, elastic= how many a job
// can lose alone. Each row wants the victims: "low" is a whole job, "elastic-0" is pod 0 of job elastic.
func TestSolveEvictsLowerRanksFirst(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"the job of rank 0, although it loses more": {want: "low", scene: `
			node n
			pending pods=1 cards=1
			job high running=n rank=1 loss=1
			job low running=n loss=900`},
		"three jobs of rank 0 before one of rank 7": {want: "low1 low2 low3", scene: `
			node n
			pending pods=3 cards=1
			job high running=n*3 rank=7 loss=1
			job low1 running=n loss=90
			job low2 running=n loss=90
			job low3 running=n loss=90`},
		"rank 0 has 2 cards for 3 pods: the high job with 2 cards and only the cheaper low one": {want: "high low2", scene: `
			node n
			pending pods=3 cards=1
			job high running=n*2 rank=1 loss=9
			job low1 running=n loss=5
			job low2 running=n loss=4`},
		"rank 0 has 2 cards for 3 pods: the high job with 3 cards suffices, so no low one": {want: "high", scene: `
			node n
			pending pods=3 cards=1
			job high running=n*3 rank=1 loss=9
			job low1 running=n loss=5
			job low2 running=n loss=4`},
		"rank 0 has 2 cards for 4 pods: the cheaper high job and both low cards, not the costlier high job": {want: "cheaper low", scene: `
			node n
			pending pods=4 cards=1
			job cheaper running=n*2 rank=1 loss=9
			job costlier running=n*3 rank=1 loss=30
			job low running=n*2 loss=5`},
		"a gang of rank 0 before an elastic pod of rank 1": {want: "low", scene: `
			node n
			pending pods=1 cards=1
			job high running=n*2 elastic=1 rank=1 loss=1
			job low running=n loss=500`},
		"an elastic pod of rank 0 before its own job and another one, both of rank 1": {want: "elastic-0", scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n*2 elastic=1 jobRank=1 loss=900
			job gang running=n jobRank=1 loss=1`},
		"elastic pods of ranks 2, 1 and 0: the last": {want: "elastic-2", scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n*3 elastic=1 loss=5
			pod elastic 0 rank=2
			pod elastic 1 rank=1`},
		"a gang ranks as its highest pod, 2, so the gang of rank 1 is evicted": {want: "one", scene: `
			node n
			pending pods=1 cards=1
			job mixed running=n*2 loss=1
			pod mixed 1 rank=2
			job one running=n rank=1 loss=50`},
		"the pod can run on b only: the elastic pod there, although that on a has a lower rank": {want: "elastic-1", scene: `
			node a; node b
			pending pods=1 cards=1 nodes=b
			job elastic running=a,b elastic=1 whole=false loss=5
			pod elastic 1 rank=1`},
		"the pod can run on a only: the job there, of a negative rank": {want: "onA", scene: `
			node a; node b
			pending pods=1 cards=1 nodes=a
			job onB running=b loss=1
			job onA running=a rank=-5 loss=2`},
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

// TestSolveEachRankAtLeastLoss: the solver finds a plan exactly if there is one. Of the plans that evict the
// same victims in all higher ranks, its plan loses the least in each rank. The least loss comes from an
// oracle that tries every choice of victims. Problems and ranks are random. In larger problems, where the
// solver's search is bounded, it may lose 1.1 times as much. In others no victim is needless. Solving a
// problem again gives the same plan.
func TestSolveEachRankAtLeastLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		draw     func(*rapid.T) *Problem
		problems int // for each draw of the property
		maxRatio float64
	}{
		"small":    {smallProblem, 20, 1},
		"middling": {midsizeProblem, 1, 1.1},
		"tree":     {smallTree, 10, 1},
	}) {
		seed.Check(t, func(t *rapid.T) {
			for range tc.problems {
				p := withRandomRanks(t, tc.draw(t))
				_, possible := leastLoss(p)
				plan := solveIfPossible(t, p, possible)
				if plan == nil {
					continue
				}

				if tc.maxRatio == 1 {
					mustNeedAllVictims(t, p, plan)
				}

				for _, rank := range ranksOf(p) {
					loss, least := lossAt(p, plan, rank)
					check.Must(t, ratio(loss, least) <= tc.maxRatio, "in rank %d: loses %+v, the least is %+v", rank, loss, least)
				}

				mustSolveAgain(t, p, plan)
			}
		})
	}
}

// TestHighRanksAreAvoidedWithoutABudget: victims of a higher rank are evicted only if those of lower ranks do not suffice.
// The budget bounds the work that makes a first plan cheaper. A plan without any budget may lose more work, but the
// highest rank of its victims is that of the plan with the largest budget. If there is that plan, there is one without a
// budget, too. Problems and ranks are random, and small enough that no other bound ends a search.
func TestHighRanksAreAvoidedWithoutABudget(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"small": smallProblem, "middling": midsizeProblem}) {
		seed.Check(t, func(t *rapid.T) {
			p := withRandomRanks(t, draw(t))
			withBudget := Solve(p, MaxWork)
			without := Solve(p, 0)
			if without.Plan == nil {
				check.Must(t, withBudget.Plan == nil, "no plan without a budget")
				return
			}

			mustBeValid(t, p, without.Plan)
			check.Must(t, highestVictimRank(p, without.Plan) == highestVictimRank(p, withBudget.Plan),
				"evicts rank %d without a budget, and rank %d with one", highestVictimRank(p, without.Plan), highestVictimRank(p, withBudget.Plan))
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

// TestSolveEvictsGangsOfLowestRanks: 500 full nodes run 500 gangs of 8 one-card pods, 100 gangs in each of 5 ranks. Each
// gang frees 8 cards. All gangs of the lowest rank are evicted before any gang of the next rank.
func TestSolveEvictsGangsOfLowestRanks(t *testing.T) {
	f := fleet{nodes: 500, gangs: 500, size: 8, spread: true, ranks: 5}
	for _, pending := range []int{8, 800, 801, 1700, 3999} {
		p := f.problem(pending, 1)
		plan := mustSolve(t, p)
		taken := make([]int, f.ranks)
		for _, victims := range plan.Victims {
			taken[p.Jobs[victims.Job].Rank]++
		}

		left := (pending + 7) / 8
		for rank := range f.ranks {
			check.Equal(t, fmt.Sprintf("gangs of rank %d that are evicted for %d pods", rank, pending), min(left, 100), taken[rank])
			left -= min(left, 100)
		}
	}
}
