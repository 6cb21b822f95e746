package cardquota

import (
	"maps"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// isSameQueue reports whether a queue has the same owner, numbers, fault and children in two trees, and
// whether every ancestor has the same parent, limits and stop policy. They bind it as well.
func isSameQueue(a, b *Tree, queue string) bool {
	if a.owners[queue] == nil || b.owners[queue] == nil || a.nameOf(queue) != b.nameOf(queue) || !b.queues.Queue(queue).Equal(a.queues.Queue(queue)) {
		return false
	}

	for _, above := range b.queues.WrittenAncestors(queue) {
		was := a.queues.Queue(above)
		is := b.queues.Queue(above)
		if was.Parent != is.Parent || !sameQuota(&was.Limits, &is.Limits) || a.stopPolicyOf(above) != b.stopPolicyOf(above) {
			return false
		}
	}

	return true
}

// sameQuota reports whether two queues have the same quota of cards, CPU and memory.
func sameQuota(a, b *quota.Limits) bool {
	return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && maps.Equal(a.Cards, b.Cards)
}

// stopPolicyOf returns the stop policy of the CardQuota of a queue, None for a Queue without one.
func (t *Tree) stopPolicyOf(queue string) v1alpha1.StopPolicy {
	if q := t.owners[queue]; q != nil && q.Spec.StopPolicy != "" {
		return q.Spec.StopPolicy
	}
	return v1alpha1.StopPolicyNone
}

// SumUsage returns the usage of every queue together with that of the queues below it. It
// does not change the given usage. Members are those of the queue alone, since they decide
// when it can be deleted. What waits in each namespace is summed only for queues that tenants
// see there by the selector of their own CardQuota.
func (t *Tree) SumUsage(queues map[string]Usage) map[string]Usage {
	if t.IsFlat() {
		return queues
	}

	sums := maps.Clone(queues)
	shown := map[string]bool{} // shown has the queues whose sums own their maps
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		for _, above := range t.queues.Ancestors(queue) {
			sum := sums[above]
			if _, known := shown[above]; !known {
				shown[above] = t.owners[above] != nil && workload.ExplicitSelector(t.owners[above].Spec.NamespaceSelector) != nil
				sum.copyMaps()
			}

			sum.addSubtree(queues[queue], shown[above])
			sums[above] = sum
		}
	}

	return sums
}

// copyMaps replaces the maps by copies, which addSubtree can change.
func (u *Usage) copyMaps() {
	u.Used = copyMap(u.Used)
	u.Pending = copyMap(u.Pending)
	u.Local = copyMap(u.Local)
}

// copyMap returns a copy that is not nil.
func copyMap[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}

// addSubtree adds the usage of a queue below, with what waits in each namespace if that is shown.
func (u *Usage) addSubtree(below Usage, isShown bool) {
	addCounts(u.Used, below.Used)
	addCounts(u.Pending, below.Pending)
	u.MilliCPU = quota.AddSaturating(u.MilliCPU, below.MilliCPU)
	u.Memory = quota.AddSaturating(u.Memory, below.Memory)
	u.Summary.AddSubtree(&below.Summary, isShown)
}

func addCounts(sum, counts map[card.Name]card.Count) {
	for name, count := range counts {
		sum[name] = sum[name].Add(count)
	}
}

// setAmountsInForce sets what a card's status says about a tree: the numbers in force. Without one, and
// without a path to the top level, it sets nothing.
func (t *Tree) setAmountsInForce(entry *v1alpha1.CardStatus, name string) {
	if t.queueOf(name) == "" || !t.isPlaced(name) {
		return
	}
	limits := t.Resolved(name).Limits
	entry.Deserved = limits.Deserved[quota.Resource(entry.Name)]
	entry.Guarantee = limits.Guarantee[quota.Resource(entry.Name)]
	entry.Borrowed = max(0, entry.Used-entry.Deserved)
}
