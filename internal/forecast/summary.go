package forecast

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// Summary returns what Enforce would change for the workloads of a CardQuota in one line, "" for nothing.
func Summary(f *v1alpha1.CardQuotaForecast) string {
	if f == nil {
		return ""
	}
	return joinSummary(
		summaryPart{f.Waiting, "would wait"}, summaryPart{f.Reclaimed, "would lose cards to other queues"},
		summaryPart{f.WithoutQueue, "without a queue"}, summaryPart{f.Bypassing, "of another scheduler"}, summaryPart{f.UnknownServiceType, "of an unknown service type"})
}

// PolicySummary returns what no CardQuota decides about in one line, "" for nothing.
func PolicySummary(f *v1alpha1.PolicyForecast) string {
	if f == nil {
		return ""
	}
	summary := joinSummary(summaryPart{f.Unlimited, "that no CardQuota counts"})
	if f.AmbiguousNamespacesTotal > 0 {
		summary += ", " + conditions.CountThings(int(f.AmbiguousNamespacesTotal), "namespace") + " that several CardQuotas select"
	}
	return summary
}

// summaryPart is what Enforce would do to some workloads.
type summaryPart struct {
	workloads *v1alpha1.ForecastWorkloads
	outcome   string
}

// joinSummary joins the parts that have workloads, such as "3 workloads would wait (24 cards)".
func joinSummary(parts ...summaryPart) string {
	var texts []string
	for _, part := range parts {
		if part.workloads != nil {
			texts = append(texts, fmt.Sprintf("%s %s (%s)", conditions.CountThings(int(part.workloads.Total), "workload"),
				part.outcome, conditions.CountThings(int(part.workloads.Cards), "card")))
		}
	}
	return strings.Join(texts, ", ")
}
