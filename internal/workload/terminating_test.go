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

// TestATerminatingPodStillHasItsCards: a terminating pod is not counted against the quota any more, and still has its
// cards until it is gone. It keeps them in the phases Pending, Running and Unknown, with the queue and card as for a
// placed pod. A finished pod, and one without a node, use nothing.
func TestATerminatingPodStillHasItsCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pod       *builder.PodBuilder
		group     *v1beta1.PodGroup
		last      *quota.Charge
		wantQueue string // "" when it uses nothing
		wantCards []card.Amount
	}{
		"a running pod: not terminating": {
			pod:   runningPod().GPUs(2),
			group: newPodGroup("q"),
		},
		"terminating": {
			pod:       runningPod().GPUs(2).Deleted(noon),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 2),
		},
		"terminating before it has started": {
			pod:       runningPod().GPUs(2).Deleted(noon).Phase(corev1.PodPending),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 2),
		},
		"terminating on a node without heartbeats": {
			pod:       runningPod().GPUs(2).Deleted(noon).Phase(corev1.PodUnknown),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 2),
		},
		"terminating, and has succeeded": {
			pod:   runningPod().GPUs(2).Deleted(noon).Phase(corev1.PodSucceeded),
			group: newPodGroup("q"),
		},
		"terminating, and has failed": {
			pod:   runningPod().GPUs(2).Deleted(noon).Phase(corev1.PodFailed),
			group: newPodGroup("q"),
		},
		"terminating without a node": {
			pod:   runningPod().GPUs(2).Deleted(noon).Node(""),
			group: newPodGroup("q"),
		},
		"terminating without cards: only the queue": {
			pod:       runningPod().Requests("cpu", "4").Deleted(noon),
			group:     newPodGroup("q"),
			wantQueue: "q",
		},
		"terminating, the node and the PodGroup are gone: the last charge": {
			pod:       runningPod().GPUs(2).Deleted(noon).Node("gone"),
			last:      &quota.Charge{Queue: "r", Cards: amounts("4090", 2)},
			wantQueue: "r",
			wantCards: amounts("4090", 2),
		},
		"terminating, with a record of its binding": {
			pod:       runningPod().GPUs(2).Deleted(noon).ChargedQueue("first"),
			group:     newPodGroup("q"),
			wantQueue: "first",
			wantCards: amounts("H200", 2),
		},
	}) {
		charge := quota.Charge{}
		ok := IsTerminating(tc.pod.Obj())
		if ok {
			charge = (&Resolver{Inventory: cluster()}).Usage(tc.pod.Obj(), tc.group, tc.last)
		}

		check.Equal(t, "is terminating", tc.wantQueue != "", ok)
		check.Equal(t, "queue", tc.wantQueue, charge.Queue)
		check.Equal(t, "cards", tc.wantCards, charge.Cards)
		check.That(t, !ok || !IsAssigned(tc.pod.Obj()), "the terminating pod counts as assigned, too")
	}
}

// TestTerminationGracePeriod: how long a terminating pod may take: the grace period of its deletion, else of its
// spec, else 30 seconds. Odd values are bounded, from 0 to about 100 years.
func TestTerminationGracePeriod(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for name, tc := range map[string]struct {
		spec, deletion *int64
		want           time.Duration
	}{
		"5 seconds by the deletion, an hour by the spec":  {seconds(3600), seconds(5), 5 * time.Second},
		"an hour by the spec":                             {seconds(3600), nil, time.Hour},
		"no grace period in either":                       {nil, nil, 30 * time.Second},
		"more seconds than any time has: about 100 years": {seconds(1 << 62), nil, 100 * 366 * 24 * time.Hour},
		"-1 by the spec":                                  {seconds(-1), nil, 0},
	} {
		pod := runningPod().Deleted(noon).Obj()
		pod.Spec.TerminationGracePeriodSeconds = tc.spec

		pod.DeletionGracePeriodSeconds = tc.deletion
		check.Equal(t, name, tc.want, TerminationGracePeriod(pod))
	}
}

// TestANodeIsReadyByItsConditionReady: the cards of a node that is not ready are unusable, and its pods cannot
// terminate. The node's condition Ready says it, and Unknown is not ready. A node without any condition counts as
// ready. Condition MemoryPressure is False and must not be taken for Ready.
func TestANodeIsReadyByItsConditionReady(t *testing.T) {
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

		check.Equal(t, fmt.Sprintf("a node whose condition Ready is %q is ready", status), want, NodeReady(node))
	}
}
