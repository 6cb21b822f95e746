package script

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAStepCreatesOrChangesAnObject: the first step that names an object creates it with the default words of its kind,
// here a quota of 2. Later ones change it. Each "blocked" is an entry of status.blocked, "holder" belongs to the entry
// before it, and the entries of a step replace those of earlier ones. H200 stands for NVIDIA-H200. The verbs load and
// write make no difference here, and "blocked=" is a step without entries.
func TestAStepCreatesOrChangesAnObject(t *testing.T) {
	objects := New(map[string]string{"quota": "quota=2"})
	for _, line := range Steps(`
		load quota q used=1
		write quota q blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=podgroup:g,count:7 blocked=pod:b,card:H200,count:1,reason:NoFreeCard`) {
		objects.Apply(line)
	}

	quota := objects.Object("quota", "q").(*v1alpha1.CardQuota)
	check.Equal(t, "quota", 2, *quota.Spec.Cards[0].Quota)
	check.Equal(t, "used", 1, quota.Status.Cards[0].Used)
	check.Equal(t, "workloads that wait", 2, quota.Status.BlockedTotal)
	check.Equal(t, "card of the first entry", "NVIDIA-H200", quota.Status.Blocked[0].Card)
	check.Equal(t, "holder of the first entry", "g", quota.Status.Blocked[0].Holders[0].Workload.Name)

	quota = objects.Object("quota", "q", "blocked=").(*v1alpha1.CardQuota)
	check.Equal(t, "entries after a step that has none", 0, len(quota.Status.Blocked))
}

// TestWrongStepsAreRefused: a step that cannot be read is refused, with its line and what is wrong.
func TestWrongStepsAreRefused(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ step, want string }{
		"a kind without a name":       {"load pod", `line 1, "load pod": write a kind and a name behind the verb`},
		"a kind that does not exist":  {"load cat a", `line 1, "load cat a": "cat" is not a kind`},
		"a queue with a word of pods": {"load queue q node=n", `line 1, "load queue q node=n": unknown word "node=n"`},
		"an entry of blocked without a card": {
			"load quota q blocked=pod:a,count:1,reason:NoFreeCard",
			`line 1, "load quota q blocked=pod:a,count:1,reason:NoFreeCard": word "blocked=pod:a,count:1,reason:NoFreeCard": the part card: is missing`,
		},
		"a holder without an entry before it": {
			"load quota q holder=pod:a,count:1",
			`line 1, "load quota q holder=pod:a,count:1": word "holder=pod:a,count:1": write blocked= before it`,
		},
		"a task without its minimum": {"load group g task=ps", `line 1, "load group g task=ps": word "task=ps": write NAME,min:N`},
	}) {
		_, err := New(nil).apply(Steps(tc.step)[0])

		check.Says(t, err, tc.want)
	}
}
