package observer

import (
	"maps"
	"slices"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// subtreeOf returns the queues whose pods the status of a queue counts: in a tree those of its
// subtree.
func (m *clusterState) subtreeOf(queue string) []string {
	if !m.options.Tree || !m.currentTree().IsParent(queue) {
		return []string{queue}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.queues)), func(name string) bool {
		return !slices.Contains(m.currentTree().PathOf(name), queue)
	})
}

// expectTreeValues adds what the status of a card states in a tree: the numbers in force.
func (m *clusterState) expectTreeValues(queue string, entry *v1alpha1.CardStatus) {
	if !m.options.Tree {
		return
	}
	if q := m.currentTree().Queue(queue); q != nil && len(q.Path) > 0 {
		entry.Quota = m.quotaInForce(q)[entry.Name]
		entry.Deserved = q.Deserved[entry.Name]
		entry.Guarantee = q.Guarantee[entry.Name]
		entry.Borrowed = max(0, entry.Used-entry.Deserved)
	}
}

// grantedIn returns the quota that a queue has by card: in a tree the numbers in force.
func (m *clusterState) grantedIn(queue string, flat map[string]int64) map[string]int64 {
	if !m.options.Tree {
		return flat
	}
	if q := m.currentTree().Queue(queue); q != nil {
		return m.quotaInForce(q)
	}
	return nil
}

// quotaInForce returns the quota of a queue by card, at most that of each queue on its path.
func (m *clusterState) quotaInForce(q *rule.TreeQueue) map[string]int64 {
	cards := maps.Clone(q.Cards)
	for _, name := range q.Path {
		if above := m.currentTree().Queue(name); !above.AnyCard {
			for card, count := range cards {
				cards[card] = min(count, above.Cards[card])
			}
		}
	}
	return cards
}

// touchedSince returns when the numbers of a queue or of its subtree, or the tree, may have
// changed last, if that is after a moment.
func (m *clusterState) touchedSince(queue string, moment time.Time) time.Time {
	last := moment
	for _, name := range m.subtreeOf(queue) {
		if touched := m.numbersChanged[name]; touched.After(last) {
			last = touched
		}
	}
	if periods := m.tree.trees.periods; len(periods) > 0 && periods[len(periods)-1].from.After(last) {
		last = periods[len(periods)-1].from
	}
	return last
}
