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

// inventoryOf is the CardInventory of the script's cluster with a CardQuota q of two H200, and
// changes of it.
func inventoryOf(change ...func(*v1alpha1.CardInventoryStatus)) *v1alpha1.CardInventory {
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

	for _, c := range change {
		c(&inventory.Status)
	}

	return inventory
}

// anomalyOf adds an anomaly of a card on the H200 node.
func anomalyOf(reason v1alpha1.AnomalyReason, card, resource string, count int64) func(*v1alpha1.CardInventoryStatus) {
	return func(s *v1alpha1.CardInventoryStatus) {
		s.Anomalies = append(s.Anomalies, v1alpha1.InventoryAnomaly{
			Reason: reason, Card: card, Resource: resource, Count: count, NodesTotal: 1, Nodes: []string{"h200-0"}, Message: "node h200-0",
		})
		s.AnomaliesTotal++
	}
}

// cardOf changes the entry of H200.
func cardOf(change func(c *v1alpha1.InventoryCard)) func(*v1alpha1.CardInventoryStatus) {
	return func(s *v1alpha1.CardInventoryStatus) { change(&s.Cards[1]) }
}

func TestInventory(t *testing.T) {
	type status = v1alpha1.CardInventoryStatus
	typed := func(name string, quota, used, pending int64) func(*status) {
		return cardOf(func(c *v1alpha1.InventoryCard) {
			c.Allocated = used
			c.ServiceTypes = []v1alpha1.InventoryServiceType{{Name: name, Quota: quota, Used: used, Pending: pending}}
		})
	}

	both := func(changes ...func(*status)) func(*status) {
		return func(s *status) {
			for _, c := range changes {
				c(s)
			}
		}
	}

	held := both(typed("training", 2, 1, 0), func(*status) {})
	outside := both(cardOf(func(c *v1alpha1.InventoryCard) {
		c.Allocated = 3
		c.ServiceTypes = []v1alpha1.InventoryServiceType{{Name: "none", Used: 3}, {Name: "training", Quota: 2}}
	}), anomalyOf(v1alpha1.AnomalyCardsOutsideQueues, h200, "", 3))

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		said func(*status)
		want string
	}{
		"right":             {"", nil, ""},
		"another total":     {"", cardOf(func(c *v1alpha1.InventoryCard) { c.Total = 9 }), "status"},
		"another resource":  {"", cardOf(func(c *v1alpha1.InventoryCard) { c.Resources = []string{"nvidia.com/other"} }), "status"},
		"another quota sum": {"", cardOf(func(c *v1alpha1.InventoryCard) { c.Quota = 3 }), "status"},
		"a deserved sum":    {"", cardOf(func(c *v1alpha1.InventoryCard) { c.Deserved = 1 }), "status"},
		"over-allocated":    {"", cardOf(func(c *v1alpha1.InventoryCard) { c.OverAllocatedBy = 1 }), "status"},
		"other nodes":       {"", func(s *status) { s.Nodes = 2 }, "status"},
		"a missing card":    {"", func(s *status) { s.Cards = s.Cards[1:] }, "status"},
		"a card too many":   {"", func(s *status) { s.Cards = append(s.Cards, v1alpha1.InventoryCard{Name: "NVIDIA-H800"}) }, "status"},
		"held":              {`place a node=h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1`, held, ""},
		"held, not said":    {`place a node=h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1`, nil, "status"},
		"pending":           {`write pod a cards=1 unschedulable=x; write quota q pending=1 blocked=pod:a,card:H200,count:1,reason:QuotaExhausted`, typed("training", 2, 0, 1), ""},
		"pending, not said": {`write pod a cards=1 unschedulable=x; write quota q pending=1 blocked=pod:a,card:H200,count:1,reason:QuotaExhausted`, nil, "status"},
		"unready": {`write node h200-0 ready=False`, cardOf(func(c *v1alpha1.InventoryCard) {
			c.Healthy = 0
			c.OverAllocatedBy = 2
		}), "status"},
		"unready, both said": {`write node h200-0 ready=False`, func(s *status) {
			s.Cards[1].Healthy = 0
			s.Cards[1].OverAllocatedBy = 2
			s.OverAllocatedCards = 1
		}, ""},
		"cordoned":           {`write node h200-0 cordoned=true`, cardOf(func(c *v1alpha1.InventoryCard) { c.Cordoned = 8 }), ""},
		"cordoned, not said": {`write node h200-0 cordoned=true`, nil, "status"},
		"outside queues":     {`place a node=h200-0 cards=3 queue=nowhere scheduler=other`, outside, "quota"},
		"outside, not said":  {`place a node=h200-0 cards=3 queue=nowhere scheduler=other`, nil, "quota status status"},
		"no anomaly said": {"", func(s *status) {
			s.Anomalies = nil
			s.AnomaliesTotal = 0
		}, "status"},
		"another count":      {"", func(s *status) { s.Anomalies[0].Count = 7 }, "status"},
		"another node":       {"", func(s *status) { s.Anomalies[0].Nodes = []string{"h200-0"} }, "status"},
		"no node named":      {"", func(s *status) { s.Anomalies[0].Message = "" }, "status"},
		"fewer than total":   {"", func(s *status) { s.AnomaliesTotal = 2 }, "status"},
		"an invented change": {"", anomalyOf(v1alpha1.AnomalyModelChanged, h200, "", 1), "status"},
		"an invented one":    {"", anomalyOf(v1alpha1.AnomalySeveralModels, "", "", 0), "status"},
		"an unmapped one":    {`write node h200-0 resource:amd.com/gpu=4`, anomalyOf(v1alpha1.AnomalyUnmappedResource, "", "amd.com/gpu", 4), ""},
		"unmapped, not said": {`write node h200-0 resource:amd.com/gpu=4`, nil, "status"},
		"a network device":   {`write node h200-0 resource:nvidia.com/hostdev=4`, anomalyOf(v1alpha1.AnomalyUnmappedResource, "", "nvidia.com/hostdev", 4), "status"},
		"ResourceClaims": {"", both(anomalyOf(v1alpha1.AnomalyResourceClaimCards, "", "", 8), func(s *status) {
			s.Anomalies[len(s.Anomalies)-1].Nodes = []string{"only-dra"}
			s.Nodes++
		}), ""},
		"a new plugin": {`write node h200-0 resource:new.example/npu=4`, anomalyOf(v1alpha1.AnomalyUnmappedResource, "", "new.example/npu", 4), ""},
		"two models": {`write node h200-0 label:huawei.com/npu.product=Ascend label:huawei.com/npu.memory=1024`, both(func(s *status) {
			s.Cards[1].Total = 0
			s.Cards[1].Healthy = 0
			s.Cards[1].Resources = nil
			s.Cards[1].OverAllocatedBy = 2
			s.OverAllocatedCards = 1
		}, anomalyOf(v1alpha1.AnomalySeveralModels, "", "", 0)), ""},
	}) {
		w := newScene().playScript(`load quota q used=0 free=2`).playScript(tc.text)
		for _, state := range w.machine.quotas {
			state.quota.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}}
			if len(state.quota.Status.Cards) > 0 {
				state.quota.Status.Cards[0].Physical = w.machine.inventory.Totals()[h200]
			}
		}

		inventory := inventoryOf()
		if tc.said != nil {
			tc.said(&inventory.Status)
		}

		w.applyObject(inventory, false)
		w.playScript(`check; wait 5s`)
		w.checkNow()
		if got := len(w.machine.violations); got > 1 {
			t.Errorf("too early: %v", w.machine.violations)
		}

		w.playScript(`wait 2s`).expectViolations(t, tc.want)
	}
}

func TestAMissingInventoryIsFoundWhereAnOperatorRan(t *testing.T) {
	w := newScene().playScript(`load quota q used=0 free=2; check; wait 1m; check`)
	for _, state := range w.machine.quotas {
		state.quota.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}}
	}
	w.playScript(`check; wait 1m`).expectViolations(t, "status")
	w.applyObject(inventoryOf(), false)
	w.checkNow()
	w.applyObject(inventoryOf(), true)
	w.playScript(`check; wait 1m`).expectViolations(t, "status status")
}

// Each entry must be right at some moment after Settle, while tests on the same cluster go on.
func TestAnEntryThatWasRightIsNotOpen(t *testing.T) {
	w := newScene().playScript(`load quota q used=0 free=2`)
	w.applyObject(inventoryOf(), false)
	w.machine.settling = w.clock
	w.playScript(`wait 1s; check; place a node=h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1; wait 1s`)
	if open := w.checkNow(); len(open) > 0 {
		t.Errorf("open is %v", open)
	}

	w.machine.settling = w.clock.Add(time.Second)
	if open := w.checkNow(); len(open) != 1 {
		t.Errorf("open is %v", open)
	}

	w.playScript(`wait 21s`).expectViolations(t, "status")
}

func TestAMappedCardIsRecounted(t *testing.T) {
	var options Options
	options.applyDefaults()
	options.Mappings = []rule.Mapping{{Resource: "amd.com/gpu", Model: "AMD-MI300X", NodeSelector: map[string]string{"zone": "a"}}}
	w := newScene()
	w.machine = newClusterState(options)
	w.playScript(`load node mi300x model= label:zone=a resource:nvidia.com/gpu= resource:amd.com/gpu=8; load node other model= resource:nvidia.com/gpu= resource:amd.com/gpu=2`)

	inventory := &v1alpha1.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.InventoryName}}
	inventory.Status = v1alpha1.CardInventoryStatus{
		Nodes: 2, Cards: []v1alpha1.InventoryCard{{Name: "AMD-MI300X", Resources: []string{"amd.com/gpu"}, Total: 8, Healthy: 8}}, AnomaliesTotal: 1,
		Anomalies: []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "amd.com/gpu", Count: 2, NodesTotal: 1, Nodes: []string{"other"}, Message: "node other"}},
	}

	w.applyObject(inventory, false)
	w.playScript(`check; wait 1m`).expectViolations(t, "")
	inventory = inventory.DeepCopy()
	inventory.Status.Cards[0].Name = "AMD-MI250X"
	w.applyObject(inventory, false)
	w.playScript(`check; wait 1m`).expectViolations(t, "status status")
}

func TestAnomaliesOfNodes(t *testing.T) {
	anomaly := func(reason v1alpha1.AnomalyReason, name string, count int64) []rule.Anomaly {
		return []rule.Anomaly{{Reason: reason, Name: name, Count: count}}
	}

	const (
		gpu    = "nvidia.com/gpu"
		mig    = "nvidia.com/mig-1g.18gb"
		shared = "nvidia.com/gpu.shared"
	)

	mapped := []rule.Mapping{{Resource: "amd.com/gpu", ModelLabel: "amd.com/model"}, {Resource: "amd.com/gpu", Model: "MI300X", NodeSelector: map[string]string{"zone": "a"}}}
	for t, tc := range check.Cases(t, map[string]struct {
		labels    map[string]string
		resources map[corev1.ResourceName]string
		want      []rule.Anomaly
	}{
		"no label":               {nil, map[corev1.ResourceName]string{gpu: "8", mig: "4"}, append(anomaly(v1alpha1.AnomalyNoModelLabel, gpu, 8), anomaly(v1alpha1.AnomalyNoModelLabel, mig, 4)...)},
		"a share without memory": {map[string]string{gpu + ".product": "H200", gpu + ".memory": "x", gpu + ".replicas": "2"}, map[corev1.ResourceName]string{shared: "4"}, anomaly(v1alpha1.AnomalyInvalidLabel, shared, 4)},
		"a slice beside another vendor": {map[string]string{"huawei.com/npu.product": "A", "huawei.com/npu.memory": "1"}, map[corev1.ResourceName]string{mig: "2"},
			anomaly(v1alpha1.AnomalyNoModelLabel, mig, 2)},
		"two candidates": {map[string]string{"huawei.com/npu.product": "A", "huawei.com/npu.memory": "1"}, map[corev1.ResourceName]string{"huawei.com/a": "2", "huawei.com/b": "2"},
			anomaly(v1alpha1.AnomalyAmbiguousResource, "", 0)},
		"an entry by a missing label": {nil, map[corev1.ResourceName]string{"amd.com/gpu": "2"}, anomaly(v1alpha1.AnomalyNoModelLabel, "amd.com/gpu", 2)},
		"two entries":                 {map[string]string{"zone": "a", "amd.com/model": "MI250X"}, map[corev1.ResourceName]string{"amd.com/gpu": "2"}, anomaly(v1alpha1.AnomalySeveralModels, "amd.com/gpu", 2)},
		"an entry by a bad label":     {map[string]string{"amd.com/model": "-"}, map[corev1.ResourceName]string{"amd.com/gpu": "2"}, anomaly(v1alpha1.AnomalyInvalidLabel, "amd.com/gpu", 2)},
	}) {
		node := builder.Node("n").With(func(n *corev1.Node) {
			n.Labels = tc.labels
			n.Status.Allocatable = corev1.ResourceList{}
			for name, count := range tc.resources {
				n.Status.Allocatable[name] = resource.MustParse(count)
			}
		}).Obj()
		check.Equal(t, "anomalies", tc.want, rule.AnomaliesOf(node, mapped, func(corev1.ResourceName) bool { return false }))
	}
}
