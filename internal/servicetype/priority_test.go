package servicetype

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPriorityIsThatOfTheListedClass: the policy lists PriorityClasses with values, which order work inside a queue.
// A pod with another class, such as one that a tenant created, or with none has the lowest of these values. With an
// empty list it has 0. The default list has 60000 for pc-medium, and 20000 as its lowest.
func TestPriorityIsThatOfTheListedClass(t *testing.T) {
	listed := NewPriorityClasses(map[string]int32{"high": 900, "low": -5})

	for t, tc := range check.Cases(t, map[string]struct {
		classes PriorityClasses
		class   string
		want    int32
	}{
		"a listed class":                          {listed, "high", 900},
		"the lowest listed class":                 {listed, "low", -5},
		"a class that is not listed":              {listed, "mine", -5},
		"no class":                                {classes: listed, want: -5},
		"an empty list":                           {NewPriorityClasses(nil), "high", 0},
		"another class than the only listed one":  {NewPriorityClasses(map[string]int32{"only": 7}), "high", 7},
		"a class of the default list":             {DefaultPriorityClasses(), "pc-medium", 60000},
		"a class that is not in the default list": {DefaultPriorityClasses(), "other", 20000}, // the lowest of that list
	}) {
		check.Equal(t, "priority", tc.want, tc.classes.Priority(tc.class))
	}
}

// TestPriorityOfAJobIsAtMostThatOfItsPods: Kubernetes limits which PriorityClasses the pods of a namespace may use,
// but not the class that a PodGroup names. So a PodGroup can lower the priority of its job, and cannot raise it above
// its pods. Class high has 900, low -5. A class that is not listed counts as the lowest. Without a class the job has
// the priority of its pods.
func TestPriorityOfAJobIsAtMostThatOfItsPods(t *testing.T) {
	classes := NewPriorityClasses(map[string]int32{"high": 900, "low": -5})

	for t, tc := range check.Cases(t, map[string]struct {
		group string
		pods  int32
		want  int32
	}{
		"a PodGroup like its pods":              {"high", 900, 900},
		"a PodGroup above its pods":             {"high", -5, -5},
		"a PodGroup below its pods":             {"low", 900, -5},
		"a PodGroup without a class":            {pods: 900, want: 900},
		"a PodGroup with a class of a tenant's": {"mine", 900, -5},
	}) {
		check.Equal(t, "priority", tc.want, classes.JobPriority(tc.group, tc.pods))
	}
}

// TestPriorityClassesAreValidated: the operator creates the listed classes, so Kubernetes must accept their names
// and values: values above 1,000,000,000 are those of system classes.
func TestPriorityClassesAreValidated(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		values map[string]int32
		want   string // "" when they are accepted
	}{
		"none":               {nil, ""},
		"the largest value":  {map[string]int32{"a.b-c": MaxPriority}, ""},
		"the smallest value": {map[string]int32{"a": -2147483648}, ""},
		"a value of a system class": {
			values: map[string]int32{"a": MaxPriority + 1},
			want:   `PriorityClass "a" has value 1000000001: write at most 1000000000`,
		},
		"capital letters": {map[string]int32{"High": 1}, `"High" is no name of a PriorityClass`},
		"no name":         {map[string]int32{"": 1}, `"" is no name of a PriorityClass`},
		"a long name":     {map[string]int32{strings.Repeat("a", 254): 1}, "is no name of a PriorityClass"},
	}) {
		err := NewPriorityClasses(tc.values).Validate()
		check.Says(t, err, tc.want)

		check.That(t, err == nil || check.FitsEvent(err.Error()), "the error %v does not fit an event", err)
	}
}
