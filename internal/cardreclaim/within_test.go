package cardreclaim

import (
	"fmt"
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
			whole, effort := ChooseWithin(p, mostEffort)
			// Most steps of a choice come before the waiting pods are seated at its end.
			first := rapid.SampledFrom([]int{0, max(0, effort-50)}).Draw(t, "first")
			most := rapid.IntRange(first, effort+1).Draw(t, "most")
			plan, done := ChooseWithin(p, most)
			switch {
			case effort <= most && (done != effort || !reflect.DeepEqual(plan, whole)):
				t.Fatalf("%+v after %d, want %+v after %d", plan, done, whole, effort)
			case plan == nil:
			case whole == nil:
				t.Fatalf("%+v, and no plan with more effort", plan)
			case broken(p, plan) != "" || needless(p, plan) != "":
				t.Fatalf("%s %s", broken(p, plan), needless(p, plan))
			case plan.Loss.Less(whole.Loss):
				t.Fatalf("loses %+v, with more effort %+v", plan.Loss, whole.Loss)
			}
		})
	}
}

// TestEffortIsBounded: with claims of many kinds, which take long to seat, a
// choice ends soon after its bound.
func TestEffortIsBounded(t *testing.T) {
	for _, kinds := range []int{8, 64} {
		for _, f := range []fleet{{nodes: 100, gangs: 100, size: 8}, {nodes: 100, gangs: 100, size: 8, spread: true}, {nodes: 100, gangs: 100, size: 8, elastic: true}} {
			t.Run(fmt.Sprintf("%+v, %d kinds", f, kinds), func(t *testing.T) {
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
				p.Pools[0] = 10000
				const most = 2_000_000
				// One look at all is over once begun: at every unit where it runs, and at
				// the rows of the limits.
				if _, done := ChooseWithin(p, most); done > most+2_000_000 {
					t.Errorf("ends after %d, the bound is %d", done, most)
				} else {
					t.Logf("ends after %d", done)
				}
			})
		}
	}
}

// TestMoreThanAllPoolsHave is refused without a search.
func TestMoreThanAllPoolsHave(t *testing.T) {
	p := fleet{nodes: 100, gangs: 100, size: 8}.problem(1, 1)
	for range 40 {
		p.Claims = append(p.Claims, p.Claims[0])
	}
	p.Pools[0] = 40
	if plan, effort := ChooseWithin(p, mostEffort); plan != nil || effort > 41*200 {
		t.Errorf("%+v after %d, want none, and at most a look at each node", plan, effort)
	}
	p.Pools[0] = 41
	check.Must(t, len(p.Claims) == 41, "41 claims")
	if plan, _ := ChooseWithin(p, mostEffort); plan == nil || plan.Placed() != 41 {
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
