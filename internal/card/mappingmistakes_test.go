package card

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestWrongMappingsAreRefusedWithTheEntry: spec.cards has up to 64 entries. Each names an extended resource
// of a device plugin and one model, by name or by label. Resources that end with .shared are shares of cards.
// An error says which entry and field is wrong, and what to write. amdByLabel is an entry for amd.com/gpu
// without nodeSelector, and intelFlex one for gpu.intel.com/i915; both are valid.
func TestWrongMappingsAreRefusedWithTheEntry(t *testing.T) {
	labels := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}

	for t, tc := range check.Cases(t, map[string]struct {
		mappings   Mappings
		wantErrors []string // none if the mappings are valid
	}{
		"valid entries": {mappings: Mappings{
			amdByLabel,
			intelFlex,
			{Resource: "amd.com/gpu", Model: "MI210", NodeSelector: map[string]string{"pool": ""}},
			{Resource: "a.b/c.shared", Model: "X", MemoryLabel: "a.b/c.memory"},
			{Resource: "nvidia.com/mig-1g.18gb", Model: "X"},
		}},
		"an entry without a model and without a label of it": {
			mappings:   Mappings{{Resource: "amd.com/gpu"}},
			wantErrors: []string{"entry 1: names no card: write modelLabel"},
		},
		"an entry with a model and a label of it": {
			mappings:   Mappings{amdByLabel, {Resource: "a.b/c", Model: "X", ModelLabel: "l"}},
			wantErrors: []string{"entry 2: has modelLabel and model: keep one"},
		},
		"the resource is CPU": {
			mappings:   Mappings{{Resource: "cpu", Model: "X"}},
			wantErrors: []string{`entry 1, resource: "cpu" is no card`, "for example amd.com/gpu"},
		},
		"the resource is memory": {
			mappings:   Mappings{{Resource: "memory", Model: "X"}},
			wantErrors: []string{`"memory" is no card`},
		},
		"the resource is huge pages": {
			mappings:   Mappings{{Resource: "hugepages-2Mi", Model: "X"}},
			wantErrors: []string{`is no card`},
		},
		"the resource is one of Kubernetes": {
			mappings:   Mappings{{Resource: "scheduling.kubernetes.io/x", Model: "X"}},
			wantErrors: []string{`is no card`},
		},
		"an entry without a resource": {
			mappings:   Mappings{{Model: "X"}},
			wantErrors: []string{`"" is no card`},
		},
		"the resource has a space": {
			mappings:   Mappings{{Resource: "a.b/c d", Model: "X"}},
			wantErrors: []string{"is no name of a resource"},
		},
		"the model has a space": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "Instinct MI300X"}},
			wantErrors: []string{"entry 1, model:", "is no card model"},
		},
		"the model is the name of a slice": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X/mig-1g.18gb-mixed"}},
			wantErrors: []string{"is no card model"},
		},
		"the MIG profile of the resource is in capitals": {
			mappings:   Mappings{{Resource: "nvidia.com/mig-1G.10GB", Model: "X"}},
			wantErrors: []string{"entry 1, model:", "after the model write"}, // with the profile it makes no card name
		},
		"modelLabel is no key of a label": {
			mappings:   Mappings{{Resource: "a.b/c", ModelLabel: "a/b/c"}},
			wantErrors: []string{"entry 1, modelLabel:", "is no key of a label"},
		},
		"whole cards have memoryLabel, which only shares need": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", MemoryLabel: "m"}},
			wantErrors: []string{"entry 1, memoryLabel: has no effect"},
		},
		"shares without memoryLabel": {
			mappings:   Mappings{{Resource: "a.b/c.shared", Model: "X"}},
			wantErrors: []string{"entry 1, memoryLabel: is missing"},
		},
		"memoryLabel is no key of a label": {
			mappings:   Mappings{{Resource: "a.b/c.shared", Model: "X", MemoryLabel: " "}},
			wantErrors: []string{"memoryLabel:", "is no key of a label"},
		},
		"nodeSelector has a wrong key": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: map[string]string{"a b": "c"}}},
			wantErrors: []string{"nodeSelector:", "is no key of a label"},
		},
		"nodeSelector has a wrong value": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: map[string]string{"a": "b c"}}},
			wantErrors: []string{"is no value of a label"},
		},
		"nodeSelector has 17 labels": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: labels(17)}},
			wantErrors: []string{"17 labels, at most 16"},
		},
		"two entries for the same resource and nodes": {
			mappings:   Mappings{amdByLabel, {Resource: "amd.com/gpu", Model: "X"}},
			wantErrors: []string{"entry 2: has the resource and the nodeSelector of another entry"},
		},
		"65 entries": {
			mappings:   make(Mappings, 65),
			wantErrors: []string{"65 entries, at most 64"},
		},
	}) {
		err := tc.mappings.Validate()
		if tc.wantErrors == nil {
			check.NoError(t, err)
			continue
		}
		check.Refused(t, err, tc.wantErrors...)
	}
}

// TestNoValidMappingMakesAnInvalidName: an administrator must be able to write a quota for each card. So mappings
// that are accepted give a node's card a valid name. The drawn resources are whole cards, slices and shares; the node
// has the labels that shares need, 1024 MiB and 2 replicas.
func TestNoValidMappingMakesAnInvalidName(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"a.b/c", "nvidia.com/mig-1g", "a.b/c.shared", "nvidia.com/mig-"}).Draw(t, "resource")
		mapping := Mapping{
			Resource: corev1.ResourceName(prefix + rapid.StringMatching(`[a-zA-Z0-9_.-]{0,5}`).Draw(t, "rest")),
			Model:    rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_./-]{0,66}`), rapid.String()).Draw(t, "model"),
		}
		if mapping.isShare() {
			mapping.MemoryLabel = "m"
		}
		if (Mappings{mapping}).Validate() != nil {
			return
		}

		replicas := strings.TrimSuffix(string(mapping.Resource), ".shared") + ".replicas=2"
		got := Recognise(newNode("m=1024 "+replicas+" "+string(mapping.Resource)+":1"), Mappings{mapping})
		check.Must(t, len(got.Cards) == 1, "the node offers %+v", got)
		check.Value(ParseName(string(got.Cards[0].Name)))(t)
	})
}
