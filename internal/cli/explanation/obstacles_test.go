package explanation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/inventoryview"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// tainted is a Ready node with taint dedicated=infra.
func tainted(name string, effect corev1.TaintEffect) *corev1.Node {
	return builder.Node(name).With(func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "infra", Effect: effect}}
	}).Obj()
}

func TestObstacles(t *testing.T) {
	plain := func() *builder.PodBuilder { return builder.Pod("lab", "train-0") }
	labelled := func(key, value string) *corev1.Node { return builder.Node("n").Label(key, value).Obj() }
	selects := plain().With(func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"zone": "a"} })
	tolerates := plain().With(func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	})

	onNode := []*corev1.Pod{
		builder.Pod("lab", "a").CPU("40").Running("n").Obj(), builder.Pod("lab", "b").CPU("40").Running("other").Obj(), builder.Pod("lab", "c").CPU("40").Running("n").Phase(corev1.PodSucceeded).Obj(),
	}
	for name, tc := range map[string]struct {
		pod  *builder.PodBuilder
		node *corev1.Node
		want string
	}{
		"enough left":       {plain().CPU("24").Memory("1Ti"), builder.Node("n").Obj(), ""},
		"too little CPU":    {plain().CPU("24001m"), builder.Node("n").Obj(), "has too little left: 24 cpu of 24001m requested"},
		"too little of it":  {plain().Memory("3Ti"), builder.Node("n").Resource(corev1.ResourcePods, "-109").Obj(), "has too little left: 1Ti memory of 3Ti requested, 0 pods of 1 requested"},
		"cordoned and full": {plain().CPU("65"), builder.Node("n").Cordoned().Obj(), "is cordoned"},
		"none":              {plain(), builder.Node("n").Obj(), ""},
		"not ready":         {plain(), builder.Node("n").NotReady().Obj(), "is not Ready"},
		"cordoned":          {plain(), builder.Node("n").Cordoned().Obj(), "is cordoned"},
		"taint":             {plain(), tainted("n", corev1.TaintEffectNoSchedule), "has taint dedicated=infra:NoSchedule"},
		"evicting taint":    {plain(), tainted("n", corev1.TaintEffectNoExecute), "has taint dedicated=infra:NoExecute"},
		"preference":        {plain(), tainted("n", corev1.TaintEffectPreferNoSchedule), ""},
		"toleration":        {tolerates, tainted("n", corev1.TaintEffectNoSchedule), ""},
		"another label":     {selects, labelled("zone", "b"), "is not one that the pod selects"},
		"a selected label":  {selects, labelled("zone", "a"), ""},
	} {
		check.Equal(t, name, tc.want, FindObstacles(tc.pod.Obj(), []*corev1.Node{tc.node}, onNode)["n"].Detail)
	}
}

func TestOneNodeWithoutObstacleIsEnough(t *testing.T) {
	in := waiting(v1alpha1.BlockedNodesUnsuitable, "")
	in.Nodes = []inventoryview.Node{{Name: "a", Card: "NVIDIA-H200", Free: count(4), Ready: true}, {Name: "b", Card: "NVIDIA-H200", Free: count(2), Ready: true}, {Name: "c", Card: "NVIDIA-H200", Free: count(1), Ready: true}}
	answers := func() (gates []Gate, advice string) {
		return in.obstacleGates(), strings.Join(in.adviseObstacles(), " ")
	}

	gates, _ := answers()
	check.Equal(t, "gates without rights on nodes", 0, len(gates))
	in.Obstacles = map[string]Obstacle{"a": {Detail: "is cordoned", Remedy: "uncordon it"}}
	gates, advice := answers()
	check.That(t, len(gates) == 1 && gates[0].Answer == Yes && strings.HasPrefix(gates[0].Detail, "b has 2 free") && advice == "", "%v, %s", gates, advice)

	in.Obstacles["b"] = Obstacle{Detail: "has taint x", Remedy: "tolerate it"}
	gates, advice = answers()
	check.That(t, len(gates) == 1 && gates[0].Answer == No && gates[0].Detail == "a has 4 free and is cordoned; b has 2 free and has taint x", "%v", gates)
	check.Equal(t, "advice", "Node a has 4 NVIDIA-H200 free and is cordoned: uncordon it. Node b has 2 NVIDIA-H200 free and has taint x: tolerate it.", advice)

	in.Request.Count = 5
	gates, advice = answers()
	check.That(t, len(gates) == 0 && advice == "", "no node has enough cards, but %v, %s", gates, advice)

	in.Request.Count = 1
	in.Nodes = append(in.Nodes, inventoryview.Node{Name: "d", Card: "NVIDIA-H200", Free: count(8), Ready: true, Cordoned: true})
	in.Obstacles["c"] = in.Obstacles["a"]
	in.Obstacles["d"] = in.Obstacles["a"]
	gates, _ = answers()
	check.That(t, strings.HasPrefix(gates[0].Detail, "a has 4") && strings.HasSuffix(gates[0].Detail, "c has 1 free and is cordoned; more nodes refuse it: 1"), "%v", gates)

	in.Obstacles["b"] = Obstacle{Detail: "has too little left: 1 cpu of 2 requested", Remedy: "request less", LacksCompute: true}
	gates, advice = answers()
	check.That(t, len(gates) == 2 && gates[0].Answer == Yes && gates[0].Detail == "b has 2 free, and none is in the way" && gates[1].Answer == No, "%v", gates)
	check.Contains(t, "advice", advice, "Node b has 2 NVIDIA-H200 free and has too little left: 1 cpu of 2 requested: request less.")
}
