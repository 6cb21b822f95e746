package validation

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

// batchJob requests cards of our scheduler, as the API server hands it over; change may be nil.
func batchJob(change func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "j"},
		Spec: batchv1.JobSpec{
			Template:     templateOf(notes{name: "NVIDIA-H200"}, amounts{gpu: "4"}),
			BackoffLimit: ptr.To[int32](6), PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
		},
	}

	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if change != nil {
		change(job)
	}

	return job
}

func ignoreEvictions(w *WorkloadInput) {
	w.Policy.Spec.Admission.JobEvictionPolicy = v1alpha1.JobIgnoreEvictions
}

// exitCodeRules are rules that a user writes, none of them about evicted pods.
func exitCodeRules(n int) []batchv1.PodFailurePolicyRule {
	rule := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
	}}
	return slices.Repeat([]batchv1.PodFailurePolicyRule{rule}, n)
}

func withRules(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

func TestWhichJobsGetAnEvictionRule(t *testing.T) {
	const help = "write first in podFailurePolicy.rules: {action: Ignore"
	own := workload.EvictionRule()
	own.Action = batchv1.PodFailurePolicyActionCount
	inContainer := func(change func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*batchv1.Job)
		scene  func(*WorkloadInput)
		gets   bool
		// warning is what its user reads of a Job that stays as it is, "" for no warning.
		warning string
	}{
		"requests cards":              {nil, nil, true, help},
		"has rules about exit codes":  {withRules(exitCodeRules(19)...), nil, true, help},
		"has an empty list of rules":  {withRules(), nil, true, help},
		"has as many rules as it may": {withRules(exitCodeRules(20)...), nil, false, "spec.podFailurePolicy.rules…replace one of the 20 rules…DisruptionTarget"},
		"has the rule":                {withRules(workload.EvictionRule()), nil, false, ""},
		"has it after others":         {withRules(append(exitCodeRules(2), workload.EvictionRule())...), nil, false, ""},
		"has its own rule":            {withRules(own), nil, false, ""},
		"restarts its containers":     {func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, nil, false, "spec.template.spec.restartPolicy…more than 6…write restartPolicy: Never, and " + help},
		"names its limit":             {func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }, nil, true, "more than 0 of them (backoffLimit)"},
		"requests in an initContainer": {inContainer(func(p *corev1.PodSpec) {
			p.InitContainers = p.Containers
			p.Containers = specOf(nil).Containers
		}), nil, true, help},
		"requests in a sidecar": {inContainer(func(p *corev1.PodSpec) {
			p.InitContainers = p.Containers
			p.Containers = specOf(nil).Containers
			p.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}), nil, true, help},
		"requests in its second container":   {inContainer(func(p *corev1.PodSpec) { p.Containers = append(specOf(nil).Containers, p.Containers...) }), nil, true, help},
		"requests slices":                    {func(j *batchv1.Job) { j.Spec.Template = templateOfJob(nil, amounts{slice: "1"}) }, nil, true, help},
		"requests no card":                   {func(j *batchv1.Job) { j.Spec.Template = templateOfJob(nil, amounts{"cpu": "1"}) }, nil, false, ""},
		"requests what is no card":           {func(j *batchv1.Job) { j.Spec.Template = templateOfJob(nil, amounts{rdma: "1"}) }, nil, false, ""},
		"uses another scheduler":             {inContainer(func(p *corev1.PodSpec) { p.SchedulerName = "default-scheduler" }), bypassAllowed, false, ""},
		"uses another name of ours":          {inContainer(func(p *corev1.PodSpec) { p.SchedulerName = "cards" }), func(w *WorkloadInput) { w.Policy.Spec.Scheduler.Names = []string{"volcano", "cards"} }, true, help},
		"in a queue of inference":            {func(j *batchv1.Job) { j.Spec.Template.Annotations[inQueue] = "serving" }, nil, true, help},
		"while the policy leaves Jobs alone": {nil, func(w *WorkloadInput) { w.Policy.Spec.Admission.JobEvictionPolicy = "" }, false, help},
		"without a policy":                   {nil, func(w *WorkloadInput) { w.Policy = nil }, false, ""},
		"of a controller": {func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "s", Controller: ptr.To(true)}}
		}, nil, true, ""},
	}) {
		scene := snapshotOf(func(w *WorkloadInput) {
			ignoreEvictions(w)
			if tc.scene != nil {
				tc.scene(w)
			}
		})

		job := batchJob(tc.change)
		before := job.DeepCopy()
		check.Equal(t, "gets the rule", tc.gets, JobNeedsEvictionRule(job, scene))
		check.Equal(t, "the Job itself", before, job)

		load, _ := WorkloadOf(job) // as if the mutating webhook had not answered
		var warnings []string
		for _, text := range judged(t, load, nil, scene).Warnings {
			if strings.Contains(text, "backoffLimit") {
				warnings = append(warnings, text)
			}
		}

		says(t, "warnings", warnings, tc.warning)
		load, _ = WorkloadOf(job)
		then, _ := WorkloadOf(before)
		check.That(t, !slices.ContainsFunc(judged(t, load, &then, scene).Warnings, func(text string) bool { return strings.Contains(text, "backoffLimit") }), "a change causes the warning again")
	}
}

func templateOfJob(annotations notes, limits amounts) corev1.PodTemplateSpec {
	template := templateOf(annotations, limits)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return template
}

func bypassAllowed(w *WorkloadInput) {
	w.Policy.Spec.Admission.SchedulerBypassPolicy = v1alpha1.SchedulerBypassAllow
}

// TestCronJobsAreWarnedOf: its Jobs get the rule when they are created, where the policy says so.
func TestCronJobsAreWarnedOf(t *testing.T) {
	restarts := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }

	for t, tc := range check.Cases(t, map[string]struct {
		change  func(*batchv1.Job)
		scene   func(*WorkloadInput)
		warning string
	}{
		"its request is refused":   {func(j *batchv1.Job) { j.Spec.Template.Annotations[name] = "?" }, nil, ""},
		"its Jobs get the rule":    {nil, ignoreEvictions, ""},
		"its Jobs cannot get it":   {restarts, ignoreEvictions, "spec.jobTemplate.spec.template.spec.restartPolicy…write restartPolicy: Never"},
		"the policy leaves it out": {nil, nil, "spec.jobTemplate.spec.podFailurePolicy…DisruptionTarget"},
	}) {
		job := batchJob(tc.change)
		cron := &batchv1.CronJob{ObjectMeta: job.ObjectMeta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: job.Spec}}}
		load, _ := WorkloadOf(cron)
		says(t, "warnings", judged(t, load, nil, snapshotOf(tc.scene)).Warnings, tc.warning)
	}
}

// complete adds the rule as the webhook does.
func complete(job *batchv1.Job) *batchv1.Job {
	out := job.DeepCopy()
	var rules []batchv1.PodFailurePolicyRule
	if out.Spec.PodFailurePolicy != nil {
		rules = out.Spec.PodFailurePolicy.Rules
	}
	out.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: append([]batchv1.PodFailurePolicyRule{workload.EvictionRule()}, rules...)}
	out.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	return out
}

func TestWhichChangesKeepTheEvictionRule(t *testing.T) {
	anyOther := workload.EvictionRule()
	anyOther.OnPodConditions[0].Status = corev1.ConditionFalse

	file := func(rules ...batchv1.PodFailurePolicyRule) *batchv1.Job {
		if rules == nil {
			return batchJob(nil)
		}
		return batchJob(withRules(rules...))
	}

	for t, tc := range check.Cases(t, map[string]struct {
		stored, changed *batchv1.Job
		keeps           bool
	}{
		"the file without rules":              {complete(file()), file(), true},
		"the file with an empty list":         {complete(file()), file([]batchv1.PodFailurePolicyRule{}...), true},
		"the file with other rules":           {complete(file(exitCodeRules(2)...)), file(exitCodeRules(2)...), true},
		"what is stored":                      {complete(file(exitCodeRules(2)...)), complete(file(exitCodeRules(2)...)), false},
		"what is stored, replaced as default": {complete(file()), batchJob(withRules(workload.EvictionRule())), true},
		"a file that lacks another rule too":  {complete(file(exitCodeRules(2)...)), file(), false},
		"a file with another rule":            {complete(file()), file(exitCodeRules(1)...), false},
		"a Job that never had it":             {file(exitCodeRules(2)...), file(exitCodeRules(1)...), false},
		"a Job without rules":                 {file(), file(), false},
		"a Job with another rule first":       {file(anyOther), file(), false},
		"a Job with it after others":          {file(append(exitCodeRules(1), workload.EvictionRule())...), file(exitCodeRules(1)...), false},
	}) {
		check.Equal(t, "keeps", tc.keeps, MustKeepEvictionRule(tc.changed, tc.stored))
	}
}

// TestTheUsersFileCanAlwaysBeAppliedAgain: whatever rules it has, the Job that admission completed
// accepts it as a change.
func TestTheUsersFileCanAlwaysBeAppliedAgain(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		file := batchJob(nil)
		if rapid.Bool().Draw(t, "has rules") {
			rules := exitCodeRules(rapid.IntRange(0, 20).Draw(t, "rules"))
			if rapid.Bool().Draw(t, "ignores evictions") {
				rules = slices.Insert(rules, rapid.IntRange(0, len(rules)).Draw(t, "where"), workload.EvictionRule())
			}
			withRules(rules...)(file)
		}

		if rapid.Bool().Draw(t, "restarts") {
			file.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}

		stored := file
		if JobNeedsEvictionRule(file, snapshotOf(ignoreEvictions)) {
			stored = complete(file)
			check.That(t, MustKeepEvictionRule(file, stored), "the file is refused")
			check.That(t, workload.FailureLimitFor(stored).IgnoresEvictions, "evictions of the completed Job count")
			check.That(t, len(stored.Spec.PodFailurePolicy.Rules) <= 20, "Kubernetes refuses %d rules", len(stored.Spec.PodFailurePolicy.Rules))
		}

		check.That(t, !JobNeedsEvictionRule(stored, snapshotOf(ignoreEvictions)), "it is completed twice")
	})
}
