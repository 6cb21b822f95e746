package servicetype

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestInferenceAndTrainingAreBuiltIn: without a policy two service types have a meaning. Queues of inference have
// the higher priority, and no other queue takes their cards back. Queues of training are reclaimable. Any other
// name has none.
func TestInferenceAndTrainingAreBuiltIn(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		name      string
		want      Type
		wantKnown bool
	}{
		"inference": {name: "inference", want: Type{Priority: 80000}, wantKnown: true},
		"training": {
			name:      "training",
			want:      Type{Priority: 20000, Reclaimable: true},
			wantKnown: true,
		},
		"another name": {name: "notebook"},
		"upper case":   {name: "Inference"},
		"no name":      {name: ""},
	}) {
		got, known := BuiltIn(tc.name)
		check.Equal(t, "service type", tc.want, got)

		check.Equal(t, "known", tc.wantKnown, known)
	}
}
