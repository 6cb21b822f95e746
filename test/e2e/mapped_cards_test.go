package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	kit "cardquota.dev/operator/test/framework"
	"cardquota.dev/operator/test/observer/rule"
)

// Cards that only the policy names.
const (
	mi300x = "AMD-MI300X"
	k100   = "Hygon-K100"
)

// mappedCards name the cards of vendors without labels .product: by a model and a selector, and by a
// label of the vendor's own.
var mappedCards = []api.CardMapping{
	{Resource: "amd.com/gpu", Model: mi300x, NodeSelector: map[string]string{"family": "mi300x"}},
	{Resource: "hygon.com/dcu", ModelLabel: "hygon.com/model"},
}

// startMappedCluster starts a cluster whose policy has mappedCards. Its operator serves webhooks. One
// of its AMD nodes is not selected.
func startMappedCluster(t *testing.T) *testCluster {
	g := NewWithT(check.Trail(t))
	node := func(name string, count int, resourceName corev1.ResourceName, labels map[string]string) cluster.NodeProfile {
		allocatable := builder.Resources("64", "512Gi")
		allocatable[resourceName] = resource.MustParse("4")
		return cluster.NodeProfile{Name: name, Count: count, Labels: labels, Allocatable: allocatable}
	}

	nodes := []cluster.NodeProfile{
		node("mi300x", 2, "amd.com/gpu", mappedCards[0].NodeSelector), node("other", 1, "amd.com/gpu", nil),
		node("k100", 1, "hygon.com/dcu", map[string]string{"hygon.com/model": k100}), nodeProfile("h200", h200, 1, "4"),
	}

	port := check.Value(cluster.FreePort())(t)
	configuration := check.Value(deployment.ShippedConfiguration())(t)

	st := startTestCluster(t, nodes, configuration, "--webhook-certificates=Self", fmt.Sprintf("--webhook-port=%d", port))
	for _, m := range mappedCards {
		st.mappings = append(st.mappings, rule.Mapping{Resource: corev1.ResourceName(m.Resource), Model: m.Model, ModelLabel: m.ModelLabel, NodeSelector: m.NodeSelector})
	}

	g.Expect(kit.RegisterWebhooks(t.Context(), st.cluster, port)).To(Succeed())
	g.Expect(st.deployment.StartManager(t.Context())).To(Succeed())
	g.Expect(st.deployment.StartScheduler(t.Context())).To(Succeed())

	policy := &api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}, Spec: api.ServiceTypePolicySpec{Cards: mappedCards}}
	g.Eventually(func() error { return st.Create(t.Context(), policy.DeepCopy()) }, soon, often).Should(Succeed())
	st.awaitPolicy(t)
	return st
}

// quotasLimitMappedCards: the policy maps resources of AMD and Hygon, which no label names, to cards. Operator,
// scheduler and webhook all count them: of 4 pods each, 3 (AMD) and 2 (Hygon) run within the quotas. A pod that names no
// card waits for an AMD card, too. An AMD node that the mapping does not select is an anomaly of the inventory. The
// webhook denies a CardQuota of 9 where 8 AMD cards exist, and the admission policy an AMD pod of another scheduler. The
// observer counts by its own rules.
func quotasLimitMappedCards(s *scene) {
	quota := builder.CardQuota("mapped").With(func(q *api.CardQuota) {
		q.Spec.Cards = cardList(mi300x, 3, k100, 2)
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{sceneLabel: s.namespace}}
	}).Obj()

	s.createAndAwaitOpen(quota)
	s.waitForCondition("mapped", api.ConditionCardsKnown, metav1.ConditionTrue)
	for name, card := range map[string]string{"amd": mi300x, "dcu": k100} {
		s.createObjects(s.deploymentOf(podSet{name: name, queue: "mapped", card: card, count: 1, pods: 4}))
	}

	// It names no card, and may run on any of its resource.
	pod := s.barePods(podSet{name: "unnamed", queue: "mapped", card: mi300x, count: 1, pods: 1})[0]
	delete(pod.Annotations, api.AnnotationCardName)

	s.wantPods(map[string]string{"amd": runningAndWaiting(3, 1), "dcu": runningAndWaiting(2, 2)})
	s.createObjects(pod)
	s.wantRunningAndWaiting("unnamed", 0, 1)
	s.wantNodes("amd", "mi300x")
	s.wantNodes("dcu", "k100")
	s.wantReason("amd", withTotal(insufficientMessage("mapped", mi300x, 1, 3), 4))
	s.wantUsedPendingAndOver("mapped", mi300x, 3, 2, 0)
	s.wantUsedPendingAndOver("mapped", k100, 2, 2, 0)

	inventory := func() api.CardInventoryStatus {
		return readObject(s, &api.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: api.InventoryName}}).Status
	}

	s.Eventually(inventory).Should(And(
		HaveField("Cards", ContainElements(
			And(HaveField("Name", mi300x), HaveField("Total", int64(8)), HaveField("Allocated", int64(3)), HaveField("Quota", int64(3))),
			And(HaveField("Name", k100), HaveField("Total", int64(4)), HaveField("Allocated", int64(2)), HaveField("Quota", int64(2))))),
		HaveField("Anomalies", ConsistOf(And(HaveField("Reason", api.AnomalyNoModelLabel), HaveField("Resource", "amd.com/gpu"), HaveField("Nodes", []string{"other-0"}))))))

	view := func() []api.CardStatus {
		return readObject(s, &api.LocalCardQuota{ObjectMeta: s.objectMeta("mapped")}).Status.Cards
	}
	s.Eventually(view).Should(ContainElement(And(HaveField("Name", mi300x), HaveField("Used", int64(3)), HaveField("Pending", int64(2)))))

	greedy := builder.CardQuota("mapped-greedy").With(func(q *api.CardQuota) {
		q.Spec.Cards = []api.Card{{Name: mi300x, Quota: ptr.To[int64](9)}}
		q.Spec.OverAllocation = api.OverAllocationDeny
	}).Obj()

	s.Expect(s.Create(s.ctx, greedy)).To(MatchError(ContainSubstring(mi300x)), "the webhook counts the mapped cards")
	bypass := s.barePods(podSet{name: "bypass", queue: "mapped", card: mi300x, count: 1, pods: 1})[0]
	bypass.Spec.SchedulerName = corev1.DefaultSchedulerName
	s.Expect(s.Create(s.ctx, bypass)).To(MatchError(ContainSubstring("amd.com/gpu")), "no pod bypasses the scheduler with a mapped card")
}
