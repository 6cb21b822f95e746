package cardreclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// TestNoEvictionOnANodeOnWhichThePodCannotRun: an eviction frees cards, but not everything else that keeps a pod
// off a node. The gang on node "unfit" has run for one hour, that on node "other" for 24 hours. So the scheduler
// would evict the first one, which loses less work, if the pod could run there. In each row the pod cannot, and
// gets a card of "other". "costly*4" are the pods costly-0 to costly-3.
func TestNoEvictionOnANodeOnWhichThePodCannotRun(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		unfit, other nodeChange
		change       podChange
	}{
		"the node lacks the label of the pod's node selector": {
			other:  withNodeLabel("zone", "z"),
			change: onJob("waiting", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} })},
		"the node is tainted":                         {unfit: tainted},
		"the node is cordoned":                        {unfit: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		"the pod requests 9 cores, the node has 8":    {unfit: allocatable("cpu", "8"), change: onJob("waiting", requesting("cpu", "9"))},
		"an inference pod keeps the host port":        {change: applyAll(onJob("neighbor", withHostPort(80)), onJob("waiting", withHostPort(80)))},
		"the pod avoids an inference pod of the node": {change: applyAll(onJob("neighbor", withLabel("web")), onJob("waiting", avoiding("web")))},
		"an inference pod of the node avoids the pod": {change: applyAll(onJob("neighbor", avoiding("api")), onJob("waiting", withLabel("api")))},
		"the pod must be beside a pod of the other node": {
			change: applyAll(onJob("partner", withLabel("web")), onJob("waiting", beside("web")))},
	}) {
		s := newInferenceAndTrainingScene(`
			node unfit model=A cards=4
			node other model=A cards=4
			job cheap queue=training min=4 running=unfit*4 age=1h
			job costly queue=training min=4 running=other*4 age=24h
			job neighbor queue=inference min=1 running=unfit cards=0 age=24h
			job partner queue=inference min=1 running=other cards=0 age=24h
			job waiting queue=inference min=1 pending=1`, tc.change).changeNodes(tc.unfit, tc.other)

		s.runSession(t).expectEvictedAndPlaced(t, "costly*4", "waiting-0@other")
	}
}

// TestNoEvictionWithoutANodeOnWhichThePodCanRun: node n is the only node, and the training gang uses its 4
// cards. The gang is evicted only if the waiting pod could run there after that ("fits"), beside job neighbor of
// inference, which stays. "gang*4" are the pods gang-0 to gang-3.
func TestNoEvictionWithoutANodeOnWhichThePodCanRun(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		node        nodeChange
		change      podChange
		wantEvicted string
	}{
		"the node lacks the label of the node selector": {
			change: onJob("waiting", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} })},
		"the node is tainted": {node: tainted},
		"the node is tainted, the pod tolerates it: fits": {node: tainted, wantEvicted: "gang*4",
			change: onJob("waiting", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })},
		"the pod requests 9 cores, the node has 8": {node: allocatable("cpu", "8"), change: onJob("waiting", requesting("cpu", "9"))},
		"the pod requests 5 of 8 cores, the neighbor keeps 4": {node: allocatable("cpu", "8"),
			change: applyAll(onJob("neighbor", requesting("cpu", "4")), onJob("waiting", requesting("cpu", "5")))},
		"the pod requests 4 of 8 cores, the neighbor keeps 4: fits": {node: allocatable("cpu", "8"), wantEvicted: "gang*4",
			change: applyAll(onJob("neighbor", requesting("cpu", "4")), onJob("waiting", requesting("cpu", "4")))},
		"the neighbor keeps host port 80": {change: applyAll(onJob("neighbor", withHostPort(80)), onJob("waiting", withHostPort(80)))},
		"the neighbor keeps another host port: fits": {wantEvicted: "gang*4",
			change: applyAll(onJob("neighbor", withHostPort(80)), onJob("waiting", withHostPort(81)))},
		"a pod of the gang has the host port, and is evicted: fits": {wantEvicted: "gang*4",
			change: applyAll(onPod("gang-2", withHostPort(80)), onJob("waiting", withHostPort(80)))},
		"the pod avoids the neighbor": {change: applyAll(onJob("neighbor", withLabel("web")), onJob("waiting", avoiding("web")))},
		"the pod avoids the gang, which is evicted: fits": {wantEvicted: "gang*4",
			change: applyAll(onJob("gang", withLabel("trainer")), onJob("waiting", avoiding("trainer")))},
		"the pod must be beside a pod that does not exist": {change: onJob("waiting", beside("web"))},
		"the pod must be beside the gang, which would be gone": {
			change: applyAll(onJob("gang", withLabel("trainer")), onJob("waiting", beside("trainer")))},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job gang queue=training min=4 running=n*4 age=1h
			job neighbor queue=inference min=1 running=n cards=0 age=24h
			job waiting queue=inference min=1 pending=1`, tc.change).changeNodes(tc.node)

		s.runSession(t).expectEvicted(t, tc.wantEvicted)
	}
}

// TestAGangIsPlacedOnlyIfEachPodFitsBesideTheOthers: pods that conflict with each other cannot share a node.
// Nodes n and m have 4 cards each, and a training gang on each of them has all four. The gang on n has run for
// one hour, that on m for 24 hours, so n is the cheaper node. The gang that waits gets nodes for all its pods,
// or no pod is evicted. "m-gang*4" are the pods m-gang-0 to m-gang-3, "waiting@m*4" are waiting-0 to waiting-3
// on node m.
func TestAGangIsPlacedOnlyIfEachPodFitsBesideTheOthers(t *testing.T) {
	apart := applyAll(withLabel("api"), avoiding("api")) // each pod avoids the others of its job
	for t, tc := range check.Cases(t, map[string]struct {
		scene                   string
		podsPerNode             string
		change                  podChange
		wantEvicted, wantPlaced string
	}{
		"each node accepts 4 pods and n has a neighbor without cards, so it accepts 3 more: m": {
			scene: `
				job waiting queue=inference min=4 pending=4
				job neighbor queue=inference min=1 running=n cards=0 age=24h`,
			podsPerNode: "4", wantEvicted: "m-gang*4", wantPlaced: "waiting@m*4"},
		"a gang of 7, each node accepts 4 pods and n has a neighbor: 3 pods on n and 4 on m": {
			scene: `
				job waiting queue=inference min=7 pending=7
				job neighbor queue=inference min=1 running=n cards=0 age=24h`,
			podsPerNode: "4", wantEvicted: "m-gang*4 n-gang*4",
			wantPlaced: "waiting-0@n waiting-1@n waiting-2@n waiting-3@m waiting-4@m waiting-5@m waiting-6@m"},
		"two pods with the same host port: one a node": {
			scene: `job waiting queue=inference min=2 pending=2`, change: onJob("waiting", withHostPort(80)),
			wantEvicted: "m-gang*4 n-gang*4", wantPlaced: "waiting-0@n waiting-1@m"},
		"two pods with the same host port, which is in use on one of the nodes: none": {
			scene: `
				job waiting queue=inference min=2 pending=2
				job neighbor queue=inference min=1 running=n cards=0 age=24h`,
			change: applyAll(onJob("neighbor", withHostPort(80)), onJob("waiting", withHostPort(80)))},
		"two pods that avoid each other: one a node": {
			scene: `job waiting queue=inference min=2 pending=2`, change: onJob("waiting", apart),
			wantEvicted: "m-gang*4 n-gang*4", wantPlaced: "waiting-0@n waiting-1@m"},
		"three pods that avoid each other, two nodes: none": {
			scene: `job waiting queue=inference min=3 pending=3`, change: onJob("waiting", apart)},
		"three pods of minimum one that avoid each other, two nodes: two pods": {
			scene: `job waiting queue=inference min=1 pending=3`, change: onJob("waiting", apart),
			wantEvicted: "m-gang*4 n-gang*4", wantPlaced: "waiting-0@n waiting-1@m"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n,m model=A cards=4
			job n-gang queue=training min=4 running=n*4 age=1h
			job m-gang queue=training min=4 running=m*4 age=24h
			`+tc.scene, tc.change)
		if tc.podsPerNode != "" {
			s.changeNodes(allocatable("pods", tc.podsPerNode), allocatable("pods", tc.podsPerNode))
		}

		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// nodeChange changes a node of a scene.
type nodeChange func(*corev1.Node)

// changeNodes applies a change to each of the first nodes. A nil change does nothing.
func (s *scene) changeNodes(changes ...nodeChange) *scene {
	for i, change := range changes {
		if change != nil {
			change(s.Nodes[i])
		}
	}
	return s
}

func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
}

func withNodeLabel(key, value string) nodeChange {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func allocatable(name corev1.ResourceName, quantity string) nodeChange {
	return func(n *corev1.Node) { n.Status.Allocatable[name] = amount(quantity) }
}

// TestLabelsDecideWhichPodsConflict: a pod of job served, which is not evicted, avoids pods with label app=web. Job first
// has this label and finds no node. Job second has equal requests without the label. The scheduler does not conclude
// from the first search that no eviction helps job second, and evicts one of the three training pods for it.
func TestLabelsDecideWhichPodsConflict(t *testing.T) {
	for t, changeSecond := range check.Cases(t, map[string]podChange{
		"second has another label": withLabel("other"),
		"second has no label":      nil,
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job served queue=inference min=1 running=n age=24h
			job t queue=training min=1 running=n*3 age=24h
			job first queue=inference min=1 pending=1
			job second queue=inference min=1 pending=1`,
			applyAll(onJob("served", avoiding("web")), onJob("first", withLabel("web")), onJob("second", changeSecond)))
		s.withoutAllocate = true // no card is free, so it would place no pod

		for range 3 { // the action may serve one job after the other
			s.runSession(t)
			if len(s.In(api.Releasing)) > 0 {
				break
			}
		}

		check.Equal(t, "placed pods", "second-0@n", session.Names(s.In(api.Pipelined)))
		check.Equal(t, "evicted pods", 1, len(s.In(api.Releasing)))
	}
}

// TestSearchFindsTheLastNodeWithoutAConflictingPod: 12 nodes have 4 cards each. On 11 of them a pod of job
// spread already runs, and no two pods of this job can share a node. Node "free" has no pod of it, so the 12th one
// gets a card there. The training gang of that node has run for 24 hours, those of the other nodes for one hour.
// "last*4" are the pods last-0 to last-3.
func TestSearchFindsTheLastNodeWithoutAConflictingPod(t *testing.T) {
	for t, change := range check.Cases(t, map[string]podChange{
		"the pods have the same host port": withHostPort(80),
		"the pods avoid each other":        applyAll(withLabel("api"), avoiding("api")),
	}) {
		s := newInferenceAndTrainingScene(`
			node free model=A cards=4
			job last queue=training min=4 running=free*4 age=24h`)
		for _, node := range strings.Fields("a b c d e f g h i j k") {
			s.add(fmt.Sprintf(`
				node %[1]s model=A cards=4
				job gang-%[1]s queue=training min=3 running=%[1]s*3 age=1h`, node))
		}
		s.add("job spread queue=inference min=1 running=a,b,c,d,e,f,g,h,i,j,k pending=1 age=24h", change)

		s.runSession(t).expectEvictedAndPlaced(t, "last*4", "spread-11@free")
	}
}

// TestAPlanThatFailsChangesNothing: the action plans by numbers, tries the evictions in the session, and
// then asks Volcano's predicates for each pod. If these refuse it, or a scheduling gate leaves too few pods, the
// action must undo the trial and write to no pod. Node n has a gang of 4 pods, of which t-1 has its node
// and has not started.
func TestAPlanThatFailsChangesNothing(t *testing.T) {
	notStarted := onPod("t-1", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.StartTime = nil
	})

	// The plan does not know that the neighbor keeps pods of label api out of its zone. Only the predicates find it.
	neighborAvoids := onJob("neighbor", avoidingWithin(zone, "api"))
	onePodAvoided := applyAll(neighborAvoids, onJob("waiting", withLabel("api")))
	for t, tc := range check.Cases(t, map[string]struct {
		owner, waiting string
		change         podChange
	}{
		"the neighbor avoids the only pod": {"", "min=1 pending=1", onePodAvoided},
		"the neighbor avoids one of a gang": {
			"", "min=3 pending=3", applyAll(neighborAvoids, onPod("waiting-2", withLabel("api")))},
		"the neighbor avoids the only pod, the victims are of a vcjob": {"owner=vcjob", "min=1 pending=1", onePodAvoided},
		"a scheduling gate stops one pod of a gang of two":             {"", "min=2 pending=2", onPod("waiting-1", gated)},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n model=A cards=4
			job neighbor queue=inference min=1 running=n cards=0 age=24h
			job t queue=training min=4 running=n*4 age=1h %s
			job waiting queue=inference %s`, tc.owner, tc.waiting), notStarted, tc.change).changeNodes(withNodeLabel(zone, "z")).openSession()
		t.Cleanup(s.Close)

		before := sessionState(s.Ssn)
		s.reclaim().Execute(s.Ssn)
		check.Equal(t, "session", before, sessionState(s.Ssn))
		check.Equal(t, "pods that have a node and have not started", "t-1", session.Names(s.In(api.Bound)))
		s.expectNoWrites(t)
	}
}

// TestWholeCardsAndSlicesAreDifferentCards: a MIG profile is a card of its own, with its own quota. Node n has 4
// whole cards and 4 slices of profile 1g.10gb. Job whole has all cards and job slice all slices. Job i requests
// what its row says, and the jobs that have these cards are evicted. "whole*4" are the pods whole-0 to whole-3,
// "i@n*2" are i-0 and i-1 on node n.
func TestWholeCardsAndSlicesAreDifferentCards(t *testing.T) {
	const mig = corev1.ResourceName("nvidia.com/mig-1g.10gb")
	slice := func(p *corev1.Pod) {
		requests := p.Spec.Containers[0].Resources.Requests
		requests[mig] = requests[gpu]
		delete(requests, gpu)
		requestingCard("A/mig-1g.10gb-mixed")(p)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, waiting          string
		change                  podChange
		wantEvicted, wantPlaced string
	}{
		"one whole card": {`{"A":9}`, "min=1 pending=1", nil, "whole*4", "i-0@n"},
		"one slice":      {`{"A/mig-1g.10gb-mixed":9}`, "min=1 pending=1", onJob("i", slice), "slice*4", "i-0@n"},
		"a slice, the queue has quota for whole cards only: none": {`{"A":4}`, "min=1 pending=1", onJob("i", slice), "", ""},
		"a whole card, the queue has quota for slices only: none": {`{"A/mig-1g.10gb-mixed":4}`, "min=1 pending=1", nil, "", ""},
		"a gang with one of each": {
			`{"A":1,"A/mig-1g.10gb-mixed":1}`, "min=2 pending=2", onPod("i-1", slice), "slice*4 whole*4", "i@n*2"},
		"a gang with 3 whole cards and 1 slice, quota for 3 and 1": {
			`{"A":3,"A/mig-1g.10gb-mixed":1}`, "min=4 pending=4", onPod("i-3", slice), "slice*4 whole*4", "i@n*4"},
		"a gang with 2 whole cards and 2 slices, quota for 3 and 1: none": {
			`{"A":3,"A/mig-1g.10gb-mixed":1}`, "min=4 pending=4", applyAll(onPod("i-2", slice), onPod("i-3", slice)), "", ""},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			queue training quota={"A":9,"A/mig-1g.10gb-mixed":9} priority=20000 serviceType=training
			queue inference quota=%s priority=80000 serviceType=inference
			node n model=A cards=4
			job whole queue=training min=4 running=n*4 age=24h
			job slice queue=training min=4 running=n*4 age=24h
			job i queue=inference %s`, tc.quota, tc.waiting), onJob("slice", slice), tc.change).changeNodes(allocatable(mig, "4"))

		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}
