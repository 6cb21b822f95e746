package main

// Jobs of Kubernetes: how many evictions they survive, which of them admission completes, and
// what their eviction costs. Each table has the tests of one package.

var jobFailureMutants = []mutant{
	{"internal/workload/batchjob.go", `		if appliesToEviction(&policy.Rules[i]) {`, `		if i == len(policy.Rules)-1 && appliesToEviction(&policy.Rules[i]) {`, "the first rule that applies to an evicted pod decides"},
	{"internal/workload/batchjob.go", `[]int32{128 + 15, 128 + 9}`, `[]int32{128 + 15}`, "an evicted pod may end by SIGKILL"},
	{"internal/workload/batchjob.go", `return isListed == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)`, `return isListed`, "a rule for all other exit codes applies"},
	{"internal/workload/batchjob.go", ` - int64(job.Status.Failed)`, ``, "failed pods count"},
	{"internal/workload/batchjob.go", ` && !slices.Contains(l.counted, pod.UID)`, ``, "a pod that the status lists counts once"},
	{"internal/workload/batchjob.go", ` && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)`, ``, "a pod without the finalizer is counted"},
	{"internal/workload/batchjob.go", `pod.Status.Phase != corev1.PodSucceeded && `, ``, "a pod that succeeded does not count"},
	{"internal/workload/batchjob.go", `failed >= int64(*l.perIndex)`, `failed > int64(*l.perIndex)`, "an index fails with its last pod"},
}

var jobAdmissionMutants = []mutant{
	{"internal/webhook/validation/job_defaults.go", `len(policy.Rules) < maxFailureRules`, `len(policy.Rules) <= maxFailureRules`, "Kubernetes allows 20 rules"},
	{"internal/webhook/validation/job_defaults.go", `spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever && `, ``, "a podFailurePolicy needs restartPolicy Never"},
	{"internal/webhook/validation/job_defaults.go", ` || workload.HasEvictionRule(load.Job.PodFailurePolicy)`, ``, "a Job keeps its own rule about evictions"},
	{"internal/webhook/validation/job_defaults.go", `template.request.Count > 0 && `, ``, "a Job without cards stays"},
	{"internal/webhook/validation/job_defaults.go", ` && isOurs(load, template.Pod, input.policySpec())`, ``, "a Job of another scheduler stays"},
	{"internal/webhook/validation/job_defaults.go", `equality.Semantic.DeepEqual(rules, stored.Rules[1:]) || `, ``, "a file with other rules keeps the rule"},
	{"internal/webhook/validation/job_defaults.go", `equality.Semantic.DeepEqual(rules, stored.Rules[1:]) || len(rules)+len(stored.Rules[1:]) == 0`, `true`, "a file that lacks another rule is refused"},
}

var jobPriceMutants = []mutant{
	{"internal/scheduler/cardreclaim/batchjobs.go", `min(g.solverJob.Elastic, left)`, `g.solverJob.Elastic`, "no more pods are elastic than the Job survives"},
	{"internal/scheduler/cardreclaim/batchjobs.go", `+= max(0, pods.work-pods.lost)`, `+= 0`, "a Job that fails loses what it has saved"},
	{"internal/scheduler/cardreclaim/batchjobs.go", `g.job.TaskStatusIndex[api.Succeeded]`, `g.job.TaskStatusIndex[api.Unknown]`, "a Job that fails loses what has succeeded"},
	{"internal/scheduler/cardreclaim/batchjobs.go", `case task.Status == api.Releasing, task.Status == api.Failed:`, `case task.Status == api.Failed:`, "an evicted pod counts before the Job controller counts it"},
	{"internal/scheduler/cardreclaim/batchjobs.go", `	if !known {
		return 0`, `	if !known {
		return len(pods.running)`, "an unknown Job counts as one that fails"},
}
