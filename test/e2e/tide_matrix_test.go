package e2e

import "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

// Training fills the nodes. Work of high priority that is no inference takes
// nothing, inference takes what it has quota for, and no more than it needs.
func inferenceTakesFromTrainingOnly(t *tide) {
	t.quotas(2)
	t.trains("low", 8)
	t.ofType(t.queue("more"), "training", cards(t.card, 8))
	t.create(
		t.inClass("pc-high", t.work("greedy", t.queue("more"), 1)),
		t.inClass("pc-high", t.work("notebook", t.byHand("notebook", "notebook", 50000, false), 1)),
		t.inClass("pc-high", t.work("untyped", t.byHand("untyped", "", 50000, false), 1)),
	)
	waiting := map[string]string{"greedy": pods(0, 1), "notebook": pods(0, 1), "untyped": pods(0, 1), "low": pods(8, 0)}
	t.wantPods(waiting)
	t.serves("service", 1)
	waiting["low"], waiting["service"] = pods(7, 1), pods(1, 0)
	t.wantPods(waiting)
	t.scale("service", 3)
	waiting["low"], waiting["service"] = pods(6, 2), pods(2, 1)
	t.wantPods(waiting)
	t.wantSaid("service", insufficient(t.queue("inference"), t.card, 1, 2))
}

// Everybody who waits is in a queue of higher priority than everybody who runs,
// and all queues that run work are reclaimable: it is the service type alone
// that decides.
func trainingAloneGives(t *tide) {
	t.quotas(8)
	for name, work := range map[string]work{
		"low-service": t.work("low-service", t.byHand("low", "inference", 10000, true), 3),
		"notebook":    t.work("notebook", t.byHand("notebook", "notebook", 10000, true), 2),
		"untyped":     t.work("untyped", t.byHand("untyped", "", 10000, true), 2),
		"trainer":     t.work("trainer", t.byHand("trainer", "training", 10000, true), 1),
	} {
		t.create(t.inClass("pc-low", work))
		t.starts(name, work.pods)
	}
	stay := t.alive("low-service", "notebook", "untyped")
	t.create(t.inClass("pc-high", t.work("greedy", t.queue("training"), 1)))
	t.wantPods(map[string]string{"trainer": pods(1, 0), "greedy": pods(0, 1)})
	t.serves("service", 2)
	t.wantPods(map[string]string{"trainer": pods(0, 1), "greedy": pods(0, 1), "service": pods(1, 1)})
	t.stay(stay)
}

// Of eight pods seven are protected, each in another way.
func whatIsProtectedStays(t *tide) {
	t.quotas(8)
	t.create(
		t.deploymentOf(t.work("locked", t.byHand("locked", "training", 20000, false), 1)),
		t.deploymentOf(t.work("equal", t.byHand("equal", "training", 80000, true), 1)),
	)
	annotated := t.deploymentOf(t.work("pod", t.queue("training"), 1))
	annotated.Spec.Template.Annotations[v1beta1.PodPreemptable] = "false"
	group := t.deploymentOf(t.work("group", t.queue("training"), 1)) // reaches the PodGroup only
	group.Annotations = map[string]string{v1beta1.PodPreemptable: "false"}
	job := t.trainer("job", 2)
	job.Annotations[v1beta1.PodPreemptable] = "false"
	t.create(annotated, group, job, t.inClass("system-cluster-critical", t.work("critical", t.queue("training"), 1)))
	protected := []string{"locked", "equal", "pod", "group", "critical"}
	for _, name := range protected {
		t.starts(name, 1)
	}
	t.starts("job", 2)
	stay := t.alive(append(protected, "job")...)
	t.trains("free", 1)
	t.serves("service", 2)
	t.wantPods(map[string]string{"free": pods(0, 1), "service": pods(1, 1)})
	t.stay(stay)
}
