package explanation

import (
	"regexp"
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/inventoryview"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func TestAlternativesMustBeOfTheSameResource(t *testing.T) {
	in := waiting(v1alpha1.BlockedQuotaExhausted, "")
	check.Contains(t, "advice", strings.Join(Explain(in).Advice, "\n"), "NVIDIA-H800 has 6 free, and the queue has quota for 4: add it as an alternative, volcano.sh/card.name: NVIDIA-H200|NVIDIA-H800.")

	for name, change := range map[string]func(*Input){
		"another resource":       func(in *Input) { in.Inventory.Cards[1].Resources = []string{"huawei.com/Ascend910"} },
		"no quota":               func(in *Input) { in.Path[0].Status.Cards[1].Free = 1 },
		"no quota of the parent": func(in *Input) { in.Path = append(in.Path, builder.CardQuota("top").Obj()) },
		"not on one node": func(in *Input) {
			in.Nodes[2].Free = count(1)
			in.Nodes = append(in.Nodes, inventoryview.Node{Name: "h800-1", Card: "NVIDIA-H800", Total: 8, Free: count(1), Ready: true})
		},
		"the node refuses it": func(in *Input) { in.Obstacles = map[string]Obstacle{"h800-0": {Detail: "is tainted"}} },
		"none is free":        func(in *Input) { in.Nodes[2].Free = count(1) },
		"it is one already":   func(in *Input) { in.Request.Names = append(in.Request.Names, "NVIDIA-H800") },
	} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "")
		change(&in)
		check.That(t, !strings.Contains(strings.Join(Explain(in).Advice, "\n"), "alternative"), "%s: %v", name, Explain(in).Advice)
	}
}

// TestRequestWithoutCardName: a pod that names no card waits only for those that its queue has quota for,
// however many the fleet has. The advice is about the one that lacks least.
func TestRequestWithoutCardName(t *testing.T) {
	fleet := []card.Name{"A-4090", "B-4090", "NVIDIA-H200", "NVIDIA-H800", "Z-100"}
	request := func(count card.Count) Input {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "")
		in.Request = Request{Names: fleet, Count: count, IsAnyCard: true}
		in.Entries[0].Card = "nvidia.com/gpu"
		in.Entries[0].Count = int64(count)
		in.Inventory.Cards = append(in.Inventory.Cards, v1alpha1.InventoryCard{Name: "A-4090", Total: 8, Healthy: 8})
		return in
	}

	text := func(in Input) string {
		d := Explain(in)
		words := d.Summary + "\n" + strings.Join(d.Advice, "\n")
		for _, gate := range d.Gates {
			words += "\n" + gate.Name + ": " + gate.Detail
		}
		return words
	}

	of := text(request(6)) // 1 of 8 H200 and 4 of 4 H800 are free
	check.Contains(t, "advice", of, "CardQuota llm lacks 2 NVIDIA-H800 for the next pod")
	check.Text(t, "gates", of).Has("7/8 NVIDIA-H200 used, 1 free; 0/4 NVIDIA-H800 used, 4 free").Lacks("A-4090", "B-4090", "Z-100")

	in := request(3)
	in.Path[0].Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H800", Quota: 2, Free: 2}}
	check.Contains(t, "advice with quota of one card", text(in), "CardQuota llm lacks 1 NVIDIA-H800 for the next pod")

	none := request(3)
	none.Entries[0].Reason = v1alpha1.BlockedNoQuota
	none.Path[0].Status.Cards = nil
	check.Contains(t, "advice without any quota", text(none),
		"CardQuota llm has quota for no card that the next pod may use: A-4090, B-4090, NVIDIA-H200 and 2 more. Give it quota for one of them: kubectl edit cardq llm.")

	none.ChangesQuotas = false
	check.Contains(t, "advice to a tenant", text(none), "NVIDIA-H200 and 2 more. Ask the administrator for quota of one of them.")

	hidden := request(3)
	hidden.Path = nil
	hidden.HidesQuota = true
	hidden.ChangesQuotas = false
	hidden.Entries[0].Message = "Queue <llm> has insufficient <NVIDIA-H800> quota: requested <3>, total would be <3>, but capability is <2>"

	ofHidden := text(hidden)
	check.Text(t, "text", ofHidden).Lacks("A-4090", "B-4090", "NVIDIA-H200", "Z-100")
	check.Contains(t, "gates of a hidden quota", ofHidden, "of 8 healthy NVIDIA-H800")

	unreadable := request(4) // the pod template of a job names a card that the queue lacks
	unreadable.Request.IsJob = true
	unreadable.Path[0].Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Free: 8}}
	unreadable.Entries[0].Reason = v1alpha1.BlockedNoQuota
	unreadable.Entries[0].Message = "Queue <llm> has insufficient <NVIDIA-H800> quota: requested <4>, total would be <4>, but capability is <0>"
	check.Contains(t, "card of a pod template", text(unreadable), "CardQuota llm lacks 4 NVIDIA-H800 for the job", "no quota of NVIDIA-H800")

	named := request(3)
	named.Request.IsAnyCard = false
	check.Contains(t, "gates of a request that names all", text(named), "no quota of A-4090")
}

// TestAnUnknownCardWithoutName: there is no name to correct.
func TestAnUnknownCardWithoutName(t *testing.T) {
	in := waiting(v1alpha1.BlockedUnknownCard, "Pod requests nvidia.com/gpu, but no node says which card that is")
	in.Request.Names = nil
	in.Request.IsAnyCard = true
	check.Text(t, "advice", strings.Join(Explain(in).Advice, "\n")).
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
	"reader without any": func(in *Input) {
		in.ChangesQuotas = false
		in.Nodes = nil
		in.Path = nil
		in.HidesQuota = true
	},
	"reader of a plain Queue": func(in *Input) {
		exists := true
		in.ChangesQuotas = false
		in.Path = nil
		in.HasQueue = &exists
		in.QueueState = "Open"
	},
}

// TestAdviceNamesObjectsAndWhatItsReaderMay: kubectl without a name would print all objects of a kind,
// and a user gets no command that the user may not run.
func TestAdviceNamesObjectsAndWhatItsReaderMay(t *testing.T) {
	named := regexp.MustCompile(`kubectl (-n \S+ )?(edit|describe) [a-z.]+ [a-z]`)
	for _, reason := range blockedReasons(t) {
		for name, change := range readers {
			in := waiting(reason, "")
			in.PodGroup = "train-group"
			change(&in)
			check.That(t, len(Explain(in).Advice) > 0, "%s, %s: no advice", name, reason)
			for _, advice := range Explain(in).Advice {
				isCommand := strings.Contains(advice, "kubectl ") && !strings.Contains(advice, "kubectl cardquota ")
				check.That(t, !isCommand || named.MatchString(advice), "%s: %s", reason, advice)
				for _, words := range []string{"kubectl edit", "Raise spec", "cardquota import"} {
					check.That(t, in.ChangesQuotas || !strings.Contains(advice, words), "%s, %s: %s", name, reason, advice)
				}
				check.That(t, in.Nodes != nil || !strings.Contains(advice, "--nodes"), "%s, %s: %s", name, reason, advice)
				check.That(t, (len(in.Path) > 0 && in.Path[0].Namespace == "") || !strings.Contains(advice, "cardq llm"), "%s, %s: %s", name, reason, advice)
			}
		}
	}

	for reason, want := range map[v1alpha1.BlockedReason]string{
		v1alpha1.BlockedQuotaExhausted:       "CardQuota llm lacks 1 NVIDIA-H200 for the next pod, 3 for all that wait: ask the administrator for them.",
		v1alpha1.BlockedCPUQuotaExhausted:    "Request less CPU, or ask the administrator for more CPU of queue llm.",
		v1alpha1.BlockedMemoryQuotaExhausted: "Request less memory, or ask the administrator for more memory of queue llm.",
	} {
		in := waiting(reason, "")
		readers["reader of all"](&in)
		check.Contains(t, "advice", strings.Join(Explain(in).Advice, "\n"), want)
	}

	in := waiting(v1alpha1.BlockedNoQuota, "")
	readers["reader of a plain Queue"](&in)
	check.Contains(t, "advice", strings.Join(Explain(in).Advice, "\n"), "Queue llm has no CardQuota: ask the administrator for one.")

	in = waiting(v1alpha1.BlockedFragmented, "")
	readers["reader of LocalCardQuotas"](&in)
	check.Contains(t, "advice", strings.Join(Explain(in).Advice, "\n"), "ask the administrator to free one node")
}

// TestACordonIsOnlyLiftedByWhoMay: kubectl uncordon takes the right to change nodes.
func TestACordonIsOnlyLiftedByWhoMay(t *testing.T) {
	for may, want := range map[bool]string{true: "kubectl uncordon h200-3 when its maintenance is over.", false: "ask the administrator when its maintenance is over."} {
		in := cases["NodesUnsuitable-obstacles"]()
		in.ChangesNodes = may
		advice := strings.Join(Explain(in).Advice, "\n")
		check.Contains(t, "advice", advice, "Node h200-3 has 6 NVIDIA-H200 free and is cordoned: "+want)
		check.Equal(t, "a command", may, strings.Contains(advice, "kubectl uncordon"))
	}
}

func TestTheOrderInTheQueue(t *testing.T) {
	for want, ahead := range map[string]Ahead{
		"nothing in the queue comes first":                                                               {},
		"1 workload of higher priority comes first":                                                      {Higher: 1},
		"2 workloads of higher priority come first":                                                      {Higher: 2},
		"1 workload older than it comes first":                                                           {Older: 1},
		"3 workloads of higher priority and 12 older than it come first":                                 {Higher: 3, Older: 12},
		"1 workload whose minimum does not run yet comes first":                                          {Incomplete: 1},
		"1 workload of higher priority, 2 whose minimum does not run yet and 3 older than it come first": {1, 2, 3},
	} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "")
		in.Ahead = &ahead
		check.Equal(t, "gate", Gate{"order in the queue", Yes, "priority 20000 (pc-low), " + want}, in.orderGate())
	}

	for longer, want := range map[int]Gate{
		-1: {"order in the queue", Unknown, "priority 20000 (pc-low)"},
		0:  {"order in the queue", Yes, "priority 20000 (pc-low), nothing in the queue waits longer"},
		10: {"order in the queue", Yes, "priority 20000 (pc-low), at least 10 other workloads wait longer"},
	} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "")
		in.WaitLonger = longer
		check.Equal(t, "gate", want, in.orderGate())
	}
}
