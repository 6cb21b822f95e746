package explanation

import (
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWhatKeepsAPodFromANode: the scheduler says why node n refuses the pod. An explanation says that in plain words,
// with what would help, and without characters that control a terminal. Kubernetes taints a node that is not Ready; then
// the state is named and not the taint.
func TestWhatKeepsAPodFromANode(t *testing.T) {
	ready := nodecards.Node{Name: "n", Ready: true}
	taint := simulation.NodeRefusal{Cause: simulation.UntoleratedTaint, Text: "dedicated=infra:NoSchedule"}

	for t, tc := range check.Cases(t, map[string]struct {
		node    nodecards.Node
		refusal simulation.NodeRefusal
		want    obstacle
	}{
		"the node is not Ready": {nodecards.Node{Name: "n"}, taint, obstacle{"is not Ready", "kubectl describe node n says why"}},
		"the node is cordoned": {
			nodecards.Node{Name: "n", Ready: true, Cordoned: true}, simulation.NodeRefusal{Cause: simulation.Cordoned},
			obstacle{"is cordoned", "ask the administrator when its maintenance is over"},
		},
		"the node is cordoned, which the pod tolerates, and has a taint": {
			nodecards.Node{Name: "n", Ready: true, Cordoned: true}, taint,
			obstacle{"has taint dedicated=infra:NoSchedule", "only pods with a toleration of taint dedicated=infra:NoSchedule get it"},
		},
		"a taint": {ready, taint, obstacle{"has taint dedicated=infra:NoSchedule", "only pods with a toleration of taint dedicated=infra:NoSchedule get it"}},
		"the pod selects others": {
			ready, simulation.NodeRefusal{Cause: simulation.NotSelected, Text: "node(s) didn't match Pod's node affinity/selector"},
			obstacle{"is not one that the pod selects", "change nodeSelector or the node affinity of the pod"},
		},
		"too little CPU": {
			ready, simulation.NodeRefusal{Cause: simulation.LacksCompute, Text: "24 cpu of 32 requested"},
			obstacle{"has too little left: 24 cpu of 32 requested", "request less for each pod, or free it on the node"},
		},
		"anything else": {
			ready, simulation.NodeRefusal{Text: "node(s) didn't have\x1b[1m free ports"},
			obstacle{"refuses the pod: node(s) didn't have?[1m free ports", "change what the pod wants of its node, or wait until pods that are in its way have ended"},
		},
	}) {
		in := Input{NodeRefusals: map[string]simulation.NodeRefusal{"n": tc.refusal}}
		found, _ := in.obstacleOf(tc.node)
		check.Equal(t, "obstacle", tc.want, found)
	}
}

// TestOneNodeWithoutObstacleIsEnough: nodes a, b and c have 4, 2 and 1 H200 free, and the pod requests 2 unless the row
// says otherwise. A gate is a line of the explanation about one thing that a pod must pass. If a node with enough cards
// has no obstacle, the gate "taints and labels" says Yes. If all have one, it says No and lists the first three by
// their free cards, and the advice has the remedies. Node d comes last, because Input.Nodes has it as cordoned. Too
// little CPU or memory of a node has a gate of its own instead. If no node has enough cards, or no scheduler was asked,
// there is no gate.
func TestOneNodeWithoutObstacleIsEnough(t *testing.T) {
	unselected := simulation.NodeRefusal{Cause: simulation.NotSelected, Text: "node(s) didn't match"}
	taint := simulation.NodeRefusal{Cause: simulation.UntoleratedTaint, Text: "x"}
	lacksCPU := simulation.NodeRefusal{Cause: simulation.LacksCompute, Text: "1 cpu of 2 requested"}
	const adviceForA = "Node a has 4 NVIDIA-H200 free and is not one that the pod selects: change nodeSelector or the node affinity of the pod."
	const adviceForB = " Node b has 2 NVIDIA-H200 free and has taint x: only pods with a toleration of taint x get it."
	const adviceForC = " Node c has 1 NVIDIA-H200 free and is not one that the pod selects: change nodeSelector or the node affinity of the pod."
	const labels = "taints and labels"

	for t, tc := range check.Cases(t, map[string]struct {
		requested  card.Count
		refusals   map[string]simulation.NodeRefusal // by node
		withNodeD  bool                              // of 8 free H200, cordoned
		want       []Gate
		wantAdvice string
		// wantOne is the answer of the gate "one node": whether a node that is not cordoned for the pod has enough cards.
		wantOne Answer
	}{
		"no scheduler was asked": {requested: 2, wantOne: Yes},
		"8 requested, the pod tolerates the cordon of d, and d lacks CPU": {
			requested: 8, withNodeD: true, refusals: map[string]simulation.NodeRefusal{"d": lacksCPU}, wantOne: Yes,
			want: []Gate{
				{labels, Yes, "d has 8 free, and none is in the way"},
				{"CPU and memory", No, "d has 8 free and has too little left: 1 cpu of 2 requested"},
			},
			wantAdvice: "Node d has 8 NVIDIA-H200 free and has too little left: 1 cpu of 2 requested: request less for each pod, or free it on the node.",
		},
		"8 requested, the pod does not tolerate the cordon of d": {
			requested: 8, withNodeD: true, refusals: map[string]simulation.NodeRefusal{"d": {Cause: simulation.Cordoned}}, wantOne: No,
			want:       []Gate{{labels, No, "d has 8 free and is cordoned"}},
			wantAdvice: "Node d has 8 NVIDIA-H200 free and is cordoned: kubectl uncordon d when its maintenance is over.",
		},
		"a is not selected, b takes the pod": {
			requested: 2, refusals: map[string]simulation.NodeRefusal{"a": unselected}, wantOne: Yes,
			want: []Gate{{labels, Yes, "b has 2 free and takes such pods"}},
		},
		"a is not selected, b has a taint": {
			requested: 2, refusals: map[string]simulation.NodeRefusal{"a": unselected, "b": taint}, wantOne: Yes,
			want:       []Gate{{labels, No, "a has 4 free and is not one that the pod selects; b has 2 free and has taint x"}},
			wantAdvice: adviceForA + adviceForB,
		},
		"5 requested, which no node has free": {requested: 5, refusals: map[string]simulation.NodeRefusal{"a": unselected, "b": taint}, wantOne: No},
		"1 requested, four nodes refuse it": {
			requested: 1, withNodeD: true, refusals: map[string]simulation.NodeRefusal{"a": unselected, "b": taint, "c": unselected, "d": taint}, wantOne: Yes,
			want: []Gate{{labels, No, "a has 4 free and is not one that the pod selects; b has 2 free and has taint x; " +
				"c has 1 free and is not one that the pod selects; more nodes refuse it: 1"}},
			wantAdvice: adviceForA + adviceForB + adviceForC,
		},
		"1 requested, b lacks CPU, the others refuse it": {
			requested: 1, withNodeD: true, refusals: map[string]simulation.NodeRefusal{"a": unselected, "b": lacksCPU, "c": unselected, "d": taint}, wantOne: Yes,
			want: []Gate{
				{labels, Yes, "b has 2 free, and none is in the way"},
				{"CPU and memory", No, "b has 2 free and has too little left: 1 cpu of 2 requested"},
			},
			wantAdvice: adviceForA + " Node b has 2 NVIDIA-H200 free and has too little left: 1 cpu of 2 requested: request less for each pod, or free it on the node." + adviceForC,
		},
	}) {
		in := newWaitingJob(v1alpha1.BlockedNodesUnsuitable, "")
		in.Request.Count = tc.requested
		in.NodeRefusals = tc.refusals
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
		check.Equal(t, "answer of the gate one node", tc.wantOne, gateCheck{&in}.nodeGate().Answer)
	}
}
