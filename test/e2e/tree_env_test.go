package e2e

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// treeScene is a scene with a tree of quotas.
type treeScene struct {
	name string
	run  func(*treeTest)
}

// treeTest is the environment of such a scene: two nodes with four of a card each, and one with
// eight slices of another model.
type treeTest struct {
	*scene
	card, slices string
}

func (s treeScene) cardName() string { return "NVIDIA-" + strings.ToUpper(s.name) }

// sliceName is the MIG slice of a scene.
func (s treeScene) sliceName() string { return s.cardName() + "/mig-1g.18gb-mixed" }

// wholeCardsLabel marks the nodes of a scene with whole cards.
const wholeCardsLabel = "test.cardquota.dev/whole-cards"

func (s treeScene) nodeProfiles() []cluster.NodeProfile {
	slices := nodeProfile(s.name+"-mig", s.cardName(), 1, "1")
	delete(slices.Allocatable, "nvidia.com/gpu")
	slices.Allocatable["nvidia.com/mig-1g.18gb"] = resource.MustParse("8")
	whole := nodeProfile(s.name, s.cardName(), 2, "4")
	whole.Labels[wholeCardsLabel] = s.name
	return []cluster.NodeProfile{whole, slices}
}

// startTreeCluster starts a cluster whose ServiceTypePolicy says queueHierarchy: Tree and has the given
// types.
func startTreeCluster(t *testing.T, nodes []cluster.NodeProfile, kinds ...api.ServiceType) *testCluster {
	g := NewWithT(check.Trail(t))
	st := startTestCluster(t, nodes, check.Value(deployment.ShippedConfiguration())(t))
	g.Expect(st.deployment.StartManager(t.Context())).To(Succeed())
	g.Expect(st.deployment.StartScheduler(t.Context())).To(Succeed())
	policy := &api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}, Spec: api.ServiceTypePolicySpec{QueueHierarchy: api.QueueHierarchyTree, ServiceTypes: kinds}}
	g.Expect(st.Create(t.Context(), policy)).To(Succeed())
	st.awaitPolicy(t)
	return st
}

// awaitPolicy waits until the scheduler runs with the policy as it is written.
func (st *testCluster) awaitPolicy(t *testing.T) {
	policy := &api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}}
	NewWithT(check.Trail(t)).Eventually(func() (bool, error) {
		err := st.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
		return policy.Status.ObservedGeneration == policy.Generation && meta.IsStatusConditionTrue(policy.Status.Conditions, api.ConditionReady) &&
			meta.IsStatusConditionTrue(policy.Status.Conditions, api.ConditionEnforced), err
	}, soon, often).Should(BeTrue())
}

// runTreeScenes runs the scenes of trees on one cluster, and those that affect the whole cluster
// after the others.
func runTreeScenes(t *testing.T) {
	scenes := []treeScene{
		{"night", lendsByNight}, {"figure", reclaimsFromTheSiblingFirst}, {"guarantee", keepsGuaranteesFree},
		{"hold", holdsAndDrains}, {"rank", ordersByPriorityInsideAType}, {"sums", sumsTheSubtree},
	}
	disturbing := []treeScene{{"crash", survivesRestarts}, {"switch", switchesWithoutEvictions}, {"compute", reclaimsCPU}}

	var nodes []cluster.NodeProfile
	for _, scene := range append(scenes[:len(scenes):len(scenes)], disturbing...) {
		nodes = append(nodes, scene.nodeProfiles()...)
	}

	st := startTreeCluster(t, nodes)
	play := func(scene treeScene) {
		t.Run(scene.name, func(t *testing.T) {
			s := newSceneOn(t, scene.name, st)
			s.observer.SetTree(true)
			scene.run(&treeTest{scene: s, card: scene.cardName(), slices: scene.sliceName()})
		})
	}

	playTogether(scenes, play)
	for _, scene := range disturbing {
		play(scene)
	}
}

// treeCard returns the quota, deserved and guarantee of a card, 0 for no guarantee.
func treeCard(card string, quota, deserved, guarantee int64) api.Card {
	c := api.Card{Name: card, Quota: &quota, Deserved: &deserved}
	if guarantee > 0 {
		c.Guarantee = &guarantee
	}
	return c
}

// treeQuota is a CardQuota in a tree: without a type it is a parent.
type treeQuota struct {
	name, parent, serviceType string
	cards                     []api.Card
	resources                 *api.Resources
	priority                  int32
}

// createTree creates CardQuotas in the given order and waits until all of them are ready.
func (t *treeTest) createTree(quotas ...treeQuota) {
	for _, q := range quotas {
		made := builder.CardQuota(t.queueName(q.name)).ServiceType(q.serviceType).Obj()
		made.Spec.Cards = q.cards
		made.Spec.Resources = q.resources
		if q.parent != "" {
			made.Spec.Parent = t.queueName(q.parent)
		}

		if q.priority > 0 {
			made.Spec.Priority = ptr.To(q.priority)
		}
		t.createObjects(made)
	}

	for _, q := range quotas {
		t.waitForCondition(t.queueName(q.name), api.ConditionReady, metav1.ConditionTrue)
		t.Eventually(func() v1beta1.QueueState { return t.readQueue(t.queueName(q.name)).Status.State }).Should(Equal(v1beta1.QueueStateOpen))
	}
}

// queueName returns the name of one of the scene's queues.
func (t *treeTest) queueName(kind string) string { return t.namespace + "-" + kind }

// start creates a Deployment of pods with one card each.
func (t *treeTest) start(name, queue, card string, pods int) {
	t.createObjects(t.deploymentOf(podSet{name: name, queue: t.queueName(queue), card: card, count: 1, pods: pods}))
}

// newGang returns a job that needs all of its pods, with one card each, and restarts when one of
// them is evicted.
func (t *treeTest) newGang(name, queue string, pods int, annotations map[string]string) *batchv1alpha1.Job {
	job := t.newVCJob(podSet{name: name, queue: t.queueName(queue), card: t.card, count: 1, pods: pods, gang: pods, annotations: annotations})
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{
		{Events: []v1alpha1.Event{v1alpha1.PodEvictedEvent, v1alpha1.PodFailedEvent}, Action: v1alpha1.RestartJobAction},
		{Event: v1alpha1.TaskCompletedEvent, Action: v1alpha1.CompleteJobAction},
	}
	return job
}

func (t *treeTest) startGang(name, queue string, pods int, annotations map[string]string) {
	t.createObjects(t.newGang(name, queue, pods, annotations))
}

// wantSamePods waits for some sessions and checks that the given pods run on.
func (t *treeTest) wantSamePods(names ...string) func() {
	before := t.runningPods(names...)
	return func() {
		t.checkUnchanged(func() any { return t.runningPods(names...) }, before, fmt.Sprint(names))
	}
}

// setStopPolicy sets the stop policy of a CardQuota.
func (t *treeTest) setStopPolicy(name string, policy api.StopPolicy) {
	t.mergePatch(&api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: t.queueName(name)}}, `{"spec":{"stopPolicy":%q}}`, policy)
}
