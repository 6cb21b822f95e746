package policy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

// TestEmptySpecHasTheDefaults: a policy without any field means these values. They are valid, and applying the
// defaults to them changes nothing.
func TestEmptySpecHasTheDefaults(t *testing.T) {
	want := v1alpha1.ServiceTypePolicySpec{
		Mode: "Enforce",
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
			{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded"},
		},
		PriorityClassPolicy: "Managed",
		PriorityClasses: []v1alpha1.PriorityClass{
			{Name: "pc-high", Value: 80000},
			{Name: "pc-medium", Value: 60000},
			{Name: "pc-normal", Value: 40000},
			{Name: "pc-low", Value: 20000},
		},
		Preempt:                "Off",
		VictimOrder:            "Priority",
		Reclaim:                "Gangs",
		ReclaimResources:       "Cards",
		QueueHierarchy:         "Flat",
		ComputeQuota:           "IgnoreForCardPods",
		UnmanagedQueues:        "Enforce",
		OverCommitPercent:      100,
		NodeOrderWeightPercent: 100,
		Scheduler: v1alpha1.Scheduler{
			BaseConfigMap: v1alpha1.ConfigMapKeyReference{Name: "volcano-scheduler-configmap", Key: "volcano-scheduler.conf"},
			Names:         []string{"volcano"},
		},
		Admission: v1alpha1.Admission{
			SchedulerBypassPolicy:            "Deny",
			VCJobEvictionPolicy:              "Unchanged",
			JobEvictionPolicy:                "Unchanged",
			MaxTerminationGracePeriodSeconds: 3600,
		},
	}

	got := Effective(v1alpha1.ServiceTypePolicySpec{})
	check.Equal(t, "effective spec", want, got)
	check.Equal(t, "faults", nil, Validate(got))
	check.Equal(t, "effective spec of the effective spec", got, Effective(got))
}

// TestWrittenFieldsAreKept: a field that the administrator has written is never replaced by a default. Service types
// and what they reclaim from are sorted by name, and a type without reclaimPolicy is never reclaimed from. The given
// spec is not changed.
func TestWrittenFieldsAreKept(t *testing.T) {
	spec := v1alpha1.ServiceTypePolicySpec{
		Mode: "Observe",
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "serving", Priority: 9, ReclaimPolicy: "Never", ReclaimFrom: []string{"tuning", "batch"}},
			{Name: "training", Priority: 1, ReclaimPolicy: "Never"},
			{Name: "batch", Priority: 1, ReclaimPolicy: "WhenNeeded"},
			{Name: "inference"},
			{Name: "tuning", Priority: 2, ReclaimPolicy: "WhenNeeded"},
		},
		PriorityClassPolicy:    "None",
		ComputeQuota:           "Enforce",
		Preempt:                "InQueue",
		VictimOrder:            "Loss",
		Reclaim:                "Off",
		ReclaimResources:       "All",
		QueueHierarchy:         "Tree",
		UnmanagedQueues:        "Ignore",
		OverCommitPercent:      120,
		NodeOrderWeightPercent: 50,
		MaxReservationMinutes:  90,
		Scheduler: v1alpha1.Scheduler{
			BaseConfigMap: v1alpha1.ConfigMapKeyReference{Namespace: "n", Name: "c", Key: "k"}, Names: []string{"a"},
		},
		Admission: v1alpha1.Admission{
			SchedulerBypassPolicy:            "Warn",
			VCJobEvictionPolicy:              "RestartOnEviction",
			JobEvictionPolicy:                "IgnoreEvictions",
			MaxTerminationGracePeriodSeconds: 60,
			ExemptServiceAccounts:            []v1alpha1.ServiceAccountReference{{Namespace: "gpu-operator", Name: "validator"}},
		},
	}

	before := spec.DeepCopy()
	got := Effective(spec)
	check.Equal(t, "the spec itself", *before, spec)

	want := *before
	want.ServiceTypes = []v1alpha1.ServiceType{
		{Name: "batch", Priority: 1, ReclaimPolicy: "WhenNeeded"},
		{Name: "inference", ReclaimPolicy: "Never"},
		{Name: "serving", Priority: 9, ReclaimPolicy: "Never", ReclaimFrom: []string{"batch", "tuning"}},
		{Name: "training", Priority: 1, ReclaimPolicy: "Never"},
		{Name: "tuning", Priority: 2, ReclaimPolicy: "WhenNeeded"},
	}
	check.Equal(t, "effective spec", want, got)
}

// TestListedTypesReplaceDefaultsOfTheirNameOnly: a policy that lists notebook and training still has inference with
// its defaults. If the policy lists a training that is not reclaimable, the policy is invalid, since inference
// reclaims from training.
func TestListedTypesReplaceDefaultsOfTheirNameOnly(t *testing.T) {
	got := Effective(v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{
		{Name: "notebook", Priority: 500, ReclaimPolicy: "WhenNeeded"}, {Name: "training", Priority: 7, ReclaimPolicy: "WhenNeeded"},
	}})
	check.Equal(t, "service types", []v1alpha1.ServiceType{
		{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
		{Name: "notebook", Priority: 500, ReclaimPolicy: "WhenNeeded"},
		{Name: "training", Priority: 7, ReclaimPolicy: "WhenNeeded"},
	}, got.ServiceTypes)
	check.Equal(t, "effective spec of the effective spec", got, Effective(got))

	alone := Effective(v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "training"}}})
	check.Contains(t, "faults of a policy whose training is not reclaimable", Validate(alone).ToAggregate().Error(),
		`type "inference" takes from "training", which is not reclaimable`)
}

// newPolicyInForce returns a policy with service types in its status, which are those in force.
func newPolicyInForce(rows ...v1alpha1.ServiceTypeStatus) *v1alpha1.ServiceTypePolicy {
	return &v1alpha1.ServiceTypePolicy{Status: v1alpha1.ServiceTypePolicyStatus{ServiceTypes: rows}}
}

// TestQueuesUseTheTypesInForce: a spec counts once the scheduler's configuration has it. Then its service types
// are in the status. Queues get their priority and whether they are reclaimable from there. A type is
// reclaimable if its reclaimPolicy is WhenNeeded. Before any policy was in force, queues use the built-in
// types: inference with 80000, and training with 20000, which is reclaimable.
func TestQueuesUseTheTypesInForce(t *testing.T) {
	refused := newPolicyInForce(v1alpha1.ServiceTypeStatus{Name: "training", Priority: 5})
	refused.Spec.ServiceTypes = []v1alpha1.ServiceType{{Name: "training", Priority: 99}}

	for t, tc := range check.Cases(t, map[string]struct {
		policy    *v1alpha1.ServiceTypePolicy
		name      string
		want      servicetype.Type
		wantKnown bool
	}{
		"no policy: the built-in type": {name: "inference", want: servicetype.Type{Priority: 80000}, wantKnown: true},
		"a policy that is not in force yet: the built-in type": {
			policy:    newPolicyInForce(),
			name:      "training",
			want:      servicetype.Type{Priority: 20000, Reclaimable: true},
			wantKnown: true,
		},
		"a type of the policy": {
			policy:    newPolicyInForce(v1alpha1.ServiceTypeStatus{Name: "batch", Priority: 5, ReclaimPolicy: "WhenNeeded"}),
			name:      "batch",
			want:      servicetype.Type{Priority: 5, Reclaimable: true},
			wantKnown: true,
		},
		"a built-in type that the policy redefines": {
			policy:    newPolicyInForce(v1alpha1.ServiceTypeStatus{Name: "training", Priority: 5}),
			name:      "training",
			want:      servicetype.Type{Priority: 5},
			wantKnown: true,
		},
		"a built-in type that the policy does not list: unknown": {
			policy: newPolicyInForce(v1alpha1.ServiceTypeStatus{Name: "batch"}),
			name:   "training",
			want:   servicetype.Type{},
		},
		"the spec has another priority than the status: that of the status": {
			policy:    refused,
			name:      "training",
			want:      servicetype.Type{Priority: 5},
			wantKnown: true,
		},
	}) {
		got, known := ServiceTypes(tc.policy)(tc.name)
		check.Equal(t, "service type", tc.want, got)
		check.Equal(t, "known", tc.wantKnown, known)
	}
}

// TestBandsFollowTheTypesInForce: the priority of a queue stays in the band of its service type. It is at most
// 9,999 above the priority of the type, and below that of the next higher type. PriorityBands has the bands of
// the types in force, WrittenBands those of a spec that is not in force yet.
func TestBandsFollowTheTypesInForce(t *testing.T) {
	policy := newPolicyInForce(
		v1alpha1.ServiceTypeStatus{Name: "training", Priority: 20000},
		v1alpha1.ServiceTypeStatus{Name: "batch", Priority: 20100},
	)
	written := Effective(v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "notebook", Priority: 79000}}})

	ofTraining, _ := PriorityBands(policy)("training")
	check.Equal(t, "band in force", servicetype.Band{Type: "training", Lowest: 20000, Highest: 20099, Next: "batch", NextPriority: 20100}, ofTraining)
	builtIn, _ := PriorityBands(nil)("inference")
	check.Equal(t, "built-in band", servicetype.Band{Type: "inference", Lowest: 80000, Highest: 89999}, builtIn)
	_, known := PriorityBands(policy)("inference")
	check.That(t, !known, "a type that is not in force has a band")
	ofNotebook, _ := WrittenBands(written)("notebook")
	check.Equal(t, "written band", servicetype.Band{
		Type: "notebook", Lowest: 79000, Highest: 79999, Next: "inference", NextPriority: 80000,
	}, ofNotebook)
}

// TestTheTreeIsThatInForce: whether queues form a tree is in the status, not in the spec: the scheduler may still run
// with the previous policy.
func TestTheTreeIsThatInForce(t *testing.T) {
	newPolicy := func(written, inForce v1alpha1.QueueHierarchy) *v1alpha1.ServiceTypePolicy {
		return &v1alpha1.ServiceTypePolicy{
			Spec:   v1alpha1.ServiceTypePolicySpec{QueueHierarchy: written},
			Status: v1alpha1.ServiceTypePolicyStatus{QueueHierarchy: inForce},
		}
	}

	check.That(t, !IsTree(nil), "a tree without a policy")
	check.That(t, !IsTree(newPolicy("Tree", "")), "a tree before the policy is in force")
	check.That(t, IsTree(newPolicy("Flat", "Tree")), "no tree although it is in force")
	check.That(t, !IsTree(newPolicy("Flat", "Flat")), "a tree although Flat is in force")
}

// TestSameServiceTypesComparesWhatQueuesHave: the operator writes all Queues again when their priorities or whether
// they are reclaimable change. Without a policy these are those of the built-in types, inference with 80,000 and
// training with 20,000. The order of types, and what only the scheduler reads, do not matter.
func TestSameServiceTypesComparesWhatQueuesHave(t *testing.T) {
	builtIn := []v1alpha1.ServiceTypeStatus{{Name: "inference", Priority: 80000}, {Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded"}}
	counted := []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, CardQuotas: 4, ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded", MinimumRuntimeSeconds: 60},
	}

	for t, tc := range check.Cases(t, map[string]struct {
		a, b *v1alpha1.ServiceTypePolicy
		want bool
	}{
		"no policies": {want: true},
		"no policy, and one with the built-in types": {b: newPolicyInForce(builtIn...), want: true},
		"no policy, and one with a third type": {
			b: newPolicyInForce(append(builtIn, v1alpha1.ServiceTypeStatus{Name: "batch"})...),
		},
		"no policy, and one without training":                          {b: newPolicyInForce(builtIn[0])},
		"other numbers of CardQuotas, reclaimFrom and minimum runtime": {newPolicyInForce(builtIn...), newPolicyInForce(counted...), true},
		"another priority": {
			a: newPolicyInForce(builtIn...),
			b: newPolicyInForce(builtIn[1], v1alpha1.ServiceTypeStatus{Name: "inference", Priority: 1}),
		},
		"another order of types": {newPolicyInForce(builtIn...), newPolicyInForce(builtIn[1], builtIn[0]), true},
	}) {
		check.Equal(t, "same", tc.want, SameServiceTypes(tc.a, tc.b))
		check.Equal(t, "same in the other direction", tc.want, SameServiceTypes(tc.b, tc.a))
	}
}
