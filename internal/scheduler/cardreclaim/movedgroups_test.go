package cardreclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// chargedTo charges pods to a queue, as the binding of a pod records it.
func chargedTo(queue string) podChange { return annotated("cardquota.dev/charged-queue", queue) }

// TestAMovedPodGroupStaysAVictimByItsChargedQueue: a pod is charged to the queue in which it was placed, and
// stays so when a user moves its PodGroup to another queue. So whether it is a victim follows from the charged
// queue, else a tenant could hide running pods from reclaim. Inference reclaims from training, which uses the 4
// cards of node n. "t*4" are the pods t-0 to t-3.
func TestAMovedPodGroupStaysAVictimByItsChargedQueue(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ charged, movedTo, wantEvicted string }{
		"placed in training, and not moved":                        {"training", "training", "t*4"},
		"placed in training, moved to inference":                   {"training", "inference", "t*4"},
		"placed in training, moved to a queue that keeps its pods": {"training", "kept", "t*4"},
		"placed in inference, moved to training: stays":            {"inference", "training", ""},
	}) {
		s := newInferenceAndTrainingScene(`
			queue kept quota=1000 reclaimable=false cpu=1000
			node n model=A cards=4
			job t queue=`+tc.movedTo+` min=4 running=n*4 age=24h
			job i queue=inference min=1 pending=1`, onJob("t", chargedTo(tc.charged)))

		s.runSession(t).expectEvicted(t, tc.wantEvicted)
	}
}

// TestTheChargedQueueRanksAMovedPodGroup: job t was placed in queue training of priority 20000, and moved to
// queue lower of priority 5000. Its rank is that of queue training, so the pods of queue low, of priority 10000,
// are evicted before it. "u*2" are the pods u-0 and u-1.
func TestTheChargedQueueRanksAMovedPodGroup(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue low quota=1000 priority=10000 serviceType=training cpu=1000
		queue lower quota=1000 priority=5000 serviceType=training cpu=1000
		node n model=A cards=4
		job t queue=lower min=1 running=n*2 age=24h
		job u queue=low min=1 running=n*2 age=24h
		job i queue=inference min=2 pending=2`, onJob("t", chargedTo("training")))

	s.runSession(t).expectEvicted(t, "u*2")
}

// TestADrainEvictsMovedPodGroups: stopPolicy HoldAndDrain of queue drained evicts the pods that are charged to
// it, also if their PodGroup has moved to queue inference. "t*4" are the pods t-0 to t-3.
func TestADrainEvictsMovedPodGroups(t *testing.T) {
	for t, movedTo := range check.Cases(t, map[string]string{"not moved": "drained", "moved to inference": "inference"}) {
		s := newInferenceAndTrainingScene(`
			queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain cpu=1000
			node n model=A cards=4
			job t min=4 running=n*4 age=24h queue=`+movedTo, chargedTo("drained"))

		s.runSession(t).expectEvicted(t, "t*4")
	}
}

// TestNothingIsEvictedOnANodeThatIsNotReady: the kubelet of a node that is not ready cannot end the victims, and
// starts no other pod. So an eviction would destroy work in vain. The gang of 4 on node n is evicted only if the
// node is ready.
func TestNothingIsEvictedOnANodeThatIsNotReady(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		ready       corev1.ConditionStatus
		wantEvicted int
	}{
		"condition Ready is True: all 4":   {corev1.ConditionTrue, 4},
		"condition Ready is Unknown: none": {corev1.ConditionUnknown, 0},
		"condition Ready is False: none":   {corev1.ConditionFalse, 0},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=1h
			job i queue=inference min=1 pending=1`)
		s.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: tc.ready}}

		s.runSession(t)
		check.Equal(t, "evicted pods", tc.wantEvicted, len(s.In(api.Releasing)))
	}
}
