package cli

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/check"
)

// TestEventsOfAnotherJobOfTheSameName: a Job and a Volcano job may have one name.
func TestEventsOfAnotherJobOfTheSameName(t *testing.T) {
	job := inLab(&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(1))}}, "twin")
	event := eventOf("Job", "twin", "FailedCreate", "exceeded quota: of the other", time.Minute)
	for version, isOwn := range map[string]bool{"": true, "batch/v1": true, "batch.volcano.sh/v1alpha1": false} {
		event.InvolvedObject.APIVersion = version
		text := explainLab(t, append(busyCluster(), job, event.DeepCopy()), "job.batch/twin")
		check.Contains(t, version, text, "Job lab/twin has no pods")
		check.Equal(t, version, isOwn, strings.Contains(text, "of the other"))
	}
}
