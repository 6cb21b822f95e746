package importing

import (
	"cmp"
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
	if _, isMade := p.imports[queue]; !isMade {
		p.imports[queue] = Import{} // what the queues of a cycle find when they ask for this one again, so that it ends
		p.imports[queue] = p.newImport(p.queues[queue])
	}
	return p.imports[queue]
}

// quotasBelow returns the CardQuotas of the queues below a queue in a tree: those that exist, and those
// that would be imported.
func (p *planner) quotasBelow(queue string) []*v1alpha1.CardQuota {
	if !p.IsTree {
		return nil
	}

	var below []*v1alpha1.CardQuota
	for _, child := range p.tree.Queue(queue).Children {
		if p.owners[child] == "" && !p.wanted[child] && p.leaveOut(child) != "" { // it has no CardQuota, and gets none
			continue
		}

		// A CardQuota that exists may name another parent than its Queue.
		if quota := p.importOf(child).Quota; quota != nil && quota.Spec.Parent == p.cardQuotaName(queue) {
			below = append(below, quota)
		}
	}

	return below
}

// commentOwnedParents says what is too little in CardQuotas that exist, once for each: in the first import below it,
// because only imports have comments.
func (p *planner) commentOwnedParents(imports []Import) {
	seen := map[string]bool{"": true}
	for i := range imports {
		parent := parentOf(p.queues[imports[i].Quota.QueueName()])
		if p.owners[parent] != "" && !seen[parent] {
			imports[i].Comments = append(imports[i].Comments, findShortages(p.imports[parent].Quota, p.quotasBelow(parent))...)
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
	tree := cardquota.NewWrittenTree(append(slices.Clone(below), above), nil, v1alpha1.UnmanagedEnforce)
	found := slices.DeleteFunc(tree.ExcessOfChildren(above.Name), func(e quota.Excess) bool { return inheritsQuota(above, e.Of) })
	slices.SortStableFunc(found, func(a, b quota.Excess) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Of, b.Of))
	})

	texts := make([]string, len(found))
	for i, e := range found {
		texts[i] = workload.DescribeLackBelow(e)
	}
	return texts
}

// inheritsQuota reports whether a CardQuota has an entry of a resource without a quota. Then the quota of its parent
// counts, which is not known here, so none is called too small.
func inheritsQuota(q *v1alpha1.CardQuota, of quota.Resource) bool {
	written := cardquota.TreeQueueFor(q)
	_, hasQuota := written.Quota[of]
	return !hasQuota && slices.Contains(written.Resources(), of)
}
