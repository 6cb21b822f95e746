package cardreclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

func hostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	}
}

// withLabelAndAntiAffinity labels a pod and keeps it off nodes with pods of a label.
func withLabelAndAntiAffinity(app, avoids string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = app
		if avoids != "" {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": avoids}}, TopologyKey: corev1.LabelHostname}}}}
		}
	}
}

// withAffinity keeps a pod on nodes with a pod of a label.
func withAffinity(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname}}}}
	}
}

// TestNoEvictionForPodThatWouldNotRun: pods of a node that fits are evicted instead. One node
// is busy, on another a gang has run for longer.
func TestNoEvictionForPodThatWouldNotRun(t *testing.T) {
	const (
		one = "node n model=A cards=4; job na queue=tra min=4 running=n*4 age=1h; job i queue=inf min=1 pending=1; "
		two = one + "node m model=A cards=4; job ma queue=tra min=4 running=m*4 age=24h; "
		web = "job w queue=inf min=1 running=n cards=0 age=24h"
	)

	type nodeChange func(*corev1.Node)
	as := func(*corev1.Node) {}
	taints := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
	}

	zone := func(n *corev1.Node) { n.Labels["zone"] = "z" }
	has := func(name corev1.ResourceName, quantity string) nodeChange {
		return func(n *corev1.Node) { n.Status.Allocatable[name] = amount(quantity) }
	}

	selects := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} }
	tolerates := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	for t, tc := range check.Cases(t, map[string]struct {
		first, second nodeChange
		sceneCase
	}{
		"node selector":                       {as, as, sceneCase{one, "", "", onJob("i", selects)}},
		"node selector, another node":         {as, zone, sceneCase{two, "ma*4", "i-0@m", onJob("i", selects)}},
		"taint":                               {taints, as, sceneCase{one, "", "", nil}},
		"taint, another node":                 {taints, as, sceneCase{two, "ma*4", "i-0@m", nil}},
		"taint that is tolerated":             {taints, as, sceneCase{two, "na*4", "i-0@n", onJob("i", tolerates)}},
		"cordoned":                            {func(n *corev1.Node) { n.Spec.Unschedulable = true }, as, sceneCase{two, "ma*4", "i-0@m", nil}},
		"more CPU than the node has":          {has("cpu", "8"), as, sceneCase{one, "", "", onJob("i", requests("cpu", "9"))}},
		"more CPU than is left beside others": {has("cpu", "8"), as, sceneCase{one + web, "", "", applyAll(onJob("w", requests("cpu", "4")), onJob("i", requests("cpu", "5")))}},
		"as much CPU as the gang leaves":      {has("cpu", "8"), as, sceneCase{one + web, "na*4", "i-0@n", applyAll(onJob("w", requests("cpu", "4")), onJob("i", requests("cpu", "4")))}},
		"CPU, another node":                   {has("cpu", "8"), as, sceneCase{two, "ma*4", "i-0@m", onJob("i", requests("cpu", "9"))}},
		"a port that stays in use":            {as, as, sceneCase{one + web, "", "", applyAll(onJob("w", hostPort(80)), onJob("i", hostPort(80)))}},
		"a port in use, another node":         {as, as, sceneCase{two + web, "ma*4", "i-0@m", applyAll(onJob("w", hostPort(80)), onJob("i", hostPort(80)))}},
		"a port that the gang leaves":         {as, as, sceneCase{one, "na*4", "i-0@n", applyAll(onPod("na-2", hostPort(80)), onJob("i", hostPort(80)))}},
		"another port":                        {as, as, sceneCase{one + web, "na*4", "i-0@n", applyAll(onJob("w", hostPort(80)), onJob("i", hostPort(81)))}},
		"a pod that is avoided":               {as, as, sceneCase{one + web, "", "", applyAll(onJob("w", withLabelAndAntiAffinity("web", "")), onJob("i", withLabelAndAntiAffinity("api", "web")))}},
		"a pod that is avoided, another node": {as, as, sceneCase{two + web, "ma*4", "i-0@m", applyAll(onJob("w", withLabelAndAntiAffinity("web", "")), onJob("i", withLabelAndAntiAffinity("api", "web")))}},
		"a pod that avoids this one":          {as, as, sceneCase{two + web, "ma*4", "i-0@m", applyAll(onJob("w", withLabelAndAntiAffinity("web", "api")), onJob("i", withLabelAndAntiAffinity("api", "")))}},
		"avoids a pod that goes":              {as, as, sceneCase{one, "na*4", "i-0@n", applyAll(onJob("na", withLabelAndAntiAffinity("trainer", "")), onJob("i", withLabelAndAntiAffinity("api", "trainer")))}},
		"a pod it must be beside":             {as, as, sceneCase{two + "job w queue=inf min=1 running=m cards=0 age=24h", "ma*4", "i-0@m", applyAll(onJob("w", withLabelAndAntiAffinity("web", "")), onJob("i", withAffinity("web")))}},
		"near no pod":                         {as, as, sceneCase{two, "", "", onJob("i", withAffinity("web"))}},
		"beside a pod that goes":              {as, as, sceneCase{one, "", "", applyAll(onJob("na", withLabelAndAntiAffinity("trainer", "")), onJob("i", withAffinity("trainer")))}},
		"the node has all the pods it takes":  {has("pods", "4"), as, sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=4 pending=4", 1) + web, "ma*4", "i@m*4", nil}},
		"the node has fewer places than cards, the rest goes elsewhere": {has("pods", "4"), has("pods", "4"),
			sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=7 pending=7", 1) + web, "ma*4 na*4", "i-0@n i-1@n i-2@n i-3@m i-4@m i-5@m i-6@m", nil}},
		"a gang of which all want the same port":   {as, as, sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=2 pending=2", 1), "ma*4 na*4", "i-0@n i-1@m", onJob("i", hostPort(80))}},
		"a gang whose port is free once only":      {as, as, sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=2 pending=2", 1) + web, "", "", applyAll(onJob("w", hostPort(80)), onJob("i", hostPort(80)))}},
		"a gang that keeps apart":                  {as, as, sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=2 pending=2", 1), "ma*4 na*4", "i-0@n i-1@m", onJob("i", withLabelAndAntiAffinity("api", "api"))}},
		"a gang that keeps apart and is too large": {as, as, sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=3 pending=3", 1), "", "", onJob("i", withLabelAndAntiAffinity("api", "api"))}},
		"pods that keep apart, as many as there are nodes": {as, as,
			sceneCase{strings.Replace(two, "job i queue=inf min=1 pending=1", "job i queue=inf min=1 pending=3", 1), "ma*4 na*4", "i-0@n i-1@m", onJob("i", withLabelAndAntiAffinity("api", "api"))}},
	}) {
		w := tc.scene()
		for i, change := range []nodeChange{tc.first, tc.second}[:len(w.Nodes)] {
			change(w.Nodes[i])
		}
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, tc.pipelined)
	}
}

// TestLabelsDecideWhichPodsConflict: a pod that cannot be evicted avoids those with label app=web. Job a
// has it and finds no node. Job b has the same needs and not that label, and
// gets its card although a was searched for before.
func TestLabelsDecideWhichPodsConflict(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ changed func(*corev1.Pod) }{
		"another label": {onJob("b", withLabelAndAntiAffinity("other", ""))},
		"no label":      {func(*corev1.Pod) {}},
	}) {
		w := newScene("node n model=A cards=4; job z queue=inf min=1 running=n age=24h; job t queue=tra min=1 running=n*3 age=24h; job a queue=inf min=1 pending=1; job b queue=inf min=1 pending=1",
			applyAll(onJob("z", withLabelAndAntiAffinity("z", "web")), onJob("a", withLabelAndAntiAffinity("web", "")), tc.changed))

		w.alone = true
		for range 3 {
			w.runAction(t)
			if len(w.In(api.Releasing)) > 0 {
				break
			}
		}

		check.Equal(t, "pods that are placed", "b-0@n", session.Names(w.In(api.Pipelined)))
		check.Equal(t, "pods that are evicted", 1, len(w.In(api.Releasing)))
	}
}

// TestNodesThatAreTakenAlready: however many nodes have a conflicting pod, the search finds
// the last node.
func TestNodesThatAreTakenAlready(t *testing.T) {
	for t, change := range check.Cases(t, map[string]func(*corev1.Pod){"ports": hostPort(80), "anti-affinity": withLabelAndAntiAffinity("api", "api")}) {
		w := newScene("node l model=A cards=4; job tl queue=tra min=4 running=l*4 age=24h")
		for _, n := range strings.Fields("a b c d e f g h i j k") {
			w.add(fmt.Sprintf("node %s model=A cards=4; job t%s queue=tra min=3 running=%s*3 age=1h", n, n, n))
		}
		w.add("job i queue=inf min=1 running=a,b,c,d,e,f,g,h,i,j,k pending=1 age=24h", change)
		w.runAction(t).expectEvictedAndPlaced(t, "tl*4", "i-11@l")
	}
}

// TestFailedPlanLeavesSessionUnchanged: the plan fits by numbers, the predicates reject the
// node, and the session is unchanged.
func TestFailedPlanLeavesSessionUnchanged(t *testing.T) {
	const (
		web      = "node n model=A cards=4; job w queue=inf min=1 running=n cards=0 age=24h; "
		training = "job t queue=tra min=4 running=n*4 age=1h "
	)

	bound := onPod("t-1", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.StartTime = nil
	})

	// Only the predicates find the pod that keeps this one out of its zone.
	avoids := onJob("w", applyAll(withLabelAndAntiAffinity("web", "api"), func(p *corev1.Pod) {
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = zone
	}))

	for t, s := range check.Cases(t, map[string]sceneCase{
		"a neighbour that avoids the pod": {text: web + training + "; job i queue=inf min=1 pending=1", change: applyAll(bound, avoids, onJob("i", withLabelAndAntiAffinity("api", "")))},
		"one pod of a gang":               {text: web + training + "; job i queue=inf min=3 pending=3", change: applyAll(bound, avoids, onPod("i-2", withLabelAndAntiAffinity("api", "")))},
		"pods that would be replaced":     {text: web + training + "owner=vcjob; job i queue=inf min=1 pending=1", change: applyAll(bound, avoids, onJob("i", withLabelAndAntiAffinity("api", "")))},
		"too few pods were made":          {text: "node n model=A cards=4; " + training + "; job i queue=inf min=2 pending=2", change: applyAll(bound, onPod("i-1", isGated))},
	}) {
		w := s.scene()
		w.Nodes[0].Labels[zone] = "z"
		w.openSession()
		t.Cleanup(w.Close)

		before := sessionState(w.Ssn)
		w.action.Execute(w.Ssn)
		check.Equal(t, fmt.Sprintf("the session was\n%s\nand", before), before, sessionState(w.Ssn))
		check.Equal(t, "bound are", "t-1", session.Names(w.In(api.Bound)))
		w.expectNoWrites(t)
	}
}

func TestNodesOfTwoCards(t *testing.T) {
	const mig = corev1.ResourceName("nvidia.com/mig-1g.10gb")
	slice := func(p *corev1.Pod) {
		requests := p.Spec.Containers[0].Resources.Requests
		requests[mig] = requests[gpu]
		delete(requests, gpu)
		wants("A/mig-1g.10gb-mixed")(p)
	}

	for t, tc := range check.Cases(t, map[string]sceneCase{
		"whole cards for whole cards": {"job i queue=inf min=1 pending=1", "whole*4", "i-0@n", nil},
		"slices for slices":           {"job i queue=inf min=1 pending=1", "slice*4", "i-0@n", onJob("i", slice)},
		"no quota for slices":         {`queue inf quota={"A":4} priority=80000 serviceType=inference; job i queue=inf min=1 pending=1`, "", "", onJob("i", slice)},
		"no quota for whole cards":    {`queue inf quota={"A/mig-1g.10gb-mixed":4} priority=80000 serviceType=inference; job i queue=inf min=1 pending=1`, "", "", nil},
		"a gang of both kinds":        {`queue inf quota={"A":1,"A/mig-1g.10gb-mixed":1} priority=80000 serviceType=inference; job i queue=inf min=2 pending=2`, "slice*4 whole*4", "i@n*2", onPod("i-1", slice)},
		"a gang of more whole cards than there is quota for slices": {`queue inf quota={"A":3,"A/mig-1g.10gb-mixed":1} priority=80000 serviceType=inference; job i queue=inf min=4 pending=4`, "slice*4 whole*4", "i@n*4", onPod("i-3", slice)},
		"a gang with too little quota for slices":                   {`queue inf quota={"A":3,"A/mig-1g.10gb-mixed":1} priority=80000 serviceType=inference; job i queue=inf min=4 pending=4`, "", "", applyAll(onPod("i-2", slice), onPod("i-3", slice))},
	}) {
		w := newScene("node n model=A cards=4; job whole queue=tra min=4 running=n*4 age=24h; job slice queue=tra min=4 running=n*4 age=24h;"+tc.text, onJob("slice", slice), tc.change)
		w.Nodes[0].Status.Allocatable[mig] = amount("4")
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, tc.pipelined)
	}
}
