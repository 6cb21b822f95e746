package capacitycard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// deny are the arguments with which a queue without a card quota may use nothing.
var deny = framework.Arguments{"unmanagedQueues": "Deny"}

// whatHelps is the end of each refusal of a queue that is denied.
const whatHelps = "; it has no card quota, and such queues are denied (unmanagedQueues: Deny): " +
	"submit to a queue that has a CardQuota, or create one for this queue"

// TestDeniedQueueStartsNoPods: with unmanagedQueues: Deny a queue without a card quota gets no cards, and no CPU
// and memory beyond what it states (cpu=). That is true for Volcano's queues default and root as well. A queue with
// any quota, even an empty one, is not denied. Each pod requests 1 CPU, and "a:1" is one pod on node a.
func TestDeniedQueueStartsNoPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ scene, wantPlaced, wantReason string }{
		"a pod without cards, and the queue states no CPU: waits": {
			scene: `queue q cpu=unlimited
				job j queue=q min=1 pending=1 cards=0`,
			wantPlaced: "",
			wantReason: "Queue <q> has no cpu capability and may use none: set spec.capability.cpu (spec.resources.cpu of its CardQuota)" + whatHelps,
		},
		"a pod with a card: waits": {
			scene: `queue q
				job j queue=q min=1 pending=1`,
			wantPlaced: "",
			wantReason: "Queue <q> has insufficient <A> quota: requested <1>, total would be <1>, but capability is <0>" + whatHelps,
		},
		"two pods without cards, and the queue states 1 CPU: one starts": {
			scene: `queue q cpu=1
				job j queue=q min=1 pending=2 cards=0`,
			wantPlaced: "a:1",
			wantReason: "Queue <q> has insufficient CPU quota: requested <1000m>, total would be <2000m>, but capability is <1000m>" + whatHelps,
		},
		"a pod in the queue default, which states no CPU: waits": {
			scene: `queue default cpu=unlimited
				job j queue=default min=1 pending=1 cards=0`,
			wantPlaced: "", wantReason: "Queue <default> has no cpu capability",
		},
		"a pod in the queue root: waits": {
			scene: `queue root cpu=unlimited
				job j queue=root min=1 pending=1 cards=0`,
			wantPlaced: "",
			wantReason: "Queue <root> may use nothing (unmanagedQueues: Deny): submit to a queue that has a CardQuota",
		},
		"a pod in a queue with a quota of 1, below root: starts": {
			scene: `queue root cpu=unlimited
				queue q quota={"A":1}
				job j queue=q min=1 pending=1`,
			wantPlaced: "a:1",
		},
		"a pod without cards in a queue with an empty quota: starts": {
			scene: `queue q quota={}
				job j queue=q min=1 pending=1 cards=0`,
			wantPlaced: "a:1",
		},
	}) {
		s := newScene(t, "node a model=A; "+tc.scene).withArguments(deny).enqueueAndAllocate()

		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
		checkText(t, "reasons", tc.wantReason, s.refusals("j"))
	}
}

// TestDeniedQueueEnqueuesNoJob: a job of a denied queue is not enqueued either, and its PodGroup gets the reason: one
// without pods that needs a card, and one whose pod needs only CPU.
func TestDeniedQueueEnqueuesNoJob(t *testing.T) {
	for job, wantReason := range map[string]string{
		`job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`:   "capability is <0>" + whatHelps,
		"job j queue=q min=1 phase=Pending minCards=0 pending=1 cards=0": "Queue <q> has no cpu capability",
	} {
		s := newScene(t, "node a model=A; queue q cpu=unlimited; "+job).withArguments(deny).enqueueAndAllocate()

		s.checkEnqueued(t, "j", wantReason)
		check.Contains(t, "reason", s.Job("j").JobFitErrors, whatHelps)
	}
}

// TestDeniedQueueEvictsNoPods: pods that were placed before their queue was denied run on, and no pod of the queue
// takes their place. In a queue that is not denied, preempt evicts low-0 for high-0, because the node has CPU for only
// one of them. In a queue that is denied, it does not. Nor does reclaim evict training for a denied queue of inference.
func TestDeniedQueueEvictsNoPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args                       framework.Arguments
		wantEvicted, wantPipelined string
	}{
		"preempt in a queue that is not denied: low-0 is evicted": {nil, "low-0", "high-0@a"},
		"preempt in a denied queue: no eviction":                  {deny, "", ""},
	}) {
		s := newScene(t, `node a model=A
			queue q cpu=unlimited
			job low queue=q min=1 running=a cards=0 priorityClass=low
			job high queue=q min=1 pending=1 cards=0 priorityClass=high`, requests(corev1.ResourceCPU, "40")) // of 64
		s.withArguments(tc.args).evict(preempt.New()).expectEvictions(tc.wantEvicted, tc.wantPipelined)
	}

	s := newScene(t, `node a model=A
		queue inf priority=80000 serviceType=inference cpu=unlimited
		queue tra quota={"A":8} priority=20000 serviceType=training
		job t queue=tra min=1 running=a*8
		job i queue=inf min=1 pending=1`).withArguments(deny).evict(reclaim.New())
	s.expectEvictions("", "")
	check.Equal(t, "preemptive for a pod of a denied queue", false, s.p.podReclaim.preemptive(s.Ssn.Queues["inf"], s.Task("i-0")))
	check.Equal(t, "a pod of a denied queue may reclaim", false, s.pluginForActions().Rules.CanReclaim(s.Task("i-0")))
}

// TestDeniedQueueCanStillLoseCards: pods of training run in a queue that was denied later. Inference may take their
// cards back as from any other queue.
func TestDeniedQueueCanStillLoseCards(t *testing.T) {
	s := newScene(t, `node a model=A
		queue inf quota={"A":8} priority=80000 serviceType=inference
		queue tra priority=20000 serviceType=training cpu=unlimited
		job t queue=tra min=1 running=a*8
		job i queue=inf min=1 pending=1`).withArguments(deny).enqueueAndAllocate()

	check.Equal(t, "inference may reclaim from the denied queue", true, s.pluginForActions().Rules.CanReclaimFrom(s.Task("i-0"), s.Task("t-0")))
}
