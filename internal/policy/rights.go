package policy

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

const (
	// EnforceRole is the name of the ClusterRole with what the operator may write only in mode Enforce, and of the
	// ClusterRoleBinding that grants it.
	EnforceRole = "cardquota-manager-enforce"
	// OperatorAccount is the name of the operator's ServiceAccount.
	OperatorAccount = "cardquota-manager"
	// maxNamedPermissions is how many missing permissions a message names.
	maxNamedPermissions = 3
)

// Permission is one permission of the ClusterRole EnforceRole: a verb for a resource of an API group. Name is that of the
// only object, "" for all objects.
type Permission struct {
	Verb, Group, Resource, Name string
}

// describe returns the permission as a message names it: "patch queues.scheduling.volcano.sh".
func (p Permission) describe() string {
	text := p.Verb + " " + p.Resource + "." + p.Group
	if p.Name != "" {
		text += " " + p.Name
	}
	return text
}

// EnforcePermissions returns all permissions of the ClusterRole EnforceRole. Those for all objects come first.
func EnforcePermissions() []Permission {
	var all []Permission
	add := func(group, resource, name string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, Permission{Verb: verb, Group: group, Resource: resource, Name: name})
		}
	}

	add("scheduling.volcano.sh", "queues", "", "create", "patch", "delete")
	add(v1alpha1.GroupVersion.Group, "cardquotas", "", "patch")
	add("scheduling.k8s.io", "priorityclasses", "", "create", "delete")
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		for _, name := range []string{"cardquota-bypass.cardquota.dev", "cardquota-charge.cardquota.dev"} {
			add("admissionregistration.k8s.io", resource, name, "create", "patch", "delete")
		}
	}

	return all
}

// Rights are what the operator may do of EnforcePermissions. The zero value means that it has not asked, and then it
// counts as allowed to do everything.
type Rights struct {
	// Namespace is that of the operator's ServiceAccount, "" if it has not asked.
	Namespace string
	// Missing are the permissions that it does not have, in the order of EnforcePermissions.
	Missing []Permission
}

// AreMissing reports whether the operator lacks a permission.
func (r Rights) AreMissing() bool { return len(r.Missing) > 0 }

// LacksAny reports whether the operator lacks a permission for a resource of an API group.
func (r Rights) LacksAny(group, resource string) bool {
	return slices.ContainsFunc(r.Missing, func(p Permission) bool { return p.Group == group && p.Resource == resource })
}

// BindCommand returns the command by which an administrator grants the rights to enforce to the operator in a namespace.
func BindCommand(namespace string) string {
	return fmt.Sprintf("kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s --serviceaccount=%[2]s:%[3]s", EnforceRole, namespace, OperatorAccount)
}

// unbindCommand takes back what BindCommand granted.
const unbindCommand = "kubectl delete clusterrolebinding " + EnforceRole

// MissingCondition returns a condition with reason RightsMissing. It begins with its effect, and ends with the command
// that helps.
func (r Rights) MissingCondition(effect string) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonRightsMissing, "%s: %s", effect, r.describeMissing())
}

// describeMissing says which permissions are missing, and which command helps.
func (r Rights) describeMissing() string {
	names := make([]string, len(r.Missing))
	for i, p := range r.Missing {
		names[i] = p.describe()
	}
	return fmt.Sprintf("the operator may not %s. Bind ClusterRole %s: %s", conditions.JoinFirst(names, maxNamedPermissions), EnforceRole, BindCommand(r.Namespace))
}

// modeCondition returns condition Ready while mode Enforce is wanted and rights are missing, and condition Enforced if
// Observe is in force.
func (r Rights) modeCondition(inForce v1alpha1.Mode) metav1.Condition {
	if inForce == v1alpha1.ModeEnforce {
		return r.MissingCondition("what was written stays enforced, and changes may not be written")
	}
	return r.MissingCondition("mode Enforce is not in force, and the operator observes")
}

// addTo adds to a condition of mode Observe what the rights mean for it: that they are missing while something is left to
// restore, or that they are not needed any more.
func (r Rights) addTo(observing metav1.Condition) metav1.Condition {
	isRestored := observing.Status == metav1.ConditionTrue
	switch {
	case r.AreMissing() && !isRestored:
		return conditions.New(observing.Status, observing.Reason, "%s. It cannot go on: %s", observing.Message, r.describeMissing())
	case r.Namespace != "" && !r.AreMissing() && isRestored:
		return conditions.New(observing.Status, observing.Reason, "%s. The rights to enforce are not needed any more: %s", observing.Message, unbindCommand)
	default:
		return observing
	}
}
