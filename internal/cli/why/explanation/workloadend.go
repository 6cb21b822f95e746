package explanation

import (
	appsv1 "k8s.io/api/apps/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// describeEnd returns how a workload gives its cards back. Services do not end by themselves.
func describeEnd(w v1alpha1.WorkloadReference) string {
	switch {
	case w.APIGroup != appsv1.GroupName:
		return "ends"
	case w.Kind == "DaemonSet":
		return "is deleted"
	default:
		return "is scaled down"
	}
}
