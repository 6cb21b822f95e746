package capacitycard

import (
	"reflect"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/decision"
	"cardquota.dev/operator/internal/servicetype"
)

func TestArguments(t *testing.T) {
	got, err := parseArguments(map[string]any{"cardUnlimitedCpuMemory": true, "overCommitFactor": 1.5, "unmanagedQueues": "Ignore", "configHash": "abc"})
	want := arguments{cardUnlimitedCPUMemory: true, overCommitFactor: 1.5, nodeOrderWeight: 1, unmanagedQueues: decision.Ignore,
		serviceTypes: servicetype.DefaultMatrix(), configHash: "abc"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	defaults := arguments{overCommitFactor: 1, nodeOrderWeight: 1, unmanagedQueues: decision.Enforce, serviceTypes: servicetype.DefaultMatrix()}
	refused := map[string]map[string]any{
		"unknown argument":    {"cardUnlimitedCPUMemory": true},
		"write true or false": {"cardUnlimitedCpuMemory": "true"},
		"number from 1":       {"overCommitFactor": 0.9},
		"number from 1 to":    {"overCommitFactor": "2"},
		"Enforce or Ignore":   {"unmanagedQueues": "enforce"},
		"by the scheduler":    {"configHash": 7},
	}
	for wantError, raw := range refused {
		got, err := parseArguments(raw)
		if err == nil || !strings.Contains(err.Error(), wantError) {
			t.Errorf("%v: error %v, want %q", raw, err, wantError)
		}
		if !reflect.DeepEqual(got, defaults) {
			t.Errorf("%v took half effect: %+v", raw, got)
		}
	}
	both := ValidateArguments(map[string]any{"overCommitFactor": 0, "unmanagedQueues": 1})
	if both == nil || !strings.Contains(both.Error(), "overCommitFactor") || !strings.Contains(both.Error(), "unmanagedQueues") {
		t.Errorf("not every mistake is named: %v", both)
	}
}
