package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// tides are the scenes of the tide. Each has cards of a name of its own, so that
// several are played at the same time on one cluster.
var tides = []tideScene{
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
	{name: "podsaved", play: theGangWhosePodSavedGoes},
	{name: "groupsaved", play: theGangThatSavesInTheFutureGoes},
	{name: "failed", play: survivesFiveTidesAsFailed},
	{name: "succeeded", play: survivesFiveTidesAsSucceeded},
	{name: "graceful", play: survivesATideThatWaits},
	{name: "aborts", play: aJobThatAbortsEnds},
	{name: "plain", play: aJobWithoutPoliciesReturnsAndWaits},
}

// atOnce is how many scenes are played at the same time.
const atOnce = 5

// lonely are scenes of the tide that change the scheduler for everybody.
var lonely = []tideScene{
	{name: "runtime", play: nobodyGoesBeforeItsMinimumRuntime, podByPod: true},
	{name: "crashed", play: aCrashTakesNobodyElse},
	{name: "crashedpods", play: aCrashTakesNoOtherPod, podByPod: true},
}

// TestTide plays the scenes of the tide with the action cardreclaim.
func TestTide(t *testing.T) {
	t.Parallel() // on a cluster of its own
	c, k8s, d := startTide(t)
	playTides(t, c, k8s, d, func(tideScene) bool { return true })
}

// TestTideByStockReclaim plays what of it holds pod by pod, with Volcano's own
// action reclaim.
func TestTideByStockReclaim(t *testing.T) {
	t.Parallel() // on a cluster of its own
	c, k8s, d := startEvictingCluster(t)
	playTides(t, c, k8s, d, func(scene tideScene) bool { return scene.podByPod })
}

func playTides(t *testing.T, c *cluster.Cluster, k8s client.Client, d *deployment.Deployment, played func(tideScene) bool) {
	var fleet []cluster.NodeProfile
	for _, scene := range append(tides[:len(tides):len(tides)], lonely...) {
		fleet = append(fleet, scene.fleet()...)
	}
	NewWithT(t).Expect(c.CreateNodes(t.Context(), fleet)).To(Succeed())
	play := func(scene tideScene) error {
		if played(scene) {
			t.Run(scene.name, func(t *testing.T) {
				scene.play(&tide{scene: newSceneOn(t, scene.name, c, k8s, d), card: scene.card(), other: scene.card() + "-OTHER"})
			})
		}
		return nil
	}
	// They mostly wait: more of them than there are cores at the same time.
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

// startTide starts a cluster with both programs, whose scheduler has the action
// cardreclaim.
func startTide(t *testing.T) (*cluster.Cluster, client.Client, *deployment.Deployment) {
	g := NewWithT(t)
	c, err := cluster.Start(t.Context(), cluster.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	k8s, err := newClient(c)
	g.Expect(err).NotTo(HaveOccurred())
	createClasses(t, k8s)
	text, err := os.ReadFile(filepath.Join(suite.root, "config/scheduler/configmap.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	options := programs
	options.Configuration = strings.Replace(string(text), `"enqueue, allocate, backfill"`, `"enqueue, allocate, backfill, cardreclaim"`, 1)
	g.Expect(options.Configuration).To(ContainSubstring("cardreclaim\""))
	d, err := deployment.Start(t.Context(), c, options)
	g.Expect(err).NotTo(HaveOccurred())
	return c, k8s, d
}
