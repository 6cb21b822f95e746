package policy

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func kind(name string, priority int32, reclaimable bool, from ...string) v1alpha1.ServiceTypeSpec {
	return v1alpha1.ServiceTypeSpec{Name: name, Priority: priority, Reclaimable: reclaimable, ReclaimFrom: from}
}

func TestValidate(t *testing.T) {
	runtime := func(d time.Duration) v1alpha1.ServiceTypeSpec {
		training := kind("training", 1, true)
		training.MinimumRuntime = &metav1.Duration{Duration: d}
		return training
	}
	types := func(types ...v1alpha1.ServiceTypeSpec) v1alpha1.ServiceTypePolicySpec {
		return v1alpha1.ServiceTypePolicySpec{ServiceTypes: types}
	}
	owners := func(owners ...v1alpha1.OwnerKindSpec) v1alpha1.ServiceTypePolicySpec {
		return v1alpha1.ServiceTypePolicySpec{Owners: owners}
	}
	classes := func(names ...string) v1alpha1.ServiceTypePolicySpec {
		listed := []v1alpha1.PriorityClassSpec{}
		for _, name := range names {
			listed = append(listed, v1alpha1.PriorityClassSpec{Name: name})
		}
		return v1alpha1.ServiceTypePolicySpec{PriorityClasses: &listed}
	}
	for t, tc := range check.Cases(t, map[string]struct {
		spec  v1alpha1.ServiceTypePolicySpec
		wants []string // none when it is accepted
	}{
		"a chain of three":              {types(kind("a", 3, false, "b", "c"), kind("b", 2, true, "c"), kind("c", 1, true)), nil},
		"a minimum runtime of a week":   {types(runtime(7 * 24 * time.Hour)), nil},
		"owners of the usual types":     {owners(v1alpha1.OwnerKindSpec{Kind: "Job.batch.volcano.sh", ServiceType: "training"}), nil},
		"numbers with decimals":         {v1alpha1.ServiceTypePolicySpec{OverCommitFactor: "1.125", NodeOrderWeight: "0.001"}, nil},
		"the largest numbers":           {v1alpha1.ServiceTypePolicySpec{OverCommitFactor: "100.000", NodeOrderWeight: "1000"}, nil},
		"from one another":              {types(kind("a", 2, true, "b"), kind("b", 1, true, "a")), []string{`"b" (priority 1) takes from "a" (priority 2)`, "in a circle: a from b from a"}},
		"from one of the same priority": {types(kind("a", 2, false, "b"), kind("b", 2, true)), []string{`type "a" (priority 2) takes from "b" (priority 2)`, `give "a" more than 2 or "b" less than 2`}},
		"from one of higher priority":   {types(kind("a", 2, false, "b"), kind("b", 3, true)), []string{`so give "a" more than 3 or "b" less than 2`}},
		"defined twice":                 {types(kind("a", 2, false), kind("a", 3, true)), []string{`type "a" is defined twice`}},
		"no minimum runtime at all":     {types(runtime(0)), []string{"minimumRuntime 0s must be between 1s and 168h"}},
		"a negative minimum runtime":    {types(runtime(-time.Hour)), []string{"minimumRuntime -1h0m0s must be"}},
		"more than a week":              {types(runtime(7*24*time.Hour + 1)), []string{"must be between 1s and 168h"}},
		"an owner of an unknown type":   {owners(v1alpha1.OwnerKindSpec{Kind: "Job", ServiceType: "batch"}), []string{`owner kind "Job" stands for type "batch", which is not defined: define it in serviceTypes or remove the owner kind`}},
		"a factor below 1":              {v1alpha1.ServiceTypePolicySpec{OverCommitFactor: "0.9"}, []string{`overCommitFactor "0.9" must be a number from 1 to 100`}},
		"a factor that is no number":    {v1alpha1.ServiceTypePolicySpec{OverCommitFactor: "NaN"}, []string{"overCommitFactor"}},
		"a PriorityClass twice":         {classes("a", "b", "a"), []string{`PriorityClass "a" is listed twice: remove one`}},
		"a PriorityClass without sense": {classes("A"), []string{`"A" is no name of a PriorityClass`}},
		"no PriorityClasses":            {classes(), nil},
		"a weight of nothing":           {v1alpha1.ServiceTypePolicySpec{NodeOrderWeight: "0.000"}, []string{"nodeOrderWeight"}},
		"everything that is wrong": {v1alpha1.ServiceTypePolicySpec{
			ServiceTypes: []v1alpha1.ServiceTypeSpec{kind("a", 1, true, "a", "b")}, OverCommitFactor: "x",
			Owners: []v1alpha1.OwnerKindSpec{{Kind: "Job", ServiceType: "c"}},
		}, []string{"takes from itself", `from "b", which is not defined`, `stands for type "c"`, "overCommitFactor"}},
	}) {
		faults := Validate(Effective(tc.spec))
		check.Must(t, len(tc.wants) != 0 || faults == nil, "refused: %q", faults)
		check.Must(t, len(tc.wants) == 0 || faults != nil, "accepted")
		check.Contains(t, "faults", strings.Join(faults, "\n"), tc.wants...)
	}
}
