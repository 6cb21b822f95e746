package capacitycard

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// unplaced returns Volcano's message about a pod that some nodes refuse.
func unplaced(statuses ...*api.Status) string {
	fit := api.NewFitErrors()
	task := api.NewTaskInfo(builder.Pod("lab", "p").Obj())
	for i, status := range statuses {
		node := api.NewNodeInfo(builder.Node(string(rune('a' + i))).Obj())
		fit.SetNodeError(node.Name, api.NewFitErrWithStatus(task, node, status))
	}
	return fit.Error()
}

// TestReasonsOfNodesAreReadAgain: package blocked reads the words of the predicate in the message
// that Volcano makes of them.
func TestReasonsOfNodesAreReadAgain(t *testing.T) {
	otherwise := blocked.StatedReason{RefusedByNodes: true, RefusedOtherwise: true}
	onlyCards := blocked.StatedReason{RefusedByNodes: true}
	noQuota := func(reason v1alpha1.BlockedReason) blocked.StatedReason {
		return blocked.StatedReason{RefusedByNodes: true, NodeRefusals: []workload.StatedRefusal{{Reason: reason, Queue: "q"}}}
	}

	exhausted := noQuota(v1alpha1.BlockedQuotaExhausted)
	exhausted.NodeRefusals[0].Requested = 1
	exhausted.NodeRefusals[0].Total = 9
	exhausted.NodeRefusals[0].Limit = 8
	want := map[int]blocked.StatedReason{
		jobNotFound:                 otherwise,
		podRefused:                  {Refusal: &workload.StatedRefusal{Reason: v1alpha1.BlockedQueueStopped, Queue: "q"}},
		unnamedCard:                 onlyCards,
		cardNotAllowed:              onlyCards,
		quotaExceeded:               exhausted,
		quotaExceededForReclaim:     exhausted,
		quotaTerminating:            noQuota(v1alpha1.BlockedCardsTerminating),
		reclaimedByOthers:           otherwise,
		conflictsWithStuckPod:       otherwise,
		conflictNotPreemptable:      otherwise,
		cardsAreStuck:               otherwise,
		cardsAreStuckWithoutVictims: otherwise,
		cardNotDeserved:             otherwise,
		keptForPreemptors:           otherwise,
		quotaKeptForPreemptors:      otherwise,

		keptForPreemptorsWithoutVictims: otherwise,
	}

	lacking := &api.Status{Code: api.Unschedulable, Reason: api.WrapInsufficientResourceReason([]string{string(gpu)})}
	for reason := jobNotFound; reason <= quotaKeptForPreemptors; reason++ {
		key := fitErrorKey{reason: reason, queue: "q", name: "A", count: 1, limit: 8}
		switch reason {
		case podRefused:
			key.text = workload.RefusalForFault("q", quota.Fault{Kind: quota.IsHeld, Queue: "q"}).Message
		case unnamedCard:
			key.text = string(gpu)
		case cardNotAllowed:
			key.text = "A|B"
		}

		message := unplaced(key.newStatus(8, nil), key.newStatus(8, nil), lacking)
		check.Equal(t, message, want[reason], blocked.ReadStatedReason("Unschedulable", message, gpu), cmpopts.IgnoreFields(workload.StatedRefusal{}, "Cards"))
	}
}

// TestWordsOfVolcanoAreRead: package blocked reads what this version of Volcano writes.
func TestWordsOfVolcanoAreRead(t *testing.T) {
	pending := func(status api.TaskStatus, node string) (*api.JobInfo, *api.TaskInfo) {
		task := api.NewTaskInfo(builder.Pod("lab", "p").PodGroup("g").Obj())
		task.Status = api.Pending
		task.LastTransaction = &api.TransactionContext{NodeName: node, Status: status}
		return api.NewJobInfo("lab/g", task), task
	}

	statedReasonFor := func(job *api.JobInfo, task *api.TaskInfo) blocked.StatedReason {
		reason, message, _ := job.TaskSchedulingReason(task.UID)
		return blocked.ReadStatedReason(reason, message, gpu)
	}
	check.Equal(t, "a place in a gang", blocked.StatedReason{Node: "n"}, statedReasonFor(pending(api.Allocated, "n")))
	check.Equal(t, "a place that is not free", blocked.StatedReason{AwaitsRelease: true}, statedReasonFor(pending(api.Pipelined, "n")))

	job, task := pending(api.Pending, "")
	check.Equal(t, "not tried", blocked.StatedReason{}, blocked.ReadStatedReason(v1beta1.NotEnoughResourcesReason, job.FitError(), gpu))
	job.NodesFitErrors[task.UID] = api.NewFitErrors()
	job.NodesFitErrors[task.UID].SetNodeError("n", errors.New("a taint"))

	otherwise := blocked.StatedReason{RefusedByNodes: true, RefusedOtherwise: true}
	check.Equal(t, "by nodes", otherwise, statedReasonFor(job, task))
	otherwise.RepeatsOther = true
	check.Equal(t, "by nodes, of its gang", otherwise, blocked.ReadStatedReason(v1beta1.NotEnoughResourcesReason, job.FitError(), gpu))

	job.JobFitErrors = "Queue <q> does not exist"
	check.Equal(t, "by us, of its gang", &workload.StatedRefusal{Reason: v1alpha1.BlockedQueueNotFound, Queue: "q"},
		blocked.ReadStatedReason(v1beta1.NotEnoughResourcesReason, job.FitError(), gpu).Refusal)
}
