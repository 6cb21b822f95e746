package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

const (
	gpuResource = corev1.ResourceName("nvidia.com/gpu")
	migResource = corev1.ResourceName("nvidia.com/mig-1g.18gb")
	npuResource = corev1.ResourceName("huawei.com/Ascend910")
)

// drawInventory draws whether node n and another one exist, and whether they name their cards.
func drawInventory(t *rapid.T) *card.Inventory {
	kinds := map[string]card.Node{
		"H200": {
			Model: "H200",
			Cards: []card.NodeCard{
				{Name: "H200", Resource: gpuResource, Count: 4},
				{Name: "H200/mig-1g.18gb", Resource: migResource, Count: 7},
			},
		},
		"H800":       {Model: "H800", Cards: []card.NodeCard{{Name: "H800", Resource: gpuResource, Count: 8}}},
		"unlabelled": {Unnamed: []corev1.ResourceName{gpuResource, npuResource}},
	}

	nodes := map[string]card.Node{}
	for _, name := range []string{"n", "other"} {
		if node, exists := kinds[rapid.SampledFrom([]string{"gone", "H200", "H800", "unlabelled"}).Draw(t, name)]; exists {
			nodes[name] = node
		}
	}

	return card.NewInventory(nodes, gpuResource)
}

// drawRequest draws a request of none, one or several card resources.
func drawRequest(t *rapid.T) *Request {
	request := &Request{}
	for _, resource := range []corev1.ResourceName{gpuResource, migResource, npuResource} {
		switch count := card.Count(rapid.IntRange(0, 2).Draw(t, string(resource))); {
		case count == 0:
		case request.Count == 0:
			request.Resource = resource
			request.Count = count
		default:
			request.ExtraResources = append(request.ExtraResources, ResourceCount{resource, count})
		}
	}

	return request
}

// TestAChargeStays: the operator charges a running pod again and again, with its last charge as the input. Whatever
// has changed before, a lost label or a node that is gone, the charge stays while the nodes stay as they are. The
// request, of no, one or several card resources, and the nodes are random.
func TestAChargeStays(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		var last *quota.Charge
		for range rapid.IntRange(1, 4).Draw(t, "inventories") {
			inventory := drawInventory(t)
			charge := ChargeFor(request, "q", "n", inventory, last)
			for range 3 {
				check.Equal(t, "charged again", charge, ChargeFor(request, "q", "n", inventory, &charge))
			}

			last = &charge
		}
	})
}

// TestWithheldCardsStayCharged: node n offers 80 GPUs, more than its label says, so it withholds them from new pods
// under the name H200. A pod that runs there is charged for 2 H200, with and without an earlier charge, so that a
// restart changes nothing. NotOffered are its cards that no node offers.
func TestWithheldCardsStayCharged(t *testing.T) {
	oversold := card.NewInventory(map[string]card.Node{
		"n": {
			Model:    "H200",
			Unnamed:  []corev1.ResourceName{gpuResource},
			Withheld: []card.NodeCard{{Name: "H200", Resource: gpuResource, Count: 80}},
		},
		"other": {Model: "H800", Cards: []card.NodeCard{{Name: "H800", Resource: gpuResource, Count: 8}}},
	})

	request := &Request{Resource: gpuResource}
	request.Count = 2
	want := []card.Amount{{Name: "H200", Count: 2}}

	first := ChargeFor(request, "q", "n", oversold, nil)
	check.Equal(t, "cards without an earlier charge", want, first.Cards)
	check.Equal(t, "cards that no node offers", want, first.NotOffered)
	check.Equal(t, "cards that no node offers, on node other with H800", nil, ChargeFor(request, "q", "other", oversold, nil).NotOffered)

	again := ChargeFor(request, "q", "n", oversold, &quota.Charge{Queue: "q", Cards: []card.Amount{{Name: "H800", Count: 2}}})
	check.Equal(t, "cards after an earlier charge of another card", want, again.Cards)
	request.ExtraResources = []ResourceCount{{npuResource, 1}}
	check.Equal(t, "cards beside another resource, which no node names", want, ChargeFor(request, "q", "n", oversold, nil).Cards)
}
