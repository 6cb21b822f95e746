package cardquota

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// quotaOf makes a CardQuota called team with the given spec changes.
func quotaOf(changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	b := builder.CardQuota("team").ServiceType("notebook")
	for _, change := range changes {
		b.With(change)
	}
	return b.Obj()
}

func weighing(weight int32) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.Weight = &weight }
}

// limiting sets the quota of CPU and memory, "" for none.
func limiting(cpu, memory string) func(*v1alpha1.CardQuota) {
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

func wrote(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestNewDesiredQueue(t *testing.T) {
	annotations := func(extra map[string]string) map[string]string {
		all := map[string]string{"volcano.sh/card.quota": "{}", "volcano.sh/service.type": "notebook", "volcano.sh/closed-by-parent": "false"}
		maps.Copy(all, extra)
		return all
	}
	config := func() *apply.QueueApplyConfiguration {
		return apply.Queue("team").WithSpec(apply.QueueSpec().WithParent("root")).WithAnnotations(annotations(nil))
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota      *v1alpha1.CardQuota
		live       *v1beta1.Queue
		allocated  string
		want       *apply.QueueApplyConfiguration
		wantHolder string
	}{
		"a tenant without cards gets an empty quota, which is no card at all": {quota: quotaOf(), want: config()},
		"cards are written as canonical JSON, in whatever order they are listed": {
			quota: quotaOf(func(q *v1alpha1.CardQuota) {
				q.Spec.Cards = []v1alpha1.Card{{Name: "NVIDIA-H800/mps-80g*1/2", Quota: ptr(int64(2))}, {Name: "NVIDIA-H200", Quota: ptr(int64(0))}}
			}),
			want: config().WithAnnotations(map[string]string{"volcano.sh/card.quota": `{"NVIDIA-H200":0,"NVIDIA-H800/mps-80g*1/2":2}`}),
		},
		"the queue may have another name": {quota: quotaOf(ofQueue("other")),
			want: config().WithName("other")},
		"inference is served first and not reclaimed": {quota: quotaOf(ofType("inference")),
			want: apply.Queue("team").WithAnnotations(annotations(map[string]string{"volcano.sh/service.type": "inference"})).
				WithSpec(apply.QueueSpec().WithParent("root").WithPriority(80000).WithReclaimable(false))},
		"training is served last and can be reclaimed": {quota: quotaOf(ofType("training")),
			want: apply.Queue("team").WithAnnotations(annotations(map[string]string{"volcano.sh/service.type": "training"})).
				WithSpec(apply.QueueSpec().WithParent("root").WithPriority(20000).WithReclaimable(true))},
		"resources become capability, each for itself": {
			quota: quotaOf(limiting("8", "")),
			want: apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").
				WithCapability(corev1.ResourceList{"cpu": resource.MustParse("8")}))},
		"the namespaces that are chosen are written as JSON": {
			quota: quotaOf(func(q *v1alpha1.CardQuota) {
				q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: "In", Values: []string{"3"}}}}
			}),
			want: config().WithAnnotations(map[string]string{
				"volcano.sh/namespace-selector": `{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"c","operator":"In","values":["3"]}]}`}),
		},
		"every namespace, when that is said": {
			quota: quotaOf(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = &metav1.LabelSelector{} }),
			want:  config().WithAnnotations(map[string]string{"volcano.sh/namespace-selector": `{}`})},
		"what is allocated is written beside the quota": {quota: quotaOf(), allocated: `{"NVIDIA-H200":1}`,
			want: config().WithAnnotations(map[string]string{"volcano.sh/card.allocated": `{"NVIDIA-H200":1}`})},
		"a weight without an owner is written": {quota: quotaOf(weighing(5)),
			live: liveQueue(nil),
			want: apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").WithWeight(5))},
		"a weight that another manager owns with another value stays": {
			quota: quotaOf(weighing(5)),
			live:  liveQueue(nil, wrote("helm", "Update", `{"f:spec":{"f:weight":{}}}`)), want: config(), wantHolder: "helm"},
		"a weight that another manager owns with the same value is owned by both": {
			quota: quotaOf(weighing(1)),
			live:  liveQueue(nil, wrote("helm", "Update", `{"f:spec":{"f:weight":{}}}`)),
			want:  apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").WithWeight(1))},
		"a weight that a webhook added to our own request is ours": {
			quota: quotaOf(weighing(5)),
			live:  liveQueue(nil, wrote("cardquota", "Update", `{"f:spec":{"f:weight":{}}}`)),
			want:  apply.Queue("team").WithAnnotations(annotations(nil)).WithSpec(apply.QueueSpec().WithParent("root").WithWeight(5))},
		"a queue that was closed with its parent is not called open": {quota: quotaOf(),
			live: liveQueue(func(q *v1beta1.Queue) { q.Annotations["volcano.sh/closed-by-parent"] = "true" }),
			want: apply.Queue("team").WithSpec(apply.QueueSpec().WithParent("root")).
				WithAnnotations(map[string]string{"volcano.sh/card.quota": "{}", "volcano.sh/service.type": "notebook"})},
		"the label of another manager is left alone": {quota: quotaOf(),
			live: liveQueue(func(q *v1beta1.Queue) { q.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"} }), want: config()},
		"a queue under another parent stays there, and spec as a whole is not claimed": {quota: quotaOf(),
			live: liveQueue(func(q *v1beta1.Queue) { q.Spec.Parent = "department" }),
			want: apply.Queue("team").WithAnnotations(annotations(nil))},
	}) {
		if tc.live == nil || tc.live.Labels == nil {
			tc.want.WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"})
		}
		if tc.live == nil { // made now, and nothing else than made
			tc.want.WithResourceVersion("1").WithAnnotations(map[string]string{"cardquota.dev/created-by": "team"})
		}

		got := NewDesiredQueue(tc.quota, PolicyInput{Types: servicetype.BuiltIn}, tc.live, tc.allocated, nil)
		check.Equal(t, "plan", tc.want, got.Config)
		check.Equal(t, "weight held by", tc.wantHolder, got.WeightManager)
	}
}

// createdBy is the entry of the operator on a Queue that it made.
var createdBy = wrote("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:cardquota.dev/created-by":{}}}}`)

func TestCreatedByOperator(t *testing.T) {
	says := func(q *v1beta1.Queue) {
		q.UID = "1-2-3"
		q.Annotations["cardquota.dev/created-by"] = "first"
	}

	cases := map[string]struct {
		live *v1beta1.Queue
		want bool
	}{
		"made by the operator, for whomever":       {live: liveQueue(says, createdBy), want: true},
		"made by hand":                             {live: liveQueue(nil)},
		"taken over":                               {live: liveQueue(nil, wrote("cardquota", "Apply", plannedFields))},
		"the annotation was copied":                {live: liveQueue(says, wrote("cardquota", "Apply", plannedFields), wrote("kubectl-create", "Update", "{}"))},
		"the annotation was changed by hand":       {live: liveQueue(says, wrote("kubectl-edit", "Update", string(createdBy.FieldsV1.Raw)))},
		"given up: the annotation stayed, unowned": {live: liveQueue(says)},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "Created", tc.want, CreatedByOperator(tc.live))

			// Later applies keep what was said at creation and never say it themselves.
			want := ""
			if tc.want {
				want = "first"
			}

			for name, plan := range map[string]DesiredQueue{"desired": NewDesiredQueue(quotaOf(), PolicyInput{Types: servicetype.BuiltIn}, tc.live, "", nil), "drained": NewDrainedQueue(quotaOf(), tc.live, "")} {
				check.Equal(t, fmt.Sprintf("%s says created by", name), want, plan.Config.Annotations["cardquota.dev/created-by"])
				check.That(t, plan.Config.ResourceVersion == nil, "%s makes a Queue that is there", name)
				check.That(t, tc.live.UID == "" || (plan.Config.UID != nil && *plan.Config.UID == tc.live.UID),
					"%s may be written to another Queue than the one looked at", name)
			}
		})
	}
}

func TestDrainedAndAbandonedQueuesHaveNoQuota(t *testing.T) {
	quota := builder.CardQuota("team").Card("NVIDIA-H200", 8).Resources("8", "").Selects("team", "chat").Obj()

	want := apply.Queue("team").WithSpec(apply.QueueSpec().WithParent("root")).WithAnnotations(map[string]string{
		"volcano.sh/card.quota": "{}", "volcano.sh/closed-by-parent": "false",
	})
	check.Equal(t, "given up, it leaves nothing to start on", want, NewAbandonedQueue(quota, liveQueue(nil)).Config)

	want.WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"})
	want.WithAnnotations(map[string]string{"volcano.sh/service.type": "training", "volcano.sh/card.allocated": `{"NVIDIA-H200":3}`,
		"volcano.sh/namespace-selector": `{"matchLabels":{"team":"chat"}}`})
	check.Equal(t, "drained", want, NewDrainedQueue(quota, liveQueue(nil), `{"NVIDIA-H200":3}`).Config)
}

func TestYieldField(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		conflict   FieldConflict
		want       bool
		wantHolder string
		wantGone   func(*apply.QueueApplyConfiguration) bool
	}{
		"weight is left to its manager": {conflict: FieldConflict{Manager: "helm", Field: ".spec.weight"}, want: true, wantHolder: "helm",
			wantGone: func(c *apply.QueueApplyConfiguration) bool { return c.Spec.Weight == nil }},
		"parent is left to its manager": {conflict: FieldConflict{Manager: "helm", Field: ".spec.parent"}, want: true,
			wantGone: func(c *apply.QueueApplyConfiguration) bool { return c.Spec.Parent == nil }},
		"the label stays with the manager that wrote it": {conflict: FieldConflict{Manager: "helm", Field: ".metadata.labels.app.kubernetes.io/managed-by"}, want: true,
			wantGone: func(c *apply.QueueApplyConfiguration) bool { return len(c.Labels) == 0 }},
		"closed-by-parent is left to Volcano": {
			conflict: FieldConflict{Manager: "vc-controller-manager", Field: ".metadata.annotations.volcano.sh/closed-by-parent"}, want: true,
			wantGone: func(c *apply.QueueApplyConfiguration) bool {
				_, there := c.Annotations["volcano.sh/closed-by-parent"]
				return !there
			}},
		"the quota is not given away": {conflict: FieldConflict{Manager: "kubectl-edit", Field: ".metadata.annotations.volcano.sh/card.quota"},
			wantGone: func(c *apply.QueueApplyConfiguration) bool { return c.Annotations["volcano.sh/card.quota"] == "{}" }},
	}) {
		plan := NewDesiredQueue(quotaOf(weighing(5)), PolicyInput{Types: servicetype.BuiltIn}, nil, "", nil)
		check.Equal(t, "Yield", tc.want, plan.YieldField(tc.conflict))
		check.That(t, plan.WeightManager == tc.wantHolder && tc.wantGone(plan.Config),
			"holder %q, plan %+v %+v", plan.WeightManager, plan.Config.Annotations, plan.Config.Spec)
	}

	t.Run("an emptied spec is not claimed", func(t *testing.T) {
		plan := NewDesiredQueue(quotaOf(), PolicyInput{Types: servicetype.BuiltIn}, nil, "", nil)
		plan.YieldField(FieldConflict{Manager: "helm", Field: ".spec.parent"})
		check.That(t, plan.Config.Spec == nil, "spec = %+v, want none", plan.Config.Spec)
	})
}

func TestServiceTypesInForceDecide(t *testing.T) {
	types := func(name string) (servicetype.Type, bool) {
		return servicetype.Type{Priority: 5, Reclaimable: true}, name == "inference"
	}
	for serviceType, want := range map[string]*apply.QueueSpecApplyConfiguration{
		"inference": apply.QueueSpec().WithParent("root").WithPriority(5).WithReclaimable(true),
		"training":  apply.QueueSpec().WithParent("root"), // the policy does not name it
	} {
		check.Equal(t, serviceType, want, NewDesiredQueue(quotaOf(ofType(serviceType)), PolicyInput{Types: types}, nil, "", nil).Config.Spec)
	}
}
