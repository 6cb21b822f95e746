package cardreclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

const zone = "topology.kubernetes.io/zone"

// twelve are nodes of two cards, each full of a training gang, in the zones that in returns,
// and other jobs.
func twelve(in func(i int) string, text string, changes ...func(*corev1.Pod)) *scene {
	w := newScene("")
	for i := range 12 {
		w.add(fmt.Sprintf("node n%02d model=A cards=2; job tn%02d queue=tra min=2 running=n%02d*2 age=1h", i, i, i))
		w.Nodes[i].Labels[zone] = in(i)
	}
	return w.add(text, changes...)
}

// spreads keeps pods of a label evenly over a topology.
func spreads(key string, skew int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = "i"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: skew, TopologyKey: key,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "i"}}}}
	}
}

// TestSpreadPodsReclaimWhereTheyMayRun: only the predicates after an eviction see what a pod
// requires of other pods. That must not end the search.
func TestSpreadPodsReclaimWhereTheyMayRun(t *testing.T) {
	one := func(int) string { return "a" }
	for t, tc := range check.Cases(t, map[string]struct {
		scene *scene
		// goes and comes are how many pods are evicted and pipelined.
		goes, comes int
		// most checks how many pods are placed on one node, or in one zone.
		most func(pods map[string]int) bool
	}{
		"a Deployment, one on each node": {twelve(one, "job i queue=inf min=1 pending=12", spreads(corev1.LabelHostname, 1)), 24, 12,
			func(pods map[string]int) bool { return len(pods) == 12 }},
		"a gang, one on each node": {twelve(one, "job i queue=inf min=12 pending=12", spreads(corev1.LabelHostname, 1)), 24, 12,
			func(pods map[string]int) bool { return len(pods) == 12 }},
		"a gang, over two zones": {twelve(func(i int) string { return string(rune('a' + i%2)) }, "job i queue=inf min=4 pending=4", spreads(zone, 1)), 4, 4,
			func(pods map[string]int) bool { return len(pods) == 2 }},
		"the only zone without its like": {
			twelve(func(i int) string { return map[bool]string{true: "b", false: "a"}[i == 11] }, "job x queue=inf min=1 running=n00 cards=0; job i queue=inf min=1 pending=1", applyAll(onJob("x", withLabelAndAntiAffinity("x", "")),
				onJob("i", func(p *corev1.Pod) {
					withLabelAndAntiAffinity("i", "x")(p)
					p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = zone
				}))), 2, 1, func(pods map[string]int) bool { return pods["n11"] == 1 }},
	}) {
		w := tc.scene.runAction(t)
		pods := map[string]int{}
		for _, task := range w.In(api.Pipelined) {
			pods[task.NodeName]++
		}

		check.Equal(t, "evicted pods", tc.goes, len(w.In(api.Releasing)))
		check.Equal(t, "pipelined pods", tc.comes, len(w.In(api.Pipelined)))
		check.That(t, tc.most(pods), "pods by node: %v", pods)
	}
}
