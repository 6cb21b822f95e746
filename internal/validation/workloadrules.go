package validation

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// ValidateWorkload validates a workload. before is the one it replaces, nil for a new one.
//
// An object with a controller gets only warnings. Admission validated its controller, and
// an older controller must be able to continue. The exception is a queue that does not
// allow the namespace, and the bound of templates: a tenant can write any owner reference.
// Without a ServiceTypePolicy, or if it says Warn, every workload gets only warnings, so that
// existing workloads continue.
// The error is the context's.
func ValidateWorkload(ctx context.Context, load Workload, before *Workload, input WorkloadInput) (Result, error) {
	// strict has the errors of the exception above, result all others.
	result, strict := checkWorkload(ctx, &load, &input)
	if before != nil {
		known, knownStrict := checkWorkload(ctx, before, &input)
		result = result.OnlyNew(known)
		strict = strict.OnlyNew(knownStrict)
	}

	isCreatedByUser := before == nil && metav1.GetControllerOf(&load.Meta) == nil
	if isCreatedByUser && len(result.Errors) == 0 { // a podFailurePolicy cannot be changed later
		warnCountedEvictions(&result, &load, &input)
	}

	if metav1.GetControllerOf(&load.Meta) != nil {
		result = result.asWarnings()
	}

	// These stay errors, because a tenant can write any owner reference.
	result.addResult(strict)
	if input.onlyWarns() {
		result = result.asWarnings()
	}

	return result, ctx.Err()
}

// checkWorkload checks a workload. strict is what stays an error for an object with a controller too.
func checkWorkload(ctx context.Context, load *Workload, input *WorkloadInput) (result, strict Result) {
	input.resolveRequests(ctx, load)
	pods := podsForOurScheduler(load, input)
	return checkRequests(ctx, load, pods, input), checkBoundsAndAccess(load, pods)
}

// checkBoundsAndAccess checks the number of templates and the access to the queues. Both stay errors for an object with
// a controller, because a tenant can write any owner reference.
func checkBoundsAndAccess(load *Workload, pods []queuedPod) Result {
	result := checkQueueAccess(pods)
	if load.Truncated {
		result.refuse(specPath, "has more than %d pod templates, and the rest is not validated: write fewer tasks with more replicas, or several jobs", MaxTemplates)
	}
	return result
}

// checkRequests checks everything but the number of templates and the access to a queue. It returns early, with a
// partial Result, when the context ends.
func checkRequests(ctx context.Context, load *Workload, pods []queuedPod, input *WorkloadInput) Result {
	var result Result
	for i := range load.Templates {
		if ctx.Err() != nil {
			return result
		}

		t := &load.Templates[i]
		checkCardRequest(&result, t, input.Inventory)
		checkAnnotationPlacement(&result, load, t)
		checkBypass(&result, load, t, input.policySpec(), input.User)
		if !load.IsPod() {
			warnUnknownAnnotations(&result, t.Path.Child("metadata", "annotations"), t.Pod.Annotations)
		}
	}

	checkTotals(&result, load, input.Inventory)
	checkServiceTypeAndQuota(&result, load, pods, input)
	checkQueuesInTree(&result, pods)
	warnUnknownAnnotations(&result, load.MetadataPath.Child("annotations"), load.Annotations)
	return result
}

// RefuseOverlarge refuses a workload that is too large to validate, since it may request cards. wasOverlarge reports
// that the one it replaces was as large: then it only warns. Real workloads are far smaller.
func RefuseOverlarge(wasOverlarge bool, input WorkloadInput) Result {
	var result Result
	result.refuse(specPath, "has too many parts to be validated: write fewer tasks with more replicas, or several jobs")
	if wasOverlarge {
		result = result.OnlyNew(result) // it had the same error before, which becomes a warning
	}
	if input.onlyWarns() {
		result = result.asWarnings()
	}
	return result
}

// checkBypass reports early that the API server would refuse every pod of a template,
// because it requests a card and bypasses the scheduler. The ValidatingAdmissionPolicy
// reports the same for pods, and checkCardRequest reports a denied request.
func checkBypass(result *Result, load *Workload, t *Template, spec *v1alpha1.ServiceTypePolicySpec, user string) {
	request := &t.request
	if load.IsPod() || request.Count == 0 || request.Denied != nil || isExempt(load, t, spec.Admission.ExemptServiceAccounts, user) {
		return
	}

	add := result.warn
	switch spec.Admission.SchedulerBypassPolicy {
	case v1alpha1.SchedulerBypassAllow:
		return
	case v1alpha1.SchedulerBypassDeny:
		add = result.refuse
	}

	if !isOurs(load, t.Pod, spec) {
		add(t.Path.Child("spec", "schedulerName"), "its pods request %d %s each and name schedulerName %.160s, but only the scheduler %s assigns cards within the quota of a queue: write %s.spec.schedulerName: %s",
			request.Count, request.Resource, cmp.Or(t.Pod.Spec.SchedulerName, load.Scheduler), strings.Join(spec.Scheduler.Names, " or "), t.Path, spec.Scheduler.Names[0])
	}

	if node := t.Pod.Spec.NodeName; node != "" {
		add(t.Path.Child("spec", "nodeName"), "its pods request %d %s each and set spec.nodeName %.160s, which bypasses the scheduler and every quota: leave nodeName out, and choose the node by a nodeSelector",
			request.Count, request.Resource, node)
	}
}

// isExempt reports whether the policy exempts the pods: by the account of the request, or by that of the pods.
func isExempt(load *Workload, t *Template, accounts []v1alpha1.ServiceAccountReference, user string) bool {
	return slices.ContainsFunc(accounts, func(a v1alpha1.ServiceAccountReference) bool {
		return user == "system:serviceaccount:"+a.Namespace+":"+a.Name ||
			(load.Meta.Namespace == a.Namespace && t.Pod.Spec.ServiceAccountName == a.Name)
	})
}
