//go:build !windows

package simulator

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
// 80. Node b is empty. Each row changes the new pod or node a. Cards are not asked for: node a has one card, which pod
// chat uses, and the new pod requests one too. The new pod has no PodGroup, which changes nothing.
func TestNodeRefusalsAreThoseOfKubernetes(t *testing.T) {
	antiAffinity := simulation.NodeRefusal{Text: "node(s) didn't match pod anti-affinity rules"}
	otherZone := simulation.NodeRefusal{Cause: simulation.NotSelected, Text: "node(s) didn't match Pod's node affinity/selector"}
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
	tainted := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(a *corev1.Node) {
			a.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "dedicated", Value: "infra", Effect: effect}}
		}
	}
	tolerating := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}, {Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	}

	cordoned := func(a *corev1.Node) { a.Spec.Unschedulable = true }
	none := map[string]simulation.NodeRefusal{}

	for t, tc := range check.Cases(t, map[string]struct {
		change     func(*corev1.Pod)
		changeNode func(a *corev1.Node)
		want       map[string]simulation.NodeRefusal
	}{
		"it wants nothing": {want: none},
		"away from chat":   {change: awayFromChat(nil), want: map[string]simulation.NodeRefusal{"a": antiAffinity}},
		"away from chat of namespaces of team lab": {
			change: awayFromChat(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "lab"}}), want: map[string]simulation.NodeRefusal{"a": antiAffinity},
		},
		"away from chat of namespaces of team shop, which has no pods": {
			change: awayFromChat(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}), want: none,
		},
		"the same host port": {change: onPort80, want: map[string]simulation.NodeRefusal{"a": {Text: "node(s) didn't have free ports for the requested pod ports"}}},
		"a pod of chat too, spread over the nodes": {
			change: spread, want: map[string]simulation.NodeRefusal{"a": {Text: "node(s) didn't match pod topology spread constraints"}},
		},
		"zone z, which no node has": {change: selecting("z"), want: map[string]simulation.NodeRefusal{"a": otherZone, "b": otherZone}},
		"zone z, which node a has":  {change: selecting("z"), changeNode: func(a *corev1.Node) { a.Labels["zone"] = "z" }, want: map[string]simulation.NodeRefusal{"b": otherZone}},
		"a taint NoSchedule":        {changeNode: tainted(corev1.TaintEffectNoSchedule), want: map[string]simulation.NodeRefusal{"a": {Cause: simulation.UntoleratedTaint, Text: "dedicated=infra:NoSchedule"}}},
		"a taint NoExecute":         {changeNode: tainted(corev1.TaintEffectNoExecute), want: map[string]simulation.NodeRefusal{"a": {Cause: simulation.UntoleratedTaint, Text: "dedicated=infra:NoExecute"}}},
		"a taint PreferNoSchedule":  {changeNode: tainted(corev1.TaintEffectPreferNoSchedule), want: none},
		"a taint NoSchedule of node a, and zone z, which no node has: the taint of a": {
			change: selecting("z"), changeNode: tainted(corev1.TaintEffectNoSchedule),
			want: map[string]simulation.NodeRefusal{"a": {Cause: simulation.UntoleratedTaint, Text: "dedicated=infra:NoSchedule"}, "b": otherZone},
		},
		"the pod tolerates the taint": {change: tolerating, changeNode: tainted(corev1.TaintEffectNoSchedule), want: none},
		"node a is cordoned":          {changeNode: cordoned, want: map[string]simulation.NodeRefusal{"a": {Cause: simulation.Cordoned}}},
		"the pod tolerates a cordon":  {change: tolerating, changeNode: cordoned, want: none},
	}) {
		waiting := newPod("new", 1).Obj()
		if tc.change != nil {
			tc.change(waiting)
		}

		c := &simulation.Cluster{
			Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{"team": "lab"}}}}, Schedulers: []string{"volcano"}, Nodes: []*corev1.Node{newNode("a", 1), newNode("b", 1)},
			Pods: []*corev1.Pod{newPod("chat", 1).Label("app", "chat").PodGroup("chat").Running("a").With(onPort80).Obj(), waiting},
		}
		if tc.changeNode != nil {
			tc.changeNode(c.Nodes[0])
		}

		refusals := check.Value(NodeRefusals(c, waiting, time.Now()))(t)
		check.Equal(t, "refusals by node", tc.want, refusals)
	}
}

// TestAFullNodeRefusesAPod: node n has 64 CPU, 1 TiB and 110 pods, unless the row says otherwise. A running pod uses 40
// CPU there. One on another node, one that has ended and one that is being deleted use nothing. A full node counts only
// where nothing else is in the way.
func TestAFullNodeRefusesAPod(t *testing.T) {
	others := []*corev1.Pod{
		builder.Pod("lab", "a").CPU("40").Running("n").Obj(),
		builder.Pod("lab", "b").CPU("40").Running("other").Obj(),
		builder.Pod("lab", "c").CPU("40").Running("n").Phase(corev1.PodSucceeded).Obj(),
		builder.Pod("lab", "d").CPU("20").Running("n").With(func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }).Obj(),
	}
	plain := func() *builder.PodBuilder { return builder.Pod("lab", "train-0").Scheduler("volcano") }
	ofZone := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"zone": "a"} }

	for t, tc := range check.Cases(t, map[string]struct {
		pod  *builder.PodBuilder
		node *corev1.Node
		want string // what is lacking, or the refusal, "" for none
	}{
		"the pod requests nothing":          {plain(), builder.Node("n").Obj(), ""},
		"24 CPU requested, 64 - 40 = 24":    {plain().CPU("24").Memory("1Ti"), builder.Node("n").Obj(), ""},
		"24.001 CPU requested, 24 are left": {plain().CPU("24001m"), builder.Node("n").Obj(), "24 cpu of 24001m requested"},
		"3 TiB requested, and the node takes 1 pod, which runs there": {
			plain().Memory("3Ti"), builder.Node("n").Resource(corev1.ResourcePods, "-109").Obj(), // 110 - 109 = 1
			"1Ti memory of 3Ti requested, 0 pods of 1 requested",
		},
		"the pods of the node use more than it has": {plain().CPU("1"), builder.Node("n").Resource(corev1.ResourceCPU, "-32").Obj(), "0 cpu of 1 requested"}, // 64 - 32 = 32
		"too little CPU, and another zone":          {plain().CPU("65").With(ofZone), builder.Node("n").Obj(), "node(s) didn't match Pod's node affinity/selector"},
	}) {
		c := &simulation.Cluster{Schedulers: []string{"volcano"}, Nodes: []*corev1.Node{tc.node}, Pods: others}
		refusal := check.Value(NodeRefusals(c, tc.pod.Obj(), time.Now()))(t)["n"]
		check.Equal(t, "refusal", tc.want, refusal.Text)
		check.Equal(t, "only room is lacking", strings.HasSuffix(tc.want, "requested"), refusal.Cause == simulation.LacksCompute)
	}
}
