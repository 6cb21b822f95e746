package why

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestEventsOfAnotherJobOfTheSameNameAreNotShown: a Job of Kubernetes and a Volcano job may both have the name twin.
// An event names the API version of its object, and why of the Job shows events of its version, and those without
// one.
func TestEventsOfAnotherJobOfTheSameNameAreNotShown(t *testing.T) {
	job := inLab(&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(1))}}, "twin")
	for version, wantShown := range map[string]bool{"": true, "batch/v1": true, "batch.volcano.sh/v1alpha1": false} {
		event := eventOf("Job", "twin", "FailedCreate", "exceeded quota: of the event", time.Minute)
		event.InvolvedObject.APIVersion = version

		text := whyInLab(t, append(kubectl.ClusterWithOneFreeCard(), job, event), "job.batch/twin")
		check.Contains(t, "why", text, "Job lab/twin has no pods")
		check.Equal(t, "shows an event of version "+version, wantShown, strings.Contains(text, "of the event"))
	}
}
