package e2e

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/builder"
)

// reclaimsTheNamedCard: training uses all 8 cards, and all 4 of the other model. Inference has quota for 2 of the
// first model only. Pod one names that model, and reclaims one. Pod either accepts both models, and names the other
// one first. Without quota for it, the pod cannot use it, so the pod reclaims the first model too. The pods on the other
// model must stay, because their cards would be of no use.
func reclaimsTheNamedCard(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(2)
	t.startTraining("low", 8)
	onOther := t.newWorkload("else", t.queueName("training"), 4)
	onOther.card = t.other
	t.createObjects(t.deploymentOf(onOther))

	t.waitUntilRunning("else", 4)
	stay := t.runningPods("else")
	t.createInference("one", 1)
	t.wantPods(map[string]string{"low": runningAndWaiting(7, 1), "one": runningAndWaiting(1, 0)})

	either := t.newWorkload("either", t.queueName("inference"), 1)
	either.card = t.other + "|" + t.card
	t.createObjects(t.deploymentOf(either))
	t.wantPods(map[string]string{"low": runningAndWaiting(6, 2), "one": runningAndWaiting(1, 0), "either": runningAndWaiting(1, 0)})
	t.wantUsedCards("either", map[string]int64{t.card: 1})
	t.checkSamePods(stay)
}

// noEvictionWhileCardsAreFree: training uses 6 of 8 cards. A gang of inference needs 2 and gets the 2 free ones. No
// pod of training is evicted, although inference may reclaim.
func noEvictionWhileCardsAreFree(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.startTraining("low", 6)
	stay := t.runningPods("low")
	gang := t.newWorkload("gang", t.queueName("inference"), 2)
	gang.gang = 2
	t.createObjects(t.newVCJob(gang))
	t.wantRunningAndWaiting("gang", 2, 0)
	t.checkSamePods(stay)
}

// inferencePod creates a pod of inference that needs more than a card.
func (t *reclaimTest) inferencePod(name string, what func(*corev1.PodSpec)) {
	pod := t.barePods(t.newWorkload(name, t.queueName("inference"), 1))[0]
	what(&pod.Spec)
	t.createObjects(pod)
}

// wantNoEviction checks that the 8 pods of training stay while some pods wait. Then a pod of inference that can run
// reclaims one card. That shows that reclaim works, and was refused for the waiting pods alone.
func (t *reclaimTest) wantNoEviction(waiting ...string) {
	want := map[string]string{"low": runningAndWaiting(8, 0)}
	for _, name := range waiting {
		want[name] = runningAndWaiting(0, 1)
	}
	t.wantPods(want)
	t.createInference("service", 1)
	want["low"] = runningAndWaiting(7, 1)
	want["service"] = runningAndWaiting(1, 0)
	t.wantPods(want)
}

// noEvictionWithoutAFittingNode: no node can run these pods of inference, whatever is evicted. So nothing is evicted
// for them. Pods selector and affinity ask for labels that no node has. Pod taint names the other card model, whose only
// node has a taint. Pod cpu requests 65 of the 64 CPUs of a node, and pod cards 5 of its 4 cards. Deployment tolerant
// of training runs on the node with the taint, and must stay.
func noEvictionWithoutAFittingNode(t *reclaimTest) {
	t.createQuotaOfType(t.queueName("training"), "training", cardList(t.card, 8, t.other, 4))
	t.createQuotaOfType(t.queueName("inference"), "inference", cardList(t.card, 20, t.other, 4)) // waiting pods use a part of it
	t.mergePatch(builder.Node(t.namespace+"-other-0").Obj(), `{"spec":{"taints":[{"key":"reserved","effect":"NoSchedule"}]}}`)
	t.startTraining("low", 8)

	onOther := t.newWorkload("tolerant", t.queueName("training"), 4)
	onOther.card = t.other
	tolerant := t.deploymentOf(onOther)
	tolerant.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpExists}}
	t.createObjects(tolerant)
	t.waitUntilRunning("tolerant", 4)
	stay := t.runningPods("tolerant")

	t.inferencePod("selector", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"zone": "nowhere"} })
	t.inferencePod("affinity", func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}},
		}}}
	})

	t.createObjects(t.barePods(podSet{name: "taint", queue: t.queueName("inference"), card: t.other, count: 1, pods: 1})[0])
	t.inferencePod("cpu", func(p *corev1.PodSpec) { p.Containers[0].Resources = cpuAndCards("65", 1) })
	t.inferencePod("cards", func(p *corev1.PodSpec) { p.Containers[0].Resources = cpuAndCards("1", 5) })
	t.wantNoEviction("selector", "affinity", "taint", "cpu", "cards")
	t.checkSamePods(stay)
}

// blockNodes runs a pod of the default queue on either node, which uses a port and most of the
// CPU and is not reclaimable.
func (t *reclaimTest) blockNodes() {
	for _, node := range []string{"0", "1"} {
		pod := t.barePods(podSet{name: "inway" + node, queue: "default", pods: 1})[0]
		pod.Labels["in"] = "way"
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: t.namespace + "-" + node}
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		pod.Spec.Containers[0].Resources = cpuAndCards("60", 0)
		t.createObjects(pod)
		t.waitUntilRunning("inway"+node, 1)
	}
}

// noEvictionWithoutEnoughCPU: a pod that is not reclaimable uses 60 of 64 CPUs on either node, and pods of training
// use all cards. The pod of inference needs a card and 8 CPUs. Evictions of training would free the card, but not the
// CPUs, so nothing is evicted.
func noEvictionWithoutEnoughCPU(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.blockNodes()
	t.startTraining("low", 8)
	t.inferencePod("cpu", func(p *corev1.PodSpec) { p.Containers[0].Resources = cpuAndCards("8", 1) })
	t.wantNoEviction("cpu")
}

// noEvictionWhereAPodBlocks: evictions of training would free cards on both nodes. But on either node a pod that is
// not reclaimable has host port 8080 and label in=way. Pod port needs the same host port, and pod apart has an
// anti-affinity against the label. Neither could start after an eviction, so nothing is evicted.
func noEvictionWhereAPodBlocks(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.blockNodes()
	t.startTraining("low", 8)
	t.inferencePod("port", func(p *corev1.PodSpec) {
		p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	})

	t.inferencePod("apart", func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": "way"}},
		}}}}
	})
	t.wantNoEviction("port", "apart")
}

// cpuAndCards returns requests of CPU and cards.
func cpuAndCards(cpu string, count int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if count > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}
