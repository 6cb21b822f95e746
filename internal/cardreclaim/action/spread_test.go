package action

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

const zone = "topology.kubernetes.io/zone"

// twelve are nodes of two cards, each full of a training gang, in the zones that
// in names, and then those of changes.
func twelve(in func(i int) string) *world {
	var nodes []*corev1.Node
	for i := range 12 {
		nodes = append(nodes, node(fmt.Sprintf("n%02d", i), "A", 2, func(n *corev1.Node) { n.Labels[zone] = in(i) }))
	}
	w := tides(nodes...)
	for _, n := range nodes {
		w.add(job{name: "t" + n.Name, queue: "tra", least: 2, on: repeat(n.Name, 2), ran: hour})
	}
	return w
}

// spreads keeps pods of a label evenly over a topology.
func spreads(key string, skew int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = "i"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "i"}},
		}}
	}
}

// TestPodsThatSpreadTakeBackWhereTheyMayRun: what a pod requires of its
// surroundings shows only after the eviction, and must not end the search.
func TestPodsThatSpreadTakeBackWhereTheyMayRun(t *testing.T) {
	one := func(int) string { return "a" }
	for name, tc := range map[string]struct {
		world *world
		// goes and comes are how many pods go and are promised a node.
		goes, comes int
		// most is how many come to one node, or to one zone.
		most func(pods map[string]int) bool
	}{
		"a Deployment, one on each node": {
			twelve(one).add(started(job{name: "i", queue: "inf", least: 1, waits: 12}, spreads(corev1.LabelHostname, 1))), 24, 12,
			func(pods map[string]int) bool { return len(pods) == 12 }},
		"a gang, one on each node": {
			twelve(one).add(started(waiters(12), spreads(corev1.LabelHostname, 1))), 24, 12,
			func(pods map[string]int) bool { return len(pods) == 12 }},
		"a gang, over two zones": {
			twelve(func(i int) string { return string(rune('a' + i%2)) }).add(started(waiters(4), spreads(zone, 1))), 4, 4,
			func(pods map[string]int) bool { return len(pods) == 2 }},
		"the only zone without its like": {
			twelve(func(i int) string { return map[bool]string{true: "b", false: "a"}[i == 11] }).add(
				job{name: "x", queue: "inf", least: 1, on: []string{"n00"}, cards: -1, pod: labelled("x", "")},
				started(waiter(), func(p *corev1.Pod) {
					labelled("i", "x")(p)
					p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = zone
				})), 2, 1, func(pods map[string]int) bool { return pods["n11"] == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.world
			w.run(t)
			if got := len(w.in(api.Releasing)); got != tc.goes {
				t.Errorf("%d pods go, want %d: %v", got, tc.goes, w.in(api.Releasing))
			}
			pods := map[string]int{}
			for _, task := range w.tasks(api.Pipelined) {
				pods[task.NodeName]++
			}
			if got := len(w.tasks(api.Pipelined)); got != tc.comes || !tc.most(pods) {
				t.Errorf("%d come, want %d: %v", got, tc.comes, pods)
			}
		})
	}
}

// tasks lists the tasks of a status.
func (w *world) tasks(status api.TaskStatus) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, job := range w.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[status] {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// TestADeploymentChoosesForAllOfItsPods: the cheapest for its first pod is of no
// use to the others.
func TestADeploymentChoosesForAllOfItsPods(t *testing.T) {
	w := tides(node("n", "A", 5)).add(
		job{name: "small", queue: "tra", least: 1, on: repeat("n", 1), ran: 100 * time.Second},
		job{name: "large", queue: "tra", least: 4, on: repeat("n", 4), ran: 30 * time.Second},
		job{name: "i", queue: "inf", least: 1, waits: 4})
	w.run(t).expect(t, "large*4", "i@n*4")
}

// TestWhatIsHopelessForOneIsForMany, and what is hopeless for many may not be for
// few.
func TestWhatIsHopelessForOneIsForMany(t *testing.T) {
	w := tides(node("n", "A", 4)).add(job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour},
		job{name: "a", queue: "inf", least: 8, waits: 8}, job{name: "b", queue: "inf", least: 6, waits: 6}, job{name: "c", queue: "inf", least: 3, waits: 3})
	w.run(t).expect(t, "t*4", "c@n*3")
}
