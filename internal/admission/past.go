package admission

import (
	"cmp"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
)

// past tells early what the API server would refuse of every pod of a template:
// that it asks for a card and passes the scheduler by. Pods themselves are left
// to the ValidatingAdmissionPolicy, which says the same.
func past(result *Result, load *Workload, t *Template, spec *v1alpha1.ServiceTypePolicySpec, user string) {
	ask := &t.request
	if load.Pod() || ask.Count == 0 || ask.Denied != nil || exempt(load, t, spec.Admission.ExemptServiceAccounts, user) {
		return
	}
	tell := result.warn
	switch spec.Admission.SchedulerBypassPolicy {
	case v1alpha1.SchedulerBypassAllow:
		return
	case v1alpha1.SchedulerBypassDeny:
		tell = result.refuse
	}
	if !ours(load, t.Pod, spec) {
		tell(t.Path.Child("spec", "schedulerName"), "its pods ask for %d %s each and name schedulerName %.160s, but only the scheduler %s hands out cards within the quota of a queue: write %s.spec.schedulerName: %s",
			ask.Count, ask.Resource, cmp.Or(t.Pod.Spec.SchedulerName, load.Scheduler), strings.Join(spec.Scheduler.Names, " or "), t.Path, spec.Scheduler.Names[0])
	}
	if node := t.Pod.Spec.NodeName; node != "" {
		tell(t.Path.Child("spec", "nodeName"), "its pods ask for %d %s each and bring spec.nodeName %.160s along, which passes the scheduler and every quota by: leave nodeName out, and choose the node by a nodeSelector",
			ask.Count, ask.Resource, node)
	}
}

// exempt tells that the policy lets the pods pass.
func exempt(load *Workload, t *Template, accounts []v1alpha1.ServiceAccountReference, user string) bool {
	return slices.ContainsFunc(accounts, func(a v1alpha1.ServiceAccountReference) bool {
		return user == "system:serviceaccount:"+a.Namespace+":"+a.Name ||
			load.Meta.Namespace == a.Namespace && t.Pod.Spec.ServiceAccountName == a.Name
	})
}
