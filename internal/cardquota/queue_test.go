package cardquota

import (
	"fmt"
	"maps"
	"slices"
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
	"cardquota.dev/operator/internal/workload"
)

// newNotebookQuota is a CardQuota team for notebooks, without cards. Notebooks have no priority of their own.
func newNotebookQuota(changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	b := builder.CardQuota("team").ServiceType("notebook")
	for _, change := range changes {
		b.With(change)
	}
	return b.Obj()
}

func withWeight(weight int32) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Weight = &weight }
}

// withResources sets the quota of CPU and memory, "" for none.
func withResources(cpu, memory string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.Resources = builder.CardQuota("").Resources(cpu, memory).Obj().Spec.Resources
	}
}

// liveQueue is a Queue on which each manager last wrote the given fields.
func liveQueue(change func(*v1beta1.Queue), entries ...metav1.ManagedFieldsEntry) *v1beta1.Queue {
	live := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "team", Annotations: map[string]string{}, ManagedFields: entries}}
	live.Spec.Weight = 1
	live.Spec.Parent = "root"
	if change != nil {
		change(live)
	}
	return live
}

// managedFields says that a manager wrote these fields last.
func managedFields(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager:    manager,
		Operation:  operation,
		FieldsType: "FieldsV1",
		FieldsV1:   &metav1.FieldsV1{Raw: []byte(fields)},
	}
}

// TestTheOperatorAppliesTheFieldsOfTheCardQuota: the operator writes the Queue of a CardQuota by server-side apply.
// It owns exactly the fields that the CardQuota decides. If another manager wrote another weight, parent, label
// managed-by or annotation closed-by-parent, the operator leaves that field. Each row has the CardQuota, the live
// Queue if there is one, and what the operator applies. A live Queue has weight 1 and parent root if the row says
// nothing else. A notebook has no priority; the built-in ones are 80000 for inference and 20000 for training.
func TestTheOperatorAppliesTheFieldsOfTheCardQuota(t *testing.T) {
	annotations := func(extra map[string]string) map[string]string {
		all := map[string]string{
			"volcano.sh/card.quota":          "{}",
			"volcano.sh/unlimited.resources": "cpu,memory",
			"volcano.sh/service.type":        "notebook",
			"volcano.sh/closed-by-parent":    "false",
		}
		maps.Copy(all, extra)
		return all
	}
	config := func() *apply.QueueApplyConfiguration {
		return apply.Queue("team").WithSpec(apply.QueueSpec().WithParent("root")).WithAnnotations(annotations(nil))
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota       *v1alpha1.CardQuota
		live        *v1beta1.Queue
		allocated   string
		want        *apply.QueueApplyConfiguration
		wantManager string // whose weight the operator leaves
	}{
		"no cards: an empty quota, which allows no card": {
			quota: newNotebookQuota(),
			want:  config(),
		},
		"two cards: JSON sorted by name": {
			quota: newNotebookQuota(func(q *v1alpha1.CardQuota) {
				q.Spec.Cards = []v1alpha1.Card{
					{Name: "NVIDIA-H800/mps-80g*1/2", Quota: ptr(int64(2))},
					{Name: "NVIDIA-H200", Quota: ptr(int64(0))},
				}
			}),
			want: config().WithAnnotations(map[string]string{"volcano.sh/card.quota": `{"NVIDIA-H200":0,"NVIDIA-H800/mps-80g*1/2":2}`}),
		},
		"another queue name": {
			quota: newNotebookQuota(withQueueName("other")),
			want:  config().WithName("other"),
		},
		"inference: a high priority, and no reclaim from it": {
			quota: newNotebookQuota(withServiceType("inference")),
			want: apply.Queue("team").WithAnnotations(annotations(map[string]string{"volcano.sh/service.type": "inference"})).
				WithSpec(apply.QueueSpec().WithParent("root").WithPriority(80000).WithReclaimable(false)),
		},
		"training: a low priority, and reclaim from it": {
			quota: newNotebookQuota(withServiceType("training")),
			want: apply.Queue("team").WithAnnotations(annotations(map[string]string{"volcano.sh/service.type": "training"})).
				WithSpec(apply.QueueSpec().WithParent("root").WithPriority(20000).WithReclaimable(true)),
		},
		"CPU without memory: a capability of CPU, and memory is not limited": {
			quota: newNotebookQuota(withResources("8", "")),
			want: apply.Queue("team").WithAnnotations(annotations(map[string]string{"volcano.sh/unlimited.resources": "memory"})).WithSpec(apply.QueueSpec().WithParent("root").
				WithCapability(corev1.ResourceList{"cpu": resource.MustParse("8")}))},
		"a namespace selector: JSON": {
			quota: newNotebookQuota(func(q *v1alpha1.CardQuota) {
				q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: "In", Values: []string{"3"}}}}
			}),
			want: config().WithAnnotations(map[string]string{
				"volcano.sh/namespace-selector": `{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"c","operator":"In","values":["3"]}]}`}),
		},
		"an empty namespace selector: all namespaces": {
			quota: newNotebookQuota(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = &metav1.LabelSelector{} }),
			want:  config().WithAnnotations(map[string]string{"volcano.sh/namespace-selector": `{}`})},
		"allocated cards: beside the quota": {
			quota:     newNotebookQuota(),
			allocated: `{"NVIDIA-H200":1}`,
			want:      config().WithAnnotations(map[string]string{"volcano.sh/card.allocated": `{"NVIDIA-H200":1}`}),
		},
		"a weight that no manager owns: written": {
			quota: newNotebookQuota(withWeight(5)),
			live:  liveQueue(nil),
			want:  apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").WithWeight(5)),
		},
		"a weight that helm owns with another value: left alone": {
			quota:       newNotebookQuota(withWeight(5)),
			live:        liveQueue(nil, managedFields("helm", "Update", `{"f:spec":{"f:weight":{}}}`)),
			want:        config(),
			wantManager: "helm",
		},
		"a weight that helm owns with the same value: owned by both": {
			quota: newNotebookQuota(withWeight(1)),
			live:  liveQueue(nil, managedFields("helm", "Update", `{"f:spec":{"f:weight":{}}}`)),
			want:  apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").WithWeight(1))},
		"a weight that a webhook added to the operator's own request: written": {
			quota: newNotebookQuota(withWeight(5)),
			live:  liveQueue(nil, managedFields("cardquota", "Update", `{"f:spec":{"f:weight":{}}}`)),
			want:  apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").WithWeight(5))},
		"a Queue that Volcano closed with its parent: not written as open": {
			quota: newNotebookQuota(),
			live:  liveQueue(func(q *v1beta1.Queue) { q.Annotations["volcano.sh/closed-by-parent"] = "true" }),
			want: apply.Queue("team").WithSpec(apply.QueueSpec().WithParent("root")).
				WithAnnotations(map[string]string{"volcano.sh/card.quota": "{}", "volcano.sh/unlimited.resources": "cpu,memory", "volcano.sh/service.type": "notebook"}),
		},
		"a label managed-by of Helm: left alone": {
			quota: newNotebookQuota(),
			live:  liveQueue(func(q *v1beta1.Queue) { q.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"} }),
			want:  config(),
		},
		"a Queue that another client put below a parent: spec as a whole is not owned": {
			quota: newNotebookQuota(),
			live:  liveQueue(func(q *v1beta1.Queue) { q.Spec.Parent = "department" }),
			want:  apply.Queue("team").WithAnnotations(annotations(nil)),
		},
	}) {
		if tc.live == nil || tc.live.Labels == nil {
			tc.want.WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"})
		}
		if tc.live == nil { // the apply must create the Queue, not change one that appears meanwhile
			tc.want.WithResourceVersion("1").WithAnnotations(map[string]string{"cardquota.dev/created-by": "team"})
		}

		got := NewDesiredQueue(tc.quota, PolicyInput{Types: servicetype.BuiltIn}, tc.live, tc.allocated, flatPlacement(tc.quota))
		delete(got.Config.Annotations, v1alpha1.AnnotationBefore) // TestTheFirstWriteRecordsWhatAQueueHad is about it
		check.Equal(t, "applied Queue", tc.want, got.Config)
		check.Equal(t, "manager of the weight", tc.wantManager, got.WeightManager)
	}
}

// TestTheSchedulerReadsWhatResourcesSays: of CPU and memory, each by itself, the spec of a CardQuota has a limit, 0, or
// nothing. The scheduler reads the Queue that the operator applies: a limit is that limit, 0 is nothing, and what is
// unset is not limited. A Queue never carries both a limit and its absence. A Queue that drains, is drained for its
// deletion or is abandoned, has no list of what is unlimited, in the write that empties it. A parent, which grants
// nothing while queues are flat, may use nothing.
func TestTheSchedulerReadsWhatResourcesSays(t *testing.T) {
	limits := map[string]int64{"": quota.Unlimited, "0": 0, "8": 8}
	for cpu, wantCPU := range limits {
		for memory, wantMemory := range limits {
			q := newNotebookQuota(withResources(cpu, memory))
			if wantCPU < quota.Unlimited {
				wantCPU = 1000 * limits[cpu]
			}
			check.Equal(t, fmt.Sprintf("limits of cpu %q, memory %q", cpu, memory), [2]int64{wantCPU, wantMemory}, limitsRead(flatQueue(q, noTypes, nil)))

			q.Spec.StopPolicy = v1alpha1.StopPolicyHold
			check.Equal(t, "limits while held", [2]int64{wantCPU, wantMemory}, limitsRead(flatQueue(q, noTypes, nil)))

			draining := q.DeepCopy()
			draining.Spec.StopPolicy = v1alpha1.StopPolicyHoldAndDrain
			parent := q.DeepCopy()
			parent.Spec.ServiceType = ""
			for what, desired := range map[string]DesiredQueue{
				"draining":  flatQueue(draining, noTypes, nil),
				"a parent":  flatQueue(parent, noTypes, nil),
				"drained":   NewDrainedQueue(q, liveQueue(nil), ""),
				"abandoned": NewAbandonedQueue(q, liveQueue(nil)),
			} {
				_, isListed := desired.Config.Annotations[v1alpha1.AnnotationUnlimitedResources]
				check.That(t, !isListed, "%s: cpu %q, memory %q: something is unlimited", what, cpu, memory)
				if what != "draining" {
					check.Equal(t, what+": limits", [2]int64{}, limitsRead(desired))
				}
			}
		}
	}
}

// limitsRead returns the CPU, in millicores, and the memory, in bytes, that the scheduler reads from an applied Queue.
func limitsRead(desired DesiredQueue) [2]int64 {
	queue := builder.Queue("team").Obj()
	queue.Annotations = desired.Config.Annotations
	if spec := desired.Config.Spec; spec != nil && spec.Capability != nil {
		queue.Spec.Capability = *spec.Capability
	}
	rules := workload.QueueRulesFor(queue, v1alpha1.UnmanagedEnforce, nil)
	return [2]int64{rules.Limits.MilliCPU, rules.Limits.Memory}
}

// createdBy is the entry of the operator on a Queue that it made.
var createdBy = managedFields("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:cardquota.dev/created-by":{}}}}`)

// TestOnlyAnOwnedAnnotationSaysThatTheOperatorCreatedAQueue: the operator deletes a Queue with its CardQuota only if
// it created the Queue. It knows that from annotation created-by, which counts only while the operator itself owns
// it: a user may copy or write the annotation. Later applies keep it, so that server-side apply does not remove it,
// and never add it. They are for the Queue that exists, by its UID, and create none. A drained Queue is that of a
// CardQuota that is being deleted. createdBy is the operator's entry for the annotation; plannedFields are its other
// fields.
func TestOnlyAnOwnedAnnotationSaysThatTheOperatorCreatedAQueue(t *testing.T) {
	hasAnnotation := func(q *v1beta1.Queue) { q.Annotations["cardquota.dev/created-by"] = "first" }

	for t, tc := range check.Cases(t, map[string]struct {
		live        *v1beta1.Queue
		wantCreator string // "" if the operator did not create the Queue
	}{
		"the operator created the Queue, for another CardQuota": {live: liveQueue(hasAnnotation, createdBy), wantCreator: "first"},
		"an administrator created the Queue":                    {live: liveQueue(nil)},
		"an administrator created the Queue, and the operator writes it": {live: liveQueue(nil,
			managedFields("cardquota", "Apply", plannedFields))},
		"the annotation was copied from another Queue": {live: liveQueue(hasAnnotation, managedFields("cardquota", "Apply", plannedFields),
			managedFields("kubectl-create", "Update", "{}"))},
		"kubectl-edit changed the annotation": {live: liveQueue(hasAnnotation,
			managedFields("kubectl-edit", "Update", string(createdBy.FieldsV1.Raw)))},
		"the operator gave the Queue up, and the annotation stayed": {live: liveQueue(hasAnnotation)},
	}) {
		tc.live.UID = "1-2-3"
		check.Equal(t, "created by the operator", tc.wantCreator != "", CreatedByOperator(tc.live))
		for name, applied := range map[string]DesiredQueue{
			"desired": flatQueue(newNotebookQuota(), servicetype.BuiltIn, tc.live),
			"drained": NewDrainedQueue(newNotebookQuota(), tc.live, ""),
		} {
			check.Equal(t, name+": annotation", tc.wantCreator, applied.Config.Annotations["cardquota.dev/created-by"])
			check.That(t, applied.Config.ResourceVersion == nil, "%s: the apply creates a Queue that exists", name)
			check.Equal(t, name+": UID of the Queue that the apply may change", &tc.live.UID, applied.Config.UID)
		}
	}
}

// TestDrainedAndAbandonedQueuesHaveNoQuota: a CardQuota is being deleted. A drained Queue, which the operator deletes
// later, allows no card, CPU or memory, so that nothing new starts. It keeps the other fields, and says that pods
// still use 3 H200. An abandoned Queue existed before the CardQuota and stays. It allows nothing either, and keeps no
// field that would become stale.
func TestDrainedAndAbandonedQueuesHaveNoQuota(t *testing.T) {
	own := builder.CardQuota("team").ServiceType("training").Card("NVIDIA-H200", 8).Resources("8", "").Selects("team", "chat").Obj()

	want := apply.Queue("team").WithSpec(apply.QueueSpec().WithParent("root")).WithAnnotations(map[string]string{
		"volcano.sh/card.quota": "{}", "volcano.sh/closed-by-parent": "false",
	})
	check.Equal(t, "abandoned", want, NewAbandonedQueue(own, liveQueue(nil)).Config)

	want.WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"})
	want.WithAnnotations(map[string]string{"cardquota.dev/created-by": "team", "volcano.sh/service.type": "training", "volcano.sh/card.allocated": `{"NVIDIA-H200":3}`,
		"volcano.sh/namespace-selector": `{"matchLabels":{"team":"chat"}}`})
	created := liveQueue(func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationCreatedBy] = "team" }, createdBy)
	check.Equal(t, "drained", want, NewDrainedQueue(own, created, `{"NVIDIA-H200":3}`).Config)
}

// TestTheOperatorYieldsFourFields: an apply conflicts with a field of another manager. The operator yields weight,
// parent, the label managed-by and closed-by-parent, and applies again without them. It never yields the quota.
func TestTheOperatorYieldsFourFields(t *testing.T) {
	const closedByParent = "volcano.sh/closed-by-parent"
	for t, tc := range check.Cases(t, map[string]struct {
		conflict    FieldConflict
		isApplied   func(*apply.QueueApplyConfiguration) bool // whether the field is applied
		wantYield   bool
		wantManager string // of the weight
	}{
		"weight of helm: yielded": {
			conflict:    FieldConflict{Manager: "helm", Field: ".spec.weight"},
			isApplied:   func(c *apply.QueueApplyConfiguration) bool { return c.Spec.Weight != nil },
			wantYield:   true,
			wantManager: "helm",
		},
		"parent of helm: yielded": {
			conflict:  FieldConflict{Manager: "helm", Field: ".spec.parent"},
			isApplied: func(c *apply.QueueApplyConfiguration) bool { return c.Spec.Parent != nil },
			wantYield: true,
		},
		"label managed-by of helm: yielded": {
			conflict:  FieldConflict{Manager: "helm", Field: ".metadata.labels.app.kubernetes.io/managed-by"},
			isApplied: func(c *apply.QueueApplyConfiguration) bool { return len(c.Labels) > 0 },
			wantYield: true,
		},
		"closed-by-parent of Volcano's controller: yielded": {
			conflict:  FieldConflict{Manager: "vc-controller-manager", Field: ".metadata.annotations." + closedByParent},
			isApplied: func(c *apply.QueueApplyConfiguration) bool { return c.Annotations[closedByParent] != "" },
			wantYield: true,
		},
		"quota of kubectl-edit: applied all the same": {
			conflict:  FieldConflict{Manager: "kubectl-edit", Field: ".metadata.annotations.volcano.sh/card.quota"},
			isApplied: func(c *apply.QueueApplyConfiguration) bool { return c.Annotations["volcano.sh/card.quota"] == "{}" },
		},
	}) {
		queue := flatQueue(newNotebookQuota(withWeight(5)), servicetype.BuiltIn, nil)
		check.That(t, tc.isApplied(queue.Config), "the field is not applied before the conflict")

		check.Equal(t, "yields", tc.wantYield, queue.YieldField(tc.conflict))
		check.Equal(t, "manager of the weight", tc.wantManager, queue.WeightManager)
		check.Equal(t, "is applied after the conflict", !tc.wantYield, tc.isApplied(queue.Config))
	}
}

// TestAnEmptySpecIsNotApplied: an apply of an empty spec would make the operator own spec as a whole. The only field
// here is the parent, which is yielded. It has two managers, so there are two conflicts about it.
func TestAnEmptySpecIsNotApplied(t *testing.T) {
	queue := flatQueue(newNotebookQuota(), servicetype.BuiltIn, nil)
	check.Equal(t, "fields that the operator takes", 0, len(slices.DeleteFunc([]FieldConflict{
		{Manager: "argocd", Field: ".spec.parent"}, {Manager: "helm", Field: ".spec.parent"},
	}, queue.YieldField)))
	check.Equal(t, "spec", nil, queue.Config.Spec)
}

// TestServiceTypesInForceDecide: priority and reclaimable of a Queue are those of its service type in the
// ServiceTypePolicy. For a type that the policy does not name, the operator applies neither field.
func TestServiceTypesInForceDecide(t *testing.T) {
	types := func(name string) (servicetype.Type, bool) {
		return servicetype.Type{Priority: 5, Reclaimable: true}, name == "inference"
	}
	for serviceType, want := range map[string]*apply.QueueSpecApplyConfiguration{
		"inference": apply.QueueSpec().WithParent("root").WithPriority(5).WithReclaimable(true),
		"training":  apply.QueueSpec().WithParent("root"), // the policy does not name it
	} {
		check.Equal(t, serviceType, want, flatQueue(newNotebookQuota(withServiceType(serviceType)), types, nil).Config.Spec)
	}
}

// flatQueue is what the operator wants of the Queue of a CardQuota while queues are flat and no pod uses cards. live
// is the Queue that exists, nil for none.
func flatQueue(quota *v1alpha1.CardQuota, types ServiceTypeLookup, live *v1beta1.Queue) DesiredQueue {
	return NewDesiredQueue(quota, PolicyInput{Types: types}, live, "", flatPlacement(quota))
}

// flatPlacement returns where the Queue of a CardQuota belongs while queues are flat.
func flatPlacement(q *v1alpha1.CardQuota) Placement {
	return Flat.Placement(q, "root")
}
