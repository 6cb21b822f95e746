package observer

import (
	"slices"
	"strings"

	"cardquota.dev/operator/test/observer/rule"
)

// expectPods adds how many pods are charged, with or without a queue.
func (m *clusterState) expectPods(add gauge) (names []string) {
	charged := 0
	for _, state := range m.pods {
		if state.charge != nil {
			charged++
		}
	}
	add("cardquota_pods_charged", float64(charged), map[string]string{})
	return []string{"cardquota_pods_charged"}
}

// expectQueueCompute adds the CPU and memory of each queue. In a tree the quota in force depends on
// other queues, and package sessioncheck checks it.
func (m *clusterState) expectQueueCompute(add gauge) (names []string) {
	for name, queue := range m.queues {
		labels := map[string]string{"queue": name}
		sums := map[string]int64{}
		below := m.subtreeOf(name)
		for _, state := range m.pods {
			if state.charge == nil || !slices.Contains(below, state.charge.Queue) {
				continue
			}
			for _, resource := range computeNames {
				sums[resource] += m.amountIn(state.charge, resource)
			}
		}

		add("cardquota_queue_cpu_allocated_cores", float64(sums[rule.CPU])/1000, labels)
		add("cardquota_queue_memory_allocated_bytes", float64(sums[rule.Memory]), labels)

		limits := rule.LimitsOf(queue, m.options.Unmanaged)
		prefix := ""
		if m.options.Tree || name == "root" || strings.HasPrefix(limits.Closed, "its quota cannot be read") {
			prefix = ignoredSeries
		}

		if limits.MilliCPU != rule.Unlimited {
			add(prefix+"cardquota_queue_cpu_quota_cores", float64(limits.MilliCPU)/1000, labels)
		}

		if limits.Memory != rule.Unlimited {
			add(prefix+"cardquota_queue_memory_quota_bytes", float64(limits.Memory), labels)
		}

		if prefix != "" { // also where it has none
			add(prefix+"cardquota_queue_cpu_quota_cores", 0, labels)
			add(prefix+"cardquota_queue_memory_quota_bytes", 0, labels)
		}
	}

	return []string{
		"cardquota_queue_cpu_allocated_cores", "cardquota_queue_memory_allocated_bytes", "cardquota_queue_cpu_quota_cores", "cardquota_queue_memory_quota_bytes",
	}
}

// expectQueueRequests adds the cards that placed and pending pods of each queue request. A pending pod
// counts for all its cards together, in a series of their names.
func (m *clusterState) expectQueueRequests(add gauge) (names []string) {
	offered := m.inventory.Totals()
	for name, queue := range m.queues {
		granted := rule.LimitsOf(queue, m.options.Unmanaged).Cards
		if m.options.Tree && name != "root" {
			if q := m.currentTree().Queue(name); q != nil && len(q.Path) > 0 {
				granted = q.Cards
			}
		}

		for card, count := range m.sumRequests(m.subtreeOf(name), offered, granted) {
			add("cardquota_queue_card_request", float64(count), map[string]string{"queue": name, "card": card})
		}
	}

	return []string{"cardquota_queue_card_request"}
}

// sumRequests sums the cards that placed and pending pods of some queues request, by series.
func (m *clusterState) sumRequests(queues []string, offered, granted rule.Quota) map[string]int64 {
	sums := map[string]int64{}
	for card, count := range m.usageOf(queues).Cards {
		sums[card] += count
	}

	for _, state := range m.pods {
		group := m.groupOf(state.pod)
		if group == nil || !slices.Contains(queues, rule.QueueOfGroup(group)) || !m.isWaitingIn(state, rule.QueueOfGroup(group)) {
			continue
		}
		if request := rule.RequestOf(state.pod, m.inventory); len(request.Cards) > 0 {
			sums[seriesOfCards(request.Cards, offered, granted)] += request.Count
		}
	}

	return sums
}

// seriesOfCards returns the label of a request: all its cards, or unknown if it names one that no node
// and no quota has.
func seriesOfCards(cards []string, offered, granted rule.Quota) string {
	for _, card := range cards {
		_, isOffered := offered[card]
		_, isGranted := granted[card]
		if !isOffered && !isGranted {
			return "unknown"
		}
	}
	return strings.Join(slices.Sorted(slices.Values(cards)), "|")
}
