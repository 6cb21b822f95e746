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

// TestServiceTypePolicyIsValidated: the webhook refuses a policy that contradicts itself, a change only for what it
// makes worse. It warns of what the policy newly stops, as Deny does, of deprecated fields, and of CardQuotas whose
// service type is not defined. It also warns where the operator cannot render the scheduler's configuration. Types
// inference and training are built in. The operator merges the policy with a base, a ConfigMap of Volcano, and
// writes the result into the rendered ConfigMap. Without a base it uses Volcano's default, with a warning, if the
// policy is new or was rendered from that default.
func TestServiceTypePolicyIsValidated(t *testing.T) {
	newPolicy := func(changes ...func(*v1alpha1.ServiceTypePolicySpec)) *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		for _, change := range changes {
			change(&p.Spec)
		}
		return p
	}

	withTypes := func(types ...v1alpha1.ServiceType) func(*v1alpha1.ServiceTypePolicySpec) {
		return func(s *v1alpha1.ServiceTypePolicySpec) { s.ServiceTypes = types }
	}

	setIgnore := func(s *v1alpha1.ServiceTypePolicySpec) { s.UnmanagedQueues = v1alpha1.UnmanagedIgnore }
	setDeny := func(s *v1alpha1.ServiceTypePolicySpec) { s.UnmanagedQueues = v1alpha1.UnmanagedDeny }
	setReclaimOff := func(s *v1alpha1.ServiceTypePolicySpec) { s.Reclaim = v1alpha1.ReclaimOff }
	setReclaimPods := func(s *v1alpha1.ServiceTypePolicySpec) { s.Reclaim = v1alpha1.ReclaimPods }
	setTree := func(s *v1alpha1.ServiceTypePolicySpec) { s.QueueHierarchy = v1alpha1.QueueHierarchyTree }
	setObserve := func(s *v1alpha1.ServiceTypePolicySpec) { s.Mode = v1alpha1.ModeObserve }
	reclaimingFromB := withTypes(v1alpha1.ServiceType{Name: "a", ReclaimFrom: []string{"b"}}) // which is not defined
	reclaimingFromBAndC := withTypes(v1alpha1.ServiceType{Name: "a", ReclaimFrom: []string{"b", "c"}})

	newBase := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"volcano-scheduler.conf": text}}
	}
	setBatch := func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "batch" }

	validBase := newBase(schedulerconfig.BuiltIn)
	rendered := newPolicy()
	rendered.Status.ConfigHash = "x" // the operator has rendered this policy before

	newRenderedFrom := func(what string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRenderedFrom: what}}}
	}
	hierarchicalBase := newBase(schedulerconfig.BuiltIn + "  - name: capacity\n    enableHierarchy: true\n")

	deleted := newPolicy(reclaimingFromB)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}

	for t, tc := range check.Cases(t, map[string]struct {
		policy, before           *v1alpha1.ServiceTypePolicy
		quotas                   []*v1alpha1.CardQuota
		base, renderedConfigMap  *corev1.ConfigMap
		isBaseUnknown            bool
		wantRefusal, wantWarning string
	}{
		"a policy without entries": {policy: newPolicy(), base: validBase, quotas: []*v1alpha1.CardQuota{newQuotaOf8H200("a")}},
		"type a reclaims from an undefined type: refused": {
			policy:      newPolicy(reclaimingFromB),
			base:        validBase,
			wantRefusal: `spec.serviceTypes: Forbidden: type "a" takes from "b", which is not defined`,
		},
		"another change, type a reclaimed from an undefined type before": {
			policy:      newPolicy(reclaimingFromB, setIgnore),
			before:      newPolicy(reclaimingFromB),
			base:        validBase,
			wantWarning: "as before: ",
		},
		"type a reclaims from a second undefined type: refused": {
			policy:      newPolicy(reclaimingFromBAndC),
			before:      newPolicy(reclaimingFromB),
			base:        validBase,
			wantRefusal: `takes from "c"`,
			wantWarning: "as before: ",
		},
		"only metadata of an invalid policy changes: not validated": {
			policy: newPolicy(reclaimingFromB),
			before: newPolicy(reclaimingFromB),
			base:   validBase,
		},
		"an invalid policy that is being deleted: not validated": {policy: deleted, before: newPolicy(), base: validBase},
		"overCommitPercent 50: refused": {
			policy:      newPolicy(func(s *v1alpha1.ServiceTypePolicySpec) { s.OverCommitPercent = 50 }),
			base:        validBase,
			wantRefusal: "spec.overCommitPercent: Invalid value: 50: must be from 100 to 10000",
		},
		"cpu as a card: refused": {policy: newPolicy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.Cards = []v1alpha1.CardMapping{{Resource: "cpu", Model: "X"}}
		}), base: validBase,
			wantRefusal: `spec.cards[cpu].resource: Forbidden: "cpu" is no card`},
		"a card of another vendor": {
			policy: newPolicy(func(s *v1alpha1.ServiceTypePolicySpec) {
				s.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name", NodeSelector: map[string]string{"on": "true"}}}
			}),
			base: validBase,
		},
		"two CardQuotas have a service type that is not defined": {
			policy:      newPolicy(withTypes(v1alpha1.ServiceType{Name: "inference"})),
			base:        validBase,
			quotas:      []*v1alpha1.CardQuota{newQuotaOf8H200("b", setBatch), newQuotaOf8H200("a", setBatch), newQuotaOf8H200("c")},
			wantWarning: "2 CardQuotas have a service type that this policy does not define: a (batch), b (batch)",
		},
		"unmanagedQueues becomes Deny": {
			policy:      newPolicy(setDeny),
			before:      newPolicy(),
			base:        validBase,
			wantWarning: "spec.unmanagedQueues: Deny: pods that request CPU or memory no longer start in queues without a CardQuota, also not in queue default",
		},
		"a new policy with unmanagedQueues Deny": {policy: newPolicy(setDeny), base: validBase, wantWarning: "spec.unmanagedQueues: Deny"},
		"another change, unmanagedQueues Deny before": {
			policy: newPolicy(setDeny, setReclaimOff),
			before: newPolicy(setDeny),
			base:   validBase,
		},
		"the deprecated victimOrder Loss": {
			policy:      newPolicy(func(s *v1alpha1.ServiceTypePolicySpec) { s.VictimOrder = v1alpha1.VictimsByLoss }),
			base:        validBase,
			wantWarning: "spec.victimOrder: Loss is deprecated, because it evicts work of high priority where work of low priority would suffice: remove the field; for the least loss among the queues of one priority, list a single class in spec.priorityClasses",
		},
		"the deprecated priorityClassPolicy None": {
			policy:      newPolicy(func(s *v1alpha1.ServiceTypePolicySpec) { s.PriorityClassPolicy = v1alpha1.PriorityClassesNone }),
			base:        validBase,
			wantWarning: "spec.priorityClassPolicy: None is deprecated: remove the field, and list a single class in spec.priorityClasses, which makes all work of a queue equal, too",
		},
		"deprecated fields with their default values": {policy: newPolicy(func(s *v1alpha1.ServiceTypePolicySpec) {
			s.VictimOrder = v1alpha1.VictimsByPriority
			s.PriorityClassPolicy = v1alpha1.PriorityClassesManaged
			s.NodeOrderWeightPercent = 4
		}), base: validBase},
		"the ConfigMaps cannot be read, so the webhook says nothing of them": {policy: newPolicy(), isBaseUnknown: true},
		"the base ConfigMap is gone, and the rendered ConfigMap stays": {
			policy:            rendered,
			renderedConfigMap: newRenderedFrom("ConfigMap a/b, key c"),
			wantWarning:       "the policy waits: there is no ConfigMap volcano-system/volcano-scheduler-configmap…; what was rendered last stays",
		},
		"the base and the rendered ConfigMap are gone": {policy: rendered, wantWarning: "; there is no rendered configuration"},
		"no base, and the policy was rendered from Volcano's default": {
			policy:            rendered,
			renderedConfigMap: newRenderedFrom("Volcano's built-in default"),
			wantWarning:       "Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap",
		},
		"Volcano's own reclaim in a tree: refused": {
			policy:      newPolicy(setTree, setReclaimPods),
			base:        validBase,
			wantRefusal: `spec.reclaim: Invalid value: "Pods": cannot be used with queueHierarchy: Tree`,
		},
		"the base has Volcano's hierarchy, the policy says Flat": {
			policy:      newPolicy(),
			base:        hierarchicalBase,
			wantWarning: "the policy waits: ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf: plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits of parent queues would no longer hold. Set queueHierarchy: Tree in the policy",
		},
		"the base has Volcano's hierarchy, the policy says Tree": {policy: newPolicy(setTree), base: hierarchicalBase},
		"a new policy, and there is no base ConfigMap": {
			policy:      newPolicy(),
			wantWarning: "Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap volcano-system/volcano-scheduler-configmap",
		},
		"a new policy that observes, and there is no base ConfigMap": {policy: newPolicy(setObserve)},
		"a base that is not YAML, and no rendered ConfigMap": {
			policy:      newPolicy(),
			base:        newBase("actions: ["),
			wantWarning: "the policy waits: ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf: the text is not YAML…; there is no rendered configuration",
		},
	}) {
		checkAnswer(t, ValidateServiceTypePolicy(tc.policy, tc.before, PolicyInput{Quotas: tc.quotas, Base: tc.base, Rendered: tc.renderedConfigMap, BaseUnknown: tc.isBaseUnknown, Volcano: "volcano-system"}), tc.wantRefusal, tc.wantWarning)
	}
}
