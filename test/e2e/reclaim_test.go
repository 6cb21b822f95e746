package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"cardquota.dev/operator/test/cluster"
)

// tides are the reclaim scenes. Each has cards of its own name, so that several run at the same
// time on one cluster.
var tides = []reclaimScene{
	// The longest ones first.
	{name: "failed", play: restartedJobSurvives(5, map[string]string{endsWith: "143"})},
	{name: "succeeded", play: restartedJobSurvives(5, map[string]string{endsWith: "0"})},
	{name: "matrix", play: inferenceTakesFromTrainingOnly, podByPod: true},
	{name: "givers", play: trainingAloneGives, podByPod: true},
	{name: "protected", play: whatIsProtectedStays, podByPod: true},
	{name: "wrongcard", play: takesTheCardThatIsNamed, podByPod: true},
	{name: "suffices", play: freeCardsSuffice, podByPod: true},
	{name: "busy", play: nobodyGoesWithoutTheCPUToRun, podByPod: true},
	{name: "inway", play: nobodyGoesWhereAnotherIsInTheWay, podByPod: true},
	{name: "nowhere", play: nobodyGoesForWhatHasNoNode, podByPod: true},
	{name: "outside", play: nobodyGoesForANamespaceThatIsLeftOut, podByPod: true},
	{name: "grows", play: aDeploymentThatGrowsTakes, podByPod: true},
	{name: "allornone", play: aGangTakesAllOrNothing, podByPod: true},

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

// lonely are reclaim scenes that affect the scheduler of the whole cluster.
var lonely = []reclaimScene{
	{name: "runtime", play: nobodyGoesBeforeItsMinimumRuntime, podByPod: true},
	{name: "crashed", play: aCrashTakesNobodyElse},
	{name: "crashedpods", play: aCrashTakesNoOtherPod, podByPod: true},
}

func playTides(t *testing.T, st *testCluster, played func(reclaimScene) bool) {
	var fleet []cluster.NodeProfile
	for _, scene := range append(tides[:len(tides):len(tides)], lonely...) {
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
	for _, scene := range tides {
		together.Go(func() error { return play(scene) })
	}
	_ = together.Wait() // they fail their tests
	for _, scene := range lonely {
		_ = play(scene)
	}
}
