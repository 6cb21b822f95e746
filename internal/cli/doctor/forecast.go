package doctor

import (
	"fmt"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/forecast"
)

// findForecast finds what mode Enforce would change while the policy observes. It is what the operator found, so there is
// none in mode Enforce.
func findForecast(c *Cluster) []Finding {
	var findings []Finding
	for _, quota := range c.Quotas {
		if outcomes := forecast.Outcomes(quota.Status.Forecast); len(outcomes) > 0 && !c.isForetoldBelow(quota) {
			findings = append(findings, Finding{Severity: Info, Object: "cardquota/" + quota.Name, Command: describeQuota(quota.Name),
				Problem: describeOutcomes(outcomes)})
		}
	}

	findings = sortedByObject(findings)
	if c.Policy != nil && c.Policy.Status.Forecast != nil {
		findings = append(findings, c.findUncounted(c.Policy.Status.Forecast)...)
	}
	return findings
}

// isForetoldBelow reports whether the CardQuotas below one have everything that its own forecast has, as usual in a tree.
// Then they say it, with their names.
func (c *Cluster) isForetoldBelow(above *v1alpha1.CardQuota) bool {
	below := map[string]int32{}
	for _, quota := range c.Quotas {
		if quota.Spec.Parent == above.Name {
			for _, outcome := range forecast.Outcomes(quota.Status.Forecast) {
				below[outcome.Name] += outcome.Workloads.Total
			}
		}
	}

	for _, outcome := range forecast.Outcomes(above.Status.Forecast) {
		if below[outcome.Name] < outcome.Workloads.Total {
			return false
		}
	}
	return above.Status.Children > 0
}

// describeOutcomes returns what Enforce would do to which workloads, with what the operator says of the youngest one of
// each outcome.
func describeOutcomes(outcomes []forecast.Outcome) string {
	texts := make([]string, len(outcomes))
	for i, outcome := range outcomes {
		texts[i] = outcome.String() + ": " + describeForetold(outcome.Workloads)
	}
	return "Mode Enforce would change: " + strings.Join(texts, " ")
}

// describeForetold names workloads, and says why and what would help for the youngest one. Others may differ in numbers.
func describeForetold(list *v1alpha1.ForecastWorkloads) string {
	text := output.DescribeForecast(list, maxListed) + "."
	if len(list.Workloads) == 0 {
		return text
	}
	return text + " The youngest one: " + strings.TrimSuffix(list.Workloads[0].Message, ".") + "."
}

// findUncounted finds the workloads that no CardQuota counts, and the namespaces that several CardQuotas select.
func (c *Cluster) findUncounted(found *v1alpha1.PolicyForecast) []Finding {
	var findings []Finding
	if found.Unlimited != nil {
		findings = append(findings, Finding{Severity: Info, Object: policyObject, Command: policyCommand, Problem: fmt.Sprintf("No CardQuota counts %s with %s, so no quota limits them: %s",
			conditions.CountThings(int(found.Unlimited.Total), "workload"), conditions.CountThings(int(found.Unlimited.Cards), "card"), describeForetold(found.Unlimited))})
	}

	for i, namespace := range found.AmbiguousNamespaces {
		problem := fmt.Sprintf("Its pods with cards that name no queue count for no CardQuota, because several select it: %s. "+
			"Give them the annotation %s with the name of a queue, and schedulerName: %s, or change a namespaceSelector so that one CardQuota selects it.",
			listFirst(namespace.CardQuotas), v1beta1.QueueNameAnnotationKey, c.spec().Scheduler.Names[0])
		if more := int(found.AmbiguousNamespacesTotal) - len(found.AmbiguousNamespaces); more > 0 && i == len(found.AmbiguousNamespaces)-1 {
			problem += fmt.Sprintf(" Further namespaces like it: %d.", more)
		}
		findings = append(findings, Finding{Severity: Info, Object: "namespace/" + namespace.Name, Command: "kubectl get cardq " + strings.Join(namespace.CardQuotas, " ") + " -o yaml", Problem: problem})
	}
	return findings
}
