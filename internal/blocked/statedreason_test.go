package blocked

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
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

func refused(reason v1alpha1.BlockedReason, cards ...card.Name) *workload.StatedRefusal {
	return &workload.StatedRefusal{Reason: reason, Queue: "q", Cards: cards}
}

// TestStatements: the messages are those of Volcano 1.14 and of our scheduler.
func TestStatements(t *testing.T) {
	quotaOfH200 := refused("QuotaExhausted", h200)
	quotaOfH200.Requested = 2
	quotaOfH200.Total = 9
	quotaOfH200.Limit = 8

	onNodes := func(refusals ...*workload.StatedRefusal) StatedReason {
		s := StatedReason{RefusedByNodes: true}
		for _, r := range refusals {
			s.NodeRefusals = append(s.NodeRefusals, *r)
		}
		return s
	}

	otherwise := StatedReason{RefusedByNodes: true, RefusedOtherwise: true}
	for t, tc := range check.Cases(t, map[string]struct {
		reason, message string
		want            StatedReason
	}{
		"nothing":                        {"", "", StatedReason{}},
		"a refusal of ours":              {"Unschedulable", "Queue <q> " + exhausted, StatedReason{Refusal: quotaOfH200}},
		"of a PodGroup":                  {"InsufficientScalarQuota", "Queue <q> " + exhausted + " (volcano.sh/card.request requests 8 cards in all, the job's minimum is 2)", StatedReason{Refusal: quotaOfH200}},
		"of a gang":                      {"NotEnoughResources", "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is: Queue <q> " + exhausted, StatedReason{Refusal: quotaOfH200}},
		"of another pod":                 {"NotEnoughResources", "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is train-0: Queue <q> " + noCPU, StatedReason{Refusal: refused("CPUQuotaExhausted"), RepeatsOther: true}},
		"of another's nodes":             {"", "pod group is not ready, 2 Pending, 2 minAvailable. Origin reason is train-0: 0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.", StatedReason{RefusedByNodes: true, RepeatsOther: true}},
		"a gang that was not tried":      {"NotEnoughResources", "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable", StatedReason{}},
		"a pod of a role that was tried": {"Unschedulable", "Task train-1 with role spec worker has already predicated failed, skip", StatedReason{}},
		"a place in an incomplete gang":  {"Schedulable", "Pod lab/train-0 can possibly be assigned to h200-0, once minAvailable is satisfied", StatedReason{Node: "h200-0"}},
		"a place that is not free yet":   {"Unschedulable", "Pod lab/train-0 can possibly be assigned to h200-0, once resource is released and minAvailable is satisfied", StatedReason{AwaitsRelease: true}},
		"too few pods":                   {"NotEnoughTasks", "Not enough valid tasks for gang-scheduling, valid: 1, min: 2", StatedReason{LacksPods: true}},
		"too few pods of a task":         {"NotEnoughPodsOfTask", "Not enough valid pods of each task for gang-scheduling", StatedReason{LacksPods: true}},
		"a gang of too few pods":         {"Unschedulable", "pod group is not ready, 1 Pending, 1 Running, 3 minAvailable; Pending: 1 Unschedulable", StatedReason{LacksPods: true}},
		"a gang of failed pods":          {"Unschedulable", "pod group is not ready, 1 Failed, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable", StatedReason{LacksPods: true}},
		"a gang of enough pods":          {"Unschedulable", "pod group is not ready, 1 Pending, 1 Running, 2 minAvailable; Pending: 1 Unschedulable", StatedReason{}},
		"a missing claim":                {"Unschedulable", "0/2 nodes are unavailable: 2 plugin VolumeBinding pre-predicates failed persistentvolumeclaim \"gone\" not found.", StatedReason{LacksObject: true}},
		"all nodes, without words":       {"Unschedulable", "all nodes are unavailable", StatedReason{}},
		"no nodes":                       {"Unschedulable", "0/0 nodes are unavailable", StatedReason{}},
		"cards":                          {"Unschedulable", "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) have no named card for nvidia.com/gpu, 1 node(s) have another card than <NVIDIA-H200|NVIDIA-H800>.", onNodes()},
		"in a HyperNode":                 {"Unschedulable", "In hyperNode s0: 0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.", onNodes()},
		"another resource":               {"Unschedulable", "0/2 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 Insufficient rdma/hca.", otherwise},
		"CPU":                            {"Unschedulable", "0/1 nodes are unavailable: 1 Insufficient cpu.", otherwise},
		"a cordon":                       {"Unschedulable", "0/1 nodes are unavailable: 1 node(s) were unschedulable.", otherwise},
		"a taint":                        {"Unschedulable", "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: b}.", otherwise},
		"quota of one card":              {"Unschedulable", "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 queue <q> " + exhausted + ".", onNodes(quotaOfH200)},
		"quota of one card, and a taint": {"Unschedulable", "0/3 nodes are unavailable: 1 node(s) had untolerated taint {a: b}, 2 queue <q> " + exhausted + ".",
			StatedReason{RefusedByNodes: true, RefusedOtherwise: true, NodeRefusals: []workload.StatedRefusal{*quotaOfH200}}},
		"quota whatever the card":  {"Unschedulable", "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 queue <q> " + noCPU + ".", StatedReason{Refusal: refused("CPUQuotaExhausted")}},
		"a closed queue, by node":  {"Unschedulable", "0/3 nodes are unavailable: 3 Queue <q> is Closed, not Open: nothing new starts in it.", StatedReason{Refusal: refused("QueueStopped")}},
		"words of another program": {"Unschedulable", "full", StatedReason{}},
	}) {
		check.Equal(t, "statement", tc.want, ReadStatedReason(tc.reason, tc.message, gpu))
	}

	check.Equal(t, "without cards", otherwise, ReadStatedReason("", "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.", ""))
}

// TestMessagesThatRepeatOthersComeLast: what is stated about a pod itself says most.
func TestMessagesThatRepeatOthersComeLast(t *testing.T) {
	own := "too few <NVIDIA-H200> are free"
	other := "all nodes are unavailable"
	origin := "pod group is not ready, 2 Pending, 2 minAvailable. Origin reason is j-2: " + own
	same := SameAsText(own, "j-2")
	got := []string{same, origin, own, other}
	slices.SortFunc(got, CompareMessages)
	check.Equal(t, "order", []string{other, own, origin, same}, got)
}

// TestAnyTextIsRead: a tenant writes what it likes into the status of a PodGroup.
func TestAnyTextIsRead(t *testing.T) {
	words := rapid.SampledFrom([]string{"Origin reason is", ": ", ", ", "1 ", "12", "0/3 nodes are unavailable: ", "Queue <q> " + exhausted, "Pod a can possibly be assigned to ", "b, once minAvailable is satisfied", "é", "."})
	seed.Check(t, func(t *rapid.T) {
		text := ""
		for range rapid.IntRange(0, 8).Draw(t, "words") {
			text += rapid.OneOf(words, rapid.String()).Draw(t, "word")
		}
		s := ReadStatedReason("", text, gpu)
		check.Must(t, s.Refusal == nil || s.Refusal.Reason != "", "%q is refused for nothing", text)
		check.Must(t, s.RefusedByNodes || (len(s.NodeRefusals) == 0 && !s.RefusedOtherwise), "%q: nodes refuse that were not tried", text)
		ReasonFor(&s, &Request{Names: []card.Name{h200}, Count: 1}, func() *Fleet { return NewFleet(card.NewInventory(nil), nil, nil) })
	})
}
