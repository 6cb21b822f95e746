package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
	rules "cardquota.dev/operator/internal/validation"
)

// TestCompleteJobKeepsOtherFields: the webhook adds maxRetry and policies to the JSON of a vcjob. All else stays,
// also fields that this version of the webhook does not know ("new") and the policies of the user. A vcjob without a
// spec is an error.
func TestCompleteJobKeepsOtherFields(t *testing.T) {
	policies := []vcbatch.LifecyclePolicy{{Event: "PodEvicted", Action: "RestartJob"}}
	for t, tc := range check.Cases(t, map[string]struct {
		job, want string
		defaults  rules.JobDefaults
	}{
		"maxRetry and a policy": {
			job:      `{"spec":{"new":{"a":[1]},"maxRetry":3}}`,
			want:     `{"spec":{"new":{"a":[1]},"maxRetry":100,"policies":[{"action":"RestartJob","event":"PodEvicted"}]}}`,
			defaults: rules.JobDefaults{MaxRetry: 100, Policies: policies},
		},
		"a policy beside another one": {
			job:      `{"spec":{"policies":[{"exitCode":3}]}}`,
			want:     `{"spec":{"policies":[{"exitCode":3},{"action":"RestartJob","event":"PodEvicted"}]}}`,
			defaults: rules.JobDefaults{Policies: policies},
		},
		"only maxRetry": {`{"spec":{"queue":"q"}}`, `{"spec":{"queue":"q","maxRetry":100}}`, rules.JobDefaults{MaxRetry: 100}},
	}) {
		checkSameJSON(t, check.Value(completeJob([]byte(tc.job), tc.defaults))(t), tc.want)
	}

	_, err := completeJob([]byte(`{}`), rules.JobDefaults{Policies: policies})
	check.That(t, err != nil, "completed a job without a spec")
}

// TestResponseHasEveryErrorAndWarning: the API server shows the message of a refusal and sends each warning as an
// HTTP header. So the message has all errors, they are also causes for programs, and a warning is one line.
func TestResponseHasEveryErrorAndWarning(t *testing.T) {
	path := field.NewPath("spec")
	answer := responseFor(admission.Request{}, rules.Result{Errors: field.ErrorList{field.Forbidden(path, "one"), field.Forbidden(path, "two")}, Warnings: []string{"a\nb"}})
	check.Contains(t, "refusal", answer.Result.Message, "spec: Forbidden: one", "spec: Forbidden: two")
	check.That(t, !answer.Allowed, "a result with errors is allowed")
	check.Equal(t, "causes", 2, len(answer.Result.Details.Causes))
	check.Equal(t, "warnings", 1, len(answer.Warnings))
	check.Text(t, "warning", answer.Warnings[0]).Lacks("\n")

	check.That(t, responseFor(admission.Request{}, rules.Result{}).Allowed, "a result without errors is refused")
}
