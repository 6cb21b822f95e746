package whatifview

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/check"
)

// TestUncheckedClaimsAreACaveat: a pod that would run has a claim that the scheduler may refuse.
func TestUncheckedClaimsAreACaveat(t *testing.T) {
	claimed := simulation.Result{IsSettled: true, Pods: []simulation.Placement{{Namespace: "lab", Name: "a", Node: "n"}}}
	write := func() string {
		var out bytes.Buffer
		check.NoError(t, New(claimed).Write(&out, output.Style{}))
		return strings.Join(strings.Fields(out.String()), " ")
	}
	check.That(t, !strings.Contains(write(), "ResourceClaims"), "a caveat without claims: %s", write())

	add := func(names ...string) {
		for _, name := range names {
			claimed.UncheckedClaims = append(claimed.UncheckedClaims, types.NamespacedName{Namespace: "lab", Name: name})
		}
	}

	add("a")
	check.Contains(t, "caveat", write(), "1 pod that would run has ResourceClaims, which the simulation does not check. If one is for cards, the scheduler refuses its pod (UnmanagedClaim): lab/a.")
	add("b", "c", "d", "e", "f", "g")
	check.Contains(t, "caveat of many", write(), "7 pods that would run have ResourceClaims", "lab/e and 2 more.")
}
