package cardquota

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/quota"
)

// sameNode reports whether a CardQuota has the same numbers, fault and children in two trees.
func sameNode(a, b *Tree, name string) bool {
	return slices.Equal(a.children[name], b.children[name]) && reflect.DeepEqual(a.resolved[name], b.resolved[name])
}

// sameLimitsAbove reports whether every ancestor of a CardQuota has the same parent, limits and
// stop policy in two trees. They bind its queue as well.
func sameLimitsAbove(a, b *Tree, name string) bool {
	for _, node := range b.nodesAbove(name) {
		was := a.resolved[node]
		is := b.resolved[node]
		if was.Parent != is.Parent || !sameQuota(&was.Limits, &is.Limits) || a.stopPolicyOf(node) != b.stopPolicyOf(node) {
			return false
		}
	}
	return true
}

// sameQuota reports whether two queues have the same quota of cards, CPU and memory.
func sameQuota(a, b *quota.Limits) bool {
	return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && maps.Equal(a.Cards, b.Cards)
}

// stopPolicyOf returns the stop policy of a CardQuota, None for a Queue without one.
func (t *Tree) stopPolicyOf(node string) v1alpha1.StopPolicy {
	if q := t.quotas[node]; q != nil && q.Spec.StopPolicy != "" {
		return q.Spec.StopPolicy
	}
	return v1alpha1.StopPolicyNone
}

// SumUsage returns the usage of every queue together with that of the queues below it. It
// does not change the given usage. Members are those of the queue alone, since they decide
// when it can be deleted. What waits in each namespace is summed only for queues that tenants
// see there by the selector of their own CardQuota.
func (t *Tree) SumUsage(queues map[string]Usage) map[string]Usage {
	if t == nil || len(t.children) == 0 {
		return queues
	}

	sums := maps.Clone(queues)
	shown := map[string]bool{} // shown has the queues whose sums own their maps
	for _, node := range slices.Sorted(maps.Keys(t.queues)) {
		used, exists := queues[t.queues[node]]
		if !exists || !t.isPlaced(node) {
			continue
		}

		for _, above := range t.nodesAbove(node) {
			queue := t.queues[above]
			sum := sums[queue]
			if _, known := shown[queue]; !known {
				shown[queue] = t.quotas[above] != nil && localquota.ExplicitSelector(t.quotas[above]) != nil
				sum.copyMaps()
			}

			sum.addSubtree(used, shown[queue])
			sums[queue] = sum
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
	u.BlockedTotal = min(u.BlockedTotal+below.BlockedTotal, math.MaxInt32)
	u.Blocked = mergeBlocked(u.Blocked, below.Blocked)
	if !isShown {
		return
	}

	for namespace, more := range below.Local {
		had := u.Local[namespace]
		u.Local[namespace] = localquota.Waiting{Blocked: mergeBlocked(had.Blocked, more.Blocked), Total: had.Total + more.Total}
	}
}

// mergeBlocked returns the entries of two lists that have waited longest. Both lists are sorted.
// It does not change them, and may return one of them.
func mergeBlocked(a, b []v1alpha1.BlockedStatus) []v1alpha1.BlockedStatus {
	if len(b) == 0 || (len(a) >= MaxBlocked && compareBlocked(a[len(a)-1], b[0]) <= 0) {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortFunc(all, compareBlocked)
	return all[:min(len(all), MaxBlocked)]
}

// QueuesBelow returns a queue and those below it.
func (t *Tree) QueuesBelow(queue string) []string {
	out := []string{queue}
	if t == nil {
		return out
	}

	node, isKnown := t.nodes[queue]
	if !isKnown || !t.isPlaced(node) {
		return out
	}

	for nodes := []string{node}; len(nodes) > 0; {
		node := nodes[0]
		nodes = nodes[1:]
		for _, child := range t.children[node] {
			if t.isPlaced(child) { // so it is in no cycle
				nodes = append(nodes, child)
				out = append(out, t.queues[child])
			}
		}
	}

	return out
}

// QueuesAbove returns the queues above a queue, the nearest first.
func (t *Tree) QueuesAbove(queue string) []string {
	if t == nil {
		return nil
	}
	var above []string
	for _, node := range t.nodesAbove(t.nodes[queue]) {
		above = append(above, t.queues[node])
	}
	return above
}

func addCounts(sum, counts map[card.Name]card.Count) {
	for name, count := range counts {
		sum[name] = sum[name].Add(count)
	}
}

// setAmountsInForce sets what a card's status says about a tree: the numbers in force. Without one, and
// without a path to the top level, it sets nothing.
func (t *Tree) setAmountsInForce(entry *v1alpha1.CardStatus, name string) {
	if t == nil || t.quotas[name] == nil || !t.isPlaced(name) {
		return
	}
	limits := t.resolved[name].Limits
	entry.Deserved = limits.Deserved[quota.Resource(entry.Name)]
	entry.Guarantee = limits.Guarantee[quota.Resource(entry.Name)]
	entry.Borrowed = max(0, entry.Used-entry.Deserved)
}

// compareBlocked orders blocked workloads: those that wait longest come first. Pods that wait for others
// of their gang come behind these.
func compareBlocked(a, b v1alpha1.BlockedStatus) int {
	waitsForGang := func(entry v1alpha1.BlockedStatus) int {
		if entry.Reason == v1alpha1.BlockedGangIncomplete {
			return 1
		}
		return 0
	}
	return cmp.Or(a.Since.Compare(b.Since.Time), blocked.CompareWorkloads(&a.Workload, &b.Workload), waitsForGang(a)-waitsForGang(b), cmp.Compare(a.Card, b.Card), cmp.Compare(a.Reason, b.Reason))
}
