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
	nodes := map[string]card.Node{}
	for _, name := range []string{"n", "other"} {
		switch rapid.SampledFrom([]string{"gone", "H200", "H800", "unlabelled"}).Draw(t, name) {
		case "H200":
			nodes[name] = card.Node{
				Model: "H200",
				Cards: []card.NodeCard{
					{Name: "H200", Resource: gpuResource, Count: 4},
					{Name: "H200/mig-1g.18gb", Resource: migResource, Count: 7},
				},
			}
		case "H800":
			nodes[name] = card.Node{Model: "H800", Cards: []card.NodeCard{{Name: "H800", Resource: gpuResource, Count: 8}}}
		case "unlabelled":
			nodes[name] = card.Node{Unnamed: []corev1.ResourceName{gpuResource, npuResource}}
		}
	}

	return card.NewInventory(nodes, gpuResource)
}

func drawHeld(t *rapid.T) *Request {
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

// TestAChargeStays: as long as the nodes do not change, a pod is charged for the same cards again and
// again, also one with several card resources whose node lost its labels or is gone.
func TestAChargeStays(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		request := drawHeld(t)
		var last *quota.Charge
		for range rapid.IntRange(1, 4).Draw(t, "inventories") {
			inventory := drawInventory(t)
			charge := ChargeFor(request, "q", "n", inventory, last)
			for range 3 {
				again := ChargeFor(request, "q", "n", inventory, &charge)
				check.Equal(t, "charged again", charge, again)
			}

			last = &charge
		}
	})
}

// TestWithheldCardsStayCharged: a restart changes nothing, and new pods get none of them.
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
	check.Equal(t, "without an earlier charge", want, first.Cards)
	check.Equal(t, "not in the inventory", want, first.NotOffered)
	check.Equal(t, "on a node that offers them", nil, ChargeFor(request, "q", "other", oversold, nil).NotOffered)

	again := ChargeFor(request, "q", "n", oversold, &quota.Charge{Queue: "q", Cards: []card.Amount{{Name: "H800", Count: 2}}})
	check.Equal(t, "charged before as another card", want, again.Cards)
	request.ExtraResources = []ResourceCount{{npuResource, 1}}
	check.Equal(t, "beside another resource", want, ChargeFor(request, "q", "n", oversold, nil).Cards)
}
