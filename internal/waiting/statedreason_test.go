package waiting

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

const (
	gpu  = "nvidia.com/gpu"
	h200 = card.Name("NVIDIA-H200")
	h800 = card.Name("NVIDIA-H800")

	exhausted = "has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <8>"
	noCPU     = "has insufficient CPU quota: requested <2000m>, total would be <9000m>, but capability is <8000m>"
)

// refusalFor returns a refusal of queue q, or of a pod, that means a reason to a workload.
func refusalFor(reason v1alpha1.BlockedReason, cards ...card.Name) *workload.Refusal {
	refusal := map[v1alpha1.BlockedReason]workload.Refusal{
		"QuotaExhausted":         {Code: workload.CodeCardQuota, Limit: 8},
		"AncestorQuotaExhausted": {Code: workload.CodeCardQuota, Limit: 8, Requester: "leaf"},
		"NoQuota":                {Code: workload.CodeCardQuota},
		"CardsTerminating":       {Code: workload.CodeTerminating},
		"CPUQuotaExhausted":      {Code: workload.CodeCPUQuota, Resource: quota.CPU, Requested: 2000, Total: 9000, Limit: 8000},
		"QueueStopped":           {Code: workload.CodeQueueNotOpen, Object: "Closed"},
		"UnknownCard":            {Code: workload.CodeUnnamedCards},
	}[reason]

	refusal.Queue = "q"
	refusal.Cards = card.Join(cards, "|")
	if refusal.Blocked() != reason {
		panic("no refusal means " + reason)
	}

	return &refusal
}

// TestReasonsThatTheSchedulerStatesAreRead: the scheduler writes why a pod or PodGroup waits into a
// condition, as a text for people. The operator reads the text to count waiting pods by reason. The messages
// are those of Volcano 1.14 and of the scheduler of this project, which adds the refusals "Queue <q> …". The
// pod requests nvidia.com/gpu. Constant exhausted says that it requests 2 H200, which with all others would
// be 9 of a quota of 8. noCPU says the same of CPU.
//
// A message about nodes counts them by reason. Reasons about cards and quota are kept apart from all others,
// such as taints, against which more cards would not help. "Origin reason is NAME: …" repeats the reason of
// another pod.
func TestReasonsThatTheSchedulerStatesAreRead(t *testing.T) {
	quotaOfH200 := refusalFor("QuotaExhausted", h200)
	quotaOfH200.Requested = 2
	quotaOfH200.Total = 9
	quotaOfH200.Limit = 8
	ofTotal := *quotaOfH200
	ofTotal.AllCards = 8
	ofTotal.MinimumCards = 2

	lacksPods := StatedReason{LacksPods: true}

	for t, tc := range check.Cases(t, map[string]struct {
		reason, message string
		want            StatedReason
	}{
		"no condition": {},
		"a pod lacks quota of a card": {
			reason: "Unschedulable", message: "Queue <q> " + exhausted, want: StatedReason{Refusal: quotaOfH200},
		},
		"a PodGroup lacks quota of a card": {
			reason:  "InsufficientScalarQuota",
			message: "Queue <q> " + exhausted + " (volcano.sh/card.request requests 8 cards in all, the job's minimum is 2)",
			want:    StatedReason{Refusal: &ofTotal},
		},
		"a gang lacks quota of a card": {
			reason: "NotEnoughResources",
			message: "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; " +
				"Pending: 2 Unschedulable. Origin reason is: Queue <q> " + exhausted,
			want: StatedReason{Refusal: quotaOfH200},
		},
		"another pod of the gang lacks quota of CPU": {
			reason: "NotEnoughResources",
			message: "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. " +
				"Origin reason is train-0: Queue <q> " + noCPU,
			want: StatedReason{Refusal: refusalFor("CPUQuotaExhausted"), RepeatsOther: true},
		},
		"no node has the cards of another pod of the gang": {
			message: "pod group is not ready, 2 Pending, 2 minAvailable. " +
				"Origin reason is train-0: 0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.",
			want: StatedReason{RefusedByNodes: true, RepeatsOther: true},
		},
		"a gang was not tried: nothing is stated": {
			reason:  "NotEnoughResources",
			message: "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable",
		},
		"a pod was not tried, after another of its role: nothing is stated": {
			reason: "Unschedulable", message: "Task train-1 with role spec worker has already predicated failed, skip",
		},
		"a pod has a node once its gang is complete": {
			reason:  "Schedulable",
			message: "Pod lab/train-0 can possibly be assigned to h200-0, once minAvailable is satisfied",
			want:    StatedReason{Node: "h200-0"},
		},
		"a pod has a node once terminating pods are gone": {
			reason:  "Unschedulable",
			message: "Pod lab/train-0 can possibly be assigned to h200-0, once resource is released and minAvailable is satisfied",
			want:    StatedReason{AwaitsRelease: true},
		},
		"the gang has too few pods, by the reason": {
			reason: "NotEnoughTasks", message: "Not enough valid tasks for gang-scheduling, valid: 1, min: 2", want: lacksPods,
		},
		"a task of the gang has too few pods, by the reason": {
			reason: "NotEnoughPodsOfTask", message: "Not enough valid pods of each task for gang-scheduling", want: lacksPods,
		},
		"the gang has 2 pods of 3, by the counts": {
			reason:  "Unschedulable",
			message: "pod group is not ready, 1 Pending, 1 Running, 3 minAvailable; Pending: 1 Unschedulable",
			want:    lacksPods,
		},
		"the gang has 1 pod of 2, and a failed one that does not count": {
			reason:  "Unschedulable",
			message: "pod group is not ready, 1 Failed, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable",
			want:    lacksPods,
		},
		"the gang has 2 pods of 2: nothing is stated": {
			reason:  "Unschedulable",
			message: "pod group is not ready, 1 Pending, 1 Running, 2 minAvailable; Pending: 1 Unschedulable",
		},
		"the pod needs a PersistentVolumeClaim that does not exist": {
			reason:  "Unschedulable",
			message: `0/2 nodes are unavailable: 2 plugin VolumeBinding pre-predicates failed persistentvolumeclaim "gone" not found.`,
			want:    StatedReason{LacksObject: true},
		},
		"all nodes refuse, without a reason: nothing is stated": {reason: "Unschedulable", message: "all nodes are unavailable"},
		"there is no node: nothing is stated":                   {reason: "Unschedulable", message: "0/0 nodes are unavailable"},
		"one node lacks cards, one has unnamed cards, one has other cards": {
			reason: "Unschedulable",
			message: "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) have no named card for nvidia.com/gpu, " +
				"1 node(s) have another card than <NVIDIA-H200|NVIDIA-H800>.",
			want: lacksCards,
		},
		"the only node of a HyperNode lacks cards": {
			reason: "Unschedulable", message: "In hyperNode s0: 0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.", want: lacksCards,
		},
		"one node lacks cards, one another resource": {
			reason:  "Unschedulable",
			message: "0/2 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 Insufficient rdma/hca.",
			want:    refusedOtherwise,
		},
		"the node lacks CPU": {
			reason: "Unschedulable", message: "0/1 nodes are unavailable: 1 Insufficient cpu.", want: refusedOtherwise,
		},
		"the node is cordoned": {
			reason: "Unschedulable", message: "0/1 nodes are unavailable: 1 node(s) were unschedulable.", want: refusedOtherwise,
		},
		"one node lacks cards, two have a taint": {
			reason:  "Unschedulable",
			message: "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: b}.",
			want:    refusedOtherwise,
		},
		"one node lacks cards, and the queue lacks quota for the card of two": {
			reason:  "Unschedulable",
			message: "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 queue <q> " + exhausted + ".",
			want:    StatedReason{RefusedByNodes: true, NodeRefusals: []workload.Refusal{*quotaOfH200}},
		},
		"one node has a taint, and the queue lacks quota for the card of two": {
			reason:  "Unschedulable",
			message: "0/3 nodes are unavailable: 1 node(s) had untolerated taint {a: b}, 2 queue <q> " + exhausted + ".",
			want:    StatedReason{RefusedByNodes: true, RefusedOtherwise: true, NodeRefusals: []workload.Refusal{*quotaOfH200}},
		},
		"the queue lacks quota of CPU, which is true on every node": {
			reason:  "Unschedulable",
			message: "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 queue <q> " + noCPU + ".",
			want:    StatedReason{Refusal: refusalFor("CPUQuotaExhausted")},
		},
		"the queue is closed, which is true on every node": {
			reason:  "Unschedulable",
			message: "0/3 nodes are unavailable: 3 Queue <q> is Closed, not Open: nothing new starts in it.",
			want:    StatedReason{Refusal: refusalFor("QueueStopped")},
		},
		"another scheduler states something else: nothing is read": {reason: "Unschedulable", message: "full"},
	}) {
		check.Equal(t, "stated reason", tc.want, ReadStatedReason(tc.reason, tc.message, gpu))
	}

	insufficient := ReadStatedReason("", "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.", "")
	check.Equal(t, "stated reason of a pod without cards, for which gpu is another resource", refusedOtherwise, insufficient)
}

// TestMessagesThatRepeatOthersComeLast: a status shows the first of the messages of pods that wait for one reason.
// What is stated about a pod itself is more precise than what the scheduler repeats of another pod, so the own
// messages come first. Those of one kind are in alphabetical order.
func TestMessagesThatRepeatOthersComeLast(t *testing.T) {
	own := "too few <NVIDIA-H200> are free"
	general := "all nodes are unavailable"
	ofOtherPod := "pod group is not ready, 2 Pending, 2 minAvailable. Origin reason is j-2: " + own
	asForOtherPod := SameAsText(own, "j-2") // "too few …, as for pod j-2 of the same role"

	messages := []string{asForOtherPod, ofOtherPod, own, general}
	slices.SortFunc(messages, compareMessages)
	check.Equal(t, "messages", []string{general, own, ofOtherPod, asForOtherPod}, messages)
}

// TestAnyConditionOfATenantIsRead: a tenant can write any text into the status of a PodGroup. Random texts, also with
// words of the scheduler, make neither ReadStatedReason nor ReasonFor panic. A refusal that is read has a reason, and
// nodes refuse only where the scheduler tried nodes.
func TestAnyConditionOfATenantIsRead(t *testing.T) {
	words := rapid.SampledFrom([]string{
		"Origin reason is", ": ", ", ", "1 ", "12", "0/3 nodes are unavailable: ", "Queue <q> " + exhausted,
		"Pod a can possibly be assigned to ", "b, once minAvailable is satisfied", "é", ".",
	})
	noNodes := func() *Fleet { return NewFleet(card.NewInventory(nil), nil, nil) }

	seed.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(words, rapid.String()), 0, 8).Draw(t, "words"), "")
		stated := ReadStatedReason("", text, gpu)
		check.Must(t, stated.Refusal == nil || stated.Refusal.Blocked() != "", "%q: a refusal without reason", text)
		check.Must(t, stated.RefusedByNodes || len(stated.NodeRefusals) == 0, "%q: no node was tried, and some lack quota", text)
		check.Must(t, stated.RefusedByNodes || !stated.RefusedOtherwise, "%q: no node was tried, and one refuses", text)
		ReasonFor(&stated, &Request{Names: []card.Name{h200}, Count: 1}, noNodes)
	})
}
