package observer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// reclaimScene has a queue of inference, which may reclaim, and a reclaimable queue of
// training, with eight H200 each.
func reclaimScene() *scene {
	return newScene().playScript(`load queue inference quota=H200:8 serviceType=inference priority=80000 reclaimable=false
		load queue training quota=H200:8 serviceType=training priority=20000 reclaimable=true`)
}

func TestWhoMayBeEvictedForWhom(t *testing.T) {
	// One victim runs, one pod waits, the victim is evicted and the other pod is placed.
	const preempting = `make pod victim queue=training cards=1 priority=1; make pod waiting queue=training cards=1 priority=2;`
	const reclaiming = `make pod victim queue=training cards=1 priority=9; make pod waiting queue=inference cards=1 priority=0;`
	const low = `write group low queue=training priorityClass=low; write priorityClass low value=1;`

	for t, tc := range check.Cases(t, map[string]struct{ text, by, want string }{
		"the higher priority of a queue preempts": {preempting, "preempt", ""},
		"the priority of a job is its PodGroup's": {preempting + low + `write group high queue=training priorityClass=high; write priorityClass high value=2
			make pod victim group=low priority=9; make pod waiting group=high priority=0`, "preempt", ""},
		"and not that of its pods": {preempting + low + `write group also-low queue=training priorityClass=also-low; write priorityClass also-low value=1
			make pod victim group=low; make pod waiting group=also-low`, "preempt", "eviction"},
		"within a job it is that of the pods": {preempting + low + `make pod victim group=low
			make pod waiting group=low`, "preempt", ""},
		"which an annotation may raise": {preempting + low + `make pod victim group=low volcano.sh/task-priority=5
			make pod waiting group=low`, "preempt", "eviction"},
		"an equal priority does not":                                   {preempting + `make pod waiting priority=1`, "preempt", "eviction"},
		"nor one of another queue":                                     {reclaiming + `make pod waiting priority=99`, "preempt", "eviction"},
		"nor one that may not use the node's card":                     {preempting + `make pod waiting card=RTX4090`, "preempt", "eviction"},
		"it also preempts for CPU and memory":                          {preempting + `make pod waiting cards=`, "preempt", "open"},
		"inference reclaims from training whatever the pods' priority": {reclaiming, "reclaim", ""},
		"the service type may stand on the workloads": {reclaiming + `write queue inference serviceType=; write queue training serviceType=
			make pod waiting serviceType=inference; make pod victim serviceType=training`, "reclaim", ""},
		"or follow from the kind of their owner": {reclaiming + `write queue inference serviceType=; write queue training serviceType=
			make pod waiting owner=ReplicaSet; make pod victim owner=Job`, "reclaim", ""},
		"training may not reclaim": {reclaiming + `make pod victim queue=inference
			make pod waiting queue=training`, "reclaim", "eviction"},
		"a type without a rule may not reclaim":   {reclaiming + `write queue inference serviceType=notebook`, "reclaim", "eviction"},
		"nothing is reclaimed within a queue":     {preempting, "reclaim", "eviction"},
		"a queue may refuse":                      {reclaiming + `write queue training reclaimable=false`, "reclaim", "eviction"},
		"a queue of equal priority gives nothing": {reclaiming + `write queue training priority=80000`, "reclaim", "eviction"},
		"a closed queue reclaims nothing":         {reclaiming + `write queue inference state=Closed`, "reclaim", "eviction"},
		"a pod may refuse":                        {reclaiming + `make pod victim volcano.sh/preemptable=false`, "reclaim", "eviction"},
		"with a label too":                        {reclaiming + `make pod victim label:volcano.sh/preemptable=no`, "reclaim", "eviction"},
		"a PodGroup may refuse": {reclaiming + `write group g queue=training volcano.sh/preemptable=false
			make pod victim group=g`, "reclaim", "eviction"},
		"critical pods stay":                           {reclaiming + `make pod victim priorityClass=system-node-critical`, "reclaim", "eviction"},
		"a card of no use stays":                       {reclaiming + `make pod waiting card=RTX4090`, "reclaim", "eviction"},
		"who never preempts is no reason":              {reclaiming + `make pod waiting preemptionPolicy=Never`, "reclaim", "eviction"},
		"who waits for another scheduler is no reason": {reclaiming + `make pod waiting scheduler=default-scheduler`, "reclaim", "eviction"},
		"the same rules apply to cardreclaim":          {reclaiming, "cardreclaim", ""},
		"shuffle is not allowed":                       {reclaiming, "shuffle", "eviction"},
	}) {
		w := reclaimScene()
		w.machine.options.OwnerKinds = map[string]string{"ReplicaSet": "inference", "Job": "training"}
		w.playScript(tc.text).playScript(`load pod victim node=h200-0; write pod waiting; evict victim by=` + tc.by)
		if w.Pod("waiting").Annotations["volcano.sh/card.name"] == rtx4090 {
			w.playScript(`write pod waiting unschedulable=no-room`).expectViolations(t, tc.want) // never placed: only the eviction is looked at
		} else {
			w.playScript(`write pod waiting node=h200-0`).expectViolations(t, tc.want)
		}
	}
}

func TestEvictionsByOthersThanVolcano(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Status: status, Reason: reason}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"the eviction API marks its pods":          {condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI"), "eviction"},
		"another scheduler marks its pods":         {condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonPreemptionByScheduler), "eviction"},
		"an eviction without a reason has none":    {condition(corev1.PodReady, corev1.ConditionFalse, "Evict"), "eviction"},
		"kubelets mark their pods":                 {corev1.PodStatus{Reason: "Evicted"}, "eviction"},
		"a disruption that was called off is none": {condition(corev1.DisruptionTarget, corev1.ConditionFalse, "x"), ""},
		"a pod that is not ready is not evicted":   {condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), ""},
		"a deletion is no eviction":                {corev1.PodStatus{}, ""},
	}) {
		// Some pod would have a reason.
		w := reclaimScene().playScript(`write pod waiting queue=inference cards=1 priority=9 unschedulable=no-room; place a node=h200-0 queue=training cards=1 priority=0`)
		marked := w.Pod("a")
		marked.Status = tc.status
		w.applyObject(marked, false)
		w.applyObject(marked.DeepCopy(), false)
		w.applyObject(marked.DeepCopy(), true)
		w.playScript(`wait 5s`).expectViolations(t, tc.want)
	}
}

func TestWhatWasEvictedBeforeTheStartIsNoViolation(t *testing.T) {
	w := reclaimScene()
	evicted := w.Pod("a", "queue=training", "cards=1", "node=h200-0")
	evicted.Status.Reason = "Evicted"
	w.machine.loadObject(evicted, w.clock)
	w.applyObject(evicted.DeepCopy(), false)
	w.expectViolations(t, "")
}
