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

func TestServiceTypePolicy(t *testing.T) {
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
		policy, before   *v1alpha1.ServiceTypePolicy
		quotas           []*v1alpha1.CardQuota
		base, live       *corev1.ConfigMap
		unknown          bool
		refusal, warning string
	}{
		"the usual one":                      {policy: policy(nil), base: good, quotas: []*v1alpha1.CardQuota{quotaOf("a", nil)}},
		"one that contradicts itself":        {policy: policy(wrong), base: good, refusal: `spec.serviceTypes: Forbidden: type "a" takes from "b", which is not defined`},
		"one that did before":                {policy: policy(wrongAnd), before: policy(wrong), base: good, warning: "as before: "},
		"one that does so more than before":  {policy: policy(wrongTwice), before: policy(wrong), base: good, refusal: `takes from "c"`, warning: "as before: "},
		"metadata of a wrong one":            {policy: policy(wrong), before: policy(wrong), base: good},
		"a wrong one that is being deleted":  {policy: leaving, before: policy(nil), base: good},
		"a number that the scheduler cannot": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) { s.OverCommitPercent = 50 }), base: good, refusal: "spec.overCommitPercent: Invalid value: 50: must be from 100 to 10000"},
		"a card that is none": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.Cards = []v1alpha1.CardMapping{{Resource: "cpu", Model: "X"}}
		}), base: good,
			refusal: `spec.cards[cpu].resource: Forbidden: "cpu" is no card`},
		"a card": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name", NodeSelector: map[string]string{"on": "true"}}}
		}), base: good},
		"a type goes of which quotas are": {policy: policy(types(v1alpha1.ServiceType{Name: "inference"})), base: good, quotas: []*v1alpha1.CardQuota{quotaOf("b", batch), quotaOf("a", batch), quotaOf("c", nil)},
			warning: "2 CardQuotas have a service type that this policy does not define: a (batch), b (batch)"},
		"unmanaged queues are denied": {policy: policy(denying), before: policy(nil), base: good, warning: "spec.unmanagedQueues: Deny: pods that request CPU or memory no longer start in queues without a CardQuota, also not in queue default"},
		"denied from the start":       {policy: policy(denying), base: good, warning: "spec.unmanagedQueues: Deny"},
		"denied before":               {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) { denying(s); s.Reclaim = "Off" }), before: policy(denying), base: good},
		"victims by the least loss": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) { s.VictimOrder = v1alpha1.VictimsByLoss }), base: good,
			warning: "spec.victimOrder: Loss is deprecated, because it evicts work of high priority where work of low priority would suffice: remove the field; for the least loss among the queues of one priority, list a single class in spec.priorityClasses"},
		"no PriorityClasses": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) { s.PriorityClassPolicy = v1alpha1.PriorityClassesNone }), base: good,
			warning: "spec.priorityClassPolicy: None is deprecated: remove the field, and list a single class in spec.priorityClasses, which makes all work of a queue equal, too"},
		"what they are without the fields": {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.VictimOrder = v1alpha1.VictimsByPriority
			s.PriorityClassPolicy = v1alpha1.PriorityClassesManaged
			s.NodeOrderWeightPercent = 4
		}), base: good},
		"a ConfigMap that is not known":   {policy: policy(nil), unknown: true},
		"the base is gone":                {policy: rendered, live: from("ConfigMap a/b, key c"), warning: "the policy waits: there is no ConfigMap volcano-system/volcano-scheduler-configmap"},
		"what is rendered stays":          {policy: rendered, live: from("ConfigMap a/b, key c"), warning: "; what was rendered last stays"},
		"ours is gone as well":            {policy: rendered, warning: "; there is no rendered configuration"},
		"never a base, another policy":    {policy: rendered, live: from("Volcano's built-in default"), warning: "Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap"},
		"Volcano's reclaim in a tree":     {policy: policy(func(s *v1alpha1.ServiceTypePolicySpec) { tree(s); s.Reclaim = v1alpha1.ReclaimPods }), base: good, refusal: `spec.reclaim: Invalid value: "Pods": cannot be used with queueHierarchy: Tree`},
		"a hierarchy of capacity":         {policy: policy(nil), base: hierarchical, warning: "the policy waits: ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf: plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits of parent queues would no longer hold. Set queueHierarchy: Tree in the policy"},
		"a hierarchy that is taken over":  {policy: policy(tree), base: hierarchical},
		"nothing is rendered":             {policy: policy(nil), base: text("actions: ["), warning: "; there is no rendered configuration"},
		"no ConfigMap yet":                {policy: policy(nil), warning: "Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap volcano-system/volcano-scheduler-configmap"},
		"a ConfigMap that cannot be used": {policy: policy(nil), base: text("actions: ["), warning: "the policy waits: ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf: the text is not YAML"},
	}) {
		answers(t, ValidateServiceTypePolicy(tc.policy, tc.before, PolicyInput{Quotas: tc.quotas, Base: tc.base, Rendered: tc.live, BaseUnknown: tc.unknown, Volcano: "volcano-system"}), tc.refusal, tc.warning)
	}
}
