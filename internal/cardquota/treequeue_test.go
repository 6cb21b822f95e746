package cardquota

import (
	"fmt"
	"strings"
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

// noTypes defines no service type.
func noTypes(string) (servicetype.Type, bool) { return servicetype.Type{}, false }

// liveQueueBelow is the live Queue of a CardQuota below a parent, with the cards that a tree writes. The operator
// owns its spec.parent.
func liveQueueBelow(parent string, q *v1alpha1.CardQuota, changes ...func(*v1beta1.Queue)) *v1beta1.Queue {
	live := liveQueue(func(l *v1beta1.Queue) {
		l.Name = q.QueueName()
		l.Spec.Parent = parent
		l.Annotations = treeAnnotations(q)
	}, managedFields("cardquota", "Apply", `{"f:spec":{"f:parent":{}}}`))
	for _, change := range changes {
		change(live)
	}
	return live
}

// TestQueueOfATreeCarriesItsFields: in a tree, the Queue of a CardQuota carries its parent, the quota as written,
// what it deserves and its guarantee. CPU and memory are those in force: web writes 64 CPU, and tenant has 32, so 32
// are in force. Web writes no deserved memory, so it deserves its limit. No CardQuota writes deserved or guaranteed
// CPU, so no Queue carries any. CPU and memory that a CardQuota does not limit is listed as unlimited: the scheduler
// takes the limit of the parent. The scheduler computes an inherited quota of cards itself, so it is not written.
// Training has priority 20000. The H200 of the tree are, as quota, deserved and guarantee: tenant 16, 16, 8 > web 12,
// 8, 4 > chat 8, 4, 4; tenant > lab none, 8, none; other 4, 4, none.
func TestQueueOfATreeCarriesItsFields(t *testing.T) {
	all := newTenantTree(func(all map[string]*v1alpha1.CardQuota) {
		all["web"].Spec.Resources = &v1alpha1.Resources{
			CPU:       ptr(resource.MustParse("64")),
			Memory:    ptr(resource.MustParse("1Ti")),
			Guarantee: &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("1Gi"))},
		}
		all["chat"].Spec.Resources = &v1alpha1.Resources{
			Memory:    ptr(resource.MustParse("512Gi")),
			Deserved:  &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("256Gi"))},
			Guarantee: &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("1Gi"))},
		}
		all["tenant"].Spec.Resources = &v1alpha1.Resources{
			CPU:       ptr(resource.MustParse("32")),
			Memory:    ptr(resource.MustParse("4Ti")),
			Guarantee: &v1alpha1.ResourceAmounts{Memory: ptr(resource.MustParse("1Gi"))},
		}

		all["lab"].Spec.StopPolicy = "Hold"
		all["lab"].Spec.Weight = ptr(int32(3))
		all["lab"].Spec.Priority = ptr(int32(7))
	})

	tree := treeOf(all)
	// queueWith is what each of these Queues carries. Resource version 1 lets the apply create a Queue, and change none.
	queueWith := func(name, cardQuota, deserved string) *apply.QueueApplyConfiguration {
		return apply.Queue(name).WithResourceVersion("1").WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"}).
			WithAnnotations(map[string]string{"volcano.sh/card.quota": cardQuota, "volcano.sh/card.deserved": deserved,
				"volcano.sh/closed-by-parent": "false", "cardquota.dev/created-by": name})
	}

	for t, tc := range check.Cases(t, map[string]struct {
		name, parent string
		want         *apply.QueueApplyConfiguration
	}{
		"chat, a leaf with memory": {
			name:   "chat",
			parent: "web",
			want: queueWith("chat", `{"H200":8}`, `{"H200":4}`).
				WithAnnotations(map[string]string{"volcano.sh/card.guarantee": `{"H200":4}`, "volcano.sh/service.type": "training", "volcano.sh/unlimited.resources": "cpu"}).
				WithSpec(apply.QueueSpec().WithParent("web").WithPriority(20000).WithReclaimable(true).
					WithCapability(builder.Resources("", "512Gi")).WithDeserved(builder.Resources("", "256Gi")).
					WithGuarantee(apply.Guarantee().WithResource(builder.Resources("", "1Gi")))),
		},
		"web, a parent: no service type, and no more CPU than tenant": {
			name:   "web",
			parent: "tenant",
			want: queueWith("web", `{"H200":12}`, `{"H200":8}`).
				WithAnnotations(map[string]string{"volcano.sh/card.guarantee": `{"H200":4}`, "cardquota.dev/parent-only": "true"}).
				WithSpec(apply.QueueSpec().WithParent("tenant").WithCapability(builder.Resources("32", "1Ti")).
					WithDeserved(builder.Resources("", "1Ti")).
					WithGuarantee(apply.Guarantee().WithResource(builder.Resources("", "1Gi")))),
		},
		"lab: an inherited quota, stop policy Hold, weight 3, and priority 7 within its type": {
			name:   "lab",
			parent: "tenant",
			want: queueWith("lab", `{}`, `{"H200":8}`).
				WithAnnotations(map[string]string{"volcano.sh/stop-policy": "Hold", "volcano.sh/service.type": "training", "volcano.sh/unlimited.resources": "cpu,memory"}).
				WithSpec(apply.QueueSpec().WithParent("tenant").WithPriority(20007).WithReclaimable(true).WithWeight(3)),
		},
		"other, at the top level": {
			name:   "other",
			parent: "root",
			want: queueWith("other", `{"H200":4}`, `{"H200":4}`).
				WithAnnotations(map[string]string{"volcano.sh/service.type": "training", "volcano.sh/unlimited.resources": "cpu,memory"}).
				WithSpec(apply.QueueSpec().WithParent("root").WithPriority(20000).WithReclaimable(true)),
		},
	}) {
		family := Family{}
		if tc.parent != "root" {
			family.Parent = queueAt(tc.parent, tree.Placement(all[tc.parent], ""))
		}

		place, wait := tree.Placement(all[tc.name], tc.parent).Stage(all[tc.name], family)
		check.That(t, wait == nil, "the Queue waits: %v", wait)
		got := NewDesiredQueue(all[tc.name], PolicyInput{Types: servicetype.BuiltIn}, nil, "", place)
		check.Equal(t, "Queue", tc.want, got.Config)
		check.That(t, !got.InSync(nil), "a Queue that does not exist is in sync")
	}
}

// TestFlatQueueCarriesNoFieldOfATree: while queues are flat, the Queue of a CardQuota with a parent, deserved and
// guarantee is below the root. It carries quota, limits, service type and stop policy, but no deserved, guarantee or
// parent, which do not count. A CardQuota without a service type is a parent, and its Queue takes no jobs. noTypes is
// a policy without priorities of service types.
func TestFlatQueueCarriesNoFieldOfATree(t *testing.T) {
	team := newTreeQuota("team", "tenant", 8, 4, 2, withStopPolicy("HoldAndDrain"), func(team *v1alpha1.CardQuota) {
		team.Spec.Resources = &v1alpha1.Resources{
			CPU:      ptr(resource.MustParse("8")),
			Deserved: &v1alpha1.ResourceAmounts{CPU: ptr(resource.MustParse("4"))},
		}
	})
	config := flatQueue(team, noTypes, nil).Config

	check.Equal(t, "annotations", map[string]string{
		"volcano.sh/card.quota":       `{"H200":8}`,
		"volcano.sh/service.type":     "training",
		"volcano.sh/stop-policy":      "HoldAndDrain",
		"volcano.sh/closed-by-parent": "false",
		"cardquota.dev/created-by":    "team",
	}, config.Annotations)
	check.Equal(t, "spec", apply.QueueSpec().WithParent("root").
		WithCapability(corev1.ResourceList{"cpu": resource.MustParse("8")}), config.Spec)
	parent := flatQueue(newTreeQuota("team", "", 8, 4, 2, withoutServiceType), noTypes, nil).Config
	check.Equal(t, "a parent takes no jobs", "true", parent.Annotations["cardquota.dev/parent-only"])
}

// TestAQueueWithoutAPathIsHeld: when the CardQuota of chat loses its path to the top level (web, then tenant), its
// Queue stays where it is. Nothing new may start there, so the operator holds it and says why. A stop policy of the
// CardQuota itself comes first. One of an ancestor is not written, because the scheduler reads it from there.
func TestAQueueWithoutAPathIsHeld(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change      treeChange
		wantPolicy  string
		wantMessage string
	}{
		"the path is complete": {},
		"the parent is missing": {
			change:     without("web"),
			wantPolicy: "Hold",
			wantMessage: "CardQuota chat: spec.parent names CardQuota web, which does not exist or does not own its queue; create " +
				"it, or name another parent",
		},
		"the parent's parent is missing": {
			change:     without("tenant"),
			wantPolicy: "Hold",
			wantMessage: "CardQuota chat: its ancestor web names CardQuota tenant, which does not exist or does not own its queue; " +
				"create it, or name another parent",
		},
		"tenant is below chat, which is a cycle": {
			change:     changeIn("tenant", withParent("chat")),
			wantPolicy: "Hold",
			wantMessage: "CardQuota chat: its ancestor tenant names CardQuota chat, and these parents form a cycle; give one of them " +
				"another parent",
		},
		"the parent is missing, and the CardQuota drains": {
			change: func(all map[string]*v1alpha1.CardQuota) {
				without("web")(all)
				changeIn("chat", withStopPolicy("HoldAndDrain"))(all)
			},
			wantPolicy: "HoldAndDrain",
		},
		"the parent is held": {
			change: changeIn("web", withStopPolicy("Hold")),
		},
	}) {
		all := newTenantTree(tc.change)

		place, _ := treeOf(all).Placement(all["chat"], "web").Stage(all["chat"], Family{})
		queue := NewDesiredQueue(all["chat"], PolicyInput{Types: noTypes}, liveQueueBelow("web", all["chat"]), "", place)
		check.Equal(t, "stop policy", tc.wantPolicy, queue.Config.Annotations[v1alpha1.AnnotationStopPolicy])
		check.Equal(t, "hold message", tc.wantMessage, queue.Config.Annotations[v1alpha1.AnnotationHoldMessage])
	}
}

// TestALostPathIsNoChangeOfOthers: a Queue whose CardQuota loses its path to the top level gets a stop policy and a
// hold message. Both are removed when the path is back. TreeChanged reports that the tree made such a change, and not
// another field manager, whose change would be drift.
func TestALostPathIsNoChangeOfOthers(t *testing.T) {
	all := newTenantTree()
	held := Placement{Parent: "web", Annotations: treeAnnotations(all["chat"]), HoldMessage: "CardQuota chat: no path"}
	const owned = `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{},"f:volcano.sh/card.deserved":{},"f:volcano.sh/card.guarantee":{}%s}},"f:spec":{"f:parent":{}}}`
	// live is the Queue on which the operator owns the fields of a tree, and more.
	live := func(more string) *v1beta1.Queue {
		return liveQueueBelow("web", all["chat"], func(l *v1beta1.Queue) {
			l.ManagedFields = []metav1.ManagedFieldsEntry{managedFields("cardquota", "Apply", fmt.Sprintf(owned, more))}
		})
	}

	wanted := func(place Placement) DesiredQueue {
		return NewDesiredQueue(all["chat"], PolicyInput{Types: noTypes}, live(""), "", place)
	}
	withPath := Placement{Parent: "web", Annotations: held.Annotations}
	check.That(t, wanted(held).TreeChanged(live("")), "the lost path is no change of the tree")
	check.That(t, wanted(withPath).TreeChanged(live(`,"f:volcano.sh/stop-policy":{},"f:cardquota.dev/hold-message":{}`)),
		"the path that is there again is no change of the tree")
	check.That(t, !wanted(withPath).TreeChanged(live("")), "the tree counts as changed though nothing changed")
}

// TestAQueueIsPlacedOnceItsParentIsReady: Volcano refuses a parent that does not exist, and below a parent without its
// quota a child may use nothing. So the Queue of chat, whose parent is web below tenant, stays where it is until the
// Queue of web is ready. A new Queue is not created before that; KeepsQueue says that nothing is written. If the Queue
// of chat is below web already, it stays there, whatever the Queue of web has. The Queue also stays while its path to
// the top level is broken. AboveParent are the queues above the Queue of web.
func TestAQueueIsPlacedOnceItsParentIsReady(t *testing.T) {
	all := newTenantTree()
	web := all["web"]
	for t, tc := range check.Cases(t, map[string]struct {
		change     treeChange
		neighbors  Neighbors
		wantParent string
		wantWait   *Wait
	}{
		"a new Queue, and the parent's Queue is ready": {
			neighbors:  Neighbors{Parent: liveQueueBelow("tenant", web)},
			wantParent: "web",
		},
		"the Queue is below its parent already": {
			neighbors:  Neighbors{Live: liveQueueBelow("web", all["chat"])},
			wantParent: "web",
		},
		"the Queue moves from tenant to web, which is ready": {
			neighbors: Neighbors{
				Live:        liveQueueBelow("tenant", all["chat"]),
				Parent:      liveQueueBelow("tenant", web),
				AboveParent: []string{"tenant"},
			},
			wantParent: "web",
		},
		"a new Queue, and the parent's Queue is missing": {
			wantParent: "root",
			wantWait: &Wait{
				Reason:     "WaitingForParent",
				Message:    "queue chat is not created: queue web of its parent web does not exist yet",
				KeepsQueue: true,
			},
		},
		"the Queue exists, and the parent's Queue is missing": {
			neighbors:  Neighbors{Live: liveQueueBelow("", all["chat"])},
			wantParent: "root",
			wantWait: &Wait{
				Reason:  "WaitingForParent",
				Message: "queue chat stays at the top level: queue web of its parent web does not exist yet",
			},
		},
		"the parent's Queue has other cards than its CardQuota": {
			neighbors: Neighbors{Live: liveQueueBelow("tenant", all["chat"]), Parent: liveQueueBelow("tenant", web, func(l *v1beta1.Queue) {
				l.Annotations[v1alpha1.AnnotationCardQuota] = "{}"
			})},
			wantParent: "tenant",
			wantWait: &Wait{
				Reason:  "WaitingForParent",
				Message: "queue chat stays below queue tenant: queue web does not carry the quota of its parent web yet",
			},
		},
		"the parent's Queue is still below this one, which would be a cycle": {
			neighbors: Neighbors{
				Live:        liveQueueBelow("tenant", all["chat"]),
				Parent:      liveQueueBelow("x", web),
				AboveParent: []string{"x", "chat"},
			},
			wantParent: "tenant",
			wantWait: &Wait{
				Reason:  "WaitingForParent",
				Message: "queue chat stays below queue tenant: queue web of its parent web is still below it",
			},
		},
		"a new Queue, and the CardQuota of the parent is missing": {
			change:     without("web"),
			wantParent: "root",
			wantWait: &Wait{
				Reason: "ParentNotFound",
				Message: "queue chat is not created: spec.parent names CardQuota web, which does not exist or does " +
					"not own its queue: nothing new starts here and below; create it, or name another parent",
				KeepsQueue: true,
			},
		},
		"the Queue exists, and the CardQuota of the parent's parent is missing": {
			change:     without("tenant"),
			neighbors:  Neighbors{Live: liveQueueBelow("web", all["chat"])},
			wantParent: "web",
			wantWait: &Wait{
				Reason: "ParentNotFound",
				Message: "queue chat stays below queue web: its ancestor web names CardQuota tenant, which does " +
					"not exist or does not own its queue: nothing new starts here and below; create it, or name another parent",
			},
		},
		"the CardQuotas form a cycle": {
			change:     changeIn("tenant", withParent("chat")),
			neighbors:  Neighbors{Live: liveQueueBelow("old", all["chat"])},
			wantParent: "old",
			wantWait: &Wait{
				Reason: "ParentCycle",
				Message: "queue chat stays below queue old: its ancestor tenant names CardQuota chat, and these " +
					"parents form a cycle: nothing new starts here and below; give one of them another parent",
			},
		},
		"the CardQuota has no parent any more": {
			change:     changeIn("chat", withParent("")),
			neighbors:  Neighbors{Live: liveQueueBelow("web", all["chat"])},
			wantParent: "root",
		},
	}) {
		all := newTenantTree(tc.change)
		parent, wait := treeOf(all).PlaceQueue(all["chat"], tc.neighbors)

		check.Equal(t, "parent", tc.wantParent, parent)
		check.Equal(t, "wait", tc.wantWait, wait)
	}
}

// TestTheParentIsLeftToOtherManagers: the operator sets spec.parent of a Queue where it owns the field, or where the
// field is empty. If it wants a parent other than root, it also replaces one that has no manager, or that Volcano's
// queue controller set. Otherwise it leaves a parent other than the wanted one to its manager, or to "another client"
// if no manager is known. Each row has the parent in the live Queue, its manager, and the parent that the operator
// wants. wantManager is the manager that keeps its parent, "" if the operator may set the field or need not.
func TestTheParentIsLeftToOtherManagers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		live, manager, want string
		wantManager         string
	}{
		"the parent is not set yet": {
			live: "",
			want: "web",
		},
		"another manager set the wanted parent": {
			live:    "web",
			manager: "kubectl-edit",
			want:    "web",
		},
		"the operator set another parent": {
			live:    "tenant",
			manager: v1alpha1.FieldManager,
			want:    "web",
		},
		"the operator set a parent, and wants root": {
			live:    "tenant",
			manager: v1alpha1.FieldManager,
			want:    "root",
		},
		"Volcano's queue controller filled in root": {
			live:    "root",
			manager: "vc-controller-manager",
			want:    "web",
		},
		"root without a manager": {
			live: "root",
			want: "web",
		},
		"another parent without a manager": {
			live: "department",
			want: "web",
		},
		"Volcano's queue controller set another parent": {
			live:    "department",
			manager: "vc-controller-manager",
			want:    "web",
		},
		"kubectl-edit set another parent": {
			live:        "department",
			manager:     "kubectl-edit",
			want:        "web",
			wantManager: "kubectl-edit",
		},
		"helm set root": {
			live:        "root",
			manager:     "helm",
			want:        "web",
			wantManager: "helm",
		},
		"helm set a parent, and the operator wants root while queues are flat": {
			live:        "department",
			manager:     "helm",
			want:        "root",
			wantManager: "helm",
		},
		"a parent without a manager, and the operator wants root": {
			live:        "department",
			want:        "root",
			wantManager: "another client",
		},
		"Volcano's queue controller set a parent, and the operator wants root": {
			live:        "department",
			manager:     "vc-controller-manager",
			want:        "root",
			wantManager: "vc-controller-manager",
		},
		"the operator gives the Queue up and wants no parent: nothing to set": {live: "department", manager: "helm", want: ""},
	}) {
		operation := "Update"
		if tc.manager == v1alpha1.FieldManager {
			operation = "Apply"
		}

		live := liveQueue(func(q *v1beta1.Queue) { q.Spec.Parent = tc.live })
		if tc.manager != "" {
			live.ManagedFields = append(live.ManagedFields,
				managedFields(tc.manager, metav1.ManagedFieldsOperationType(operation), `{"f:spec":{"f:parent":{}}}`))
		}
		check.Equal(t, "manager that keeps the parent", tc.wantManager, otherParentManager(live, tc.want))
	}
}

// TestOnlyTheParentOfTheQueueControllerIsTaken: an apply of spec.parent that conflicts with Volcano's queue
// controller takes the field, because the controller only filled it in. Any other manager keeps it, and the apply
// leaves it out.
func TestOnlyTheParentOfTheQueueControllerIsTaken(t *testing.T) {
	for manager, wantYield := range map[string]bool{"vc-controller-manager": false, "kubectl-edit": true} {
		place := Placement{Parent: "web"}
		desired := NewDesiredQueue(newTreeQuota("chat", "web", 8, 4, 0), PolicyInput{Types: noTypes}, liveQueue(nil), "", place)
		check.Equal(t, "yields to "+manager, wantYield, desired.YieldField(FieldConflict{Manager: manager, Field: fieldParent}))
		check.Equal(t, "parent is applied", !wantYield, desired.Config.Spec != nil && desired.Config.Spec.Parent != nil)
	}
}

// TestAQueueWithoutItsCardQuotaStaysWhereItIs: the Queue of a deleted CardQuota is drained, or abandoned if it
// existed before the CardQuota. It has an empty quota then, and stays below its parent web. If another field manager
// owns spec.parent, the operator does not apply it.
func TestAQueueWithoutItsCardQuotaStaysWhereItIs(t *testing.T) {
	chat := newTreeQuota("chat", "web", 8, 4, 2)
	for name, config := range map[string]*apply.QueueApplyConfiguration{
		"drained":   NewDrainedQueue(chat, liveQueueBelow("web", chat), "").Config,
		"abandoned": NewAbandonedQueue(chat, liveQueueBelow("web", chat)).Config,
	} {
		check.Equal(t, name, apply.QueueSpec().WithParent("web"), config.Spec)
		check.Equal(t, name+": quota", "{}", config.Annotations[v1alpha1.AnnotationCardQuota])
		check.Equal(t, name+": deserved", "", config.Annotations[v1alpha1.AnnotationCardDeserved])
	}
	others := liveQueueBelow("department", chat, func(l *v1beta1.Queue) { l.ManagedFields = nil })
	check.That(t, NewDrainedQueue(chat, others, "").Config.Spec == nil, "spec.parent of another manager is applied")
}

// TestADifferenceOfAnOwnedFieldIsAChangeOfTheTree: a Queue may differ from the tree because the tree changed since
// the operator wrote the Queue. Or another field manager changed the Queue, which is drift. It was the tree if the
// operator still owns the field that differs, or if no manager owns a field that only trees have. The Queue of chat
// has 8 CPU and deserves 8. A missing Queue is no change.
func TestADifferenceOfAnOwnedFieldIsAChangeOfTheTree(t *testing.T) {
	all := newTenantTree(func(all map[string]*v1alpha1.CardQuota) {
		all["chat"].Spec.Resources = &v1alpha1.Resources{CPU: ptr(resource.MustParse("8"))}
	})
	place := Placement{
		Parent:      "web",
		Annotations: treeAnnotations(all["chat"]),
		Limit:       quota.Amounts{quota.CPU: 8000}, // millicores
		Deserved:    quota.Amounts{quota.CPU: 8000},
		Unlimited:   []quota.Resource{quota.Memory},
	}
	desired := NewDesiredQueue(all["chat"], PolicyInput{Types: noTypes}, liveQueue(nil), "", place)

	const owned = `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{},"f:volcano.sh/card.deserved":{},"f:volcano.sh/card.guarantee":{},"f:volcano.sh/unlimited.resources":{}}},"f:spec":{"f:parent":{},"f:capability":{"f:cpu":{}},"f:deserved":{"f:cpu":{}}}}`
	synced := func() *v1beta1.Queue {
		live := liveQueueBelow("web", all["chat"], func(l *v1beta1.Queue) {
			l.Annotations["volcano.sh/unlimited.resources"] = "memory"
			l.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("8")}
			l.Spec.Deserved = corev1.ResourceList{"cpu": resource.MustParse("8")}
			l.ManagedFields = nil
		})
		live.ManagedFields = append(live.ManagedFields, managedFields("cardquota", "Apply", owned))
		return live
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*v1beta1.Queue)
		want   bool
	}{
		"no difference": {
			change: func(*v1beta1.Queue) {},
		},
		"an earlier version of the operator wrote no list of what is unlimited": {
			change: func(l *v1beta1.Queue) {
				delete(l.Annotations, "volcano.sh/unlimited.resources")
				l.ManagedFields[0] = managedFields("cardquota", "Apply", strings.Replace(owned, `,"f:volcano.sh/unlimited.resources":{}`, "", 1))
			},
			want: true,
		},
		"kubectl-edit owns the list of what is unlimited: this is drift": {
			change: func(l *v1beta1.Queue) {
				l.Annotations["volcano.sh/unlimited.resources"] = "cpu"
				l.ManagedFields = []metav1.ManagedFieldsEntry{
					managedFields("cardquota", "Apply", strings.Replace(owned, `,"f:volcano.sh/unlimited.resources":{}`, "", 1)),
					managedFields("kubectl-edit", "Update", `{"f:metadata":{"f:annotations":{"f:volcano.sh/unlimited.resources":{}}}}`),
				}
			},
		},
		"the Queue has another parent": {
			change: func(l *v1beta1.Queue) { l.Spec.Parent = "tenant" },
			want:   true,
		},
		"the Queue deserves more CPU than is in force now": {
			change: func(l *v1beta1.Queue) { l.Spec.Deserved["cpu"] = resource.MustParse("9") },
			want:   true,
		},
		"the Queue has another limit of CPU": {
			change: func(l *v1beta1.Queue) { l.Spec.Capability["cpu"] = resource.MustParse("9") },
			want:   true,
		},
		"the operator owns a guarantee that is not wanted any more": {
			change: func(l *v1beta1.Queue) {
				l.ManagedFields[0] = managedFields("cardquota", "Apply",
					owned[:len(owned)-2]+`,"f:guarantee":{"f:resource":{"f:cpu":{}}}}}`)
			},
			want: true,
		},
		"no manager owns a field that only trees have, because queues were flat": {
			change: func(l *v1beta1.Queue) {
				l.ManagedFields[0] = managedFields("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{}}}}`)
			},
			want: true,
		},
		"kubectl-edit owns what the Queue deserves: this is drift": {
			change: func(l *v1beta1.Queue) {
				l.Spec.Deserved["cpu"] = resource.MustParse("9")
				l.ManagedFields = []metav1.ManagedFieldsEntry{
					managedFields("cardquota", "Apply",
						`{"f:metadata":{"f:annotations":{"f:volcano.sh/card.quota":{},"f:volcano.sh/card.deserved":{},"f:volcano.sh/card.guarantee":{},"f:volcano.sh/unlimited.resources":{}}},"f:spec":{"f:parent":{},"f:capability":{"f:cpu":{}}}}`),
					managedFields("kubectl-edit", "Update", `{"f:spec":{"f:deserved":{"f:cpu":{}}}}`),
				}
			},
		},
	}) {
		live := synced()
		tc.change(live)
		check.Equal(t, "changed", tc.want, desired.TreeChanged(live))
	}

	check.That(t, !desired.TreeChanged(nil), "a missing Queue counts as changed")
}

// TestAPriorityStaysInTheBandOfItsServiceType: spec.priority of a CardQuota counts on top of its service type's
// priority. It stays below that of the next type, so that no training overtakes inference. Training has 100 and the
// next type 150, so its band ends at 149. Without a service type nothing is cut.
func TestAPriorityStaysInTheBandOfItsServiceType(t *testing.T) {
	types := map[string]servicetype.Type{"training": {Priority: 100}, "inference": {Priority: 150}}
	input := PolicyInput{
		Types: func(name string) (servicetype.Type, bool) { t, ok := types[name]; return t, ok },
		Bands: func(name string) (servicetype.Band, bool) { return servicetype.BandFor(name, types) },
	}

	for t, tc := range check.Cases(t, map[string]struct {
		serviceType string
		priority    *int32
		want        int32
		wantCut     bool
	}{
		"training without a priority": {
			serviceType: "training",
			want:        100,
		},
		"training with 49: 149 is in the band": {
			serviceType: "training",
			priority:    ptr(int32(49)),
			want:        149,
		},
		"training with 50: 150 would be that of inference": {
			serviceType: "training",
			priority:    ptr(int32(50)),
			want:        149,
			wantCut:     true,
		},
		"inference with 9999: no type is above": {
			serviceType: "inference",
			priority:    ptr(int32(9999)),
			want:        10149, // 150 + 9999
		},
	}) {
		own := newTreeQuota("a", "", 1, 1, unset, withServiceType(tc.serviceType))
		own.Spec.Priority = tc.priority
		check.Equal(t, "priority", tc.want, *NewDesiredQueue(own, input, nil, "", flatPlacement(own)).Config.Spec.Priority)
		check.Equal(t, "cut", tc.wantCut, input.CutPriority(own) != "")
	}

	check.Equal(t, "cut priority without a service type", "", input.CutPriority(newTreeQuota("a", "", 1, 1, unset, withoutServiceType)))
}
