package whatif

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/check"
)

// TestUncheckedClaimsAreACaveat: whatif says that a pod would run, but it does not simulate ResourceClaims (dynamic
// resource allocation), for which the scheduler may refuse the pod. So the answer names the pods with claims, the first
// five of them.
func TestUncheckedClaimsAreACaveat(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ podsWithClaims, want string }{
		"no pod": {"", ""},
		"one pod": {"a", "1 pod that would run has ResourceClaims, which the simulation does not check. " +
			"If one is for cards, the scheduler refuses its pod (UnmanagedClaim): lab/a."},
		"seven pods: all are counted":              {"a b c d e f g", "7 pods that would run have ResourceClaims"},
		"seven pods: the names end with the fifth": {"a b c d e f g", "lab/e and 2 more."},
	}) {
		result := simulation.Result{IsSettled: true, Pods: []simulation.Placement{{Namespace: "lab", Name: "a", Node: "n"}}}
		for _, name := range strings.Fields(tc.podsWithClaims) {
			result.UncheckedClaims = append(result.UncheckedClaims, types.NamespacedName{Namespace: "lab", Name: name})
		}

		text := strings.Join(strings.Fields(NewResult(result).Render(output.Style{})), " ")
		check.Contains(t, "answer", text, tc.want)
		check.Equal(t, "has a caveat", tc.want != "", strings.Contains(text, "ResourceClaims"))
	}
}
