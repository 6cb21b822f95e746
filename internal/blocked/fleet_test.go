package blocked

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

// newNode returns a ready node of 8 cards.
func newNode(name string, model card.Name, change ...func(*card.NodeState)) card.NodeState {
	node := card.NodeState{Name: name, IsReady: true, Node: card.Node{Model: string(model), Cards: []card.NodeCard{{Name: model, Resource: gpu, Count: 8}}}}
	for _, c := range change {
		c(&node)
	}
	return node
}

func cordoned(n *card.NodeState) { n.IsCordoned = true }

func notReady(n *card.NodeState) { n.IsReady = false }

func newFleet(held map[NodeCard]card.Count, nodes ...card.NodeState) func() *Fleet {
	byName := map[string]card.Node{}
	for _, node := range nodes {
		byName[node.Name] = node.Node
	}
	return func() *Fleet { return NewFleet(card.NewInventory(byName), nodes, held) }
}

func TestReasons(t *testing.T) {
	free := func(counts ...card.Count) func() *Fleet {
		held := map[NodeCard]card.Count{}
		nodes := []card.NodeState{}
		for i, count := range counts {
			name := fmt.Sprint("h200-", i)
			held[NodeCard{name, h200}] = 8 - count
			nodes = append(nodes, newNode(name, h200))
		}
		return newFleet(held, nodes...)
	}

	either := []card.Name{h200, h800}
	pod := func(count card.Count, names ...card.Name) Request {
		return Request{Names: names, Named: names, Count: count}
	}

	refusedBy := func(reason v1alpha1.BlockedReason) StatedReason { return StatedReason{Refusal: refused(reason)} }
	full := StatedReason{RefusedByNodes: true}
	silent := StatedReason{}
	otherwise := StatedReason{RefusedByNodes: true, RefusedOtherwise: true}
	noQuotaOfH800 := StatedReason{RefusedByNodes: true, NodeRefusals: []workload.StatedRefusal{*refused("NoQuota", h800)}}

	noQuotaOfH200 := StatedReason{RefusedByNodes: true, NodeRefusals: []workload.StatedRefusal{*refused("AncestorQuotaExhausted", h200)}}
	for t, tc := range check.Cases(t, map[string]struct {
		statedReason StatedReason
		request      Request
		fleet        func() *Fleet
		want         v1alpha1.BlockedReason
	}{
		"the scheduler's refusal decides, whatever is free": {refusedBy("QuotaExhausted"), pod(1, h200), nil, "QuotaExhausted"},
		"no quota of a card":                           {refusedBy("NoQuota"), pod(1, h200), free(0), "NoQuota"},
		"no quota of a card that no node has":          {refusedBy("NoQuota"), pod(1, "NVIDIA-H2000"), free(0), "UnknownCard"},
		"no quota without cards":                       {refusedBy("NoQuota"), pod(0), nil, "NoQuota"},
		"a resource of no card":                        {refusedBy("UnknownCard"), Request{Named: []card.Name{"Ascend-910B"}, Count: 1}, free(8), "UnknownCard"},
		"a resource of another card":                   {refusedBy("UnknownCard"), Request{Named: []card.Name{h200}, Count: 1}, free(8), "WrongCombination"},
		"a refusal of a card of another request":       {StatedReason{Refusal: refused("QuotaExhausted", h800)}, pod(1, h200), nil, "GangIncomplete"},
		"a refusal of a card of other pods":            {StatedReason{Refusal: refused("QuotaExhausted", h800), RepeatsOther: true}, pod(0), nil, "GangIncomplete"},
		"a refusal of one of the cards":                {StatedReason{Refusal: refused("QuotaExhausted", h800)}, pod(1, either...), nil, "QuotaExhausted"},
		"a refusal of a card without quota left":       {StatedReason{Refusal: refused("QuotaExhausted", h800)}, Request{Names: []card.Name{h200}, Named: either, Count: 1}, nil, "QuotaExhausted"},
		"a place in an incomplete gang":                {StatedReason{Node: "h200-0"}, pod(1, h200), nil, "GangIncomplete"},
		"pods of the gang do not exist":                {StatedReason{LacksPods: true}, pod(1, h200), nil, "GangIncomplete"},
		"a place that is not free yet":                 {StatedReason{AwaitsRelease: true}, pod(1, h200), nil, "CardsTerminating"},
		"no cards, and nodes refuse":                   {otherwise, pod(0), nil, "NodesUnsuitable"},
		"no cards, and nothing is stated":              {silent, pod(0), nil, "Other"},
		"a card that no node has":                      {full, pod(1, "NVIDIA-H2000"), free(8), "UnknownCard"},
		"a card that no node has, not tried":           {silent, pod(1, "NVIDIA-H2000"), free(8), "UnknownCard"},
		"one of the cards that no node has":            {full, pod(1, "NVIDIA-H2000", h200), free(0), "NoFreeCard"},
		"a card of a node that is not ready":           {otherwise, pod(1, h200), newFleet(nil, newNode("a", h200, notReady)), "NoFreeCard"},
		"no card is free":                              {full, pod(1, h200), free(0, 0), "NoFreeCard"},
		"no card is free, and a node refuses":          {otherwise, pod(1, h200), free(0, 0), "NoFreeCard"},
		"no card is free, not tried":                   {silent, pod(1, h200), free(0, 0), "NoFreeCard"},
		"fewer cards are free":                         {full, pod(4, h200), free(1, 2), "NoFreeCard"},
		"as many are free, but not on one node":        {full, pod(4, h200), free(2, 2), "Fragmented"},
		"the same, and a node refuses":                 {otherwise, pod(4, h200), free(2, 3), "Fragmented"},
		"the same, not tried":                          {silent, pod(4, h200), free(2, 3), "Fragmented"},
		"free cards of two models add up to nothing":   {full, pod(4, either...), newFleet(map[NodeCard]card.Count{{"a", h200}: 6, {"b", h800}: 6}, newNode("a", h200), newNode("b", h800)), "NoFreeCard"},
		"a node has enough, and refuses":               {otherwise, pod(4, h200), free(0, 4), "NodesUnsuitable"},
		"a cordoned node has enough":                   {otherwise, pod(4, h200), newFleet(nil, newNode("a", h200, cordoned)), "NodesUnsuitable"},
		"a cordoned node has cards, not enough":        {otherwise, pod(9, h200), newFleet(nil, newNode("a", h200, cordoned), newNode("b", h200, cordoned)), "NoFreeCard"},
		"a node had too few in the last session":       {full, pod(4, h200), free(4), "NoFreeCard"},
		"a node has enough, not tried":                 {silent, pod(4, h200), free(4), "Other"},
		"a node has enough, and other pods do not fit": {StatedReason{RefusedByNodes: true, RepeatsOther: true}, pod(4, h200), free(4), "GangIncomplete"},
		"no card is free for other pods either":        {StatedReason{RefusedByNodes: true, RepeatsOther: true}, pod(4, h200), free(3), "NoFreeCard"},
		"a node has enough, and refuses other pods":    {StatedReason{RefusedByNodes: true, RepeatsOther: true, RefusedOtherwise: true}, pod(4, h200), free(4), "NodesUnsuitable"},
		"a cordoned node has enough, not tried":        {silent, pod(4, h200), newFleet(nil, newNode("a", h200, cordoned)), "NoFreeCard"},
		"quota is missing on the only card":            {noQuotaOfH200, pod(1, h200), free(8), "AncestorQuotaExhausted"},
		"quota is missing on one card, the other is full": {noQuotaOfH800, pod(1, either...),
			newFleet(map[NodeCard]card.Count{{"a", h200}: 8}, newNode("a", h200), newNode("b", h800)), "NoFreeCard"},
		"quota is missing on one card, no node has the other": {noQuotaOfH200, pod(1, either...), free(8), "AncestorQuotaExhausted"},
		"pods of the gang would take the rest":                {full, Request{Names: []card.Name{h200}, Count: 2, Taken: NewTaken(map[string]card.Count{"h200-0": 6})}, free(6, 1), "NoFreeCard"},
		"pods of the gang would take the rest of one node":    {full, Request{Names: []card.Name{h200}, Count: 2, Taken: NewTaken(map[string]card.Count{"h200-0": 5})}, free(6, 1), "Fragmented"},
		"pods of the gang would leave a node that refuses":    {otherwise, Request{Names: []card.Name{h200}, Count: 2, Taken: NewTaken(map[string]card.Count{"h200-0": 6})}, free(6, 2), "NodesUnsuitable"},
		"a job without pods, too few are free":                {silent, Request{Names: []card.Name{h200}, Count: 9, IsJob: true}, free(4, 4), "NoFreeCard"},
		"a job without pods may be spread":                    {silent, Request{Names: []card.Name{h200}, Count: 8, IsJob: true}, free(4, 4), "Other"},
	}) {
		check.Equal(t, "reason", tc.want, ReasonFor(&tc.statedReason, &tc.request, tc.fleet))
	}
}

// TestReasonsOfNodesAgreeWithASimpleCount: counted node by node, without sums.
func TestReasonsOfNodesAgreeWithASimpleCount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		held := map[NodeCard]card.Count{}
		nodes := []card.NodeState{}
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			node := newNode(fmt.Sprint("n", i), rapid.SampledFrom([]card.Name{h200, h800}).Draw(t, "model"))
			node.IsReady = rapid.IntRange(0, 3).Draw(t, "ready") > 0
			node.IsCordoned = rapid.IntRange(0, 3).Draw(t, "cordoned") == 0
			held[NodeCard{node.Name, node.Cards[0].Name}] = card.Count(rapid.IntRange(0, 9).Draw(t, "held"))
			nodes = append(nodes, node)
		}

		r := Request{Names: [][]card.Name{{h200}, {h800}, {h200, h800}}[rapid.IntRange(0, 2).Draw(t, "names")], Count: card.Count(rapid.IntRange(1, 10).Draw(t, "count"))}
		var taken map[string]card.Count
		if rapid.Bool().Draw(t, "gang") {
			taken = map[string]card.Count{"n0": card.Count(rapid.IntRange(0, 8).Draw(t, "taken"))}
			r.Taken = NewTaken(taken)
			ReasonFor(&StatedReason{RefusedByNodes: true}, &r, newFleet(nil, nodes...)) // of another fleet nothing is remembered
		}

		reason := func(fleet func() *Fleet) v1alpha1.BlockedReason {
			return ReasonFor(&StatedReason{RefusedByNodes: true, RefusedOtherwise: true}, &r, fleet)
		}

		fleet := newFleet(held, nodes...)()
		got := reason(func() *Fleet { return fleet })
		check.Equal(t, "reason of the next pod of the gang", got, reason(func() *Fleet { return fleet }))

		want := naiveReason(&r, nodes, held, taken)
		check.Must(t, got == want, "%s, want %s, for %+v of %+v, held %v", got, want, r, nodes, held)
	})
}

// naiveReason counts the free cards of all nodes once more.
func naiveReason(r *Request, nodes []card.NodeState, held map[NodeCard]card.Count, taken map[string]card.Count) v1alpha1.BlockedReason {
	exists := false
	fits := false
	sums := map[card.Name]card.Count{}
	for _, node := range nodes {
		name := node.Cards[0].Name
		if !slices.Contains(r.Names, name) {
			continue
		}

		exists = true
		left := max(0, max(0, 8-held[NodeCard{node.Name, name}])-taken[node.Name])
		fits = fits || (node.IsReady && left >= r.Count)
		if node.IsReady && !node.IsCordoned {
			sums[name] += left
		}
	}

	switch {
	case !exists:
		return v1alpha1.BlockedUnknownCard
	case fits:
		return v1alpha1.BlockedNodesUnsuitable
	case sums[h200] >= r.Count || sums[h800] >= r.Count:
		return v1alpha1.BlockedFragmented
	}

	return v1alpha1.BlockedNoFreeCard
}
