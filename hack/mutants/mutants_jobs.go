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
	{"internal/validation/job_defaults.go", `len(policy.Rules) < maxFailureRules`, `len(policy.Rules) <= maxFailureRules`, "Kubernetes allows 20 rules"},
	{"internal/validation/job_defaults.go", `spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever && `, ``, "a podFailurePolicy needs restartPolicy Never"},
	{"internal/validation/job_defaults.go", ` || workload.HasEvictionRule(load.Job.PodFailurePolicy)`, ``, "a Job keeps its own rule about evictions"},
	{"internal/validation/job_defaults.go", `template.request.Count > 0 && `, ``, "a Job without cards stays"},
	{"internal/validation/job_defaults.go", ` && isOurs(load, template.Pod, input.policySpec())`, ``, "a Job of another scheduler stays"},
	{"internal/validation/job_defaults.go", `equality.Semantic.DeepEqual(rules, stored.Rules[1:]) || `, ``, "a file with other rules keeps the rule"},
	{"internal/validation/job_defaults.go", `equality.Semantic.DeepEqual(rules, stored.Rules[1:]) || len(rules)+len(stored.Rules[1:]) == 0`, `true`, "a file that lacks another rule is refused"},
}

var jobPriceMutants = []mutant{
	{"internal/scheduler/cardreclaim/victimjobs.go", `min(victim.solverJob.Elastic, price.EvictionsLeft)`, `victim.solverJob.Elastic`, "no more pods are elastic than the Job survives"},
	{"internal/scheduler/cardreclaim/victimjobs.go", `victim.solverJob.WholeLoss = price.Failure`, `victim.solverJob.WholeLoss = 0`, "a Job that fails costs its work"},
}

// What evictions cost a job, for all actions.
var lossMutants = []mutant{
	{"internal/scheduler/loss/loss.go", `return max(0, work-lost)`, `return 0`, "a Job that fails loses what it has saved"},
	{"internal/scheduler/loss/loss.go", `		case Succeeded:
			work =`, `		case Succeeded:
			_ =`, "a Job that fails loses what has succeeded"},
	{"internal/scheduler/loss/loss.go", `	if !known {
		return 0`, `	if !known {
		return len(j.placed)`, "an unknown Job counts as one that fails"},
	{"internal/scheduler/loss/loss.go", `		if left >= len(job.placed) {`, `		if left > len(job.placed) {`, "a Job survives as many evictions as are left"},
}

// What preempt and Volcano's reclaim make of the price.
var preemptPriceMutants = []mutant{
	{"internal/scheduler/victims/allowance.go", `int32(min(int(all), p.priceFor(job).evictionsLeft))`, `int32(int(all) + 0*p.priceFor(job).evictionsLeft)`, "no more pods are elastic than the Job survives"},
	{"internal/scheduler/victims/prices.go", `		case api.Releasing, api.Failed:
`, `		case api.Failed:
`, "an evicted pod counts before the Job controller counts it"},
	{"internal/scheduler/victims/prices.go", `	if breaks[task.UID] {`, `	if false {`, "an eviction that breaks a job costs all of it"},
	{"internal/scheduler/capacitycard/allocate.go", `	a.enqueue.ForgetRefusals() // quota is released
	a.prices.ForgetPrice(task.Job)`, `	a.enqueue.ForgetRefusals() // quota is released`, "an eviction changes the price of the next one"},
	{"internal/scheduler/preemption/run.go", ` || r.preemption.prices.IsFailing(job)`, ``, "a Job that fails is evicted as a whole"},
	{"internal/scheduler/preemption/candidates.go", `, cmp.Compare(p.prices.LossOfEviction(a, breaks), p.prices.LossOfEviction(b, breaks)))`, `)`, "of jobs that break the one that loses least is evicted"},
	{"internal/scheduler/preemption/cheapestnode.go", `, cmp.Compare(c.loss, other.loss))`, `)`, "of gangs on several nodes the one that loses least is evicted"},
	{"internal/scheduler/capacitycard/reclaimable.go", `cmp.Compare(p.prices.LossOfEviction(a, breaks), p.prices.LossOfEviction(b, breaks))`, `cmp.Compare(p.prices.LossOfEviction(b, breaks), p.prices.LossOfEviction(a, breaks))`, "reclaim takes the pod of the job that loses least"},
}
