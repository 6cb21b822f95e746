package observer

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/rule"
)

// newSceneOfTrainingAndInference has a queue of inference, which may reclaim, and a reclaimable queue of
// training, with eight H200 each.
func newSceneOfTrainingAndInference() *scene {
	return newSceneWithQuotaOfTwo().playScript(`
		load queue inference quota=H200:8 serviceType=inference priority=80000 reclaimable=false
		load queue training quota=H200:8 serviceType=training priority=20000 reclaimable=true`)
}

// TestWhoMayBeEvictedForWhom: preempt evicts pods of lower priority in the same queue. Reclaim and cardreclaim evict
// pods of other queues, of a service type from which theirs may reclaim, if that queue is reclaimable and has a lower
// priority. A queue that is closed, or has no quota, reclaims nothing. A victim must be preemptable, and have a card
// that the waiting pod names. Where queue, pod and PodGroup have no service type, the pod's owner decides: a
// ReplicaSet is of inference, a Job of training. Queue inference has priority 80000, queue training 20000 and is
// reclaimable. A row describes ("make") the pods victim and waiting. Then victim runs on node h200-0 of 8 H200,
// waiting waits, victim is evicted and waiting is placed. The observer reports violation "eviction" for an eviction
// outside these rules. "tolerated" is one for which no pod was placed so far: it may still come.
func TestWhoMayBeEvictedForWhom(t *testing.T) {
	const ofOneQueue = `
		make pod victim queue=training cards=1 priority=1
		make pod waiting queue=training cards=1 priority=2
	`
	const ofTwoQueues = `
		make pod victim queue=training cards=1 priority=9
		make pod waiting queue=inference cards=1 priority=0
	`
	const withLowJob = `
		write group low queue=training priorityClass=low
		write priorityClass low value=1
	`

	for t, tc := range check.Cases(t, map[string]struct{ steps, action, wantViolation string }{
		"preempt: priority 2 evicts priority 1 of its queue": {ofOneQueue, "preempt", ""},
		"preempt: PodGroups of priority 2 and 1 decide, not their pods of priority 0 and 9": {ofOneQueue + withLowJob + `
			write group high queue=training priorityClass=high
			write priorityClass high value=2
			make pod victim group=low priority=9
			make pod waiting group=high priority=0`, "preempt", ""},
		"preempt: PodGroups of equal priority 1 decide, not their pods of priority 2 and 1": {ofOneQueue + withLowJob + `
			write group also-low queue=training priorityClass=also-low
			write priorityClass also-low value=1
			make pod victim group=low
			make pod waiting group=also-low`, "preempt", "eviction"},
		"preempt: within a PodGroup the priorities 2 and 1 of the pods decide": {ofOneQueue + withLowJob + `
			make pod victim group=low
			make pod waiting group=low`, "preempt", ""},
		"preempt: within a PodGroup an annotation raises the victim to priority 5": {ofOneQueue + withLowJob + `
			make pod victim group=low volcano.sh/task-priority=5
			make pod waiting group=low`, "preempt", "eviction"},
		"preempt: both pods have priority 1": {
			ofOneQueue + `make pod waiting priority=1`, "preempt", "eviction",
		},
		"preempt: the pods are of different queues": {
			ofTwoQueues + `make pod waiting priority=99`, "preempt", "eviction",
		},
		"preempt: the waiting pod wants another card than the node has": {
			ofOneQueue + `make pod waiting card=RTX4090`, "preempt", "eviction",
		},
		"preempt: the waiting pod wants no cards: it may lack CPU, but when placed it does not use the freed card": {
			ofOneQueue + `make pod waiting cards=`, "preempt", "tolerated",
		},
		"inference reclaims from training, although the pods have priority 0 and 9": {ofTwoQueues, "reclaim", ""},
		"the service types are on the pods, not on the queues": {ofTwoQueues + `
			write queue inference serviceType=
			write queue training serviceType=
			make pod waiting serviceType=inference
			make pod victim serviceType=training`, "reclaim", ""},
		"the service types follow from the owners, a ReplicaSet and a Job": {ofTwoQueues + `
			write queue inference serviceType=
			write queue training serviceType=
			make pod waiting owner=ReplicaSet
			make pod victim owner=Job`, "reclaim", ""},
		"training reclaims from inference": {ofTwoQueues + `
			make pod victim queue=inference
			make pod waiting queue=training`, "reclaim", "eviction"},
		"a service type without a rule reclaims": {
			ofTwoQueues + `write queue inference serviceType=notebook`, "reclaim", "eviction",
		},
		"reclaim within one queue":                 {ofOneQueue, "reclaim", "eviction"},
		"the victim's queue is not reclaimable":    {ofTwoQueues + `write queue training reclaimable=false`, "reclaim", "eviction"},
		"the victim's queue has the same priority": {ofTwoQueues + `write queue training priority=80000`, "reclaim", "eviction"},
		"a queue without quota reclaims":           {ofTwoQueues + `write queue inference quota=`, "reclaim", "eviction"},
		"a closed queue reclaims":                  {ofTwoQueues + `write queue inference state=Closed`, "reclaim", "eviction"},
		"the victim is not preemptable, by an annotation": {
			ofTwoQueues + `make pod victim volcano.sh/preemptable=false`, "reclaim", "eviction",
		},
		"the victim is not preemptable, by a label": {
			ofTwoQueues + `make pod victim label:volcano.sh/preemptable=no`, "reclaim", "eviction",
		},
		"the PodGroup of the victim is not preemptable": {ofTwoQueues + `
			write group g queue=training volcano.sh/preemptable=false
			make pod victim group=g`, "reclaim", "eviction"},
		"the victim is critical to the system": {
			ofTwoQueues + `make pod victim priorityClass=system-node-critical`, "reclaim", "eviction",
		},
		"the waiting pod wants another card than the victim has": {ofTwoQueues + `make pod waiting card=RTX4090`, "reclaim", "eviction"},
		"the waiting pod has the preemptionPolicy Never": {
			ofTwoQueues + `make pod waiting preemptionPolicy=Never`, "reclaim", "eviction",
		},
		"the waiting pod is of another scheduler": {
			ofTwoQueues + `make pod waiting scheduler=default-scheduler`, "reclaim", "eviction",
		},
		"cardreclaim evicts by the same rules": {ofTwoQueues, "cardreclaim", ""},
		"Volcano's action shuffle evicts":      {ofTwoQueues, "shuffle", "eviction"},
	}) {
		s := newSceneOfTrainingAndInference()
		s.observed.options.OwnerKinds = map[string]string{"ReplicaSet": "inference", "Job": "training"}
		s.observed.options.Unmanaged = rule.UnmanagedIgnore // a queue without quota may use any card
		s.playScript(tc.steps).playScript(`
			load pod victim node=h200-0
			write pod waiting
			evict victim by=` + tc.action)

		placed := "node=h200-0"
		if strings.Contains(tc.steps, "card=RTX4090") {
			placed = "unschedulable=no-room" // it cannot be placed there
		}
		s.playScript("write pod waiting "+placed).expectViolations(t, tc.wantViolation)
	}
}

// TestOnlyVolcanoMayEvictPods: the observer reports an eviction by another program than Volcano, and one by
// Volcano that names no action. Kubernetes marks such a pod by a condition or by its reason before it deletes it.
// A pod that is only deleted, or not ready, was not evicted. Pod a runs with one H200, gets the status of the row
// and is deleted. Another pod waits for its card, so that Volcano would have a reason.
func TestOnlyVolcanoMayEvictPods(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Status: status, Reason: reason}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		status        corev1.PodStatus
		wantViolation string
	}{
		"evicted by the eviction API": {
			condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI"), "eviction",
		},
		"preempted by another scheduler": {
			condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonPreemptionByScheduler), "eviction",
		},
		"evicted by Volcano, which names no action":     {condition(corev1.PodReady, corev1.ConditionFalse, "Evict"), "eviction"},
		"evicted by a kubelet":                          {corev1.PodStatus{Reason: "Evicted"}, "eviction"},
		"a disruption that was called off: not evicted": {condition(corev1.DisruptionTarget, corev1.ConditionFalse, "x"), ""},
		"containers that are not ready: not evicted":    {condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), ""},
		"deleted without a mark: not evicted":           {corev1.PodStatus{}, ""},
	}) {
		s := newSceneOfTrainingAndInference().playScript(`
			write pod waiting queue=inference cards=1 priority=9 unschedulable=no-room
			place a node=h200-0 queue=training cards=1 priority=0`)
		marked := s.Pod("a")
		marked.Status = tc.status
		s.writeObject(marked)
		s.writeObject(marked.DeepCopy()) // a second update is no second eviction
		s.removeObject(marked.DeepCopy())

		s.expectViolations(t, tc.wantViolation)
	}
}

// TestAPodThatWasEvictedBeforeTheStartIsNoViolation: the observer knows nothing about the time before it started. A
// pod that it lists with reason Evicted, which a kubelet writes, is no violation, also when it is updated later.
func TestAPodThatWasEvictedBeforeTheStartIsNoViolation(t *testing.T) {
	s := newSceneOfTrainingAndInference()
	evicted := s.Pod("a", "queue=training", "cards=1", "node=h200-0")
	evicted.Status.Reason = "Evicted"
	s.observed.loadObject(evicted, s.clock)

	s.writeObject(evicted.DeepCopy())
	s.expectViolations(t, "")
}
