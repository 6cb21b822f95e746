package policy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func kind(name string, priority int32, reclaimable bool, from ...string) v1alpha1.ServiceType {
	out := v1alpha1.ServiceType{Name: name, Priority: priority, ReclaimFrom: from}
	if reclaimable {
		out.ReclaimPolicy = v1alpha1.ReclaimWhenNeeded
	}
	return out
}

func TestValidate(t *testing.T) {
	runtime := func(seconds int32) v1alpha1.ServiceType {
		training := kind("training", 1, true)
		training.MinimumRuntimeSeconds = seconds
		return training
	}

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
		wants []string // none when it is accepted
	}{
		"a chain of three":              {types(kind("a", 3, false, "b", "c"), kind("b", 2, true, "c"), kind("c", 1, true)), nil},
		"a minimum runtime of a week":   {types(runtime(604800)), nil},
		"owners of the usual types":     {owners(v1alpha1.OwnerKind{Kind: "Job.batch.volcano.sh", ServiceType: "training"}), nil},
		"the largest numbers":           {v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 10000, NodeOrderWeightPercent: 100000, MaxReservationMinutes: 1440}, nil},
		"from one another":              {types(kind("a", 2, true, "b"), kind("b", 1, true, "a")), []string{`"b" (priority 1) takes from "a" (priority 2)`, "in a circle: a from b from a"}},
		"from one of the same priority": {types(kind("a", 2, false, "b"), kind("b", 2, true)), []string{`type "a" (priority 2) takes from "b" (priority 2)`, `give "a" more than 2 or "b" less than 2`}},
		"from one of higher priority":   {types(kind("a", 2, false, "b"), kind("b", 3, true)), []string{`so give "a" more than 3 or "b" less than 2`}},
		"no minimum runtime at all":     {types(runtime(0)), nil},
		"a negative minimum runtime":    {types(runtime(-1)), []string{"spec.serviceTypes[training].minimumRuntimeSeconds: Invalid value: -1: must be from 0 to 604800"}},
		"more than a week":              {types(runtime(604801)), []string{"must be from 0 to 604800"}},
		"an owner of an unknown type":   {owners(v1alpha1.OwnerKind{Kind: "Job", ServiceType: "batch"}), []string{`spec.owners[Job].serviceType: Invalid value: "batch": is not defined: define it in serviceTypes or remove the owner kind`}},
		"a factor below 1":              {v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 99}, []string{"spec.overCommitPercent: Invalid value: 99: must be from 100 to 10000"}},
		"too large a factor":            {v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 10001}, []string{"overCommitPercent"}},
		"a time zone":                   {v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "Europe/Berlin"}, nil},
		"no such time zone":             {v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "Europe/Atlantis"}, []string{`spec.billingTimeZone: Invalid value: "Europe/Atlantis": there is no such time zone`}},
		"the zone of a container":       {v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "Local"}, []string{"there is no such time zone"}},
		"the shortest reservation":      {v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 5}, nil},
		"too short a reservation":       {v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 4}, []string{"spec.maxReservationMinutes: Invalid value: 4: must be from 5 to 1440"}},
		"too long a reservation":        {v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 1441}, []string{"spec.maxReservationMinutes: Invalid value: 1441"}},
		"a PriorityClass without sense": {classes("A"), []string{`"A" is no name of a PriorityClass`}},
		"Volcano's reclaim in a tree":   {v1alpha1.ServiceTypePolicySpec{Reclaim: "Pods", QueueHierarchy: "Tree"}, []string{`spec.reclaim: Invalid value: "Pods": cannot be used with queueHierarchy: Tree`, "set reclaim: Gangs, with which cardreclaim takes back by all rules of the tree"}},
		"Volcano's reclaim, flat":       {v1alpha1.ServiceTypePolicySpec{Reclaim: "Pods", QueueHierarchy: "Flat"}, nil},
		"cardreclaim in a tree":         {v1alpha1.ServiceTypePolicySpec{QueueHierarchy: "Tree"}, nil},
		"no PriorityClasses":            {v1alpha1.ServiceTypePolicySpec{PriorityClassPolicy: "None"}, nil},
		"a weight of nothing":           {v1alpha1.ServiceTypePolicySpec{NodeOrderWeightPercent: -1}, []string{"nodeOrderWeight"}},
		"a card":                        {cards(amd), nil},
		"a card without a model":        {cards(v1alpha1.CardMapping{Resource: "amd.com/gpu"}), []string{"spec.cards[amd.com/gpu]: Forbidden: names no card: write modelLabel"}},
		"a card of Kubernetes":          {cards(amd, v1alpha1.CardMapping{Resource: "memory", Model: "X"}), []string{`spec.cards[memory].resource: Forbidden: "memory" is no card`}},
		"a card twice":                  {cards(amd, amd), []string{"spec.cards[amd.com/gpu]: Forbidden: has the resource and the nodeSelector of another entry"}},
		"too many cards":                {cards(make([]v1alpha1.CardMapping, 65)...), []string{"spec.cards: Forbidden: 65 entries, at most 64"}},
		"everything that is wrong": {v1alpha1.ServiceTypePolicySpec{
			ServiceTypes: []v1alpha1.ServiceType{kind("a", 1, true, "a", "b")}, OverCommitPercent: 1,
			Owners: []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "c"}},
		}, []string{"takes from itself", `from "b", which is not defined`, `spec.owners[Job].serviceType: Invalid value: "c"`, "overCommitPercent"}},
	}) {
		faults := Validate(Effective(tc.spec))
		check.Must(t, len(tc.wants) != 0 || faults == nil, "refused: %q", faults)
		check.Must(t, len(tc.wants) == 0 || faults != nil, "accepted")
		if len(tc.wants) == 0 {
			continue
		}
		check.Contains(t, "faults", faults.ToAggregate().Error(), tc.wants...)
	}
}
