package e2e

import (
	. "github.com/onsi/gomega"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// keepsGuaranteesFree: queue safe has a guarantee of 3 of 8 cards, so loose gets 5 and 3 stay free for safe.
// Inference takes cards back from training only down to that guarantee.
func keepsGuaranteesFree(t *treeTest) {
	t.createTree(
		treeQuota{name: "safe", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 3)}},
		treeQuota{name: "loose", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "inf", serviceType: "inference", cards: []api.Card{treeCard(t.card, 8, 8, 0)}},
	)

	t.start("loose", "loose", t.card, 8)
	t.wantRunningAndWaiting("loose", 5, 3)
	stay := t.wantSamePods("loose")
	t.start("safe", "safe", t.card, 3)
	t.wantRunningAndWaiting("safe", 3, 0)

	stay()
	t.start("service", "inf", t.card, 8)
	t.wantPods(map[string]string{"service": runningAndWaiting(5, 3), "safe": runningAndWaiting(3, 0), "loose": runningAndWaiting(0, 8)})
}

// holdsAndDrains: stopPolicy Hold of a parent lets nothing start below it, and lends its guarantee to others.
// HoldAndDrain evicts whole jobs, also those that are not preemptable, and counts no retry. Without it they start
// again.
func holdsAndDrains(t *treeTest) {
	t.createTree(
		treeQuota{name: "tenant", cards: []api.Card{treeCard(t.card, 8, 6, 6)}},
		treeQuota{name: "held", parent: "tenant", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 6, 6)}},
		treeQuota{name: "free", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 2, 0)}},
	)

	t.start("web", "held", t.card, 1)
	t.startGang("gang", "held", 2, map[string]string{v1beta1.PodPreemptable: "false"})
	t.wantPods(map[string]string{"web": runningAndWaiting(1, 0), "gang": runningAndWaiting(2, 0)})
	t.start("other", "free", t.card, 5)
	t.wantRunningAndWaiting("other", 2, 3)

	t.setStopPolicy("tenant", api.StopPolicyHold)
	t.wantRunningAndWaiting("other", 5, 0)
	stay := t.wantSamePods("web", "gang")
	t.scaleDeployment("web", 2)
	t.wantRunningAndWaiting("web", 1, 1)
	stay()

	t.setStopPolicy("tenant", api.StopPolicyHoldAndDrain)
	t.Eventually(func() int { return t.countRunning("gang") }).Should(BeZero())
	t.wantPods(map[string]string{"web": runningAndWaiting(0, 2), "other": runningAndWaiting(5, 0)}) // the gang has no pods while it waits
	t.Expect(t.countRunning("gang")).To(BeZero())
	t.Expect(t.readJob("gang").Status.RetryCount).To(BeZero())

	t.setStopPolicy("tenant", api.StopPolicyNone)
	t.scaleDeployment("other", 2)
	t.wantPods(map[string]string{"web": runningAndWaiting(2, 0), "gang": runningAndWaiting(2, 0), "other": runningAndWaiting(2, 0)})
}

// ordersByPriorityInsideAType: of two queues of one service type the one of higher priority starts first, but
// evicts nothing of its own type. What the lower one deserves comes before what the higher one would borrow.
func ordersByPriorityInsideAType(t *treeTest) {
	t.createTree(
		treeQuota{name: "busy", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 8, 0)}},
		treeQuota{name: "low", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "high", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}, priority: 500},
	)

	t.start("busy", "busy", t.card, 8)
	t.wantRunningAndWaiting("busy", 8, 0)
	t.start("low", "low", t.card, 4)
	t.wantRunningAndWaiting("low", 0, 4)
	t.start("high", "high", t.card, 4)

	t.wantPods(map[string]string{"busy": runningAndWaiting(8, 0), "low": runningAndWaiting(0, 4), "high": runningAndWaiting(0, 4)})
	t.scaleDeployment("busy", 4)
	t.wantPods(map[string]string{"busy": runningAndWaiting(4, 0), "low": runningAndWaiting(0, 4), "high": runningAndWaiting(4, 0)})
	stay := t.wantSamePods("busy", "high")

	t.scaleDeployment("high", 5)
	t.wantPods(map[string]string{"low": runningAndWaiting(0, 4), "high": runningAndWaiting(4, 1)})
	stay()

	// What the lower queue deserves comes before what the higher one would borrow.
	stay = t.wantSamePods("high")
	t.scaleDeployment("busy", 2)
	t.wantPods(map[string]string{"busy": runningAndWaiting(2, 0), "high": runningAndWaiting(4, 1), "low": runningAndWaiting(2, 2)})
	stay()
}

// sumsTheSubtree: the status of a parent sums up what its tenant uses below, for cards and slices. The quota of 6
// of the tenant limits its queues together: 4 + 2 run.
func sumsTheSubtree(t *treeTest) {
	t.createTree(
		treeQuota{name: "tenant", cards: []api.Card{treeCard(t.card, 6, 4, 0), treeCard(t.slices, 8, 8, 0)}},
		treeQuota{name: "a", parent: "tenant", serviceType: "training", cards: []api.Card{treeCard(t.card, 6, 2, 0), treeCard(t.slices, 4, 4, 0)}},
		treeQuota{name: "project", parent: "tenant", cards: []api.Card{treeCard(t.card, 6, 2, 0)}},
		treeQuota{name: "b", parent: "project", serviceType: "training", cards: []api.Card{treeCard(t.card, 6, 2, 0)}},
	)

	t.start("one", "a", t.card, 4)
	t.start("two", "a", t.slices, 5)
	t.wantPods(map[string]string{"one": runningAndWaiting(4, 0), "two": runningAndWaiting(4, 1)})
	t.start("three", "b", t.card, 3)
	t.wantRunningAndWaiting("three", 2, 1)

	t.wantUsedPendingAndOver(t.queueName("tenant"), t.card, 6, 1, 0)
	t.wantUsedPendingAndOver(t.queueName("tenant"), t.slices, 4, 1, 0)
	t.wantUsedPendingAndOver(t.queueName("project"), t.card, 2, 1, 0)
	t.Expect(t.readQueue(t.queueName("b")).Spec.Parent).To(Equal(t.queueName("project")))
}
