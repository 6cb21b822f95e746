package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAPodStatesTheTruthAboutItsQueue: a pod that waits states why, by a message of the scheduler. The observer
// reports violation "truth" if the queue, request, total or quota in a message was not true when it was written. Pod
// b of queue q uses 3 of its 4 H200. Pod a requests 2, so the total would be 5. The queue is open, and has 10 cores
// and 10 GiB, of which b uses one each.
func TestAPodStatesTheTruthAboutItsQueue(t *testing.T) {
	const isTrue = "Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>"
	change := func(old, changed string) string { return strings.Replace(isTrue, old, changed, 1) }

	for t, tc := range check.Cases(t, map[string]struct {
		message string
		isTrue  bool
	}{
		"request, total and quota are right": {isTrue, true},
		"the same within another message":    {"0/2 nodes are available: 1 " + change("Queue", "queue") + ".", true},
		"a queue r, which is not that of a":  {change("<q>", "<r>"), false},
		"a quota of 3":                       {change("is <4>", "is <3>"), false},
		"a request of 3": {
			"Queue <q> has insufficient <NVIDIA-H200> quota: requested <3>, total would be <6>, but capability is <4>", false,
		},
		"a total of 6": {change("be <5>", "be <6>"), false},
		"a total of 4": {change("be <5>", "be <4>"), false},
		"a card of which the queue has no quota": {
			"Queue <q> has insufficient <NVIDIA-L40S> quota: requested <2>, total would be <2>, but capability is <0>", true,
		},
		"too little CPU, although 9 cores are left": {
			"Queue <q> has insufficient CPU quota: requested <1000m>, total would be <11000m>, but capability is <10000m>", false,
		},
		"too little memory, although 9 GiB are left": {
			"Queue <q> has insufficient memory quota: requested <1024Mi>, total would be <11000Mi>, but capability is <10240Mi>", false,
		},
		"no limit of CPU, although there is one":      {"Queue <q> has no cpu capability and may use none: set spec.capability.cpu", false},
		"that q does not exist":                       {"Queue <q> does not exist", false},
		"that a queue does not exist, which does not": {"Queue <gone> does not exist", true},
		"that q is closed":                            {"Queue <q> is Closed, not Open: nothing new starts in it", false},
		"a message that is not about a queue":         {"pod group is not ready, 1 Pending, 1 minAvailable", true},
	}) {
		s := newSceneWithQuotaOfFour(t, Options{}).playScript(`
			single b queue=q cards=3
			write pod b node=h200-0
			single a queue=q cards=2`)
		s.writeObject(s.Pod("a", "unschedulable="+tc.message))

		if tc.isTrue {
			s.expectViolations(Truth)
		} else {
			s.expectViolations(Truth, "pod/test/a")
		}
	}
}

// TestAMessageMayBeAsOldAsItsSession: the scheduler writes messages at the end of a session, so the quota may have
// changed meanwhile. The quota was 1 and is 4 now. Pod a states 1: true for a session ago, not for six sessions ago.
// The same message with a change that does not matter is not reported again.
func TestAMessageMayBeAsOldAsItsSession(t *testing.T) {
	const quotaIsOne = "Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <2>, but capability is <1>"

	for t, tc := range check.Cases(t, map[string]struct{ sinceTheChange, wantObjects string }{
		"one session ago":  {`sessions 1`, ""},
		"six sessions ago": {`sessions 6`, "pod/test/a"},
	}) {
		s := newSceneWithQuotaOfFour(t, Options{}).playScript(`
			write queue q quota=H200:1
			single a queue=q cards=2
			sessions 5
			write queue q quota=H200:4`).playScript(tc.sinceTheChange)
		s.checker.TakeViolations() // a fits the quota of 4, and these sessions do not start it

		s.writeObject(s.Pod("a", "unschedulable="+quotaIsOne))
		s.expectViolations(Truth, strings.Fields(tc.wantObjects)...)
		s.writeObject(s.Pod("a", "unschedulable="+quotaIsOne+" "))
		s.expectViolations(Truth)
	}
}

// TestPodGroupsAndCardQuotasStateTheTruth: a PodGroup without pods states why it waits too, and status.blocked of the
// CardQuota repeats it. Pod b uses 2 of the 4 H200 of queue q, and PodGroup g requests 4, so the total would be 6. A
// quota of 5 instead of 4 is wrong in both objects.
func TestPodGroupsAndCardQuotasStateTheTruth(t *testing.T) {
	s := newSceneWithQuotaOfFour(t, Options{}).playScript(`single b queue=q cards=2; write pod b node=h200-0`)
	writeMessage := func(message string) {
		s.writeObject(s.Object("group", "g", "queue=q", `request={"NVIDIA-H200":4}`, "phase=Pending", "unschedulable="+message))
		quota := s.Object("quota", "q").(*v1alpha1.CardQuota)
		quota.Status.Blocked = []v1alpha1.BlockedStatus{{Message: message}}
		s.writeObject(quota)
	}

	writeMessage("Queue <q> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <6>, but capability is <4>")
	s.expectViolations(Truth)

	writeMessage("Queue <q> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <6>, but capability is <5>")
	s.expectViolations(Truth, "podgroup/test/g", "cardquota/q")
}

// TestPodsArePlacedWithinCPUMemoryAndTheNode: the observer reports a placement that exceeds the CPU or memory of its
// queue, or what its node has. The scheduler may not know a change within its last session, or a pod that another
// scheduler places at the same time. These are no violation. Queue q has 10 cores and 10 GiB. Node h200-0 has 8
// H200 and 16 cores; a pod requests 1 core and 1 GiB unless the step says something else. "unlimited" is the plugin
// argument cardUnlimitedCpuMemory: the CPU and memory of pods with cards do not count in queues. Pod a is placed on
// h200-0 at the end.
func TestPodsArePlacedWithinCPUMemoryAndTheNode(t *testing.T) {
	const aIsPlaced = `
		write pod a node=h200-0`

	unlimited := Options{UnlimitedCPUMemory: true}
	for t, tc := range check.Cases(t, map[string]struct {
		options     Options
		steps       string
		wantObjects string
	}{
		"10 of 10 cores":                            {Options{}, `single a queue=q cards=1 cpu=10` + aIsPlaced, ""},
		"11 of 10 cores":                            {Options{}, `single a queue=q cards=1 cpu=11` + aIsPlaced, "pod/test/a"},
		"11 of 10 GiB":                              {Options{}, `single a queue=q cards=1 memory=11Gi` + aIsPlaced, "pod/test/a"},
		"unlimited: 11 of 10 cores, with a card":    {unlimited, `single a queue=q cards=1 cpu=11` + aIsPlaced, ""},
		"unlimited: 11 of 10 cores, without a card": {unlimited, `single a queue=q card= cpu=11` + aIsPlaced, "pod/test/a"},
		"8 cores, of a limit that was lowered to 1 in the same session": {Options{}, `
			single a queue=q cards=1
			sessions 1
			write queue q cpu=1
			write pod a cpu=8 node=h200-0`, ""},
		"8 cores, of a limit that was lowered to 1 six sessions ago": {Options{}, `
			single a queue=q cards=1
			write queue q cpu=1
			sessions 6
			write pod a cpu=8 node=h200-0`, "pod/test/a"},
		"9 cards on a node of 8": {unlimited, `single a queue=q cards=9` + aIsPlaced, "pod/test/a"},
		"1 card beside 8 of a pod that is being deleted": {Options{}, `
			single b queue=q cards=8
			write pod b node=h200-0
			write pod b deleted=true
			single a queue=q cards=1` + aIsPlaced, "pod/test/a"},
		"a pod on a node that takes no pods": {unlimited, `
			write node h200-0 pods=0
			wait 1m
			single a queue=q cards=1` + aIsPlaced, "pod/test/a"},
		"1 core beside 16 that another scheduler placed at the same time": {Options{}, `
			write pod daemon cpu=16 node=h200-0 scheduler=default-scheduler
			single a queue=q cards=1` + aIsPlaced, ""},
	}) {
		newSceneWithQuotaOfFour(t, tc.options).playScript(tc.steps).expectViolations(Capacity, strings.Fields(tc.wantObjects)...)
	}
}
