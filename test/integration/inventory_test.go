package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// inventoryDelay is how soon a change of a node shows.
const inventoryDelay = 5 * time.Second

// inventoryCard returns the entry of a card in the CardInventory, for use in Eventually.
func inventoryCard(t *testing.T, name string) func() (v1alpha1.InventoryCard, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Name: v1alpha1.InventoryName}, func(inventory *v1alpha1.CardInventory) v1alpha1.InventoryCard {
		for _, entry := range inventory.Status.Cards {
			if entry.Name == name {
				return entry
			}
		}
		return v1alpha1.InventoryCard{}
	})
}

// anomaliesOf returns the anomalies of one node as "Reason: message", for use in Eventually.
func anomaliesOf(t *testing.T, node string) func() ([]string, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Name: v1alpha1.InventoryName}, func(inventory *v1alpha1.CardInventory) []string {
		var found []string
		for _, anomaly := range inventory.Status.Anomalies {
			if slices.Contains(anomaly.Nodes, node) {
				found = append(found, string(anomaly.Reason)+": "+anomaly.Message)
			}
		}
		return found
	})
}

// TestTheInventoryFollowsNodesQuotasAndPods: the CardInventory shows for each card model how many cards exist, are
// healthy, cordoned, allocated and granted. A node has 8 cards, a CardQuota grants 8, and a pod uses 2. Then the
// node is cordoned, one of its cards breaks (7 are left, so 1 is over-allocated), and it loses the label of its
// model.
func TestTheInventoryFollowsNodesQuotasAndPods(t *testing.T) {
	g, name := startParallelTest(t)
	const model = "NVIDIA-INVENTORY"
	newNode(t, name, model)
	entry := inventoryCard(t, model)
	g.Eventually(entry, inventoryDelay).Should(gomega.Equal(v1alpha1.InventoryCard{Name: model, Resources: []string{"nvidia.com/gpu"}, Total: 8, Healthy: 8}))

	admin.CreateWithCleanup(t, newQuota(name, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = model }))
	g.Eventually(queueOf(t, name)).ShouldNot(gomega.BeNil()) // cards in a queue that does not exist are an anomaly

	pod := builder.Pod(labNamespace, name).Queue(name).Card(model).GPUs(2).Node(name).Obj()
	admin.CreateWithCleanup(t, pod)
	setPod(t, pod, setRunning)

	want := v1alpha1.InventoryCard{Name: model, Resources: []string{"nvidia.com/gpu"}, Total: 8, Healthy: 8, Allocated: 2, Quota: 8,
		ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "training", Quota: 8, Used: 2}}}
	g.Eventually(entry).Should(gomega.Equal(want))

	node := builder.Node(name).Obj()
	patchAs(t, node, "user", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	want.Cordoned = 8
	g.Eventually(entry, inventoryDelay).Should(gomega.Equal(want))

	base := node.DeepCopy()
	node.Status.Allocatable[builder.GPU] = resource.MustParse("7")
	g.Expect(admin.Status().Patch(t.Context(), node, client.MergeFrom(base))).To(gomega.Succeed())

	want.Total = 7
	want.Healthy = 7
	want.Cordoned = 7
	want.OverAllocatedBy = 1
	g.Eventually(entry, inventoryDelay).Should(gomega.Equal(want))
	g.Eventually(anomaliesOf(t, name), inventoryDelay).Should(gomega.ConsistOf(gomega.HavePrefix("CardsUnhealthy: node " + name + ": 1 " + model)))

	patchAs(t, node, "user", func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.product") })
	g.Eventually(anomaliesOf(t, name), inventoryDelay).Should(gomega.ContainElement(gomega.HavePrefix("NoModelLabel: ")))
}

// TestTheInventoryComesBack: the operator creates the one CardInventory again after a user deleted it, with a full
// status. The API server refuses a second one. The test is not parallel, because other tests wait for changes of
// the status.
func TestTheInventoryComesBack(t *testing.T) {
	g := requireControlPlane(t)
	newNode(t, uniqueName(t, ""), "NVIDIA-INVENTORY-BACK")
	key := client.ObjectKey{Name: v1alpha1.InventoryName}
	get := framework.Read(t.Context(), admin, key, func(i *v1alpha1.CardInventory) *v1alpha1.CardInventory { return i })

	isCounted := gomega.HaveField("Status.Summary", gomega.ContainSubstring("NVIDIA-INVENTORY-BACK"))
	g.Eventually(get).Should(isCounted)

	before := check.Value(get())(t)
	g.Expect(admin.Delete(t.Context(), before)).To(gomega.Succeed())
	g.Eventually(get).Should(gomega.And(gomega.HaveField("UID", gomega.Not(gomega.Equal(before.UID))), isCounted))

	other := &v1alpha1.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	g.Expect(admin.Create(t.Context(), other)).To(gomega.MatchError(gomega.ContainSubstring("there is one CardInventory, named cluster")))
}

// TestTheInventoryTakesReasonsOfLaterVersions: during an upgrade the operator may be newer than the
// CustomResourceDefinition. So the API server must accept an anomaly with an unknown reason. Otherwise it would refuse
// the whole status.
func TestTheInventoryTakesReasonsOfLaterVersions(t *testing.T) {
	g := requireControlPlane(t)
	inventory := &v1alpha1.CardInventory{}
	key := client.ObjectKey{Name: v1alpha1.InventoryName}
	g.Eventually(func() error { return admin.Get(t.Context(), key, inventory) }).Should(gomega.Succeed())
	base := inventory.DeepCopy()
	inventory.Status.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: "ReasonOfALaterVersion", Message: "node a: …"}}
	g.Expect(admin.Status().Patch(t.Context(), inventory, client.MergeFrom(base), client.DryRunAll)).To(gomega.Succeed())
}

// TestACardThatNoNodeHasIsReported: a CardQuota grants a card with a spelling that no node has. Condition
// CardsKnown says so, and suggests a similar name as soon as a node has one. It ends when a node has the card.
func TestACardThatNoNodeHasIsReported(t *testing.T) {
	g, name := startParallelTest(t)
	const model = "Known-Models-Card"
	quota := newQuota(name, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = model + "s" })
	admin.CreateWithCleanup(t, quota)

	known := cardQuotaCondition(t, name, "CardsKnown")
	g.Eventually(known).Should(gomega.HavePrefix("False/UnknownCard: no node has " + model + "s"))
	g.Eventually(admin.EventMessages(t, quota, "UnknownCard")).Should(gomega.HaveLen(1))

	newNode(t, name, model)
	g.Eventually(known).Should(gomega.Equal("False/UnknownCard: no node has " + model + "s; did you mean " + model + "?"))
	newNode(t, name+"-s", model+"s")
	g.Eventually(known).Should(gomega.HavePrefix("True/CardsKnown"))
}

// TestThePolicyNamesTheCardsOfOtherVendors: the operator does not know AMD's labels, so a node with 8 of
// amd.com/gpu is an anomaly. A mapping in the ServiceTypePolicy says which label has the model. Then they are cards
// of the inventory, and the scheduler's configuration has the mapping. Without the mapping they are no cards again.
func TestThePolicyNamesTheCardsOfOtherVendors(t *testing.T) {
	g := requireControlPlane(t)
	const resourceName = corev1.ResourceName("amd.com/gpu")
	name := uniqueName(t, "")
	admin.CreateWithCleanup(t, builder.Node(name).Label("amd.com/gpu.product-name", "AMD_Instinct_MI300X").Resource(resourceName, "8").Obj())
	entry := inventoryCard(t, "AMD_Instinct_MI300X")
	g.Eventually(anomaliesOf(t, name)).Should(gomega.ContainElement(gomega.HavePrefix("NoModelLabel: ")))

	policy := newPolicy(t, func(s *v1alpha1.ServiceTypePolicySpec) {
		s.Cards = []v1alpha1.CardMapping{{Resource: string(resourceName), ModelLabel: "amd.com/gpu.product-name"}}
	})

	g.Eventually(entry).Should(gomega.Equal(v1alpha1.InventoryCard{Name: "AMD_Instinct_MI300X", Resources: []string{string(resourceName)}, Total: 8, Healthy: 8}))
	g.Eventually(anomaliesOf(t, name)).Should(gomega.BeEmpty())
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.ContainSubstring("modelLabel: amd.com/gpu.product-name"))
	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Cards = nil })
	g.Eventually(entry).Should(gomega.Equal(v1alpha1.InventoryCard{}))
}

// TestTheAPIRefusesInvalidMappings: a mapping makes a resource a card, so it needs exactly one way to the model.
// Resources of Kubernetes itself are never cards. A share of a card (.shared) needs the label of its memory, which
// whole cards must not have.
func TestTheAPIRefusesInvalidMappings(t *testing.T) {
	requireControlPlane(t)

	for t, tc := range check.Cases(t, map[string]struct {
		mapping   v1alpha1.CardMapping
		wantError string
	}{
		"neither model nor modelLabel":                {v1alpha1.CardMapping{Resource: "amd.com/gpu"}, "write either modelLabel"},
		"both model and modelLabel":                   {v1alpha1.CardMapping{Resource: "amd.com/gpu", Model: "X", ModelLabel: "l"}, "write either modelLabel"},
		"the resource is CPU":                         {v1alpha1.CardMapping{Resource: "cpu", Model: "X"}, "spec.cards[0].resource"},
		"the resource is one of Kubernetes":           {v1alpha1.CardMapping{Resource: "a.kubernetes.io/b", Model: "X"}, "resources of Kubernetes are no cards"},
		"a model with a space":                        {v1alpha1.CardMapping{Resource: "amd.com/gpu", Model: "MI300X OAM"}, "spec.cards[0].model"},
		"a share of a card without memoryLabel":       {v1alpha1.CardMapping{Resource: "amd.com/gpu.shared", Model: "X"}, "memoryLabel is for resources that end with .shared"},
		"a whole card with memoryLabel":               {v1alpha1.CardMapping{Resource: "amd.com/gpu", Model: "X", MemoryLabel: "m"}, "memoryLabel is for resources that end with .shared"},
		"a share of a card with memoryLabel: allowed": {v1alpha1.CardMapping{Resource: "amd.com/gpu.shared", Model: "X", MemoryLabel: "m", NodeSelector: map[string]string{"a": "b"}}, ""},
	}) {
		policy := builder.ServiceTypePolicy().Obj()
		policy.Spec.Cards = []v1alpha1.CardMapping{tc.mapping}
		expectAPIAnswer(t, policy, tc.wantError)
	}
}
