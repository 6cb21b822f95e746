package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPreemptEvictsNoMoreThanIsNeeded: the observer reports each pod that preempt evicts beyond what the waiting pod
// needs, but a gang is evicted as a whole. Pods low-0, low-1 and low-2 run with one H200 each, as jobs of their own or
// as one gang. Pod waiting needs one card, so the first eviction is right, and each more is wrong.
func TestPreemptEvictsNoMoreThanIsNeeded(t *testing.T) {
	const threeRunAndOneWaits = `
		write pod low-0 node=h200-0
		write pod low-1 node=h200-0
		write pod low-2 node=h200-0
		single waiting queue=q cards=1
	`
	const ofThreeJobs = `
		single low-0 queue=q cards=1
		single low-1 queue=q cards=1
		single low-2 queue=q cards=1
	` + threeRunAndOneWaits
	const ofOneGang = `gang low queue=q pods=3 cards=1;` + threeRunAndOneWaits
	evictAll := func(action string) string {
		return strings.ReplaceAll("write pod low-0 evictedBy=ACTION; write pod low-1 evictedBy=ACTION; write pod low-2 evictedBy=ACTION", "ACTION", action)
	}

	for t, tc := range check.Cases(t, map[string]struct{ steps, wantObjects string }{
		"one of three jobs":                       {ofThreeJobs + `write pod low-0 evictedBy=preempt`, ""},
		"all three jobs":                          {ofThreeJobs + evictAll("preempt"), "pod/test/low-1 pod/test/low-2"},
		"a gang that needs all of its three pods": {ofOneGang + evictAll("preempt"), ""},
		"a gang that needs only one of its three": {
			ofOneGang + `write group low min=1;` + evictAll("preempt"), "pod/test/low-1 pod/test/low-2",
		},
		"all three jobs, by reclaim: this check is of preempt only": {ofThreeJobs + evictAll("reclaim"), ""},
	}) {
		newSceneWithQuotaOfFour(t, Options{}).playScript(tc.steps).expectViolations(Eviction, strings.Fields(tc.wantObjects)...)
	}
}
