package capacitycard

import (
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCardsOfTheArguments: both readers read the mappings of cards alike.
func TestCardsOfTheArguments(t *testing.T) {
	for text, want := range map[string]card.Mappings{
		"cards: []": nil,
		"cards:\n- {resource: amd.com/gpu, modelLabel: amd.com/gpu.product-name}\n- {resource: a.b/c, model: \"210\", nodeSelector: {\"on\": \"true\"}}": {
			{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"},
			{Resource: "a.b/c", Model: "210", NodeSelector: map[string]string{"on": "true"}},
		},
		"cards: [{resource: a.b/c.shared, modelLabel: l, memoryLabel: m}]": {{Resource: "a.b/c.shared", ModelLabel: "l", MemoryLabel: "m"}},
	} {
		for reader, read := range readers {
			got := check.Value(parseArguments(check.Value(read(text))(t)))(t)

			check.That(t, got.cards.Equal(want), "%s: %v, want %v", reader, got.cards, want)
		}
	}
}

func TestMistakesInCardsAreRefused(t *testing.T) {
	for text, wants := range map[string][]string{
		"cards:":                                                                 {"argument cards", "write a list of entries"},
		"cards: amd.com/gpu":                                                     {"argument cards", "write a list of entries"},
		"cards: {resource: amd.com/gpu}":                                         {"argument cards", "write a list of entries"},
		"cards: [amd.com/gpu]":                                                   {"entry 1: write resource, and modelLabel or model"},
		"cards: [{resource: a.b/c, model: 210}]":                                 {"entry 1: model: write a text, in quotes"},
		"cards: [{resource: a.b/c, model: }]":                                    {"entry 1: model: write a text, in quotes"},
		"cards: [{resource: a.b/c}]":                                             {"entry 1: names no card: write modelLabel"},
		"cards: [{resource: a.b/c, model: X, modelLabel: l}]":                    {"entry 1: has modelLabel and model"},
		"cards: [{resource: a.b/c, Model: X}]":                                   {`entry 1: unknown key "Model"`},
		"cards: [{resource: a.b/c, model: X, nodeSelector: {pool: true}}]":       {`entry 1: nodeSelector: write the value of "pool" in quotes`},
		"cards: [{resource: a.b/c, model: X}, {resource: cpu, model: X}]":        {`entry 2, resource: "cpu" is no card`},
		"cards: [{resource: a.b/c, model: X}, {resource: a.b/c, modelLabel: l}]": {"entry 2: has the resource and the nodeSelector of another entry"},
	} {
		for _, read := range readers {
			mustRefuse(t, check.Value(read(text))(t), wants...)
		}
	}
}
