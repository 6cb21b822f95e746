package e2e

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// aGrowingDeploymentReclaims: an autoscaler adds pods to a Deployment of inference whose PodGroup needs one pod
// only. Each added pod takes cards back from training as well, 1, 3 and then 5 of 8.
func aGrowingDeploymentReclaims(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.startTraining("low", 8)
	t.createInference("service", 1)
	t.wantPods(map[string]string{"low": runningAndWaiting(7, 1), "service": runningAndWaiting(1, 0)})
	t.scaleDeployment("service", 3)

	t.wantPods(map[string]string{"low": runningAndWaiting(5, 3), "service": runningAndWaiting(3, 0)})
	stay := t.runningPods("service")
	t.scaleDeployment("service", 5)
	t.wantPods(map[string]string{"low": runningAndWaiting(3, 5), "service": runningAndWaiting(5, 0)})

	t.Expect(t.countSurvivors(stay)).To(Equal(3))
	t.scaleDeployment("service", 0)
	t.wantRunningAndWaiting("low", 8, 0)
}

// aGangReclaimsAllOrNothing: a gang of inference needs 8 cards, more than a node has. While its quota (6) or the
// reclaimable pods (4 are protected) do not suffice, it evicts nothing. Then it evicts all 8 at once.
func aGangReclaimsAllOrNothing(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(6)
	t.startTraining("low", 4)
	t.occupyCards(4)

	gang := t.newWorkload("gang", t.queueName("inference"), 4)
	gang.gang = 4
	gang.count = 2
	t.createObjects(t.newVCJob(gang))

	t.checkGangWaits("gang")
	t.setQuota(t.queueName("inference"), cardList(t.card, 8))
	t.checkGangWaits("gang")
	t.removeProtection("stays")
	t.wantPods(map[string]string{"gang": runningAndWaiting(4, 0), "low": runningAndWaiting(0, 4), "stays": runningAndWaiting(0, 4)})
}

// removeProtection removes the protection of a workload: from its PodGroup, to which Volcano
// copied it, and then from its pods.
func (t *reclaimTest) removeProtection(name string) {
	pods := t.podsOf(name)
	group := &v1beta1.PodGroup{ObjectMeta: t.objectMeta(pods[0].Annotations[v1beta1.KubeGroupNameAnnotationKey])}
	objects := []client.Object{group}
	for i := range pods {
		objects = append(objects, &pods[i])
	}
	for _, object := range objects {
		t.mergePatch(object, `{"metadata":{"annotations":{%q:null}}}`, v1beta1.PodPreemptable)
	}
}

// checkGangWaits checks that none of a gang's pods runs and no pod is evicted for it.
func (t *reclaimTest) checkGangWaits(gang string) {
	stay := t.runningPods("low", "stays")
	t.Expect(stay).To(HaveLen(8))
	t.checkSamePods(stay)
	t.Expect(t.podsOf(gang)).NotTo(ContainElement(HaveField("Status.Phase", corev1.PodRunning)))
}
