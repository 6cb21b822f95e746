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

// labelled labels a pod and keeps it apart from others of a label.
func labelled(app, avoids string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = app
		if avoids != "" {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": avoids}}, TopologyKey: corev1.LabelHostname}}}}
		}
	}
}

// beside wants to be on a node on which a pod of a label is.
func beside(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname}}}}
	}
}

// TestNoEvictionForPodThatWouldNotRun: where there is a node that would do, its
// pods go instead. One node is busy, of two another one's gang has run for longer.
func TestNoEvictionForPodThatWouldNotRun(t *testing.T) {
	const (
		one = "node n A 4; na tra 4: n*4 ran=1h; i inf 1: -; "
		two = one + "node m A 4; ma tra 4: m*4 ran=24h; "
		web = "w inf 1: n cards=0 ran=24h"
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
		scene
	}{
		"node selector":                       {as, as, scene{one, "", "", of("i", selects)}},
		"node selector, another node":         {as, zone, scene{two, "ma*4", "i-0@m", of("i", selects)}},
		"taint":                               {taints, as, scene{one, "", "", nil}},
		"taint, another node":                 {taints, as, scene{two, "ma*4", "i-0@m", nil}},
		"taint that is tolerated":             {taints, as, scene{two, "na*4", "i-0@n", of("i", tolerates)}},
		"cordoned":                            {func(n *corev1.Node) { n.Spec.Unschedulable = true }, as, scene{two, "ma*4", "i-0@m", nil}},
		"more CPU than the node has":          {has("cpu", "8"), as, scene{one, "", "", of("i", requests("cpu", "9"))}},
		"more CPU than is left beside others": {has("cpu", "8"), as, scene{one + web, "", "", both(of("w", requests("cpu", "4")), of("i", requests("cpu", "5")))}},
		"as much CPU as the gang leaves":      {has("cpu", "8"), as, scene{one + web, "na*4", "i-0@n", both(of("w", requests("cpu", "4")), of("i", requests("cpu", "4")))}},
		"CPU, another node":                   {has("cpu", "8"), as, scene{two, "ma*4", "i-0@m", of("i", requests("cpu", "9"))}},
		"a port that stays in use":            {as, as, scene{one + web, "", "", both(of("w", hostPort(80)), of("i", hostPort(80)))}},
		"a port in use, another node":         {as, as, scene{two + web, "ma*4", "i-0@m", both(of("w", hostPort(80)), of("i", hostPort(80)))}},
		"a port that the gang leaves":         {as, as, scene{one, "na*4", "i-0@n", both(on("na-2", hostPort(80)), of("i", hostPort(80)))}},
		"another port":                        {as, as, scene{one + web, "na*4", "i-0@n", both(of("w", hostPort(80)), of("i", hostPort(81)))}},
		"a pod that is avoided":               {as, as, scene{one + web, "", "", both(of("w", labelled("web", "")), of("i", labelled("api", "web")))}},
		"a pod that is avoided, another node": {as, as, scene{two + web, "ma*4", "i-0@m", both(of("w", labelled("web", "")), of("i", labelled("api", "web")))}},
		"a pod that avoids this one":          {as, as, scene{two + web, "ma*4", "i-0@m", both(of("w", labelled("web", "api")), of("i", labelled("api", "")))}},
		"avoids a pod that goes":              {as, as, scene{one, "na*4", "i-0@n", both(of("na", labelled("trainer", "")), of("i", labelled("api", "trainer")))}},
		"a pod it must be beside":             {as, as, scene{two + "w inf 1: m cards=0 ran=24h", "ma*4", "i-0@m", both(of("w", labelled("web", "")), of("i", beside("web")))}},
		"beside nobody":                       {as, as, scene{two, "", "", of("i", beside("web"))}},
		"beside a pod that goes":              {as, as, scene{one, "", "", both(of("na", labelled("trainer", "")), of("i", beside("trainer")))}},
		"the node has all the pods it takes":  {has("pods", "4"), as, scene{strings.Replace(two, "i inf 1: -", "i inf 4: -*4", 1) + web, "ma*4", "i@m*4", nil}},
		"the node has fewer places than cards, the rest goes elsewhere": {has("pods", "4"), has("pods", "4"),
			scene{strings.Replace(two, "i inf 1: -", "i inf 7: -*7", 1) + web, "ma*4 na*4", "i-0@n i-1@n i-2@n i-3@m i-4@m i-5@m i-6@m", nil}},
		"a gang of which all want the same port":   {as, as, scene{strings.Replace(two, "i inf 1: -", "i inf 2: -*2", 1), "ma*4 na*4", "i-0@n i-1@m", of("i", hostPort(80))}},
		"a gang whose port is free once only":      {as, as, scene{strings.Replace(two, "i inf 1: -", "i inf 2: -*2", 1) + web, "", "", both(of("w", hostPort(80)), of("i", hostPort(80)))}},
		"a gang that keeps apart":                  {as, as, scene{strings.Replace(two, "i inf 1: -", "i inf 2: -*2", 1), "ma*4 na*4", "i-0@n i-1@m", of("i", labelled("api", "api"))}},
		"a gang that keeps apart and is too large": {as, as, scene{strings.Replace(two, "i inf 1: -", "i inf 3: -*3", 1), "", "", of("i", labelled("api", "api"))}},
		"pods that keep apart, as many as there are nodes": {as, as,
			scene{strings.Replace(two, "i inf 1: -", "i inf 1: -*3", 1), "ma*4 na*4", "i-0@n i-1@m", of("i", labelled("api", "api"))}},
	}) {
		w := tc.world()
		for i, change := range []nodeChange{tc.first, tc.second}[:len(w.Nodes)] {
			change(w.Nodes[i])
		}
		w.run(t).expect(t, tc.goes, tc.promised)
	}
}

// TestNodesThatAreTakenAlready: however many nodes already have one of the pods
// that keep apart, the last one is found.
func TestNodesThatAreTakenAlready(t *testing.T) {
	for t, change := range check.Cases(t, map[string]func(*corev1.Pod){"ports": hostPort(80), "anti-affinity": labelled("api", "api")}) {
		w := tides("node l A 4; tl tra 4: l*4 ran=24h")
		for _, n := range strings.Fields("a b c d e f g h i j k") {
			w.add(fmt.Sprintf("node %s A 4; t%s tra 3: %s*3 ran=1h", n, n, n))
		}
		w.add("i inf 1: a b c d e f g h i j k - ran=24h", change)
		w.run(t).expect(t, "tl*4", "i-11@l")
	}
}

// TestFailedPlanLeavesSessionUnchanged: the plan looks good, the strict look at
// the node finds out, and the session is as it was.
func TestFailedPlanLeavesSessionUnchanged(t *testing.T) {
	const web, training = "node n A 4; w inf 1: n cards=0 ran=24h; ", "t tra 4: n*4 ran=1h "
	bound := on("t-1", func(p *corev1.Pod) { p.Status.Phase, p.Status.StartTime = corev1.PodPending, nil })
	// Whoever keeps the pod out of its zone shows only when the node is asked.
	avoids := of("w", both(labelled("web", "api"), func(p *corev1.Pod) {
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = zone
	}))
	for t, s := range check.Cases(t, map[string]scene{
		"a neighbour that avoids the pod": {text: web + training + "; i inf 1: -", change: both(bound, avoids, of("i", labelled("api", "")))},
		"one pod of a gang":               {text: web + training + "; i inf 3: -*3", change: both(bound, avoids, on("i-2", labelled("api", "")))},
		"pods that would be replaced":     {text: web + training + "vcjob; i inf 1: -", change: both(bound, avoids, of("i", labelled("api", "")))},
		"too few pods were made":          {text: "node n A 4; " + training + "; i inf 2: -*2", change: both(bound, on("i-1", isGated))},
	}) {
		w := s.world()
		w.Nodes[0].Labels[zone] = "z"
		w.open()
		t.Cleanup(w.Close)
		before := state(w.Ssn)
		w.action.Execute(w.Ssn)
		check.Equal(t, fmt.Sprintf("the session was\n%s\nand", before), before, state(w.Ssn))
		check.Equal(t, "bound are", "t-1", session.Names(w.In(api.Bound)))
		w.isUntouched(t)
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
	for t, tc := range check.Cases(t, map[string]scene{
		"whole cards for whole cards": {"i inf 1: -", "whole*4", "i-0@n", nil},
		"slices for slices":           {"i inf 1: -", "slice*4", "i-0@n", of("i", slice)},
		"no quota for slices":         {`queue inf {"A":4} 80000 inference; i inf 1: -`, "", "", of("i", slice)},
		"no quota for whole cards":    {`queue inf {"A/mig-1g.10gb-mixed":4} 80000 inference; i inf 1: -`, "", "", nil},
		"a gang of both kinds":        {`queue inf {"A":1,"A/mig-1g.10gb-mixed":1} 80000 inference; i inf 2: -*2`, "slice*4 whole*4", "i@n*2", on("i-1", slice)},
		"a gang of more whole cards than there is quota for slices": {`queue inf {"A":3,"A/mig-1g.10gb-mixed":1} 80000 inference; i inf 4: -*4`, "slice*4 whole*4", "i@n*4", on("i-3", slice)},
		"a gang with too little quota for slices":                   {`queue inf {"A":3,"A/mig-1g.10gb-mixed":1} 80000 inference; i inf 4: -*4`, "", "", both(on("i-2", slice), on("i-3", slice))},
	}) {
		change := of("slice", slice)
		if tc.change != nil {
			change = both(change, tc.change)
		}
		w := tides("node n A 4; whole tra 4: n*4 ran=24h; slice tra 4: n*4 ran=24h;"+tc.text, change)
		w.Nodes[0].Status.Allocatable[mig] = amount("4")
		w.run(t).expect(t, tc.goes, tc.promised)
	}
}
