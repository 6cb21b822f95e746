package e2e

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/builder"
)

// Both cards would do for the pod, but its queue has quota for one of them only.
func takesTheCardThatIsNamed(t *tide) {
	t.quotas(2)
	t.trains("low", 8)
	w := t.work("else", t.queue("training"), 4)
	w.card = t.other
	t.create(t.deploymentOf(w))
	t.starts("else", 4)
	stay := t.alive("else")
	t.serves("one", 1)
	t.wantPods(map[string]string{"low": pods(7, 1), "one": pods(1, 0)})
	w = t.work("either", t.queue("inference"), 1)
	w.card = t.other + "|" + t.card
	t.create(t.deploymentOf(w))
	t.wantPods(map[string]string{"low": pods(6, 2), "one": pods(1, 0), "either": pods(1, 0)})
	t.wantHeld("either", map[string]int64{t.card: 1})
	t.stay(stay)
}

// Two cards are free.
func freeCardsSuffice(t *tide) {
	t.quotas(8)
	t.trains("low", 6)
	stay := t.alive("low")
	gang := t.work("gang", t.queue("inference"), 2)
	gang.gang = 2
	t.create(t.vcjob(gang))
	t.wantRunning("gang", 2, 0)
	t.stay(stay)
}

// want is a pod of inference that needs more than a card.
func (t *tide) want(name string, what func(*corev1.PodSpec)) {
	t.Helper()
	pod := t.barePods(t.work(name, t.queue("inference"), 1))[0]
	what(&pod.Spec)
	t.create(pod)
}

// wantNothing checks that training stays while others wait, and that it does go
// for somebody who can run.
func (t *tide) wantNothing(waiting ...string) {
	t.Helper()
	want := map[string]string{"low": pods(8, 0)}
	for _, name := range waiting {
		want[name] = pods(0, 1)
	}
	t.wantPods(want)
	t.serves("service", 1)
	want["low"], want["service"] = pods(7, 1), pods(1, 0)
	t.wantPods(want)
}

// No node fits these pods, whoever goes.
func nobodyGoesForWhatHasNoNode(t *tide) {
	t.ofType(t.queue("training"), "training", cards(t.card, 8, t.other, 4))
	t.ofType(t.queue("inference"), "inference", cards(t.card, 20, t.other, 4)) // those who wait hold a part of it
	t.merge(builder.Node(t.namespace+"-other-0").Obj(), `{"spec":{"taints":[{"key":"reserved","effect":"NoSchedule"}]}}`)
	t.trains("low", 8)
	w := t.work("tolerant", t.queue("training"), 4)
	w.card = t.other
	tolerant := t.deploymentOf(w)
	tolerant.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpExists}}
	t.create(tolerant)
	t.starts("tolerant", 4)
	stay := t.alive("tolerant")

	t.want("selector", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"zone": "nowhere"} })
	t.want("affinity", func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}},
		}}}
	})
	pod := t.barePods(work{name: "taint", queue: t.queue("inference"), card: t.other, count: 1, pods: 1})[0]
	t.create(pod)
	t.want("cpu", func(p *corev1.PodSpec) { p.Containers[0].Resources = amount("65", 1) })
	t.want("cards", func(p *corev1.PodSpec) { p.Containers[0].Resources = amount("1", 5) })
	t.wantNothing("selector", "affinity", "taint", "cpu", "cards")
	t.stay(stay)
}

// inTheWay has a pod of the untouched default queue run on either node, which
// holds a port and most of the CPU and gives way to nobody.
func (t *tide) inTheWay() {
	t.Helper()
	for _, node := range []string{"0", "1"} {
		pod := t.barePods(work{name: "inway" + node, queue: "default", pods: 1})[0]
		pod.Labels["in"] = "way"
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: t.namespace + "-" + node}
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		pod.Spec.Containers[0].Resources = amount("60", 0)
		t.create(pod)
		t.starts("inway"+node, 1)
	}
}

// Both nodes have the cards and the CPU, but never at the same time.
func nobodyGoesWithoutTheCPUToRun(t *tide) {
	t.quotas(8)
	t.inTheWay()
	t.trains("low", 8)
	t.want("cpu", func(p *corev1.PodSpec) { p.Containers[0].Resources = amount("8", 1) })
	t.wantNothing("cpu")
}

// There would be room on both nodes, but not beside the pod that stays.
func nobodyGoesWhereAnotherIsInTheWay(t *tide) {
	t.quotas(8)
	t.inTheWay()
	t.trains("low", 8)
	t.want("port", func(p *corev1.PodSpec) {
		p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	})
	t.want("apart", func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": "way"}},
		}}}}
	})
	t.wantNothing("port", "apart")
}

// amount asks for CPU and cards.
func amount(cpu string, count int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if count > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}
