package explanation

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestServicesDoNotEnd: a workload uses 4 H200, and the advice says when they are free again. A job and a pod end by
// themselves. The controller of a service replaces pods that end, so its cards are free when it is scaled down or
// deleted.
func TestServicesDoNotEnd(t *testing.T) {
	for want, holder := range map[string]v1alpha1.WorkloadReference{
		"When Job lab/train ends, 4 NVIDIA-H200 are free again.":                   {APIGroup: "batch", Kind: "Job", Namespace: "lab", Name: "train"},
		"When Pod lab/notebook ends, 4 NVIDIA-H200 are free again.":                {Kind: "Pod", Namespace: "lab", Name: "notebook"},
		"When Deployment lab/chat is scaled down, 4 NVIDIA-H200 are free again.":   {APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "chat"},
		"When StatefulSet lab/cache is scaled down, 4 NVIDIA-H200 are free again.": {APIGroup: "apps", Kind: "StatefulSet", Namespace: "lab", Name: "cache"},
		"When DaemonSet lab/probe is deleted, 4 NVIDIA-H200 are free again.":       {APIGroup: "apps", Kind: "DaemonSet", Namespace: "lab", Name: "probe"},
	} {
		advice := adviser{&Input{}}.adviseHolders([]v1alpha1.CardHolder{{Workload: holder, Card: "NVIDIA-H200", Count: 4}})
		check.Equal(t, "advice", []string{want}, advice)
	}
}
