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

// overlays draws what policies set.
func overlays() *rapid.Generator[Overlay] {
	return rapid.Custom(func(t *rapid.T) Overlay {
		want := Overlay{
			Reclaim: rapid.SampledFrom([]string{CardReclaim, "reclaim", ""}).Draw(t, "reclaim"),
			Preempt: rapid.Bool().Draw(t, "preempt"),
			Tree:    rapid.Bool().Draw(t, "tree"),
		}
		arguments := map[string][]any{
			"cardUnlimitedCpuMemory": {true, false},
			"overCommitFactor":       {1, 1.5},
			"unmanagedQueues":        {"Ignore", "on", "1e3", "# x", ""},
			"serviceTypes": {
				map[string]any{},
				map[string]any{"a": map[string]any{"reclaimFrom": []string{"b"}}, "b": map[string]any{"reclaimable": true}},
			},
			"list": {[]string{}, []string{"no", "12:30"}},
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

// TestRenderIsExactOnAnyBase: a base is what administrators have written for Volcano, in any way to write YAML. For a
// random base and policy, the rendered text is valid, has what the policy wants, and otherwise means the same as the
// base. replaced is exactly what the base had and the text has not, and a second rendering changes nothing.
// assertRendered checks this without the code under test. The text has no comment of the base ("# c" and a number),
// which might no longer be true. Only for a tree do bases have Volcano's hierarchy of queues, because Render refuses
// it otherwise.
func TestRenderIsExactOnAnyBase(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		want := overlays().Draw(t, "wanted")
		base := configurations(want.Tree).Draw(t, "base")
		rendered, replaced, err := Render(base, header, want)
		check.Must(t, err == nil, "%v in\n%s", err, base)
		assertRendered(t, base, rendered, replaced, want)

		withoutHeader := strings.TrimPrefix(rendered, "# "+strings.ReplaceAll(header, "\n", "\n# "))
		check.Must(t, !strings.Contains(withoutHeader, "# c"), "a comment stayed:\n%s", rendered)
	})
}

// TestRenderingForgetsAnEarlierPolicy: a base may be a text that was rendered for an earlier policy. Rendered for the
// current policy, it gives the same text as the first base does, and capacity-card of the earlier policy is named as
// replaced. Both policies want the same actions here, because Render takes the actions that it wrote for the
// author's.
func TestRenderingForgetsAnEarlierPolicy(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		base := configurations(false).Draw(t, "base")
		first := overlays().Draw(t, "first")
		second := overlays().Draw(t, "second")
		second.Reclaim = first.Reclaim
		second.Preempt = first.Preempt

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
