package queueusage

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWhoUsesCardsForBills: bills count card-seconds, so they count each pod that runs with cards, in any
// queue or in none. A terminating pod does not count against the quota any more, but still runs. On a ready
// node it runs until it is gone, on another node until the end of its grace period. Each pod keeps the queue
// that was charged last, also when its annotation is removed. No event says that a grace period is over, so
// NextEnd returns when the pods have to be counted again. Only node h200 is ready.
func TestWhoUsesCardsForBills(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	nodes := newNodes()
	for i := range nodes {
		nodes[i].IsReady = nodes[i].Name == "h200"
	}

	pod := func(name, node string) *builder.PodBuilder {
		return builder.Pod("lab", name).UID(types.UID("uid-" + name)).GPUs(1).Running(node)
	}
	noCards := func(name string) *builder.PodBuilder {
		return builder.Pod("lab", name).UID(types.UID("uid-" + name)).CPU("8").Queue("q").Running("h200")
	}
	terminating := func(name, node string, end time.Time) *corev1.Pod {
		return pod(name, node).Queue("q").Deleted(end).Obj()
	}

	pods := []*corev1.Pod{
		pod("running", "h200").Queue("q").Obj(),
		pod("without-queue", "h200").Obj(),
		noCards("no-cards").Obj(),
		noCards("no-cards-terminating").Deleted(now).Obj(),
		pod("finished", "h200").Queue("q").Phase(corev1.PodSucceeded).Obj(),
		terminating("terminating", "h200", now.Add(-time.Hour)),
		terminating("terminating-not-ready", "h800", now.Add(time.Second)),
		terminating("grace-period-is-over", "h800", now),
		terminating("node-is-gone", "gone", now),
		pod("not-ready-running", "h800").Queue("q").Obj(),
	}

	facts := &PodFacts{}
	input := Input{Pods: pods, Inventory: newInventory(), Nodes: nodes, Facts: facts, Now: now}
	queuesOfBilledPods := func() map[string]string {
		billed := map[string]string{}
		for _, holder := range facts.BilledPods() {
			billed[holder.Pod.Name] = holder.Charge.Queue
		}
		return billed
	}

	want := map[string]string{
		"running":               "q",
		"without-queue":         "",
		"terminating":           "q",
		"terminating-not-ready": "q",
		"not-ready-running":     "q",
	}
	usage, charges := CountWithCharges(input)
	check.Equal(t, "queues of billed pods", want, queuesOfBilledPods())
	check.Equal(t, "used by running and not-ready-running", map[card.Name]card.Count{"NVIDIA-H200": 1, "NVIDIA-H800": 1}, usage["q"].Used)
	check.Equal(t, "when the grace period of terminating-not-ready ends", now.Add(time.Second), facts.NextEnd(now))
	check.Equal(t, "end of a grace period after that: none", time.Time{}, facts.NextEnd(now.Add(time.Second)))

	for _, p := range pods { // only the charges of the last count name the queue now
		delete(p.Annotations, "scheduling.volcano.sh/queue-name")
	}

	for range 3 { // each count gets the charges of the count before it
		input.LastCharges = charges
		_, charges = CountWithCharges(input)
		check.Equal(t, "queues of billed pods, whose annotation is removed", want, queuesOfBilledPods())
	}
}
