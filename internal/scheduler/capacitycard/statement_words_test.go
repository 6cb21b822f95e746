package capacitycard

import (
	"errors"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// messageOfNodes returns Volcano's message about a pod that some nodes refuse, each with a status.
func messageOfNodes(statuses ...*api.Status) string {
	fit := api.NewFitErrors()
	task := api.NewTaskInfo(builder.Pod("lab", "p").Obj())
	for i, status := range statuses {
		node := api.NewNodeInfo(builder.Node(string(rune('a' + i))).Obj())
		fit.SetNodeError(node.Name, api.NewFitErrWithStatus(task, node, status))
	}
	return fit.Error()
}

// refusedOtherwise is what package waiting reads when nodes refuse a pod for something else than cards and quota.
var refusedOtherwise = waiting.StatedReason{RefusedByNodes: true, RefusedOtherwise: true}

// TestReasonsOfNodesAreReadAgain: the plugin's predicate refuses a node with a reason in words, and Volcano
// makes one message of the reasons of all nodes. The operator and kubectl cardquota have only that message.
// So package waiting must read each reason back from it. A stopped queue refuses the pod on every node, so
// what is read names no nodes. An exhausted quota (1 card beyond 8 of 8) and terminating cards come with
// their numbers. A node without a card that the pod accepts only refuses (hasNoSuchCard). All other reasons
// are refusedOtherwise. Two nodes refuse for the reason. A third node lacks free cards, which must not change
// what is read.
func TestReasonsOfNodesAreReadAgain(t *testing.T) {
	hasNoSuchCard := waiting.StatedReason{RefusedByNodes: true}
	exhausted := waiting.StatedReason{RefusedByNodes: true, NodeRefusals: []workload.Refusal{{
		Code: workload.CodeCardQuota, Queue: "q", Cards: "A", Requested: 1, Total: 9, Limit: 8,
	}}}
	terminating := waiting.StatedReason{RefusedByNodes: true, NodeRefusals: []workload.Refusal{{
		Code: workload.CodeTerminating, Queue: "q", Cards: "A", Total: 9, Limit: 8,
	}}}
	stopped := waiting.StatedReason{Refusal: &workload.Refusal{Code: workload.CodeHeldByStopPolicy, Queue: "q"}}

	want := map[int]waiting.StatedReason{
		jobNotFound:                 refusedOtherwise,
		podRefused:                  stopped,
		unnamedCard:                 hasNoSuchCard,
		cardNotAllowed:              hasNoSuchCard,
		quotaExceeded:               exhausted,
		quotaExceededForReclaim:     exhausted,
		quotaTerminating:            terminating,
		reclaimedByOthers:           refusedOtherwise,
		conflictsWithStuckPod:       refusedOtherwise,
		conflictNotPreemptable:      refusedOtherwise,
		cardsAreStuck:               refusedOtherwise,
		cardsAreStuckWithoutVictims: refusedOtherwise,
		cardNotDeserved:             refusedOtherwise,
		keptForPreemptors:           refusedOtherwise,
		quotaKeptForPreemptors:      refusedOtherwise,

		keptForPreemptorsWithoutVictims:    refusedOtherwise,
		cardsAwaitedByOthers:               refusedOtherwise,
		cardsAwaitedByOthersWithoutVictims: refusedOtherwise,
	}
	beyondQuota := &quota.InsufficientQuota{Queue: "q", Names: []card.Name{"A"}, Requested: 1, Total: 9, Limit: 8}
	exceeded := map[int]*quota.InsufficientQuota{
		quotaExceeded:           beyondQuota,
		quotaExceededForReclaim: beyondQuota,
		quotaTerminating:        {Kind: quota.Terminating, Queue: "q", Names: []card.Name{"A"}, Total: 9, Limit: 8},
	}
	texts := map[int]string{ // what some reasons say besides: a message, a resource, the cards that the pod accepts
		podRefused:     workload.RefusalForFault("q", quota.Fault{Kind: quota.IsHeld, Queue: "q"}).Message(),
		unnamedCard:    string(gpu),
		cardNotAllowed: "A|B",
	}

	lacksCards := &api.Status{Code: api.Unschedulable, Reason: api.WrapInsufficientResourceReason([]string{string(gpu)})}
	for reason := jobNotFound; reason <= cardsAwaitedByOthersWithoutVictims; reason++ {
		refused := fitErrorKey{reason: reason, text: texts[reason]}
		message := messageOfNodes(refused.newStatus(exceeded[reason]), refused.newStatus(exceeded[reason]), lacksCards)

		check.Equal(t, message, want[reason], waiting.ReadStatedReason("Unschedulable", message, gpu))
	}
}

// TestWordsOfVolcanoAreRead: package waiting reads why a pod waits from messages that Volcano writes itself. This
// version of Volcano is asked for them, so a new version with other words fails the test. The pod is the only one of
// gang g.
func TestWordsOfVolcanoAreRead(t *testing.T) {
	// newGang returns a gang with a waiting pod, and what Volcano did with the pod in the last session.
	newGang := func(status api.TaskStatus, node string) (*api.JobInfo, *api.TaskInfo) {
		task := api.NewTaskInfo(builder.Pod("lab", "p").PodGroup("g").Obj())
		task.Status = api.Pending
		task.LastTransaction = &api.TransactionContext{NodeName: node, Status: status}
		return api.NewJobInfo("lab/g", task), task
	}
	readOfPod := func(job *api.JobInfo, task *api.TaskInfo) waiting.StatedReason {
		reason, message, _ := job.TaskSchedulingReason(task.UID)
		return waiting.ReadStatedReason(reason, message, gpu)
	}
	readOfGang := func(job *api.JobInfo) waiting.StatedReason {
		return waiting.ReadStatedReason(v1beta1.NotEnoughResourcesReason, job.FitError(), gpu)
	}

	check.Equal(t, "Volcano chose node n, and waits for the pod's gang", waiting.StatedReason{Node: "n"}, readOfPod(newGang(api.Allocated, "n")))
	check.Equal(t, "the pod awaits cards that are released", waiting.StatedReason{AwaitsRelease: true}, readOfPod(newGang(api.Pipelined, "n")))

	job, task := newGang(api.Pending, "")
	check.Equal(t, "Volcano has not tried the pod", waiting.StatedReason{}, readOfGang(job))
	job.NodesFitErrors[task.UID] = api.NewFitErrors()
	job.NodesFitErrors[task.UID].SetNodeError("n", errors.New("a taint"))
	check.Equal(t, "a node refuses the pod for a taint", refusedOtherwise, readOfPod(job, task))

	refusedGang := refusedOtherwise
	refusedGang.RepeatsOther = true
	check.Equal(t, "the gang repeats the refusal of its pod", refusedGang, readOfGang(job))

	job.JobFitErrors = "Queue <q> does not exist"
	missingQueue := &workload.Refusal{Code: workload.CodeQueueNotFound, Queue: "q"}
	check.Equal(t, "this plugin refuses the gang", missingQueue, readOfGang(job).Refusal)
}
