package e2e

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// aGrowingDeploymentReclaims: training uses all 8 cards. A Deployment of inference grows from 1 to 3 and 5 pods, as with
// an autoscaler. Its PodGroup needs one pod only, so Volcano could take the others for elastic pods that may wait. But
// each reclaims a card, and the pods that run already stay. Scaled to 0, training runs on all 8 cards again.
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

// aGangReclaimsAllOrNothing: pods of training use all 8 cards, and 4 of them are protected. A gang of inference has 4
// pods of 2 cards, so it needs all 8. With a quota of 6 it evicts nothing, because it could not start. With a quota of
// 8 it still evicts nothing, because 4 pods are protected. Once they are not, it evicts all 8 at the same time.
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
