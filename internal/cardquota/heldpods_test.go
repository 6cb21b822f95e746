package cardquota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWhoHoldsCardsForBills: all that runs, whatever its queue. A terminating pod keeps the queue of its last
// charge, and counts on a node that is not ready until the end of its grace period.
func TestWhoHoldsCardsForBills(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	nodes := fleetNodes()
	for i := range nodes {
		nodes[i].IsReady = nodes[i].Name == "h200"
	}

	pod := func(name, node string) *builder.PodBuilder {
		return builder.Pod("lab", name).UID(types.UID("uid-" + name)).GPUs(1).Running(node)
	}
	terminating := func(name, node string, end time.Time) *corev1.Pod {
		p := pod(name, node).Queue("q").Obj()
		p.DeletionTimestamp = &metav1.Time{Time: end}
		return p
	}

	pods := []*corev1.Pod{
		pod("running", "h200").Queue("q").Obj(),
		pod("outside", "h200").Obj(),
		builder.Pod("lab", "no-cards").CPU("8").Queue("q").Running("h200").Obj(),
		pod("finished", "h200").Queue("q").Phase(corev1.PodSucceeded).Obj(),
		terminating("ready", "h200", now.Add(-time.Hour)),
		terminating("not-ready", "h800", now.Add(time.Second)),
		terminating("not-ready-over", "h800", now),
		terminating("no-node-over", "gone", now),
		pod("not-ready-running", "h800").Queue("q").Obj(),
	}

	facts := &PodFacts{}
	input := CountInput{Pods: pods, Inventory: fleet(), Nodes: nodes, Facts: facts, Now: now}
	managedBy := func() map[string]string {
		held := map[string]string{}
		for _, h := range facts.HeldPods() {
			held[h.Pod.Name] = h.Charge.Queue
		}
		return held
	}

	want := map[string]string{"running": "q", "outside": "", "ready": "q", "not-ready": "q", "not-ready-running": "q"}
	usage, charges := CountUsageAndCharges(input)
	check.Equal(t, "holders", want, managedBy())
	check.Equal(t, "cards that count against the quota", map[card.Name]card.Count{"NVIDIA-H200": 1, "NVIDIA-H800": 1}, usage["q"].Used)
	check.Equal(t, "the next end", now.Add(time.Second), facts.NextEnd(now))
	check.Equal(t, "the next end after that", time.Time{}, facts.NextEnd(now.Add(time.Second)))

	for _, p := range pods { // the queue that was charged last stays
		delete(p.Annotations, "scheduling.volcano.sh/queue-name")
	}

	for range 3 {
		input.LastCharges = charges
		_, charges = CountUsageAndCharges(input)
		check.Equal(t, "holders that name no queue any more", want, managedBy())
	}
}
