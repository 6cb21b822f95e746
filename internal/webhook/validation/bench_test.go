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
		wrong := annotationMap{cardName: "?", queueName: "x"}
		for j := range 500 {
			wrong[fmt.Sprintf("volcano.sh/card.%d", j)] = ""
		}
		tasks[i] = newTask(1, wrong, amounts{gpu: "1", slice: "1"})
	}

	job := newVCJob("training", annotationMap{cardName: "?", cardRequest: `{"NVIDIA-H200":8}`}, tasks...)
	input := newInput(setOtherTeam)
	for b.Loop() {
		load, _ := WorkloadOf(job)
		check.Value(ValidateWorkload(b.Context(), load, &load, input))(b).Truncated()
	}
}
