package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestSolveEvictsElasticPods(t *testing.T) {
	roles := func(spare []int, of ...int) func(p *Problem) {
		return func(p *Problem) {
			p.Jobs[0].RoleElastic = spare
			for i, role := range of {
				p.Jobs[0].Pods[i].Role = role
			}
		}
	}

	checkVictims(t, map[string]ruleCase{
		"no more than its elastic pods": {problem: fullProblem(1, 2, 1, elasticJob(1, 40, 0, 0, 0), gang(90, 0)),
			want: append(singlePods(0, 0), wholeJobs(1)...)},
		"all of its pods when that loses less than another": {problem: fullProblem(1, 2, 1, elasticJob(1, 2, 0, 0, 0), gang(90, 0)),
			want: wholeJobs(0)},
		"elastic pods that run out, then the job as a whole, counted once": {problem: fullProblem(1, 3, 1, elasticJob(1, 2, 0, 0, 0)), want: wholeJobs(0)},
		"not as a whole when that is not allowed": {
			problem: fullProblem(1, 3, 1, elasticJob(2, 2, 0, 0, 0)).changed(func(p *Problem) { p.Jobs[0].Whole = false }), refused: true},
		"elastic pods of a job that is never taken whole": {
			problem: fullProblem(1, 2, 1, elasticJob(2, 2, 0, 0, 0)).changed(func(p *Problem) { p.Jobs[0].Whole = false }), want: singlePods(0, 0, 1)},
		"no protected pod": {
			problem: fullProblem(1, 1, 1, elasticJob(2, 2, 0, 0, 0)).changed(func(p *Problem) {
				p.Jobs[0].Whole = false
				p.Jobs[0].Pods[0].Protected = true
				p.Jobs[0].Pods[1].Protected = true
			}),
			want: singlePods(0, 2),
		},
		"no victims when only protected pods could help": {
			problem: fullProblem(1, 1, 1, elasticJob(1, 2, 0)).changed(func(p *Problem) {
				p.Jobs[0].Whole = false
				p.Jobs[0].Pods[0].Protected = true
			}),
			refused: true,
		},
		"of each role no more than it can spare": {problem: fullProblem(1, 2, 1, elasticJob(2, 2, 0, 0, 0, 0)).changed(roles([]int{1, 1}, 0, 0, 1, 1)),
			want: singlePods(0, 0, 2)},
		"of no role that can spare none": {problem: fullProblem(1, 1, 1, elasticJob(2, 2, 0, 0)).changed(roles([]int{0, 1}, 0, 1)), want: singlePods(0, 1)},
		"no more in all, though each role could": {problem: fullProblem(1, 2, 1, elasticJob(1, 2, 0, 0, 0)).changed(roles([]int{2, 2}, 0, 1, 1)),
			want: wholeJobs(0)},
		"the dearer role when only that one helps": {
			problem: fullProblem(2, 1, 1, elasticJob(1, 2, 0, 1)).changed(roles([]int{1, 1}, 0, 1)).changed(func(p *Problem) { p.PodSets[0].Nodes = []int{1} }),
			want:    singlePods(0, 1),
		},
	})
}

func TestSolveBreaksTiesByOrder(t *testing.T) {
	checkVictims(t, map[string]ruleCase{
		"the first of equal jobs":              {problem: fullProblem(1, 1, 1, gang(3, 0), gang(3, 0), gang(3, 0)), want: wholeJobs(0)},
		"the first of equal pods":              {problem: fullProblem(1, 1, 1, elasticJob(2, 3, 0, 0)), want: singlePods(0, 0)},
		"the first on whichever node":          {problem: fullProblem(2, 1, 1, gang(3, 1), gang(3, 0)), want: wholeJobs(0)},
		"the first of equal nodes to clear":    {problem: fullProblem(2, 1, 2, gang(3, 1), gang(3, 0), gang(3, 1), gang(3, 0)), want: wholeJobs(1, 3)},
		"fewest jobs when none loses anything": {problem: fullProblem(1, 3, 1, gang(0, 0), gang(0, 0), gang(0, 0), gang(0, 0, 0, 0)), want: wholeJobs(3)},
		"fewest jobs of those that lose as much": {problem: fullProblem(1, 3, 1, gang(2, 0), gang(2, 0), gang(2, 0), gang(2, 0, 0, 0)),
			want: wholeJobs(3)},
		"elastic pods that lose nothing, no more than are needed": {problem: fullProblem(1, 2, 1, elasticJob(4, 0, 0, 0, 0, 0)), want: singlePods(0, 0, 1)},
	})
}

func TestPlanLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		problem *Problem
		want    Loss
	}{
		"nothing":                        {fullProblem(1, 1, 1).changed(func(p *Problem) { p.Nodes[0].Free = Amounts{1} }), Loss{}},
		"all pods of a gang":             {fullProblem(1, 1, 1, gang(7, 0, 0, 0)), Loss{JobSeconds: 21, Jobs: 1}},
		"elastic pods":                   {fullProblem(1, 2, 1, elasticJob(2, 7, 0, 0, 0)), Loss{PodSeconds: 14}},
		"both":                           {fullProblem(1, 2, 1, elasticJob(1, 7, 0, 0, 0), gang(5, 0)), Loss{JobSeconds: 5, PodSeconds: 7, Jobs: 1}},
		"an exhausted job, once":         {fullProblem(1, 3, 1, elasticJob(1, 7, 0, 0, 0)), Loss{JobSeconds: 21, Jobs: 1}},
		"a whole job more than its pods": {fullProblem(1, 1, 1, losingMore(100, gang(7, 0, 0))), Loss{JobSeconds: 114, Jobs: 1}},
		"not where elastic pods suffice": {fullProblem(1, 1, 1, losingMore(100, elasticJob(1, 7, 0, 0))), Loss{PodSeconds: 7}},
		"another job that loses less":    {fullProblem(1, 1, 1, losingMore(100, gang(7, 0)), gang(99, 0)), Loss{JobSeconds: 99, Jobs: 1}},
		"more than can be counted":       {fullProblem(1, 2, 1, gang(1<<62, 0, 0, 0)), Loss{JobSeconds: 1<<63 - 1, Jobs: 1}},
		"more than can be counted in all": {fullProblem(1, 2, 1, gang(1<<62, 0), elasticJob(1, 1<<62, 0, 0)),
			Loss{JobSeconds: 1 << 62, PodSeconds: 1 << 62, Jobs: 1}},
	}) {
		plan, ok := solveAll(tc.problem)
		check.Must(t, ok, "no plan")

		check.Equal(t, "loss", tc.want, plan.Loss)
	}
}
