package policy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

func TestAnEmptySpecIsTheUsualPolicy(t *testing.T) {
	want := v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
			{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded"},
		},
		PriorityClassPolicy: "Managed", PriorityClasses: []v1alpha1.PriorityClass{
			{Name: "pc-high", Value: 80000}, {Name: "pc-medium", Value: 60000},
			{Name: "pc-normal", Value: 40000}, {Name: "pc-low", Value: 20000},
		},
		Preempt: "Off", VictimOrder: "Priority", Reclaim: "Gangs", ReclaimResources: "Cards", QueueHierarchy: "Flat", ComputeQuota: "IgnoreForCardPods", UnmanagedQueues: "Enforce", OverCommitPercent: 100, NodeOrderWeightPercent: 100,
		Scheduler: v1alpha1.Scheduler{
			BaseConfigMap: v1alpha1.ConfigMapKeyReference{Name: "volcano-scheduler-configmap", Key: "volcano-scheduler.conf"},
			Names:         []string{"volcano"},
		},
		Admission: v1alpha1.Admission{SchedulerBypassPolicy: "Deny", VCJobEvictionPolicy: "Unchanged", JobEvictionPolicy: "Unchanged", MaxTerminationGracePeriodSeconds: 3600},
	}

	got := Effective(v1alpha1.ServiceTypePolicySpec{})
	check.Equal(t, "effective spec", want, got)
	faults := Validate(got)
	check.That(t, faults == nil, "the usual policy is refused: %q", faults)
	check.Equal(t, "filling in twice is not filling in once", got, Effective(got))
}

func TestWhatIsWrittenIsKept(t *testing.T) {
	spec := v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "serving", Priority: 9, ReclaimPolicy: "Never", ReclaimFrom: []string{"tuning", "batch"}},
			{Name: "training", Priority: 1, ReclaimPolicy: "Never"},
			{Name: "batch", Priority: 1, ReclaimPolicy: "WhenNeeded"},
			{Name: "inference"},
			{Name: "tuning", Priority: 2, ReclaimPolicy: "WhenNeeded"},
		},
		PriorityClassPolicy: "None", ComputeQuota: "Enforce", Preempt: "InQueue", VictimOrder: "Loss", Reclaim: "Off", ReclaimResources: "All", QueueHierarchy: "Tree", UnmanagedQueues: "Ignore",
		OverCommitPercent: 120, NodeOrderWeightPercent: 50, MaxReservationMinutes: 90,
		Scheduler: v1alpha1.Scheduler{BaseConfigMap: v1alpha1.ConfigMapKeyReference{Namespace: "n", Name: "c", Key: "k"}, Names: []string{"a"}},
		Admission: v1alpha1.Admission{SchedulerBypassPolicy: "Warn", VCJobEvictionPolicy: "RestartOnEviction", JobEvictionPolicy: "IgnoreEvictions", MaxTerminationGracePeriodSeconds: 60,
			ExemptServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "gpu-operator", Name: "validator"}}},
	}

	before := spec.DeepCopy()
	got := Effective(spec)
	check.Equal(t, "the spec itself was changed", *before, spec)

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

// TestAThirdTypeLosesNoneOfTheUsual: what is listed replaces default types of the same name.
func TestAThirdTypeLosesNoneOfTheUsual(t *testing.T) {
	got := Effective(v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{
		{Name: "notebook", Priority: 500, ReclaimPolicy: "WhenNeeded"}, {Name: "training", Priority: 7, ReclaimPolicy: "WhenNeeded"},
	}})
	check.Equal(t, "service types", []v1alpha1.ServiceType{
		{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
		{Name: "notebook", Priority: 500, ReclaimPolicy: "WhenNeeded"},
		{Name: "training", Priority: 7, ReclaimPolicy: "WhenNeeded"},
	}, got.ServiceTypes)
	check.Equal(t, "filled in twice", got, Effective(got))
	alone := Effective(v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "training"}}})
	check.Contains(t, "training that gives nothing, inference as it is", Validate(alone).ToAggregate().Error(), `type "inference" takes from "training", which is not reclaimable`)
}

// inForce is a policy with the given rows in its status.
func inForce(rows ...v1alpha1.ServiceTypeStatus) *v1alpha1.ServiceTypePolicy {
	return &v1alpha1.ServiceTypePolicy{Status: v1alpha1.ServiceTypePolicyStatus{ServiceTypes: rows}}
}

func TestQueuesUseTheTypesInForce(t *testing.T) {
	refused := inForce(v1alpha1.ServiceTypeStatus{Name: "training", Priority: 5})
	refused.Spec.ServiceTypes = []v1alpha1.ServiceType{{Name: "training", Priority: 99}}
	cases := map[string]struct {
		policy    *v1alpha1.ServiceTypePolicy
		name      string
		want      servicetype.Type
		wantKnown bool
	}{
		"without a policy the built-in types":        {nil, "inference", servicetype.Type{Priority: 80000}, true},
		"before the first one took effect as well":   {inForce(), "training", servicetype.Type{Priority: 20000, Reclaimable: true}, true},
		"a type of the policy":                       {inForce(v1alpha1.ServiceTypeStatus{Name: "batch", Priority: 5, ReclaimPolicy: "WhenNeeded"}), "batch", servicetype.Type{Priority: 5, Reclaimable: true}, true},
		"a built-in type that the policy redefines":  {inForce(v1alpha1.ServiceTypeStatus{Name: "training", Priority: 5}), "training", servicetype.Type{Priority: 5}, true},
		"a built-in type that the policy leaves out": {inForce(v1alpha1.ServiceTypeStatus{Name: "batch"}), "training", servicetype.Type{}, false},
		"the status decides, not the spec":           {refused, "training", servicetype.Type{Priority: 5}, true},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, known := ServiceTypes(tc.policy)(tc.name)
			check.That(t, got == tc.want && known == tc.wantKnown, "%+v, %v; want %+v, %v", got, known, tc.want, tc.wantKnown)
		})
	}
}

func TestBandsOfAPolicy(t *testing.T) {
	policy := inForce(v1alpha1.ServiceTypeStatus{Name: "training", Priority: 20000}, v1alpha1.ServiceTypeStatus{Name: "batch", Priority: 20100})
	band, known := PriorityBands(policy)("training")
	check.That(t, known && band.Highest == 20099 && band.Next == "batch", "in force is %+v, %v", band, known)
	band, known = PriorityBands(nil)("inference")
	check.That(t, known && band.Lowest == 80000 && band.Highest == 89999, "built in is %+v, %v", band, known)
	_, known = PriorityBands(policy)("inference")
	check.That(t, !known, "a type that is not in force has a band")
	band, known = WrittenBands(Effective(v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "notebook", Priority: 79000}}}))("notebook")
	check.That(t, known && band.Highest == 79999 && band.Next == "inference", "written is %+v, %v", band, known)
}

func TestTheTreeIsThatInForce(t *testing.T) {
	policy := inForce()
	policy.Spec.QueueHierarchy = "Tree"
	check.That(t, !IsTree(nil) && !IsTree(policy), "a tree before the policy is in force")
	policy.Status.QueueHierarchy = "Tree"
	policy.Spec.QueueHierarchy = "Flat"
	check.That(t, IsTree(policy), "no tree although it is in force")
	policy.Status.QueueHierarchy = "Flat"
	check.That(t, !IsTree(policy), "a tree although Flat is in force")
}

func TestSameTypes(t *testing.T) {
	builtIn := []v1alpha1.ServiceTypeStatus{{Name: "inference", Priority: 80000}, {Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded"}}
	counted := []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, CardQuotas: 4, ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded", MinimumRuntimeSeconds: 60},
	}

	for t, tc := range check.Cases(t, map[string]struct {
		a, b *v1alpha1.ServiceTypePolicy
		want bool
	}{
		"none and none":                        {nil, nil, true},
		"none and one that says what is usual": {nil, inForce(builtIn...), true},
		"none and one with a third type":       {nil, inForce(append(builtIn, v1alpha1.ServiceTypeStatus{Name: "batch"})...), false},
		"none and one without training":        {nil, inForce(builtIn[0]), false},
		"what queues do not carry":             {inForce(builtIn...), inForce(counted...), true},
		"another priority":                     {inForce(builtIn...), inForce(builtIn[1], v1alpha1.ServiceTypeStatus{Name: "inference", Priority: 1}), false},
		"another order":                        {inForce(builtIn...), inForce(builtIn[1], builtIn[0]), true},
	}) {
		check.That(t, SameServiceTypes(tc.a, tc.b) == tc.want && SameServiceTypes(tc.b, tc.a) == tc.want, "SameServiceTypes is not %v in both directions", tc.want)
	}
}
