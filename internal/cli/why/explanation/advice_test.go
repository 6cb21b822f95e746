package explanation

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAFreeCardIsAdvisedAsAnAlternative: the pods wait for quota of 2 H200 each. Node h800-0 has 6 H800 free, and the
// queue has quota for 4, so the pods could name H800 as an alternative. Each other row takes away one condition for
// that.
func TestAFreeCardIsAdvisedAsAnAlternative(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change      func(*Input)
		wantsAdvice bool
	}{
		"H800 is free on a node": {func(*Input) {}, true},
		"H800 is of another resource, which the pods do not request": {
			func(in *Input) { in.Inventory.Cards[1].Resources = []string{"huawei.com/Ascend910"} }, false,
		},
		"the queue has quota for 1 H800":  {func(in *Input) { in.Path[0].Status.Cards[1].Free = 1 }, false},
		"the parent has no quota of H800": {func(in *Input) { in.Path = append(in.Path, builder.CardQuota("top").Obj()) }, false},
		"two nodes have 1 H800 free each": {func(in *Input) {
			in.Nodes[2].Free = count(1)
			in.Nodes = append(in.Nodes, nodecards.Node{Name: "h800-1", Card: "NVIDIA-H800", Total: 8, Free: count(1), Ready: true})
		}, false},
		"the node with H800 has a taint": {func(in *Input) { in.NodeRefusals = map[string]simulation.NodeRefusal{"h800-0": {Text: "a taint"}} }, false},
		"the node has 1 H800 free":       {func(in *Input) { in.Nodes[2].Free = count(1) }, false},
		"the pods name H800 already":     {func(in *Input) { in.Request.Names = append(in.Request.Names, "NVIDIA-H800") }, false},
	}) {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
		tc.change(&in)

		const advice = "NVIDIA-H800 has 6 free, and the queue has quota for 4: add it as an alternative, volcano.sh/card.name: NVIDIA-H200|NVIDIA-H800."
		text := textOf(in)
		check.Equal(t, "advises the alternative", tc.wantsAdvice, strings.Contains(text, advice))
		check.Equal(t, "names an alternative", tc.wantsAdvice, strings.Contains(text, "alternative"))
	}
}

// TestRequestWithoutCardNameWaitsForCardsOfItsQueue: the waiting pods of job train name no card, so they may run on
// each of the five cards of the fleet. Their queue llm has quota for two of them: it has used 7 of 8 H200 and none of
// 4 H800. So the explanation names only these two. Its advice is about the one of which the queue lacks least. Some
// rows change the quota. Where the user may not read the quota or the pod template, the message of the scheduler
// names the card.
//
// A gate is a line of the explanation about one thing that a pod must pass, such as the quota of a queue. Gates list
// each card for which the pod waits.
func TestRequestWithoutCardNameWaitsForCardsOfItsQueue(t *testing.T) {
	const anyOfFive = "A-4090, B-4090, NVIDIA-H200 and 2 more"
	h800 := func(quota int64) []v1alpha1.CardStatus {
		return []v1alpha1.CardStatus{{Name: "NVIDIA-H800", Quota: quota, Free: quota}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		count  card.Count // that a pod requests
		change func(*Input)
		has    []string // texts of the explanation
		lacks  []string // texts that the explanation does not have
	}{
		"6 requested: 6 - 4 = 2 H800 lack, and 6 - 1 = 5 H200": {
			6, func(*Input) {},
			[]string{"CardQuota llm lacks 2 NVIDIA-H800 for the next pod", "7/8 NVIDIA-H200 used, 1 free; 0/4 NVIDIA-H800 used, 4 free"}, nil,
		},
		"6 requested, the user may not read the CardInventory: no gate names a card without quota": {
			6, func(in *Input) { in.Inventory = nil }, nil, []string{"A-4090", "B-4090", "Z-100"},
		},
		"3 requested, the queue has a quota of 2 H800 and of no other card": {
			3, func(in *Input) { in.Path[0].Status.Cards = h800(2) }, []string{"CardQuota llm lacks 1 NVIDIA-H800 for the next pod"}, nil,
		},
		"3 requested, the queue has no quota of any card": {
			3, func(in *Input) {
				in.Entries[0].Reason = v1alpha1.BlockedNoQuota
				in.Path[0].Status.Cards = nil
			},
			[]string{"CardQuota llm has quota for no card that the next pod may use: " + anyOfFive + ". Give it quota for one of them: kubectl edit cardq llm."}, nil,
		},
		"3 requested, the queue has no quota of any card, and the user may not change CardQuotas": {
			3, func(in *Input) {
				in.Entries[0].Reason = v1alpha1.BlockedNoQuota
				in.Path[0].Status.Cards = nil
				in.ChangesQuotas = false
			},
			[]string{"NVIDIA-H200 and 2 more. Ask the administrator for quota of one of them."}, nil,
		},
		"3 requested, the user may not read the quota: the message of the scheduler names H800": {
			3, func(in *Input) {
				in.Path = nil
				in.HidesQuota = true
				in.ChangesQuotas = false
				in.Entries[0].Message = "Queue <llm> has insufficient <NVIDIA-H800> quota: requested <3>, total would be <3>, but capability is <2>"
			},
			[]string{"of 8 healthy NVIDIA-H800"}, []string{"A-4090", "B-4090", "NVIDIA-H200", "Z-100"},
		},
		"4 requested by a job whose template is not readable: the message names H800, of which the queue has no quota": {
			4, func(in *Input) {
				in.Request.IsJob = true
				in.Path[0].Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Free: 8}}
				in.Entries[0].Reason = v1alpha1.BlockedNoQuota
				in.Entries[0].Message = "Queue <llm> has insufficient <NVIDIA-H800> quota: requested <4>, total would be <4>, but capability is <0>"
			},
			[]string{"CardQuota llm lacks 4 NVIDIA-H800 for the job", "no quota of NVIDIA-H800"}, nil,
		},
		"3 requested, the pod itself names all five cards, so also those without quota": {
			3, func(in *Input) { in.Request.IsAnyCard = false }, []string{"no quota of A-4090"}, nil,
		},
	}) {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
		in.Request = Request{Names: []card.Name{"A-4090", "B-4090", "NVIDIA-H200", "NVIDIA-H800", "Z-100"}, Count: tc.count, IsAnyCard: true}
		in.Entries[0].Card = "nvidia.com/gpu"
		in.Entries[0].Count = int64(tc.count)
		freeWithoutQuota := v1alpha1.InventoryCard{Name: "A-4090", Total: 8, Healthy: 8} // an explanation of free cards must not name it
		in.Inventory.Cards = append(in.Inventory.Cards, freeWithoutQuota)
		tc.change(&in)
		check.Text(t, "explanation", textOf(in)).Has(tc.has...).Lacks(tc.lacks...)
	}
}

// TestAnUnknownCardWithoutNameHasNoNameToCorrect: the pod requests nvidia.com/gpu and names no card, and no node has
// labels that name one. The advice is about these labels.
func TestAnUnknownCardWithoutNameHasNoNameToCorrect(t *testing.T) {
	in := newWaitingJob(v1alpha1.BlockedUnknownCard, "Pod requests nvidia.com/gpu, but no node says which card that is")
	in.Request.Names = nil
	in.Request.IsAnyCard = true
	check.Text(t, "advice", textOf(in)).
		Has("need the labels <vendor>/<type>.product and .memory").
		Lacks("Correct the name")
}

// readers change an input to what another user sees.
var readers = map[string]func(*Input){
	"administrator": func(*Input) {},
	"reader of all": func(in *Input) {
		in.ChangesQuotas = false
		in.ChangesNodes = false
	},
	"reader of LocalCardQuotas": func(in *Input) {
		in.ChangesQuotas = false
		in.Nodes = nil
		in.Path[0].Namespace = "lab"
	},
	"reader without quotas and nodes": func(in *Input) {
		in.ChangesQuotas = false
		in.Nodes = nil
		in.Path = nil
		in.HidesQuota = true
	},
	"reader of a plain Queue": func(in *Input) {
		in.ChangesQuotas = false
		in.Path = nil
		in.HasQueue = ptr.To(true)
		in.QueueState = "Open"
	},
}

// TestAdviceNamesObjectsAndWhatItsReaderMay: users copy commands from the advice. For each reason and each of readers
// there is some advice. A kubectl command names its object: without a name it would print or edit all of a kind.
// Users who may not change quotas read no command for it. Those who may not read nodes, or CardQuota llm, read no
// command about these.
func TestAdviceNamesObjectsAndWhatItsReaderMay(t *testing.T) {
	named := regexp.MustCompile(`kubectl (-n \S+ )?(edit|describe) [a-z.]+ [a-z]`)
	for _, reason := range blockedReasons(t) {
		for name, change := range readers {
			in := newWaitingJob(reason, "")
			in.PodGroup = "train-group"
			change(&in)
			mayReadQuota := len(in.Path) > 0 && in.Path[0].Namespace == "" // a LocalCardQuota has a namespace

			check.That(t, len(Explain(in).Advice) > 0, "%s, %s: no advice", name, reason)
			for _, advice := range Explain(in).Advice {
				isCommand := strings.Contains(advice, "kubectl ") && !strings.Contains(advice, "kubectl cardquota ")
				check.That(t, !isCommand || named.MatchString(advice), "%s: a command without a name: %s", reason, advice)

				text := check.Text(t, name+", "+string(reason), advice)
				if !in.ChangesQuotas {
					text.Lacks("kubectl edit", "Raise spec", "cardquota import")
				}
				if in.Nodes == nil {
					text.Lacks("--nodes")
				}
				if !mayReadQuota {
					text.Lacks("cardq llm")
				}
			}
		}
	}
}

// TestAdviceToAUserWhoMayNotChangeIsToAskTheAdministrator: two pods of job train wait for 2 H200 each in queue llm.
// The user may not change the quota of the queue or the nodes. So the advice says what to ask the administrator for.
func TestAdviceToAUserWhoMayNotChangeIsToAskTheAdministrator(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		reader string
		reason v1alpha1.BlockedReason
		want   string
	}{
		"1 card of the quota is left, of 2 for one pod and 4 for both": {"reader of all", v1alpha1.BlockedQuotaExhausted,
			"CardQuota llm lacks 1 NVIDIA-H200 for the next pod, 3 for all that wait: ask the administrator for them."},
		"CPU":                          {"reader of all", v1alpha1.BlockedCPUQuotaExhausted, "Request less CPU, or ask the administrator for more CPU of queue llm."},
		"memory":                       {"reader of all", v1alpha1.BlockedMemoryQuotaExhausted, "Request less memory, or ask the administrator for more memory of queue llm."},
		"no CardQuota":                 {"reader of a plain Queue", v1alpha1.BlockedNoQuota, "Queue llm has no CardQuota: ask the administrator for one."},
		"free cards are on many nodes": {"reader of LocalCardQuotas", v1alpha1.BlockedFragmented, "ask the administrator to free one node"},
	}) {
		in := newWaitingJob(tc.reason, "")
		readers[tc.reader](&in)

		check.Contains(t, "explanation", textOf(in), tc.want)
	}
}

// TestOnlyAUserWhoMayChangeNodesIsAdvisedToUncordon: node h200-3 has 6 H200 free and is cordoned. The advice has
// kubectl uncordon only for a user who may change nodes.
func TestOnlyAUserWhoMayChangeNodesIsAdvisedToUncordon(t *testing.T) {
	for mayChangeNodes, want := range map[bool]string{
		true:  "kubectl uncordon h200-3 when its maintenance is over.",
		false: "ask the administrator when its maintenance is over.",
	} {
		in := cases["NodesUnsuitable-obstacles"]()
		in.ChangesNodes = mayChangeNodes

		text := textOf(in)
		check.Contains(t, "explanation", text, "Node h200-3 has 6 NVIDIA-H200 free and is cordoned: "+want)
		check.Equal(t, "has the command", mayChangeNodes, strings.Contains(text, "kubectl uncordon"))
	}
}

// TestTheOrderGateCountsWhatComesFirst: an explanation has a line, called gate, about the order in the queue. Volcano
// tries the jobs of a queue by priority, then those whose minimum does not run yet, then by age. The gate counts the
// workloads that come before job train, which has priority 20000 by its class pc-low. Its answer is Yes, because the
// order refuses no pod.
func TestTheOrderGateCountsWhatComesFirst(t *testing.T) {
	for want, ahead := range map[string]Ahead{
		"nothing in the queue comes first":                                                               {},
		"1 workload of higher priority comes first":                                                      {Higher: 1},
		"2 workloads of higher priority come first":                                                      {Higher: 2},
		"1 workload older than it comes first":                                                           {Older: 1},
		"3 workloads of higher priority and 12 older than it come first":                                 {Higher: 3, Older: 12},
		"1 workload whose minimum does not run yet comes first":                                          {Incomplete: 1},
		"1 workload of higher priority, 2 whose minimum does not run yet and 3 older than it come first": {Higher: 1, Incomplete: 2, Older: 3},
	} {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
		in.Ahead = &ahead

		check.Equal(t, "gate", Gate{"order in the queue", Yes, "priority 20000 (pc-low), " + want}, gateCheck{&in}.orderGate())
	}
}

// TestTheOrderGateIsByTimeWithoutPriorities: an explanation has a line, called gate, about the order in the queue. A
// user who may not read PriorityClasses cannot know the order of Volcano. Then the gate says how many workloads wait
// longer than job train: at least, because the status may not list all. It says no number if that is unknown too
// (-1). Job train has priority 20000 by its class pc-low.
func TestTheOrderGateIsByTimeWithoutPriorities(t *testing.T) {
	for waitLonger, want := range map[int]Gate{
		-1: {"order in the queue", Unknown, "priority 20000 (pc-low)"},
		0:  {"order in the queue", Yes, "priority 20000 (pc-low), nothing in the queue waits longer"},
		10: {"order in the queue", Yes, "priority 20000 (pc-low), at least 10 other workloads wait longer"},
	} {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
		in.WaitLonger = waitLonger

		check.Equal(t, "gate", want, gateCheck{&in}.orderGate())
	}
}
