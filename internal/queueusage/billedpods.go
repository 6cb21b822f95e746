package queueusage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// BilledPod is a pod that uses cards, with its charge. The charge of a terminating pod counts for bills
// only. Its queue may be "".
type BilledPod struct {
	Pod    *corev1.Pod
	Charge *quota.Charge
}

// BilledPods returns all pods that used cards by the last count, in a queue or in none. A pod that is
// terminating still runs.
func (f *PodFacts) BilledPods() []BilledPod { return f.billed }

// listBilledPods records for bills which pods use cards: those that are charged, and of the terminating ones
// those that still run. For the next count it records the charges of terminating pods.
func (c *counter) listBilledPods() {
	billed := make([]BilledPod, 0, len(c.charged))
	for i := range c.charged {
		if pod := &c.charged[i]; len(pod.Charge.Cards) > 0 {
			billed = append(billed, BilledPod{pod.Pod, pod.Charge})
		}
	}

	charges := make(map[types.UID]*quota.Charge, len(c.ending))
	for i := range c.ending {
		pod := &c.ending[i]
		if len(pod.Charge.Cards) == 0 {
			continue
		}

		// Keep the charge of a terminating pod: once its node is gone, nothing says which cards
		// it used.
		charges[pod.Pod.UID] = pod.Charge
		if workload.StillRuns(pod.Pod, c.isReady(pod.Pod.Spec.NodeName), c.input.Now) {
			billed = append(billed, BilledPod{pod.Pod, pod.Charge})
		}
	}

	c.facts.billed = billed
	c.facts.ending = charges
}

// isReady reports whether a node is ready. A node that does not exist is not.
func (c *counter) isReady(node string) bool {
	if c.ready == nil {
		c.ready = make(map[string]bool, len(c.input.Nodes))
		for i := range c.input.Nodes {
			c.ready[c.input.Nodes[i].Name] = c.input.Nodes[i].IsReady
		}
	}
	return c.ready[node]
}

// NextEnd returns when the first terminating pod may no longer count, although no event says so: a pod on a node that
// is not ready counts until the end of its grace period. It is zero if no grace period lasts longer than now.
func (f *PodFacts) NextEnd(now time.Time) (next time.Time) {
	for _, billed := range f.billed {
		at := billed.Pod.DeletionTimestamp
		if at != nil && at.After(now) && (next.IsZero() || at.Time.Before(next)) {
			next = at.Time
		}
	}
	return next
}
