package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/rule"
)

// newInventory is the right CardInventory of three nodes, with 8 H200, 8 RTX4090 and 8 cards that no label names, and of
// a CardQuota of 2 H200 for training. None is used.
func newInventory() *v1alpha1.CardInventory {
	gpu := []string{string(builder.GPU)}
	inventory := &v1alpha1.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.InventoryName}}
	inventory.Status = v1alpha1.CardInventoryStatus{
		Nodes: 3,
		Cards: []v1alpha1.InventoryCard{
			{Name: rtx4090, Resources: gpu, Total: 8, Healthy: 8},
			{Name: h200, Resources: gpu, Total: 8, Healthy: 8, Quota: 2, ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "training", Quota: 2}}},
		},
		AnomaliesTotal: 1,
		Anomalies: []v1alpha1.InventoryAnomaly{{
			Reason: v1alpha1.AnomalyNoModelLabel, Resource: gpu[0], Count: 8, NodesTotal: 1, Nodes: []string{"unnamed-0"}, Message: "node unnamed-0: …",
		}},
	}

	return inventory
}

// TestTheCardInventoryEqualsARecount: the CardInventory has the cards of all nodes, and the sums of quotas, used and
// pending cards for each service type. It lists each node or resource that is not recognised as an anomaly. It may
// lag 6 s behind. Scene: node h200-0 has 8 H200, rtx4090-0 has 8 RTX4090, and unnamed-0 has 8 cards without a label,
// which is the one anomaly. CardQuota q of training has a quota of 2 H200. Each row plays steps, and then writes an
// inventory: the one that is right before the steps, with a change. "status" is the violation of a wrong inventory. A
// pod of a queue that does not exist is by itself the violation "quota".
func TestTheCardInventoryEqualsARecount(t *testing.T) {
	type status = v1alpha1.CardInventoryStatus
	type entry = v1alpha1.InventoryCard
	changeH200 := func(change func(c *entry)) func(*status) { return func(s *status) { change(&s.Cards[1]) } }

	// addAnomaly adds an anomaly of one node.
	addAnomaly := func(node string, reason v1alpha1.AnomalyReason, card, resource string, count int64) func(*status) {
		return func(s *status) {
			s.AnomaliesTotal++
			s.Anomalies = append(s.Anomalies, v1alpha1.InventoryAnomaly{
				Reason: reason, Card: card, Resource: resource, Count: count, NodesTotal: 1, Nodes: []string{node}, Message: "node " + node,
			})
		}
	}

	setTraining := func(used, pending int64) func(*status) {
		return changeH200(func(c *entry) {
			c.Allocated = used
			c.ServiceTypes = []v1alpha1.InventoryServiceType{{Name: "training", Quota: 2, Used: used, Pending: pending}}
		})
	}
	// overAllocateH200 leaves H200 without a healthy card, which is less than the quota of 2.
	overAllocateH200 := func(s *status) {
		s.Cards[1].Healthy = 0
		s.Cards[1].OverAllocatedBy = 2
		s.OverAllocatedCards = 1
	}

	const (
		oneUsed    = `place a node=h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1`
		onePending = `write pod a cards=1 unschedulable=x; write quota q pending=1 blocked=pod:a,card:H200,count:1,reason:QuotaExhausted`
		noQueue    = `place a node=h200-0 cards=3 queue=nowhere scheduler=other`
		unmapped   = `write node h200-0 resource:amd.com/gpu=4`
		twoModels  = `write node h200-0 label:huawei.com/npu.product=Ascend label:huawei.com/npu.memory=1024`
	)

	for t, tc := range check.Cases(t, map[string]struct {
		steps          string
		change         func(*status)
		wantViolations string
	}{
		"nothing changes":                {"", func(*status) {}, ""},
		"a total of 9 H200 instead of 8": {"", changeH200(func(c *entry) { c.Total = 9 }), "status"},
		"H200 cards of another resource": {
			"", changeH200(func(c *entry) { c.Resources = []string{"nvidia.com/other"} }), "status",
		},
		"a sum of quotas of 3 instead of 2":         {"", changeH200(func(c *entry) { c.Quota = 3 }), "status"},
		"a sum of deserved that no queue has":       {"", changeH200(func(c *entry) { c.Deserved = 1 }), "status"},
		"over-allocated, although 2 of 8 are quota": {"", changeH200(func(c *entry) { c.OverAllocatedBy = 1 }), "status"},
		"2 nodes instead of 3":                      {"", func(s *status) { s.Nodes = 2 }, "status"},
		"a card model is missing":                   {"", func(s *status) { s.Cards = s.Cards[1:] }, "status"},
		"a card model that no node has": {
			"", func(s *status) { s.Cards = append(s.Cards, entry{Name: "NVIDIA-H800"}) }, "status",
		},

		"a card is used, and training reads 1 used":               {oneUsed, setTraining(1, 0), ""},
		"a card is used, and training reads 0 used":               {oneUsed, func(*status) {}, "status"},
		"a pod waits, and training reads 1 pending":               {onePending, setTraining(0, 1), ""},
		"a pod waits, and training reads 0 pending":               {onePending, func(*status) {}, "status"},
		"a node is not ready: healthy and over-allocated changed": {`write node h200-0 ready=False`, overAllocateH200, ""},
		"a node is not ready, and the number of over-allocated models is wrong": {`write node h200-0 ready=False`, changeH200(func(c *entry) {
			c.Healthy = 0
			c.OverAllocatedBy = 2
		}), "status"},
		"a node is cordoned, and 8 read cordoned": {`write node h200-0 cordoned=true`, changeH200(func(c *entry) { c.Cordoned = 8 }), ""},
		"a node is cordoned, and 0 read cordoned": {`write node h200-0 cordoned=true`, func(*status) {}, "status"},

		"another scheduler placed a pod of no queue: an anomaly, and none of a service type": {noQueue, func(s *status) {
			addAnomaly("h200-0", v1alpha1.AnomalyCardsOutsideQueues, h200, "", 3)(s)
			s.Cards[1].Allocated = 3
			s.Cards[1].ServiceTypes = []v1alpha1.InventoryServiceType{{Name: "none", Used: 3}, {Name: "training", Quota: 2}}
		}, "quota"},
		"another scheduler placed a pod of no queue, and nothing changes": {noQueue, func(*status) {}, "quota status status"}, // the entry of H200 and the anomaly

		"the anomaly is missing": {"", func(s *status) {
			s.Anomalies = nil
			s.AnomaliesTotal = 0
		}, "status"},
		"the anomaly has 7 cards instead of 8":     {"", func(s *status) { s.Anomalies[0].Count = 7 }, "status"},
		"the anomaly names another node":           {"", func(s *status) { s.Anomalies[0].Nodes = []string{"h200-0"} }, "status"},
		"the message of the anomaly names no node": {"", func(s *status) { s.Anomalies[0].Message = "" }, "status"},
		"a total of 2 anomalies, and 1 is listed":  {"", func(s *status) { s.AnomaliesTotal = 2 }, "status"},
		"a change of model that did not happen":    {"", addAnomaly("h200-0", v1alpha1.AnomalyModelChanged, h200, "", 1), "status"},
		"several models on a node that has one":    {"", addAnomaly("h200-0", v1alpha1.AnomalySeveralModels, "", "", 0), "status"},
		"a resource without a label, as an anomaly": {
			unmapped, addAnomaly("h200-0", v1alpha1.AnomalyUnmappedResource, "", "amd.com/gpu", 4), "",
		},
		"a resource without a label, without an anomaly": {unmapped, func(*status) {}, "status"},
		"a network device, as an anomaly, which it is not": {
			`write node h200-0 resource:nvidia.com/hostdev=4`, addAnomaly("h200-0", v1alpha1.AnomalyUnmappedResource, "", "nvidia.com/hostdev", 4), "status",
		},
		"cards of a ResourceClaim, as an anomaly of a further node: the recount does not see claims": {"", func(s *status) {
			addAnomaly("only-dra", v1alpha1.AnomalyResourceClaimCards, "", "", 8)(s)
			s.Nodes++
		}, ""},
		"a resource of a vendor that the recount does not know, as an anomaly": {
			`write node h200-0 resource:new.example/npu=4`, addAnomaly("h200-0", v1alpha1.AnomalyUnmappedResource, "", "new.example/npu", 4), "",
		},
		"two models on a node: it has no recognised card, and an anomaly": {twoModels, func(s *status) {
			addAnomaly("h200-0", v1alpha1.AnomalySeveralModels, "", "", 0)(s)
			overAllocateH200(s)
			s.Cards[1].Total = 0
			s.Cards[1].Resources = nil
		}, ""},
	}) {
		s := newSceneWithQuotaOfTwo().playScript(`load quota q used=0 free=2`).playScript(tc.steps)
		s.markQuotasReady()
		for _, state := range s.observed.quotas { // the status of the CardQuota stays right if the steps change nodes
			if len(state.quota.Status.Cards) > 0 {
				state.quota.Status.Cards[0].Physical = s.observed.inventory.Totals()[h200]
			}
		}

		inventory := newInventory()
		tc.change(&inventory.Status)
		s.writeObject(inventory)

		s.playScript(`check; wait 5s; check`)
		// Only "quota" is reported at once.
		check.That(t, len(s.observed.violations) <= 1, "reported before 6 s are over: %v", s.observed.violations)
		s.playScript(`wait 2s`).expectViolations(t, tc.wantViolations)
	}
}

// markQuotasReady writes the condition from which the observer sees that an operator ran.
func (s *scene) markQuotasReady() {
	for _, state := range s.observed.quotas {
		state.quota.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}}
	}
}

// TestAMissingCardInventoryIsFoundWhereAnOperatorRan: the operator creates the CardInventory. Where no CardQuota has
// a condition, no operator ran, and no CardInventory is missing. As soon as an operator ran, the observer reports
// that there is no CardInventory. After one was created and deleted, it reports that again.
func TestAMissingCardInventoryIsFoundWhereAnOperatorRan(t *testing.T) {
	s := newSceneWithQuotaOfTwo().playScript(`load quota q used=0 free=2; check; wait 1m; check`)
	s.expectViolations(t, "")

	s.markQuotasReady()
	s.playScript(`check; wait 1m`).expectViolations(t, "status")

	s.writeObject(newInventory())
	s.checkNow()
	s.removeObject(newInventory())
	s.playScript(`check; wait 1m`).expectViolations(t, "status status")
}

// TestAnEntryThatWasRightOnceSinceSettleIsNotWrong: tests on one cluster run at the same time, so the CardInventory may
// never be right as a whole. Each entry must be right at some moment since the last call of Settle. The entry of H200
// was right 1 s after it. Then a pod used a card, and the entry still reads none.
func TestAnEntryThatWasRightOnceSinceSettleIsNotWrong(t *testing.T) {
	s := newSceneWithQuotaOfTwo().playScript(`load quota q used=0 free=2`)
	s.writeObject(newInventory())
	s.observed.settling = s.clock
	s.playScript(`
		wait 1s
		check
		place a node=h200-0 cards=1
		write quota q used=1 free=1
		write queue q allocated=H200:1
		wait 1s`)
	check.Equal(t, "wrong entries since the first Settle", 0, len(s.checkNow()))

	s.observed.settling = s.clock.Add(time.Second) // called again: the entry was not right since
	check.Equal(t, "wrong entries since the second Settle", 1, len(s.checkNow()))
	s.playScript(`wait 21s`).expectViolations(t, "status") // longer than the 6 s that the inventory may lag
}

// TestTheCardInventoryHasCardsOfAMapping: a mapping of the policy gives the cards of a resource a model, on
// nodes with a label, where the vendor's labels are missing. Node mi300x has the label zone=a and 8
// amd.com/gpu, so these are AMD-MI300X. Node other has 2 and no label, which is an anomaly. An inventory with
// another model is wrong twice: an entry is missing, and one is too many.
func TestTheCardInventoryHasCardsOfAMapping(t *testing.T) {
	var options Options
	options.applyDefaults()
	options.Mappings = []rule.Mapping{{Resource: "amd.com/gpu", Model: "AMD-MI300X", NodeSelector: map[string]string{"zone": "a"}}}
	s := newSceneWithQuotaOfTwo()
	s.observed = newClusterState(options)
	s.playScript(`
		load node mi300x model= label:zone=a resource:nvidia.com/gpu= resource:amd.com/gpu=8
		load node other model= resource:nvidia.com/gpu= resource:amd.com/gpu=2`)

	inventory := &v1alpha1.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.InventoryName}}
	inventory.Status = v1alpha1.CardInventoryStatus{
		Nodes:          2,
		Cards:          []v1alpha1.InventoryCard{{Name: "AMD-MI300X", Resources: []string{"amd.com/gpu"}, Total: 8, Healthy: 8}},
		AnomaliesTotal: 1,
		Anomalies: []v1alpha1.InventoryAnomaly{{
			Reason: v1alpha1.AnomalyNoModelLabel, Resource: "amd.com/gpu", Count: 2, NodesTotal: 1, Nodes: []string{"other"}, Message: "node other",
		}},
	}
	s.writeObject(inventory)
	s.playScript(`check; wait 1m`).expectViolations(t, "")

	wrong := inventory.DeepCopy()
	wrong.Status.Cards[0].Name = "AMD-MI250X"
	s.writeObject(wrong)
	s.playScript(`check; wait 1m`).expectViolations(t, "status status")
}

// TestNodesThatAreNotRecognisedAreAnomalies: the observer finds anomalies by a rule of its own. A resource of cards
// is an anomaly if no label or mapping names its model, if several do, or if the label is invalid. A node is one if
// its label names a model and two resources may be its cards. Two mappings name the model of amd.com/gpu: by the
// label amd.com/model, and as MI300X on nodes with zone=a.
func TestNodesThatAreNotRecognisedAreAnomalies(t *testing.T) {
	const (
		gpu    = "nvidia.com/gpu"
		mig    = "nvidia.com/mig-1g.18gb"
		shared = "nvidia.com/gpu.shared"
		amd    = "amd.com/gpu"
	)
	type labels = map[string]string
	type resources = map[corev1.ResourceName]string
	type anomalies = []rule.Anomaly
	mappings := []rule.Mapping{
		{Resource: amd, ModelLabel: "amd.com/model"},
		{Resource: amd, Model: "MI300X", NodeSelector: labels{"zone": "a"}},
	}
	ascend := labels{"huawei.com/npu.product": "A", "huawei.com/npu.memory": "1"}

	for t, tc := range check.Cases(t, map[string]struct {
		labels    labels
		resources resources
		want      anomalies
	}{
		"a label names the model: no anomaly": {labels{gpu + ".product": "H200", gpu + ".memory": "81559"}, resources{gpu: "8"}, nil},
		"no label, cards and MIG slices": {
			nil, resources{gpu: "8", mig: "4"},
			anomalies{{Reason: v1alpha1.AnomalyNoModelLabel, Name: gpu, Count: 8}, {Reason: v1alpha1.AnomalyNoModelLabel, Name: mig, Count: 4}},
		},
		"a shared card whose label of memory is no number": {
			labels{gpu + ".product": "H200", gpu + ".memory": "x", gpu + ".replicas": "2"}, resources{shared: "4"},
			anomalies{{Reason: v1alpha1.AnomalyInvalidLabel, Name: shared, Count: 4}},
		},
		"a MIG slice of NVIDIA, and labels of Huawei only": {
			ascend, resources{mig: "2"},
			anomalies{{Reason: v1alpha1.AnomalyNoModelLabel, Name: mig, Count: 2}},
		},
		"one model, and two resources that may be its cards": {
			ascend, resources{"huawei.com/a": "2", "huawei.com/b": "2"},
			anomalies{{Reason: v1alpha1.AnomalyAmbiguousResource}},
		},
		"a mapping by a label that the node does not have": {
			nil, resources{amd: "2"},
			anomalies{{Reason: v1alpha1.AnomalyNoModelLabel, Name: amd, Count: 2}},
		},
		"two mappings that name different models": {
			labels{"zone": "a", "amd.com/model": "MI250X"}, resources{amd: "2"},
			anomalies{{Reason: v1alpha1.AnomalySeveralModels, Name: amd, Count: 2}},
		},
		"a mapping by a label that is no valid model": {
			labels{"amd.com/model": "-"}, resources{amd: "2"},
			anomalies{{Reason: v1alpha1.AnomalyInvalidLabel, Name: amd, Count: 2}},
		},
	}) {
		node := builder.Node("n").With(func(n *corev1.Node) {
			n.Labels = tc.labels
			n.Status.Allocatable = corev1.ResourceList{}
			for name, count := range tc.resources {
				n.Status.Allocatable[name] = resource.MustParse(count)
			}
		}).Obj()
		wasCard := func(corev1.ResourceName) bool { return false } // no resource was a card before
		check.Equal(t, "anomalies", tc.want, rule.AnomaliesOf(node, mappings, wasCard))
	}
}
