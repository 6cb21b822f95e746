package e2e

import "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

// inferenceReclaimsFromTrainingOnly: training uses all 8 cards. Pods of other queues of training, of service type
// notebook and of no type have quota and the class pc-high, and still wait: the reclaim matrix lets only inference
// reclaim. A Deployment of inference with 1 pod reclaims 1 card. With 3 pods it reclaims 1 more, up to its quota of 2,
// and its third pod waits for quota.
func inferenceReclaimsFromTrainingOnly(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(2)
	t.startTraining("low", 8)
	t.createQuotaOfType(t.queueName("more"), "training", cardList(t.card, 8))

	t.createObjects(
		t.deploymentInClass("pc-high", t.newWorkload("greedy", t.queueName("more"), 1)),
		t.deploymentInClass("pc-high", t.newWorkload("notebook", t.createUnmanagedQueue("notebook", "notebook", 50000, notReclaimable), 1)),
		t.deploymentInClass("pc-high", t.newWorkload("untyped", t.createUnmanagedQueue("untyped", "", 50000, notReclaimable), 1)),
	)

	waiting := map[string]string{"greedy": runningAndWaiting(0, 1), "notebook": runningAndWaiting(0, 1), "untyped": runningAndWaiting(0, 1), "low": runningAndWaiting(8, 0)}
	t.wantPods(waiting)
	t.createInference("service", 1)
	waiting["low"] = runningAndWaiting(7, 1)
	waiting["service"] = runningAndWaiting(1, 0)
	t.wantPods(waiting)

	t.scaleDeployment("service", 3)
	waiting["low"] = runningAndWaiting(6, 2)
	waiting["service"] = runningAndWaiting(2, 1)
	t.wantPods(waiting)
	t.wantReason("service", insufficientMessage(t.queueName("inference"), t.card, 1, 2))
}

// onlyTrainingIsReclaimed: the 8 cards are used by pods of inference (3), notebook (2), no type (2) and training (1).
// Their queues are reclaimable and have a lower priority than all queues with waiting pods. Pod greedy of training
// reclaims nothing. Of 2 pods of inference one reclaims the card of training, and the other waits: the service types
// decide, and not the priorities alone.
func onlyTrainingIsReclaimed(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	for name, work := range map[string]podSet{
		"low-service": t.newWorkload("low-service", t.createUnmanagedQueue("low", "inference", 10000, reclaimable), 3),
		"notebook":    t.newWorkload("notebook", t.createUnmanagedQueue("notebook", "notebook", 10000, reclaimable), 2),
		"untyped":     t.newWorkload("untyped", t.createUnmanagedQueue("untyped", "", 10000, reclaimable), 2),
		"trainer":     t.newWorkload("trainer", t.createUnmanagedQueue("trainer", "training", 10000, reclaimable), 1),
	} {
		t.createObjects(t.deploymentInClass("pc-low", work))
		t.waitUntilRunning(name, work.pods)
	}

	stay := t.runningPods("low-service", "notebook", "untyped")
	t.createObjects(t.deploymentInClass("pc-high", t.newWorkload("greedy", t.queueName("training"), 1)))
	t.wantPods(map[string]string{"trainer": runningAndWaiting(1, 0), "greedy": runningAndWaiting(0, 1)})
	t.createInference("service", 2)
	t.wantPods(map[string]string{"trainer": runningAndWaiting(0, 1), "greedy": runningAndWaiting(0, 1), "service": runningAndWaiting(1, 1)})
	t.checkSamePods(stay)
}

// protectedPodsStay: of 8 pods of training, 7 are protected, each in another way: a queue that is not reclaimable,
// one of equal priority, an annotation of pod, PodGroup or job, and a critical PriorityClass. Inference gets the
// card of the eighth one.
func protectedPodsStay(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.createObjects(
		t.deploymentOf(t.newWorkload("locked", t.createUnmanagedQueue("locked", "training", 20000, notReclaimable), 1)),
		t.deploymentOf(t.newWorkload("equal", t.createUnmanagedQueue("equal", "training", 80000, reclaimable), 1)),
	)

	annotated := t.deploymentOf(t.newWorkload("pod", t.queueName("training"), 1))
	annotated.Spec.Template.Annotations[v1beta1.PodPreemptable] = "false"
	group := t.deploymentOf(t.newWorkload("group", t.queueName("training"), 1)) // reaches the PodGroup only
	group.Annotations = map[string]string{v1beta1.PodPreemptable: "false"}

	job := t.trainingJob("job", 2)
	job.Annotations[v1beta1.PodPreemptable] = "false"
	t.createObjects(annotated, group, job, t.deploymentInClass("system-cluster-critical", t.newWorkload("critical", t.queueName("training"), 1)))

	protected := []string{"locked", "equal", "pod", "group", "critical"}
	for _, name := range protected {
		t.waitUntilRunning(name, 1)
	}

	t.waitUntilRunning("job", 2)
	stay := t.runningPods(append(protected, "job")...)
	t.startTraining("free", 1)
	t.createInference("service", 2)
	t.wantPods(map[string]string{"free": runningAndWaiting(0, 1), "service": runningAndWaiting(1, 1)})
	t.checkSamePods(stay)
}
