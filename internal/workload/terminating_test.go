package workload

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWhatAPodHoldsThatEnds is the part of the table for pods that are being
// deleted: they are not counted, and hold their cards all the same.
func TestWhatAPodHoldsThatEnds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pod   *builder.PodBuilder
		group *v1beta1.PodGroup
		last  *quota.Charge
		queue string // "" when it holds nothing
		cards []card.Amount
	}{
		"running": {
			pod:   pod().GPUs(2),
			group: group("q"),
		},
		"being deleted": {
			pod:   pod().GPUs(2).Deleted(noon),
			group: group("q"),
			queue: "q",
			cards: held("H200", 2),
		},
		"before it has started": {
			pod:   pod().GPUs(2).Deleted(noon).Phase(corev1.PodPending),
			group: group("q"),
			queue: "q",
			cards: held("H200", 2),
		},
		"on a node that is not heard": {
			pod:   pod().GPUs(2).Deleted(noon).Phase(corev1.PodUnknown),
			group: group("q"),
			queue: "q",
			cards: held("H200", 2),
		},
		"has succeeded": {
			pod:   pod().GPUs(2).Deleted(noon).Phase(corev1.PodSucceeded),
			group: group("q"),
		},
		"has failed": {
			pod:   pod().GPUs(2).Deleted(noon).Phase(corev1.PodFailed),
			group: group("q"),
		},
		"without a node": {
			pod:   pod().GPUs(2).Deleted(noon).Node(""),
			group: group("q"),
		},
		"without cards": {
			pod:   pod().Requests("cpu", "4").Deleted(noon),
			group: group("q"),
			queue: "q",
		},
		"charged elsewhere before": {
			pod:   pod().GPUs(2).Deleted(noon).Node("gone"),
			last:  &quota.Charge{Queue: "r", Cards: held("4090", 2)},
			queue: "r",
			cards: held("4090", 2),
		},
		"of a binding": {pod: pod().GPUs(2).Deleted(noon).ChargedQueue("first"), group: group("q"), queue: "first", cards: held("H200", 2)},
	}) {
		charge := quota.Charge{}
		ok := IsTerminating(tc.pod.Obj())
		if ok {
			charge = (&Resolver{Inventory: cluster()}).Usage(tc.pod.Obj(), tc.group, tc.last)
		}

		check.Must(t, ok == (tc.queue != "") && charge.Queue == tc.queue, "holds %v of queue %q, want %q", ok, charge.Queue, tc.queue)
		check.Equal(t, "Cards", tc.cards, charge.Cards)
		check.That(t, !ok || !IsAssigned(tc.pod.Obj()), "it is counted as well")
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
		"no grace period":       {nil, nil, 30 * time.Second},
		"longer than there was": {seconds(1 << 62), nil, 100 * 366 * 24 * time.Hour},
		"less than nothing":     {seconds(-1), nil, 0},
	} {
		p := pod().Deleted(noon).Obj()
		p.Spec.TerminationGracePeriodSeconds = tc.spec

		p.DeletionGracePeriodSeconds = tc.deletion
		check.Equal(t, name, tc.want, TerminationGracePeriod(p))
	}
}

func TestWorks(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{
		corev1.ConditionTrue:    true,
		corev1.ConditionFalse:   false,
		corev1.ConditionUnknown: false,
		"":                      true,
	} {
		node := &corev1.Node{}
		if status != "" {
			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: status},
			}
		}

		check.Equal(t, fmt.Sprintf("a node whose condition Ready is %q works", status), want, NodeReady(node))
	}
}
