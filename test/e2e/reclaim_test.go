package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"cardquota.dev/operator/test/cluster"
)

// reclaimScenes are the reclaim scenes. Each has cards of its own name, so that several run at the same
// time on one cluster.
var reclaimScenes = []reclaimScene{
	// The longest ones first.
	{name: "failed", play: restartedJobSurvives(5, map[string]string{endsWith: "143"})},
	{name: "succeeded", play: restartedJobSurvives(5, map[string]string{endsWith: "0"})},
	{name: "matrix", play: inferenceTakesFromTrainingOnly, worksWithStockReclaim: true},
	{name: "givers", play: trainingAloneGives, worksWithStockReclaim: true},
	{name: "protected", play: whatIsProtectedStays, worksWithStockReclaim: true},
	{name: "wrongcard", play: takesTheCardThatIsNamed, worksWithStockReclaim: true},
	{name: "suffices", play: freeCardsSuffice, worksWithStockReclaim: true},
	{name: "busy", play: nobodyGoesWithoutTheCPUToRun, worksWithStockReclaim: true},
	{name: "inway", play: nobodyGoesWhereAnotherIsInTheWay, worksWithStockReclaim: true},
	{name: "nowhere", play: nobodyGoesForWhatHasNoNode, worksWithStockReclaim: true},
	{name: "outside", play: nobodyGoesForANamespaceThatIsLeftOut, worksWithStockReclaim: true},
	{name: "grows", play: aDeploymentThatGrowsTakes, worksWithStockReclaim: true},
	{name: "allornone", play: aGangTakesAllOrNothing, worksWithStockReclaim: true},

	{name: "gangs", play: takesWholeGangs},
	{name: "onepod", play: aGangWithAProtectedPodStays},
	{name: "elastic", play: elasticPodsGoFirst},
	{name: "inelastic", play: aJobThatRestartsIsTakenWhole},
	{name: "roles", play: everyTaskKeepsItsMinimum},
	{name: "younger", play: theYoungerGangGoes},
	{name: "lowpriority", play: theGangOfTheLowerPriorityGoes},
	{name: "budget", play: theGangWithoutADisruptionBudgetGoes},
	{name: "podsaved", play: theGangWhosePodSavedGoes},
	{name: "groupsaved", play: theGangThatSavesInTheFutureGoes},
	{name: "graceful", play: restartedJobSurvives(2, map[string]string{endsWith: "0", endsAfter: "4s"})},
	{name: "aborts", play: aJobThatAbortsEnds},
	{name: "plain", play: aJobWithoutPoliciesReturnsAndWaits},
}

// atOnce is the number of scenes that run at the same time.
const atOnce = 8

// clusterWideScenes are reclaim scenes that affect the scheduler of the whole cluster.
var clusterWideScenes = []reclaimScene{
	{name: "runtime", play: nobodyGoesBeforeItsMinimumRuntime, worksWithStockReclaim: true},
	{name: "crashed", play: aCrashTakesNobodyElse},
	{name: "crashedpods", play: aCrashTakesNoOtherPod, worksWithStockReclaim: true},
}

func runReclaimScenes(t *testing.T, st *testCluster, played func(reclaimScene) bool) {
	var fleet []cluster.NodeProfile
	for _, scene := range append(reclaimScenes[:len(reclaimScenes):len(reclaimScenes)], clusterWideScenes...) {
		fleet = append(fleet, scene.nodeProfiles()...)
	}
	NewWithT(t).Expect(st.cluster.CreateNodes(t.Context(), fleet)).To(Succeed())
	play := func(scene reclaimScene) error {
		if played(scene) {
			t.Run(scene.name, func(t *testing.T) {
				scene.play(&reclaimTest{scene: newSceneOn(t, scene.name, st), card: scene.cardName(), other: scene.cardName() + "-OTHER"})
			})
		}
		return nil
	}
	// They mostly wait, so more of them than there are cores run at the same time.
	var together errgroup.Group
	together.SetLimit(atOnce)
	for _, scene := range reclaimScenes {
		together.Go(func() error { return play(scene) })
	}
	_ = together.Wait() // they fail their tests
	for _, scene := range clusterWideScenes {
		_ = play(scene)
	}
}
