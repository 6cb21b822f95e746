//go:build !windows

package simulator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestRunNamesPodsWhoseClaimsItDoesNotCheck: a snapshot has no ResourceClaims, so a pod is placed that the
// scheduler may refuse, unless it refuses none. A pod that waits for another reason is not named.
func TestRunNamesPodsWhoseClaimsItDoesNotCheck(t *testing.T) {
	const argument = "          cardUnlimitedCpuMemory: true\n"
	check.Contains(t, "the shipped configuration", shipped(t), argument)

	claims := []corev1.PodResourceClaim{{Name: "gpu"}}
	both := []types.NamespacedName{{Namespace: "lab", Name: "new-worker-0"}, {Namespace: "lab", Name: "new-worker-1"}}

	for name, tc := range map[string]struct {
		unmanaged string
		cards     int
		claims    []corev1.PodResourceClaim
		want      []types.NamespacedName
	}{
		"by default":       {"", 4, claims, both},
		"enforced":         {"unmanagedQueues: Enforce", 4, claims, both},
		"denied":           {"unmanagedQueues: Deny", 4, claims, both},
		"ignored":          {"unmanagedQueues: Ignore", 4, claims, nil},
		"without claims":   {"", 4, nil, nil},
		"waits for a node": {"", 9, claims, nil},
	} {
		pod := builder.Pod("lab", "new").Scheduler("volcano").GPUs(tc.cards).CPU("1").Memory("1Gi").Card(h200).With(func(p *corev1.Pod) { p.Spec.ResourceClaims = tc.claims })
		configuration := strings.Replace(shipped(t), argument, argument+"          "+tc.unmanaged+"\n", 1)
		check.Equal(t, name, tc.want, simulateWith(t, configuration, newCluster(), unstructuredOf(builder.Gang("lab", "new", 2, pod).Queue("research").Obj())).UncheckedClaims)
	}
}
