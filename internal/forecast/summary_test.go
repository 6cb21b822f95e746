package forecast

import (
	"reflect"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheSummaryCountsEachOutcome: of the workloads of a CardQuota 1 would wait, 2 lose their cards, and so on, with 10 cards
// each. A list that is nil has none, and is left out.
func TestTheSummaryCountsEachOutcome(t *testing.T) {
	some := func(total int32) *v1alpha1.ForecastWorkloads {
		return &v1alpha1.ForecastWorkloads{Total: total, Cards: 10 * int64(total)}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		of   *v1alpha1.CardQuotaForecast
		want string
	}{
		"no forecast":       {nil, ""},
		"an empty forecast": {&v1alpha1.CardQuotaForecast{}, ""},
		"one outcome":       {&v1alpha1.CardQuotaForecast{WithoutQueue: some(1)}, "1 workload without a queue (10 cards)"},
		"all outcomes": {
			&v1alpha1.CardQuotaForecast{Waiting: some(1), Reclaimed: some(2), WithoutQueue: some(3), Bypassing: some(4), UnknownServiceType: some(5)},
			"1 workload would wait (10 cards), 2 workloads would lose cards to other queues (20 cards), 3 workloads without a queue (30 cards), " +
				"4 workloads would bypass the scheduler (40 cards), 5 workloads of an unknown service type (50 cards)",
		},
	}) {
		check.Equal(t, "summary", tc.want, Summary(tc.of))
	}
}

// TestEachListOfAForecastIsAnOutcome: a list that is added to the API must not be missing where outcomes are shown.
func TestEachListOfAForecastIsAnOutcome(t *testing.T) {
	whole := &v1alpha1.CardQuotaForecast{}
	lists := reflect.ValueOf(whole).Elem()
	for i := range lists.NumField() {
		lists.Field(i).Set(reflect.ValueOf(&v1alpha1.ForecastWorkloads{Total: 1}))
	}

	check.Equal(t, "outcomes", lists.NumField(), len(Outcomes(whole)))
}

// TestTheSummaryOfThePolicyCountsWhatNoCardQuotaDecidesAbout: 1 workload with 3 cards counts nowhere, and 2 namespaces are
// ambiguous.
func TestTheSummaryOfThePolicyCountsWhatNoCardQuotaDecidesAbout(t *testing.T) {
	unlimited := &v1alpha1.ForecastWorkloads{Total: 1, Cards: 3}
	check.Equal(t, "without a forecast", "", PolicySummary(nil))
	check.Equal(t, "without ambiguous namespaces", "1 workload that no CardQuota counts (3 cards)", PolicySummary(&v1alpha1.PolicyForecast{Unlimited: unlimited}))
	check.Equal(t, "with both", "1 workload that no CardQuota counts (3 cards), 2 namespaces that several CardQuotas select",
		PolicySummary(&v1alpha1.PolicyForecast{Unlimited: unlimited, AmbiguousNamespacesTotal: 2}))
}
