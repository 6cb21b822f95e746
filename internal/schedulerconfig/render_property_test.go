package schedulerconfig

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// wanteds draws what policies want.
func wanteds() *rapid.Generator[Overlay] {
	return rapid.Custom(func(t *rapid.T) Overlay {
		want := Overlay{Reclaim: rapid.SampledFrom([]string{CardReclaim, "reclaim", ""}).Draw(t, "reclaim"), Preempt: rapid.Bool().Draw(t, "preempt"), Tree: rapid.Bool().Draw(t, "tree")}
		arguments := map[string][]any{
			"cardUnlimitedCpuMemory": {true, false},
			"overCommitFactor":       {1, 1.5},
			"unmanagedQueues":        {"Ignore", "on", "1e3", "# x", ""},
			"serviceTypes":           {map[string]any{}, map[string]any{"a": map[string]any{"reclaimFrom": []string{"b"}}, "b": map[string]any{"reclaimable": true}}},
			"list":                   {[]string{}, []string{"no", "12:30"}},
		}

		for _, key := range slices.Sorted(maps.Keys(arguments)) { // in one order, so that a failure can be played again
			values := arguments[key]
			if i := rapid.IntRange(0, 2*len(values)).Draw(t, key); i < len(values) {
				if want.Arguments == nil {
					want.Arguments = map[string]any{}
				}
				want.Arguments[key] = values[i]
			}
		}

		return want
	})
}

func TestRenderIsExactOnAnyBase(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		want := wanteds().Draw(t, "wanted")
		base := configurations(want.Tree).Draw(t, "base")
		rendered, replaced, err := Render(base, header, want)
		check.Must(t, err == nil, "%v in\n%s", err, base)
		assertRendered(t, base, rendered, replaced, want)
		check.Must(t, !strings.Contains(strings.TrimPrefix(rendered, "# "+strings.ReplaceAll(header, "\n", "\n# ")), "# c"), "a comment stayed:\n%s", rendered)
	})
}

// TestRenderingForgetsEarlierWants: an earlier policy leaves no trace in a base.
func TestRenderingForgetsEarlierWants(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		base := configurations(false).Draw(t, "base")
		first := wanteds().Draw(t, "first")
		second := wanteds().Draw(t, "second")
		second.Reclaim = first.Reclaim
		second.Preempt = first.Preempt // what they write into actions and switches looks like the base's
		earlier, _, err := Render(base, header, first)
		check.Must(t, err == nil, "%v in\n%s", err, base)

		over, replaced, err := Render(earlier, header, second)
		check.Must(t, err == nil && slices.Contains(replaced, "plugin "+CapacityCard), "%v, replaced %q", err, replaced)

		want, _, err := Render(base, header, second)
		check.Must(t, err == nil, "%v in\n%s", err, base)
		diff := cmp.Diff(want, over)
		check.Must(t, diff == "", "(-from the base +from what was rendered):\n%s", diff)
	})
}
