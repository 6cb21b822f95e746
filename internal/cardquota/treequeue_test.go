package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func noTypes(string) (servicetype.Type, bool) { return servicetype.Type{}, false }

// below is a live Queue below a parent, with the annotations of a CardQuota of a tree.
func below(parent string, q *v1alpha1.CardQuota, changes ...func(*v1beta1.Queue)) *v1beta1.Queue {
	live := liveQueue(func(l *v1beta1.Queue) {
		l.Name = q.QueueName()
		l.Spec.Parent = parent
		l.Annotations = treeAnnotations(q)
	}, wrote("cardquota", "Apply", `{"f:spec":{"f:parent":{}}}`))
	for _, change := range changes {
		change(live)
	}
	return live
}

func TestQueueOfATreeCarriesItsFields(t *testing.T) {
	all := tenantTree(func(all map[string]*v1alpha1.CardQuota) {
		all["web"].Spec.Resources = &v1alpha1.Resources{CPU: ptr(resource.MustParse("64")), Memory: ptr(resource.MustParse("1Ti"))}
		all["chat"].Spec.Resources = &v1alpha1.Resources{Memory: ptr(resource.MustParse("512Gi")),
			Deserved: &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("256Gi"))}, Guarantee: &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("1Gi"))}}
		all["tenant"].Spec.Resources = &v1alpha1.Resources{CPU: ptr(resource.MustParse("32")), Memory: ptr(resource.MustParse("4Ti")),
			Guarantee: &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("1Gi"))}}
		all["web"].Spec.Resources.Guarantee = &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("1Gi"))}
		all["lab"].Spec.StopPolicy = "Hold"
		all["lab"].Spec.Weight = ptr(int32(3))
		all["lab"].Spec.Priority = ptr(int32(7))
	})

	tree := treeOf(all)
	common := func(name, cardQuota, deserved string) *apply.QueueApplyConfiguration {
		return apply.Queue(name).WithResourceVersion("1").WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"}).
			WithAnnotations(map[string]string{"volcano.sh/card.quota": cardQuota, "volcano.sh/card.deserved": deserved,
				"volcano.sh/closed-by-parent": "false", "cardquota.dev/created-by": name})
	}

	for t, tc := range check.Cases(t, map[string]struct {
		name, parent string
		want         *apply.QueueApplyConfiguration
	}{
		"a leaf": {"chat", "web", common("chat", `{"H200":8}`, `{"H200":4}`).
			WithAnnotations(map[string]string{"volcano.sh/card.guarantee": `{"H200":4}`, "volcano.sh/service.type": "training"}).
			WithSpec(apply.QueueSpec().WithParent("web").WithPriority(20000).WithReclaimable(true).
				WithCapability(builder.Resources("", "512Gi")).WithDeserved(builder.Resources("", "256Gi")).WithGuarantee(apply.Guarantee().WithResource(builder.Resources("", "1Gi"))))},
		"a parent: no service type, and no more CPU than its own parent": {"web", "tenant", common("web", `{"H200":12}`, `{"H200":8}`).
			WithAnnotations(map[string]string{"volcano.sh/card.guarantee": `{"H200":4}`, "cardquota.dev/parent-only": "true"}).
			WithSpec(apply.QueueSpec().WithParent("tenant").WithCapability(builder.Resources("32", "1Ti")).WithDeserved(builder.Resources("", "1Ti")).
				WithGuarantee(apply.Guarantee().WithResource(builder.Resources("", "1Gi"))))},
		"an inherited quota is not written; hold, weight and priority": {"lab", "tenant", common("lab", `{}`, `{"H200":8}`).
			WithAnnotations(map[string]string{"volcano.sh/stop-policy": "Hold", "volcano.sh/service.type": "training"}).
			WithSpec(apply.QueueSpec().WithParent("tenant").WithPriority(20007).WithReclaimable(true).WithWeight(3))},
		"the top level": {"other", "root", common("other", `{"H200":4}`, `{"H200":4}`).
			WithAnnotations(map[string]string{"volcano.sh/service.type": "training"}).
			WithSpec(apply.QueueSpec().WithParent("root").WithPriority(20000).WithReclaimable(true))},
	}) {
		place := tree.Placement(all[tc.name], tc.parent)
		got := NewDesiredQueue(all[tc.name], PolicyInput{Types: servicetype.BuiltIn}, nil, "", &place)
		check.Equal(t, "Queue", tc.want, got.Config)
		check.That(t, !got.InSync(nil), "there is no Queue yet")
	}
}

// TestFlatQueueCarriesNoFieldOfATree: the scheduler would otherwise read numbers that do not
// count.
func TestFlatQueueCarriesNoFieldOfATree(t *testing.T) {
	q := node("team", "tenant", 8, 4, 2, stopping("HoldAndDrain"), func(q *v1alpha1.CardQuota) {
		q.Spec.Resources = &v1alpha1.Resources{CPU: ptr(resource.MustParse("8")), Deserved: &v1alpha1.ResourceAmounts{CPU: ptr(resource.MustParse("4"))}}
	})
	config := NewDesiredQueue(q, PolicyInput{Types: noTypes}, nil, "", nil).Config
	check.Equal(t, "annotations", map[string]string{"volcano.sh/card.quota": `{"H200":8}`, "volcano.sh/service.type": "training", "volcano.sh/stop-policy": "HoldAndDrain",
		"volcano.sh/closed-by-parent": "false", "cardquota.dev/created-by": "team"}, config.Annotations)
	check.Equal(t, "spec", apply.QueueSpec().WithParent("root").WithCapability(corev1.ResourceList{"cpu": resource.MustParse("8")}), config.Spec)
	parent := NewDesiredQueue(node("team", "", 8, 4, 2, parentOnly), PolicyInput{Types: noTypes}, nil, "", nil).Config
	check.Equal(t, "a parent takes no jobs", "true", parent.Annotations["cardquota.dev/parent-only"])
}

// TestAQueueWithoutAPathIsHeld: the Queue stays where it was when the CardQuota loses its path to
// the top level. The conditions say that nothing new starts there.
func TestAQueueWithoutAPathIsHeld(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change treeChange
		want   string
		why    string
	}{
		"placed": {},
		"no parent": {without("web"), "Hold",
			"CardQuota chat: spec.parent names CardQuota web, which does not exist or does not own its queue; create it, or name another parent"},
		"no parent's parent": {without("tenant"), "Hold",
			"CardQuota chat: its ancestor web names CardQuota tenant, which does not exist or does not own its queue; create it, or name another parent"},
		"a cycle": {in("tenant", under("chat")), "Hold",
			"CardQuota chat: its ancestor tenant names CardQuota chat, and these parents form a cycle; give one of them another parent"},
		"drained without a parent": {func(all map[string]*v1alpha1.CardQuota) {
			without("web")(all)
			in("chat", stopping("HoldAndDrain"))(all)
		}, "HoldAndDrain", ""},
		"held above": {in("web", stopping("Hold")), "", ""},
	}) {
		all := tenantTree(tc.change)

		place, _ := treeOf(all).Placement(all["chat"], "web").Stage(all["chat"], Family{})
		queue := NewDesiredQueue(all["chat"], PolicyInput{Types: noTypes}, below("web", all["chat"]), "", &place)
		check.Equal(t, "stop policy", tc.want, queue.Config.Annotations[v1alpha1.AnnotationStopPolicy])
		check.Equal(t, "hold message", tc.why, queue.Config.Annotations[v1alpha1.AnnotationHoldMessage])
	}
}

// TestALostPathIsNoChangeOfOthers: the operator holds a Queue that it wrote before. No other manager
// caused that difference, and none causes the next one, when the path is there again.
func TestALostPathIsNoChangeOfOthers(t *testing.T) {
	all := tenantTree()
	held := Placement{Parent: "web", HoldMessage: "CardQuota chat: no path"}
	const owned = `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{},"f:volcano.sh/card.deserved":{},"f:volcano.sh/card.guarantee":{}%s}},"f:spec":{"f:parent":{}}}`
	live := func(more string) *v1beta1.Queue {
		return below("web", all["chat"], func(l *v1beta1.Queue) {
			l.ManagedFields = []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", fmt.Sprintf(owned, more))}
		})
	}

	wanted := func(place Placement) DesiredQueue {
		return NewDesiredQueue(all["chat"], PolicyInput{Types: noTypes}, live(""), "", &place)
	}
	check.That(t, wanted(held).TreeChanged(live("")), "the lost path counts as a change of another manager")
	check.That(t, wanted(Placement{Parent: "web"}).TreeChanged(live(`,"f:volcano.sh/stop-policy":{},"f:cardquota.dev/hold-message":{}`)), "the path that is there again counts as a change of another manager")
	check.That(t, !wanted(Placement{Parent: "web"}).TreeChanged(live("")), "nothing changed")
}

func TestPlaceQueue(t *testing.T) {
	all := tenantTree()
	web := all["web"]
	for t, tc := range check.Cases(t, map[string]struct {
		change     treeChange
		neighbors  Neighbors
		parent     string
		wantWait   string
		wantsQueue bool // the Queue may be written although it waits
	}{
		"a new Queue below its parent": {neighbors: Neighbors{Parent: below("tenant", web)}, parent: "web"},
		"it is there already":          {neighbors: Neighbors{Live: below("web", all["chat"])}, parent: "web"},
		"it moves": {neighbors: Neighbors{Live: below("tenant", all["chat"]), Parent: below("tenant", web), AboveParent: []string{"tenant"}},
			parent: "web"},
		"the parent's Queue is missing": {parent: "root",
			wantWait: "WaitingForParent: queue chat is not created: queue web of its parent web does not exist yet"},
		"the parent's Queue is missing, and this one exists": {neighbors: Neighbors{Live: below("", all["chat"])}, parent: "root", wantsQueue: true,
			wantWait: "WaitingForParent: queue chat stays at the top level: queue web of its parent web does not exist yet"},
		"the parent's Queue has other cards": {neighbors: Neighbors{Live: below("tenant", all["chat"]), Parent: below("tenant", web, func(l *v1beta1.Queue) {
			l.Annotations[v1alpha1.AnnotationCardQuota] = "{}"
		})}, parent: "tenant", wantsQueue: true,
			wantWait: "WaitingForParent: queue chat stays below queue tenant: queue web does not carry the quota of its parent web yet"},
		"the parent's Queue is still below this one": {neighbors: Neighbors{Live: below("tenant", all["chat"]), Parent: below("x", web), AboveParent: []string{"x", "chat"}},
			parent: "tenant", wantsQueue: true, wantWait: "WaitingForParent: queue chat stays below queue tenant: queue web of its parent web is still below it"},
		"the parent does not exist": {change: without("web"), parent: "root",
			wantWait: "ParentNotFound: queue chat is not created: spec.parent names CardQuota web, which does not exist or does not own its queue: nothing new starts here and below; create it, or name another parent"},
		"the parent's parent does not exist": {change: without("tenant"),
			neighbors: Neighbors{Live: below("web", all["chat"])}, parent: "web", wantsQueue: true,
			wantWait: "ParentNotFound: queue chat stays below queue web: its ancestor web names CardQuota tenant, which does not exist or does not own its queue: nothing new starts here and below; create it, or name another parent"},
		"a cycle": {change: in("tenant", under("chat")), neighbors: Neighbors{Live: below("old", all["chat"])},
			parent: "old", wantsQueue: true,
			wantWait: "ParentCycle: queue chat stays below queue old: its ancestor tenant names CardQuota chat, and these parents form a cycle: nothing new starts here and below; give one of them another parent"},
		"to the top level": {change: in("chat", under("")), neighbors: Neighbors{Live: below("web", all["chat"])}, parent: "root"},
	}) {
		all := tenantTree(tc.change)
		parent, wait := treeOf(all).PlaceQueue(all["chat"], tc.neighbors)
		check.Equal(t, "parent", tc.parent, parent)

		got := ""
		if wait != nil {
			got = wait.Reason + ": " + wait.Message
			check.Equal(t, "the Queue is left alone", !tc.wantsQueue, wait.KeepsQueue)
		}

		check.Equal(t, "wait", tc.wantWait, got)
	}
}

func TestParentOfOtherManagers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		live, manager, want string
		managedBy           string
	}{
		"not set yet":                              {live: "", want: "web"},
		"as wanted":                                {live: "web", manager: "kubectl-edit", want: "web"},
		"our own":                                  {live: "tenant", manager: v1alpha1.FieldManager, want: "web"},
		"our own, back to the top level":           {live: "tenant", manager: v1alpha1.FieldManager, want: "root"},
		"what Volcano's queue controller filled":   {live: "root", manager: "vc-controller-manager", want: "web"},
		"without an owner":                         {live: "root", want: "web"},
		"another manager's":                        {live: "department", manager: "kubectl-edit", want: "web", managedBy: "kubectl-edit"},
		"another manager's at the top level":       {live: "root", manager: "helm", want: "web", managedBy: "helm"},
		"flat: another manager's":                  {live: "department", manager: "helm", want: "root", managedBy: "helm"},
		"flat: placed below without an owner":      {live: "department", want: "root", managedBy: "another client"},
		"flat: one that queue controller manages":  {live: "department", manager: "vc-controller-manager", want: "root", managedBy: "vc-controller-manager"},
		"no wish, as for a Queue that is deserted": {live: "department", manager: "helm", want: ""},
	}) {
		operation := "Update"
		if tc.manager == v1alpha1.FieldManager {
			operation = "Apply"
		}

		live := liveQueue(func(q *v1beta1.Queue) { q.Spec.Parent = tc.live })
		if tc.manager != "" {
			live.ManagedFields = append(live.ManagedFields, wrote(tc.manager, metav1.ManagedFieldsOperationType(operation), `{"f:spec":{"f:parent":{}}}`))
		}
		check.Equal(t, "held by", tc.managedBy, otherParentManager(live, tc.want))
	}

	// An apply that meets the queue controller takes the field, any other conflict yields it.
	for manager, wantYield := range map[string]bool{"vc-controller-manager": false, "kubectl-edit": true} {
		place := Placement{Parent: "web"}
		desired := NewDesiredQueue(node("chat", "web", 8, 4, 0), PolicyInput{Types: noTypes}, liveQueue(nil), "", &place)
		check.Equal(t, "yields to "+manager, wantYield, desired.YieldField(FieldConflict{Manager: manager, Field: fieldParent}))
		check.Equal(t, "parent is applied", !wantYield, desired.Config.Spec != nil && desired.Config.Spec.Parent != nil)
	}
}

func TestAQueueThatGoesStaysWhereItIs(t *testing.T) {
	q := node("chat", "web", 8, 4, 2)
	for name, config := range map[string]*apply.QueueApplyConfiguration{
		"drained": NewDrainedQueue(q, below("web", q), "").Config, "abandoned": NewAbandonedQueue(q, below("web", q)).Config,
	} {
		check.Equal(t, name, apply.QueueSpec().WithParent("web"), config.Spec)
		check.Equal(t, name+" has no cards", "{}", config.Annotations[v1alpha1.AnnotationCardQuota])
		check.Equal(t, name+" deserves nothing", "", config.Annotations[v1alpha1.AnnotationCardDeserved])
	}
	foreign := below("department", q, func(l *v1beta1.Queue) { l.ManagedFields = nil })
	check.That(t, NewDrainedQueue(q, foreign, "").Config.Spec == nil, "the parent of another manager is claimed")
}

func TestTreeChanged(t *testing.T) {
	all := tenantTree(func(all map[string]*v1alpha1.CardQuota) {
		all["chat"].Spec.Resources = &v1alpha1.Resources{CPU: ptr(resource.MustParse("8"))}
	})
	place := Placement{Parent: "web", Limit: quota.Amounts{quota.CPUName: 8000}, Deserved: quota.Amounts{quota.CPUName: 8000}}
	desired := NewDesiredQueue(all["chat"], PolicyInput{Types: noTypes}, liveQueue(nil), "", &place)

	const owned = `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{},"f:volcano.sh/card.deserved":{},"f:volcano.sh/card.guarantee":{}}},"f:spec":{"f:parent":{},"f:capability":{"f:cpu":{}},"f:deserved":{"f:cpu":{}}}}`
	synced := func() *v1beta1.Queue {
		live := below("web", all["chat"], func(l *v1beta1.Queue) {
			l.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("8")}
			l.Spec.Deserved = corev1.ResourceList{"cpu": resource.MustParse("8")}
			l.ManagedFields = nil
		})
		live.ManagedFields = append(live.ManagedFields, wrote("cardquota", "Apply", owned))
		return live
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*v1beta1.Queue)
		want   bool
	}{
		"nothing":                {func(*v1beta1.Queue) {}, false},
		"another parent":         {func(l *v1beta1.Queue) { l.Spec.Parent = "tenant" }, true},
		"the parent was lowered": {func(l *v1beta1.Queue) { l.Spec.Deserved["cpu"] = resource.MustParse("9") }, true},
		"another capability":     {func(l *v1beta1.Queue) { l.Spec.Capability["cpu"] = resource.MustParse("9") }, true},
		"a guarantee is not wanted more": {func(l *v1beta1.Queue) {
			l.ManagedFields[0] = wrote("cardquota", "Apply", owned[:len(owned)-2]+`,"f:guarantee":{"f:resource":{"f:cpu":{}}}}}`)
		}, true},
		"flat before": {func(l *v1beta1.Queue) {
			l.ManagedFields[0] = wrote("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{}}}}`)
		}, true},
		"kubectl changed deserved": {func(l *v1beta1.Queue) {
			l.Spec.Deserved["cpu"] = resource.MustParse("9")
			l.ManagedFields = []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{},"f:volcano.sh/card.deserved":{},"f:volcano.sh/card.guarantee":{}}},"f:spec":{"f:parent":{},"f:capability":{"f:cpu":{}}}}`),
				wrote("kubectl-edit", "Update", `{"f:spec":{"f:deserved":{"f:cpu":{}}}}`)}
		}, false},
	}) {
		live := synced()
		tc.change(live)
		check.Equal(t, "changed", tc.want, desired.TreeChanged(live))
	}

	check.That(t, !desired.TreeChanged(nil), "a Queue that is not there did not change")
}

func TestCutPriority(t *testing.T) {
	types := map[string]servicetype.Type{"training": {Priority: 100}, "inference": {Priority: 150}}
	input := PolicyInput{
		Types: func(name string) (servicetype.Type, bool) { t, ok := types[name]; return t, ok },
		Bands: func(name string) (servicetype.Band, bool) { return servicetype.BandFor(name, types) },
	}

	for t, tc := range check.Cases(t, map[string]struct {
		serviceType string
		priority    *int32
		want        int32
		cut         bool
	}{
		"none":             {"training", nil, 100, false},
		"within the band":  {"training", ptr(int32(49)), 149, false},
		"into the next":    {"training", ptr(int32(50)), 149, true},
		"the highest type": {"inference", ptr(int32(9999)), 10149, false},
	}) {
		q := node("a", "", 1, 1, -1, ofType(tc.serviceType))
		q.Spec.Priority = tc.priority
		check.Equal(t, "priority", tc.want, *NewDesiredQueue(q, input, nil, "", nil).Config.Spec.Priority)
		check.Equal(t, "cut", tc.cut, input.CutPriority(q) != "")
	}

	check.Equal(t, "no type", "", input.CutPriority(node("a", "", 1, 1, -1, parentOnly)))
}
