package preemption

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestQuotaIsIgnoredUntilTheLastCheckEnds: preempt asks whether anything but quota keeps a pod from a node. While such a
// check of a node runs, the predicate ignores the quota for this pod. Topology-aware preempt checks several nodes for a pod
// at the same time. So with two checks the predicate ignores the quota until both have ended.
func TestQuotaIsIgnoredUntilTheLastCheckEnds(t *testing.T) {
	p := &Preemption{}
	task := &api.TaskInfo{UID: "j-0"}

	p.ignoringQuota.beginCheck(task.UID)
	p.ignoringQuota.beginCheck(task.UID)
	p.ignoringQuota.endCheck()
	check.That(t, p.IgnoresQuota(task), "the quota is not ignored although the second check still runs")

	p.ignoringQuota.endCheck()
	check.That(t, !p.IgnoresQuota(task), "the quota is ignored although both checks have ended")
}
