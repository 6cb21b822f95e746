package e2e

import (
	"maps"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/deployment"
)

// reclaimsFromTheSiblingFirst: parent a (deserves 4) has a1 (1) and a2 (3), and b (4) is beside it. Job-a borrows
// in a1, job-c in b. Job-b of a2 takes job-a's borrowed cards first, then job-c's, up to what a2 deserves, and
// borrows nothing by eviction. It is the same for whole cards and for slices.
func reclaimsFromTheSiblingFirst(t *treeTest) {
	t.createTree(
		// The parent comes last: the operator waits for it.
		treeQuota{name: "a1", parent: "a", serviceType: "training", cards: t.bothCards(8, 1)},
		treeQuota{name: "a2", parent: "a", serviceType: "training", cards: t.bothCards(8, 3)},
		treeQuota{name: "a", cards: t.bothCards(8, 4)},
		treeQuota{name: "b", serviceType: "training", cards: t.bothCards(8, 4)},
	)

	t.startBoth("job-a", "a1", 3)
	t.startBoth("job-c", "b", 5)
	t.wantBoth(map[string]string{"job-a": runningAndWaiting(3, 0), "job-c": runningAndWaiting(5, 0)})
	t.startBoth("job-b", "a2", 1)
	t.wantBoth(map[string]string{"job-a": runningAndWaiting(2, 1), "job-b": runningAndWaiting(1, 0), "job-c": runningAndWaiting(5, 0)})

	t.scaleBoth("job-b", 2)
	t.wantBoth(map[string]string{"job-a": runningAndWaiting(1, 2), "job-b": runningAndWaiting(2, 0), "job-c": runningAndWaiting(5, 0)})
	t.scaleBoth("job-b", 3)
	t.wantBoth(map[string]string{"job-a": runningAndWaiting(1, 2), "job-b": runningAndWaiting(3, 0), "job-c": runningAndWaiting(4, 1)})
	stay := t.wantSamePods("job-a", "job-b", "job-c", "job-a"+onSlices, "job-b"+onSlices, "job-c"+onSlices)

	t.scaleBoth("job-b", 5)
	t.wantBoth(map[string]string{"job-a": runningAndWaiting(1, 2), "job-b": runningAndWaiting(3, 2), "job-c": runningAndWaiting(4, 1)})
	stay()

	// What leaves is lent again, also across the tree.
	t.scaleBoth("job-a", 1)
	t.scaleBoth("job-c", 3)
	t.wantBoth(map[string]string{"job-a": runningAndWaiting(1, 0), "job-b": runningAndWaiting(4, 1), "job-c": runningAndWaiting(3, 0)})
}

// onSlices ends the names of workloads on slices.
const onSlices = "-slices"

// bothCards returns a quota and deserved of the scene's card, and the same of its slices.
func (t *treeTest) bothCards(quota, deserved int64) []api.Card {
	return []api.Card{treeCard(t.card, quota, deserved, 0), treeCard(t.slices, quota, deserved, 0)}
}

// startBoth starts a Deployment on cards and one on slices.
func (t *treeTest) startBoth(name, queue string, pods int) {
	t.start(name, queue, t.card, pods)
	t.start(name+onSlices, queue, t.slices, pods)
}

func (t *treeTest) scaleBoth(name string, pods int) {
	t.scaleDeployment(name, pods)
	t.scaleDeployment(name+onSlices, pods)
}

// wantBoth is wantPods for both Deployments of each name.
func (t *treeTest) wantBoth(want map[string]string) {
	both := maps.Clone(want)
	for name, counts := range want {
		both[name+onSlices] = counts
	}
	t.wantPods(both)
}

// lendsByNight: by night one tenant borrows the 4 cards of the other. In the morning they come back, gang by gang,
// and no more than needed; no retry is counted. The next night they are lent again, to the same borrower only after
// a cooldown.
func lendsByNight(t *treeTest) {
	t.createTree(
		treeQuota{name: "tenant-day", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "day", parent: "tenant-day", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "tenant-night", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "night", parent: "tenant-night", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
	)

	t.startGang("first", "night", 4, nil)
	t.wantRunningAndWaiting("first", 4, 0)
	t.startGang("second", "night", 4, nil)
	t.wantRunningAndWaiting("second", 4, 0)
	morning := time.Now().Truncate(time.Second)

	t.start("work", "day", t.card, 4)
	t.wantRunningAndWaiting("work", 4, 0)
	t.Eventually(func() int { return t.countRunning("first") + t.countRunning("second") }).Should(Equal(4))
	t.wantSamePods("first", "second", "work")()

	for _, job := range []string{"first", "second"} {
		t.Expect(t.readJob(job).Status.RetryCount).To(BeZero(), job)
	}

	// The night returns: what was taken back is not lent to the same borrower for a while.
	cooldown := 5 * time.Minute / time.Duration(deployment.ClockFactor())
	t.scaleDeployment("work", 0)
	t.wantRunningAndWaiting("work", 0, 0)
	t.Eventually(func() int { return t.countRunning("first") + t.countRunning("second") }, cooldown+soon).Should(Equal(8))

	last := slices.MaxFunc(slices.Concat(t.podsOf("first"), t.podsOf("second")), func(a, b corev1.Pod) int {
		return a.Status.StartTime.Compare(b.Status.StartTime.Time)
	})
	t.Expect(last.Status.StartTime.Sub(morning)).To(BeNumerically(">=", cooldown), "%s waits", last.Name)
}
