package validation

import (
	"fmt"
	"testing"

	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
)

// BenchmarkTheWorstJob is of as many templates as are looked at, each wrong.
func BenchmarkTheWorstJob(b *testing.B) {
	tasks := make([]vcbatch.TaskSpec, MaxTemplates)
	for i := range tasks {
		wrong := notes{name: "?", inQueue: "x"}
		for j := range 500 {
			wrong[fmt.Sprintf("volcano.sh/card.%d", j)] = ""
		}
		tasks[i] = task(1, wrong, amounts{gpu: "1", slice: "1"})
	}

	job := vcjobOf("training", notes{name: "?", request: `{"NVIDIA-H200":8}`}, tasks...)
	scene := snapshotOf(elsewhere)
	for b.Loop() {
		load, _ := WorkloadOf(job)
		check.Value(ValidateWorkload(b.Context(), load, &load, scene))(b).Truncated()
	}
}
