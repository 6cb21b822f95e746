package queueusage

import (
	"maps"
	"slices"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Sum returns the usage of every queue together with that of the queues below it. It does not change the
// given usage. Members stay those of the queue alone, since they decide when its Queue can be deleted.
// hasViews reports whether a queue has LocalCardQuotas. Only for those it sums what waits in each namespace,
// because only they show it.
func Sum(queues map[string]Usage, tree *quota.Tree, hasViews func(queue string) bool) map[string]Usage {
	if tree.IsFlat() {
		return queues
	}

	sums := maps.Clone(queues)
	// shown says which ancestors have views. An ancestor in it has copies of its maps already.
	shown := map[string]bool{}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		for _, above := range tree.Ancestors(queue) {
			sum := sums[above]
			if _, known := shown[above]; !known {
				shown[above] = hasViews(above)
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

// addSubtree adds the usage of a queue below, and if isShown also what waits in each namespace.
func (u *Usage) addSubtree(below Usage, isShown bool) {
	addCounts(u.Used, below.Used)
	addCounts(u.Pending, below.Pending)
	u.MilliCPU = quota.AddSaturating(u.MilliCPU, below.MilliCPU)
	u.Memory = quota.AddSaturating(u.Memory, below.Memory)
	u.AddSubtree(&below.Summary, isShown)
}

// addCounts adds the counts of each card to a sum.
func addCounts(sum, counts map[card.Name]card.Count) {
	for name, count := range counts {
		sum[name] = sum[name].Add(count)
	}
}
