package e2e

import (
	. "github.com/onsi/gomega"

	api "cardquota.dev/operator/api/v1alpha1"
)

// The figure of requirement 004: root has child-a with subchild-a1 and subchild-a2, and child-b.
// Job-a borrows in a1, job-c in b. Job-b of a2 takes job-a's borrowed cards first, then job-c's,
// and nothing to borrow itself.
func reclaimsFromTheSiblingFirst(t *treeTest) { t.playFigure(t.card) }

func reclaimsSlicesFromTheSiblingFirst(t *treeTest) { t.playFigure(t.slices) }

func (t *treeTest) playFigure(card string) {
	t.createTree(
		// The parent comes last: the operator waits for it.
		treeQuota{name: "a1", parent: "a", serviceType: "training", cards: []api.Card{share(card, 8, 1, 0)}},
		treeQuota{name: "a2", parent: "a", serviceType: "training", cards: []api.Card{share(card, 8, 3, 0)}},
		treeQuota{name: "a", cards: []api.Card{share(card, 8, 4, 0)}},
		treeQuota{name: "b", serviceType: "training", cards: []api.Card{share(card, 8, 4, 0)}},
	)
	t.start("job-a", "a1", card, 3)
	t.start("job-c", "b", card, 5)
	t.wantPods(map[string]string{"job-a": podCounts(3, 0), "job-c": podCounts(5, 0)})
	t.start("job-b", "a2", card, 1)
	t.wantPods(map[string]string{"job-a": podCounts(2, 1), "job-b": podCounts(1, 0), "job-c": podCounts(5, 0)})
	t.scaleDeployment("job-b", 2)
	t.wantPods(map[string]string{"job-a": podCounts(1, 2), "job-b": podCounts(2, 0), "job-c": podCounts(5, 0)})
	t.scaleDeployment("job-b", 3)
	t.wantPods(map[string]string{"job-a": podCounts(1, 2), "job-b": podCounts(3, 0), "job-c": podCounts(4, 1)})
	stay := t.wantSamePods("job-a", "job-b", "job-c")
	t.scaleDeployment("job-b", 5)
	t.wantPods(map[string]string{"job-a": podCounts(1, 2), "job-b": podCounts(3, 2), "job-c": podCounts(4, 1)})
	stay()
	// What leaves is lent again, also across the tree. Job-a and job-c may not borrow for a while.
	t.scaleDeployment("job-c", 3)
	t.wantPods(map[string]string{"job-a": podCounts(1, 2), "job-b": podCounts(4, 1), "job-c": podCounts(3, 0)})
}

// By night one tenant borrows the cards of the other. In the morning they come back, gang by gang,
// and no more than needed; no retry is counted. The next night they are lent again.
func lendsByNight(t *treeTest) {
	t.createTree(
		treeQuota{name: "tenant-day", cards: []api.Card{share(t.card, 8, 4, 0)}},
		treeQuota{name: "day", parent: "tenant-day", serviceType: "training", cards: []api.Card{share(t.card, 8, 4, 0)}},
		treeQuota{name: "tenant-night", cards: []api.Card{share(t.card, 8, 4, 0)}},
		treeQuota{name: "night", parent: "tenant-night", serviceType: "training", cards: []api.Card{share(t.card, 8, 4, 0)}},
	)
	t.startGang("first", "night", 4, nil)
	t.wantRunning("first", 4, 0)
	t.startGang("second", "night", 4, nil)
	t.wantRunning("second", 4, 0)
	t.start("work", "day", t.card, 4)
	t.wantRunning("work", 4, 0)
	t.Eventually(func() int { return t.countRunning("first") + t.countRunning("second") }).Should(Equal(4))
	t.wantSamePods("first", "second", "work")()
	for _, job := range []string{"first", "second"} {
		t.Expect(t.readJob(job).Status.RetryCount).To(BeZero(), job)
	}
	// The night returns: what was taken back is not lent to the same borrower for a while.
	t.scaleDeployment("work", 0)
	t.wantRunning("work", 0, 0)
	t.Expect(t.countRunning("first") + t.countRunning("second")).To(Equal(4))
	t.Eventually(func() int { return t.countRunning("first") + t.countRunning("second") }, "7m").Should(Equal(8))
}
