package webhook

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	rules "cardquota.dev/operator/internal/admission"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCompletingKeepsTheRest: also fields that this version does not know.
func TestCompletingKeepsTheRest(t *testing.T) {
	policies := []vcbatch.LifecyclePolicy{{Event: "PodEvicted", Action: "RestartJob"}}
	for t, tc := range check.Cases(t, map[string]struct {
		job, want string
		defaults  rules.Defaults
	}{
		"everything": {`{"spec":{"new":{"a":[1]},"maxRetry":3}}`,
			`{"spec":{"new":{"a":[1]},"maxRetry":100,"policies":[{"action":"RestartJob","event":"PodEvicted"}]}}`, rules.Defaults{MaxRetry: 100, Policies: policies}},
		"beside other policies": {`{"spec":{"policies":[{"exitCode":3}]}}`,
			`{"spec":{"policies":[{"exitCode":3},{"action":"RestartJob","event":"PodEvicted"}]}}`, rules.Defaults{Policies: policies}},
		"retries alone": {`{"spec":{"queue":"q"}}`, `{"spec":{"queue":"q","maxRetry":100}}`, rules.Defaults{MaxRetry: 100}},
	}) {
		got, err := complete([]byte(tc.job), tc.defaults)
		check.NoError(t, err)
		var is, want any
		check.NoError(t, json.Unmarshal(got, &is))
		check.NoError(t, json.Unmarshal([]byte(tc.want), &want))
		check.That(t, reflect.DeepEqual(is, want), "got %s, want %s", got, tc.want)
	}
	if _, err := complete([]byte(`{}`), rules.Defaults{Policies: policies}); err == nil {
		t.Error("completed a job without a spec")
	}
}

func TestRespond(t *testing.T) {
	answer := respond(rules.Answer{Refusals: []string{"one", "two"}, Warnings: []string{"a\nb"}})
	check.That(t, !answer.Allowed && answer.Result.Code == 403 && answer.Result.Message == "one; two", "answer %+v", answer.Result)
	check.That(t, len(answer.Warnings) == 1 && !strings.Contains(answer.Warnings[0], "\n"), "warnings %q: a header holds one line", answer.Warnings)
	if answer := respond(rules.Answer{}); !answer.Allowed {
		t.Errorf("refused %+v", answer.Result)
	}
}
