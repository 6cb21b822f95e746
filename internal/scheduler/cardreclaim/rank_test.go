package cardreclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// class gives a pod a PriorityClass. The shipped policy lists pc-high, pc-medium, pc-normal
// and pc-low.
func class(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

// podDisruptionBudget allows so many evictions of pods with a label.
func podDisruptionBudget(app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// TestLowerPrioritiesAreEvictedFirst: of two gangs on one node each, na has run for a day and
// mb for an hour, so mb has less loss.
func TestLowerPrioritiesAreEvictedFirst(t *testing.T) {
	const (
		nodes = "node n model=A cards=4; node m model=A cards=4; "
		gangs = nodes + "job na queue=tra min=4 running=n*4 age=24h; job mb queue=tra min=4 running=m*4 age=1h; job i queue=inf min=4 pending=4"
		spare = nodes + "job na queue=tra min=3 running=n*4 age=24h; job mb queue=tra min=4 running=m*4 age=1h; job i queue=inf min=1 pending=1"
	)

	classes := func(a, b string) func(*corev1.Pod) { return applyAll(onJob("na", class(a)), onJob("mb", class(b))) }
	apps := applyAll(onJob("na", withLabelAndAntiAffinity("na", "")), onJob("mb", withLabelAndAntiAffinity("mb", "")))
	for t, tc := range check.Cases(t, map[string]struct {
		text    string
		change  func(*corev1.Pod)
		budgets []*policyv1.PodDisruptionBudget
		byLoss  bool
		goes    string
	}{
		"without priorities what loses less":                 {text: gangs, change: classes("", ""), goes: "mb*4"},
		"the lower priority, though it loses more":           {text: gangs, change: classes("pc-low", "pc-high"), goes: "na*4"},
		"by loss what loses less":                            {text: gangs, change: classes("pc-low", "pc-high"), byLoss: true, goes: "mb*4"},
		"a class that is not listed protects no pod":         {text: gangs, change: classes("pc-normal", "mine"), goes: "mb*4"},
		"and is the same as the lowest":                      {text: gangs, change: classes("pc-low", "mine"), goes: "mb*4"},
		"the higher priority where the lower one cannot":     {text: "node n model=A cards=4; job na queue=tra min=4 running=n*4 age=24h; job i queue=inf min=4 pending=4", change: classes("pc-high", ""), goes: "na*4"},
		"the queue of the lower priority, whatever the jobs": {text: "queue old quota=PLENTY priority=10000 serviceType=training; " + nodes + "job na queue=old min=4 running=n*4 age=24h; job mb queue=tra min=4 running=m*4 age=1h; job i queue=inf min=4 pending=4", change: classes("pc-high", "pc-low"), goes: "na*4"},
		"a gang before a elastic pod of a higher priority":   {text: spare, change: classes("pc-high", "pc-low"), goes: "mb*4"},
		"a elastic pod before a gang of the same priority":   {text: spare, change: classes("pc-low", "pc-low"), goes: "na-0"},
		"the elastic pod of the lower priority": {text: spare,
			change: applyAll(onJob("na", class("pc-normal")), onPod("na-2", class("pc-low")), onJob("mb", class("pc-high"))), goes: "na-2"},
		"the elastic pod that its job ranks lower": {text: spare,
			change: onPod("na-3", func(p *corev1.Pod) { p.Annotations["volcano.sh/task-priority"] = "-1" }), goes: "na-3"},
		"a gang as its highest pod": {text: gangs, change: applyAll(classes("pc-low", "pc-low"), onPod("mb-1", class("pc-normal"))), goes: "na*4"},

		"last of its priority who has a disruption budget that allows none": {text: gangs, change: apps,
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("mb", 0)}, goes: "na*4"},
		"last as well who has one that does not allow the whole gang": {text: gangs, change: apps,
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("mb", 3)}, goes: "na*4"},
		"as always who has one that allows it": {text: gangs, change: apps,
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("mb", 4)}, goes: "mb*4"},
		"before a higher priority who has one that allows none": {text: gangs, change: applyAll(classes("pc-high", "pc-low"), apps),
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("mb", 0)}, goes: "mb*4"},
		"by loss as well last who has one that allows none": {text: gangs, change: apps, byLoss: true,
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("mb", 0)}, goes: "na*4"},
		"who has one where all have one": {text: gangs, change: apps,
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("mb", 0), podDisruptionBudget("na", 0)}, goes: "mb*4"},
		"of elastic pods the one without": {text: spare, change: applyAll(apps, onPod("na-1", withLabelAndAntiAffinity("other", ""))),
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("na", 0), podDisruptionBudget("mb", 0)}, goes: "na-1"},
		"a gang before a elastic pod with one": {text: spare, change: apps,
			budgets: []*policyv1.PodDisruptionBudget{podDisruptionBudget("na", 0)}, goes: "mb*4"},
	}) {
		w := newScene(tc.text, tc.change)
		if tc.byLoss {
			w.args = framework.Arguments{"victimOrder": "Loss"}
		}

		w.startCache()
		for _, budget := range tc.budgets {
			indexer := w.Cache.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
			check.NoError(t, indexer.Add(budget))
		}

		w.runAction(t)
		goes, pipelined := w.Outcome()
		check.That(t, goes == session.Spell(tc.goes) && pipelined != "", "%q are evicted and %q are pipelined, want %q to be evicted", goes, pipelined, tc.goes)
	}
}

// TestHigherPrioritiesAreSpared: as more cards are needed, one priority after the other is
// evicted.
func TestHigherPrioritiesAreSpared(t *testing.T) {
	for pods, want := range map[int]string{1: "a*4", 4: "a*4", 5: "a*4 b*4", 8: "a*4 b*4", 9: "a*4 b*4 c*4", 12: "a*4 b*4 c*4"} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			w := newScene(fmt.Sprintf("node n model=A cards=4; node m model=A cards=4; node o model=A cards=4; job a queue=tra min=4 running=n*4 age=99h; job b queue=tra min=4 running=m*4 age=24h; job c queue=tra min=4 running=o*4 age=1h; job i queue=inf min=%d pending=%d", pods, pods),
				applyAll(onJob("a", class("pc-low")), onJob("b", class("pc-normal")), onJob("c", class("pc-medium"))))
			w.runAction(t)
			goes, _ := w.Outcome()
			check.Equal(t, "who goes", session.Spell(want), goes)
		})
	}
}
