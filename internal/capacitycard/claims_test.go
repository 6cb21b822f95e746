package capacitycard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// TestAClaimOutweighsNoQueue: whatever a workload of a training queue says of
// itself, it takes nothing from others and gives way to inference.
func TestAClaimOutweighsNoQueue(t *testing.T) {
	owned := func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: &yes}}
	}
	claim := func(annotations map[string]string) { annotations["volcano.sh/service.type"] = "inference" }
	claims := map[string]func(*v1beta1.PodGroup, *corev1.Pod){
		"on the pod":        func(_ *v1beta1.PodGroup, p *corev1.Pod) { claim(p.Annotations) },
		"on the PodGroup":   func(g *v1beta1.PodGroup, _ *corev1.Pod) { claim(g.Annotations) },
		"by its owner":      func(_ *v1beta1.PodGroup, p *corev1.Pod) { owned(p) },
		"in all three ways": func(g *v1beta1.PodGroup, p *corev1.Pod) { claim(g.Annotations); claim(p.Annotations); owned(p) },
	}
	const full = `{"NVIDIA-H200":16}`
	for name, claims := range claims {
		t.Run(name, func(t *testing.T) {
			queues := tide(full, full)
			other := quotaQueue("other", full) // of training too, and served first
			other.Spec.Priority, other.Annotations["volcano.sh/service.type"] = 90000, "training"
			giver, taker, honest := group("t", "tra", 1, "Running", "1"), group("o", "other", 1, "Pending", "1"), group("i", "inf", 1, "Pending", "1")
			running, waiting := pods(8, "t", "1", "NVIDIA-H200", "h200"), pods(1, "o", "1", "NVIDIA-H200", "")
			for _, p := range running {
				claims(giver, p)
			}
			claims(taker, waiting[0])
			ssn := run(t, &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: append(queues, other),
				PodGroups: []*v1beta1.PodGroup{giver, taker, honest}, Pods: concat(running, waiting, pods(1, "i", "1", "NVIDIA-H200", "")),
			}, framework.Arguments{"podOwnerReferenceToServiceType": map[any]any{"ReplicaSet": "inference"}})
			rules, ok := TideOf(ssn)
			if !ok {
				t.Fatal("the session has no rules of the tide")
			}
			claiming, inference, victim := ssn.Jobs["ns/o"].Tasks["o-0"], ssn.Jobs["ns/i"].Tasks["i-0"], ssn.Jobs["ns/t"].Tasks["t-h2000"]
			if got := rules.TypeOf(claiming) + " " + rules.TypeOf(victim); got != "training training" {
				t.Errorf("the types are %s, want those of the queues", got)
			}
			if rules.Takes(claiming) || opened.preemptive(ssn.Queues["other"], claiming) || rules.GivesWay(claiming, victim) {
				t.Error("a claim takes cards from training")
			}
			if !rules.Takes(inference) || !rules.GivesWay(inference, victim) {
				t.Error("a claim protects from inference")
			}
		})
	}
}
