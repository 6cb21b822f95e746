package e2e

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "cardquota.dev/operator/api/v1alpha1"
)

// reclaimsCPU: with reclaimResources All a queue takes CPU back from a sibling that borrows it. Both deserve 60 of 120
// cores. Borrower has 2 pods of 60 cores, until owner takes 60 back. An inference pod with a card and 8 cores displaces
// training without cards from a node that lacks only CPU: 60 of its 64 cores are used.
func reclaimsCPU(t *treeTest) {
	t.observer.SetReclaimsAll(true)
	t.mergePatch(&api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}}, `{"spec":{"reclaimResources":%q}}`, api.ReclaimResourcesAll)
	t.awaitPolicy(t.T)

	t.createTree(
		treeQuota{name: "tenant", resources: cores(120, 120)},
		treeQuota{name: "borrower", parent: "tenant", serviceType: "training", resources: cores(120, 60)},
		treeQuota{name: "owner", parent: "tenant", serviceType: "training", resources: cores(120, 60)},
		treeQuota{name: "inf", serviceType: "inference", cards: []api.Card{treeCard(t.card, 8, 8, 0)}},
	)

	onCores := func(w podSet, cpu string) *appsv1.Deployment {
		d := t.deploymentOf(w)
		resources := &d.Spec.Template.Spec.Containers[0].Resources
		resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
		d.Spec.Template.Spec.NodeSelector = map[string]string{wholeCardsLabel: t.namespace}
		return d
	}

	// Each of two nodes has 64 cores and four cards.
	t.createObjects(onCores(podSet{name: "batch", queue: t.queueName("borrower"), pods: 2}, "60"))
	t.wantRunningAndWaiting("batch", 2, 0)
	t.createObjects(onCores(podSet{name: "own", queue: t.queueName("owner"), pods: 1}, "60"))
	t.wantPods(map[string]string{"batch": runningAndWaiting(1, 1), "own": runningAndWaiting(1, 0)})
	t.createObjects(onCores(podSet{name: "service", queue: t.queueName("inf"), card: t.card, count: 1, pods: 1}, "8"))

	// Of two pods of one priority the younger loses less. Its queue takes nothing back: the other one
	// uses no more than it deserves.
	t.wantPods(map[string]string{"batch": runningAndWaiting(1, 1), "own": runningAndWaiting(0, 1), "service": runningAndWaiting(1, 0)})
}

// cores returns a limit and deserved of CPU, with memory for every pod.
func cores(limit, deserved int64) *api.Resources {
	amount := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	return &api.Resources{CPU: amount(limit), Memory: ptr.To(resource.MustParse("1Gi")), Deserved: &api.ResourceAmounts{CPU: amount(deserved)}}
}
