package importing

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// importOf returns the CardQuota for a Queue. Those of the queues below it are made first.
func (p *planner) importOf(queue string) Import {
	if _, isMade := p.quotas[queue]; !isMade {
		p.quotas[queue] = nil // until it is made, so that a cycle ends
		imported := p.newImport(p.queues[queue])
		p.quotas[queue] = imported.Quota
		p.comments[queue] = imported.Comments
	}
	return Import{p.quotas[queue], p.comments[queue]}
}

// quotasBelow returns the CardQuotas of the queues below a queue in a tree: those that exist, and those
// that would be imported.
func (p *planner) quotasBelow(queue string) []*v1alpha1.CardQuota {
	if !p.IsTree {
		return nil
	}

	var below []*v1alpha1.CardQuota
	for _, child := range p.children[queue] {
		if p.owners[child] == "" && !p.wanted[child] && p.leaveOut(child) != "" {
			continue
		}
		if quota := p.importOf(child).Quota; quota != nil && quota.Spec.Parent == p.cardQuotaName(queue) {
			below = append(below, quota)
		}
	}

	return below
}

// commentOwnedParents adds what is too little in CardQuotas that exist to the first import below each.
func (p *planner) commentOwnedParents(imports []Import) {
	seen := map[string]bool{"": true}
	for i := range imports {
		parent := parentOf(p.queues[imports[i].Quota.QueueName()])
		if p.owners[parent] != "" && !seen[parent] {
			imports[i].Comments = append(imports[i].Comments, findShortages(p.quotas[parent], p.quotasBelow(parent))...)
		}
		seen[parent] = true
	}
}

// sumBelow returns the sums of what some CardQuotas say about cards.
func sumBelow(below []*v1alpha1.CardQuota) (quotas, guarantee card.Quota) {
	quotas = card.Quota{}
	guarantee = card.Quota{}
	for _, child := range below {
		for _, entry := range child.Spec.Cards {
			name := card.Name(entry.Name)
			quotas[name] = quotas[name].Add(card.Count(ptr.Deref(entry.Quota, 0)))
			if entry.Guarantee != nil {
				guarantee[name] = guarantee[name].Add(card.Count(*entry.Guarantee))
			}
		}
	}

	return quotas, guarantee
}

// largestBelow returns the largest limit of some CardQuotas: of CPU in millicores, of memory in bytes.
func largestBelow(below []*v1alpha1.CardQuota, of quota.Resource) int64 {
	largest := int64(0)
	for _, child := range below {
		largest = max(largest, cardquota.TreeQueueFor(child).Quota[of])
	}
	return largest
}

// findShortages says what of a CardQuota is too little for those below it. The operator refuses these:
// each may have the quota of its parent at most, and all together what the parent deserves and what it
// is guaranteed.
func findShortages(above *v1alpha1.CardQuota, below []*v1alpha1.CardQuota) []string {
	here := sharesOf(above)
	quotas := quota.Amounts{}
	deserved := quota.Amounts{}
	guarantee := quota.Amounts{}
	for _, child := range below {
		written := sharesOf(child)
		for name, count := range written.Quota {
			quotas[name] = max(quotas[name], count)
		}

		for name, count := range written.Deserved {
			deserved[name] = quota.AddSaturating(deserved[name], count)
		}

		for name, count := range written.Guarantee {
			guarantee[name] = quota.AddSaturating(guarantee[name], count)
		}
	}

	var found []string
	for _, field := range []struct {
		name        string
		here, below quota.Amounts
	}{{"quota", here.Quota, quotas}, {"deserved", here.Deserved, deserved}, {"guarantee", here.Guarantee, guarantee}} {
		for _, name := range field.below.Sorted() {
			if count := field.below[name]; count > field.here[name] && !inherits(here, name) {
				found = append(found, fmt.Sprintf("%s of %s: CardQuota %s has %s, too little for the %s of the queues below it. Raise it or lower theirs, for the operator refuses them.",
					field.name, name.Label(), above.Name, workload.FormatTreeAmount(name, field.here[name]), workload.FormatTreeAmount(name, count)))
			}
		}
	}

	return found
}

// sharesOf returns what a CardQuota says. A card without deserved deserves its quota.
func sharesOf(q *v1alpha1.CardQuota) quota.TreeQueue {
	written := cardquota.TreeQueueFor(q)
	for name, limit := range written.Quota {
		if _, isWritten := written.Deserved[name]; !isWritten && name.IsCard() {
			written.Deserved[name] = limit
		}
	}
	return written
}

// inherits reports whether a CardQuota has an entry without a quota, so that its parent decides.
func inherits(written quota.TreeQueue, of quota.Resource) bool {
	_, hasQuota := written.Quota[of]
	return !hasQuota && slices.Contains(written.Resources(), of)
}
