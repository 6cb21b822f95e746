package explanation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newForecastOf is a list of a forecast with one Volcano job.
func newForecastOf(job, message string) *v1alpha1.ForecastWorkloads {
	return &v1alpha1.ForecastWorkloads{Total: 1, Cards: 2, Workloads: []v1alpha1.ForecastWorkload{
		{Workload: ofJob(job), Card: "NVIDIA-H200|NVIDIA-H800", Count: 2, Since: metav1.NewTime(at), Message: message},
	}}
}

// TestTheForecastOfAWorkloadIsExplained: the policy observes, and Volcano job train runs. What mode Enforce would do with it
// is in the status of CardQuota llm, in a tree also in that of the one above, or in that of the policy. Each outcome is said
// once, and nothing is said of the job that no list names.
func TestTheForecastOfAWorkloadIsExplained(t *testing.T) {
	waits := newForecastOf("train", "Queue <llm> has insufficient quota")
	bypasses := newForecastOf("train", "it needs schedulerName: volcano")
	const wouldWait = "With mode Enforce Job lab/train with 2 NVIDIA-H200 or NVIDIA-H800 would wait: Queue <llm> has insufficient quota."
	const wouldBypass = "With mode Enforce Job lab/train with 2 NVIDIA-H200 or NVIDIA-H800 would bypass the scheduler: it needs schedulerName: volcano."
	const isUnlimited = "With mode Enforce Job lab/train with 2 NVIDIA-H200 or NVIDIA-H800 would be limited by no CardQuota: queue q has no CardQuota."

	for t, tc := range check.Cases(t, map[string]struct {
		forecasts []*v1alpha1.CardQuotaForecast
		unlimited *v1alpha1.ForecastWorkloads
		want      []string
	}{
		"no CardQuota has a forecast":            {nil, nil, nil},
		"another job is named":                   {[]*v1alpha1.CardQuotaForecast{{Waiting: newForecastOf("other", "")}}, nil, nil},
		"it would wait":                          {[]*v1alpha1.CardQuotaForecast{{Waiting: waits}}, nil, []string{wouldWait}},
		"it would wait, and bypass":              {[]*v1alpha1.CardQuotaForecast{{Waiting: waits, Bypassing: bypasses}}, nil, []string{wouldWait, wouldBypass}},
		"it would wait, as the parent says, too": {[]*v1alpha1.CardQuotaForecast{{Waiting: waits}, {Waiting: waits}}, nil, []string{wouldWait}},
		"no CardQuota counts it":                 {nil, newForecastOf("train", "queue q has no CardQuota"), []string{isUnlimited}},
	}) {
		policy := builder.ServiceTypePolicy().Obj()
		policy.Status.Forecast = &v1alpha1.PolicyForecast{Unlimited: tc.unlimited}
		document := Explain(Input{Workload: ofJob("train"), Placed: 2, Policy: policy, Forecasts: tc.forecasts})
		check.Equal(t, "forecast", tc.want, document.Forecast)
		check.Equal(t, "waits", false, document.Waits)
	}
}

// TestEachOutcomeIsExplained: what mode Enforce would do with a workload is said for every outcome of the forecast.
func TestEachOutcomeIsExplained(t *testing.T) {
	one := newForecastOf("train", "why")
	whole := &v1alpha1.CardQuotaForecast{Waiting: one, Reclaimed: one, WithoutQueue: one, Bypassing: one, UnknownServiceType: one}
	said := map[string]bool{}
	for _, sentence := range Explain(Input{Workload: ofJob("train"), Placed: 1, Forecasts: []*v1alpha1.CardQuotaForecast{whole}}).Forecast {
		check.That(t, len(sentence) > len("With mode Enforce Job lab/train with 2 NVIDIA-H200 or NVIDIA-H800 : why."), "no text: %s", sentence)
		said[sentence] = true
	}
	check.Equal(t, "different sentences", 5, len(said))
}
