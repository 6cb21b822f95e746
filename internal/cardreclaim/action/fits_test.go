package action

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"volcano.sh/volcano/pkg/scheduler/api"
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
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": avoids}}, TopologyKey: corev1.LabelHostname,
			}}}}
		}
	}
}

// beside wants to be on a node on which a pod of a label is.
func beside(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname,
		}}}}
	}
}

// TestNobodyGoesForAPodThatWouldNotRun: where there is a node that would do, its
// pods go instead.
func TestNobodyGoesForAPodThatWouldNotRun(t *testing.T) {
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
	}
	zone := func(n *corev1.Node) { n.Labels["zone"] = "z" }
	few := func(pods string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["pods"] = resource.MustParse(pods) }
	}
	cores := func(cpu string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse(cpu) }
	}
	// one has a busy node, two another one whose gang has run for longer.
	one := func(change func(*corev1.Node)) *world {
		return tides(node("n", "A", 4, change)).add(job{name: "na", queue: "tra", least: 4, on: repeat("n", 4), ran: hour})
	}
	two := func(first, second func(*corev1.Node)) *world {
		return tides(node("n", "A", 4, first), node("m", "A", 4, second)).add(
			job{name: "na", queue: "tra", least: 4, on: repeat("n", 4), ran: hour}, job{name: "ma", queue: "tra", least: 4, on: repeat("m", 4), ran: day})
	}
	plain := func(*corev1.Node) {}
	with := func(change func(*corev1.Pod)) job { return started(waiter(), change) }
	selects := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} }
	web := func(n string, least int32, nodes ...string) job {
		return job{name: n, queue: "inf", least: least, on: nodes, cards: -1, pod: labelled("web", ""), ran: day}
	}
	play(t, map[string]scene{
		"node selector":                       {one(plain).add(with(selects)), "", ""},
		"node selector, another node":         {two(plain, zone).add(with(selects)), "ma*4", "i-0@m"},
		"taint":                               {one(tainted).add(waiter()), "", ""},
		"taint, another node":                 {two(tainted, plain).add(waiter()), "ma*4", "i-0@m"},
		"taint that is tolerated":             {two(tainted, plain).add(with(func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })), "na*4", "i-0@n"},
		"cordoned":                            {two(func(n *corev1.Node) { n.Spec.Unschedulable = true }, plain).add(waiter()), "ma*4", "i-0@m"},
		"more CPU than the node has":          {one(cores("8")).add(with(needsCPU("9"))), "", ""},
		"more CPU than is left beside others": {one(cores("8")).add(job{name: "o", queue: "inf", least: 1, on: []string{"n"}, cards: -1, pod: needsCPU("4"), ran: day}, with(needsCPU("5"))), "", ""},
		"as much CPU as the gang leaves":      {one(cores("8")).add(job{name: "o", queue: "inf", least: 1, on: []string{"n"}, cards: -1, pod: needsCPU("4"), ran: day}, with(needsCPU("4"))), "na*4", "i-0@n"},
		"CPU, another node":                   {two(cores("8"), plain).add(with(needsCPU("9"))), "ma*4", "i-0@m"},
		"a port that stays in use":            {one(plain).add(started(web("w", 1, "n"), hostPort(80)), with(hostPort(80))), "", ""},
		"a port in use, another node":         {two(plain, plain).add(started(web("w", 1, "n"), hostPort(80)), with(hostPort(80))), "ma*4", "i-0@m"},
		"a port that the gang leaves":         {tides(node("n", "A", 4)).add(job{name: "na", queue: "tra", least: 4, on: repeat("n", 4), pod: on("na-2", hostPort(80))}, with(hostPort(80))), "na*4", "i-0@n"},
		"another port":                        {one(plain).add(started(web("w", 1, "n"), hostPort(80)), with(hostPort(81))), "na*4", "i-0@n"},
		"a pod that is avoided":               {one(plain).add(web("w", 1, "n"), with(labelled("api", "web"))), "", ""},
		"a pod that is avoided, another node": {two(plain, plain).add(web("w", 1, "n"), with(labelled("api", "web"))), "ma*4", "i-0@m"},
		"a pod that avoids this one":          {two(plain, plain).add(started(web("w", 1, "n"), labelled("web", "api")), with(labelled("api", ""))), "ma*4", "i-0@m"},
		"avoids a pod that goes":              {tides(node("n", "A", 4)).add(job{name: "na", queue: "tra", least: 4, on: repeat("n", 4), pod: labelled("trainer", "")}, with(labelled("api", "trainer"))), "na*4", "i-0@n"},
		"a pod it must be beside":             {two(plain, plain).add(web("w", 1, "m"), with(beside("web"))), "ma*4", "i-0@m"},
		"beside nobody":                       {two(plain, plain).add(with(beside("web"))), "", ""},
		"beside a pod that goes":              {tides(node("n", "A", 4)).add(job{name: "na", queue: "tra", least: 4, on: repeat("n", 4), pod: labelled("trainer", "")}, with(beside("trainer"))), "", ""},
		"the node has all the pods it takes":  {two(few("4"), plain).add(job{name: "p", queue: "inf", least: 1, on: []string{"n"}, cards: -1, ran: day}, job{name: "i", queue: "inf", least: 4, waits: 4}), "ma*4", "i@m*4"},
		"the node has fewer places than cards, the rest goes elsewhere": {
			two(few("4"), few("4")).add(job{name: "p", queue: "inf", least: 1, on: []string{"n"}, cards: -1, ran: day}, waiters(7)), "ma*4 na*4", "i-0@n i-1@n i-2@n i-3@m i-4@m i-5@m i-6@m"},
		"a gang of which all want the same port":           {two(plain, plain).add(started(waiters(2), hostPort(80))), "ma*4 na*4", "i-0@n i-1@m"},
		"a gang whose port is free once only":              {two(plain, plain).add(started(web("w", 1, "n"), hostPort(80)), started(waiters(2), hostPort(80))), "", ""},
		"a gang that keeps apart":                          {two(plain, plain).add(started(waiters(2), labelled("api", "api"))), "ma*4 na*4", "i-0@n i-1@m"},
		"a gang that keeps apart and is too large":         {two(plain, plain).add(started(waiters(3), labelled("api", "api"))), "", ""},
		"pods that keep apart, as many as there are nodes": {two(plain, plain).add(job{name: "i", queue: "inf", least: 1, waits: 3, pod: labelled("api", "api")}), "ma*4 na*4", "i-0@n i-1@m"},
	})
}

// TestNodesThatAreTakenAlready: however many nodes already have one of the pods
// that keep apart, the last one is found.
func TestNodesThatAreTakenAlready(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){"ports": hostPort(80), "anti-affinity": labelled("api", "api")} {
		t.Run(name, func(t *testing.T) {
			w, serving := tides(), []string{}
			for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
				w.nodes = append(w.nodes, node(n, "A", 4))
				training := job{name: "t" + n, queue: "tra", least: 3, on: repeat(n, 3), ran: hour}
				if n == "l" {
					training.least, training.on, training.ran = 4, repeat(n, 4), day
				} else {
					serving = append(serving, n)
				}
				w.add(training)
			}
			w.add(job{name: "i", queue: "inf", least: 1, on: serving, waits: 1, ran: day, pod: change})
			w.run(t).expect(t, "tl*4", "i-11@l")
		})
	}
}

// TestADiscardedAttemptChangesNothing: the plan looks good, the strict look at
// the node finds out, and the session is as it was.
func TestADiscardedAttemptChangesNothing(t *testing.T) {
	bound := on("t-1", func(p *corev1.Pod) { p.Status.Phase, p.Status.StartTime = corev1.PodPending, nil })
	for name, w := range map[string]*world{
		"a neighbour that avoids the pod": tides(node("n", "A", 4)).add(
			job{name: "w", queue: "inf", least: 1, on: []string{"n"}, cards: -1, pod: labelled("web", "api"), ran: day},
			job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, pod: bound}, started(waiter(), labelled("api", ""))),
		"one pod of a gang": tides(node("n", "A", 4)).add(
			job{name: "w", queue: "inf", least: 1, on: []string{"n"}, cards: -1, pod: labelled("web", "api"), ran: day},
			job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, pod: bound}, started(waiters(3), on("i-2", labelled("api", "")))),
		"pods that would be replaced": tides(node("n", "A", 4)).add(
			job{name: "w", queue: "inf", least: 1, on: []string{"n"}, cards: -1, pod: labelled("web", "api"), ran: day},
			job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, vcjob: true, pod: bound}, started(waiter(), labelled("api", ""))),
		"too few pods were made": tides(node("n", "A", 4)).add(
			job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, pod: bound},
			job{name: "i", queue: "inf", least: 2, waits: 2, pod: on("i-1", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })}),
	} {
		t.Run(name, func(t *testing.T) {
			w.open()
			t.Cleanup(w.close)
			before := state(w.ssn)
			w.action.Execute(w.ssn)
			if after := state(w.ssn); after != before {
				t.Errorf("the session was\n%s\nand is\n%s", before, after)
			}
			if len(w.in(api.Bound)) != 1 {
				t.Errorf("bound are %v, want the pod that had not started", w.in(api.Bound))
			}
			w.deleted(t, 0)
		})
	}
}

func TestNodesOfTwoCards(t *testing.T) {
	const mig = corev1.ResourceName("nvidia.com/mig-1g.10gb")
	mixed := func(n *corev1.Node) { n.Status.Allocatable[mig] = resource.MustParse("4") }
	slice := func(p *corev1.Pod) {
		requests := p.Spec.Containers[0].Resources.Requests
		requests[mig] = requests[gpu]
		delete(requests, gpu)
		p.Annotations["volcano.sh/card.name"] = "A/mig-1g.10gb-mixed"
	}
	both := func() *world {
		return tides(node("n", "A", 4, mixed)).add(
			job{name: "whole", queue: "tra", least: 4, on: repeat("n", 4), ran: day}, job{name: "slice", queue: "tra", least: 4, on: repeat("n", 4), ran: day, pod: slice})
	}
	limited := func(w *world, quota string) *world {
		w.queue("inf", "inference", 80000, quota)
		return w
	}
	play(t, map[string]scene{
		"whole cards for whole cards": {both().add(waiter()), "whole*4", "i-0@n"},
		"slices for slices":           {both().add(started(waiter(), slice)), "slice*4", "i-0@n"},
		"no quota for slices":         {limited(both().add(started(waiter(), slice)), `{"A":4}`), "", ""},
		"no quota for whole cards":    {limited(both().add(waiter()), `{"A/mig-1g.10gb-mixed":4}`), "", ""},
		"a gang of both kinds":        {limited(both().add(started(waiters(2), on("i-1", slice))), `{"A":1,"A/mig-1g.10gb-mixed":1}`), "slice*4 whole*4", "i@n*2"},
		"a gang of more whole cards than there is quota for slices": {limited(both().add(started(waiters(4), on("i-3", slice))), `{"A":3,"A/mig-1g.10gb-mixed":1}`), "slice*4 whole*4", "i@n*4"},
		"a gang with too little quota for slices": {limited(both().add(started(waiters(4), func(p *corev1.Pod) {
			if p.Name > "i-1" {
				slice(p)
			}
		})), `{"A":3,"A/mig-1g.10gb-mixed":1}`), "", ""},
	})
}

func TestPodsOnANodeThatIsNotInTheSession(t *testing.T) {
	// The gang has two pods on a node that is not there any more: it goes with
	// them, and only what the other node gets back counts.
	gang := job{name: "t", queue: "tra", least: 4, on: []string{"n", "n", "gone", "gone"}, ran: day}
	play(t, map[string]scene{
		"a pod":                  {tides(node("n", "A", 2)).add(gang, waiter()), "t*4", "i-0@n"},
		"as many as come free":   {tides(node("n", "A", 2)).add(gang, waiters(2)), "t*4", "i@n*2"},
		"one more than that":     {tides(node("n", "A", 2)).add(gang, waiters(3)), "", ""},
		"spare pods do not help": {tides(node("n", "A", 2)).add(job{name: "t", queue: "tra", least: 3, on: []string{"gone", "n", "n", "gone"}, ran: day}, waiter()), "t-1", "i-0@n"},
	})
}
