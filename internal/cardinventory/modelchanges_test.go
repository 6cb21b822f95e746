package cardinventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/queueusage"
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
	usage, charges := queueusage.CountWithCharges(queueusage.Input{Pods: pods, Inventory: inventory, LastCharges: o.charges})
	o.charges = charges
	status := NewStatus(Input{
		Nodes: o.tracker.TrackedNodes(),
		Cards: inventory,
		Count: NewCount(CountInput{
			Tree:    cardquota.Flat,
			Pods:    pods,
			Charges: charges,
			Usage:   usage,
			Totals:  cardquota.Flat.QuotaTotals(nil, nil, nil),
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

// newStation is a node station with 8 cards of a model.
func newStation(model string) *corev1.Node { return builder.Node("station").GPUs(model, 8).Obj() }

// TestAChangedModelIsAnAnomalyWhileItsPodsRun: a node's label changes from A100 to Display while pod old uses 4 of
// its cards. The pod then counts as Display, so its queue may use more than its quota, and nothing else says why. So
// there is an anomaly until pod old ends, also when the label changes back. Pod younger starts after the change, and
// has none. Pods that have ended are forgotten.
func TestAChangedModelIsAnAnomalyWhileItsPodsRun(t *testing.T) {
	var operator operatorCounts
	operator.tracker.Update(newStation("A100"))
	old := runningPod("old", "q", "station", 4)
	younger := runningPod("younger", "q", "station", 1)
	check.Equal(t, "anomalies before the change", 0, len(operator.changes(old)))

	operator.tracker.Update(newStation("Display"))
	found := operator.changes(old, younger)
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

	operator.tracker.Update(newStation("A100"))
	found = operator.changes(old)
	check.Must(t, len(found) == 1, "anomalies after the change back %+v", found)
	check.Contains(t, "message after the change back", found[0].Message, "count as A100, and counted as Display in between")
	check.Equal(t, "anomalies in the next count", 1, len(operator.changes(old)))
	check.Equal(t, "anomalies when pod old has ended", 0, len(operator.changes(younger)))
	check.Equal(t, "pods that are known", 1, len(operator.models.pods))
}

// TestWhatIsNoChangedModel: pod old uses 4 A100 of node station. In each row it still counts for the same card, or
// an administrator mapped the card to another name, or the pod is another one. So there is no anomaly of a changed
// model.
func TestWhatIsNoChangedModel(t *testing.T) {
	pod := runningPod("old", "q", "station", 4)
	for t, change := range check.Cases(t, map[string]func(operator *operatorCounts){
		"the labels vanish and return": func(operator *operatorCounts) {
			operator.tracker.Update(builder.Node("station").GPUs("", 8).Obj())
			operator.changes(pod)
			operator.tracker.Update(newStation("A100"))
		},
		"the labels vanish":     func(operator *operatorCounts) { operator.tracker.Update(builder.Node("station").GPUs("", 8).Obj()) },
		"the node is gone":      func(operator *operatorCounts) { operator.tracker.Delete("station") },
		"one of 8 cards breaks": func(operator *operatorCounts) { operator.tracker.Update(builder.Node("station").GPUs("A100", 7).Obj()) },
		"the administrator maps the card to another name": func(operator *operatorCounts) {
			operator.tracker.SetMappings(card.Mappings{{Resource: "nvidia.com/gpu", Model: "Lab"}})
			operator.changes(pod)
			operator.tracker.Update(builder.Node("other").Obj()) // another count with the mapping
		},
		"the pod is another one of the same name, which started after the change": func(operator *operatorCounts) {
			operator.changes()
			operator.tracker.Update(newStation("Display"))
		},
	}) {
		var operator operatorCounts
		operator.tracker.Update(newStation("A100"))
		operator.changes(pod)

		change(&operator)
		check.Equal(t, "anomalies", 0, len(operator.changes(pod)))
	}
}

// TestAChangedModelIsOneAfterLabelsVanished: the labels of the node vanish between A100 and Display. The pod started
// as A100, so the change to Display is an anomaly all the same. A mapping to Lab after that leaves the anomaly,
// because the model had changed before.
func TestAChangedModelIsOneAfterLabelsVanished(t *testing.T) {
	var operator operatorCounts
	pod := runningPod("old", "q", "station", 4)
	for _, model := range []string{"A100", ""} {
		operator.tracker.Update(newStation(model))
		check.Equal(t, "anomalies with "+model, 0, len(operator.changes(pod)))
	}

	operator.tracker.Update(newStation("Display"))
	check.Equal(t, "anomalies", 1, len(operator.changes(pod)))

	operator.tracker.SetMappings(card.Mappings{{Resource: "nvidia.com/gpu", Model: "Lab"}})
	found := operator.changes(pod)
	check.Must(t, len(found) == 1, "anomalies %+v", found)
	check.Contains(t, "message", found[0].Message, "started as A100 and count as Lab now")
}

// TestAChangedModelOutlivesARestart: the operator restarts after the model changed from A100 to Display. It
// reads the anomaly from the CardInventory, so pod old of that node still has it, with the label Display or
// with A100 again. The operator no longer knows the card in between. Pod elsewhere, of another node, and pod
// younger, which started after the restart, have none.
func TestAChangedModelOutlivesARestart(t *testing.T) {
	var before operatorCounts
	old := runningPod("old", "q", "station", 4)
	elsewhere := runningPod("elsewhere", "q", "other", 1)

	before.tracker.Update(newStation("A100"))
	before.changes(old)
	before.tracker.Update(newStation("Display"))
	written := before.changes(old)
	check.Equal(t, "written", 1, len(written))

	for model, want := range map[string]string{
		"Display": "started as A100 and count as Display now",
		"A100":    "count as A100, and counted as another card in between",
	} {
		var after operatorCounts
		after.models.Restore(written)
		after.tracker.Update(newStation(model))
		after.tracker.Update(builder.Node("other").GPUs("A100", 8).Obj())
		found := after.changes(old, elsewhere)
		check.Must(t, len(found) == 1 && found[0].Count == 4, "anomalies %+v", found)
		check.Contains(t, "message", found[0].Message, want, "lab/old")
		check.Equal(t, "anomalies beside a younger pod", 1, len(after.changes(old, elsewhere, runningPod("younger", "q", "station", 2))))
		check.Equal(t, "anomalies when pod old has ended", 0, len(after.changes(runningPod("younger", "q", "station", 2))))
	}
}
