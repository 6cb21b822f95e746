package servicetype

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// someNames are the types of the default matrix, one that it does not name, and one that only looks like another.
var someNames = []string{Inference, Training, "notebook", "", "Training"}

// TestByDefaultInferenceReclaimsFromTrainingAndNothingElse: the reclaim matrix says which service type takes cards
// back from which. Without a policy, inference does from training. No other pair of inference, training, notebook, ""
// and "Training" may. The built-in types, which queues follow, are reclaimable as in the matrix. The matrix is valid.
func TestByDefaultInferenceReclaimsFromTrainingAndNothingElse(t *testing.T) {
	matrix := DefaultMatrix()
	for _, by := range someNames {
		for _, from := range someNames {
			check.Equal(t, fmt.Sprintf("%q may reclaim from %q", by, from), (by == "inference" && from == "training"), matrix.CanReclaim(by, from))
		}
		check.Equal(t, fmt.Sprintf("%q reclaims from any type", by), by == "inference", matrix.Reclaims(by))
	}

	for _, name := range []string{Inference, Training} {
		builtIn, _ := BuiltIn(name)
		check.Equal(t, name+" is reclaimable, as its queues are", builtIn.Reclaimable, matrix[name].Reclaimable)
	}
	check.NoError(t, matrix.Validate())
}

// TestCallersCannotChangeTheDefaultMatrix: by default inference reclaims from training. A caller changes its copy of
// this matrix, also within a slice of it, to notebook. The next copy must still say training, and not notebook.
func TestCallersCannotChangeTheDefaultMatrix(t *testing.T) {
	matrix := DefaultMatrix()
	matrix[Inference].ReclaimFrom[0] = "notebook"
	matrix["notebook"] = Rule{Reclaimable: true}

	again := DefaultMatrix()
	check.That(t, !again.CanReclaim(Inference, "notebook"), "the next copy has the change: %v", again)
	check.That(t, again.CanReclaim(Inference, Training), "the next copy lacks what the change replaced: %v", again)
}

// TestReclaimNeedsBothTypes: type a may take cards back from type b only if a lists b in reclaimFrom, and b is
// reclaimable. Reclaims says whether a lists any type at all.
func TestReclaimNeedsBothTypes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		matrix                       Matrix
		by, from                     string
		wantCanReclaim, wantReclaims bool
	}{
		"a lists b, b is reclaimable: yes": {
			matrix:         Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}},
			by:             "a",
			from:           "b",
			wantCanReclaim: true,
			wantReclaims:   true,
		},
		"b is not reclaimable": {
			matrix:       Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {}},
			by:           "a",
			from:         "b",
			wantReclaims: true,
		},
		"b is not defined": {matrix: Matrix{"a": {ReclaimFrom: []string{"b"}}}, by: "a", from: "b", wantReclaims: true},
		"a lists no type":  {matrix: Matrix{"a": {}, "b": {Reclaimable: true}}, by: "a", from: "b"},
		"a lists another type": {
			matrix:       Matrix{"a": {ReclaimFrom: []string{"c"}}, "b": {Reclaimable: true}},
			by:           "a",
			from:         "b",
			wantReclaims: true,
		},
		"a lists b as the second type: yes": {
			matrix:         Matrix{"a": {ReclaimFrom: []string{"c", "b"}}, "b": {Reclaimable: true}},
			by:             "a",
			from:           "b",
			wantCanReclaim: true,
			wantReclaims:   true,
		},
		"only a lists b, and b reclaims from a": {
			matrix: Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}},
			by:     "b",
			from:   "a",
		},
		"a lists c, and c lists b": {
			matrix:       Matrix{"a": {ReclaimFrom: []string{"c"}}, "c": {Reclaimable: true, ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}},
			by:           "a",
			from:         "b",
			wantReclaims: true,
		},
		"a type without a name": {matrix: Matrix{"b": {Reclaimable: true}}, from: "b"},
		"an empty matrix":       {by: "inference", from: "training"},
	}) {
		check.Equal(t, tc.by+" may reclaim from "+tc.from, tc.wantCanReclaim, tc.matrix.CanReclaim(tc.by, tc.from))

		check.Equal(t, tc.by+" reclaims from any type", tc.wantReclaims, tc.matrix.Reclaims(tc.by))
	}
}

// TestValidateSaysWhatContradictsItself: a matrix in which types take the same cards from each other in turn
// would never come to rest. An entry that has no effect is a mistake, too. Validate says all such faults,
// each printable and short enough for an event, at most 1,024 bytes.
func TestValidateSaysWhatContradictsItself(t *testing.T) {
	reclaimFrom := func(from ...string) Rule { return Rule{Reclaimable: true, ReclaimFrom: from} }
	ring := Matrix{}
	for i := range 100 {
		ring[fmt.Sprintf("t%062d", i)] = reclaimFrom(fmt.Sprintf("t%062d", (i+1)%100))
	}

	for t, tc := range check.Cases(t, map[string]struct {
		matrix Matrix
		wants  []string
	}{
		"a type reclaims from itself": {Matrix{"a": reclaimFrom("a")}, []string{`type "a" takes from itself`}},
		"a type lists another one twice": {
			matrix: Matrix{"a": reclaimFrom("b", "b"), "b": reclaimFrom()},
			wants:  []string{`type "a" takes from "b" twice: remove one`},
		},
		"a type reclaims from an unknown one": {
			matrix: Matrix{"a": reclaimFrom("trainin")},
			wants:  []string{`type "a" takes from "trainin", which is not defined`},
		},
		"a type reclaims from one that is not reclaimable": {
			matrix: Matrix{"a": reclaimFrom("b"), "b": {}},
			wants:  []string{`type "a" takes from "b", which is not reclaimable`},
		},
		"a circle of two": {
			matrix: Matrix{"a": reclaimFrom("b"), "b": reclaimFrom("a")},
			wants:  []string{"in a circle: a from b from a"},
		},
		"a circle of three": {
			matrix: Matrix{"a": reclaimFrom("b"), "b": reclaimFrom("c"), "c": reclaimFrom("a")},
			wants:  []string{"in a circle: a from b from c from a"},
		},
		"a circle of two behind a third": {
			matrix: Matrix{"a": reclaimFrom("b"), "b": reclaimFrom("c"), "c": reclaimFrom("b")},
			wants:  []string{"in a circle: b from c from b"},
		},
		"a circle of a hundred":  {ring, []string{"in a circle: t000"}},
		"a name with upper case": {Matrix{"Training": reclaimFrom()}, []string{`service type "Training" is no name`}},
		"a name with a space":    {Matrix{"batch jobs": reclaimFrom()}, []string{`service type "batch jobs" is no name`}},
		"no name":                {Matrix{"": reclaimFrom()}, []string{`service type "" is no name`}},
		"three faults": {
			matrix: Matrix{"a": reclaimFrom("a", "x"), "B": {}},
			wants:  []string{`"a" takes from itself`, `from "x", which is not defined`, `"B" is no name`},
		},
		"a long name":                  {Matrix{"a": reclaimFrom(strings.Repeat("x", 1<<20))}, []string{`which is not defined`}},
		"a name of control characters": {Matrix{"a": reclaimFrom("\x1b[31m\nb")}, []string{`"\x1b[31m\nb", which is not defined`}},
		"a long name, many times": {
			matrix: Matrix{strings.Repeat("\x01", 1<<20): reclaimFrom(strings.Repeat("\x01", 1<<20))},
			wants:  []string{"takes from itself"},
		},
	}) {
		err := tc.matrix.Validate()
		check.Must(t, err != nil, "accepted")
		check.Contains(t, "error", err.Error(), tc.wants...)
		for _, fault := range strings.Split(err.Error(), "\n") {
			check.That(t, len(fault) <= 1024 && !strings.ContainsFunc(fault, func(r rune) bool { return !unicode.IsPrint(r) }),
				"a fault of %d bytes, %.200q", len(fault), fault)
		}
	}
}

// TestValidateAcceptsExactlyWhatCanComeToRest: a matrix is valid if each type in a ReclaimFrom is there once, is
// defined and is reclaimable. Also, no type may take cards from itself through others. The test finds that out in
// another way: it computes which types reach which, step by step. Matrices are random, and both valid and invalid
// ones must occur.
func TestValidateAcceptsExactlyWhatCanComeToRest(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	drawn := map[bool]int{} // by whether they are valid

	seed.Check(t, func(t *rapid.T) {
		matrix := Matrix{}
		for _, name := range all {
			if rapid.IntRange(0, 9).Draw(t, "defined "+name) == 0 {
				continue
			}
			matrix[name] = Rule{
				Reclaimable: rapid.IntRange(0, 3).Draw(t, "reclaimable "+name) > 0,
				ReclaimFrom: rapid.SliceOfN(rapid.SampledFrom(all), 0, rapid.IntRange(0, 2).Draw(t, "most")).Draw(t, "from "+name),
			}
		}

		want := comesToRest(matrix, all)
		drawn[want]++
		err := matrix.Validate()
		check.Must(t, (err == nil) == want, "%v: error %v, want accepted %v", matrix, err, want)
	})
	check.Equal(t, "kinds of matrices that were drawn", 2, len(drawn)) // valid and invalid ones
}

// comesToRest reports whether every entry is of use and no type can take, through
// others, from itself.
func comesToRest(matrix Matrix, all []string) bool {
	reaches := map[[2]string]bool{}
	for name, rule := range matrix {
		if len(slices.Compact(slices.Sorted(slices.Values(rule.ReclaimFrom)))) != len(rule.ReclaimFrom) {
			return false
		}

		for _, from := range rule.ReclaimFrom {
			if victimType, defined := matrix[from]; !defined || !victimType.Reclaimable {
				return false
			}
			reaches[[2]string{name, from}] = true
		}
	}

	addIndirect(reaches, all)
	return !slices.ContainsFunc(all, func(name string) bool { return reaches[[2]string{name, name}] })
}

// addIndirect adds the pairs that take from each other through other types.
func addIndirect(reaches map[[2]string]bool, all []string) {
	for _, through := range all {
		for _, by := range all {
			for _, from := range all {
				if reaches[[2]string{by, through}] && reaches[[2]string{through, from}] {
					reaches[[2]string{by, from}] = true
				}
			}
		}
	}
}

// TestManyTypesAreValidatedFast: 300 types that reclaim from all types after them have 2^298 paths, too many to
// walk. The validation looks at each entry once, so it accepts them at once.
func TestManyTypesAreValidatedFast(t *testing.T) {
	matrix := Matrix{}
	const types = 300
	for i := range types {
		rule := Rule{Reclaimable: true}
		for j := i + 1; j < types; j++ {
			rule.ReclaimFrom = append(rule.ReclaimFrom, fmt.Sprint("t", j))
		}
		matrix[fmt.Sprint("t", i)] = rule
	}
	check.NoError(t, matrix.Validate())
}
