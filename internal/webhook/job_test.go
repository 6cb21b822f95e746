package webhook

import (
	"encoding/json"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

const evictionRule = `{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}`

// TestTheEvictionRuleIsAddedFirst: the webhook adds to a Kubernetes Job the rule that evicted pods do not
// count as failed. Of a Job's rules the first one that fits counts, so the added rule comes first. Kubernetes
// then requires podReplacementPolicy Failed. All else in the JSON stays, also fields that this version of the
// webhook does not know ("new"). JSON that is broken, or has no object as its spec, is an error.
func TestTheEvictionRuleIsAddedFirst(t *testing.T) {
	const others = `{"action":"FailJob","onExitCodes":{"operator":"In","values":[42],"new":1}}`
	for t, tc := range check.Cases(t, map[string]struct{ job, want string }{
		"a Job without rules": {
			job:  `{"kind":"Job","spec":{"new":{"a":[1]},"podReplacementPolicy":"TerminatingOrFailed"}}`,
			want: `{"kind":"Job","spec":{"new":{"a":[1]},"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[` + evictionRule + `]}}}`,
		},
		"a Job with another rule": {
			job:  `{"spec":{"podFailurePolicy":{"rules":[` + others + `],"new":2},"podReplacementPolicy":"Failed"}}`,
			want: `{"spec":{"podFailurePolicy":{"rules":[` + evictionRule + `,` + others + `],"new":2},"podReplacementPolicy":"Failed"}}`,
		},
		"a Job with an empty list of rules": {
			job:  `{"spec":{"podFailurePolicy":{"rules":[]}}}`,
			want: `{"spec":{"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[` + evictionRule + `]}}}`,
		},
		"a Job whose podFailurePolicy is null": {
			job:  `{"spec":{"podFailurePolicy":null}}`,
			want: `{"spec":{"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[` + evictionRule + `]}}}`,
		},
	}) {
		checkSameJSON(t, check.Value(addEvictionRule([]byte(tc.job)))(t), tc.want)
	}

	for _, broken := range []string{`{}`, `{"spec":1}`, `[`} {
		_, err := addEvictionRule([]byte(broken))
		check.That(t, err != nil, "%s is completed", broken)
	}
}

// TestTheStoredFailurePolicyIsCopied: podFailurePolicy of a stored Job cannot be changed. A user who applies the same
// file again, which does not have the added rule, would be refused. So the webhook copies the stored podFailurePolicy
// and podReplacementPolicy into the changed Job. Other changes stay. A stored Job without a spec is an error.
func TestTheStoredFailurePolicyIsCopied(t *testing.T) {
	const stored = `{"spec":{"podFailurePolicy":{"rules":[` + evictionRule + `]},"podReplacementPolicy":"Failed","parallelism":1}}`
	for t, tc := range check.Cases(t, map[string]struct{ job, stored, want string }{
		"a changed Job without rules": {
			job:    `{"spec":{"parallelism":2,"podReplacementPolicy":"TerminatingOrFailed"}}`,
			stored: stored,
			want:   `{"spec":{"parallelism":2,"podFailurePolicy":{"rules":[` + evictionRule + `]},"podReplacementPolicy":"Failed"}}`,
		},
		"a stored Job without podReplacementPolicy": {
			job:    `{"spec":{"podReplacementPolicy":"TerminatingOrFailed"}}`,
			stored: `{"spec":{"podFailurePolicy":{"rules":[]}}}`,
			want:   `{"spec":{"podFailurePolicy":{"rules":[]}}}`,
		},
	}) {
		checkSameJSON(t, check.Value(copyFailurePolicy([]byte(tc.job), []byte(tc.stored)))(t), tc.want)
	}

	_, err := copyFailurePolicy([]byte(stored), []byte(`{}`))
	check.That(t, err != nil, "copied from a Job without a spec")
}

func checkSameJSON(t *testing.T, got []byte, want string) {
	check.Equal(t, "JSON", decodeJSON(t, want), decodeJSON(t, string(got)))
}

func decodeJSON(t *testing.T, text string) (value any) {
	check.NoError(t, json.Unmarshal([]byte(text), &value))
	return value
}
