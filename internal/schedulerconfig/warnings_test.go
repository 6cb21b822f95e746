package schedulerconfig

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWarningsNameWhatVolcanoIgnores: Volcano reads some arguments of its plugins and actions as numbers or
// booleans, and silently ignores them in quotes. Such a text is valid, so the author gets a warning.
// Capacity-card reads quoted values too, and a quoted word may be meant as a text, so these two have no
// warning. A text that is not valid, such as an empty one, has no warnings. Helper withPlugins writes its lines
// from line 4 of the text on, withLines from line 5 on.
func TestWarningsNameWhatVolcanoIgnores(t *testing.T) {
	const card = "  - name: capacity-card"

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a number without quotes": {withPlugins(card, "  - name: binpack", "    arguments:", "      binpack.weight: 10"), ""},
		"a number in quotes": {
			withPlugins(card, "  - name: binpack", "    arguments:", "      binpack.weight: \"10\""),
			"line 7: argument binpack.weight of plugin binpack is quoted, and Volcano ignores it: write binpack.weight: 10",
		},
		"a boolean of an action in quotes": {
			withLines("configurations:", "- name: preempt", "  arguments:", "    enableTopologyAwarePreemption: 'true'"),
			"line 8: argument enableTopologyAwarePreemption of action preempt is quoted, and Volcano ignores it: write enableTopologyAwarePreemption: true",
		},
		"a boolean of capacity-card in quotes": {withArguments(`cardUnlimitedCpuMemory: "true"`), ""},
		"a word in quotes": {
			withPlugins(card, "  - name: deviceshare", "    arguments:", "      deviceshare.SchedulePolicy: \"binpack\""), "",
		},
		"an empty text":                 {"", ""},
		"a text that is no YAML":        {"a: [", ""},
		"arguments that are no mapping": {withPlugins(card, "  - name: binpack", "    arguments: \"10\""), ""},
	}) {
		check.Equal(t, "warnings", tc.want, strings.Join(Warnings(tc.text), "\n"))
	}
}
