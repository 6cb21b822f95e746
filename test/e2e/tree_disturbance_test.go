package e2e

import (
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
)

// createTenants creates two tenants with one queue each, that deserve four cards and may borrow the
// rest.
func (t *treeTest) createTenants() {
	t.createTree(
		treeQuota{name: "tenant-a", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "a", parent: "tenant-a", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "tenant-b", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
		treeQuota{name: "b", parent: "tenant-b", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 4, 0)}},
	)
}

// survivesRestarts: all programs restart while 4 cards come back from two borrowers: a Deployment and a gang of 2 pods
// each, which Volcano's controllers create again. Nothing else is evicted, and nothing exceeds a quota.
func survivesRestarts(t *treeTest) {
	t.createTenants()
	stays := podSet{name: "stays", queue: t.queueName("a"), card: t.card, count: 1, pods: 4, annotations: map[string]string{v1beta1.PodPreemptable: "false"}}
	pods := t.deploymentOf(podSet{name: "pods", queue: t.queueName("a"), card: t.card, count: 1, pods: 2})
	gang := t.newGang("gang", "a", 2, nil)
	setSlowTermination(&pods.Spec.Template)
	setSlowTermination(firstTaskTemplate(gang))

	t.createObjects(t.deploymentOf(stays))
	t.wantRunningAndWaiting("stays", 4, 0)
	t.createObjects(pods, gang)
	t.wantPods(map[string]string{"pods": runningAndWaiting(2, 0), "gang": runningAndWaiting(2, 0)})
	stay := t.wantSamePods("stays")

	t.start("owner", "b", t.card, 4)
	t.Eventually(t.countTerminating, soon, 5*time.Millisecond).Should(BeNumerically(">=", 1))
	t.restartEverything()
	t.wantPods(map[string]string{"owner": runningAndWaiting(4, 0), "pods": runningAndWaiting(0, 2)})
	t.Expect(t.countRunning("gang")).To(BeZero())

	stay()
	t.wantUsedPendingAndOver(t.queueName("tenant-a"), t.card, 4, 4, 0)
	t.Expect(t.readJob("gang").Status.State.Phase).To(BeElementOf(batchv1alpha1.Pending, batchv1alpha1.Restarting), "it waits and has not failed")
}

// restartEverything kills both programs and those of Volcano, and starts them again.
func (t *treeTest) restartEverything() {
	t.killScheduler()
	t.letManagerEnd()
	t.deployment.Manager.Kill()
	t.Expect(check.Value(t.cluster.KillVolcano())(t)(t.ctx)).To(Succeed())
	t.startScheduler()
	t.startManager()
}

// switchesWithoutEvictions: the hierarchy is switched off and on again while work runs and a queue borrows. The
// Queues move, and no pod is evicted by that. With flat queues nothing comes back from the borrower; in a tree
// again it does.
func switchesWithoutEvictions(t *treeTest) {
	t.createTenants()
	t.start("borrower", "a", t.card, 7)
	t.start("owner", "b", t.card, 1)
	t.wantPods(map[string]string{"borrower": runningAndWaiting(7, 0), "owner": runningAndWaiting(1, 0)})
	stay := t.wantSamePods("borrower", "owner")
	resume := t.observer.Excuse("I3 status")

	t.observer.SetTree(false)
	t.setHierarchy(api.QueueHierarchyFlat)
	t.wantParents("root", "root")
	t.scaleDeployment("owner", 2)
	t.wantPods(map[string]string{"borrower": runningAndWaiting(7, 0), "owner": runningAndWaiting(1, 1)})
	stay()

	t.observer.SetTree(true) // first, because the scheduler may evict before the test knows
	t.setHierarchy(api.QueueHierarchyTree)
	t.wantParents(t.queueName("tenant-a"), t.queueName("tenant-b"))
	resume()
	t.wantPods(map[string]string{"borrower": runningAndWaiting(6, 1), "owner": runningAndWaiting(2, 0)})
}

// setHierarchy sets the policy's queueHierarchy and waits until the scheduler runs with it.
func (t *treeTest) setHierarchy(hierarchy api.QueueHierarchy) {
	t.mergePatch(&api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}}, `{"spec":{"queueHierarchy":%q}}`, hierarchy)
	t.awaitPolicy(t.T)
}

// wantParents waits until the queues a and b have these parents; root may be omitted.
func (t *treeTest) wantParents(a, b string) {
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
