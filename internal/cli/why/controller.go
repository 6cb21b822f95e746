package why

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/workload"
)

// controllerKind is a kind of controller whose objects why reads.
type controllerKind struct {
	group, kind string
	newObject   func() client.Object
}

// controllerKinds are the kinds that may have no pods, because these could not be created.
var controllerKinds = []controllerKind{
	{appsv1.GroupName, "Deployment", func() client.Object { return &appsv1.Deployment{} }},
	{appsv1.GroupName, "ReplicaSet", func() client.Object { return &appsv1.ReplicaSet{} }},
	{appsv1.GroupName, "StatefulSet", func() client.Object { return &appsv1.StatefulSet{} }},
	{appsv1.GroupName, "DaemonSet", func() client.Object { return &appsv1.DaemonSet{} }},
	{batchv1.GroupName, "Job", func() client.Object { return &batchv1.Job{} }},
	{batchv1alpha1.GroupName, "Job", func() client.Object { return &batchv1alpha1.Job{} }},
}

// findController returns the reference of a controller that exists without pods, and whether there is one.
func findController(ctx context.Context, r *reader.Reader, t target) (reference v1alpha1.WorkloadReference, exists bool) {
	for _, kind := range controllerKinds {
		reference = v1alpha1.WorkloadReference{APIGroup: kind.group, Kind: kind.kind, Namespace: t.namespace, Name: t.name}
		if !t.matches(reference) {
			continue
		}

		exists, _ = r.LookUp(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.name}, kind.newObject())
		r.IgnoreMissingKind()
		if exists {
			return reference, true
		}
	}
	return v1alpha1.WorkloadReference{}, false
}

// getController returns the controller of the workload, nil if it is of another kind, gone, or if the user
// may not read it.
func (r *inputReader) getController(ctx context.Context) client.Object {
	reference := r.input.Workload
	for _, kind := range controllerKinds {
		if kind.group != reference.APIGroup || kind.kind != reference.Kind {
			continue
		}
		object := kind.newObject()
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, object); err != nil {
			return nil // only further advice needs it
		}

		return object
	}

	return nil
}

// desiredPods returns how many pods a controller wants now, and whether it is suspended. Of a job that has ended, or
// of which pods have succeeded, that is less than its scale.
func desiredPods(controller client.Object) (count int, isSuspended bool) {
	switch object := controller.(type) {
	case *batchv1.Job:
		// The Job controller creates no more pods at a time than are left to complete.
		left := ptr.Deref(object.Spec.Completions, ptr.Deref(object.Spec.Parallelism, 1)) - object.Status.Succeeded
		if object.Status.CompletionTime != nil || hasFailed(object) {
			left = 0
		}
		return int(max(0, min(left, ptr.Deref(object.Spec.Parallelism, 1)))), ptr.Deref(object.Spec.Suspend, false)
	case *batchv1alpha1.Job:
		return vcJobPods(object), false
	}

	return ptr.Deref(scaleOf(controller), explanation.Scale{}).Desired, false
}

// scaleOf returns how many pods a controller creates at the same time, and which of its fields says so. It is
// nil if that is unknown.
func scaleOf(controller client.Object) *explanation.Scale {
	switch object := controller.(type) {
	case *appsv1.Deployment:
		return replicaScale(object.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return replicaScale(object.Spec.Replicas)
	case *appsv1.StatefulSet:
		scale := replicaScale(object.Spec.Replicas)
		scale.IsOrdered = object.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
		return scale
	case *appsv1.DaemonSet:
		return &explanation.Scale{Desired: int(object.Status.DesiredNumberScheduled)}
	case *batchv1.Job:
		parallelism := ptr.Deref(object.Spec.Parallelism, 1)
		// A Job creates no more pods than it has to complete, whatever its parallelism is.
		completions := ptr.Deref(object.Spec.Completions, parallelism)
		if completions < parallelism {
			return &explanation.Scale{Desired: int(completions), Field: "spec.completions", IsImmutable: true}
		}

		return &explanation.Scale{Desired: int(parallelism), Field: "spec.parallelism"}
	case *batchv1alpha1.Job:
		return &explanation.Scale{Desired: countReplicas(object), Field: "the replicas of its tasks"}
	}
	return nil
}

// replicaScale returns the scale of a controller with spec.replicas, which the API server sets to 1 if it is left
// out.
func replicaScale(replicas *int32) *explanation.Scale {
	return &explanation.Scale{Desired: int(ptr.Deref(replicas, 1)), Field: "spec.replicas"}
}

// hasFailed reports whether a Job has failed for good.
func hasFailed(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		return condition.Type == batchv1.JobFailed && condition.Status == corev1.ConditionTrue
	})
}

// vcJobPods returns how many pods a Volcano job wants, 0 for one that has ended.
func vcJobPods(job *batchv1alpha1.Job) int {
	switch job.Status.State.Phase {
	case batchv1alpha1.Completed, batchv1alpha1.Failed, batchv1alpha1.Aborted, batchv1alpha1.Terminated:
		return 0
	}
	return countReplicas(job) - int(job.Status.Succeeded)
}

// countReplicas returns how many pods the tasks of a Volcano job have.
func countReplicas(job *batchv1alpha1.Job) (count int) {
	for i := range job.Spec.Tasks {
		count += int(job.Spec.Tasks[i].Replicas)
	}
	return count
}

// podsOfWorkload returns the pods that the user names, and all others of the workload that have not finished.
func (r *inputReader) podsOfWorkload() []*corev1.Pod {
	pods := slices.Clone(r.found.pods)
	for _, pod := range r.found.namespacePods {
		if workload.ReferenceFor(pod) == r.input.Workload && !slices.Contains(r.found.pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// countExistingPods returns how many pods of the workload have not finished and are not being deleted.
func (r *inputReader) countExistingPods() int {
	existing := 0
	for _, pod := range r.podsOfWorkload() {
		if pod.DeletionTimestamp == nil && !workload.IsFinished(pod) {
			existing++
		}
	}
	return existing
}

// setPodCreation sets how many pods the controller lacks, and why it could not create them: by its conditions, else by
// the last event, unless it has created pods since.
func (r *inputReader) setPodCreation(controller client.Object, events workloadEvents) {
	if controller == nil {
		return
	}

	desired, isSuspended := desiredPods(controller)
	existing := r.countExistingPods()
	missing := max(0, desired-existing)
	failure := failureOf(controller)
	switch {
	case failure != "": // in a rollout its old pods may still be all that it wants
		missing = max(1, missing)
	case missing > 0 && !r.hasCreatedSince(controller, events.failureAt):
		failure = events.failure
	}

	// Without a failure the controller is about to create what is missing. Only if it has neither pods nor a PodGroup,
	// that is the answer. A Volcano job has a PodGroup and no pods before the scheduler enqueues it.
	if failure == "" && (len(r.found.pods) > 0 || r.found.group != nil) {
		return
	}
	r.input.Creation = &explanation.Creation{Missing: missing, Failure: failure, IsSuspended: isSuspended && existing == 0}
}

// hasCreatedSince reports whether the controller, or one of its pods, is younger than a failure. Events stay
// for an hour, also when the template is repaired, and some controllers have fewer pods than they want.
func (r *inputReader) hasCreatedSince(controller client.Object, failureAt time.Time) bool {
	isYounger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(failureAt) }
	return controller.GetCreationTimestamp().After(failureAt) || slices.ContainsFunc(r.podsOfWorkload(), isYounger)
}

// failureOf returns why a controller could not create pods by its own conditions, "" if they do not say so.
func failureOf(controller client.Object) string {
	switch object := controller.(type) {
	case *appsv1.Deployment:
		for _, condition := range object.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
				return condition.Message
			}
		}
	case *appsv1.ReplicaSet:
		for _, condition := range object.Status.Conditions {
			if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue {
				return condition.Message
			}
		}
	}

	return ""
}
