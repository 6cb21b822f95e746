package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPreemptEvictsNoMoreThanIsNeeded for one pod that waits for one card.
func TestPreemptEvictsNoMoreThanIsNeeded(t *testing.T) {
	const running = `write pod low-0 on=h200-0; write pod low-1 on=h200-0; write pod low-2 on=h200-0; single w q cards=1;`
	const gang = `gang low q 3 cards=1;` + running
	const apart = `single low-0 q cards=1; single low-1 q cards=1; single low-2 q cards=1;` + running

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"one pod":                  {apart + `write pod low-0 evicted=preempt`, ""},
		"one pod too many":         {apart + `write pod low-0 evicted=preempt; write pod low-1 evicted=preempt; write pod low-2 evicted=preempt`, "pod/test/low-1 pod/test/low-2"},
		"a gang as a whole":        {gang + `write pod low-0 evicted=preempt; write pod low-1 evicted=preempt; write pod low-2 evicted=preempt`, ""},
		"pods above the minimum":   {gang + `write group low members=1; write pod low-0 evicted=preempt; write pod low-1 evicted=preempt; write pod low-2 evicted=preempt`, "pod/test/low-1 pod/test/low-2"},
		"by another action, to us": {apart + `write pod low-0 evicted=reclaim; write pod low-1 evicted=reclaim; write pod low-2 evicted=reclaim`, ""},
	}) {
		newScene(t, Options{}).run(tc.text).expectViolations(violationsOf(Eviction, strings.Fields(tc.want)...)...)
	}
}
