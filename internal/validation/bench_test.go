package validation

import (
	"fmt"
	"testing"

	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
)

// BenchmarkTheWorstJob validates the job that costs the webhook most: it has as many templates as are validated
// (MaxTemplates), and each has an invalid card name, 500 unknown annotations and two card resources.
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
