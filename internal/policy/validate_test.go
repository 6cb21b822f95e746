package policy

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func newType(name string, priority int32, reclaimable bool, from ...string) v1alpha1.ServiceType {
	out := v1alpha1.ServiceType{Name: name, Priority: priority, ReclaimFrom: from}
	if reclaimable {
		out.ReclaimPolicy = v1alpha1.ReclaimWhenNeeded
	}
	return out
}

// TestContradictionsOfASpecAreFaults: Validate says everything that is wrong in a spec and what to write.
// Service types must not take cards from each other in turn, or from an equal or higher priority. Numbers have
// bounds, and each entry must mean something. Helper newType names a type, its priority, whether it is
// reclaimable, and from which types it reclaims.
func TestContradictionsOfASpecAreFaults(t *testing.T) {
	runtime := func(seconds int32) v1alpha1.ServiceType {
		training := newType("training", 1, true)
		training.MinimumRuntimeSeconds = seconds
		return training
	}

	// Each of these functions returns a spec with one list.
	types := func(types ...v1alpha1.ServiceType) v1alpha1.ServiceTypePolicySpec {
		return v1alpha1.ServiceTypePolicySpec{ServiceTypes: types}
	}
	owners := func(owners ...v1alpha1.OwnerKind) v1alpha1.ServiceTypePolicySpec {
		return v1alpha1.ServiceTypePolicySpec{Owners: owners}
	}

	classes := func(names ...string) v1alpha1.ServiceTypePolicySpec {
		var listed []v1alpha1.PriorityClass
		for _, name := range names {
			listed = append(listed, v1alpha1.PriorityClass{Name: name})
		}
		return v1alpha1.ServiceTypePolicySpec{PriorityClasses: listed}
	}
	cards := func(cards ...v1alpha1.CardMapping) v1alpha1.ServiceTypePolicySpec {
		return v1alpha1.ServiceTypePolicySpec{Cards: cards}
	}

	amd := v1alpha1.CardMapping{Resource: "amd.com/gpu", Model: "MI210"}
	for t, tc := range check.Cases(t, map[string]struct {
		spec  v1alpha1.ServiceTypePolicySpec
		wants []string // parts of the faults, none if the spec is valid
	}{
		"three types that reclaim downwards": {
			spec: types(newType("a", 3, false, "b", "c"), newType("b", 2, true, "c"), newType("c", 1, true)),
		},
		"a minimum runtime of a week": {types(runtime(604800)), nil},
		"owners of the usual types":   {owners(v1alpha1.OwnerKind{Kind: "Job.batch.volcano.sh", ServiceType: "training"}), nil},
		"the largest numbers": {
			spec: v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 10000, NodeOrderWeightPercent: 100000, MaxReservationMinutes: 1440},
		},
		"two types that reclaim from each other": {
			spec:  types(newType("a", 2, true, "b"), newType("b", 1, true, "a")),
			wants: []string{`"b" (priority 1) takes from "a" (priority 2)`, "in a circle: a from b from a"},
		},
		"a type reclaims from one of the same priority": {
			spec:  types(newType("a", 2, false, "b"), newType("b", 2, true)),
			wants: []string{`type "a" (priority 2) takes from "b" (priority 2)`, `give "a" more than 2 or "b" less than 2`},
		},
		"a type reclaims from one of higher priority": {
			spec:  types(newType("a", 2, false, "b"), newType("b", 3, true)),
			wants: []string{`so give "a" more than 3 or "b" less than 2`},
		},
		"a minimum runtime of 0": {types(runtime(0)), nil},
		"a negative minimum runtime": {
			spec:  types(runtime(-1)),
			wants: []string{"spec.serviceTypes[training].minimumRuntimeSeconds: Invalid value: -1: must be from 0 to 604800"},
		},
		"a minimum runtime of a week and a second": {types(runtime(604801)), []string{"must be from 0 to 604800"}},
		"an owner of an unknown type": {
			spec:  owners(v1alpha1.OwnerKind{Kind: "Job", ServiceType: "batch"}),
			wants: []string{`spec.owners[Job].serviceType: Invalid value: "batch": is not defined: define it in serviceTypes or remove the owner kind`},
		},
		"overCommitPercent 99": {
			spec:  v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 99},
			wants: []string{"spec.overCommitPercent: Invalid value: 99: must be from 100 to 10000"},
		},
		"overCommitPercent 10001": {v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 10001}, []string{"overCommitPercent"}},
		"a time zone":             {v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "Europe/Berlin"}, nil},
		"an unknown time zone": {
			spec:  v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "Europe/Atlantis"},
			wants: []string{`spec.billingTimeZone: Invalid value: "Europe/Atlantis": there is no such time zone`},
		},
		"time zone Local, which differs by container": {
			spec:  v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "Local"},
			wants: []string{"there is no such time zone"},
		},
		"the shortest reservation": {v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 5}, nil},
		"too short a reservation": {
			spec:  v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 4},
			wants: []string{"spec.maxReservationMinutes: Invalid value: 4: must be from 5 to 1440"},
		},
		"too long a reservation": {
			spec:  v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 1441},
			wants: []string{"spec.maxReservationMinutes: Invalid value: 1441"},
		},
		"a PriorityClass in upper case": {classes("A"), []string{`"A" is no name of a PriorityClass`}},
		"Volcano's reclaim in a tree": {
			spec: v1alpha1.ServiceTypePolicySpec{Reclaim: "Pods", QueueHierarchy: "Tree"},
			wants: []string{
				`spec.reclaim: Invalid value: "Pods": cannot be used with queueHierarchy: Tree`,
				"set reclaim: Gangs, with which cardreclaim takes back by all rules of the tree",
			},
		},
		"Volcano's reclaim, flat": {v1alpha1.ServiceTypePolicySpec{Reclaim: "Pods", QueueHierarchy: "Flat"}, nil},
		"cardreclaim in a tree":   {v1alpha1.ServiceTypePolicySpec{QueueHierarchy: "Tree"}, nil},
		"no PriorityClasses":      {v1alpha1.ServiceTypePolicySpec{PriorityClassPolicy: "None"}, nil},
		"a negative weight":       {v1alpha1.ServiceTypePolicySpec{NodeOrderWeightPercent: -1}, []string{"nodeOrderWeight"}},
		"a card":                  {cards(amd), nil},
		"a card without a model": {
			spec:  cards(v1alpha1.CardMapping{Resource: "amd.com/gpu"}),
			wants: []string{"spec.cards[amd.com/gpu]: Forbidden: names no card: write modelLabel"},
		},
		"a card of Kubernetes": {
			spec:  cards(amd, v1alpha1.CardMapping{Resource: "memory", Model: "X"}),
			wants: []string{`spec.cards[memory].resource: Forbidden: "memory" is no card`},
		},
		"a card twice": {
			spec:  cards(amd, amd),
			wants: []string{"spec.cards[amd.com/gpu]: Forbidden: has the resource and the nodeSelector of another entry"},
		},
		"too many cards": {
			spec:  cards(make([]v1alpha1.CardMapping, 65)...),
			wants: []string{"spec.cards: Forbidden: 65 entries, at most 64"},
		},
		"four faults at once": {
			spec: v1alpha1.ServiceTypePolicySpec{
				ServiceTypes: []v1alpha1.ServiceType{newType("a", 1, true, "a", "b")}, OverCommitPercent: 1,
				Owners: []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "c"}},
			},
			wants: []string{"takes from itself", `from "b", which is not defined`, `spec.owners[Job].serviceType: Invalid value: "c"`, "overCommitPercent"},
		},
	}) {
		faults := Validate(Effective(tc.spec))
		check.Equal(t, "valid", len(tc.wants) == 0, faults == nil)
		check.Contains(t, "faults", fmt.Sprint(faults.ToAggregate()), tc.wants...)
	}
}
