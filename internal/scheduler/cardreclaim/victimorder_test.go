package cardreclaim

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPodsOfLowerPriorityAreEvictedFirst: VictimOrder Priority, the default, evicts pods of a lower
// PriorityClass before others, even if that loses more work. Gang a has run for 24 hours on node n and gang b
// for one hour on node m, so a loses more. The order of the classes is pc-high, pc-medium, pc-normal, pc-low. A
// class that the policy does not list counts as the lowest. "b*4" are the pods b-0 to b-3.
func TestPodsOfLowerPriorityAreEvictedFirst(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		classOfA, classOfB string
		change             podChange
		victimOrder        string
		wantEvicted        string
	}{
		"no classes: b, which loses less":                    {wantEvicted: "b*4"},
		"a low, b high: a":                                   {classOfA: "pc-low", classOfB: "pc-high", wantEvicted: "a*4"},
		"a low, b high, but victimOrder is Loss: b":          {classOfA: "pc-low", classOfB: "pc-high", victimOrder: "Loss", wantEvicted: "b*4"},
		"a normal, b not listed: b, the lowest":              {classOfA: "pc-normal", classOfB: "mine", wantEvicted: "b*4"},
		"a low, b not listed: equal, so b, which loses less": {classOfA: "pc-low", classOfB: "mine", wantEvicted: "b*4"},
		"a low, b low with one normal pod: a, as b counts as normal": {
			classOfA: "pc-low", classOfB: "pc-low", change: onPod("b-1", withPriorityClass("pc-normal")), wantEvicted: "a*4"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n,m model=A cards=4
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=m*4 age=1h
			job i queue=inference min=4 pending=4`,
			onJob("a", withPriorityClass(tc.classOfA)), onJob("b", withPriorityClass(tc.classOfB)), tc.change)
		if tc.victimOrder != "" {
			s.arguments = framework.Arguments{"victimOrder": tc.victimOrder}
		}

		s.runSession(t).expectEvicted(t, tc.wantEvicted)
		check.Equal(t, "pods of i that get a card", 4, s.countPlaced("i"))
	}
}

// TestAHigherPriorityIsEvictedWhereNoLowerOneHelps: gang a is the only one that may be evicted, so its high
// class does not protect it. "a*4" are the pods a-0 to a-3, "i@n*4" are i-0 to i-3 on node n.
func TestAHigherPriorityIsEvictedWhereNoLowerOneHelps(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job a queue=training min=4 running=n*4 age=24h
		job i queue=inference min=4 pending=4`, onJob("a", withPriorityClass("pc-high")))

	s.runSession(t).expectEvictedAndPlaced(t, "a*4", "i@n*4")
}

// TestTheQueueOfLowerPriorityComesBeforeThePriorityClass: the priority of the queue decides before the
// PriorityClass. Gang a has the higher class, but its queue has priority 10000 and that of b has 20000. So a is
// evicted, although it loses more work. "a*4" are the pods a-0 to a-3, "i@n*4" are i-0 to i-3 on node n.
func TestTheQueueOfLowerPriorityComesBeforeThePriorityClass(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue low quota=1000 priority=10000 serviceType=training
		node n,m model=A cards=4
		job a queue=low min=4 running=n*4 age=24h
		job b queue=training min=4 running=m*4 age=1h
		job i queue=inference min=4 pending=4`, onJob("a", withPriorityClass("pc-high")), onJob("b", withPriorityClass("pc-low")))

	s.runSession(t).expectEvictedAndPlaced(t, "a*4", "i@n*4")
}

// TestPriorityDecidesBetweenElasticPodsAndGangs: job a has 4 pods of minimum 3, so it can lose one pod. Gang b
// needs its 4 pods. One card is needed. Of equal priority an elastic pod is evicted, as a stays able to work: that of
// the lowest class, then of the lowest task priority, then the first by name. "b*4" are the pods b-0 to b-3.
func TestPriorityDecidesBetweenElasticPodsAndGangs(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change      podChange
		wantEvicted string
	}{
		"a high, b low: the gang of lower priority": {
			applyAll(onJob("a", withPriorityClass("pc-high")), onJob("b", withPriorityClass("pc-low"))), "b*4"},
		"both low: an elastic pod": {
			applyAll(onJob("a", withPriorityClass("pc-low")), onJob("b", withPriorityClass("pc-low"))), "a-0"},
		"a-2 is low, the other pods of a normal, b high: a-2": {
			applyAll(onJob("a", withPriorityClass("pc-normal")), onPod("a-2", withPriorityClass("pc-low")), onJob("b", withPriorityClass("pc-high"))), "a-2"},
		"a-3 has task priority -1, the others 0: a-3": {onPod("a-3", annotated("volcano.sh/task-priority", "-1")), "a-3"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n,m model=A cards=4
			job a queue=training min=3 running=n*4 age=24h
			job b queue=training min=4 running=m*4 age=1h
			job i queue=inference min=1 pending=1`, tc.change)

		s.runSession(t).expectEvicted(t, tc.wantEvicted)
		check.Equal(t, "pods of i that get a card", 1, s.countPlaced("i"))
	}
}

// TestPodsWithoutDisruptionsAllowedComeLastOfTheirPriority: a PodDisruptionBudget says how many of its pods may
// be evicted now. The scheduler prefers other victims to pods of which the budget does not allow the eviction.
// Priority comes first, and the loss of work last. Gang a has run for 24 hours, gang b for one hour, so b loses
// less. With minimum 3, job a can lose one of its 4 pods. "a*4" are the pods a-0 to a-3.
func TestPodsWithoutDisruptionsAllowedComeLastOfTheirPriority(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		minimumOfA  int
		waiting     int
		change      podChange
		budgets     map[string]int32 // allowed evictions by job
		victimOrder string
		wantEvicted string
	}{
		"b allows none: a":                     {minimumOfA: 4, waiting: 4, budgets: map[string]int32{"b": 0}, wantEvicted: "a*4"},
		"b allows 3 of its 4 pods: a":          {minimumOfA: 4, waiting: 4, budgets: map[string]int32{"b": 3}, wantEvicted: "a*4"},
		"b allows its 4 pods: b":               {minimumOfA: 4, waiting: 4, budgets: map[string]int32{"b": 4}, wantEvicted: "b*4"},
		"both allow none: b, which loses less": {minimumOfA: 4, waiting: 4, budgets: map[string]int32{"a": 0, "b": 0}, wantEvicted: "b*4"},
		"b allows none, victimOrder is Loss: still a": {
			minimumOfA: 4, waiting: 4, budgets: map[string]int32{"b": 0}, victimOrder: "Loss", wantEvicted: "a*4"},
		"b allows none, but has the lower priority: b": {minimumOfA: 4, waiting: 4, budgets: map[string]int32{"b": 0}, wantEvicted: "b*4",
			change: applyAll(onJob("a", withPriorityClass("pc-high")), onJob("b", withPriorityClass("pc-low")))},
		"both allow none, the elastic pod a-1 has no budget: a-1": {minimumOfA: 3, waiting: 1,
			budgets: map[string]int32{"a": 0, "b": 0}, change: onPod("a-1", withLabel("other")), wantEvicted: "a-1"},
		"the budget of a allows none of its elastic pods: gang b": {minimumOfA: 3, waiting: 1, budgets: map[string]int32{"a": 0}, wantEvicted: "b*4"},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n,m model=A cards=4
			job a queue=training min=%d running=n*4 age=24h
			job b queue=training min=4 running=m*4 age=1h
			job i queue=inference min=%d pending=%d`, tc.minimumOfA, tc.waiting, tc.waiting),
			onJob("a", withLabel("a")), onJob("b", withLabel("b")), tc.change)
		if tc.victimOrder != "" {
			s.arguments = framework.Arguments{"victimOrder": tc.victimOrder}
		}

		s.startCache()
		for app, allowed := range tc.budgets {
			indexer := s.Cache.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
			check.NoError(t, indexer.Add(podDisruptionBudget(app, allowed)))
		}

		s.runSession(t).expectEvicted(t, tc.wantEvicted)
		check.Equal(t, "pods of i that get a card", tc.waiting, s.countPlaced("i"))
	}
}

// podDisruptionBudget allows so many evictions of pods with a label.
func podDisruptionBudget(app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// TestHigherPrioritiesAreEvictedOnlyForMoreCards: three gangs of 4 cards have the classes low, normal and
// medium, and the lowest has run longest. For up to 4 pods the low gang suffices, for up to 8 the normal one
// is evicted as well, and for more all three. "low*4" are the pods low-0 to low-3.
func TestHigherPrioritiesAreEvictedOnlyForMoreCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pods        int
		wantEvicted string
	}{
		"1 pod":   {1, "low*4"},
		"4 pods":  {4, "low*4"},
		"5 pods":  {5, "low*4 normal*4"},
		"8 pods":  {8, "low*4 normal*4"},
		"9 pods":  {9, "low*4 normal*4 medium*4"},
		"12 pods": {12, "low*4 normal*4 medium*4"},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n,m,o model=A cards=4
			job low queue=training min=4 running=n*4 age=99h
			job normal queue=training min=4 running=m*4 age=24h
			job medium queue=training min=4 running=o*4 age=1h
			job i queue=inference min=%d pending=%d`, tc.pods, tc.pods), onJob("low", withPriorityClass("pc-low")),
			onJob("normal", withPriorityClass("pc-normal")), onJob("medium", withPriorityClass("pc-medium")))
		s.runSession(t).expectEvicted(t, tc.wantEvicted)

		check.Equal(t, "pods of i that get a card", tc.pods, s.countPlaced("i"))
	}
}
