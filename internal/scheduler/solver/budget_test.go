package solver

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestSmallBudgetKeepsPlansValid: a budget bounds the work of a search. A search that ends at its budget reports that, and
// has a valid plan without needless victims, which may lose more. It finds a plan exactly if a search with the largest
// budget does. A search that stays within its budget has the same answer as that one. Problems are random.
func TestSmallBudgetKeepsPlansValid(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"small": smallProblem, "middling": midsizeProblem, "tree": smallTree}) {
		seed.Check(t, func(t *rapid.T) {
			p := draw(t)
			largest := Solve(p, MaxWork)
			smaller := Solve(p, rapid.IntRange(0, largest.Work+1).Draw(t, "budget"))
			check.Must(t, smaller.OutOfBudget || reflect.DeepEqual(smaller, largest), "within its budget: %+v, want %+v", smaller, largest)
			check.Must(t, (smaller.Plan == nil) == (largest.Plan == nil), "plan %+v, and with the largest budget %+v", smaller.Plan, largest.Plan)

			if smaller.Plan != nil {
				mustBeValid(t, p, smaller.Plan)
				mustNeedAllVictims(t, p, smaller.Plan)
				check.Must(t, smaller.Plan.Loss.compare(largest.Plan.Loss) >= 0, "loses %+v, with the largest budget %+v", smaller.Plan.Loss, largest.Plan.Loss)
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

// TestFirstPlanIsLinear: also on a large cluster, a session must not wait long for a first plan, which needs no budget for
// refining. Its work grows in proportion to the nodes with their pods, and to the kinds of pending pods: four times as
// many take less than six times the work. A gang has 8 pods; there are as many gangs as nodes.
func TestFirstPlanIsLinear(t *testing.T) {
	for t, f := range check.Cases(t, map[string]fleet{
		"each gang on one node":           {size: 8},
		"each gang on several nodes":      {size: 8, spread: true},
		"one job of elastic pods instead": {size: 8, elastic: true},
	}) {
		work := func(nodes, kinds int) float64 {
			f.nodes = nodes
			f.gangs = nodes
			p := f.kinds(kinds)
			first := Solve(p, 0)
			check.Must(t, first.Plan != nil, "%d nodes, %d kinds: there is no plan", nodes, kinds)
			mustBeValid(t, p, first.Plan)
			return float64(first.Work)
		}

		base := work(250, 8)
		ofNodes := work(1000, 8) / base
		ofKinds := work(250, 32) / base
		check.That(t, ofNodes < 6, "four times the nodes take %.1f times the work", ofNodes)
		check.That(t, ofKinds < 6, "four times the kinds take %.1f times the work", ofKinds)
	}
}

// TestFirstPlanIsBoundedForManyRanks: jobs of lower ranks are evicted first, so each rank that loses anything needs a plan
// of its own. The work of all of them is bounded by the nodes with their pods and the kinds of pending pods, however
// many ranks there are. The constants say how often each step may visit all nodes and pods for each kind.
func TestFirstPlanIsBoundedForManyRanks(t *testing.T) {
	for _, size := range []struct{ nodes, kinds, ranks int }{
		{nodes: 250, kinds: 8, ranks: 6},
		{nodes: 250, kinds: 32, ranks: 6},
		{nodes: 1000, kinds: 8, ranks: 6},
		{nodes: 250, kinds: 8, ranks: 24},
		{nodes: 1000, kinds: 8, ranks: 500},
	} {
		f := fleet{size: 8, spread: true, nodes: size.nodes, gangs: size.nodes, ranks: size.ranks}
		p := f.kinds(size.kinds)
		first := Solve(p, 0)
		check.Must(t, first.Plan != nil, "%+v: there is no plan", size)
		mustBeValid(t, p, first.Plan)
		maxWork := (rankVisits + 5*pruneVisits) * workPerVisit * (size.nodes*(1+f.size) + minProblemSize) * size.kinds

		check.That(t, first.Work <= maxWork, "%+v: work %d, want at most %d", size, first.Work, maxWork)
	}
}

// TestSolveReportsOutOfBudget: the job can lose one of its pods, of 1 card or of 2. Two pods are pending, so only the
// pod of 2 cards helps. The plan is found even without a budget; it is reported then that refining it was cut. For
// four pending pods there is no plan, whatever is evicted, and that is certain without a budget.
func TestSolveReportsOutOfBudget(t *testing.T) {
	s := newScene(`
		node n
		pending pods=2 cards=1
		job elastic running=n*2 elastic=1 whole=false
		pod elastic 0 cards=1 loss=1
		pod elastic 1 cards=2 loss=3`)
	for budget, wantOutOfBudget := range map[int]bool{0: true, MaxWork: false} {
		got := Solve(s.Problem, budget)
		check.Must(t, got.Plan != nil, "budget %d: no plan", budget)
		check.Equal(t, "victims", "elastic-1", s.formatVictims(got.Plan))
		check.Equal(t, fmt.Sprintf("out of budget %d", budget), wantOutOfBudget, got.OutOfBudget)
	}

	s.PodSets[0].Count = 4
	checkNoPlan(t, "four pending pods", Solve(s.Problem, 0))
}

// TestSearchOfAllSetsHasABound: a job can lose 15 of its 40 pods. The pending pod needs 16 of them: 8 that free a card,
// and 8 that free CPU. No simple bound shows that there is no plan, and all sets of 15 pods are too many to try. So
// the search ends, and reports that it was cut.
func TestSearchOfAllSetsHasABound(t *testing.T) {
	job := Job{Elastic: 15}
	for range 20 {
		job.Pods = append(job.Pods, Pod{Usage: Amounts{1, 0}}, Pod{Usage: Amounts{0, 1}})
	}

	p := fullProblem(1, 1, 8, job)
	p.PodSets[0].Request = Amounts{8, 8}
	p.Nodes[0].Free = Amounts{0, 0}
	got := Solve(p, MaxWork)
	check.Equal(t, "plan", nil, got.Plan)
	check.That(t, got.OutOfBudget, "the search does not report that it was cut")
}

// TestSolveRefusesMoreThanAllQuotas: 41 pods of one card each are pending, and the quota allows 40. The solver
// refuses that at once, with at most 200 looks for each of 41 pod sets, two at each of the 100 nodes. With a quota of
// 41 all of them are placed.
func TestSolveRefusesMoreThanAllQuotas(t *testing.T) {
	p := fleet{nodes: 100, gangs: 100, size: 8}.problem(1, 1)
	for range 40 {
		p.PodSets = append(p.PodSets, p.PodSets[0])
	}

	p.Quotas[0] = flatQuota(40)
	got := Solve(p, MaxWork)
	checkNoPlan(t, "a quota of 40", got)
	check.That(t, got.Work <= 41*200*workPerVisit, "work %d, want at most 200 looks for each pod set", got.Work)

	p.Quotas[0] = flatQuota(41)
	check.Equal(t, "placed pods", 41, mustSolve(t, p).Placed())
}

// TestEmptyPodSetsCostNoWork: a caller tries how many pods of each kind fit, with 0 for the other kinds. 63 kinds without
// pods beside one of 20 pods cost no work, and the plan still has a place for each kind.
func TestEmptyPodSetsCostNoWork(t *testing.T) {
	p := fleet{nodes: 100, gangs: 100, size: 8}.problem(20, 1)
	alone := Solve(p, MaxWork)

	for range 63 {
		empty := p.PodSets[0]
		empty.Count = 0
		p.PodSets = append(p.PodSets, empty)
	}
	got := Solve(p, MaxWork)
	check.Must(t, alone.Plan != nil && got.Plan != nil, "no plan: %+v, %+v", alone, got)
	check.Equal(t, "work with empty pod sets", alone.Work, got.Work)
	check.Equal(t, "pod sets in the plan", 64, len(got.Plan.Places))
	check.Equal(t, "placed pods", 20, got.Plan.Placed())
}

// TestSolvePlacesPodsBetweenEmptyPodSets: a plan has one list of nodes for each pod set, in the order of the problem.
// Pod sets without pods must not shift the others. Here the pod of the second set gets node 0, where the gang is
// evicted. The empty sets before and after it have no nodes.
func TestSolvePlacesPodsBetweenEmptyPodSets(t *testing.T) {
	p := newScene(`
		node n
		pending pods=0 cards=1
		pending pods=1 cards=1
		pending pods=0 cards=1
		job gang running=n loss=1`).Problem
	check.Equal(t, "places", [][]int{nil, {0}, nil}, mustSolve(t, p).Places)
}
