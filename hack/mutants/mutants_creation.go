package main

// creationMutants break when a failure to create pods still counts.
var creationMutants = []mutant{
	{"internal/cli/why/controller.go", `isYounger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(failureAt) }`, `isYounger := func(*corev1.Pod) bool { return false }`, "a failure ends with the next pod"},
	{"internal/cli/why/controller.go", `return controller.GetCreationTimestamp().After(failureAt) || `, `return `, "a failure is not one of an earlier job"},
}

// answerEndMutants break how cards become free again, and what a deleted CardQuota gives.
var answerEndMutants = []mutant{
	{"internal/cli/why/explanation/workloadstate.go", `w.APIGroup != appsv1.GroupName`, `w.APIGroup == appsv1.GroupName`, "a service does not end by itself"},
	{"internal/cli/why/explanation/workloadstate.go", `w.Kind == "DaemonSet"`, `w.Kind == "Deployment"`, "a DaemonSet cannot be scaled down"},
	{"internal/cli/why/explanation/reasons.go", `if quota.DeletionTimestamp != nil {`, `if false {`, "a deleted CardQuota gives nothing"},
	{"internal/cli/why/explanation/advice.go", `deleted != nil && isQuotaReason(entry.Reason)`, `deleted != nil && entry.Reason == v1alpha1.BlockedNoQuota`, "an edit of a deleted CardQuota has no effect"},
}

// rolloutMutants break which old pods a rollout waits for.
var rolloutMutants = []mutant{
	{"internal/cli/why/rollout.go", `if charge.Queue != r.input.Queue {`, `if false {`, "old pods of another queue do not help"},
	{"internal/cli/why/rollout.go", `if slices.Contains(r.input.Request.Names, amount.Name) {`, `if len(r.input.Request.Names) > 0 || slices.Contains(r.input.Request.Names, amount.Name) {`, "old pods with another card do not help"},
	{"internal/cli/why/rollout.go", `return r.number < other.number`, `return r.created.Before(other.created)`, "a rollback is a later revision"},
}

// gangMutants break what helps a gang that lacks pods, and when the end of old pods does.
var gangMutants = []mutant{
	{"internal/cli/why/explanation/gang.go", `a.Scale != nil && a.Scale.Desired < a.Gang.Minimum`, `a.Scale != nil`, "a controller that wants enough pods needs no more replicas"},
	{"internal/cli/why/explanation/gang.go", `r.MaxSurge+r.MaxUnavailable < minimum`, `r.MaxSurge < minimum`, "a rollout starts pods for those that it ends, too"},
	{"internal/cli/why/explanation/rollout.go", `rollout.OldCards > 0 && !in.exceedsWholeQuota()`, `rollout.OldCards > 0`, "old pods do not help a pod that is larger than the quota"},
}
