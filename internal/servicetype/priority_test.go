package servicetype

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestPriorityOfAClass(t *testing.T) {
	listed := NewPriorityClasses(map[string]int32{"high": 900, "low": -5})

	for t, tc := range check.Cases(t, map[string]struct {
		classes PriorityClasses
		class   string
		want    int32
	}{
		"a listed class has its value":        {listed, "high", 900},
		"the lowest class has its value":      {listed, "low", -5},
		"a class of a tenant's own is lowest": {listed, "mine", -5},
		"no class is lowest":                  {listed, "", -5},
		"of an empty list all are equal":      {NewPriorityClasses(nil), "high", 0},
		"beside a single class all are equal": {NewPriorityClasses(map[string]int32{"only": 7}), "high", 7},
		"the classes of the installation":     {DefaultPriorityClasses(), "pc-medium", 60000},
		"beside those of the installation":    {DefaultPriorityClasses(), "other", 20000},
	}) {
		check.Equal(t, "priority", tc.want, tc.classes.Priority(tc.class))
	}
}

// TestPriorityOfAJob: nothing limits the class that a PodGroup names, so it
// cannot raise a job above its pods.
func TestPriorityOfAJob(t *testing.T) {
	classes := NewPriorityClasses(map[string]int32{"high": 900, "low": -5})

	for t, tc := range check.Cases(t, map[string]struct {
		group string
		pods  int32
		want  int32
	}{
		"both high":                             {"high", 900, 900},
		"a PodGroup above its pods":             {"high", -5, -5},
		"a PodGroup below its pods":             {"low", 900, -5},
		"a PodGroup without a class":            {"", 900, 900},
		"a PodGroup with a class of a tenant's": {"mine", 900, -5},
	}) {
		check.Equal(t, "priority", tc.want, classes.JobPriority(tc.group, tc.pods))
	}
}

func TestPriorityClassesAreValidated(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		values map[string]int32
		want   string // "" when they are accepted
	}{
		"none":                      {nil, ""},
		"the largest value":         {map[string]int32{"a.b-c": MaxPriority}, ""},
		"the smallest value":        {map[string]int32{"a": -2147483648}, ""},
		"a value of a system class": {map[string]int32{"a": MaxPriority + 1}, `PriorityClass "a" has value 1000000001: write at most 1000000000`},
		"capital letters":           {map[string]int32{"High": 1}, `"High" is no name of a PriorityClass`},
		"no name":                   {map[string]int32{"": 1}, `"" is no name of a PriorityClass`},
		"a long name":               {map[string]int32{strings.Repeat("a", 254): 1}, "is no name of a PriorityClass"},
	}) {
		err := NewPriorityClasses(tc.values).Validate()
		if tc.want == "" {
			check.NoError(t, err)
			continue
		}

		check.Refused(t, err, tc.want)
	}
}
