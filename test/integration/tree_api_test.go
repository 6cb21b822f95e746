package integration

import (
	"maps"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTheAPIRefusesContradictionsInFieldsOfTrees: in a tree, a CardQuota has a quota (the most), deserved cards (its
// fair part, beyond which others may take cards back) and a guarantee. The API server refuses what one object alone
// contradicts: guarantee ≤ deserved ≤ quota. A quota is inherited where deserved is written. A limit of CPU is
// inherited, too, where deserved is written and memory has no limit either, and the same for memory. Rules between
// parent and child are the operator's. Without wantError the API server accepts the CardQuota.
func TestTheAPIRefusesContradictionsInFieldsOfTrees(t *testing.T) {
	startParallelTest(t)
	card := func(numbers map[string]any) map[string]any {
		numbers["name"] = "A"
		return cardsOf(numbers)
	}

	// resources returns limits of CPU and memory, with what is deserved and guaranteed of them.
	resources := func(limits, deserved, guarantee map[string]any) map[string]any {
		all := map[string]any{}
		maps.Copy(all, limits)
		if deserved != nil {
			all["deserved"] = deserved
		}
		if guarantee != nil {
			all["guarantee"] = guarantee
		}
		return map[string]any{"resources": all}
	}
	type amounts = map[string]any

	for t, tc := range check.Cases(t, map[string]struct {
		spec      map[string]any
		wantError string
	}{
		"a parent":                         {spec: map[string]any{"parent": "other"}},
		"itself as parent":                 {spec: map[string]any{"parent": "rule"}, wantError: "a CardQuota cannot be its own parent"},
		"an empty parent":                  {spec: map[string]any{"parent": ""}, wantError: "spec.parent in body should be at least 1 chars"},
		"a parent in capitals":             {spec: map[string]any{"parent": "Other"}, wantError: "spec.parent in body should match"},
		"the lowest priority":              {spec: map[string]any{"priority": int64(0)}},
		"the highest priority":             {spec: map[string]any{"priority": int64(9999)}},
		"a priority too high":              {spec: map[string]any{"priority": int64(10000)}, wantError: "should be less than or equal to 9999"},
		"a negative priority":              {spec: map[string]any{"priority": int64(-1)}, wantError: "should be greater than or equal to 0"},
		"stopPolicy Hold":                  {spec: map[string]any{"stopPolicy": "Hold"}},
		"stopPolicy HoldAndDrain":          {spec: map[string]any{"stopPolicy": "HoldAndDrain"}},
		"stopPolicy Drain":                 {spec: map[string]any{"stopPolicy": "Drain"}, wantError: `supported values: "None", "Hold", "HoldAndDrain"`},
		"quota 8, deserved 4, guarantee 2": {spec: card(amounts{"quota": int64(8), "deserved": int64(4), "guarantee": int64(2)})},
		"quota, deserved and guarantee 8":  {spec: card(amounts{"quota": int64(8), "deserved": int64(8), "guarantee": int64(8)})},
		"deserved with the parent's quota": {spec: card(amounts{"deserved": int64(4)})},
		"a guarantee alone":                {spec: card(amounts{"guarantee": int64(4)}), wantError: "write quota, or in a tree deserved"},
		"deserved above quota":             {spec: card(amounts{"quota": int64(3), "deserved": int64(4)}), wantError: "deserved must be at most quota"},
		"guarantee above deserved":         {spec: card(amounts{"deserved": int64(3), "guarantee": int64(4)}), wantError: "guarantee must be at most deserved"},
		"guarantee above quota":            {spec: card(amounts{"quota": int64(3), "guarantee": int64(4)}), wantError: "guarantee must be at most quota"},
		"negative deserved":                {spec: card(amounts{"quota": int64(3), "deserved": int64(-1)}), wantError: "should be greater than or equal to 0"},

		"all of CPU and memory":                    {spec: resources(amounts{"cpu": "8", "memory": "8Gi"}, amounts{"cpu": "4", "memory": "4Gi"}, amounts{"cpu": "2", "memory": "2Gi"})},
		"deserved CPU, no limit of CPU and memory": {spec: resources(nil, amounts{"cpu": "4"}, nil)},
		"guaranteed and deserved CPU, no limit":    {spec: resources(nil, amounts{"cpu": "4"}, amounts{"cpu": "1"})},
		"guaranteed CPU, not deserved":             {spec: resources(amounts{"cpu": "8"}, nil, amounts{"cpu": "8"})},
		"deserved CPU, a limit of memory alone":    {spec: resources(amounts{"memory": "8Gi"}, amounts{"cpu": "4"}, nil), wantError: "deserved.cpu needs cpu"},
		"deserved memory, a limit of CPU alone":    {spec: resources(amounts{"cpu": "8"}, amounts{"memory": "4Gi"}, nil), wantError: "deserved.memory needs memory"},
		"guaranteed memory, no limit, no deserved": {spec: resources(nil, nil, amounts{"memory": "4Gi"}), wantError: "guarantee.memory needs memory"},
		"deserved CPU above the limit":             {spec: resources(amounts{"cpu": "8"}, amounts{"cpu": "8001m"}, nil), wantError: "deserved.cpu must be at most cpu"},
		"deserved memory above the limit":          {spec: resources(amounts{"memory": "8Gi"}, amounts{"memory": "9Gi"}, nil), wantError: "deserved.memory must be at most memory"},
		"guaranteed CPU above deserved":            {spec: resources(amounts{"cpu": "8"}, amounts{"cpu": "4"}, amounts{"cpu": "5"}), wantError: "guarantee.cpu must be at most deserved.cpu"},
		"guaranteed memory above the limit":        {spec: resources(amounts{"memory": "8Gi"}, nil, amounts{"memory": "9Gi"}), wantError: "guarantee.memory must be at most memory"},
		"deserved without CPU and memory":          {spec: resources(amounts{"cpu": "8"}, amounts{}, nil), wantError: "should have at least 1 properties"},
		"negative deserved CPU":                    {spec: resources(amounts{"cpu": "8"}, amounts{"cpu": "-1"}, nil), wantError: "cpu must be between 0 and 1000000000"},
		"5Ei of deserved memory":                   {spec: resources(nil, amounts{"memory": "5Ei"}, nil), wantError: "memory must be between 0 and 4Ei"},
	}) {
		expectAPIAnswer(t, cardQuotaObject("rule", tc.spec), tc.wantError)
	}
}
