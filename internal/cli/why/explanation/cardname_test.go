package explanation

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/testing/check"
)

// TestACardThatIsNotNamedYetMayHaveTheRightName: a pod requests NVIDIA-B300 of resource nvidia.com/gpu, and no node has
// this card. But node new offers 8 nvidia.com/gpu, and no label says which card that is, so it may be this one. Then the
// advice is about the labels, not about the name. A node of another resource does not matter.
func TestACardThatIsNotNamedYetMayHaveTheRightName(t *testing.T) {
	in := newUnknownCard("NVIDIA-B300",
		v1alpha1.InventoryAnomaly{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8,
			Message: "node new: offers nvidia.com/gpu but no label names it; add the labels"},
		v1alpha1.InventoryAnomaly{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "huawei.com/Ascend910", Count: 8,
			Message: "node npu: offers another resource"})
	check.Text(t, "explanation", textOf(in)).
		Has("no node has this card, or it is not named yet.", "no node has NVIDIA-B300 (not named yet: 8 nvidia.com/gpu)",
			"The card may not be named yet: node new: offers nvidia.com/gpu but no label names it; add the labels. "+
				"The workload starts by itself when its node has the right labels.").
		Lacks("Correct the name", "npu", "Did you mean")
}

// TestAWrongNameIsCorrected: nodes have NVIDIA-H200 and NVIDIA-H800, all with right labels. If the requested name is near
// to one of these, the advice corrects the name. Otherwise it lists both.
func TestAWrongNameIsCorrected(t *testing.T) {
	check.Contains(t, "a name that is far from both", textOf(newUnknownCard("NVIDIA-B300")), "Correct the name. Nodes have NVIDIA-H200, NVIDIA-H800.")
	check.Contains(t, "a name without the vendor", textOf(newUnknownCard("H200")),
		"Did you mean NVIDIA-H200? Write volcano.sh/card.name: NVIDIA-H200 instead of H200.")
}

// newUnknownCard is a job that requests a card of nvidia.com/gpu that no node has. The inventory has anomalies.
func newUnknownCard(name card.Name, anomalies ...v1alpha1.InventoryAnomaly) Input {
	in := cases["UnknownCard"]()
	in.Request.Names = []card.Name{name}
	in.Request.Resource = "nvidia.com/gpu"
	in.Inventory.Anomalies = anomalies
	return in
}

// TestARightNameIsNotCorrected: the anomaly of a node names NVIDIA-H20, the card that the pod requests. So the name is
// right, although NVIDIA-H200 is near, and the advice is about the node.
func TestARightNameIsNotCorrected(t *testing.T) {
	const right = "The name NVIDIA-H20 is right: "

	for t, tc := range check.Cases(t, map[string]struct {
		anomaly v1alpha1.InventoryAnomaly
		want    []string
	}{
		"the node offers more cards than its label says": {
			v1alpha1.InventoryAnomaly{
				Reason: v1alpha1.AnomalyMoreThanLabelled, Resource: "nvidia.com/gpu", Card: "NVIDIA-H20", Count: 10,
				Message: "node a: offers 10 nvidia.com/gpu, more than label nvidia.com/gpu.count=1 says",
			},
			[]string{
				"nodes offer more of this card than their labels say, so no new pod gets one",
				"free cards: No, no new pod gets one of 10 NVIDIA-H20", right + "node a: offers 10 nvidia.com/gpu",
			},
		},
		"the node has no label for the memory": {
			v1alpha1.InventoryAnomaly{
				Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 10,
				Message: "node a: no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-H20 names the card",
			},
			[]string{right + "node a: no label"},
		},
		"the labels name two models": {
			v1alpha1.InventoryAnomaly{
				Reason: v1alpha1.AnomalySeveralModels, Count: 10,
				Message: "node a: names more than one card model: NVIDIA-H20, Tesla-T4; no pod gets a card there",
			},
			[]string{right + "node a: names more"},
		},
		"the model could be any of two resources": {
			v1alpha1.InventoryAnomaly{
				Reason: v1alpha1.AnomalyAmbiguousResource, Count: 10,
				Message: "node a: model NVIDIA-H20 could be any of the resources [a b]",
			},
			[]string{right + "node a: model"},
		},
	}) {
		in := newUnknownCard("NVIDIA-H20", tc.anomaly)

		check.Text(t, "explanation", textOf(in)).Has(tc.want...).Lacks("Correct the name", "id you mean", "instead of", "may not be named") // "Did" or "did"
	}
}

// TestACardMayHaveNoNameYet: a pod requests NVIDIA-H20, which no node has. Node new has cards of which, for any of the
// UnnamedReasons, nothing says the model. They may be NVIDIA-H20, or the user may have meant NVIDIA-H200. The advice has
// both, the labels first.
func TestACardMayHaveNoNameYet(t *testing.T) {
	for _, reason := range cardinventory.UnnamedReasons {
		in := newUnknownCard("NVIDIA-H20", v1alpha1.InventoryAnomaly{Reason: reason, Count: 8, Message: "node new: wrong labels"})
		check.Text(t, string(reason), textOf(in)).
			Has("The card may not be named yet: node new: wrong labels. The workload starts by itself when its node has the right labels.\n" +
				"Or did you mean NVIDIA-H200? Then write").
			Lacks("Correct the name")
	}
}

// TestUnnamedCardsAreCountedByResource: a pod requests NVIDIA-B300, which no node has. Cards without a name are 8 + 2 of
// nvidia.com/gpu and 4 of amd.com/gpu. Where the resource of the request is not known, they may be any of these.
func TestUnnamedCardsAreCountedByResource(t *testing.T) {
	unnamed := []v1alpha1.InventoryAnomaly{
		{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8},
		{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "amd.com/gpu", Count: 4},
		{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 2},
	}

	for resource, want := range map[string]string{
		"":               "no node has NVIDIA-B300 (not named yet: 4 amd.com/gpu, 10 nvidia.com/gpu)",
		"nvidia.com/gpu": "no node has NVIDIA-B300 (not named yet: 10 nvidia.com/gpu)",
		"intel.com/xpu":  "no node has NVIDIA-B300",
	} {
		in := newUnknownCard("NVIDIA-B300", unnamed...)
		in.Request.Resource = resource
		check.Equal(t, "cards for a request of resource "+resource, want, gateCheck{&in}.describeAbsence("NVIDIA-B300"))
	}
}

// TestAnAnomalyOfAnotherCardDoesNotMakeANameRight: a node has more H800 than its labels say. The pod requests NVIDIA-H20, a
// name that this anomaly does not mention, so the explanation does not call the name right.
func TestAnAnomalyOfAnotherCardDoesNotMakeANameRight(t *testing.T) {
	in := newUnknownCard("NVIDIA-H20",
		v1alpha1.InventoryAnomaly{Reason: v1alpha1.AnomalyMoreThanLabelled, Resource: "nvidia.com/gpu", Card: "NVIDIA-H800", Count: 10})
	check.Text(t, "explanation", textOf(in)).Lacks(" is right: ")
}

// TestATenantWithoutInventoryComparesTheName: no node has the card that the pod names. Either the name is wrong, or the
// labels of a node are missing. A user who may not read the CardInventory cannot know which, so the advice has both.
func TestATenantWithoutInventoryComparesTheName(t *testing.T) {
	in := newUnknownCard("NVIDIA-H20")
	in.Inventory = nil
	check.Contains(t, "explanation", textOf(in),
		"Compare the name with those of kubectl cardquota inventory. If it is right, no label of a node names the card yet: ask the administrator.")
}
