package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// reclaimScenes are the reclaim scenes. Each has cards of its own name, so that several run at the same
// time on one cluster.
var reclaimScenes = []reclaimScene{
	// The longest ones first.
	{name: "tentides", run: aJobSurvivesTenTides},
	{name: "failed", run: restartedJobSurvives(5, map[string]string{endsWith: "143"})},
	{name: "succeeded", run: restartedJobSurvives(5, map[string]string{endsWith: "0"})},
	{name: "matrix", run: inferenceReclaimsFromTrainingOnly, worksWithStockReclaim: true},
	{name: "only-training", run: onlyTrainingIsReclaimed, worksWithStockReclaim: true},
	{name: "protected", run: protectedPodsStay, worksWithStockReclaim: true},
	{name: "named-card", run: reclaimsTheNamedCard, worksWithStockReclaim: true},
	{name: "free-cards", run: noEvictionWhileCardsAreFree, worksWithStockReclaim: true},
	{name: "no-free-cpu", run: noEvictionWithoutEnoughCPU, worksWithStockReclaim: true},
	{name: "blocked-nodes", run: noEvictionWhereAPodBlocks, worksWithStockReclaim: true},
	{name: "no-fitting-node", run: noEvictionWithoutAFittingNode, worksWithStockReclaim: true},
	{name: "outside", run: noEvictionForADisallowedNamespace, worksWithStockReclaim: true},
	{name: "grows", run: aGrowingDeploymentReclaims, worksWithStockReclaim: true},
	{name: "all-or-nothing", run: aGangReclaimsAllOrNothing, worksWithStockReclaim: true},

	{name: "gangs", run: reclaimsWholeGangs},
	{name: "gang-with-protected-pod", run: aGangWithAProtectedPodStays},
	{name: "elastic", run: elasticPodsAreEvictedFirst},
	{name: "restarts-whole", run: aRestartingJobIsEvictedWhole},
	{name: "task-minimums", run: everyTaskKeepsItsMinimum},
	{name: "younger-gang", run: theYoungerGangIsEvicted},
	{name: "low-priority", run: theGangOfLowerPriorityIsEvicted},
	{name: "disruption-budget", run: theGangWithoutADisruptionBudgetIsEvicted},
	{name: "checkpoint-of-a-pod", run: theGangThatSavedIsEvicted},
	{name: "checkpoint-in-future", run: theGangWithAFutureCheckpointIsEvicted},
	{name: "graceful", run: restartedJobSurvives(2, map[string]string{endsWith: "0", endsAfter: "4s"})},
	{name: "backofflimit", run: aJobAtItsBackoffLimitStays},
	{name: "aborts", run: aJobThatAbortsEnds},
	{name: "no-policies", run: aJobWithoutPoliciesReturnsAndWaits},
}

// atOnce is the number of scenes that run at the same time.
const atOnce = 8

// clusterWideScenes are reclaim scenes that affect the scheduler of the whole cluster.
var clusterWideScenes = []reclaimScene{
	{name: "runtime", run: noEvictionBeforeMinimumRuntime, worksWithStockReclaim: true},
	{name: "crashed", run: aCrashEvictsNoOtherGang},
	{name: "crashedpods", run: aCrashEvictsNoOtherPod, worksWithStockReclaim: true},
}

func runReclaimScenes(t *testing.T, st *testCluster, played func(reclaimScene) bool) {
	var fleet []cluster.NodeProfile
	for _, scene := range append(reclaimScenes[:len(reclaimScenes):len(reclaimScenes)], clusterWideScenes...) {
		fleet = append(fleet, scene.nodeProfiles()...)
	}

	NewWithT(check.Trail(t)).Expect(st.cluster.CreateNodes(t.Context(), fleet)).To(Succeed())
	play := func(scene reclaimScene) {
		if played(scene) {
			t.Run(scene.name, func(t *testing.T) {
				scene.run(&reclaimTest{scene: newSceneOn(t, scene.name, st), card: scene.cardName(), other: scene.cardName() + "-OTHER"})
			})
		}
	}

	playTogether(reclaimScenes, play)
	for _, scene := range clusterWideScenes {
		play(scene)
	}
}

// playTogether plays scenes at the same time. They mostly wait, so more of them than there are cores run. Each fails
// its own test.
func playTogether[S any](scenes []S, play func(S)) {
	var together errgroup.Group
	together.SetLimit(atOnce)
	for _, scene := range scenes {
		together.Go(func() error { play(scene); return nil })
	}
	_ = together.Wait()
}
