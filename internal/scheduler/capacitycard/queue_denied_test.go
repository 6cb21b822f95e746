package capacitycard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

var deny = framework.Arguments{"unmanagedQueues": "Deny"}

// whatHelps is the end of each refusal of a queue that is denied.
const whatHelps = "; it has no card quota, and such queues are denied (unmanagedQueues: Deny): submit to a queue that has a CardQuota, or create one for this queue"

// TestDeniedQueueGetsNoCards: without unmanagedQueues: Deny every one of these jobs
// without cards starts.
func TestDeniedQueueGetsNoCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want, why string }{
		"CPU and memory":           {"queue q cpu=unlimited; job j queue=q min=1 pending=1 cards=0", "", "Queue <q> has no cpu capability and may use none: set spec.capability.cpu (spec.resources.cpu of its CardQuota)" + whatHelps},
		"cards":                    {"queue q; job j queue=q min=1 pending=1", "", "Queue <q> has insufficient <A> quota: requested <1>, total would be <1>, but capability is <0>" + whatHelps},
		"what it states":           {"queue q cpu=1; job j queue=q min=1 pending=2 cards=0", "a:1", "Queue <q> has insufficient CPU quota: requested <1000m>, total would be <2000m>, but capability is <1000m>" + whatHelps},
		"the queue default":        {"queue default cpu=unlimited; job j queue=default min=1 pending=1 cards=0", "", "Queue <default> has no cpu capability"},
		"the queue root":           {"queue root cpu=unlimited; job j queue=root min=1 pending=1 cards=0", "", "Queue <root> may use nothing (unmanagedQueues: Deny): submit to a queue that has a CardQuota"},
		"a queue with quota":       {`queue root cpu=unlimited; queue q quota={"A":1}; job j queue=q min=1 pending=1`, "a:1", ""},
		"an empty quota is enough": {`queue q quota={}; job j queue=q min=1 pending=1 cards=0`, "a:1", ""},
	}) {
		s := newScene(t, "node a model=A; "+tc.text).withArguments(deny).enqueueAndAllocate()
		check.Equal(t, "placed", tc.want, s.podsByNode("j"))

		check.That(t, containsText(s.refusals("j"), tc.why), "reasons %q, want %q", s.refusals("j"), tc.why)
	}
}

func TestDeniedQueueEnqueuesNoJob(t *testing.T) {
	for job, why := range map[string]string{
		`job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`:   "capability is <0>" + whatHelps,
		"job j queue=q min=1 phase=Pending minCards=0 pending=1 cards=0": "Queue <q> has no cpu capability",
	} {
		s := newScene(t, "node a model=A; queue q cpu=unlimited; "+job).withArguments(deny).enqueueAndAllocate()
		j := s.Job("j")
		check.That(t, j.PodGroup.Status.Phase == "Pending" && containsText(j.JobFitErrors, why) && containsText(j.JobFitErrors, whatHelps),
			"%s: phase %s, reason %q, want %q", job, j.PodGroup.Status.Phase, j.JobFitErrors, why)
	}
}

// TestDeniedQueueEvictsNoPods: what was placed before the queue was denied goes on,
// and nothing of the queue takes its place.
func TestDeniedQueueEvictsNoPods(t *testing.T) {
	large := requests(corev1.ResourceCPU, "40")
	open := func(args framework.Arguments) *scene {
		return newScene(t, "node a model=A; queue q cpu=unlimited; job low queue=q min=1 running=a cards=0 priorityClass=low; job high queue=q min=1 pending=1 cards=0 priorityClass=high", large).withArguments(args)
	}
	open(nil).evict(preempt.New()).expectEvictions("low-0", "high-0@a")
	open(deny).evict(preempt.New()).expectEvictions("", "")

	s := newReclaimScene(t, "queue inf priority=80000 serviceType=inference cpu=unlimited; job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1").withArguments(deny).evict(reclaim.New())
	s.expectEvictions("", "")
	check.That(t, !s.p.preemptive(s.Ssn.Queues["inf"], s.Task("i-0")) && !s.reclaimPolicy().CanReclaim(s.Task("i-0")), "a pod of a denied queue may take cards back")
	check.Equal(t, "pods that go", 0, len(s.In(api.Releasing)))
}

// TestDeniedQueueCanStillLoseCards: cards of its pods are taken back as from any queue.
func TestDeniedQueueCanStillLoseCards(t *testing.T) {
	s := newReclaimScene(t, "queue tra priority=20000 serviceType=training cpu=unlimited; job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1").withArguments(deny).enqueueAndAllocate()
	check.That(t, s.reclaimPolicy().CanReclaimFrom(s.Task("i-0"), s.Task("t-0")), "a pod of a denied queue does not give way")
}
