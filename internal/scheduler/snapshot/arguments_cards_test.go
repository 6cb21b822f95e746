package snapshot

import (
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestBothReadersGiveTheSameCards: the argument cards gives names to cards for which the plugin knows no label of nodes. An
// entry names a label that has the model, or the model itself for all nodes that a selector matches. memoryLabel is a
// label with the memory of a shared card. Volcano and our configuration loader read the argument with different YAML
// libraries (readers), and get the same.
func TestBothReadersGiveTheSameCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		yaml string
		want card.Mappings
	}{
		"no entries": {"cards: []", nil},
		"a label, and a model for some nodes, with texts in quotes that look like a number and booleans": {`
cards:
- {resource: amd.com/gpu, modelLabel: amd.com/gpu.product-name}
- {resource: a.b/c, model: "210", nodeSelector: {"on": "true"}}`[1:],
			card.Mappings{
				{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"},
				{Resource: "a.b/c", Model: "210", NodeSelector: map[string]string{"on": "true"}},
			}},
		"a shared card with a label of its memory": {
			"cards: [{resource: a.b/c.shared, modelLabel: l, memoryLabel: m}]",
			card.Mappings{{Resource: "a.b/c.shared", ModelLabel: "l", MemoryLabel: "m"}}},
	}) {
		for reader, read := range readers {
			got := check.Value(ParseArguments(check.Value(read(tc.yaml))(t)))(t)

			check.That(t, got.Cards.Equal(tc.want), "%s reads %v, want %v", reader, got.Cards, tc.want)
		}
	}
}

// TestMistakesInCardsAreRefused: the argument cards is a list of entries. A mistake in it is refused, whether Volcano
// or our configuration loader read the YAML (readers). The message says what is wrong or what to write. For a mistake
// in an entry it also has the number of the entry.
func TestMistakesInCardsAreRefused(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ yaml, want string }{
		"nothing instead of a list":   {"cards:", "write a list of entries"},
		"a text instead of a list":    {"cards: amd.com/gpu", "write a list of entries"},
		"a mapping instead of a list": {"cards: {resource: amd.com/gpu}", "write a list of entries"},
		"a text instead of an entry":  {"cards: [amd.com/gpu]", "entry 1: write resource, and modelLabel or model"},
		"the model is a number":       {"cards: [{resource: a.b/c, model: 210}]", "entry 1: model: write a text, in quotes"},
		"the model has no value":      {"cards: [{resource: a.b/c, model: }]", "entry 1: model: write a text, in quotes"},
		"neither model nor label":     {"cards: [{resource: a.b/c}]", "entry 1: names no card: write modelLabel"},
		"both model and label":        {"cards: [{resource: a.b/c, model: X, modelLabel: l}]", "entry 1: has modelLabel and model"},
		"an unknown key":              {"cards: [{resource: a.b/c, Model: X}]", `entry 1: unknown key "Model"`},
		"the node selector has a boolean": {
			"cards: [{resource: a.b/c, model: X, nodeSelector: {pool: true}}]", `entry 1: nodeSelector: write the value of "pool" in quotes`},
		"the second of two entries is for CPU": {
			"cards: [{resource: a.b/c, model: X}, {resource: cpu, model: X}]", `entry 2, resource: "cpu" is no card`},
		"two entries for the same nodes and resource": {
			"cards: [{resource: a.b/c, model: X}, {resource: a.b/c, modelLabel: l}]",
			"entry 2: has the resource and the nodeSelector of another entry"},
	}) {
		for _, read := range readers {
			expectRefusal(t, check.Value(read(tc.yaml))(t), "argument cards", tc.want)
		}
	}
}
