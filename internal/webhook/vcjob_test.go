package webhook

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
	rules "cardquota.dev/operator/internal/webhook/validation"
)

// TestCompleteJobKeepsOtherFields: also fields that this version does not know.
func TestCompleteJobKeepsOtherFields(t *testing.T) {
	policies := []vcbatch.LifecyclePolicy{{Event: "PodEvicted", Action: "RestartJob"}}
	for t, tc := range check.Cases(t, map[string]struct {
		job, want string
		defaults  rules.JobDefaults
	}{
		"everything": {`{"spec":{"new":{"a":[1]},"maxRetry":3}}`,
			`{"spec":{"new":{"a":[1]},"maxRetry":100,"policies":[{"action":"RestartJob","event":"PodEvicted"}]}}`, rules.JobDefaults{MaxRetry: 100, Policies: policies}},
		"beside other policies": {`{"spec":{"policies":[{"exitCode":3}]}}`,
			`{"spec":{"policies":[{"exitCode":3},{"action":"RestartJob","event":"PodEvicted"}]}}`, rules.JobDefaults{Policies: policies}},
		"retries alone": {`{"spec":{"queue":"q"}}`, `{"spec":{"queue":"q","maxRetry":100}}`, rules.JobDefaults{MaxRetry: 100}},
	}) {
		got := check.Value(completeJob([]byte(tc.job), tc.defaults))(t)
		var is, want any
		check.NoError(t, json.Unmarshal(got, &is))
		check.NoError(t, json.Unmarshal([]byte(tc.want), &want))
		check.That(t, reflect.DeepEqual(is, want), "got %s, want %s", got, tc.want)
	}

	_, err := completeJob([]byte(`{}`), rules.JobDefaults{Policies: policies})
	check.That(t, err != nil, "completed a job without a spec")
}

func TestResponseFor(t *testing.T) {
	path := field.NewPath("spec")
	answer := responseFor(admission.Request{}, rules.Result{Errors: field.ErrorList{field.Forbidden(path, "one"), field.Forbidden(path, "two")}, Warnings: []string{"a\nb"}})
	check.Contains(t, "refusal", answer.Result.Message, "spec: Forbidden: one", "spec: Forbidden: two")
	check.That(t, !answer.Allowed && len(answer.Result.Details.Causes) == 2, "refused with %+v", answer.Result)
	check.That(t, len(answer.Warnings) == 1 && !strings.Contains(answer.Warnings[0], "\n"), "warnings %q: a header holds one line", answer.Warnings)
	if answer := responseFor(admission.Request{}, rules.Result{}); !answer.Allowed {
		t.Errorf("refused %+v", answer.Result)
	}
}
