package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconf"
)

// Configuration is the scheduler's ConfigMap as a ServiceTypePolicy finds it.
type Configuration struct {
	// Live is nil when there is none. Original is the copy of its text from before
	// the first change, nil when there is none.
	Live, Original *corev1.ConfigMap
	// Unknown tells that it could not be read; then nothing is said of it.
	Unknown bool
}

// PolicyWorld is what the rules for the ServiceTypePolicy know besides it.
type PolicyWorld struct {
	// Quotas are the CardQuotas there are.
	Quotas []*v1alpha1.CardQuota
	// Configuration is the ConfigMap, read where Home and the policy say.
	Configuration Configuration
	// Home is the operator's own namespace.
	Home string
}

// smallest is a scheduler configuration that any valid policy can be written to.
const smallest = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"

// ServiceTypePolicy judges the policy. before is nil for a new one. Nothing is
// refused that was wrong before.
func ServiceTypePolicy(object, before *v1alpha1.ServiceTypePolicy, world PolicyWorld) Result {
	var result Result
	if object.DeletionTimestamp != nil || before != nil && equality.Semantic.DeepEqual(object.Spec, before.Spec) {
		return result
	}
	result.Errors = faults(object)
	if before != nil {
		result = result.Since(Result{Errors: faults(before)})
	}
	if len(result.Errors) > 0 {
		return result
	}
	orphans(&result, object, world.Quotas)
	denied(&result, object, before)
	placed(&result, policy.Located(object.Spec, world.Home), world.Configuration)
	return result
}

// faults are everything for which the operator would not put the policy into
// force, whatever the ConfigMap says.
func faults(object *v1alpha1.ServiceTypePolicy) field.ErrorList {
	effective := policy.Effective(object.Spec)
	if found := policy.Validate(effective); len(found) > 0 {
		return found
	}
	if _, _, err := schedulerconf.Merge(smallest, "", policy.WantedOf(effective)); err != nil {
		return field.ErrorList{field.Forbidden(spec, strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	return nil
}

// orphans warns of CardQuotas whose service type the policy does not define. They
// keep their queues as they are.
func orphans(result *Result, object *v1alpha1.ServiceTypePolicy, quotas []*v1alpha1.CardQuota) {
	effective := policy.Effective(object.Spec)
	var names []string
	for _, quota := range quotas {
		if quota.DeletionTimestamp == nil && !slices.ContainsFunc(effective.ServiceTypes, func(t v1alpha1.ServiceType) bool { return t.Name == quota.Spec.ServiceType }) {
			names = append(names, fmt.Sprintf("%s (%s)", quota.Name, quota.Spec.ServiceType))
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		result.warn(spec.Child("serviceTypes"), "%d CardQuotas are of a service type that this policy does not define: %s; their queues keep their priority, take no cards back and give none",
			len(names), some(names))
	}
}

// denied warns when queues without a card quota are about to get nothing.
func denied(result *Result, object, before *v1alpha1.ServiceTypePolicy) {
	if object.Spec.UnmanagedQueues == v1alpha1.UnmanagedDeny && (before == nil || before.Spec.UnmanagedQueues != v1alpha1.UnmanagedDeny) {
		result.warn(spec.Child("unmanagedQueues"), "%s: pods that request CPU or memory no longer start in queues without a CardQuota, also not in queue default, unless the Queue states spec.capability", v1alpha1.UnmanagedDeny)
	}
}

// placed warns of a ConfigMap that the policy cannot be written to as it is now.
func placed(result *Result, effective v1alpha1.ServiceTypePolicySpec, found Configuration) {
	ref := effective.Scheduler.ConfigMap
	if found.Unknown {
		return
	}
	if _, there := policy.TextOf(found.Live, ref); !there {
		result.warn(spec.Child("scheduler"), "the policy waits: %s", policy.Missing(ref, found.Live).Message)
		return
	}
	if _, err := policy.PlanEdit(found.Live, ref.Key, found.Original, policy.WantedOf(effective)); err != nil {
		result.warn(spec.Child("scheduler"), "the policy waits: %s", policy.Unreadable(ref, err).Message)
	}
}
