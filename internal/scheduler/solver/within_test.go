package solver

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestLessEffortNeverMakesAPlanWrong: a choice that ends early has no plan or one
// that keeps all rules and takes nobody without need, and one that was not ended
// is what it would have been.
func TestLessEffortNeverMakesAPlanWrong(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"small": small, "middling": middling}) {
		seed.Check(t, func(t *rapid.T) {
			p := draw(t)
			answer := ChooseWithin(p, mostEffort)
			whole, effort := answer.Plan, answer.Effort
			most := rapid.IntRange(0, effort+1).Draw(t, "most")
			less := ChooseWithin(p, most)
			plan := less.Plan
			switch {
			case !less.Cut && !reflect.DeepEqual(less, answer):
				t.Fatalf("%+v, want %+v", less, answer)
			case plan == nil && whole != nil && !less.Cut:
				t.Fatal("no plan, and the choice was not cut")
			case plan == nil:
			case whole == nil:
				t.Fatalf("%+v, and no plan with more effort", plan)
			case broken(p, plan) != "" || needless(p, plan) != "":
				t.Fatalf("%s %s", broken(p, plan), needless(p, plan))
			case plan.Loss.compare(whole.Loss) < 0:
				t.Fatalf("loses %+v, with more effort %+v", plan.Loss, whole.Loss)
			}
		})
	}
}

// kinds is a fleet on which pods of many kinds wait, which take long to seat.
func (f fleet) kinds(kinds int) *Problem {
	p := f.problem(1, 1)
	for i := range kinds {
		c := p.Claims[0]
		c.Count, c.Request = 8, append(Amounts{1 + float64(i%3), 8000 * float64(1+i%5), 16e9}, make(Amounts, kinds)...)
		c.Request[3+i] = 1
		p.Claims = append(p.Claims, c)
	}
	for i := range p.Nodes {
		for range kinds {
			p.Nodes[i].Room = append(p.Nodes[i].Room, 1)
		}
	}
	p.Pools[0] = 100000
	return p
}

// TestTheFirstPlanIsLinear: without any effort for refining there is a plan, and
// what goes into it grows with nodes and pods, and with claims.
func TestTheFirstPlanIsLinear(t *testing.T) {
	for name, f := range map[string]fleet{"on a node each": {size: 8}, "spread": {size: 8, spread: true}, "elastic": {size: 8, elastic: true}} {
		t.Run(name, func(t *testing.T) {
			effort := func(nodes, kinds int) float64 {
				f.nodes, f.gangs = nodes, nodes
				p := f.kinds(kinds)
				first := ChooseWithin(p, 0)
				check.Must(t, first.Plan != nil, "%d nodes, %d kinds: there is a plan", nodes, kinds)
				why := broken(p, first.Plan)
				check.Must(t, why == "", "%v", why)
				return float64(first.Effort)
			}
			base := effort(250, 8)
			nodes, kinds := effort(1000, 8)/base, effort(250, 32)/base
			check.That(t, nodes < 6 && kinds < 6, "four times the nodes take %.1f times the effort, four times the kinds %.1f", nodes, kinds)
		})
	}
}

// TestTheFirstPlanIsBoundedWhateverTheRanks: each rank that loses anything takes a plan of
// its own, as far as the effort for ranks goes.
func TestTheFirstPlanIsBoundedWhateverTheRanks(t *testing.T) {
	for _, size := range []struct{ nodes, kinds, ranks int }{{250, 8, 6}, {250, 32, 6}, {1000, 8, 6}, {250, 8, 24}, {1000, 8, 500}} {
		f := fleet{size: 8, spread: true, nodes: size.nodes, gangs: size.nodes, ranks: size.ranks}
		p := f.kinds(size.kinds)
		first := ChooseWithin(p, 0)
		check.Must(t, first.Plan != nil, "%+v: there is a plan", size)
		why := broken(p, first.Plan)
		check.Must(t, why == "", "%v", why)
		most := (mostRanking + 5*mostPruning) * ofLook * (size.nodes*(1+f.size) + leastSize) * size.kinds
		check.That(t, first.Effort <= most, "%+v: effort %d, want at most %d", size, first.Effort, most)
	}
}

// TestWhatOnlyASearchFinds is not found without effort, and the answer says that
// there may be a plan.
func TestWhatOnlyASearchFinds(t *testing.T) {
	p := full(1, 2, 1, Job{Spare: 1, Pods: []Pod{on(0, 1), {Gives: Amounts{2}, Loss: 3}}})
	got := ChooseWithin(p, 0)
	check.That(t, got.Plan == nil && got.Cut, "%+v, want no plan, and that the choice was cut", got)
	got = ChooseWithin(p, mostEffort)
	check.That(t, got.Plan != nil && !got.Cut && reflect.DeepEqual(got.Plan.Take, pods(0, 1)), "%+v, want pod 1", got)
	p.Claims[0].Count = 4
	got = ChooseWithin(p, 0)
	check.That(t, got.Plan == nil && !got.Cut, "%+v, want no plan, whoever goes", got)
}

// TestMoreThanAllPoolsHave is refused without a search.
func TestMoreThanAllPoolsHave(t *testing.T) {
	p := fleet{nodes: 100, gangs: 100, size: 8}.problem(1, 1)
	for range 40 {
		p.Claims = append(p.Claims, p.Claims[0])
	}
	p.Pools[0] = 40
	if got := ChooseWithin(p, mostEffort); got.Plan != nil || got.Cut || got.Effort > 41*200*ofLook {
		t.Errorf("%+v, want none, and at most a look at each node", got)
	}
	p.Pools[0] = 41
	check.Must(t, len(p.Claims) == 41, "41 claims")
	if plan, _ := Choose(p); plan == nil || plan.Placed() != 41 {
		t.Errorf("%+v, want all 41", plan)
	}
}

func TestClaimsOfNobodyAreLeftOut(t *testing.T) {
	p := full(1, 1, 1, gang(1, 0))
	empty := p.Claims[0]
	empty.Count = 0
	p.Claims = []Claim{empty, p.Claims[0], empty}
	plan, ok := Choose(p)
	want := [][]int{nil, {0}, nil}
	check.That(t, ok && reflect.DeepEqual(plan.Place, want), "%+v, want places %v", plan, want)
}
