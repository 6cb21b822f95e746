package servicetype

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// newTypes returns types with these priorities, named a, b, c and so on.
func newTypes(values ...int32) map[string]Type {
	types := map[string]Type{}
	for i, value := range values {
		types[string(rune('a'+i))] = Type{Priority: value}
	}
	return types
}

// TestBandEndsBelowTheNextHigherType: the priority of a queue is that of its service type, plus up to 9999 of its
// CardQuota. This band of type a ends below the next higher type, so that no queue of type a comes before one of
// that type. Next is that type, if it cuts the band. newTypes gives its numbers as priorities to types a, b and c.
// The band is always that of type a.
func TestBandEndsBelowTheNextHigherType(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		types map[string]Type
		want  Band
	}{
		"no other type":               {newTypes(20000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the next type is far above":  {newTypes(20000, 80000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the next type is just above": {newTypes(20000, 30000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the next type is 9999 above": {
			types: newTypes(20000, 29999),
			want:  Band{Type: "a", Lowest: 20000, Highest: 29998, Next: "b", NextPriority: 29999},
		},
		"two types are above: the lower one ends the band": {
			types: newTypes(20000, 25000, 24000),
			want:  Band{Type: "a", Lowest: 20000, Highest: 23999, Next: "c", NextPriority: 24000},
		},
		"two types of the same priority are above: the band names the first by name": {
			types: newTypes(20000, 25000, 25000),
			want:  Band{Type: "a", Lowest: 20000, Highest: 24999, Next: "b", NextPriority: 25000},
		},
		"the next type is 1 above": {
			types: newTypes(20000, 20001),
			want:  Band{Type: "a", Lowest: 20000, Highest: 20000, Next: "b", NextPriority: 20001},
		},
		"a type of the same priority": {newTypes(20000, 20000), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"other types are lower":       {newTypes(20000, 19999, 0), Band{Type: "a", Lowest: 20000, Highest: 29999}},
		"the largest number":          {newTypes(math.MaxInt32), Band{Type: "a", Lowest: math.MaxInt32, Highest: math.MaxInt32}},
		"the smallest number": {
			types: newTypes(math.MinInt32, math.MaxInt32),
			want:  Band{Type: "a", Lowest: math.MinInt32, Highest: math.MinInt32 + 9999},
		},
		"the next type has the largest priority": {
			types: newTypes(math.MaxInt32-1, math.MaxInt32),
			want:  Band{Type: "a", Lowest: math.MaxInt32 - 1, Highest: math.MaxInt32 - 1, Next: "b", NextPriority: math.MaxInt32},
		},
	}) {
		got, defined := BandFor("a", tc.types)
		check.That(t, defined, "a is not defined")
		check.Equal(t, "band", tc.want, got)
	}

	_, defined := BandFor("z", newTypes(1))
	check.That(t, !defined, "a type that is not defined has a band")
}

// TestPriorityIsCutToItsBand: notebook has priority 75,000, and the next type, inference, 80,000. So a CardQuota of
// notebook may add 0 to 4999. inference is the highest type, and its CardQuotas may add up to 9999. Check refuses
// more, with a hint, for the webhook. PriorityFor cuts it, for CardQuotas that are older than the policy.
func TestPriorityIsCutToItsBand(t *testing.T) {
	types := map[string]Type{"notebook": {Priority: 75000}, "inference": {Priority: 80000}}
	notebook, _ := BandFor("notebook", types)
	inference, _ := BandFor("inference", types)

	for t, tc := range check.Cases(t, map[string]struct {
		band      Band
		add, want int32
		refusal   string // "" if it is inside the band
	}{
		"nothing":                      {band: notebook, want: 75000},
		"the most below the next type": {band: notebook, add: 4999, want: 79999},
		"as much as the next type": {
			band: notebook,
			add:  5000,
			want: 79999,
			refusal: `priority 5000 puts a queue of service type "notebook" (priority 75000) at 80000, into the priorities of ` +
				`service type "inference", which begin at 80000: write 0 to 4999, or set the priorities of the two types further apart`,
		},
		"above the next type": {
			band:    notebook,
			add:     9999,
			want:    79999,
			refusal: `at 84999, into the priorities of service type "inference", which begin at 80000: write 0 to 4999`,
		},
		"the most without a next type": {band: inference, add: 9999, want: 89999},
		"more than 9999": {
			band:    inference,
			add:     10000,
			want:    89999,
			refusal: `priority 10000 of a queue of service type "inference" (priority 80000): write 0 to 9999`,
		},
		"a negative priority": {
			band:    notebook,
			add:     -1,
			want:    75000,
			refusal: `priority -1 of a queue of service type "notebook" (priority 75000): write 0 to 4999`,
		},
		"the largest number":  {band: notebook, add: math.MaxInt32, want: 79999, refusal: "at 2147558647, into"},
		"the smallest number": {band: notebook, add: math.MinInt32, want: 75000, refusal: "write 0 to 4999"},
	}) {
		got, isCut := tc.band.PriorityFor(tc.add)
		check.Equal(t, "priority", tc.want, got)
		check.Equal(t, "cut", tc.refusal != "", isCut)
		check.Says(t, tc.band.Check(tc.add), tc.refusal)
	}
}

// TestBandsKeepTypesApart: whatever priorities types and CardQuotas have, a queue of a higher type has a
// higher priority than each queue of a lower type. What a CardQuota adds to the priority of its type must be
// 0 to 9999. The sum must be below each higher type, and fit into int32. Else it is cut, and Check refuses
// it. Types and priorities are random.
func TestBandsKeepTypesApart(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		types := map[string]Type{}
		added := map[string]int32{}
		number := rapid.OneOf(rapid.Int32Range(0, 30000), rapid.Int32())
		for i := range rapid.IntRange(1, 6).Draw(t, "types") {
			name := fmt.Sprint("t", i)
			types[name] = Type{Priority: number.Draw(t, name)}
			added[name] = number.Draw(t, "added to "+name)
		}

		for low := range types {
			band, _ := BandFor(low, types)
			priority, cut := band.PriorityFor(added[low])
			fits := band.Check(added[low]) == nil
			check.Must(t, fits != cut, "%s: refused %v, cut %v", low, !fits, cut)
			check.Must(t, priority >= types[low].Priority && int64(priority) <= int64(types[low].Priority)+9999,
				"%s at %d: its queue is at %d", low, types[low].Priority, priority)

			sum := int64(types[low].Priority) + int64(added[low])
			mustBeCut := added[low] < 0 || added[low] > 9999
			for high, other := range types {
				if other.Priority <= types[low].Priority {
					continue
				}
				check.Must(t, priority < other.Priority, "%s at %d stands over %s at %d", low, priority, high, other.Priority)
				mustBeCut = mustBeCut || sum >= int64(other.Priority)
			}

			mustBeCut = mustBeCut || sum > math.MaxInt32
			check.Must(t, mustBeCut == cut, "%s: %d added is cut %v, want %v", low, added[low], cut, mustBeCut)
		}
	})
}
