package doctor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/conditions"
)

func describeQuota(name string) string { return "kubectl describe cardq " + name }

// findUnreadyQuotas finds CardQuotas that are not ready, unless the reason is that nothing is
// enforced: the policy says that once.
func findUnreadyQuotas(c *Cluster) []Finding {
	var findings []Finding
	cause := c.policyCondition(v1alpha1.ConditionEnforced)
	for _, quota := range c.Quotas {
		ready := conditions.Get(quota.Status.Conditions, v1alpha1.ConditionReady)
		isStatedByPolicy := !c.isEnforced() && ready.Reason == cause.Reason
		if ready.Status == "" || ready.Status == metav1.ConditionTrue || isStatedByPolicy {
			continue
		}

		severity := Error
		if ready.Reason == v1alpha1.ReasonHeld || ready.Reason == v1alpha1.ReasonRestoring || quota.DeletionTimestamp != nil { // its owner wants that
			severity = Info
		}

		findings = append(findings, Finding{Severity: severity, Object: "cardquota/" + quota.Name, Command: describeQuota(quota.Name),
			Problem: fmt.Sprintf("It is not ready (%s): %s", ready.Reason, ready.Message)})
	}

	return sortedByObject(findings)
}

// findUnobservedQuotas finds CardQuotas whose last change the operator has not seen, all in one finding: usually it
// sees none.
func findUnobservedQuotas(c *Cluster) []Finding {
	var names []string
	for _, quota := range c.Quotas {
		if quota.Status.ObservedGeneration < quota.Generation || len(quota.Status.Conditions) == 0 {
			names = append(names, quota.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []Finding{{Severity: Warning, Object: "cardquota/" + slices.Min(names), Command: "kubectl -n " + c.Namespace + " logs deployment/cardquota-manager --tail=50",
		Problem: fmt.Sprintf("The operator has not seen the last change of %s: %s. If this stays for a minute, it does not run.", conditions.CountThings(len(names), "CardQuota"), listFirst(names))}}
}

// findOverQuota finds queues that use more cards than their quota. In mode Observe that is no fault.
func findOverQuota(c *Cluster) []Finding {
	var findings []Finding
	for _, quota := range c.Quotas {
		var cards []string
		for _, entry := range quota.Status.Cards {
			if entry.OverQuotaBy > 0 {
				cards = append(cards, fmt.Sprintf("%d %s of a quota of %d", entry.Used, entry.Name, entry.Quota))
			}
		}

		if len(cards) == 0 {
			continue
		}
		finding := Finding{Severity: Warning, Object: "cardquota/" + quota.Name, Command: describeQuota(quota.Name),
			Problem: "Its pods hold " + listFirst(cards) + ". They continue to run, and no new pod starts. docs/troubleshooting.md has the four possible reasons."}

		if quota.Status.Mode == v1alpha1.ModeObserve {
			finding.Severity = Info
			finding.Problem = "Its pods hold " + listFirst(cards) + ". In mode Observe new pods start all the same. With Enforce those that run would continue, and no new pod would start."
		}
		findings = append(findings, finding)
	}

	return sortedByObject(findings)
}

// findOverAllocated finds cards of which CardQuotas grant more than Ready nodes have. That is no fault if all of
// these CardQuotas allow it.
func findOverAllocated(c *Cluster) []Finding {
	if c.Inventory == nil {
		return nil
	}

	totals := c.quotaTotals()
	var findings []Finding
	for _, entry := range c.Inventory.Cards {
		if len(c.plan.accepted) > 0 { // the operator has not counted the CardQuotas of the files
			entry.Quota = int64(totals.Granted()[card.Name(entry.Name)])
			entry.OverAllocatedBy = entry.Quota - entry.Healthy
		}

		if entry.OverAllocatedBy <= 0 || entry.Total == 0 { // UnknownCard reports a card that no node has
			continue
		}

		finding := Finding{Severity: Warning, Object: "card/" + entry.Name, Command: "kubectl get cardq -o wide",
			Problem: fmt.Sprintf("CardQuotas grant %d, and Ready nodes have %d: %d too many. Quotas are enforced as written, so pods may wait for cards that do not exist.",
				entry.Quota, entry.Healthy, entry.OverAllocatedBy)}

		if totals.AllowsOverAllocation(card.Name(entry.Name)) {
			finding.Severity = Info
			finding.Problem += " All of these CardQuotas say overAllocation: Allow."
		}
		findings = append(findings, finding)
	}

	return findings
}

// findUnknownCards finds quotas for cards that no node has, also planned ones.
func findUnknownCards(c *Cluster) []Finding {
	if c.Inventory == nil {
		return nil
	}

	var known []string
	exists := map[string]bool{}
	for _, entry := range c.Inventory.Cards {
		if entry.Total > 0 {
			known = append(known, entry.Name)
			exists[entry.Name] = true
		}
	}

	var findings []Finding
	for _, quota := range c.plan.quotas {
		unknown := findUnknownNames(quota, exists)
		if len(unknown) == 0 {
			continue
		}

		problem := "No node has " + listFirst(unknown) + ". Nodes have " + listFirst(known) + "."
		if len(known) == 0 {
			problem = "No node has " + listFirst(unknown) + ": no node offers cards at all."
		}

		// The operator also names the nearest card.
		if stated := conditions.Get(quota.Status.Conditions, v1alpha1.ConditionCardsKnown); stated.Status == metav1.ConditionFalse {
			problem = stated.Message
		}

		finding := Finding{Severity: Warning, Object: "cardquota/" + quota.Name, Problem: problem, Command: "kubectl edit cardq " + quota.Name}
		if c.hasUnnamedCards() {
			finding.Command = "kubectl cardquota inventory --nodes" // the name may be right
		}
		if c.plan.isPlanned(quota) {
			finding.Command = ""
			finding.Problem = strings.TrimSuffix(problem, ".") + ". Correct it in " + c.fileOf(quota.Name) + "."
		}
		findings = append(findings, finding)
	}

	return sortedByObject(findings)
}

// hasUnnamedCards reports whether nodes offer cards that no label names yet, or withhold some.
func (c *Cluster) hasUnnamedCards() bool {
	return slices.ContainsFunc(c.Inventory.Anomalies, cardinventory.LeavesUnnamed)
}

// findUnknownNames returns the cards of a quota that do not exist. A quota of 0 may name any card.
func findUnknownNames(quota *v1alpha1.CardQuota, exists map[string]bool) []string {
	var unknown []string
	for _, entry := range quota.Spec.Cards {
		if !exists[entry.Name] && (entry.Quota == nil || *entry.Quota > 0) {
			unknown = append(unknown, entry.Name)
		}
	}
	return unknown
}

// findUnknownFields finds CardQuotas and the policy if their condition FieldsKnown is False.
func findUnknownFields(c *Cluster) []Finding {
	var findings []Finding
	add := func(object, command string, stated []metav1.Condition) {
		if condition := conditions.Get(stated, v1alpha1.ConditionFieldsKnown); condition.Status == metav1.ConditionFalse {
			findings = append(findings, Finding{Severity: Warning, Object: object, Problem: condition.Message, Command: command})
		}
	}

	for _, quota := range c.Quotas {
		add("cardquota/"+quota.Name, "kubectl edit cardq "+quota.Name, quota.Status.Conditions)
	}
	if c.Policy != nil {
		add(policyObject, "kubectl edit stp "+c.Policy.Name, c.Policy.Status.Conditions)
	}

	return sortedByObject(findings)
}
