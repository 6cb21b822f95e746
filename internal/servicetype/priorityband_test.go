package servicetype

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// priorities are types with these priorities, named a, b, c and so on.
func priorities(values ...int32) map[string]Type {
	types := map[string]Type{}
	for i, value := range values {
		types[string(rune('a'+i))] = Type{Priority: value}
	}
	return types
}

func TestBandFor(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		types map[string]Type
		want  Band
	}{
		"alone":                              {priorities(20000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the next type is far above":         {priorities(20000, 80000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the next type is just above":        {priorities(20000, 30000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the next type is inside":            {priorities(20000, 29999), Band{Type: "a", Lowest: 20000, Highest: 29998, Next: "b", NextPriority: 29999}},
		"the nearest of two":                 {priorities(20000, 25000, 24000), Band{Type: "a", Lowest: 20000, Highest: 23999, Next: "c", NextPriority: 24000}},
		"the first by name of two":           {priorities(20000, 25000, 25000), Band{Type: "a", Lowest: 20000, Highest: 24999, Next: "b", NextPriority: 25000}},
		"no room":                            {priorities(20000, 20001), Band{Type: "a", Lowest: 20000, Highest: 20000, Next: "b", NextPriority: 20001}},
		"a type of the same priority":        {priorities(20000, 20000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"lower types":                        {priorities(20000, 19999, 0), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the largest number":                 {priorities(math.MaxInt32), Band{Type: "a", Lowest: math.MaxInt32, Highest: math.MaxInt32}},
		"the smallest number":                {priorities(math.MinInt32, math.MaxInt32), Band{Type: "a", Lowest: math.MinInt32, Highest: math.MinInt32 + 9999}},
		"a type that nothing can stand over": {priorities(math.MaxInt32-1, math.MaxInt32), Band{Type: "a", Lowest: math.MaxInt32 - 1, Highest: math.MaxInt32 - 1, Next: "b", NextPriority: math.MaxInt32}},
	}) {
		got, defined := BandFor("a", tc.types)
		check.That(t, defined, "a is not defined")
		check.Equal(t, "band", tc.want, got)
	}

	_, defined := BandFor("z", priorities(1))
	check.That(t, !defined, "a type that is not defined has a band")
}

func TestPriorityInsideABand(t *testing.T) {
	types := map[string]Type{"notebook": {Priority: 75000}, "inference": {Priority: 80000}}
	notebook, _ := BandFor("notebook", types)
	inference, _ := BandFor("inference", types)
	for t, tc := range check.Cases(t, map[string]struct {
		band         Band
		inside, want int32
		refusal      string // "" when it is inside
	}{
		"the lowest":           {notebook, 0, 75000, ""},
		"the highest":          {notebook, 4999, 79999, ""},
		"that of the next":     {notebook, 5000, 79999, `priority 5000 puts a queue of service type "notebook" (priority 75000) at 80000, into the priorities of service type "inference", which begin at 80000: write 0 to 4999, or set the priorities of the two types further apart`},
		"above the next":       {notebook, 9999, 79999, `at 84999, into the priorities of service type "inference", which begin at 80000: write 0 to 4999`},
		"the highest of all":   {inference, 9999, 89999, ""},
		"more than the widest": {inference, 10000, 89999, `priority 10000 of a queue of service type "inference" (priority 80000): write 0 to 9999`},
		"a negative one":       {notebook, -1, 75000, `priority -1 of a queue of service type "notebook" (priority 75000): write 0 to 4999`},
		"the largest number":   {notebook, math.MaxInt32, 79999, "at 2147558647, into"},
		"the smallest number":  {notebook, math.MinInt32, 75000, "write 0 to 4999"},
	}) {
		got, cut := tc.band.PriorityFor(tc.inside)
		check.That(t, got == tc.want && cut == (tc.refusal != ""), "priority %d, cut %v; want %d", got, cut, tc.want)

		err := tc.band.Check(tc.inside)
		if tc.refusal == "" {
			check.NoError(t, err)
			continue
		}
		check.Says(t, err, tc.refusal)
	}
}

// TestBandsKeepTypesApart: whatever the types and the priorities inside them, the queues of a higher
// type stand above those of a lower one.
func TestBandsKeepTypesApart(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		types := map[string]Type{}
		inside := map[string]int32{}
		number := rapid.OneOf(rapid.Int32Range(0, 30000), rapid.Int32())
		for i := range rapid.IntRange(1, 6).Draw(t, "types") {
			name := fmt.Sprint("t", i)
			types[name] = Type{Priority: number.Draw(t, name)}
			inside[name] = number.Draw(t, "inside "+name)
		}

		for low := range types {
			band, _ := BandFor(low, types)
			own, cut := band.PriorityFor(inside[low])
			fits := band.Check(inside[low]) == nil
			check.Must(t, fits != cut, "%s: refused %v, cut %v", low, !fits, cut)
			check.Must(t, own >= types[low].Priority && int64(own) <= int64(types[low].Priority)+9999, "%s at %d: its queue is at %d", low, types[low].Priority, own)

			wanted := int64(types[low].Priority) + int64(inside[low])
			blocked := inside[low] < 0 || inside[low] > 9999
			for high, other := range types {
				if other.Priority <= types[low].Priority {
					continue
				}
				check.Must(t, own < other.Priority, "%s at %d stands over %s at %d", low, own, high, other.Priority)
				blocked = blocked || wanted >= int64(other.Priority)
			}

			blocked = blocked || wanted > math.MaxInt32
			check.Must(t, blocked == cut, "%s: %d inside is cut %v, want %v", low, inside[low], cut, blocked)
		}
	})
}
