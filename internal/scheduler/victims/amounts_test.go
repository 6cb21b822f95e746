package victims

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// victimChoice is a drawn choice of victims: the amounts that a node or quota lacks for a pod, and what each
// candidate would release.
type victimChoice struct {
	lacks      Amounts
	candidates []Amounts
}

var drawnResources = []string{"cpu", "nvidia.com/gpu", QuotaCards}

func drawVictimChoice(t *rapid.T) victimChoice {
	draw := func(label string) Amounts {
		a := Amounts{}
		for _, resource := range drawnResources {
			a[resource] = float64(rapid.IntRange(0, 4).Draw(t, label+" "+resource))
		}
		return a
	}

	c := victimChoice{lacks: draw("lacks")}
	for range rapid.IntRange(0, 5).Draw(t, "candidates") {
		c.candidates = append(c.candidates, draw("gives"))
	}
	return c
}

// suffices reports whether the picked candidates release everything that is missing.
func (c victimChoice) suffices(picked []int) bool {
	for _, resource := range drawnResources {
		missing := c.lacks[resource]
		for _, i := range picked {
			missing -= c.candidates[i][resource]
		}
		if missing > 0 {
			return false
		}
	}
	return true
}

// TestVictimsAreMinimal draws up to five candidates for eviction and what a pod lacks, 0 to 4 of each of three
// resources. The picked victims suffice, and without any one of them they would not: no pod is evicted in vain. If
// not even all candidates together suffice, none is picked.
func TestVictimsAreMinimal(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		c := drawVictimChoice(t)
		var all []int
		for i := range c.candidates {
			all = append(all, i)
		}

		picked := irreducibleSubset(c.lacks, c.candidates)
		if !c.suffices(all) {
			check.Must(t, len(picked) == 0, "picked %v although all together do not suffice", picked)
			return
		}

		check.Must(t, c.suffices(picked), "picked %v, which does not suffice", picked)
		for i := range picked {
			without := slices.Delete(slices.Clone(picked), i, i+1)
			check.Must(t, !c.suffices(without), "picked %v, although %v suffices", picked, without)
		}
	})
}
