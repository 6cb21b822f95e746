package card

import (
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestAWrittenArgumentIsReadBack: the operator writes spec.cards of the policy into the scheduler's configuration, as
// argument "cards" of the plugin. The plugin must read the same mappings. Random mappings that are valid are read as
// they were written.
func TestAWrittenArgumentIsReadBack(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		_, mappings := drawNodeAndMappings(t)
		if mappings.Validate() != nil {
			return
		}
		got := check.Value(ParseMappings(mappings.Argument()))(t)
		check.Must(t, got.Equal(mappings), "read %v, written %v", got, mappings)
	})
}

// TestParseMappingsReadsListsOfEntries: YAML libraries return an entry as a map with keys of any type or of strings.
// Both are read. An empty list has no mappings.
func TestParseMappingsReadsListsOfEntries(t *testing.T) {
	got := check.Value(ParseMappings([]any{
		map[any]any{"resource": "amd.com/gpu", "modelLabel": "amd.com/gpu.product-name"},
		map[string]any{"resource": "a.b/c.shared", "model": "X", "memoryLabel": "m", "nodeSelector": map[any]any{"pool": "x"}},
	}))(t)
	check.Equal(t, "mappings", Mappings{
		{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"},
		{Resource: "a.b/c.shared", Model: "X", MemoryLabel: "m", NodeSelector: map[string]string{"pool": "x"}},
	}, got)

	check.Equal(t, "mappings of an empty list", nil, check.Value(ParseMappings([]any{}))(t), cmpopts.EquateEmpty())
}

// TestParseMappingsRefusesAndSaysWhy: administrators may write argument "cards" by hand. An error names the entry,
// and says what to write. YAML reads a number, or true, without quotes as something else than a text, so both are
// refused.
func TestParseMappingsRefusesAndSaysWhy(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		argument any
		want     string
	}{
		"no value":                    {nil, "write a list of entries"},
		"a text in place of a list":   {"amd.com/gpu", "write a list of entries"},
		"an entry in place of a list": {map[string]any{"resource": "x"}, "write a list of entries"},
		"an entry that is a text":     {[]any{"amd.com/gpu"}, "entry 1: write resource, and modelLabel or model: it is not a mapping"},
		"an entry with an unknown key": {
			argument: []any{map[any]any{"Resource": "amd.com/gpu"}},
			want:     `entry 1: unknown key "Resource": write memoryLabel, model`,
		},
		"an entry with a number as a key": {
			argument: []any{map[any]any{1: "amd.com/gpu"}},
			want:     `key "1" is not a word`,
		},
		"an entry with a number as model": {
			argument: []any{map[any]any{"resource": "amd.com/gpu", "model": 210}},
			want:     "entry 1: model: write a text, in quotes",
		},
		"a nodeSelector with true as a value": {
			argument: []any{map[any]any{"resource": "amd.com/gpu", "model": "X", "nodeSelector": map[any]any{"gpu": true}}},
			want:     `entry 1: nodeSelector: write the value of "gpu" in quotes`,
		},
		"a nodeSelector that is a list": {
			argument: []any{map[any]any{"resource": "amd.com/gpu", "model": "X", "nodeSelector": []any{}}},
			want:     "nodeSelector: write labels and values",
		},
		"an entry that is no valid mapping: CPU is no card": {
			argument: []any{map[any]any{"resource": "cpu", "model": "X"}},
			want:     "entry 1, resource:",
		},
	}) {
		_, err := ParseMappings(tc.argument)

		check.Refused(t, err, tc.want)
	}
}
