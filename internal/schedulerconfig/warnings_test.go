package schedulerconfig

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWarningsNameWhatVolcanoIgnores(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"nothing in quotes": {plugins("  - name: capacity-card", "  - name: binpack", "    arguments:", "      binpack.weight: 10"), ""},
		"a number": {plugins("  - name: capacity-card", "  - name: binpack", "    arguments:", "      binpack.weight: \"10\""),
			"line 7: argument binpack.weight of plugin binpack is quoted, and Volcano ignores it: write binpack.weight: 10"},
		"a flag of an action": {top("configurations:", "- name: preempt", "  arguments:", "    enableTopologyAwarePreemption: 'true'"),
			"line 8: argument enableTopologyAwarePreemption of action preempt is quoted, and Volcano ignores it: write enableTopologyAwarePreemption: true"},
		"our own":             {withArguments(`cardUnlimitedCpuMemory: "true"`), ""},
		"a text":              {plugins("  - name: capacity-card", "  - name: deviceshare", "    arguments:", "      deviceshare.SchedulePolicy: \"binpack\""), ""},
		"no configuration":    {"", ""},
		"no YAML":             {"a: [", ""},
		"arguments of no use": {plugins("  - name: capacity-card", "  - name: binpack", "    arguments: \"10\""), ""},
	}) {
		check.Equal(t, "warnings", tc.want, strings.Join(Warnings(tc.text), "\n"))
	}
}
