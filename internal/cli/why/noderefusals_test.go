//go:build !windows

package why

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestWhyAsksTheSchedulerWhichNodesRefuseThePod: pod shy waits for 2 H200 away from pods of app chat. Node h200-0 has 6
// free and a pod of app chat. A program with the scheduler names the reason. One without it, or whose scheduler cannot
// answer, does not, and does not say that the node takes the pod. The pod needs no queue and no PodGroup for that.
func TestWhyAsksTheSchedulerWhichNodesRefuseThePod(t *testing.T) {
	const refuses = "Node h200-0 has 6 NVIDIA-H200 free and refuses the pod: node(s) didn't match pod anti-affinity rules: change what the pod wants of its node, or wait until pods that are in its way have ended."
	failing := func(*simulation.Cluster, *corev1.Pod, time.Time) (map[string]simulation.NodeRefusal, error) {
		return nil, errors.New("no answer")
	}

	for t, tc := range check.Cases(t, map[string]struct {
		scheduler simulation.Scheduler
		objects   []client.Object
		wants     string
		lacks     string
	}{
		"with the scheduler":                   {scheduler: simulator.New(), objects: shyPod("lab"), wants: refuses, lacks: "takes such pods"},
		"the PodGroup of the pod has no queue": {scheduler: simulator.New(), objects: shyPod(""), wants: refuses, lacks: "takes such pods"},
		"without the scheduler":                {objects: shyPod("lab"), wants: "one node Yes", lacks: "taints and labels"},
		"the scheduler does not answer": {
			scheduler: simulation.Scheduler{NodeRefusals: failing}, objects: shyPod("lab"),
			wants: "it is not known which nodes refuse the pod: no answer", lacks: "taints and labels",
		},
	}) {
		plugin := kubectl.Plugin{Commands: []program.Command{NewCommand}, Scheduler: tc.scheduler}
		plugin.Execute(t, tc.objects, interceptor.Funcs{}, "why -n lab shy").Prints(tc.wants).Lacks(tc.lacks)
	}
}

// shyPod is a cluster in which pod shy waits for 2 H200 away from pod chat-0, which runs on the only node. Their
// PodGroups name a queue, "" for none.
func shyPod(queue string) []client.Object {
	group := func(name string) client.Object {
		return builder.PodGroup("lab", name).Queue(queue).Phase(v1beta1.PodGroupInqueue).Obj()
	}
	awayFromChat := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}}, TopologyKey: corev1.LabelHostname,
		}}}}
	}

	return []client.Object{
		kubectl.PolicyWithScheduler("v0.2.0"), builder.Namespace("lab"), group("chat"), group("shy"),
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Label(corev1.LabelHostname, "h200-0").Obj(),
		kubectl.CountedQuota("lab", "lab", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 2, Free: 6, Physical: 8}).Obj(),
		kubectl.NewPod("chat-0", "lab", 2).PodGroup("chat").Label("app", "chat").Running("h200-0").Obj(),
		kubectl.NewPod("shy", "lab", 2).PodGroup("shy").With(awayFromChat).
			Unschedulable("0/1 nodes are unavailable: 1 node(s) didn't match pod anti-affinity rules.").Obj(),
	}
}
