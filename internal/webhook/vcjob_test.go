package webhook

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	rules "cardquota.dev/operator/internal/admission"
)

// TestCompletingKeepsTheRest: also fields that this version does not know.
func TestCompletingKeepsTheRest(t *testing.T) {
	policies := []vcbatch.LifecyclePolicy{{Event: "PodEvicted", Action: "RestartJob"}}
	for name, tc := range map[string]struct {
		job, want string
		defaults  rules.Defaults
	}{
		"everything": {`{"spec":{"new":{"a":[1]},"maxRetry":3}}`,
			`{"spec":{"new":{"a":[1]},"maxRetry":100,"policies":[{"action":"RestartJob","event":"PodEvicted"}]}}`, rules.Defaults{MaxRetry: 100, Policies: policies}},
		"beside other policies": {`{"spec":{"policies":[{"exitCode":3}]}}`,
			`{"spec":{"policies":[{"exitCode":3},{"action":"RestartJob","event":"PodEvicted"}]}}`, rules.Defaults{Policies: policies}},
		"retries alone": {`{"spec":{"queue":"q"}}`, `{"spec":{"queue":"q","maxRetry":100}}`, rules.Defaults{MaxRetry: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := complete([]byte(tc.job), tc.defaults)
			if err != nil {
				t.Fatal(err)
			}
			var is, want any
			if err := json.Unmarshal(got, &is); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(is, want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if _, err := complete([]byte(`{}`), rules.Defaults{Policies: policies}); err == nil {
		t.Error("completed a job without a spec")
	}
}

func TestRespond(t *testing.T) {
	answer := respond(rules.Answer{Refusals: []string{"one", "two"}, Warnings: []string{"a\nb"}})
	if answer.Allowed || answer.Result.Code != 403 || answer.Result.Message != "one; two" {
		t.Errorf("answer %+v", answer.Result)
	}
	if len(answer.Warnings) != 1 || strings.Contains(answer.Warnings[0], "\n") {
		t.Errorf("warnings %q: a header holds one line", answer.Warnings)
	}
	if answer := respond(rules.Answer{}); !answer.Allowed {
		t.Errorf("refused %+v", answer.Result)
	}
}
