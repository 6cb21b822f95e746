package validation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

// TestServiceTypePolicyIsValidated: the webhook refuses a policy that contradicts itself, a change only for what it makes worse.
// It warns of deprecated fields, of CardQuotas that lose their service type, and where the operator cannot render the
// scheduler's configuration: it merges the policy with a base, a ConfigMap of Volcano.
func TestServiceTypePolicyIsValidated(t *testing.T) {
	gone := metav1.NewTime(time.Unix(1, 0))
	policy := func(change func(*v1alpha1.ServiceTypePolicySpec)) *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}

	types := func(types ...v1alpha1.ServiceType) func(*v1alpha1.ServiceTypePolicySpec) {
		return func(s *v1alpha1.ServiceTypePolicySpec) { s.ServiceTypes = types }
	}

	wrong := types(v1alpha1.ServiceType{Name: "a", ReclaimFrom: []string{"b"}})
	wrongAnd := func(s *v1alpha1.ServiceTypePolicySpec) { wrong(s); s.UnmanagedQueues = v1alpha1.UnmanagedIgnore }
	denying := func(s *v1alpha1.ServiceTypePolicySpec) { s.UnmanagedQueues = v1alpha1.UnmanagedDeny }
	wrongTwice := types(v1alpha1.ServiceType{Name: "a", ReclaimFrom: []string{"b", "c"}})

	text := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"volcano-scheduler.conf": text}}
	}
	batch := func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "batch" }

	good := text(schedulerconfig.BuiltIn)
	rendered := policy(nil)
	rendered.Status.ConfigHash = "x"

	from := func(what string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRenderedFrom: what}}}
	}
	tree := func(s *v1alpha1.ServiceTypePolicySpec) { s.QueueHierarchy = v1alpha1.QueueHierarchyTree }
	hierarchical := text(schedulerconfig.BuiltIn + "  - name: capacity\n    enableHierarchy: true\n")

	leaving := policy(wrong)
	leaving.DeletionTimestamp = &gone
	for t, tc := range check.Cases(t, map[string]struct {
		policy, before           *v1alpha1.ServiceTypePolicy
		quotas                   []*v1alpha1.CardQuota
		base, live               *corev1.ConfigMap
		unknown                  bool
		wantRefusal, wantWarning string
	}{
		"a policy without entries": {policy: policy(nil), base: good, quotas: []*v1alpha1.CardQuota{newQuotaOf8H200("a")}},
		"type a reclaims from an undefined type: refused": {
			policy:      policy(wrong),
			base:        good,
			wantRefusal: `spec.serviceTypes: Forbidden: type "a" takes from "b", which is not defined`,
		},
		"another change, type a reclaimed from an undefined type before": {
			policy:      policy(wrongAnd),
			before:      policy(wrong),
			base:        good,
			wantWarning: "as before: ",
		},
		"type a reclaims from a second undefined type: refused": {
			policy:      policy(wrongTwice),
			before:      policy(wrong),
			base:        good,
			wantRefusal: `takes from "c"`,
			wantWarning: "as before: ",
		},
		"only metadata of an invalid policy changes": {policy: policy(wrong), before: policy(wrong), base: good},
		"an invalid policy that is being deleted":    {policy: leaving, before: policy(nil), base: good},
		"overCommitPercent 50: refused": {
			policy:      policy(func(s *v1alpha1.ServiceTypePolicySpec) { s.OverCommitPercent = 50 }),
			base:        good,
			wantRefusal: "spec.overCommitPercent: Invalid value: 50: must be from 100 to 10000",
		},
		"cpu as a card: refused": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.Cards = []v1alpha1.CardMapping{{Resource: "cpu", Model: "X"}}
		}), base: good,
			wantRefusal: `spec.cards[cpu].resource: Forbidden: "cpu" is no card`},
		"a card of another vendor": {
			policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) {
				s.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name", NodeSelector: map[string]string{"on": "true"}}}
			}),
			base: good,
		},
		"two CardQuotas have a service type that is no longer defined": {
			policy:      policy(types(v1alpha1.ServiceType{Name: "inference"})),
			base:        good,
			quotas:      []*v1alpha1.CardQuota{newQuotaOf8H200("b", batch), newQuotaOf8H200("a", batch), newQuotaOf8H200("c")},
			wantWarning: "2 CardQuotas have a service type that this policy does not define: a (batch), b (batch)",
		},
		"unmanagedQueues becomes Deny": {
			policy:      policy(denying),
			before:      policy(nil),
			base:        good,
			wantWarning: "spec.unmanagedQueues: Deny: pods that request CPU or memory no longer start in queues without a CardQuota, also not in queue default",
		},
		"a new policy with unmanagedQueues Deny": {policy: policy(denying), base: good, wantWarning: "spec.unmanagedQueues: Deny"},
		"another change, unmanagedQueues Deny before": {
			policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) { denying(s); s.Reclaim = "Off" }),
			before: policy(denying),
			base:   good,
		},
		"the deprecated victimOrder Loss": {
			policy:      policy(func(s *v1alpha1.ServiceTypePolicySpec) { s.VictimOrder = v1alpha1.VictimsByLoss }),
			base:        good,
			wantWarning: "spec.victimOrder: Loss is deprecated, because it evicts work of high priority where work of low priority would suffice: remove the field; for the least loss among the queues of one priority, list a single class in spec.priorityClasses",
		},
		"the deprecated priorityClassPolicy None": {
			policy:      policy(func(s *v1alpha1.ServiceTypePolicySpec) { s.PriorityClassPolicy = v1alpha1.PriorityClassesNone }),
			base:        good,
			wantWarning: "spec.priorityClassPolicy: None is deprecated: remove the field, and list a single class in spec.priorityClasses, which makes all work of a queue equal, too",
		},
		"deprecated fields with their default values": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.VictimOrder = v1alpha1.VictimsByPriority
			s.PriorityClassPolicy = v1alpha1.PriorityClassesManaged
			s.NodeOrderWeightPercent = 4
		}), base: good},
		"the ConfigMaps cannot be read": {policy: policy(nil), unknown: true},
		"the base ConfigMap is gone": {
			policy:      rendered,
			live:        from("ConfigMap a/b, key c"),
			wantWarning: "the policy waits: there is no ConfigMap volcano-system/volcano-scheduler-configmap",
		},
		"the base is gone: the rendered configuration stays": {
			policy:      rendered,
			live:        from("ConfigMap a/b, key c"),
			wantWarning: "; what was rendered last stays",
		},
		"the base and the rendered ConfigMap are gone": {policy: rendered, wantWarning: "; there is no rendered configuration"},
		"rendered from Volcano's default, and the policy changes": {
			policy:      rendered,
			live:        from("Volcano's built-in default"),
			wantWarning: "Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap",
		},
		"Volcano's own reclaim in a tree: refused": {
			policy:      policy(func(s *v1alpha1.ServiceTypePolicySpec) { tree(s); s.Reclaim = v1alpha1.ReclaimPods }),
			base:        good,
			wantRefusal: `spec.reclaim: Invalid value: "Pods": cannot be used with queueHierarchy: Tree`,
		},
		"the base has Volcano's hierarchy, the policy says Flat": {
			policy:      policy(nil),
			base:        hierarchical,
			wantWarning: "the policy waits: ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf: plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits of parent queues would no longer hold. Set queueHierarchy: Tree in the policy",
		},
		"the base has Volcano's hierarchy, the policy says Tree": {policy: policy(tree), base: hierarchical},
		"an invalid base, and no rendered configuration": {
			policy:      policy(nil),
			base:        text("actions: ["),
			wantWarning: "; there is no rendered configuration",
		},
		"there is no base ConfigMap": {
			policy:      policy(nil),
			wantWarning: "Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap volcano-system/volcano-scheduler-configmap",
		},
		"a base that is not YAML": {
			policy:      policy(nil),
			base:        text("actions: ["),
			wantWarning: "the policy waits: ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf: the text is not YAML",
		},
	}) {
		checkAnswer(t, ValidateServiceTypePolicy(tc.policy, tc.before, PolicyInput{Quotas: tc.quotas, Base: tc.base, Rendered: tc.live, BaseUnknown: tc.unknown, Volcano: "volcano-system"}), tc.wantRefusal, tc.wantWarning)
	}
}
