package e2e

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// An autoscaler adds pods to a Deployment whose PodGroup needs one pod only.
func aDeploymentThatGrowsTakes(t *tide) {
	t.quotas(8)
	t.trains("low", 8)
	t.serves("service", 1)
	t.wantPods(map[string]string{"low": pods(7, 1), "service": pods(1, 0)})
	t.scale("service", 3)
	t.wantPods(map[string]string{"low": pods(5, 3), "service": pods(3, 0)})
	stay := t.alive("service")
	t.scale("service", 5)
	t.wantPods(map[string]string{"low": pods(3, 5), "service": pods(5, 0)})
	t.Expect(t.survivors(stay)).To(Equal(3))
	t.scale("service", 0)
	t.wantRunning("low", 8, 0)
}

// A gang of inference, larger than a node, takes everything that it needs at
// once. As long as its quota or those who may go do not suffice, it takes
// nothing.
func aGangTakesAllOrNothing(t *tide) {
	t.quotas(6)
	t.trains("low", 4)
	t.fill(4)
	gang := t.work("gang", t.queue("inference"), 4)
	gang.gang, gang.count = 4, 2
	job := t.vcjob(gang)
	t.create(job)
	t.waitsFor("gang")
	t.change(t.queue("inference"), cards(t.card, 8))
	t.waitsFor("gang")
	t.allow("stays")
	t.wantPods(map[string]string{"gang": pods(4, 0), "low": pods(0, 4), "stays": pods(0, 4)})
}

// allow takes the protection off a workload: off its PodGroup, to which Volcano
// copied it, and then off its pods.
func (t *tide) allow(name string) {
	t.Helper()
	pods := t.podsOf(name)
	group := &v1beta1.PodGroup{ObjectMeta: t.object(pods[0].Annotations[v1beta1.KubeGroupNameAnnotationKey])}
	objects := []client.Object{group}
	for i := range pods {
		objects = append(objects, &pods[i])
	}
	for _, object := range objects {
		t.merge(object, `{"metadata":{"annotations":{%q:null}}}`, v1beta1.PodPreemptable)
	}
}

// waitsFor checks that none of a gang's pods runs and nobody goes for it.
func (t *tide) waitsFor(gang string) {
	t.Helper()
	stay := t.alive("low", "stays")
	t.Expect(stay).To(HaveLen(8))
	t.stay(stay)
	t.Expect(t.podsOf(gang)).NotTo(ContainElement(HaveField("Status.Phase", corev1.PodRunning)))
}
