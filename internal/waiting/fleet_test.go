package waiting

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
	node := card.NodeState{Name: name, IsReady: true, Node: card.Node{
		Model: string(model), Cards: []card.NodeCard{{Name: model, Resource: gpu, Count: 8}},
	}}
	for _, c := range change {
		c(&node)
	}
	return node
}

func cordoned(n *card.NodeState) { n.IsCordoned = true }

func notReady(n *card.NodeState) { n.IsReady = false }

func newFleet(used map[NodeCard]card.Count, nodes ...card.NodeState) func() *Fleet {
	byName := map[string]card.Node{}
	for _, node := range nodes {
		byName[node.Name] = node.Node
	}
	return func() *Fleet { return NewFleet(card.NewInventory(byName), nodes, used) }
}

// freeH200 returns nodes h200-0, h200-1 … of 8 H200, of which so many are free.
func freeH200(counts ...card.Count) func() *Fleet {
	used := map[NodeCard]card.Count{}
	nodes := []card.NodeState{}
	for i, count := range counts {
		name := fmt.Sprint("h200-", i)
		used[NodeCard{name, h200}] = 8 - count
		nodes = append(nodes, newNode(name, h200))
	}
	return newFleet(used, nodes...)
}

// newRequest is a pod that requests cards, of one of the names.
func newRequest(count card.Count, names ...card.Name) Request {
	return Request{Names: names, Named: names, Count: count}
}

// What the scheduler states about a pod that no node takes, or that it has not tried yet.
var (
	notTried           = StatedReason{}
	lacksCards         = StatedReason{RefusedByNodes: true}
	refusedOtherwise   = StatedReason{RefusedByNodes: true, RefusedOtherwise: true} // some nodes for a taint or CPU
	otherPodLacksCards = StatedReason{RefusedByNodes: true, RepeatsOther: true}     // another pod of the gang
)

// lacksQuotaOf is stated where nodes refuse a pod because the queue has no quota of their card.
func lacksQuotaOf(name card.Name, reason v1alpha1.BlockedReason) StatedReason {
	return StatedReason{RefusedByNodes: true, NodeRefusals: []workload.Refusal{*refusalFor(reason, name)}}
}

// requestOfJob is that of a job without pods, for H200 in all.
func requestOfJob(count card.Count) Request {
	return Request{Names: []card.Name{h200}, Count: count, IsJob: true}
}

// reasonCase is a request with what the scheduler states about it, and the wanted reason why it waits.
type reasonCase struct {
	stated  StatedReason
	request Request
	fleet   func() *Fleet
	want    v1alpha1.BlockedReason
}

func checkReasons(t *testing.T, cases map[string]reasonCase) {
	for t, tc := range check.Cases(t, cases) {
		check.Equal(t, "reason", tc.want, ReasonFor(&tc.stated, &tc.request, tc.fleet))
	}
}

// TestTheSchedulersReasonIsShownBeforeAnyCount: what the scheduler states about a pod decides why it waits.
// The cards of nodes matter only where they make the reason more precise. For example, a card without quota
// may be one that no node has, thus a wrong name. The scheduler repeats a refusal for all pods of a gang. A
// refusal of cards that this request does not name is about other pods, so this pod waits for its gang. Names
// are the cards that the pod may run on, Named those that its annotation names.
//
// A row has no fleet (nil) where ReasonFor must not count free cards, because that takes time. It would
// panic. freeH200(0) is a fleet of one node of H200, none of which is free.
func TestTheSchedulersReasonIsShownBeforeAnyCount(t *testing.T) {
	refusedFor := func(reason v1alpha1.BlockedReason, cards ...card.Name) StatedReason {
		return StatedReason{Refusal: refusalFor(reason, cards...)}
	}

	checkReasons(t, map[string]reasonCase{
		"the quota is used up": {refusedFor("QuotaExhausted"), newRequest(1, h200), nil, "QuotaExhausted"},
		"the queue has no quota of a card that a node has": {
			refusedFor("NoQuota"), newRequest(1, h200), freeH200(0), "NoQuota",
		},
		"the queue has no quota of a card, and no node has such a card": {
			refusedFor("NoQuota"), newRequest(1, "NVIDIA-H2000"), freeH200(0), "UnknownCard",
		},
		"no quota for a request without cards": {refusedFor("NoQuota"), newRequest(0), nil, "NoQuota"},
		"the pod names a card that no node has": {
			refusedFor("UnknownCard"), Request{Named: []card.Name{"Ascend-910B"}, Count: 1}, freeH200(8), "UnknownCard",
		},
		"the pod names H200, which a node has, but its resource is that of another card": {
			refusedFor("UnknownCard"), Request{Named: []card.Name{h200}, Count: 1}, freeH200(8), "WrongCombination",
		},
		"refused for H800, and the pod requests H200": {
			refusedFor("QuotaExhausted", h800), newRequest(1, h200), nil, "GangIncomplete",
		},
		"refused for H800 of another pod, and this pod requests no cards": {
			StatedReason{Refusal: refusalFor("QuotaExhausted", h800), RepeatsOther: true}, newRequest(0), nil, "GangIncomplete",
		},
		"refused for H800, and the pod requests H200 or H800": {
			refusedFor("QuotaExhausted", h800), newRequest(1, h200, h800), nil, "QuotaExhausted",
		},
		"refused for H800, which the pod names and has no quota of": {
			refusedFor("QuotaExhausted", h800), Request{Names: []card.Name{h200}, Named: []card.Name{h200, h800}, Count: 1}, nil, "QuotaExhausted",
		},
		"a place is found, and other pods of the gang have none": {StatedReason{Node: "h200-0"}, newRequest(1, h200), nil, "GangIncomplete"},
		"pods of the gang do not exist":                          {StatedReason{LacksPods: true}, newRequest(1, h200), nil, "GangIncomplete"},
		"a place is free once pods have terminated":              {StatedReason{AwaitsRelease: true}, newRequest(1, h200), nil, "CardsTerminating"},
	})
}

// TestFreeCardsOfNodesDecideWhyAPodWaits: the scheduler states that no node takes a pod, for cards
// (Insufficient nvidia.com/gpu) or otherwise (a taint, CPU). Or it has not tried the pod yet. The free cards
// of the nodes then say what is missing. UnknownCard: no node has the card. NoFreeCard: too few are free in
// all. Fragmented: enough are free, but not on one node. A job without pods may use many nodes.
//
// The other reasons are those of a pod for which a node has enough. NodesUnsuitable: nodes refuse it for
// something else. GangIncomplete: they refuse another pod of its gang for cards. Other: the scheduler has not
// tried it yet. If nodes have refused the pod for cards, the reason is NoFreeCard until the next try. The
// scheduler tries a cordoned node too, but the cards of such a node do not count as free.
//
// "1 + 2 free" is 1 on node h200-0 and 2 on node h200-1.
func TestFreeCardsOfNodesDecideWhyAPodWaits(t *testing.T) {
	isCordoned := newFleet(nil, newNode("a", h200, cordoned))

	checkReasons(t, map[string]reasonCase{
		"no cards requested, and nodes refuse otherwise": {refusedOtherwise, newRequest(0), nil, "NodesUnsuitable"},
		"no cards requested, not tried":                  {notTried, newRequest(0), nil, "Other"},
		"no node has the card":                           {lacksCards, newRequest(1, "NVIDIA-H2000"), freeH200(8), "UnknownCard"},
		"no node has the card, not tried":                {notTried, newRequest(1, "NVIDIA-H2000"), freeH200(8), "UnknownCard"},
		"no node has one card, and the other is used":    {lacksCards, newRequest(1, "NVIDIA-H2000", h200), freeH200(0), "NoFreeCard"},
		"the only node with the card is not ready":       {refusedOtherwise, newRequest(1, h200), newFleet(nil, newNode("a", h200, notReady)), "NoFreeCard"},
		"no card is free on two nodes":                   {lacksCards, newRequest(1, h200), freeH200(0, 0), "NoFreeCard"},
		"no card is free, and a node refuses otherwise":  {refusedOtherwise, newRequest(1, h200), freeH200(0, 0), "NoFreeCard"},
		"no card is free, not tried":                     {notTried, newRequest(1, h200), freeH200(0, 0), "NoFreeCard"},
		"4 requested, 1 + 2 free":                        {lacksCards, newRequest(4, h200), freeH200(1, 2), "NoFreeCard"},
		"4 requested, 2 + 2 free":                        {lacksCards, newRequest(4, h200), freeH200(2, 2), "Fragmented"},
		"4 requested, 2 + 3 free, refused otherwise":     {refusedOtherwise, newRequest(4, h200), freeH200(2, 3), "Fragmented"},
		"4 requested, 2 + 3 free, not tried":             {notTried, newRequest(4, h200), freeH200(2, 3), "Fragmented"},
		"4 requested, 2 H200 and 2 H800 free: all pods of a request get one model": {
			lacksCards, newRequest(4, h200, h800),
			newFleet(map[NodeCard]card.Count{{"a", h200}: 6, {"b", h800}: 6}, newNode("a", h200), newNode("b", h800)), "NoFreeCard",
		},
		"4 requested, a node has 4 and refuses otherwise":         {refusedOtherwise, newRequest(4, h200), freeH200(0, 4), "NodesUnsuitable"},
		"4 requested, a cordoned node has 8":                      {refusedOtherwise, newRequest(4, h200), isCordoned, "NodesUnsuitable"},
		"4 requested, a cordoned node has 8, not tried":           {notTried, newRequest(4, h200), isCordoned, "NoFreeCard"},
		"4 requested, a node had too few and has 4 since then":    {lacksCards, newRequest(4, h200), freeH200(4), "NoFreeCard"},
		"4 requested, a node has 4, not tried":                    {notTried, newRequest(4, h200), freeH200(4), "Other"},
		"4 requested, a node has 4, another gang pod lacks cards": {otherPodLacksCards, newRequest(4, h200), freeH200(4), "GangIncomplete"},
		"4 requested, 3 free, another gang pod lacks cards too":   {otherPodLacksCards, newRequest(4, h200), freeH200(3), "NoFreeCard"},
		"4 requested, a node has 4, and refuses another pod of the gang otherwise": {
			StatedReason{RefusedByNodes: true, RepeatsOther: true, RefusedOtherwise: true}, newRequest(4, h200), freeH200(4), "NodesUnsuitable",
		},
		"9 requested, two cordoned nodes have 8 each: neither enough nor free": {
			refusedOtherwise, newRequest(9, h200), newFleet(nil, newNode("a", h200, cordoned), newNode("b", h200, cordoned)), "NoFreeCard",
		},
		"a job without pods requests 9, 4 + 4 free":                             {notTried, requestOfJob(9), freeH200(4, 4), "NoFreeCard"},
		"a job without pods requests 8, 4 + 4 free, one node need not have all": {notTried, requestOfJob(8), freeH200(4, 4), "Other"},
	})
}

// TestCardsWithoutQuotaDoNotCount: a node refuses a pod because the queue has no quota of its card, or an
// ancestor has none left. Free cards of that name do not help the pod, so only its other cards count. If no
// node has these, the refusal is the reason. freeH200(8) is a fleet of one node of H200, all of which are
// free.
func TestCardsWithoutQuotaDoNotCount(t *testing.T) {
	checkReasons(t, map[string]reasonCase{
		"no quota of the ancestor for the only card": {
			lacksQuotaOf(h200, "AncestorQuotaExhausted"), newRequest(1, h200), freeH200(8), "AncestorQuotaExhausted",
		},
		"no quota for H800, and all H200 are used: only H200 counts": {
			lacksQuotaOf(h800, "NoQuota"), newRequest(1, h200, h800),
			newFleet(map[NodeCard]card.Count{{"a", h200}: 8}, newNode("a", h200), newNode("b", h800)), "NoFreeCard",
		},
		"no quota of the ancestor for H200, and no node has H800": {
			lacksQuotaOf(h200, "AncestorQuotaExhausted"), newRequest(1, h200, h800), freeH200(8), "AncestorQuotaExhausted",
		},
	})
}

// TestCardsThatTheGangTakesAreNotFree: a gang runs only as a whole. So cards that its other pods take are not
// free for this pod; they are all on node h200-0. "6 + 1 free" is 6 on node h200-0 and 1 on node h200-1,
// before the gang takes any.
func TestCardsThatTheGangTakesAreNotFree(t *testing.T) {
	gangPod := func(count, othersTake card.Count) Request {
		return Request{Names: []card.Name{h200}, Count: count, Taken: NewTaken(map[string]card.Count{"h200-0": othersTake})}
	}

	checkReasons(t, map[string]reasonCase{
		"2 requested, 6 + 1 free, the gang takes 6: 0 + 1 left":                    {lacksCards, gangPod(2, 6), freeH200(6, 1), "NoFreeCard"},
		"2 requested, 6 + 1 free, the gang takes 5: 1 + 1 left":                    {lacksCards, gangPod(2, 5), freeH200(6, 1), "Fragmented"},
		"2 requested, 6 + 2 free, the gang takes 6: 0 + 2 left, refused otherwise": {refusedOtherwise, gangPod(2, 6), freeH200(6, 2), "NodesUnsuitable"},
	})
}

// TestHiddenNodesLeaveOnlyWhatTheInventorySays: a user who may not read nodes sees only the CardInventory. By
// that at most 4 H200 and 1 H800 are free in all. A request for more lacks cards (NoFreeCard). For any other
// the reason is Other, because one node may have enough or not. A missing quota or an unknown card is known
// without nodes.
func TestHiddenNodesLeaveOnlyWhatTheInventorySays(t *testing.T) {
	mostFree := map[card.Name]card.Count{h200: 4, h800: 1}
	hidden := func() *Fleet {
		return NewHiddenFleet(newFleet(nil, newNode("a", h200), newNode("b", h800))().inventory, func(name card.Name) card.Count { return mostFree[name] })
	}

	checkReasons(t, map[string]reasonCase{
		"5 requested, nodes hidden":                                 {refusedOtherwise, newRequest(5, h200), hidden, "NoFreeCard"},
		"4 requested, nodes hidden: they may be free on a node":     {refusedOtherwise, newRequest(4, h200), hidden, "Other"},
		"4 H800 or H200 requested, nodes hidden":                    {refusedOtherwise, newRequest(4, h800, h200), hidden, "Other"},
		"4 H800 or H200 requested, no quota for H200, nodes hidden": {lacksQuotaOf(h200, "NoQuota"), newRequest(4, h800, h200), hidden, "NoFreeCard"},
		"no quota for the only card, nodes hidden":                  {lacksQuotaOf(h200, "NoQuota"), newRequest(4, h200), hidden, "NoQuota"},
		"no node has the card, nodes hidden":                        {refusedOtherwise, newRequest(1, "NVIDIA-H2000"), hidden, "UnknownCard"},
		"a job without pods requests 5, nodes hidden":               {notTried, requestOfJob(5), hidden, "NoFreeCard"},
	})
}

// TestReasonsOfNodesAgreeWithASimpleCount: a pod requests cards of random nodes of 8 cards, of which other
// pods use up to 9, as after a card has failed. The scheduler states that no node takes the pod, and that
// some refuse it for another reason than cards. The oracle counts the free cards node by node, and ReasonFor
// must return the same reason.
//
// The pod may be of a gang whose other pods take cards of node n0. Then Request.Taken caches what the gang
// leaves of one Fleet. The test asks first for the reason with a fleet without used cards: its cached numbers
// must not be used for the real fleet. It asks twice with the real fleet: the second answer comes from the
// cache.
func TestReasonsOfNodesAgreeWithASimpleCount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		used := map[NodeCard]card.Count{}
		nodes := []card.NodeState{}
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			node := newNode(fmt.Sprint("n", i), rapid.SampledFrom([]card.Name{h200, h800}).Draw(t, "model"))
			node.IsReady = rapid.IntRange(0, 3).Draw(t, "ready") > 0
			node.IsCordoned = rapid.IntRange(0, 3).Draw(t, "cordoned") == 0
			used[NodeCard{node.Name, node.Cards[0].Name}] = card.Count(rapid.IntRange(0, 9).Draw(t, "used"))
			nodes = append(nodes, node)
		}

		request := Request{
			Names: rapid.SampledFrom([][]card.Name{{h200}, {h800}, {h200, h800}}).Draw(t, "names"),
			Count: card.Count(rapid.IntRange(1, 10).Draw(t, "count")),
		}
		var taken map[string]card.Count
		if rapid.Bool().Draw(t, "gang") {
			taken = map[string]card.Count{"n0": card.Count(rapid.IntRange(0, 8).Draw(t, "taken"))}
			request.Taken = NewTaken(taken)
			ReasonFor(&StatedReason{RefusedByNodes: true}, &request, newFleet(nil, nodes...)) // Taken now caches what is free without used cards
		}

		reason := func(fleet func() *Fleet) v1alpha1.BlockedReason {
			return ReasonFor(&StatedReason{RefusedByNodes: true, RefusedOtherwise: true}, &request, fleet)
		}

		fleet := newFleet(used, nodes...)()
		got := reason(func() *Fleet { return fleet })
		check.Equal(t, "second reason with the same fleet, from the cache of a gang", got, reason(func() *Fleet { return fleet }))

		want := naiveReason(&request, nodes, used, taken)
		check.Must(t, got == want, "%s, want %s, for %+v of %+v, used %v", got, want, request, nodes, used)
	})
}

// naiveReason returns why a pod waits if a node refuses it for another reason than cards. It counts the free cards
// node by node. taken is what other pods of its gang take.
func naiveReason(r *Request, nodes []card.NodeState, used map[NodeCard]card.Count, taken map[string]card.Count) v1alpha1.BlockedReason {
	exists := false
	fits := false
	sums := map[card.Name]card.Count{}
	for _, node := range nodes {
		name := node.Cards[0].Name
		if !slices.Contains(r.Names, name) {
			continue
		}

		exists = true
		left := max(0, max(0, 8-used[NodeCard{node.Name, name}])-taken[node.Name])
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
