package capacitycard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// tide makes the queues of the tide: inference above training.
func tide(inferenceQuota, trainingQuota string) []*v1beta1.Queue {
	inference, training := quotaQueue("inf", inferenceQuota), quotaQueue("tra", trainingQuota)
	inference.Spec.Priority, training.Spec.Priority = 80000, 20000
	no, yes := false, true
	inference.Spec.Reclaimable, training.Spec.Reclaimable = &no, &yes
	inference.Annotations["volcano.sh/service.type"], training.Annotations["volcano.sh/service.type"] = "inference", "training"
	return []*v1beta1.Queue{inference, training}
}

// changed applies changes to the queues inf and tra.
func changed(queues []*v1beta1.Queue, change func(inference, training *v1beta1.Queue)) []*v1beta1.Queue {
	change(queues[0], queues[1])
	return queues
}

func TestReclaimFollowsTheMatrixAndTheCards(t *testing.T) {
	const full = `{"NVIDIA-H200":8,"NVIDIA-H800":8}`
	running := func(name, queue string, minMember int32) *v1beta1.PodGroup {
		return group(name, queue, minMember, "Running", "1")
	}
	waiting := func(name, queue string) *v1beta1.PodGroup { return group(name, queue, 1, "Inqueue", "1") }
	// busy fills both nodes with training: one job of eight pods on each.
	busy := func() []*corev1.Pod {
		return concat(pods(8, "t1", "1", "NVIDIA-H200", "h200"), pods(8, "t2", "1", "NVIDIA-H800", "h800"))
	}
	groups := func(others ...*v1beta1.PodGroup) []*v1beta1.PodGroup {
		return append([]*v1beta1.PodGroup{running("t1", "tra", 1), running("t2", "tra", 1)}, others...)
	}
	service := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations["volcano.sh/service.type"] = name }
	}
	// bare takes the service types off the queues, so that workloads tell.
	bare := func(inference, training *v1beta1.Queue) {
		delete(inference.Annotations, "volcano.sh/service.type")
		delete(training.Annotations, "volcano.sh/service.type")
	}
	tests := map[string]struct {
		queues            []*v1beta1.Queue
		groups            []*v1beta1.PodGroup
		pods              []*corev1.Pod
		evicted, promised string
	}{
		"inference takes from training, the youngest and no more": {
			tide(full, full), groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "2", "NVIDIA-H800", "")),
			"t2-h8006 t2-h8007", "i-0@h800",
		},
		"training takes from nobody": {
			changed(tide(full, full), func(i, t *v1beta1.Queue) { i.Annotations["volcano.sh/service.type"] = "training" }),
			groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"nobody takes from inference": {
			changed(tide(full, full), func(i, t *v1beta1.Queue) { t.Annotations["volcano.sh/service.type"] = "inference" }),
			groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"unknown types take nothing": {
			changed(tide(full, full), bare), groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"nothing is taken from unknown types": {
			changed(tide(full, full), bare), groups(waiting("i", "inf")),
			concat(busy(), each(pods(1, "i", "1", "NVIDIA-H200", ""), service("inference"))), "", "",
		},
		"pods tell their type when the queue has none": {
			changed(tide(full, full), bare), groups(waiting("i", "inf")),
			concat(each(busy(), service("training")), each(pods(1, "i", "1", "NVIDIA-H200", ""), service("inference"))), "t1-h2007", "i-0@h200",
		},
		"a pod cannot claim more than its queue": {
			changed(tide(full, full), func(i, t *v1beta1.Queue) { i.Annotations["volcano.sh/service.type"] = "training" }),
			groups(waiting("i", "inf")), concat(busy(), each(pods(1, "i", "1", "NVIDIA-H200", ""), service("inference"))), "", "",
		},
		"a queue that is not reclaimable keeps its cards": {
			changed(tide(full, full), func(i, t *v1beta1.Queue) { *t.Spec.Reclaimable = false }),
			groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"a queue of equal priority keeps its cards": {
			changed(tide(full, full), func(i, t *v1beta1.Queue) { t.Spec.Priority = 80000 }),
			groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"a reclaimer beyond its own quota takes nothing": {
			tide(`{"NVIDIA-H200":1}`, full), groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "2", "NVIDIA-H200", "")), "", "",
		},
		"with alternatives only the card with quota is reclaimed": {
			tide(`{"NVIDIA-H800":2}`, full), groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200|NVIDIA-H800", "")),
			"t2-h8007", "i-0@h800",
		},
		"a free card without quota does not keep another from being reclaimed": {
			tide(`{"NVIDIA-H800":2}`, full), groups(waiting("i", "inf")),
			concat(pods(4, "t1", "1", "NVIDIA-H200", "h200"), pods(8, "t2", "1", "NVIDIA-H800", "h800"), pods(1, "i", "1", "NVIDIA-H200|NVIDIA-H800", "")),
			"t2-h8007", "i-0@h800",
		},
		"pods and PodGroups that say so are protected": {
			tide(full, full), groups(waiting("i", "inf")),
			concat(each(pods(8, "t1", "1", "NVIDIA-H200", "h200"), preemptable("false")), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"a protected PodGroup on one node, so the other node gives": {
			tide(full, full), []*v1beta1.PodGroup{func() *v1beta1.PodGroup {
				g := running("t1", "tra", 1)
				g.Annotations["volcano.sh/preemptable"] = "false"
				return g
			}(), running("t2", "tra", 1), waiting("i", "inf")},
			concat(busy(), pods(1, "i", "1", "NVIDIA-H200|NVIDIA-H800", "")), "t2-h8007", "i-0@h800",
		},
		"pods without cards are not taken for cards": {
			tide(full, full), []*v1beta1.PodGroup{running("cpu", "tra", 1), running("t1", "tra", 1), waiting("i", "inf")},
			concat(pods(4, "cpu", "0", "", "h200"), pods(8, "t1", "1", "NVIDIA-H200", "h200"), pods(1, "i", "1", "NVIDIA-H200", "")), "t1-h2007", "i-0@h200",
		},
		"nobody is evicted when all of it would not be enough": {
			tide(`{"NVIDIA-H200":16}`, full), []*v1beta1.PodGroup{running("t1", "tra", 1), running("own", "inf", 1), waiting("i", "inf")},
			concat(pods(4, "t1", "1", "NVIDIA-H200", "h200"), pods(1, "own", "4", "NVIDIA-H200", "h200"), pods(1, "i", "5", "NVIDIA-H200", "")), "", "",
		},
		"nobody is evicted for a pod that lacks CPU": {
			tide(full, full), groups(waiting("i", "inf")),
			concat(busy(), each(pods(1, "i", "1", "NVIDIA-H200", ""), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("65")
			})), "", "",
		},
		"pods without cards are not taken for CPU either": {
			tide(full, full), []*v1beta1.PodGroup{running("cpu", "tra", 1), waiting("i", "inf")},
			concat(each(pods(1, "cpu", "0", "", "h200"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("64")
			}), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
		"elastic pods go before a gang is broken": {
			tide(full, full), []*v1beta1.PodGroup{running("gang", "tra", 4), running("wide", "tra", 1), waiting("i", "inf")},
			concat(pods(4, "wide", "1", "NVIDIA-H200", "h200"), pods(4, "gang", "1", "NVIDIA-H200", "h200"), pods(1, "i", "2", "NVIDIA-H200", "")),
			"wide-h2002 wide-h2003", "i-0@h200",
		},
		"a wrong node selector evicts nobody": {
			tide(full, full), groups(waiting("i", "inf")),
			concat(busy(), each(pods(1, "i", "1", "NVIDIA-H200", ""), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "x"} })), "", "",
		},
		"a closed queue reclaims nothing": {
			changed(tide(full, full), func(i, t *v1beta1.Queue) { i.Status.State = v1beta1.QueueStateClosed }),
			groups(waiting("i", "inf")), concat(busy(), pods(1, "i", "1", "NVIDIA-H200", "")), "", "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := evict(t, &uthelper.TestCommonStruct{
				Nodes:  []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")},
				Queues: tc.queues, PodGroups: tc.groups, Pods: aged(tc.pods),
			}, reclaim.New())
			expect(t, ssn, tc.evicted, tc.promised)
		})
	}
}

// TestTheOwnersKindTellsTheServiceType: a Deployment is inference, a vcjob is
// training, without any annotation.
func TestTheOwnersKindTellsTheServiceType(t *testing.T) {
	owned := func(apiVersion, kind string) func(*corev1.Pod) {
		yes := true
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{"pod-template-hash": "1"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", Controller: &yes}}
		}
	}
	queues := changed(tide(`{"NVIDIA-H200":8}`, `{"NVIDIA-H200":8}`), func(i, t *v1beta1.Queue) {
		delete(i.Annotations, "volcano.sh/service.type")
		delete(t.Annotations, "volcano.sh/service.type")
	})
	world := &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: queues,
		PodGroups: []*v1beta1.PodGroup{group("t", "tra", 1, "Running", "1"), group("i", "inf", 1, "Inqueue", "1")},
		Pods: aged(concat(each(pods(8, "t", "1", "NVIDIA-H200", "h200"), owned("batch.volcano.sh/v1alpha1", "Job")),
			each(pods(1, "i", "1", "NVIDIA-H200", ""), owned("apps/v1", "ReplicaSet")))),
	}
	arguments := map[any]any{"Deployment": "inference", "Job.batch.volcano.sh": "training"}
	ssn := evictWith(t, world, map[string]any{"podOwnerReferenceToServiceType": arguments}, reclaim.New())
	expect(t, ssn, "t-h2007", "i-0@h200")
}
