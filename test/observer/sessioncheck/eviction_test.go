package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPreemptEvictsNoMoreThanIsNeeded for one pod that waits for one card.
func TestPreemptEvictsNoMoreThanIsNeeded(t *testing.T) {
	const running = `write pod low-0 node=h200-0; write pod low-1 node=h200-0; write pod low-2 node=h200-0; single w queue=q cards=1;`
	const gang = `gang low queue=q pods=3 cards=1;` + running
	const apart = `single low-0 queue=q cards=1; single low-1 queue=q cards=1; single low-2 queue=q cards=1;` + running

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"one pod":                  {apart + `write pod low-0 evictedBy=preempt`, ""},
		"one pod too many":         {apart + `write pod low-0 evictedBy=preempt; write pod low-1 evictedBy=preempt; write pod low-2 evictedBy=preempt`, "pod/test/low-1 pod/test/low-2"},
		"a gang as a whole":        {gang + `write pod low-0 evictedBy=preempt; write pod low-1 evictedBy=preempt; write pod low-2 evictedBy=preempt`, ""},
		"pods above the minimum":   {gang + `write group low min=1; write pod low-0 evictedBy=preempt; write pod low-1 evictedBy=preempt; write pod low-2 evictedBy=preempt`, "pod/test/low-1 pod/test/low-2"},
		"by another action, to us": {apart + `write pod low-0 evictedBy=reclaim; write pod low-1 evictedBy=reclaim; write pod low-2 evictedBy=reclaim`, ""},
	}) {
		newScene(t, Options{}).run(tc.text).expectViolations(violationsOf(Eviction, strings.Fields(tc.want)...)...)
	}
}
