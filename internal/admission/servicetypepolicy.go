package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

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
func ServiceTypePolicy(object, before *v1alpha1.ServiceTypePolicy, world PolicyWorld) Answer {
	var answer Answer
	if object.DeletionTimestamp != nil || before != nil && equality.Semantic.DeepEqual(object.Spec, before.Spec) {
		return answer
	}
	for _, fault := range faults(object) {
		answer.refuse("ServiceTypePolicy %s: %s", object.Name, fault)
	}
	if before != nil {
		var then Answer
		for _, fault := range faults(before) {
			then.refuse("ServiceTypePolicy %s: %s", before.Name, fault)
		}
		answer = answer.Since(then)
	}
	if !answer.Allowed() {
		return answer
	}
	orphans(&answer, object, world.Quotas)
	denied(&answer, object, before)
	placed(&answer, policy.Located(object.Spec, world.Home), world.Configuration)
	return answer
}

// faults are everything for which the operator would not put the policy into
// force, whatever the ConfigMap says.
func faults(object *v1alpha1.ServiceTypePolicy) []string {
	spec := policy.Effective(object.Spec)
	if found := policy.Validate(spec); len(found) > 0 {
		return found
	}
	if _, _, err := schedulerconf.Merge(smallest, "", policy.WantedOf(spec)); err != nil {
		return []string{strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return nil
}

// orphans warns of CardQuotas whose service type the policy does not define. They
// keep their queues as they are.
func orphans(answer *Answer, object *v1alpha1.ServiceTypePolicy, quotas []*v1alpha1.CardQuota) {
	spec := policy.Effective(object.Spec)
	var names []string
	for _, quota := range quotas {
		if quota.DeletionTimestamp == nil && !slices.ContainsFunc(spec.ServiceTypes, func(t v1alpha1.ServiceType) bool { return t.Name == quota.Spec.ServiceType }) {
			names = append(names, fmt.Sprintf("%s (%s)", quota.Name, quota.Spec.ServiceType))
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		answer.warn("%d CardQuotas are of a service type that this policy does not define: %s; their queues keep their priority, take no cards back and give none",
			len(names), some(names))
	}
}

// denied warns when queues without a card quota are about to get nothing.
func denied(answer *Answer, object, before *v1alpha1.ServiceTypePolicy) {
	if object.Spec.UnmanagedQueues == v1alpha1.UnmanagedDeny && (before == nil || before.Spec.UnmanagedQueues != v1alpha1.UnmanagedDeny) {
		answer.warn("unmanagedQueues is %s: pods that request CPU or memory no longer start in queues without a CardQuota, also not in queue default, unless the Queue states spec.capability", v1alpha1.UnmanagedDeny)
	}
}

// placed warns of a ConfigMap that the policy cannot be written to as it is now.
func placed(answer *Answer, spec v1alpha1.ServiceTypePolicySpec, found Configuration) {
	ref := spec.Scheduler.ConfigMap
	if found.Unknown {
		return
	}
	if _, there := policy.TextOf(found.Live, ref); !there {
		answer.warn("the policy waits: %s", policy.Missing(ref, found.Live).Message)
		return
	}
	if _, err := policy.PlanEdit(found.Live, ref.Key, found.Original, policy.WantedOf(spec)); err != nil {
		answer.warn("the policy waits: %s", policy.Unreadable(ref, err).Message)
	}
}
