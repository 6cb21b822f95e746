package explanation

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestServicesDoNotEnd: the cards of a Deployment are free when it is scaled down.
func TestServicesDoNotEnd(t *testing.T) {
	for want, holder := range map[string]v1alpha1.WorkloadReference{
		"When Job lab/train ends, 4 NVIDIA-H200 are free again.":                   {APIGroup: "batch", Kind: "Job", Namespace: "lab", Name: "train"},
		"When Pod lab/notebook ends, 4 NVIDIA-H200 are free again.":                {Kind: "Pod", Namespace: "lab", Name: "notebook"},
		"When Deployment lab/chat is scaled down, 4 NVIDIA-H200 are free again.":   {APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "chat"},
		"When StatefulSet lab/cache is scaled down, 4 NVIDIA-H200 are free again.": {APIGroup: "apps", Kind: "StatefulSet", Namespace: "lab", Name: "cache"},
		"When DaemonSet lab/probe is deleted, 4 NVIDIA-H200 are free again.":       {APIGroup: "apps", Kind: "DaemonSet", Namespace: "lab", Name: "probe"},
	} {
		in := &Input{}
		advice := in.adviseHolders([]v1alpha1.CardHolder{{Workload: holder, Card: "NVIDIA-H200", Count: 4}})
		check.Equal(t, "advice", []string{want}, advice)
	}
}
