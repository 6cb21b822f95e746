package schedulerconfig

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// FuzzRender: what Render makes of any text follows the five rules of assertRendered, which are written without the
// code under test. Or Render refuses the text and returns nothing. The mode selects the reclaim action of the policy:
// cardreclaim, reclaim or none.
func FuzzRender(f *testing.F) {
	texts, _ := goldens(f)
	for _, text := range texts {
		for mode := range uint8(3) {
			f.Add(text, mode)
		}
	}

	for _, text := range []string{
		"? actions\n: allocate\n? tiers\n: - plugins:\n    - name: gang\n",
		"tiers: [{plugins: [{name: gang}]}]\nactions: allocate\n...\n",
		"--- # d\nactions: |\n  allocate\ntiers:\n-\n  plugins:\n  -\n    name: gang\n",
		"actions: \"allo\\\n  cate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: capacity-card\n    arguments: {\n      # c\n    }\n",
		"actions: allocate\r tiers:\n",
		"\ufeffactions: allocate\ntiers:\n- plugins:\n  - {name: proportion}\n",
		"actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    arguments: {a: {? b : c}}\n",
	} {
		f.Add(text, uint8(1)) // reclaim
	}

	f.Fuzz(func(t *testing.T, text string, mode uint8) {
		want := defaultOverlay([]string{CardReclaim, "reclaim", ""}[mode%3])
		rendered, replaced, err := Render(text, header, want)
		if err != nil {
			check.Must(t, rendered == "" && replaced == nil, "a text came out with the error %v:\n%s", err, rendered)
			return
		}
		assertRendered(t, text, rendered, replaced, want)
	})
}
