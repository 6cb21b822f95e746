package e2e

import (
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// createTenants creates two tenants with one queue each, that deserve four cards and may borrow the
// rest.
func (t *treeTest) createTenants() {
	t.Helper()
	t.createTree(
		treeQuota{name: "tenant-a", cards: []api.Card{share(t.card, 8, 4, 0)}},
		treeQuota{name: "a", parent: "tenant-a", serviceType: "training", cards: []api.Card{share(t.card, 8, 4, 0)}},
		treeQuota{name: "tenant-b", cards: []api.Card{share(t.card, 8, 4, 0)}},
		treeQuota{name: "b", parent: "tenant-b", serviceType: "training", cards: []api.Card{share(t.card, 8, 4, 0)}},
	)
}

// Both programs restart while cards come back from a borrower. Nothing is evicted twice, and
// nothing exceeds a quota.
func survivesRestarts(t *treeTest) {
	t.createTenants()
	t.start("borrower", "a", t.card, 8)
	t.wantRunning("borrower", 8, 0)
	t.start("owner", "b", t.card, 2)
	t.Eventually(func() int { return len(t.podsOf("owner")) }).Should(Equal(2))
	t.killScheduler()
	t.letManagerEnd()
	t.deployment.Manager.Kill()
	t.startScheduler()
	t.startManager()
	t.wantPods(map[string]string{"borrower": podCounts(6, 2), "owner": podCounts(2, 0)})
	t.scaleDeployment("owner", 4)
	t.wantPods(map[string]string{"borrower": podCounts(4, 4), "owner": podCounts(4, 0)})
	t.wantCard(t.queueName("tenant-a"), t.card, 4, 4, 0)
}

// The hierarchy is switched off and on again while work runs and a queue borrows. The Queues move,
// and no pod is evicted. Flat, nothing comes back from the borrower.
func switchesWithoutEvictions(t *treeTest) {
	t.createTenants()
	t.start("borrower", "a", t.card, 7)
	t.start("owner", "b", t.card, 1)
	t.wantPods(map[string]string{"borrower": podCounts(7, 0), "owner": podCounts(1, 0)})
	stay := t.wantSamePods("borrower", "owner")
	resume := t.observer.Excuse("I3 status")

	t.observer.SetTree(false)
	t.setHierarchy(api.QueueHierarchyFlat)
	t.wantParents("root", "root")
	t.scaleDeployment("owner", 2)
	t.wantPods(map[string]string{"borrower": podCounts(7, 0), "owner": podCounts(1, 1)})
	stay()

	t.observer.SetTree(true) // first, because the scheduler may evict before the test knows
	t.setHierarchy(api.QueueHierarchyTree)
	t.wantParents(t.queueName("tenant-a"), t.queueName("tenant-b"))
	resume()
	t.wantPods(map[string]string{"borrower": podCounts(6, 1), "owner": podCounts(2, 0)})
}

// setHierarchy sets the policy's queueHierarchy and waits until the scheduler runs with it.
func (t *treeTest) setHierarchy(hierarchy api.QueueHierarchy) {
	t.Helper()
	t.mergePatch(&api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}}, `{"spec":{"queueHierarchy":%q}}`, hierarchy)
	t.awaitPolicy(t.T)
}

// wantParents waits until the queues a and b have these parents; root may be left out.
func (t *treeTest) wantParents(a, b string) {
	t.Helper()
	parent := func(q *v1beta1.Queue) string {
		if q.Spec.Parent == "" {
			return "root"
		}
		return q.Spec.Parent
	}
	t.Eventually(func() []string {
		return []string{parent(t.readQueue(t.queueName("a"))), parent(t.readQueue(t.queueName("b")))}
	}).Should(Equal([]string{a, b}))
}
