package explanation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// tainted is a Ready node with taint dedicated=infra.
func tainted(name string, effect corev1.TaintEffect) *corev1.Node {
	return builder.Node(name).With(func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "infra", Effect: effect}}
	}).Obj()
}

// TestWhatKeepsAPodFromANode: node n has 64 CPU, 1 TiB and 110 pods, unless the row says otherwise. A running pod uses 40
// CPU there; one on another node and one that has ended use nothing. An obstacle is what makes the scheduler refuse the
// node for a pod, and of several the first is named.
func TestWhatKeepsAPodFromANode(t *testing.T) {
	others := []*corev1.Pod{
		builder.Pod("lab", "a").CPU("40").Running("n").Obj(),
		builder.Pod("lab", "b").CPU("40").Running("other").Obj(),
		builder.Pod("lab", "c").CPU("40").Running("n").Phase(corev1.PodSucceeded).Obj(),
	}
	plain := func() *builder.PodBuilder { return builder.Pod("lab", "train-0") }
	zoneA := plain().With(func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"zone": "a"} })
	tolerating := plain().With(func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	})

	for t, tc := range check.Cases(t, map[string]struct {
		pod  *builder.PodBuilder
		node *corev1.Node
		want string // the obstacle, "" for none
	}{
		"the pod requests nothing":          {plain(), builder.Node("n").Obj(), ""},
		"24 CPU requested, 64 - 40 = 24":    {plain().CPU("24").Memory("1Ti"), builder.Node("n").Obj(), ""},
		"24.001 CPU requested, 24 are left": {plain().CPU("24001m"), builder.Node("n").Obj(), "has too little left: 24 cpu of 24001m requested"},
		"3 TiB requested, and the node takes 1 pod, which runs there": {
			plain().Memory("3Ti"), builder.Node("n").Resource(corev1.ResourcePods, "-109").Obj(), // 110 - 109 = 1
			"has too little left: 1Ti memory of 3Ti requested, 0 pods of 1 requested",
		},
		"the node is cordoned and has too little CPU": {plain().CPU("65"), builder.Node("n").Cordoned().Obj(), "is cordoned"},
		"the node is not Ready":                       {plain(), builder.Node("n").NotReady().Obj(), "is not Ready"},
		"the node is cordoned":                        {plain(), builder.Node("n").Cordoned().Obj(), "is cordoned"},
		"a taint NoSchedule":                          {plain(), tainted("n", corev1.TaintEffectNoSchedule), "has taint dedicated=infra:NoSchedule"},
		"a taint NoExecute":                           {plain(), tainted("n", corev1.TaintEffectNoExecute), "has taint dedicated=infra:NoExecute"},
		"a taint PreferNoSchedule":                    {plain(), tainted("n", corev1.TaintEffectPreferNoSchedule), ""},
		"a taint that the pod tolerates":              {tolerating, tainted("n", corev1.TaintEffectNoSchedule), ""},
		"the pod selects zone a, the node is of b":    {zoneA, builder.Node("n").Label("zone", "b").Obj(), "is not one that the pod selects"},
		"the pod selects zone a, the node is of a":    {zoneA, builder.Node("n").Label("zone", "a").Obj(), ""},
	}) {
		check.Equal(t, "obstacle", tc.want, FindObstacles(tc.pod.Obj(), []*corev1.Node{tc.node}, others)["n"].Detail)
	}
}

// TestTheSchedulerAddsOnlyUnknownObstacles: what why finds by itself comes with its remedy, so it stays. What the
// scheduler says of other nodes is added, without characters that control a terminal.
func TestTheSchedulerAddsOnlyUnknownObstacles(t *testing.T) {
	in := Input{Obstacles: map[string]Obstacle{"a": {Detail: "is cordoned"}}}
	in.AddRefusals(map[string]string{"a": "node(s) were unschedulable", "b": "node(s) didn't have\x1b[1m free ports"})

	check.Equal(t, "obstacle of a", "is cordoned", in.Obstacles["a"].Detail)
	check.Equal(t, "obstacle of b", "refuses the pod: node(s) didn't have?[1m free ports", in.Obstacles["b"].Detail)
}

// TestOneNodeWithoutObstacleIsEnough: nodes a, b and c have 4, 2 and 1 H200 free, and the pod requests 2 unless the row
// says otherwise. A gate is a line of the explanation about one thing that a pod must pass. If a node with enough cards
// has no obstacle, the gate "taints and labels" says Yes. If all have one, it says No and lists the first three by
// their free cards, and the advice has the remedies. Node d comes last, because Input.Nodes has it as cordoned. Too
// little CPU or memory of a node has a gate of its own instead. If no node has enough cards, or the obstacles are not
// known, there is no gate.
func TestOneNodeWithoutObstacleIsEnough(t *testing.T) {
	cordon := Obstacle{Detail: "is cordoned", Remedy: "uncordon it"}
	taint := Obstacle{Detail: "has taint x", Remedy: "tolerate it"}
	lacksCPU := Obstacle{Detail: "has too little left: 1 cpu of 2 requested", Remedy: "request less", LacksCompute: true}
	const labels = "taints and labels"

	for t, tc := range check.Cases(t, map[string]struct {
		requested  card.Count
		obstacles  map[string]Obstacle // by node
		withNodeD  bool                // of 8 free H200, cordoned
		want       []Gate
		wantAdvice string
	}{
		"the user may not read nodes, so no obstacle is known": {requested: 2},
		"a is cordoned, b has no obstacle": {
			requested: 2, obstacles: map[string]Obstacle{"a": cordon},
			want: []Gate{{labels, Yes, "b has 2 free and takes such pods"}},
		},
		"a is cordoned, b has a taint": {
			requested: 2, obstacles: map[string]Obstacle{"a": cordon, "b": taint},
			want:       []Gate{{labels, No, "a has 4 free and is cordoned; b has 2 free and has taint x"}},
			wantAdvice: "Node a has 4 NVIDIA-H200 free and is cordoned: uncordon it. Node b has 2 NVIDIA-H200 free and has taint x: tolerate it.",
		},
		"5 requested, which no node has free": {requested: 5, obstacles: map[string]Obstacle{"a": cordon, "b": taint}},
		"1 requested, four nodes refuse it": {
			requested: 1, withNodeD: true, obstacles: map[string]Obstacle{"a": cordon, "b": taint, "c": cordon, "d": cordon},
			want: []Gate{{labels, No, "a has 4 free and is cordoned; b has 2 free and has taint x; c has 1 free and is cordoned; more nodes refuse it: 1"}},
			wantAdvice: "Node a has 4 NVIDIA-H200 free and is cordoned: uncordon it. Node b has 2 NVIDIA-H200 free and has taint x: tolerate it. " +
				"Node c has 1 NVIDIA-H200 free and is cordoned: uncordon it.",
		},
		"1 requested, b lacks CPU, the others are cordoned": {
			requested: 1, withNodeD: true, obstacles: map[string]Obstacle{"a": cordon, "b": lacksCPU, "c": cordon, "d": cordon},
			want: []Gate{
				{labels, Yes, "b has 2 free, and none is in the way"},
				{"CPU and memory", No, "b has 2 free and has too little left: 1 cpu of 2 requested"},
			},
			wantAdvice: "Node a has 4 NVIDIA-H200 free and is cordoned: uncordon it. Node b has 2 NVIDIA-H200 free and has too little left: " +
				"1 cpu of 2 requested: request less. Node c has 1 NVIDIA-H200 free and is cordoned: uncordon it.",
		},
	}) {
		in := newWaitingJob(v1alpha1.BlockedNodesUnsuitable, "")
		in.Request.Count = tc.requested
		in.Obstacles = tc.obstacles
		in.Nodes = []nodecards.Node{
			{Name: "a", Card: "NVIDIA-H200", Free: count(4), Ready: true},
			{Name: "b", Card: "NVIDIA-H200", Free: count(2), Ready: true},
			{Name: "c", Card: "NVIDIA-H200", Free: count(1), Ready: true},
		}
		if tc.withNodeD {
			in.Nodes = append(in.Nodes, nodecards.Node{Name: "d", Card: "NVIDIA-H200", Free: count(8), Ready: true, Cordoned: true})
		}

		check.Equal(t, "gates", tc.want, gateCheck{&in}.obstacleGates())
		check.Equal(t, "advice", tc.wantAdvice, strings.Join(adviser{&in}.adviseObstacles(), " "))
	}
}
