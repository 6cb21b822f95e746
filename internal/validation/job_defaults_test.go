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

// newJob returns a Kubernetes Job with 4 NVIDIA-H200 and backoffLimit 6, as the API server hands it over.
func newJob(changes ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "j"},
		Spec: batchv1.JobSpec{
			Template:     newTemplate(annotationMap{cardName: "NVIDIA-H200"}, amounts{gpu: "4"}),
			BackoffLimit: ptr.To[int32](6), PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
		},
	}

	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	for _, change := range changes {
		if change != nil {
			change(job)
		}
	}

	return job
}

func setJobIgnoreEvictions(w *WorkloadInput) {
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

// TestJobsWithCardsGetARuleForEvictions: Kubernetes counts each evicted pod of a Job as failed, and ends the
// Job when more than backoffLimit have failed. With jobEvictionPolicy IgnoreEvictions the webhook adds a rule
// to the podFailurePolicy of Jobs with cards: evicted pods do not count. It adds none to a Job of another
// scheduler, or with a rule for evicted pods. The validating webhook warns of a Job that arrives without the
// rule, here as if the other webhook had not added it. It warns at the creation only, and neither for a Job
// of a controller nor without a ServiceTypePolicy. Each Job has 4 NVIDIA-H200 and backoffLimit 6 unless a row
// changes it. A wanted text has parts, with "…" between them.
func TestJobsWithCardsGetARuleForEvictions(t *testing.T) {
	const help = "write first in podFailurePolicy.rules: {action: Ignore"
	countsEvictions := workload.EvictionRule()
	countsEvictions.Action = batchv1.PodFailurePolicyActionCount
	inPods := func(change func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change      func(*batchv1.Job)
		changeInput func(*WorkloadInput)
		getsRule    bool
		wantWarning string // of a Job without the rule, "" for none
	}{
		"a Job with cards":                  {getsRule: true, wantWarning: help},
		"a Job with 19 other rules":         {change: withRules(exitCodeRules(19)...), getsRule: true, wantWarning: help},
		"a Job with an empty list of rules": {change: withRules(), getsRule: true, wantWarning: help},
		"20 other rules, the most that Kubernetes allows: no place for one more": {
			change:      withRules(exitCodeRules(20)...),
			wantWarning: "spec.podFailurePolicy.rules…replace one of the 20 rules…DisruptionTarget",
		},
		"the Job has the rule":                        {change: withRules(workload.EvictionRule())},
		"the Job has the rule behind two others":      {change: withRules(append(exitCodeRules(2), workload.EvictionRule())...)},
		"the Job has another rule about evicted pods": {change: withRules(countsEvictions)},
		"restartPolicy OnFailure, with which Kubernetes allows no rules": {
			change:      func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure },
			wantWarning: "spec.template.spec.restartPolicy…more than 6…write restartPolicy: Never, and " + help,
		},
		"backoffLimit 0": {
			change:      func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) },
			getsRule:    true,
			wantWarning: "more than 0 of them (backoffLimit)",
		},
		"an init container requests the cards": {
			change: inPods(func(p *corev1.PodSpec) {
				p.InitContainers = p.Containers
				p.Containers = newPodSpec(nil).Containers
			}),
			getsRule:    true,
			wantWarning: help,
		},
		"a sidecar requests the cards": {
			change: inPods(func(p *corev1.PodSpec) {
				p.InitContainers = p.Containers
				p.Containers = newPodSpec(nil).Containers
				p.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}),
			getsRule:    true,
			wantWarning: help,
		},
		"the second container requests the cards": {
			change:      inPods(func(p *corev1.PodSpec) { p.Containers = append(newPodSpec(nil).Containers, p.Containers...) }),
			getsRule:    true,
			wantWarning: help,
		},
		"slices of cards": {
			change:      func(j *batchv1.Job) { j.Spec.Template = newJobTemplate(nil, amounts{slice: "1"}) },
			getsRule:    true,
			wantWarning: help,
		},
		"no card":                  {change: func(j *batchv1.Job) { j.Spec.Template = newJobTemplate(nil, amounts{"cpu": "1"}) }},
		"a device that is no card": {change: func(j *batchv1.Job) { j.Spec.Template = newJobTemplate(nil, amounts{rdma: "1"}) }},
		"another scheduler": {
			change:      inPods(func(p *corev1.PodSpec) { p.SchedulerName = "default-scheduler" }),
			changeInput: setBypassAllowed, // so that the Job is not refused
		},
		"the scheduler's second name": {
			change:      inPods(func(p *corev1.PodSpec) { p.SchedulerName = "cards" }),
			changeInput: func(w *WorkloadInput) { w.Policy.Spec.Scheduler.Names = []string{"volcano", "cards"} },
			getsRule:    true,
			wantWarning: help,
		},
		"a queue of inference: the service type does not matter": {
			change:      func(j *batchv1.Job) { j.Spec.Template.Annotations[queueName] = "serving" },
			getsRule:    true,
			wantWarning: help,
		},
		"the policy does not set jobEvictionPolicy": {
			changeInput: func(w *WorkloadInput) { w.Policy.Spec.Admission.JobEvictionPolicy = "" },
			wantWarning: help,
		},
		"no ServiceTypePolicy": {changeInput: func(w *WorkloadInput) { w.Policy = nil }},
		"the Job of a controller, whose user reads no warnings": {
			change: func(j *batchv1.Job) {
				j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "s", Controller: ptr.To(true)}}
			},
			getsRule: true,
		},
	}) {
		input := newInput(func(w *WorkloadInput) {
			setJobIgnoreEvictions(w)
			if tc.changeInput != nil {
				tc.changeInput(w)
			}
		})

		job := newJob(tc.change)
		before := job.DeepCopy()
		check.Equal(t, "gets the rule", tc.getsRule, JobNeedsEvictionRule(job, input))
		check.Equal(t, "the Job itself", before, job)

		// As if the mutating webhook had not answered. before is nil at the creation.
		warningsAfter := func(before *Workload) []string {
			warnings := validateNow(t, workloadFor(t, job), before, input).Warnings
			return slices.DeleteFunc(warnings, func(text string) bool { return !strings.Contains(text, "backoffLimit") })
		}

		checkOnlyText(t, "warnings of a creation", warningsAfter(nil), tc.wantWarning)
		then := workloadFor(t, before)
		checkOnlyText(t, "warnings of a change", warningsAfter(&then), "")
	}
}

func newJobTemplate(annotations annotationMap, limits amounts) corev1.PodTemplateSpec {
	template := newTemplate(annotations, limits)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return template
}

func setBypassAllowed(w *WorkloadInput) {
	w.Policy.Spec.Admission.SchedulerBypassPolicy = v1alpha1.SchedulerBypassAllow
}

// TestCronJobsWarnIfTheirJobsGetNoRuleForEvictions: the Jobs of a CronJob get the rule when they are created, where the
// policy says so. Otherwise the user reads the warning at the CronJob, because no user reads those of its Jobs.
func TestCronJobsWarnIfTheirJobsGetNoRuleForEvictions(t *testing.T) {
	restarts := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }

	for t, tc := range check.Cases(t, map[string]struct {
		change      func(*batchv1.Job)
		changeInput func(*WorkloadInput)
		wantWarning string
	}{
		"an invalid request, which is an error, so there is no warning": {change: func(j *batchv1.Job) { j.Spec.Template.Annotations[cardName] = "?" }},
		"the policy adds the rule to its Jobs":                          {changeInput: setJobIgnoreEvictions},
		"restartPolicy OnFailure, with which Kubernetes allows no rules": {
			change:      restarts,
			changeInput: setJobIgnoreEvictions,
			wantWarning: "spec.jobTemplate.spec.template.spec.restartPolicy…write restartPolicy: Never",
		},
		"the policy does not add the rule": {wantWarning: "spec.jobTemplate.spec.podFailurePolicy…DisruptionTarget"},
	}) {
		job := newJob(tc.change)
		cron := &batchv1.CronJob{ObjectMeta: job.ObjectMeta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: job.Spec}}}
		checkOnlyText(t, "warnings", validateNow(t, workloadFor(t, cron), nil, newInput(tc.changeInput)).Warnings, tc.wantWarning)
	}
}

// addEvictionRule adds the rule as the webhook does.
func addEvictionRule(job *batchv1.Job) *batchv1.Job {
	out := job.DeepCopy()
	var rules []batchv1.PodFailurePolicyRule
	if out.Spec.PodFailurePolicy != nil {
		rules = out.Spec.PodFailurePolicy.Rules
	}
	out.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: append([]batchv1.PodFailurePolicyRule{workload.EvictionRule()}, rules...)}
	out.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	return out
}

// TestApplyingTheFileAgainKeepsTheEvictionRule: podFailurePolicy of a Job cannot be changed. So a user's file without
// the rule, applied to the Job to which the webhook added the rule, would be refused. The webhook then keeps the
// stored policy: it copies it into the applied Job. It does so only if the two differ by what the webhook added: the
// rule at the first place, or podReplacementPolicy Failed. Without a difference there is nothing to keep.
func TestApplyingTheFileAgainKeepsTheEvictionRule(t *testing.T) {
	similar := workload.EvictionRule()
	similar.OnPodConditions[0].Status = corev1.ConditionFalse

	file := func(rules ...batchv1.PodFailurePolicyRule) *batchv1.Job {
		if rules == nil {
			return newJob()
		}
		return newJob(withRules(rules...))
	}

	for t, tc := range check.Cases(t, map[string]struct {
		stored, changed *batchv1.Job
		keeps           bool
	}{
		"stored with the rule, applied without rules": {addEvictionRule(file()), file(), true},
		"stored with the rule, applied with an empty list": {
			stored:  addEvictionRule(file()),
			changed: file([]batchv1.PodFailurePolicyRule{}...),
			keeps:   true,
		},
		"stored with the rule before two others, applied with these two": {
			stored:  addEvictionRule(file(exitCodeRules(2)...)),
			changed: file(exitCodeRules(2)...),
			keeps:   true,
		},
		"stored with the rule, applied as stored": {
			stored:  addEvictionRule(file(exitCodeRules(2)...)),
			changed: addEvictionRule(file(exitCodeRules(2)...)),
		},
		"stored with the rule, applied with it and the default podReplacementPolicy": {
			stored:  addEvictionRule(file()),
			changed: newJob(withRules(workload.EvictionRule())),
			keeps:   true,
		},
		"stored with the rule before two others, applied without rules": {
			stored:  addEvictionRule(file(exitCodeRules(2)...)),
			changed: file(),
		},
		"stored with the rule, applied with another one": {
			stored:  addEvictionRule(file()),
			changed: file(exitCodeRules(1)...),
		},
		"stored with two other rules, applied with one": {
			stored:  file(exitCodeRules(2)...),
			changed: file(exitCodeRules(1)...),
		},
		"stored without rules, applied without":                {file(), file(), false},
		"stored with a rule for status False, applied without": {file(similar), file(), false},
		"stored with the rule behind another one, applied without it": {
			stored:  file(append(exitCodeRules(1), workload.EvictionRule())...),
			changed: file(exitCodeRules(1)...),
		},
	}) {
		check.Equal(t, "keeps", tc.keeps, MustKeepEvictionRule(tc.changed, tc.stored))
	}
}

// TestTheUsersFileCanAlwaysBeAppliedAgain: whatever rules a user's file has, it can be applied to the Job that the webhook
// completed (addEvictionRule). Kubernetes allows the completed Job: it has at most 20 rules and restartPolicy Never. Its
// evicted pods do not count, and no Job is completed twice. Rules and restart policy of the file are random.
func TestTheUsersFileCanAlwaysBeAppliedAgain(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		file := newJob()
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
		if JobNeedsEvictionRule(file, newInput(setJobIgnoreEvictions)) {
			stored = addEvictionRule(file)
			check.That(t, MustKeepEvictionRule(file, stored), "the file is refused")
			check.That(t, workload.FailureLimitFor(stored).IgnoresEvictions, "evictions of the completed Job count")
			check.That(t, len(stored.Spec.PodFailurePolicy.Rules) <= 20, "Kubernetes refuses %d rules", len(stored.Spec.PodFailurePolicy.Rules))
			check.Equal(t, "restartPolicy of a completed Job", corev1.RestartPolicyNever, stored.Spec.Template.Spec.RestartPolicy)
		}

		check.That(t, !JobNeedsEvictionRule(stored, newInput(setJobIgnoreEvictions)), "the webhook would complete the stored Job again")
	})
}
