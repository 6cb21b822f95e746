package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestStatementsOfPods(t *testing.T) {
	const short = "has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>"

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		lies bool
	}{
		"the truth":               {"Queue <q> " + short, false},
		"in other words":          {"0/2 nodes are available: 1 queue <q> " + short + ".", false},
		"another queue":           {"Queue <r> " + short, true},
		"another quota":           {"Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <3>", true},
		"another request":         {"Queue <q> has insufficient <NVIDIA-H200> quota: requested <3>, total would be <6>, but capability is <4>", true},
		"a total too large":       {"Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <6>, but capability is <4>", true},
		"a total too small":       {"Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <4>, but capability is <4>", true},
		"a card without quota":    {"Queue <q> has insufficient <NVIDIA-L40S> quota: requested <2>, total would be <2>, but capability is <0>", false},
		"CPU that suffices":       {"Queue <q> has insufficient CPU quota: requested <1000m>, total would be <11000m>, but capability is <10000m>", true},
		"memory that suffices":    {"Queue <q> has insufficient memory quota: requested <1024Mi>, total would be <11000Mi>, but capability is <10240Mi>", true},
		"CPU that is there":       {"Queue <q> has no cpu capability and may use none: set spec.capability.cpu", true},
		"a queue that exists":     {"Queue <q> does not exist", true},
		"a queue that is not":     {"Queue <gone> does not exist", false},
		"a queue that is open":    {"Queue <q> is Closed, not Open: nothing new starts in it", true},
		"nothing that is checked": {"pod group is not ready, 1 Pending, 1 minAvailable", false},
	}) {
		s := newScene(t, Options{}).run(`single b queue=q cards=3; write pod b node=h200-0; single a queue=q cards=2`)
		s.applyObject(s.Pod("a", "unschedulable="+tc.text), false)
		if tc.lies {
			s.expectViolations(Truth + " pod/test/a")
		} else {
			s.expectViolations()
		}
	}
}

func TestAStatementMayBeAsOldAsItsSession(t *testing.T) {
	const text = "Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <2>, but capability is <1>"

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		want []string
	}{
		"one session ago":  {`sessions 1`, nil},
		"six sessions ago": {`sessions 6`, []string{Truth + " pod/test/a"}},
	}) {
		s := newScene(t, Options{}).run(`write queue q quota=H200:1; single a queue=q cards=2; sessions 5; write queue q quota=H200:4`).run(tc.text)
		s.judge.TakeViolations()
		s.applyObject(s.Pod("a", "unschedulable="+text), false)
		s.expectViolations(tc.want...)
		s.applyObject(s.Pod("a", "unschedulable="+text+" "), false)
		s.expectViolations() // each statement once
	}
}

func TestStatementsOfPodGroupsAndCardQuotas(t *testing.T) {
	s := newScene(t, Options{}).run(`single b queue=q cards=2; write pod b node=h200-0`)
	tell := func(text string) {
		s.applyObject(s.Object("group", "g", "queue=q", `request={"NVIDIA-H200":4}`, "phase=Pending", "unschedulable="+text), false)
		quota := s.Object("quota", "q").(*v1alpha1.CardQuota)
		quota.Status.Blocked = []v1alpha1.BlockedStatus{{Message: text}}
		s.applyObject(quota, false)
	}

	const right = "Queue <q> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <6>, but capability is <4>"
	tell(right)
	s.expectViolations()
	tell(strings.Replace(right, "is <4>", "is <5>", 1))
	s.expectViolations(Truth+" podgroup/test/g", Truth+" cardquota/q")
}

func TestPlacementsBeyondCPUMemoryOrTheNode(t *testing.T) {
	const placed = `; write pod a node=h200-0`

	exempt := Options{UnlimitedCPUMemory: true}
	for t, tc := range check.Cases(t, map[string]struct {
		options    Options
		text, want string
	}{
		"within":                    {Options{}, `single a queue=q cards=1 cpu=10` + placed, ""},
		"beyond the queue's CPU":    {Options{}, `single a queue=q cards=1 cpu=11` + placed, "pod/test/a"},
		"beyond the queue's memory": {Options{}, `single a queue=q cards=1 memory=11Gi` + placed, "pod/test/a"},
		"exempt with cards":         {exempt, `single a queue=q cards=1 cpu=11` + placed, ""},
		"not exempt without cards":  {exempt, `single a queue=q card= cpu=11` + placed, "pod/test/a"},
		"a limit that was lowered while the session ran": {Options{}, `single a queue=q cards=1; sessions 1
			write queue q; write queue q cpu=1; write pod a cpu=8 node=h200-0`, ""},
		"a limit that was lowered sessions ago": {Options{}, `single a queue=q cards=1; write queue q cpu=1
			sessions 6; write pod a cpu=8 node=h200-0`, "pod/test/a"},
		"a node without so many cards": {exempt, `single a queue=q cards=9` + placed, "pod/test/a"},
		"a node whose cards a pod still holds that is being deleted": {Options{}, `single b queue=q cards=8; write pod b node=h200-0
			write pod b deleted=true; single a queue=q cards=1` + placed, "pod/test/a"},
		"a node without so many pods": {exempt, `write node h200-0 pods=0; wait 1m; single a queue=q cards=1` + placed, "pod/test/a"},
		"what another scheduler placed at the same time": {Options{}, `write pod daemon cpu=16 node=h200-0 scheduler=default-scheduler
			single a queue=q cards=1` + placed, ""},
	}) {
		s := newScene(t, tc.options).run(tc.text)
		s.expectViolations(violationsOf(Capacity, strings.Fields(tc.want)...)...)
	}
}
