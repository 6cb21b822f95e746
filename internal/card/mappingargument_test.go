package card

import (
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func TestAnArgumentIsReadAsItWasWritten(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		_, mappings := drawMapped(t)
		if mappings.Validate() != nil {
			return
		}
		got := check.Value(ParseMappings(mappings.Argument()))(t)
		check.Must(t, got.Equal(mappings), "read %v, written %v", got, mappings)
	})
}

func TestParseMappings(t *testing.T) {
	entry := func(fields map[any]any) []any { return []any{fields} }
	got := check.Value(ParseMappings([]any{
		map[any]any{"resource": "amd.com/gpu", "modelLabel": "amd.com/gpu.product-name"},
		map[string]any{"resource": "a.b/c.shared", "model": "X", "memoryLabel": "m", "nodeSelector": map[any]any{"pool": "x"}},
	}))(t)
	check.Equal(t, "mappings", Mappings{amdByLabel, {Resource: "a.b/c.shared", Model: "X", MemoryLabel: "m", NodeSelector: map[string]string{"pool": "x"}}}, got)

	check.Equal(t, "nothing", nil, check.Value(ParseMappings([]any{}))(t), cmpopts.EquateEmpty())

	for t, tc := range check.Cases(t, map[string]struct {
		value any
		wants []string
	}{
		"nothing":              {nil, []string{"write a list of entries"}},
		"a text":               {"amd.com/gpu", []string{"write a list of entries"}},
		"a mapping":            {map[string]any{"resource": "x"}, []string{"write a list of entries"}},
		"an entry that is one": {[]any{"amd.com/gpu"}, []string{"entry 1: write resource, and modelLabel or model: it is not a mapping"}},
		"an unknown key":       {entry(map[any]any{"Resource": "amd.com/gpu"}), []string{`entry 1: unknown key "Resource": write memoryLabel, model`}},
		"a number as a key":    {entry(map[any]any{1: "amd.com/gpu"}), []string{`key "1" is not a word`}},
		"a number as a model":  {entry(map[any]any{"resource": "amd.com/gpu", "model": 210}), []string{"entry 1: model: write a text, in quotes"}},
		"a switch as a value":  {entry(map[any]any{"resource": "amd.com/gpu", "model": "X", "nodeSelector": map[any]any{"gpu": true}}), []string{`entry 1: nodeSelector: write the value of "gpu" in quotes`}},
		"a list as a selector": {entry(map[any]any{"resource": "amd.com/gpu", "model": "X", "nodeSelector": []any{}}), []string{"nodeSelector: write labels and values"}},
		"a mistake":            {entry(map[any]any{"resource": "cpu", "model": "X"}), []string{"entry 1, resource:"}},
	}) {
		_, err := ParseMappings(tc.value)
		check.Refused(t, err, tc.wants...)
	}
}
