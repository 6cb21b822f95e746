package webhook

import (
	"encoding/json"
	"reflect"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

const evictionRule = `{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}`

// TestTheEvictionRuleIsAddedFirst: fields that this version does not know stay.
func TestTheEvictionRuleIsAddedFirst(t *testing.T) {
	const others = `{"action":"FailJob","onExitCodes":{"operator":"In","values":[42],"new":1}}`
	for t, tc := range check.Cases(t, map[string]struct{ job, want string }{
		"without rules": {`{"kind":"Job","spec":{"new":{"a":[1]},"podReplacementPolicy":"TerminatingOrFailed"}}`,
			`{"kind":"Job","spec":{"new":{"a":[1]},"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[` + evictionRule + `]}}}`},
		"before other rules": {`{"spec":{"podFailurePolicy":{"rules":[` + others + `],"new":2},"podReplacementPolicy":"Failed"}}`,
			`{"spec":{"podFailurePolicy":{"rules":[` + evictionRule + `,` + others + `],"new":2},"podReplacementPolicy":"Failed"}}`},
		"into an empty list": {`{"spec":{"podFailurePolicy":{"rules":[]}}}`, `{"spec":{"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[` + evictionRule + `]}}}`},
		"into none":          {`{"spec":{"podFailurePolicy":null}}`, `{"spec":{"podReplacementPolicy":"Failed","podFailurePolicy":{"rules":[` + evictionRule + `]}}}`},
	}) {
		checkSameJSON(t, check.Value(addEvictionRule([]byte(tc.job)))(t), tc.want)
	}

	for _, broken := range []string{`{}`, `{"spec":1}`, `[`} {
		_, err := addEvictionRule([]byte(broken))
		check.That(t, err != nil, "completed %s", broken)
	}
}

func TestTheStoredFailurePolicyIsCopied(t *testing.T) {
	const stored = `{"spec":{"podFailurePolicy":{"rules":[` + evictionRule + `]},"podReplacementPolicy":"Failed","parallelism":1}}`
	for t, tc := range check.Cases(t, map[string]struct{ job, stored, want string }{
		"into a Job without": {`{"spec":{"parallelism":2,"podReplacementPolicy":"TerminatingOrFailed"}}`, stored,
			`{"spec":{"parallelism":2,"podFailurePolicy":{"rules":[` + evictionRule + `]},"podReplacementPolicy":"Failed"}}`},
		"without what is not stored": {`{"spec":{"podReplacementPolicy":"TerminatingOrFailed"}}`, `{"spec":{"podFailurePolicy":{"rules":[]}}}`,
			`{"spec":{"podFailurePolicy":{"rules":[]}}}`},
	}) {
		checkSameJSON(t, check.Value(copyFailurePolicy([]byte(tc.job), []byte(tc.stored)))(t), tc.want)
	}

	_, err := copyFailurePolicy([]byte(stored), []byte(`{}`))
	check.That(t, err != nil, "copied from a Job without a spec")
}

func checkSameJSON(t *testing.T, got []byte, want string) {
	var is, wanted any
	check.NoError(t, json.Unmarshal(got, &is))
	check.NoError(t, json.Unmarshal([]byte(want), &wanted))
	check.That(t, reflect.DeepEqual(is, wanted), "got %s, want %s", got, want)
}
