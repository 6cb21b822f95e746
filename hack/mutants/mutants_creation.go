package main

// creationMutants break when a failure to create pods still counts.
var creationMutants = []mutant{
	{"internal/cli/whycontroller.go", `isYounger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(failureAt) }`, `isYounger := func(*corev1.Pod) bool { return false }`, "a failure ends with the next pod"},
	{"internal/cli/whycontroller.go", `return controller.GetCreationTimestamp().After(failureAt) || `, `return `, "a failure is not one of an earlier job"},
}

// answerEndMutants break how cards become free again, and what a deleted CardQuota gives.
var answerEndMutants = []mutant{
	{"internal/cli/explanation/workloadend.go", `w.APIGroup != appsv1.GroupName`, `w.APIGroup == appsv1.GroupName`, "a service does not end by itself"},
	{"internal/cli/explanation/workloadend.go", `w.Kind == "DaemonSet"`, `w.Kind == "Deployment"`, "a DaemonSet cannot be scaled down"},
	{"internal/cli/explanation/reasons.go", `if quota.DeletionTimestamp != nil {`, `if false {`, "a deleted CardQuota gives nothing"},
	{"internal/cli/explanation/advice.go", `deleted != nil && isQuotaReason(entry.Reason)`, `deleted != nil && entry.Reason == v1alpha1.BlockedNoQuota`, "an edit of a deleted CardQuota has no effect"},
}
