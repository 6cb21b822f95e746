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

// TestRunNamesPodsWhoseClaimsItDoesNotCheck: the scheduler refuses pods with ResourceClaims for cards, unless
// UnmanagedQueues is Ignore. A snapshot has no ResourceClaims, so the simulation places such a pod. It names the pod, so
// that the user knows what is not checked. Node h200-1 has 8 free cards for a gang of two pods.
func TestRunNamesPodsWhoseClaimsItDoesNotCheck(t *testing.T) {
	const argument = "          cardUnlimitedCpuMemory: true\n"
	check.Contains(t, "the shipped configuration", readShippedConfiguration(t), argument)
	claims := []corev1.PodResourceClaim{{Name: "gpu"}}
	bothPods := []types.NamespacedName{{Namespace: "lab", Name: "new-worker-0"}, {Namespace: "lab", Name: "new-worker-1"}}

	for t, tc := range check.Cases(t, map[string]struct {
		unmanagedQueues string // a further argument of the plugin
		cards           int    // of each pod
		claims          []corev1.PodResourceClaim
		want            []types.NamespacedName
	}{
		"no argument: both pods":                           {"", 4, claims, bothPods},
		"unmanagedQueues is Enforce: both pods":            {"unmanagedQueues: Enforce", 4, claims, bothPods},
		"unmanagedQueues is Deny: both pods":               {"unmanagedQueues: Deny", 4, claims, bothPods},
		"unmanagedQueues is Ignore: none":                  {"unmanagedQueues: Ignore", 4, claims, nil},
		"the pods have no claims: none":                    {"", 4, nil, nil},
		"the pods need 9 cards, so they wait anyway: none": {"", 9, claims, nil},
	}) {
		pod := newPod("new", tc.cards).With(func(p *corev1.Pod) { p.Spec.ResourceClaims = tc.claims })
		gang := unstructuredOf(builder.Gang("lab", "new", 2, pod).Queue("research").Obj())
		configuration := strings.Replace(readShippedConfiguration(t), argument, argument+"          "+tc.unmanagedQueues+"\n", 1)

		r := simulateWith(t, configuration, newClusterWithOneFullNode(), gang)
		check.Equal(t, "pods with claims that are not checked", tc.want, r.UncheckedClaims)
	}
}
