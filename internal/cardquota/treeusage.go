package cardquota

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
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
		was, is := a.resolved[node], b.resolved[node]
		if was.Parent != is.Parent || was.Limits.MilliCPU != is.Limits.MilliCPU || was.Limits.Memory != is.Limits.Memory ||
			!maps.Equal(was.Limits.Cards, is.Limits.Cards) || a.stopPolicyOf(node) != b.stopPolicyOf(node) {
			return false
		}
	}
	return true
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
// when it can be deleted.
func (t *Tree) SumUsage(queues map[string]Usage) map[string]Usage {
	if t == nil || len(t.children) == 0 {
		return queues
	}
	sums := maps.Clone(queues)
	for _, node := range slices.Sorted(maps.Keys(t.queues)) {
		used, exists := queues[t.queues[node]]
		if !exists || !t.isPlaced(node) {
			continue
		}
		for _, above := range t.nodesAbove(node) {
			sums[t.queues[above]] = sums[t.queues[above]].withSubtree(used)
		}
	}
	return sums
}

// withSubtree returns the usage together with that of a queue below.
func (u Usage) withSubtree(below Usage) Usage {
	u.Used, u.Pending = sumCounts(u.Used, below.Used), sumCounts(u.Pending, below.Pending)
	u.MilliCPU, u.Memory = quota.AddSaturating(u.MilliCPU, below.MilliCPU), quota.AddSaturating(u.Memory, below.Memory)
	u.BlockedTotal = min(u.BlockedTotal+below.BlockedTotal, math.MaxInt32)
	u.Blocked = slices.Concat(u.Blocked, below.Blocked)
	slices.SortFunc(u.Blocked, compareBlocked)
	u.Blocked = u.Blocked[:min(len(u.Blocked), MaxBlocked)]
	return u
}

func sumCounts(a, b map[card.Name]card.Count) map[card.Name]card.Count {
	out := make(map[card.Name]card.Count, max(len(a), len(b)))
	for _, counts := range []map[card.Name]card.Count{a, b} {
		for name, count := range counts {
			out[name] = out[name].Add(count)
		}
	}
	return out
}

// setShares sets what a card's status says about a tree: the numbers in force. Without one, and
// without a path to the top level, it sets nothing.
func (t *Tree) setShares(entry *v1alpha1.CardStatus, name string) {
	if t == nil || t.quotas[name] == nil || !t.isPlaced(name) {
		return
	}
	limits := t.resolved[name].Limits
	entry.Deserved, entry.Guarantee = limits.Deserved[card.Name(entry.Name)], limits.Guarantee[card.Name(entry.Name)]
	entry.Borrowed = max(0, entry.Used-entry.Deserved)
}

// compareBlocked orders blocked workloads: those that wait longest come first.
func compareBlocked(a, b v1alpha1.BlockedStatus) int {
	return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace), cmp.Compare(a.Workload.Name, b.Workload.Name),
		cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.APIGroup, b.Workload.APIGroup),
		cmp.Compare(a.Card, b.Card), cmp.Compare(a.Reason, b.Reason))
}
