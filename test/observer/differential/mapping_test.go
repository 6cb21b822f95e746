package differential

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/test/observer/rule"
)

// drawMapping draws a valid entry of spec.cards.
func drawMapping(t *rapid.T) card.Mapping {
	m := card.Mapping{Resource: oneOf[corev1.ResourceName](t, "mapped resource", "nvidia.com/gpu", "huawei.com/Ascend910", "nvidia.com/mig-1g.18gb", "nvidia.com/gpu.shared", "vendor.example/ppu", "huawei.com/npu")}
	if rapid.Bool().Draw(t, "by label") {
		m.ModelLabel = oneOf(t, "model label", "nvidia.com/gpu.product", "huawei.com/npu.product", "huawei.com/npu.family", "nvidia.com/gpu.memory", "none")
	} else {
		m.Model = oneOf(t, "mapped model", "H200", "MI300X")
	}

	if m.Resource == "nvidia.com/gpu.shared" {
		m.MemoryLabel = oneOf(t, "memory label", "nvidia.com/gpu.memory", "none")
	}
	if rapid.Bool().Draw(t, "selects") {
		m.NodeSelector = map[string]string{"kubernetes.io/hostname": oneOf(t, "selected", "n", "n", "m")}
	}

	return m
}

// TestProductAndObserverReadMappedNodesAlike: mappings of the policy name the cards of a resource, by a model or by a
// label, on selected nodes. With random mappings and nodes, the product and the observer, a tool of the tests, must
// find the same cards, the same resources without a name, and the same model of nodes with cards.
func TestProductAndObserverReadMappedNodesAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			node := drawNode(t, "n")
			productMappings, observerMappings := drawMappings(t, 1)
			product := card.Recognise(node, productMappings)
			observed := rule.ReadMappedNode(node, observerMappings)

			offers := map[corev1.ResourceName]rule.Offer{}
			for _, offered := range product.Cards {
				offers[offered.Resource] = rule.Offer{Card: string(offered.Name), Count: int64(offered.Count)}
			}
			for _, name := range product.Unnamed {
				offers[name] = rule.Offer{}
			}

			for name, offer := range observed.Cards {
				counted := rule.Offer{}
				if offer.Card != "" {
					counted = rule.Offer{Card: offer.Card, Count: offer.Count}
				}
				equal(t, string(name), offers[name], counted)
			}

			equal(t, "card resources", len(offers), len(observed.Cards))
			if len(product.Cards) > 0 {
				equal(t, "model", product.Model, observed.Model)
			}
		}
	})
}
