package forecast

import (
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// Outcome is what Enforce would do to some workloads of a CardQuota.
type Outcome struct {
	// Name is its name in metrics. Text is what it says of the workloads, such as "would wait".
	Name, Text string
	// Workloads are never nil.
	Workloads *v1alpha1.ForecastWorkloads
}

// Outcomes returns what Enforce would do to the workloads of a CardQuota, without what it would do to none. f may be nil.
func Outcomes(f *v1alpha1.CardQuotaForecast) []Outcome {
	if f == nil {
		return nil
	}
	all := []Outcome{
		{"waiting", "would wait", f.Waiting},
		{"reclaimed", "would lose cards to other queues", f.Reclaimed},
		{"withoutqueue", "without a queue", f.WithoutQueue},
		{"bypassing", "would bypass the scheduler", f.Bypassing},
		{"unknownservicetype", "of an unknown service type", f.UnknownServiceType},
	}
	return slices.DeleteFunc(all, func(o Outcome) bool { return o.Workloads == nil })
}

// String returns the outcome in words, such as "3 workloads would wait (24 cards)".
func (o Outcome) String() string {
	return fmt.Sprintf("%s %s (%s)", conditions.CountThings(int(o.Workloads.Total), "workload"), o.Text, conditions.CountThings(int(o.Workloads.Cards), "card"))
}

// Summary returns what Enforce would change for the workloads of a CardQuota in one line, "" for nothing.
func Summary(f *v1alpha1.CardQuotaForecast) string {
	var texts []string
	for _, outcome := range Outcomes(f) {
		texts = append(texts, outcome.String())
	}
	return strings.Join(texts, ", ")
}

// PolicySummary returns what no CardQuota decides about in one line, "" for nothing.
func PolicySummary(f *v1alpha1.PolicyForecast) string {
	if f == nil {
		return ""
	}

	var texts []string
	if f.CardQuotas > 0 {
		texts = append(texts, "workloads of "+conditions.CountThings(int(f.CardQuotas), "CardQuota"))
	}
	if f.Unlimited != nil {
		texts = append(texts, Outcome{Text: "that no CardQuota counts", Workloads: f.Unlimited}.String())
	}
	if f.AmbiguousNamespacesTotal > 0 {
		texts = append(texts, conditions.CountThings(int(f.AmbiguousNamespacesTotal), "namespace")+" that several CardQuotas select")
	}
	return strings.Join(texts, ", ")
}
