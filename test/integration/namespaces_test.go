package integration

import (
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// TestTheAPIRefusesUnboundedAndInvalidSelectors: a CardQuota may restrict its queue to namespaces by a label
// selector. The scheduler evaluates it for each pod, so its size is bounded, and the API server refuses one that
// Kubernetes could not evaluate. Without wantError it accepts the selector.
func TestTheAPIRefusesUnboundedAndInvalidSelectors(t *testing.T) {
	startParallelTest(t)
	expression := func(key, operator any, values ...any) map[string]any {
		e := map[string]any{"key": key, "operator": operator}
		if values != nil {
			e["values"] = values
		}
		return e
	}

	expressions := func(all ...any) map[string]any { return map[string]any{"matchExpressions": all} }
	manyValues := func(n int) (values []any) {
		for i := range n {
			values = append(values, fmt.Sprintf("v%d", i))
		}
		return values
	}

	labels := func(n int) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprintf("k%d", i)] = "v"
		}
		return map[string]any{"matchLabels": all}
	}

	manyExpressions := func(n int) map[string]any {
		all := make([]any, n)
		for i := range all {
			all[i] = expression("team", "Exists")
		}
		return expressions(all...)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		selector  any
		wantError string
	}{
		"every namespace":                {selector: map[string]any{}},
		"by label":                       {selector: labels(1)},
		"by name":                        {selector: expressions(expression("kubernetes.io/metadata.name", "In", "chat", "chat-staging"))},
		"every operator":                 {selector: expressions(expression("a", "In", "b"), expression("a", "NotIn", "c"), expression("a", "Exists"), expression("d", "DoesNotExist"))},
		"an empty list for Exists":       {selector: expressions(map[string]any{"key": "a", "operator": "Exists", "values": []any{}})},
		"32 labels":                      {selector: labels(32)},
		"33 labels":                      {selector: labels(33), wantError: "at most 32 labels can be matched"},
		"32 expressions":                 {selector: manyExpressions(32)},
		"33 expressions":                 {selector: manyExpressions(33), wantError: "at most 32 expressions can be matched"},
		"256 values":                     {selector: expressions(expression("a", "In", manyValues(256)...))},
		"257 values":                     {selector: expressions(expression("a", "NotIn", manyValues(257)...)), wantError: "need 1 to 256 values"},
		"an operator of another kind":    {selector: expressions(expression("a", "Gt", "1")), wantError: "operator must be In, NotIn, Exists or DoesNotExist"},
		"an operator in small letters":   {selector: expressions(expression("a", "in", "b")), wantError: "operator must be In, NotIn, Exists or DoesNotExist"},
		"no operator":                    {selector: expressions(map[string]any{"key": "a"}), wantError: "operator: Required value"},
		"no key":                         {selector: expressions(map[string]any{"operator": "Exists"}), wantError: "key: Required value"},
		"In without values":              {selector: expressions(expression("a", "In")), wantError: "need 1 to 256 values"},
		"Exists with a value":            {selector: expressions(expression("a", "Exists", "b")), wantError: "take no values"},
		"a value that is a number":       {selector: map[string]any{"matchLabels": map[string]any{"a": int64(1)}}, wantError: "must be of type string"},
		"a misspelt field":               {selector: map[string]any{"matchLabel": map[string]any{"a": "b"}}, wantError: `unknown field "spec.namespaceSelector.matchLabel"`},
		"a list of names is no selector": {selector: []any{"chat"}, wantError: "must be of type object"},
	}) {
		expectAPIAnswer(t, cardQuotaObject("rule", map[string]any{"namespaceSelector": tc.selector}), tc.wantError)
	}
}

const (
	selectorKey = "volcano.sh/namespace-selector"
	quotaKey    = "volcano.sh/card.quota"
)

// withTeamSelector restricts a CardQuota's queue to a team.
func withTeamSelector(team string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

// TestTheSelectorReachesTheQueueAndLeavesIt: the scheduler reads the selector from an annotation of the Queue. Each
// change of the CardQuota changes it: labels, an expression, the empty selector for every namespace, and no
// selector, without which there is no annotation. The quota of 8 stays.
func TestTheSelectorReachesTheQueueAndLeavesIt(t *testing.T) {
	g, name, quota := startQuotaTest(t, withTeamSelector("chat"))
	g.Expect(queueAnnotation(t, name, selectorKey)()).To(gomega.Equal(`{"matchLabels":{"team":"chat"}}`))

	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "NotIn", Values: []string{"lab"}}}}
	})
	g.Eventually(queueAnnotation(t, name, selectorKey)).Should(gomega.Equal(`{"matchExpressions":[{"key":"team","operator":"NotIn","values":["lab"]}]}`))

	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = &metav1.LabelSelector{} })
	g.Eventually(queueAnnotation(t, name, selectorKey)).Should(gomega.Equal(`{}`))

	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = nil })
	g.Eventually(queueOf(t, name)).Should(gomega.HaveField("Annotations", gomega.Not(gomega.HaveKey(selectorKey))))
	g.Expect(queueAnnotation(t, name, "volcano.sh/card.quota")()).To(gomega.Equal(`{"NVIDIA-H200":8}`))
}

// TestOtherWritersAreReplacedAndNamed: the Queue of a CardQuota belongs to the operator. It replaces what another
// field manager writes there, and condition QueueSynced names the manager and the fields. Server-side apply does not
// record who removed a field, so that one is "another client".
func TestOtherWritersAreReplacedAndNamed(t *testing.T) {
	startParallelTest(t)
	edit := func(change func(map[string]string)) func(*testing.T, string) {
		return func(t *testing.T, name string) {
			patchAs(t, builder.Queue(name).UID("").Obj(), "kubectl-edit", func(q *v1beta1.Queue) { change(q.Annotations) })
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		write func(*testing.T, string)
		want  string
	}{
		"an open selector": {edit(func(a map[string]string) { a[selectorKey] = `{}` }), "kubectl-edit wrote " + selectorKey},
		"no selector":      {edit(func(a map[string]string) { delete(a, selectorKey) }), "another client changed or removed " + selectorKey},
		"invalid selector": {edit(func(a map[string]string) { a[selectorKey] = `]` }), "kubectl-edit wrote " + selectorKey},
		"no quota":         {edit(func(a map[string]string) { delete(a, quotaKey) }), "another client changed or removed " + quotaKey},
		"apply by argocd": {func(t *testing.T, name string) {
			config := apply.Queue(name).WithAnnotations(map[string]string{"volcano.sh/service.type": "inference"}).WithSpec(apply.QueueSpec().WithReclaimable(false))
			framework.NewGomega(t).Expect(admin.Apply(t.Context(), config, client.FieldOwner("argocd"), client.ForceOwnership)).To(gomega.Succeed())
		}, "argocd wrote spec.reclaimable, volcano.sh/service.type"},
	}) {
		g := framework.NewGomega(t)
		name := uniqueName(t, "")
		createReady(t, newQuota(name, withTeamSelector("chat")))
		before := check.Value(queueOf(t, name)())(t)

		tc.write(t, name)
		g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("True/ForeignChangeReplaced: " + tc.want + " on queue " + name))
		g.Eventually(queueOf(t, name)).Should(gomega.SatisfyAll(
			gomega.HaveField("Annotations", before.Annotations), gomega.HaveField("Spec", before.Spec)))
	}
}

// TestAnInvalidSelectorChangesNothing: the schema cannot refuse every invalid selector, here a label value with a
// space. The operator then writes nothing at all, so that no namespace gets access by mistake: the Queue keeps
// selector and quota, and a new CardQuota gets no Queue. The status says why.
func TestAnInvalidSelectorChangesNothing(t *testing.T) {
	g, name, quota := startQuotaTest(t, withTeamSelector("chat"))
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "no label value!"}
		q.Spec.Cards[0].Quota = ptr.To(int64(9))
	})

	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.SatisfyAll(
		gomega.HavePrefix("False/InvalidNamespaceSelector: spec.namespaceSelector is not valid, so queue "+name+" keeps what it had"),
		gomega.ContainSubstring("no label value!")))
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("False/InvalidNamespaceSelector"))
	g.Eventually(admin.EventMessages(t, quota, "InvalidNamespaceSelector")).Should(gomega.HaveLen(1))
	g.Expect(queueAnnotation(t, name, selectorKey)()).To(gomega.Equal(`{"matchLabels":{"team":"chat"}}`))
	g.Expect(queueAnnotation(t, name, "volcano.sh/card.quota")()).To(gomega.Equal(`{"NVIDIA-H200":8}`))

	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "lab"} })
	g.Eventually(queueAnnotation(t, name, selectorKey)).Should(gomega.Equal(`{"matchLabels":{"team":"lab"}}`))
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready"))

	fresh := uniqueName(t, "-new")
	admin.CreateWithCleanup(t, newQuota(fresh, withTeamSelector("no label value!")))
	g.Eventually(cardQuotaCondition(t, fresh, "QueueSynced")).Should(gomega.HavePrefix("False/InvalidNamespaceSelector"))

	_, err := queueOf(t, fresh)()
	g.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
	g.Expect(err).To(gomega.HaveOccurred(), "a queue that every namespace could use is not created")
}

// setReady simulates the kubelet of a node.
func setReady(t *testing.T, name string, ready corev1.ConditionStatus) {
	g := framework.NewGomega(t)
	node := framework.Fetch[corev1.Node](t, admin, client.ObjectKey{Name: name})
	base := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test"}}
	g.Expect(admin.Status().Patch(t.Context(), node, client.MergeFrom(base))).To(gomega.Succeed())
}

// TestQuotasAreBalancedAgainstHealthyCards: all quotas of a card together are compared with its 8 healthy cards.
// CardQuotas b (2, Allow), a (6, Warn) and then c (3, Deny) grant 11. Condition InventorySatisfied says so, except
// where over-allocation is allowed, but no quota is withheld. It follows a lower quota, a node that fails, and a
// deleted CardQuota. The webhook that denies raising such a quota as c is not installed here.
func TestQuotasAreBalancedAgainstHealthyCards(t *testing.T) {
	g, name := startParallelTest(t)

	const model = "NVIDIA-B300" // of this test alone
	quotaOf := func(suffix string, count int64, over v1alpha1.OverAllocation) *v1alpha1.CardQuota {
		return newQuota(name+suffix, func(q *v1alpha1.CardQuota) {
			q.Spec.Cards = []v1alpha1.Card{{Name: model, Quota: ptr.To(count)}}
			q.Spec.OverAllocation = over
		})
	}

	warns := quotaOf("-a", 6, v1alpha1.OverAllocationWarn)
	allows := quotaOf("-b", 2, v1alpha1.OverAllocationAllow)
	satisfied := func(suffix string) func() (string, error) {
		return cardQuotaCondition(t, name+suffix, "InventorySatisfied")
	}

	createReady(t, allows)
	physical := func(count int64) types.GomegaMatcher {
		return gomega.HaveField("Cards", gomega.ConsistOf(gomega.HaveField("Physical", count)))
	}
	g.Eventually(statusOf(t, allows.Name)).Should(physical(0))

	newNode(t, name, model)
	setReady(t, name, corev1.ConditionTrue)
	g.Eventually(statusOf(t, allows.Name)).Should(physical(8))
	g.Eventually(satisfied("-b")).Should(gomega.HavePrefix("True/InventorySatisfied"))

	createReady(t, warns)
	g.Eventually(satisfied("-a")).Should(gomega.HavePrefix("True/InventorySatisfied"))

	// CardQuota c grants 3 where 6 + 2 of 8 are granted.
	denies := quotaOf("-c", 3, v1alpha1.OverAllocationDeny)
	createReady(t, denies)

	sum := model + ": 11 granted, 8 healthy, 3 too many (%d here, "
	g.Eventually(satisfied("-a")).Should(gomega.HavePrefix("False/OverAllocated: " + fmt.Sprintf(sum, 6) + "3 by " + name + "-c, 2 by " + name + "-b)"))
	g.Eventually(satisfied("-b")).Should(gomega.HavePrefix("True/OverAllocationAllowed: " + fmt.Sprintf(sum, 2)))
	g.Eventually(satisfied("-c")).Should(gomega.SatisfyAll(gomega.HavePrefix("False/OverAllocated: "+fmt.Sprintf(sum, 3)), gomega.ContainSubstring("denies raising them")))
	g.Eventually(admin.EventMessages(t, warns, "OverAllocated")).Should(gomega.HaveLen(1))
	g.Expect(admin.EventMessages(t, allows, "OverAllocated")()).To(gomega.BeEmpty())

	for _, suffix := range []string{"-a", "-b", "-c"} {
		g.Expect(cardQuotaCondition(t, name+suffix, "Ready")()).To(gomega.HavePrefix("True/Ready"))
	}
	g.Expect(queueAnnotation(t, name+"-c", "volcano.sh/card.quota")()).To(gomega.Equal(`{"`+model+`":3}`), "nothing is withheld")

	patchAs(t, warns, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(3)) })
	for _, suffix := range []string{"-a", "-b", "-c"} {
		g.Eventually(satisfied(suffix)).Should(gomega.HavePrefix("True/InventorySatisfied"))
	}

	// The node fails and comes back.
	setReady(t, name, corev1.ConditionUnknown)
	g.Eventually(satisfied("-c")).Should(gomega.HavePrefix("False/OverAllocated: " + model + ": 8 granted, 0 healthy, 8 too many"))
	g.Expect(queueAnnotation(t, name+"-c", "volcano.sh/card.quota")()).To(gomega.Equal(`{"`+model+`":3}`), "nothing is withheld")
	setReady(t, name, corev1.ConditionTrue)
	g.Eventually(satisfied("-c")).Should(gomega.HavePrefix("True/InventorySatisfied"))

	// One CardQuota is deleted, and its cards are no longer granted.
	patchAs(t, denies, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(5)) })
	g.Eventually(satisfied("-a")).Should(gomega.HavePrefix("False/OverAllocated: " + model + ": 10 granted"))
	admin.DeleteAndWait(t, allows)
	g.Eventually(satisfied("-a")).Should(gomega.HavePrefix("True/InventorySatisfied"))
}
