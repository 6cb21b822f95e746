package cardinventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// operatorCounts are the counts of an operator, one after the other.
type operatorCounts struct {
	tracker card.Tracker
	models  ModelChanges
	charges map[types.UID]quota.Charge
}

// changes counts pods once, and returns the anomalies ModelChanged.
func (o *operatorCounts) changes(pods ...*corev1.Pod) []v1alpha1.InventoryAnomaly {
	inventory := o.tracker.Inventory()
	usage, charges := cardquota.CountUsageAndCharges(cardquota.CountInput{Pods: pods, Inventory: inventory, LastCharges: o.charges})
	o.charges = charges
	status := NewStatus(Input{
		Nodes: o.tracker.TrackedNodes(),
		Cards: inventory,
		Count: NewCount(CountInput{
			Pods:    pods,
			Charges: charges,
			Usage:   usage,
			Totals:  cardquota.NewQuotaTotals(nil, nil, nil),
			Changed: o.models.Update(pods, charges, inventory),
		}),
	})

	var found []v1alpha1.InventoryAnomaly
	for _, anomaly := range status.Anomalies {
		if anomaly.Reason == v1alpha1.AnomalyModelChanged {
			found = append(found, anomaly)
		}
	}

	return found
}

func station(model string) *corev1.Node { return builder.Node("station").GPUs(model, 8).Obj() }

// TestAChangedModelIsAnAnomalyWhileItsPodsRun: a label that changes back and forth lets a queue hold more
// than its quota, and nothing else says why.
func TestAChangedModelIsAnAnomalyWhileItsPodsRun(t *testing.T) {
	var o operatorCounts
	o.tracker.Update(station("A100"))
	old := running("old", "q", "station", 4)
	younger := running("younger", "q", "station", 1)
	check.Equal(t, "at first", 0, len(o.changes(old)))

	o.tracker.Update(station("Display"))
	found := o.changes(old, younger)
	check.Must(t, len(found) == 1, "anomalies %+v", found)
	check.Contains(t, "message", found[0].Message, "node station: 4 nvidia.com/gpu that pod lab/old hold started as A100 and "+
		"count as Display now", "Keep one model in the labels")

	found[0].Message = ""
	check.Equal(t, "anomaly", v1alpha1.InventoryAnomaly{
		Reason:     "ModelChanged",
		Resource:   "nvidia.com/gpu",
		Card:       "A100",
		Count:      4,
		NodesTotal: 1,
		Nodes:      []string{"station"},
	}, found[0])

	o.tracker.Update(station("A100"))
	found = o.changes(old)
	check.Must(t, len(found) == 1, "anomalies after the change back %+v", found)
	check.Contains(t, "message after the change back", found[0].Message, "count as A100, and counted as Display in between")
	check.Equal(t, "counted again", 1, len(o.changes(old)))
	check.Equal(t, "when the pod has ended", 0, len(o.changes(younger)))
	check.Equal(t, "pods that are known", 1, len(o.models.pods))
}

func TestWhatIsNoChangedModel(t *testing.T) {
	pod := running("old", "q", "station", 4)
	for t, tc := range check.Cases(t, map[string]func(o *operatorCounts){
		"labels that vanish and return": func(o *operatorCounts) {
			o.tracker.Update(builder.Node("station").GPUs("", 8).Obj())
			o.changes(pod)
			o.tracker.Update(station("A100"))
		},
		"labels that vanish":  func(o *operatorCounts) { o.tracker.Update(builder.Node("station").GPUs("", 8).Obj()) },
		"a node that is gone": func(o *operatorCounts) { o.tracker.Delete("station") },
		"a card that breaks":  func(o *operatorCounts) { o.tracker.Update(builder.Node("station").GPUs("A100", 7).Obj()) },
		"an entry of spec.cards": func(o *operatorCounts) {
			o.tracker.SetMappings(card.Mappings{{Resource: "nvidia.com/gpu", Model: "Lab"}})
			o.changes(pod)
			o.tracker.Update(builder.Node("other").Obj())
		},
		"another pod of the same name": func(o *operatorCounts) {
			o.changes()
			o.tracker.Update(station("Display"))
		},
	}) {
		var o operatorCounts
		o.tracker.Update(station("A100"))
		o.changes(pod)

		tc(&o)
		check.Equal(t, "anomalies", 0, len(o.changes(pod)))
	}
}

// TestAChangedModelIsOneAfterLabelsVanished: the last known name counts.
func TestAChangedModelIsOneAfterLabelsVanished(t *testing.T) {
	var o operatorCounts
	pod := running("old", "q", "station", 4)
	for _, model := range []string{"A100", ""} {
		o.tracker.Update(station(model))
		check.Equal(t, "anomalies with "+model, 0, len(o.changes(pod)))
	}

	o.tracker.Update(station("Display"))
	check.Equal(t, "anomalies", 1, len(o.changes(pod)))

	o.tracker.SetMappings(card.Mappings{{Resource: "nvidia.com/gpu", Model: "Lab"}})
	found := o.changes(pod)
	check.Must(t, len(found) == 1, "anomalies %+v", found)
	check.Contains(t, "message", found[0].Message, "started as A100 and count as Lab now")
}

// TestAChangedModelOutlivesARestart of the operator, by what it wrote into the CardInventory.
func TestAChangedModelOutlivesARestart(t *testing.T) {
	var before operatorCounts
	old := running("old", "q", "station", 4)
	elsewhere := running("elsewhere", "q", "other", 1)

	before.tracker.Update(station("A100"))
	before.changes(old)
	before.tracker.Update(station("Display"))
	written := before.changes(old)
	check.Equal(t, "written", 1, len(written))

	for model, says := range map[string]string{
		"Display": "started as A100 and count as Display now",
		"A100":    "count as A100, and counted as another card in between",
	} {
		var after operatorCounts
		after.models.Restore(written)
		after.tracker.Update(station(model))
		after.tracker.Update(builder.Node("other").GPUs("A100", 8).Obj())
		found := after.changes(old, elsewhere)
		check.Must(t, len(found) == 1 && found[0].Count == 4, "anomalies %+v", found)
		check.Contains(t, "message", found[0].Message, says, "lab/old")
		check.Equal(t, "a younger pod", 1, len(after.changes(old, elsewhere, running("younger", "q", "station", 2))))
		check.Equal(t, "when it has ended", 0, len(after.changes(running("younger", "q", "station", 2))))
	}
}
