package validation

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// maxFailureRules is how many rules a podFailurePolicy may have (Kubernetes,
// pkg/apis/batch/validation).
const maxFailureRules = 20

// JobNeedsEvictionRule reports whether admission adds workload.EvictionRule to a new Kubernetes
// Job, so that evicted pods do not count against its backoffLimit. The Job must request cards
// from our scheduler, and the ServiceTypePolicy must ask for the rule. It keeps what the Job
// states about evicted pods.
func JobNeedsEvictionRule(job *batchv1.Job, input WorkloadInput) bool {
	if input.Policy == nil || input.policySpec().Admission.JobEvictionPolicy != v1alpha1.JobIgnoreEvictions {
		return false
	}
	load, _ := WorkloadOf(job)
	input.resolveRequests(context.Background(), &load)
	return canHaveEvictionRule(&job.Spec) && countsEvictions(&load, &input)
}

// canHaveEvictionRule reports whether a rule can be added. Kubernetes accepts a podFailurePolicy
// only with restartPolicy Never.
func canHaveEvictionRule(spec *batchv1.JobSpec) bool {
	policy := spec.PodFailurePolicy
	return spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever && (policy == nil || len(policy.Rules) < maxFailureRules)
}

// countsEvictions reports whether pods of a Kubernetes Job request cards from our scheduler, and
// the Job has no rule of its own for evicted ones.
func countsEvictions(load *Workload, input *WorkloadInput) bool {
	if load.Job == nil || workload.HasEvictionRule(load.Job.PodFailurePolicy) {
		return false
	}
	template := &load.Templates[0]
	return template.request.Count > 0 && isOurs(load, template.Pod, input.policySpec())
}

// MustKeepEvictionRule reports whether a changed Kubernetes Job lacks what admission added when
// it was created. A podFailurePolicy is immutable, and the user's own file does not have that rule.
// So without it, the API server would refuse to replace the Job by the file.
func MustKeepEvictionRule(job, before *batchv1.Job) bool {
	// Admission adds its rule as the first one, so the others are those of the user.
	stored := before.Spec.PodFailurePolicy
	if stored == nil || len(stored.Rules) == 0 || !equality.Semantic.DeepEqual(stored.Rules[0], workload.EvictionRule()) {
		return false
	}

	var rules []batchv1.PodFailurePolicyRule
	if job.Spec.PodFailurePolicy != nil {
		rules = job.Spec.PodFailurePolicy.Rules
	}

	// A client that sends the rule back can still lack podReplacementPolicy, which came with it.
	if equality.Semantic.DeepEqual(rules, stored.Rules) {
		return !equality.Semantic.DeepEqual(job.Spec.PodReplacementPolicy, before.Spec.PodReplacementPolicy)
	}

	// The file has the user's rules alone. If these are none, it may have an empty list or no list.
	return equality.Semantic.DeepEqual(rules, stored.Rules[1:]) || len(rules)+len(stored.Rules[1:]) == 0
}

// warnCountedEvictions warns of a new Kubernetes Job that fails once more of its pods were
// evicted than its backoffLimit, and says what to write. It does not warn of a CronJob whose Jobs get the rule from
// admission. A Job that would have got it has it by now.
func warnCountedEvictions(result *Result, load *Workload, input *WorkloadInput) {
	if input.Policy == nil || !countsEvictions(load, input) {
		return
	}

	admissionAdds := input.policySpec().Admission.JobEvictionPolicy == v1alpha1.JobIgnoreEvictions
	switch {
	case load.Job.Template.Spec.RestartPolicy != corev1.RestartPolicyNever:
		warnOfEvictions(result, load, load.JobPath.Child("template", "spec", "restartPolicy"), "write restartPolicy: Never, and "+evictionRuleText)
	case !canHaveEvictionRule(load.Job):
		warnOfEvictions(result, load, load.JobPath.Child("podFailurePolicy", "rules"), "replace one of the %d rules, the most that Kubernetes allows, and "+evictionRuleText, maxFailureRules)
	case load.Kind == "Job" || !admissionAdds:
		warnOfEvictions(result, load, load.JobPath.Child("podFailurePolicy"), evictionRuleText)
	}
}

// evictionRuleText says what to write into the spec of a Job.
const evictionRuleText = "write first in podFailurePolicy.rules: {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"

// warnOfEvictions warns that evicted pods of a Job count as failed. help says what to write, with its values.
func warnOfEvictions(result *Result, load *Workload, path *field.Path, help string, values ...any) {
	limit := ptr.Deref(load.Job.BackoffLimit, workload.DefaultBackoffLimit)
	result.warn(path, "evicted pods count as failed, and with more than %d of them (backoffLimit) the Job fails for good: "+help, append([]any{limit}, values...)...)
}
