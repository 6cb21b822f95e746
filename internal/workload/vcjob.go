// How a Volcano job takes it when its pods are taken away.
//
// The rules are those of Volcano's job controller v1.14.1 (pkg/controllers/job):
// a pod that is deleted raises PodEvicted, and before that, as its containers
// end, PodFailed or TaskCompleted. Whatever policy answers counts a retry of the
// job, and after spec.maxRetry of them the job is Failed for good. A pod that
// carries the annotation volcano.sh/controller-out-of-sync raises none of them:
// the controller deletes it and makes another one in its place.

package workload

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// EvictionPolicy is how a job takes it when its pods are taken away.
type EvictionPolicy struct {
	// Inelastic jobs do not go on without some of their pods: a policy of theirs
	// ends or restarts pods when one is evicted.
	Inelastic bool
	// Ends tells that the job's policy on eviction is to end: its pods are to be
	// deleted, so that the policy hears of it. The pods of other jobs are to be
	// replaced, so that no policy does.
	Ends bool
}

// EvictionPolicyOf reads the policies of a job and of its tasks. What a task says goes
// before what the job says.
func EvictionPolicyOf(job *batch.Job) EvictionPolicy {
	of, _ := answer(job.Spec.Policies)
	if len(job.Spec.Tasks) == 0 {
		return of
	}
	var habit EvictionPolicy
	for i := range job.Spec.Tasks {
		own, answered := answer(job.Spec.Tasks[i].Policies)
		if !answered {
			own = of
		}
		habit.Inelastic = habit.Inelastic || own.Inelastic
		habit.Ends = habit.Ends || own.Ends
	}
	return habit
}

// answer is what policies say of an eviction; false when none does. The first
// that answers is the one that acts.
func answer(policies []batch.LifecyclePolicy) (EvictionPolicy, bool) {
	first := slices.IndexFunc(policies, AnswersEviction)
	if first < 0 {
		return EvictionPolicy{}, false
	}
	switch policies[first].Action {
	case "", bus.SyncJobAction, bus.EnqueueAction:
		return EvictionPolicy{}, true
	case bus.AbortJobAction, bus.TerminateJobAction, bus.CompleteJobAction:
		return EvictionPolicy{Inelastic: true, Ends: true}, true
	default:
		return EvictionPolicy{Inelastic: true}, true
	}
}

// AnswersEviction reports whether a policy says what becomes of an eviction.
func AnswersEviction(policy batch.LifecyclePolicy) bool {
	events := append([]bus.Event{policy.Event}, policy.Events...)
	return slices.Contains(events, bus.PodEvictedEvent) || slices.Contains(events, bus.AnyEvent)
}

// VCJobOwner returns the name of the Volcano job that controls an object, "" when
// none does.
func VCJobOwner(object metav1.Object) string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batch.SchemeGroupVersion.String() {
		return ""
	}
	return owner.Name
}

// ManagedByVCJob tells whether Volcano's job controller takes an object for a pod of the
// job that controls it: it goes by annotations (job_controller_handler.go), and
// lets a pod alone that only names the job as its owner.
func ManagedByVCJob(object metav1.Object) bool {
	owner, annotations := VCJobOwner(object), object.GetAnnotations()
	_, err := strconv.ParseInt(annotations[batch.JobVersion], 10, 32)
	return owner != "" && annotations[batch.JobNameKey] == owner && err == nil
}
