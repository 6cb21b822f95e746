// Package vcjob knows how a Volcano job takes it when its pods are taken away.
//
// The rules are those of Volcano's job controller v1.14.1 (pkg/controllers/job):
// a pod that is deleted raises PodEvicted, and before that, as its containers
// end, PodFailed or TaskCompleted. Whatever policy answers counts a retry of the
// job, and after spec.maxRetry of them the job is Failed for good. A pod that
// carries the annotation volcano.sh/controller-out-of-sync raises none of them:
// the controller deletes it and makes another one in its place.
package vcjob

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// Habit is how a job takes it when its pods are taken away.
type Habit struct {
	// Inelastic jobs do not go on without some of their pods: a policy of theirs
	// ends or restarts pods when one is evicted.
	Inelastic bool
	// Ends tells that the job's policy on eviction is to end: its pods are to be
	// deleted, so that the policy hears of it. The pods of other jobs are to be
	// replaced, so that no policy does.
	Ends bool
}

// HabitOf reads the policies of a job and of its tasks.
func HabitOf(job *batch.Job) Habit {
	habit := habitOf(job.Spec.Policies)
	for i := range job.Spec.Tasks {
		of := habitOf(job.Spec.Tasks[i].Policies)
		habit.Inelastic = habit.Inelastic || of.Inelastic
		habit.Ends = habit.Ends || of.Ends
	}
	return habit
}

func habitOf(policies []batch.LifecyclePolicy) Habit {
	var habit Habit
	for i := range policies {
		events := append([]bus.Event{policies[i].Event}, policies[i].Events...)
		if !slices.Contains(events, bus.PodEvictedEvent) && !slices.Contains(events, bus.AnyEvent) {
			continue
		}
		switch policies[i].Action {
		case "", bus.SyncJobAction, bus.EnqueueAction:
		case bus.AbortJobAction, bus.TerminateJobAction, bus.CompleteJobAction:
			habit.Inelastic, habit.Ends = true, true
		default:
			habit.Inelastic = true
		}
		break // the first that answers is the one that acts
	}
	return habit
}

// OwnerOf returns the name of the Volcano job that controls an object, "" when
// none does.
func OwnerOf(object metav1.Object) string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batch.SchemeGroupVersion.String() {
		return ""
	}
	return owner.Name
}
