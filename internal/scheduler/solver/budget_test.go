package solver

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestSmallBudgetKeepsPlansValid: a search that ends at its budget finds no plan or a valid
// one without needless victims. A search that stays within its budget finds the same plan.
func TestSmallBudgetKeepsPlansValid(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"small": smallProblem, "middling": midsizeProblem, "tree": smallTree}) {
		seed.Check(t, func(t *rapid.T) {
			p := draw(t)
			answer := Solve(p, maxRefineWork)
			whole := answer.Plan
			less := Solve(p, rapid.IntRange(0, answer.Work+1).Draw(t, "most"))
			plan := less.Plan

			switch {
			case !less.OutOfBudget && !reflect.DeepEqual(less, answer):
				t.Fatalf("%+v, want %+v", less, answer)
			case plan == nil && whole != nil:
				t.Fatal("no plan, and there is one with more work")
			case plan == nil:
			case whole == nil:
				t.Fatalf("%+v, and no plan with more work", plan)
			case planError(p, plan) != "" || needlessVictim(p, plan) != "":
				t.Fatalf("%s %s", planError(p, plan), needlessVictim(p, plan))
			case plan.Loss.compare(whole.Loss) < 0:
				t.Fatalf("loses %+v, with more work %+v", plan.Loss, whole.Loss)
			}
		})
	}
}

// kinds is a problem with pending pods of many kinds, which are hard to place.
func (f fleet) kinds(kinds int) *Problem {
	p := f.problem(1, 1)
	for i := range kinds {
		c := p.PodSets[0]
		c.Count = 8
		c.Request = append(Amounts{1 + float64(i%3), 8000 * float64(1+i%5), 16e9}, make(Amounts, kinds)...)
		c.Request[3+i] = 1
		p.PodSets = append(p.PodSets, c)
	}

	for i := range p.Nodes {
		for range kinds {
			p.Nodes[i].Free = append(p.Nodes[i].Free, 1)
		}
	}

	p.Quotas[0] = flatQuota(100000)
	return p
}

// TestFirstPlanIsLinear: without any budget for refining there is a plan. Its work grows with
// nodes and pods, and with pod sets.
func TestFirstPlanIsLinear(t *testing.T) {
	for t, f := range check.Cases(t, map[string]fleet{"on a node each": {size: 8}, "spread": {size: 8, spread: true}, "elastic": {size: 8, elastic: true}}) {
		work := func(nodes, kinds int) float64 {
			f.nodes = nodes
			f.gangs = nodes
			p := f.kinds(kinds)
			first := Solve(p, 0)
			check.Must(t, first.Plan != nil, "%d nodes, %d kinds: there is a plan", nodes, kinds)
			mustBeValid(t, p, first.Plan)
			return float64(first.Work)
		}

		base := work(250, 8)
		nodes := work(1000, 8) / base
		kinds := work(250, 32) / base
		check.That(t, nodes < 6 && kinds < 6, "four times the nodes take %.1f times the work, four times the kinds %.1f", nodes, kinds)
	}
}

// TestFirstPlanIsBoundedForManyRanks: each rank that loses anything needs a plan of its own,
// within the budget for ranks.
func TestFirstPlanIsBoundedForManyRanks(t *testing.T) {
	for _, size := range []struct{ nodes, kinds, ranks int }{{250, 8, 6}, {250, 32, 6}, {1000, 8, 6}, {250, 8, 24}, {1000, 8, 500}} {
		f := fleet{size: 8, spread: true, nodes: size.nodes, gangs: size.nodes, ranks: size.ranks}
		p := f.kinds(size.kinds)
		first := Solve(p, 0)
		check.Must(t, first.Plan != nil, "%+v: there is a plan", size)
		mustBeValid(t, p, first.Plan)
		most := (rankVisits + 5*pruneVisits) * workPerVisit * (size.nodes*(1+f.size) + minProblemSize) * size.kinds
		check.That(t, first.Work <= most, "%+v: work %d, want at most %d", size, first.Work, most)
	}
}

// TestSolveReportsOutOfBudget: only a search of all sets finds this plan, and it needs nothing of the
// budget for refining.
func TestSolveReportsOutOfBudget(t *testing.T) {
	p := fullProblem(1, 2, 1, Job{Elastic: 1, Pods: []Pod{podOn(0, 1), {Usage: Amounts{2}, Loss: 3}}})
	got := Solve(p, 0)
	check.That(t, got.Plan != nil && got.OutOfBudget && reflect.DeepEqual(got.Plan.Victims, singlePods(0, 1)), "%+v, want pod 1, and that refining was cut", got)
	got = Solve(p, maxRefineWork)
	check.That(t, got.Plan != nil && !got.OutOfBudget && reflect.DeepEqual(got.Plan.Victims, singlePods(0, 1)), "%+v, want pod 1", got)
	p.PodSets[0].Count = 4
	got = Solve(p, 0)
	check.That(t, got.Plan == nil && !got.OutOfBudget, "%+v, want no plan, whatever is evicted", got)
}

// TestSearchOfAllSetsHasABound: a job can lose 15 pods. A pod needs 16 of them, which no bound shows: 8
// that release cards, and 8 that release CPU.
func TestSearchOfAllSetsHasABound(t *testing.T) {
	job := Job{Elastic: 15}
	for range 20 {
		job.Pods = append(job.Pods, Pod{Usage: Amounts{1, 0}}, Pod{Usage: Amounts{0, 1}})
	}

	p := fullProblem(1, 1, 8, job)
	p.PodSets[0].Request = Amounts{8, 8}
	p.Nodes[0].Free = Amounts{0, 0}
	got := Solve(p, maxRefineWork)
	check.That(t, got.Plan == nil && got.OutOfBudget, "%+v, want no plan, and that the search was cut", got)
}

// TestSolveRefusesMoreThanAllQuotas: no search is needed for that.
func TestSolveRefusesMoreThanAllQuotas(t *testing.T) {
	p := fleet{nodes: 100, gangs: 100, size: 8}.problem(1, 1)
	for range 40 {
		p.PodSets = append(p.PodSets, p.PodSets[0])
	}

	p.Quotas[0] = flatQuota(40)
	got := Solve(p, maxRefineWork)
	check.That(t, got.Plan == nil && !got.OutOfBudget && got.Work <= 41*200*workPerVisit, "%+v, want none, and at most a look at each node", got)

	p.Quotas[0] = flatQuota(41)
	check.Must(t, len(p.PodSets) == 41, "41 pod sets")
	check.Equal(t, "placed pods", 41, mustSolve(t, p, true).Placed())
}

// TestEmptyPodSetsCostNoWork: so that a caller can try how many pods of each kind fit.
func TestEmptyPodSetsCostNoWork(t *testing.T) {
	p := fleet{nodes: 100, gangs: 100, size: 8}.problem(20, 1)
	alone := Solve(p, maxRefineWork)
	for range 63 {
		empty := p.PodSets[0]
		empty.Count = 0
		p.PodSets = append(p.PodSets, empty)
	}
	got := Solve(p, maxRefineWork)
	check.That(t, alone.Plan != nil && got.Plan != nil && got.Work == alone.Work, "work %d with empty pod sets, want %d", got.Work, alone.Work)
	check.That(t, got.Plan != nil && len(got.Plan.Places) == 64 && got.Plan.Placed() == 20, "%+v, want 20 pods of the first of 64 pod sets", got.Plan)
}

func TestSolveIgnoresEmptyPodSets(t *testing.T) {
	p := fullProblem(1, 1, 1, gang(1, 0))
	empty := p.PodSets[0]
	empty.Count = 0
	p.PodSets = []PodSet{empty, p.PodSets[0], empty}
	check.Equal(t, "places", [][]int{nil, {0}, nil}, mustSolve(t, p, true).Places)
}
