package solver

import (
	"slices"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// ruleCase is a problem with its expected victims. refused means that there is no plan.
type ruleCase struct {
	problem *Problem
	want    []JobVictims
	refused bool
}

// checkVictims checks the victims in each case, and that the plan is valid.
func checkVictims(t *testing.T, cases map[string]ruleCase) {
	t.Helper()

	for t, tc := range check.Cases(t, cases) {
		if plan := mustSolve(t, tc.problem, !tc.refused); plan != nil {
			check.Equal(t, "victims", tc.want, plan.Victims)
		}
	}
}

func TestSolveChoosesVictims(t *testing.T) {
	checkVictims(t, map[string]ruleCase{
		"no victims when no pod is pending": {problem: fullProblem(1, 0, 1, gang(5, 0))},
		"no victims when free room suffices": {problem: fullProblem(2, 2, 1, gang(5, 0)).changed(func(p *Problem) {
			p.Nodes[0].Free = Amounts{1}
			p.Nodes[1].Free = Amounts{1}
		})},
		"only what free room lacks": {problem: fullProblem(2, 3, 1, gang(5, 0), gang(4, 1)).changed(func(p *Problem) { p.Nodes[0].Free = Amounts{2} }),
			want: wholeJobs(1)},
		"no victims when not all can run":         {problem: fullProblem(1, 3, 1, gang(5, 0), gang(5, 0)), refused: true},
		"no victims when no job runs":             {problem: fullProblem(1, 1, 1), refused: true},
		"the job that loses least":                {problem: fullProblem(1, 1, 1, gang(7, 0), gang(5, 0), gang(6, 0)), want: wholeJobs(1)},
		"pods that a job can spare before a gang": {problem: fullProblem(1, 1, 1, gang(1, 0), elasticJob(1, 900, 0, 0)), want: singlePods(1, 0)},
		"pods that a job can spare before a gang that loses nothing": {problem: fullProblem(1, 1, 1, gang(0, 0), elasticJob(1, 900, 0, 0)),
			want: singlePods(1, 0)},
		"of elastic pods those that lose least": {
			problem: fullProblem(1, 2, 1, elasticJob(2, 9, 0, 0, 0, 0)).changed(func(p *Problem) {
				p.Jobs[0].Pods[1].Loss = 2
				p.Jobs[0].Pods[3].Loss = 1
			}),
			want: singlePods(0, 1, 3),
		},
		"one gang of 8 for 8 pods, not 8 gangs": {
			problem: fullProblem(8, 8, 1,
				gang(5, 0, 1, 2, 3, 4, 5, 6, 7), gang(4, 0, 1, 2, 3, 4, 5, 6, 7), gang(5, 0, 1, 2, 3, 4, 5, 6, 7),
				gang(5, 0, 1, 2, 3, 4, 5, 6, 7), gang(5, 0, 1, 2, 3, 4, 5, 6, 7), gang(5, 0, 1, 2, 3, 4, 5, 6, 7),
				gang(5, 0, 1, 2, 3, 4, 5, 6, 7), gang(5, 0, 1, 2, 3, 4, 5, 6, 7)),
			want: wholeJobs(1),
		},
		"the large gang alone, though the small one loses less for itself": {problem: fullProblem(1, 8, 1, gang(5, 0), gang(1, repeatNode(8, 0)...)),
			want: wholeJobs(1)},
		"two small gangs that lose less than a large one": {problem: fullProblem(1, 2, 1, gang(3, 0, 0, 0), gang(4, 0), gang(4, 0)),
			want: wholeJobs(1, 2)},
		"the last two cards from the gang that has just two": {problem: fullProblem(1, 4, 1, gang(10, 0, 0, 0), gang(11, 0, 0), gang(15, 0, 0)),
			want: wholeJobs(0, 1)},
		"a gang over several nodes for pods on all of them": {problem: fullProblem(3, 3, 1, gang(3, 0), gang(3, 1), gang(3, 2), gang(2, 0, 1, 2)),
			want: wholeJobs(3)},
		"no gang that has no card where it is needed": {
			problem: fullProblem(2, 1, 1, gang(1, 1), gang(50, 0)).changed(func(p *Problem) { p.PodSets[0].Nodes = []int{0} }), want: wholeJobs(1)},
		"a gang with what it loses on all nodes": {
			problem: fullProblem(2, 1, 1, gang(5, 0, 1, 1), gang(12, 0)).changed(func(p *Problem) { p.PodSets[0].Nodes = []int{0} }),
			want:    wholeJobs(1)},
		"several jobs on one node for a pod of several cards": {
			problem: fullProblem(2, 1, 4, gang(1, 0), gang(1, 1), gang(2, 0, 0), gang(9, 1, 1), gang(1, 0)), want: wholeJobs(0, 2, 4)},
		"the node that loses least for a pod of several cards": {
			problem: fullProblem(3, 1, 2, gang(5, 0), gang(5, 0), gang(1, 1), gang(8, 1), gang(2, 2), gang(8, 2)), want: wholeJobs(2, 3)},
		"elastic pods together before the gang that would do alone": {
			problem: fullProblem(2, 1, 3, gang(1, 0, 0, 0), elasticJob(3, 50, repeatNode(3, 1)...)), want: singlePods(1, 0, 1, 2)},
		"who gives CPU when that is short as well": {
			problem: fullProblem(2, 1, 1, gang(1, 0), gang(3, 0), gang(9, 1)).changed(func(p *Problem) {
				p.PodSets[0].Request = Amounts{1, 8}
				for i := range p.Nodes {
					p.Nodes[i].Free = Amounts{0, 0}
				}

				p.Jobs[0].Pods[0].Usage = Amounts{1, 2}
				p.Jobs[1].Pods[0].Usage = Amounts{1, 6}
				p.Jobs[2].Pods[0].Usage = Amounts{1, 8}
			}),
			want: wholeJobs(0, 1),
		},
		"who gives CPU when only that is short": {
			problem: fullProblem(1, 1, 1, gang(1, 0), gang(3, 0)).changed(func(p *Problem) {
				p.PodSets[0].Request = Amounts{1, 8}
				p.Nodes[0].Free = Amounts{4, 0}
				p.Jobs[0].Pods[0].Usage = Amounts{1, 4}
				p.Jobs[1].Pods[0].Usage = Amounts{0, 8}
			}),
			want: wholeJobs(1),
		},
	})
}

func TestSolveWithTwoQuotas(t *testing.T) {
	checkVictims(t, map[string]ruleCase{
		"the cheaper pool while it lasts, then the other": {
			problem: fullProblem(2, 3, 1, gang(1, 0), gang(2, 0), gang(3, 0), gang(9, 1)).changed(func(p *Problem) {
				p.Quotas = flatQuotas(2, 5)
				p.Nodes[1].Quota = 1
			}),
			want: wholeJobs(0, 1, 3),
		},
		"no victims when the quotas are too small": {
			problem: fullProblem(2, 3, 1, gang(1, 0), gang(2, 0), gang(3, 1)).changed(func(p *Problem) {
				p.Quotas = flatQuotas(1, 1)
				p.Nodes[1].Quota = 1
			}),
			refused: true,
		},
		"a pool counts cards, not pods": {
			problem: fullProblem(2, 2, 2, gang(1, 0, 0), gang(1, 0, 0), gang(7, 1, 1)).changed(func(p *Problem) {
				p.Quotas = flatQuotas(3, 2)
				p.Nodes[1].Quota = 1
			}),
			want: wholeJobs(0, 2),
		},
		"free room in a pool that is used up does not help": {
			problem: fullProblem(2, 1, 1, gang(7, 1)).changed(func(p *Problem) {
				p.Quotas = flatQuotas(0, 1)
				p.Nodes[1].Quota = 1

				p.Nodes[0].Free = Amounts{4}
			}),
			want: wholeJobs(0),
		},
		"pods without cards need no pool": {
			problem: fullProblem(1, 1, 1, gang(7, 0)).changed(func(p *Problem) {
				p.Quotas[0] = flatQuota(0)
				p.PodSets[0].Cards = 0
			}), want: wholeJobs(0)},
	})
}

func TestSolveWithTwoPodSets(t *testing.T) {
	master := func(request float64, nodes ...int) func(p *Problem) {
		return func(p *Problem) {
			p.PodSets = append(p.PodSets, PodSet{Request: Amounts{request}, Cards: int64(request), Count: 1, Nodes: nodes})
		}
	}

	checkVictims(t, map[string]ruleCase{
		"a gang that makes room for the master and the workers": {
			problem: fullProblem(2, 2, 1, gang(4, 0), gang(4, 0), gang(4, 1), gang(3, 0, 0, 1)).changed(master(1, 1)), want: wholeJobs(3)},
		"no victims when the master has no place": {problem: fullProblem(2, 2, 1, gang(4, 0), gang(4, 0)).changed(master(1, 1)), refused: true},
		"who is on the only node of the master, though workers would do elsewhere": {
			problem: fullProblem(2, 1, 1, gang(1, 0), gang(2, 0), gang(50, 1)).changed(master(1, 1)), want: wholeJobs(0, 2)},
		"free room is left to the pod set that has no other": {
			problem: fullProblem(2, 1, 1, gang(3, 1), gang(9, 0)).changed(master(1, 0)).changed(func(p *Problem) { p.Nodes[0].Free = Amounts{1} }),
			want:    wholeJobs(0)},
		"a resource that no pod requests changes nothing": {
			problem: fullProblem(3, 3, 2, gang(0, 0, 0, 0, 0), gang(0, 0), elasticJob(2, 0, 0, 0, 1), gang(0, 0), gang(0, 0, 0, 0)).changed(master(1, 0, 1, 2)).changed(func(p *Problem) {
				for i := range p.PodSets {
					p.PodSets[i].Request = append(p.PodSets[i].Request, 0, 0)
				}
				for i := range p.Nodes {
					p.Nodes[i].Free = Amounts{0, 0, 0}
				}
				p.Jobs[2].Pods[1].Loss = 1
				p.Jobs[4].Pods[2].Loss = 1
			}),
			want: append(wholeJobs(0, 1), singlePods(2, 0, 2)...),
		},
		"free room is shared as it must be": {problem: fullProblem(20, 20, 1).changed(func(p *Problem) {
			p.PodSets = append(p.PodSets, PodSet{Request: Amounts{1}, Cards: 1, Count: 20, Nodes: slices.Clone(p.PodSets[0].Nodes[:10])})
			for i := range p.Nodes {
				p.Nodes[i].Free = Amounts{2}
			}
		})},
		// The workers use all cards of the first nodes that the master could use, and the
		// master on the first node uses the CPU of five workers.
		"the master runs where it is least in the way of the workers": {
			problem: fullProblem(3, 15, 1).changed(master(1, 0, 1, 2)).changed(func(p *Problem) {
				p.PodSets[0].Request = Amounts{1, 1}
				p.PodSets[1].Request = Amounts{1, 8}
				p.Nodes[0].Free = Amounts{5, 8}
				p.Nodes[1].Free = Amounts{1, 8}
				p.Nodes[2].Free = Amounts{10, 10}
			})},
	})
}
