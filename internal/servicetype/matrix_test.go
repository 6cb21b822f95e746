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

// names are the types of the default matrix, one that it does not name, and one
// that only looks like another.
var names = []string{Inference, Training, "notebook", "", "Training"}

func TestTheDefaultMatrixLetsInferenceTakeFromTrainingAndNothingElse(t *testing.T) {
	matrix := DefaultMatrix()
	for _, by := range names {
		for _, from := range names {
			want := by == "inference" && from == "training"
			check.Equal(t, fmt.Sprintf("%q may take from %q", by, from), want, matrix.CanReclaim(by, from))
		}
		check.Equal(t, fmt.Sprintf("%q takes from another type", by), by == "inference", matrix.Reclaims(by))
	}

	for _, name := range []string{Inference, Training} {
		builtIn, _ := BuiltIn(name)
		check.That(t, matrix[name].Reclaimable == builtIn.Reclaimable,
			"%s is reclaimable: %v in the matrix, %v as a queue", name, matrix[name].Reclaimable, builtIn.Reclaimable)
	}

	err := matrix.Validate()
	check.That(t, err == nil, "the default matrix is refused: %v", err)
}

func TestCallersCannotChangeTheDefaultMatrix(t *testing.T) {
	matrix := DefaultMatrix()
	matrix[Inference].ReclaimFrom[0] = "notebook"
	matrix["notebook"] = Rule{Reclaimable: true}
	again := DefaultMatrix()
	check.That(t, !again.CanReclaim(Inference, "notebook") && again.CanReclaim(Inference, Training),
		"a change of one copy changed the next: %v", again)
}

func TestMayReclaimNeedsBothSides(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		matrix     Matrix
		by, from   string
		may, takes bool
	}{
		"both sides agree":                    {Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}}, "a", "b", true, true},
		"the giver does not give":             {Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {}}, "a", "b", false, true},
		"the giver is not defined":            {Matrix{"a": {ReclaimFrom: []string{"b"}}}, "a", "b", false, true},
		"the taker does not take":             {Matrix{"a": {}, "b": {Reclaimable: true}}, "a", "b", false, false},
		"the taker takes from another":        {Matrix{"a": {ReclaimFrom: []string{"c"}}, "b": {Reclaimable: true}}, "a", "b", false, true},
		"the second of two":                   {Matrix{"a": {ReclaimFrom: []string{"c", "b"}}, "b": {Reclaimable: true}}, "a", "b", true, true},
		"never the other way round":           {Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}}, "b", "a", false, false},
		"not through a third":                 {Matrix{"a": {ReclaimFrom: []string{"c"}}, "c": {Reclaimable: true, ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}}, "a", "b", false, true},
		"a type without a name takes nothing": {Matrix{"b": {Reclaimable: true}}, "", "b", false, false},
		"an empty matrix allows nothing":      {nil, "inference", "training", false, false},
	}) {
		check.Equal(t, fmt.Sprintf("%s may take from %s", tc.by, tc.from), tc.may, tc.matrix.CanReclaim(tc.by, tc.from))

		check.Equal(t, fmt.Sprintf("%s takes from another type", tc.by), tc.takes, tc.matrix.Reclaims(tc.by))
	}
}

func TestValidateSaysWhatContradictsItself(t *testing.T) {
	takes := func(from ...string) Rule { return Rule{Reclaimable: true, ReclaimFrom: from} }
	ring := Matrix{}
	for i := range 100 {
		ring[fmt.Sprintf("t%062d", i)] = takes(fmt.Sprintf("t%062d", (i+1)%100))
	}

	for t, tc := range check.Cases(t, map[string]struct {
		matrix Matrix
		wants  []string
	}{
		"from itself":             {Matrix{"a": takes("a")}, []string{`type "a" takes from itself`}},
		"twice":                   {Matrix{"a": takes("b", "b"), "b": takes()}, []string{`type "a" takes from "b" twice: remove one`}},
		"from an unknown type":    {Matrix{"a": takes("trainin")}, []string{`type "a" takes from "trainin", which is not defined`}},
		"from one that keeps":     {Matrix{"a": takes("b"), "b": {}}, []string{`type "a" takes from "b", which is not reclaimable`}},
		"a circle of two":         {Matrix{"a": takes("b"), "b": takes("a")}, []string{"in a circle: a from b from a"}},
		"a circle of three":       {Matrix{"a": takes("b"), "b": takes("c"), "c": takes("a")}, []string{"in a circle: a from b from c from a"}},
		"a circle behind a door":  {Matrix{"a": takes("b"), "b": takes("c"), "c": takes("b")}, []string{"in a circle: b from c from b"}},
		"a circle of a hundred":   {ring, []string{"in a circle: t000"}},
		"a name with upper case":  {Matrix{"Training": takes()}, []string{`service type "Training" is no name`}},
		"a name with a space":     {Matrix{"batch jobs": takes()}, []string{`service type "batch jobs" is no name`}},
		"no name":                 {Matrix{"": takes()}, []string{`service type "" is no name`}},
		"every fault of the text": {Matrix{"a": takes("a", "x"), "B": {}}, []string{`"a" takes from itself`, `from "x", which is not defined`, `"B" is no name`}},
		"a long name":             {Matrix{"a": takes(strings.Repeat("x", 1<<20))}, []string{`which is not defined`}},
		"a name of control signs": {Matrix{"a": takes("\x1b[31m\nb")}, []string{`"\x1b[31m\nb", which is not defined`}},
		"a long name, many times": {Matrix{strings.Repeat("\x01", 1<<20): takes(strings.Repeat("\x01", 1<<20))}, []string{"takes from itself"}},
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

// TestValidateAcceptsExactlyWhatCanComeToRest compares with a matrix of who
// reaches whom, closed step by step.
func TestValidateAcceptsExactlyWhatCanComeToRest(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	good := 0
	bad := 0
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
		if want {
			good++
		} else {
			bad++
		}

		err := matrix.Validate()
		check.Must(t, (err == nil) == want, "%v: error %v, want accepted %v", matrix, err, want)
	})
	check.That(t, good != 0 && bad != 0, "%d good and %d bad matrices were tried", good, bad)
}

// comesToRest reports whether every entry is of use and no type can take, through
// others, from itself.
func comesToRest(matrix Matrix, all []string) bool {
	reaches := map[[2]string]bool{}
	for name, rule := range matrix {
		sorted := slices.Sorted(slices.Values(rule.ReclaimFrom))
		if len(slices.Compact(sorted)) != len(rule.ReclaimFrom) {
			return false
		}

		for _, from := range rule.ReclaimFrom {
			if giver, defined := matrix[from]; !defined || !giver.Reclaimable {
				return false
			}
			reaches[[2]string{name, from}] = true
		}
	}

	addIndirect(reaches, all)
	for _, name := range all {
		if reaches[[2]string{name, name}] {
			return false
		}
	}

	return true
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

func TestManyTypesAreJudgedAtOnce(t *testing.T) {
	matrix := Matrix{}
	const types = 300
	for i := range types {
		rule := Rule{Reclaimable: true}
		for j := i + 1; j < types; j++ {
			rule.ReclaimFrom = append(rule.ReclaimFrom, fmt.Sprint("t", j))
		}
		matrix[fmt.Sprint("t", i)] = rule
	}
	err := matrix.Validate()
	check.That(t, err == nil, "%d types, each taking from all after it: %v", types, err)
}
