package explanation

import (
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/forecast"
)

// foretold is what mode Enforce would do, by the outcome of the forecast.
var foretold = map[string]string{
	"waiting":            "would wait",
	"reclaimed":          "would lose its cards",
	"withoutqueue":       "would not be limited by the quota",
	"bypassing":          "would bypass the scheduler",
	"unknownservicetype": "would be of no known service type",
}

// foretell says what mode Enforce would do with the workload. It finds no more than the status of CardQuotas and of the
// policy lists, ten workloads for each outcome.
func (in *Input) foretell() []string {
	var sentences []string
	found := map[string]bool{}
	add := func(outcome, text string, list *v1alpha1.ForecastWorkloads) {
		at := slices.IndexFunc(list.Workloads, func(w v1alpha1.ForecastWorkload) bool { return w.Workload == in.Workload })
		if at < 0 || found[outcome] { // in a tree those above list it, too
			return
		}

		found[outcome] = true
		entry := list.Workloads[at]
		what := output.DescribeWorkload(in.Workload)
		if entry.Count > 0 {
			what += fmt.Sprintf(" with %d %s", entry.Count, strings.ReplaceAll(entry.Card, "|", " or "))
		}
		sentences = append(sentences, fmt.Sprintf("With mode Enforce %s %s: %s.", what, text, strings.TrimSuffix(entry.Message, ".")))
	}

	for _, of := range in.Forecasts {
		for _, outcome := range forecast.Outcomes(of) {
			add(outcome.Name, foretold[outcome.Name], outcome.Workloads)
		}
	}
	if in.Policy != nil && in.Policy.Status.Forecast != nil && in.Policy.Status.Forecast.Unlimited != nil {
		add("unlimited", "would be limited by no CardQuota", in.Policy.Status.Forecast.Unlimited)
	}
	return sentences
}
