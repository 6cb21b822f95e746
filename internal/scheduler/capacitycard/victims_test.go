package capacitycard

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// need is a drawn case of victim choice, with the plainest way to check it.
type need struct {
	lacks amounts
	gives []amounts
}

var whats = []string{"cpu", "nvidia.com/gpu", quotaCards}

func drawNeed(t *rapid.T) need {
	draw := func(label string) amounts {
		a := amounts{}
		for _, what := range whats {
			a[what] = float64(rapid.IntRange(0, 4).Draw(t, label+" "+what))
		}
		return a
	}

	n := need{lacks: draw("lacks")}
	for range rapid.IntRange(0, 5).Draw(t, "candidates") {
		n.gives = append(n.gives, draw("gives"))
	}

	return n
}

// covers reports whether the picked candidates release everything that is missing.
func (n need) covers(picked []int) bool {
	for _, what := range whats {
		left := n.lacks[what]
		for _, i := range picked {
			left -= n.gives[i][what]
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// fewest is the size of the smallest subset that covers, math.MaxInt if none does.
func (n need) fewest() int {
	fewest := math.MaxInt
	for set := range 1 << len(n.gives) {
		var picked []int
		for i := range n.gives {
			if set&(1<<i) != 0 {
				picked = append(picked, i)
			}
		}

		if n.covers(picked) {
			fewest = min(fewest, len(picked))
		}
	}

	return fewest
}

// TestVictimsAreMinimal compares with every subset: what is picked is
// enough, each pick is needed, and nothing is picked only when not even all
// together are enough.
func TestVictimsAreMinimal(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		n := drawNeed(t)
		picked := irreducibleSubset(n.lacks, n.gives)
		fewest := n.fewest()
		check.Must(t, fewest < math.MaxInt || len(picked) == 0, "picked %v although all together are not enough", picked)
		check.Must(t, fewest == math.MaxInt || n.covers(picked), "picked %v, which is not enough", picked)

		for i := range picked {
			without := slices.Delete(slices.Clone(picked), i, i+1)
			check.Must(t, !n.covers(without), "picked %v, although %v is enough", picked, without)
		}
	})
}
