//go:build !windows

package simulator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// awayFromChat is an anti-affinity: no pod with label app=chat on the same node. It is about pods of the namespaces
// that the selector matches, or of the pod's own one if it is nil.
func awayFromChat(namespaces *metav1.LabelSelector) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}}, NamespaceSelector: namespaces, TopologyKey: corev1.LabelHostname,
		}}}}
	}
}

func onPort80(pod *corev1.Pod) {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
}

// TestNodeRefusalsAreThoseOfKubernetes: pod new waits, and pod chat with label app=chat runs on node a with host port
// 80. Node b is empty. Each row changes the new pod or the nodes. Cards, CPU and memory are not asked for: node a has
// one card, which pod chat uses, and the new pod requests one too.
func TestNodeRefusalsAreThoseOfKubernetes(t *testing.T) {
	const antiAffinity = "node(s) didn't match pod anti-affinity rules"
	selecting := func(zone string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"zone": zone} }
	}
	spread := func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": "chat"}
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}},
		}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change     func(*corev1.Pod)
		changeNode func(a *corev1.Node)
		want       map[string]string
	}{
		"it wants nothing": {want: map[string]string{}},
		"away from chat":   {change: awayFromChat(nil), want: map[string]string{"a": antiAffinity}},
		"away from chat of namespaces of team lab": {
			change: awayFromChat(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "lab"}}), want: map[string]string{"a": antiAffinity},
		},
		"away from chat of namespaces of team shop, which has no pods": {
			change: awayFromChat(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}), want: map[string]string{},
		},
		"the same host port":                       {change: onPort80, want: map[string]string{"a": "node(s) didn't have free ports for the requested pod ports"}},
		"a pod of chat too, spread over the nodes": {change: spread, want: map[string]string{"a": "node(s) didn't match pod topology spread constraints"}},
		"zone z, which no node has": {
			change: selecting("z"), want: map[string]string{"a": "node(s) didn't match Pod's node affinity/selector", "b": "node(s) didn't match Pod's node affinity/selector"},
		},
		"node a has a taint": {
			changeNode: func(a *corev1.Node) {
				a.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "infra", Effect: corev1.TaintEffectNoSchedule}}
			},
			want: map[string]string{"a": "node(s) had untolerated taint {dedicated: infra}"},
		},
		"node a is cordoned": {
			changeNode: func(a *corev1.Node) { a.Spec.Unschedulable = true }, want: map[string]string{"a": "node(s) were unschedulable"},
		},
	}) {
		group := func(name string) *v1beta1.PodGroup {
			return builder.PodGroup("lab", name).Queue("q").Phase(v1beta1.PodGroupInqueue).Obj()
		}
		running := newPod("chat", 1).Label("app", "chat").PodGroup("chat").Running("a").With(onPort80).Obj()
		waiting := newPod("new", 1).PodGroup("new").Obj()
		if tc.change != nil {
			tc.change(waiting)
		}

		c := &simulation.Cluster{
			Namespaces: []*corev1.Namespace{builder.Namespace("lab")}, Schedulers: []string{"volcano"}, Nodes: []*corev1.Node{newNode("a", 1), newNode("b", 1)},
			Queues: []*v1beta1.Queue{builder.Queue("q").Obj()}, PodGroups: []*v1beta1.PodGroup{group("chat"), group("new")}, Pods: []*corev1.Pod{running, waiting},
		}
		c.Namespaces[0].Labels = map[string]string{"team": "lab"}
		if tc.changeNode != nil {
			tc.changeNode(c.Nodes[0])
		}

		refusals := check.Value(NodeRefusals(c, waiting, time.Now()))(t)
		check.Equal(t, "refusals by node", tc.want, refusals)
	}
}

// TestNodeRefusalsNeedAJob: Volcano schedules jobs. Of a pod whose PodGroup does not exist it says nothing, which must
// not look as if all nodes took the pod.
func TestNodeRefusalsNeedAJob(t *testing.T) {
	c := newClusterWithOneFullNode()
	waiting := newPod("new", 1).PodGroup("new").Obj()
	c.Pods = append(c.Pods, waiting)
	_, err := NodeRefusals(c, waiting, time.Now())
	check.Says(t, err, "the scheduler knows no job of pod lab/new")
}
