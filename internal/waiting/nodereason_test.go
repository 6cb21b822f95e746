package waiting

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestNodeReasonsAreReadAgain: the plugin writes why it refuses a node as words for people, and the operator reads
// the code and the detail from them again. A detail is random, such as the cards of the pod.
func TestNodeReasonsAreReadAgain(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		reason := NodeReason{Code: rapid.SampledFrom(slices.Sorted(maps.Keys(nodeWords))).Draw(t, "code")}
		if strings.Contains(nodeWords[reason.Code], nodeDetail) {
			reason.Detail = rapid.StringMatching(`[a-zA-Z0-9./|-]{1,40}`).Draw(t, "detail")
		}

		got, isKnown := ReadNodeReason(reason.Message())
		check.Must(t, isKnown && got == reason, "%q is read as %+v, want %+v", reason.Message(), got, reason)
	})
}
