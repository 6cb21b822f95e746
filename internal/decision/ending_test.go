package decision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
)

// TestWhatAPodHoldsThatEnds is the part of the table for pods that are being
// deleted: they are not counted, and hold their cards all the same.
func TestWhatAPodHoldsThatEnds(t *testing.T) {
	tests := map[string]struct {
		pod   *corev1.Pod
		group *v1beta1.PodGroup
		last  *account.Charge
		queue string // "" when it holds nothing
		cards []card.Amount
	}{
		"running":                     {pod: pod(gpus("2")), group: group("q")},
		"being deleted":               {pod: pod(gpus("2"), deleted), group: group("q"), queue: "q", cards: held("H200", 2)},
		"before it has started":       {pod: pod(gpus("2"), deleted, phase(corev1.PodPending)), group: group("q"), queue: "q", cards: held("H200", 2)},
		"on a node that is not heard": {pod: pod(gpus("2"), deleted, phase(corev1.PodUnknown)), group: group("q"), queue: "q", cards: held("H200", 2)},
		"has succeeded":               {pod: pod(gpus("2"), deleted, phase(corev1.PodSucceeded)), group: group("q")},
		"has failed":                  {pod: pod(gpus("2"), deleted, phase(corev1.PodFailed)), group: group("q")},
		"without a node":              {pod: pod(gpus("2"), deleted, on("")), group: group("q")},
		"without cards":               {pod: pod(asks("cpu", "4"), deleted), group: group("q"), queue: "q"},
		"charged elsewhere before":    {pod: pod(gpus("2"), deleted, on("gone")), last: &account.Charge{Queue: "r", Cards: held("4090", 2)}, queue: "r", cards: held("4090", 2)},
		"of a binding":                {pod: pod(gpus("2"), deleted, note("cardquota.dev/charged-queue", "first")), group: group("q"), queue: "first", cards: held("H200", 2)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			charge, ok := EndingOf(tc.pod, tc.group, cluster(), tc.last)
			if ok != (tc.queue != "") || charge.Queue != tc.queue {
				t.Fatalf("holds %v of queue %q, want %q", ok, charge.Queue, tc.queue)
			}
			if diff := cmp.Diff(tc.cards, charge.Cards); diff != "" {
				t.Error(diff)
			}
			if _, counts := ChargeOf(tc.pod, tc.group, cluster(), tc.last); ok && counts {
				t.Error("it is counted as well")
			}
		})
	}
}

func TestGoodbye(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for name, tc := range map[string]struct {
		spec, deletion *int64
		want           time.Duration
	}{
		"the deletion decides":  {seconds(3600), seconds(5), 5 * time.Second},
		"as the pod says":       {seconds(3600), nil, time.Hour},
		"nobody says":           {nil, nil, 30 * time.Second},
		"longer than there was": {seconds(1 << 62), nil, 100 * 366 * 24 * time.Hour},
		"less than nothing":     {seconds(-1), nil, 0},
	} {
		p := pod(deleted)
		p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = tc.spec, tc.deletion
		if got := Goodbye(p); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestWorks(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: false, corev1.ConditionUnknown: false, "": true} {
		node := &corev1.Node{}
		if status != "" {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: status}}
		}
		if got := Works(node); got != want {
			t.Errorf("a node whose condition Ready is %q works: %v, want %v", status, got, want)
		}
	}
}
