package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/quota"
)

// findQueuesWithoutQuota finds queues whose pods use or request cards although the queue has no
// quota. What it means for them is the policy's unmanagedQueues.
func findQueuesWithoutQuota(c *Cluster) []Finding {
	exists := map[string]bool{} // pods with cards whose queue does not exist are an anomaly of the CardInventory
	for _, queue := range c.Queues {
		exists[queue.Name] = true
	}

	unmanaged := c.spec().UnmanagedQueues
	var findings []Finding
	for _, queue := range slices.Sorted(maps.Keys(c.Usage)) {
		usage := c.Usage[queue]
		used := describeCounts(usage.Used)
		pending := describeCounts(usage.Pending)
		if _, ok := c.plan.limits[queue]; ok || (used == "" && pending == "") || !exists[queue] {
			continue
		}

		finding := Finding{Severity: Warning, Object: "queue/" + queue, Command: "kubectl cardquota import " + queue + " > " + queue + ".yaml"}
		what := "Its pods hold " + used
		if used == "" {
			what = "Its pods request " + pending
		}

		if unmanaged == v1alpha1.UnmanagedIgnore {
			finding.Severity = Info
			finding.Problem = what + ", and it has no quota. The policy says unmanagedQueues: Ignore, so it may use any cards."
		} else {
			finding.Problem = fmt.Sprintf("%s, and it has no quota. With unmanagedQueues: %s no further pod with cards starts there.", what, unmanaged)
		}
		findings = append(findings, finding)
	}

	return findings
}

// findBypasses finds pods that use cards and that our scheduler would not have placed. It finds none where the
// policy's condition Enforced names them, the user may not list pods, or there is no Volcano whose scheduler they could
// have. Before the installation they break no rule, so they are an information.
func findBypasses(c *Cluster) []Finding {
	if !c.HasUsage || c.lacksVolcano() || c.policyCondition(v1alpha1.ConditionEnforced).Reason == v1alpha1.ReasonCardBypass {
		return nil
	}

	// The managedFields of a pod say who chose its node. The operator compares them with what they said when
	// it first saw the pod. This run sees every pod for the first time, so FirstProvenance is empty.
	byReason := map[string][]string{}
	for _, bypass := range enforcement.FindBypasses(c.Pods, c.Charges, c.Cards, c.spec().Scheduler.Names, enforcement.FirstProvenance{}) {
		byReason[bypass.Reason] = append(byReason[bypass.Reason], bypass.Pod)
	}

	severity := Warning
	if !c.isInstalled() {
		severity = Info
	}

	var findings []Finding
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		pods := byReason[reason]
		first := slices.Min(pods)
		namespace, name, _ := strings.Cut(first, "/")
		findings = append(findings, Finding{Severity: severity, Object: "pod/" + first, Command: "kubectl -n " + namespace + " describe pod " + name,
			Problem: fmt.Sprintf("%s: %s (%s). They hold cards without the scheduler. With schedulerBypassPolicy: Deny such pods are refused when they are created.",
				conditions.CountThings(len(pods), "pod"), listFirst(pods), reason)})
	}

	return findings
}

// findExceededQuotas finds queues that use more than the quota that a file of --filename gives them. For CardQuotas of
// the cluster the rule OverQuota reads that from their status.
func findExceededQuotas(c *Cluster) []Finding {
	var findings []Finding
	usedBelow := c.countUsedBelow()
	for name, planned := range c.plan.accepted {
		queue := planned.QueueName()
		// Another CardQuota owns the queue, so this one limits nothing.
		if c.plan.owners[queue] != planned {
			continue
		}

		var cards []string
		for cardName, used := range usedBelow[name] {
			if limit := c.plan.limits[queue][cardName]; used > limit {
				cards = append(cards, fmt.Sprintf("%d %s of a quota of %d", used, cardName, limit))
			}
		}

		if len(c.plan.tree.Children(name)) > 0 {
			queue += " and those below it"
		}

		if len(cards) > 0 {
			findings = append(findings, Finding{Severity: Warning, Object: "cardquota/" + name,
				Problem: fmt.Sprintf("The pods of queue %s hold %s. They continue to run. Until so many have ended, no new pod starts. To avoid that, raise the quota in %s.",
					queue, listFirst(cards), c.fileOf(name))})
		}
	}

	return sortedByObject(findings)
}

// countUsedBelow counts the cards that the pods of each CardQuota and of those below it use, by the name
// of the CardQuota.
func (c *Cluster) countUsedBelow() map[string]map[card.Name]card.Count {
	all := map[string]map[card.Name]card.Count{}
	for queue, owner := range c.plan.owners {
		for _, counting := range append([]*v1alpha1.CardQuota{owner}, c.plan.tree.Ancestors(owner.Name)...) {
			sums := all[counting.Name]
			if sums == nil {
				sums = map[card.Name]card.Count{}
				all[counting.Name] = sums
			}
			for name, used := range c.Usage[queue].Used {
				sums[name] = sums[name].Add(used)
			}
		}
	}

	return all
}

// findMissingLimits finds CardQuotas with 0 CPU or memory whose pods need some. Not so without a service type, where no
// pods start.
func findMissingLimits(c *Cluster) []Finding {
	uses := c.computeUses()
	var findings []Finding
	for _, queue := range slices.Sorted(maps.Keys(c.plan.owners)) {
		owner := c.plan.owners[queue]
		use := uses[queue]
		if owner.Spec.ServiceType == "" || owner.Spec.Resources == nil {
			continue
		}

		isZero := func(limit *resource.Quantity) bool { return limit != nil && limit.IsZero() }
		var missing []string
		if use.milliCPU > 0 && isZero(owner.Spec.Resources.CPU) {
			missing = append(missing, fmt.Sprintf("spec.resources.cpu, and its pods request %d millicores", use.milliCPU))
		}

		if use.memory > 0 && isZero(owner.Spec.Resources.Memory) {
			missing = append(missing, fmt.Sprintf("spec.resources.memory, and its pods request %d MiB", use.memory>>20))
		}

		if len(missing) > 0 {
			findings = append(findings, Finding{Severity: Warning, Object: "cardquota/" + owner.Name, Command: "kubectl explain cardquota.spec.resources",
				Problem: "It sets to 0: " + strings.Join(missing, ", and ") + ". So no further such pod starts. What is left out is not limited."})
		}
	}

	return findings
}

// computeUse is the CPU and memory that count against the limits of a queue.
type computeUse struct{ milliCPU, memory int64 }

// computeUses sums up by queue the CPU and memory that count against its limits: of pods with cards only if the policy
// says computeQuota: Enforce.
func (c *Cluster) computeUses() map[string]computeUse {
	countsCardPods := c.spec().ComputeQuota == v1alpha1.ComputeQuotaEnforce
	uses := map[string]computeUse{}
	for _, charge := range c.Charges {
		if countsCardPods || len(charge.Cards) == 0 {
			use := uses[charge.Queue]
			uses[charge.Queue] = computeUse{quota.AddSaturating(use.milliCPU, charge.MilliCPU), quota.AddSaturating(use.memory, charge.Memory)}
		}
	}
	return uses
}

// describeCounts returns cards with their number, sorted by name: the first maxListed, and how many names are left out.
func describeCounts(counts map[card.Name]card.Count) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", counts[name], name))
		}
	}
	if len(texts) > maxListed {
		texts = append(texts[:maxListed], fmt.Sprintf("%d more cards", len(texts)-maxListed))
	}
	return strings.Join(texts, ", ")
}
