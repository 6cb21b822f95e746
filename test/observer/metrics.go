package observer

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// gauge adds a series that must be served, also with the value 0. A series that is not added may be
// absent or 0.
type gauge func(name string, value float64, labels map[string]string)

// expectOperatorMetrics adds what the operator must serve, by a recount. It returns the names of
// these metrics.
func (m *clusterState) expectOperatorMetrics(add gauge) []string {
	for _, state := range m.quotas {
		quota := state.quota
		if m.ownerOf(quota.QueueName()) == quota && quota.DeletionTimestamp == nil {
			m.expectQuotaMetrics(quota, add)
		}
	}

	m.expectUnownedQuotas(add)
	m.expectInventoryMetrics(add)

	return []string{
		"cardquota_quota_cards", "cardquota_used_cards", "cardquota_pending_cards", "cardquota_over_quota_cards", "cardquota_deserved_cards",
		"cardquota_queue_info", oldestPendingMetric, oldestWithinQuotaMetric, "cardquota_unowned_quota_cards", "cardquota_physical_cards",
		"cardquota_healthy_cards", "cardquota_cordoned_cards", "cardquota_granted_cards", "cardquota_over_allocated_cards", "cardquota_allocated_cards",
		"cardquota_over_allocation_allowed", anomaliesMetric, blockedMetric,
	}
}

// expectUnownedQuotas adds the quotas of Queues without a CardQuota.
func (m *clusterState) expectUnownedQuotas(add gauge) {
	for name, queue := range m.queues {
		quota, err := rule.ParseQuota(queue.Annotations[v1alpha1.AnnotationCardQuota])
		isTop := queue.Spec.Parent == "" || queue.Spec.Parent == "root"
		if err != nil || m.ownerOf(name) != nil || (m.options.Tree && !isTop) {
			continue
		}
		for card, count := range quota {
			add("cardquota_unowned_quota_cards", float64(count), map[string]string{"queue": name, "card": card})
		}
	}
}

// expectInventoryMetrics adds the series of each card.
func (m *clusterState) expectInventoryMetrics(add gauge) {
	if m.stated != nil && !m.ignoresInventory { // checkInventory compares the status with a recount
		m.expectAnomalies(m.stated.Status, add)
	} else {
		m.expectAnomalies(v1alpha1.CardInventoryStatus{AnomaliesTotal: 1}, add)
	}

	for name, c := range m.recountInventory().cards {
		if c.total == 0 && c.quota == 0 && (c.allocated == 0 || c.isUncertain) {
			continue // it is only requested, or perhaps held
		}
		expectCardMetrics(name, c, add)
	}
}

// expectCardMetrics adds the series of a card of the CardInventory.
func expectCardMetrics(name string, c *recountedCard, add gauge) {
	allowed := 0.0
	if c.allowing > 0 && c.refusing == 0 {
		allowed = 1
	}
	add("cardquota_over_allocation_allowed", allowed, map[string]string{"card": name})

	for metric, value := range map[string]int64{
		"cardquota_physical_cards": c.total, "cardquota_healthy_cards": c.healthy, "cardquota_cordoned_cards": c.cordoned,
		"cardquota_granted_cards": c.quota, "cardquota_over_allocated_cards": max(0, c.quota-c.healthy), "cardquota_allocated_cards": c.allocated,
	} {
		if c.isUncertain && metric == "cardquota_allocated_cards" {
			metric = ignoredSeries + metric
		}
		add(metric, float64(value), map[string]string{"card": name})
	}
}

// ignoredSeries precedes the name of a series that may have any value.
const ignoredSeries = "any "

const (
	oldestPendingMetric     = "cardquota_oldest_pending_timestamp_seconds"
	oldestWithinQuotaMetric = "cardquota_oldest_pending_within_quota_timestamp_seconds"
	anomaliesMetric         = "cardquota_anomalies"
	blockedMetric           = "cardquota_blocked_cards"
)

// expectAnomalies adds the number of anomalies by reason. A status that does not list all of them may
// have any.
func (m *clusterState) expectAnomalies(status v1alpha1.CardInventoryStatus, add gauge) {
	name := anomaliesMetric
	counts := map[v1alpha1.AnomalyReason]int{}
	if int(status.AnomaliesTotal) > len(status.Anomalies) {
		name = ignoredSeries + name
	}

	for _, anomaly := range status.Anomalies {
		counts[anomaly.Reason]++
	}

	for _, reason := range []v1alpha1.AnomalyReason{
		v1alpha1.AnomalyNoModelLabel, v1alpha1.AnomalySeveralModels, v1alpha1.AnomalyAmbiguousResource, v1alpha1.AnomalyInvalidLabel,
		v1alpha1.AnomalyMoreThanLabelled, v1alpha1.AnomalyUnmappedResource, v1alpha1.AnomalyCardsOutsideQueues, v1alpha1.AnomalyResourceClaimCards,
		v1alpha1.AnomalyCardsUnhealthy, v1alpha1.AnomalyModelChanged,
		v1alpha1.AnomalyBillsNotStored, v1alpha1.AnomalyBillDaysDropped,
	} {
		add(name, float64(counts[reason]), map[string]string{"reason": string(reason)})
	}
}

// expectQuotaMetrics adds the series of a CardQuota's queue. The cards of a parent are those of the
// queues below it.
func (m *clusterState) expectQuotaMetrics(quota *v1alpha1.CardQuota, add gauge) {
	queue := quota.QueueName()
	status := m.expectedStatus(quota)

	serviceType := quota.Spec.ServiceType
	if serviceType == "" {
		serviceType = "none"
	}

	add("cardquota_queue_info", 1, map[string]string{
		"queue": queue, "tenant": quota.Spec.Tenant, "project": quota.Spec.Project, "service_type": serviceType, "cardquota": quota.Name, "parent": quota.Spec.Parent,
	})
	if m.options.Tree && (quota.Spec.ServiceType == "" || m.isAnyParent(queue)) {
		return
	}

	m.expectQueueCards(queue, status, add)
	expectBlockedCards(quota, add)
	if oldest := m.oldestWaiting(queue); !oldest.IsZero() {
		add(oldestPendingMetric, float64(oldest.Unix()), map[string]string{"queue": queue})
	}

	name := oldestWithinQuotaMetric
	if !listsAllBlocked(quota.Status.Blocked) {
		name = ignoredSeries + name
	}

	if oldest := m.oldestWithinQuota(quota); !oldest.IsZero() {
		add(name, float64(oldest.Unix()), map[string]string{"queue": queue})
	}
}

// expectQueueCards adds the series of each card of a queue.
func (m *clusterState) expectQueueCards(queue string, status expectation, add gauge) {
	pending := map[string]int64{}
	for name, c := range status {
		labels := map[string]string{"queue": queue, "card": name}
		if c.Quota == 0 && c.Used == 0 && c.Physical == 0 {
			if c.Pending > 0 {
				pending["unknown"] += c.Pending
			}
			continue
		}

		if c.Quota == 0 && c.Deserved == 0 && c.Used == 0 && c.Pending == 0 {
			continue
		}

		pending[name] += c.Pending
		m.expectQuotaAndUse(c, labels, add)
	}

	for name, count := range pending {
		add("cardquota_pending_cards", float64(count), map[string]string{"queue": queue, "card": name})
	}
}

// expectQuotaAndUse adds the series of one card of a queue, except the pending ones.
func (m *clusterState) expectQuotaAndUse(c v1alpha1.CardStatus, labels map[string]string, add gauge) {
	add("cardquota_quota_cards", float64(c.Quota), labels)
	add("cardquota_used_cards", float64(c.Used), labels)
	if c.OverQuotaBy > 0 {
		add("cardquota_over_quota_cards", float64(c.OverQuotaBy), labels)
	}
	if m.options.Tree {
		add("cardquota_deserved_cards", float64(c.Deserved), labels)
	}
}

// expectBlockedCards adds the cards that wait in a queue by reason, as status.blocked has them. If the
// status has no room for all of it, there may be more.
func expectBlockedCards(quota *v1alpha1.CardQuota, add gauge) {
	cards := map[v1alpha1.BlockedReason]int64{}
	for _, entry := range quota.Status.Blocked {
		cards[entry.Reason] += entry.Count
	}

	isComplete := int(quota.Status.BlockedTotal) <= len(quota.Status.Blocked)
	for _, reason := range blockedReasons {
		labels := map[string]string{"queue": quota.QueueName(), "reason": string(reason)}
		switch {
		case !isComplete:
			add(ignoredSeries+blockedMetric, 0, labels)
		case cards[reason] > 0:
			add(blockedMetric, float64(cards[reason]), labels)
		}
	}
}

// oldestWaiting returns when the oldest of what waits in a queue was created.
func (m *clusterState) oldestWaiting(queue string) (oldest time.Time) {
	created := func(at metav1.Time) {
		if oldest.IsZero() || at.Time.Before(oldest) {
			oldest = at.Time
		}
	}

	for _, state := range m.pods {
		if m.isWaitingIn(state, queue) {
			created(state.pod.CreationTimestamp)
		}
	}

	peopled := m.groupsWithPods()
	for key, state := range m.groups {
		if !peopled[key] && isGroupWaiting(state.group) && rule.QueueOfGroup(state.group) == queue && m.isShownIn(queue, key.Namespace) {
			created(state.group.CreationTimestamp)
		}
	}

	return oldest
}

func (m *clusterState) isWaitingIn(state *podState, queue string) bool {
	isHere := state.pod.Spec.SchedulerName == m.options.SchedulerName && rule.IsWaiting(state.pod) && rule.QueueOf(state.pod, m.groupOf(state.pod), "") == queue
	return isHere && m.isShownIn(queue, state.pod.Namespace)
}

// oldestWithinQuota returns when the oldest was created that waits with cards although its queue has
// quota, by the reasons in status.blocked.
func (m *clusterState) oldestWithinQuota(quota *v1alpha1.CardQuota) (oldest time.Time) {
	granted := m.inForce(quota.QueueName(), quota)
	for i := range quota.Status.Blocked {
		entry := &quota.Status.Blocked[i]
		isGone := entry.Reason == v1alpha1.BlockedUnknownCard && // the nodes of a granted card are gone
			slices.ContainsFunc(strings.Split(entry.Card, "|"), func(card string) bool { return granted[card] > 0 })
		isWithinQuota := isGone || slices.Contains([]v1alpha1.BlockedReason{
			v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedCardsTerminating,
			v1alpha1.BlockedGangIncomplete, v1alpha1.BlockedOther,
		}, entry.Reason)
		if entry.Count > 0 && isWithinQuota && (oldest.IsZero() || entry.Since.Time.Before(oldest)) {
			oldest = entry.Since.Time
		}
	}

	return oldest
}

// expectSchedulerMetrics adds what the scheduler must serve, by a recount. It returns the names of
// these metrics.
func (m *clusterState) expectSchedulerMetrics(add gauge) []string {
	for name, queue := range m.queues {
		m.expectSchedulerQueue(name, queue.Annotations[v1alpha1.AnnotationCardQuota], rule.LimitsOf(queue, m.options.Unmanaged), add)
	}
	for name, count := range m.inventory.Totals() {
		add("cardquota_scheduler_physical_cards", float64(count), map[string]string{"card": name})
	}
	add("cardquota_nodes_anomalous", float64(m.anomalousNodes()), map[string]string{})

	unowned := map[string]int64{}
	uncertain := map[string]bool{}
	for _, state := range m.pods {
		if state.charge == nil {
			continue
		}
		for card, count := range state.charge.Cards {
			uncertain[card] = uncertain[card] || offeredCards(m.nodes[state.pod.Spec.NodeName], card) == 0
			if m.queues[state.charge.Queue] == nil {
				unowned[card] += count
			}
		}
	}

	for card, count := range unowned {
		if count == 0 {
			continue
		}

		name := "cardquota_card_unowned"
		if uncertain[card] {
			name = ignoredSeries + name
		}
		add(name, float64(count), map[string]string{"card": card})
	}

	return []string{
		"cardquota_scheduler_quota_cards", "cardquota_scheduler_used_cards", "cardquota_scheduler_deserved_cards", "cardquota_queue_card_guarantee",
		"cardquota_queue_card_borrowed", "cardquota_scheduler_physical_cards", "cardquota_card_unowned", "cardquota_nodes_anomalous",
	}
}

// anomalousNodes counts the nodes whose labels leave a card without a name.
func (m *clusterState) anomalousNodes() (count int) {
	for _, node := range m.nodeObjects {
		anomalies := rule.AnomaliesOf(node, m.options.Mappings, func(corev1.ResourceName) bool { return false })
		if slices.ContainsFunc(anomalies, func(a rule.Anomaly) bool {
			switch a.Reason {
			case v1alpha1.AnomalyNoModelLabel, v1alpha1.AnomalySeveralModels, v1alpha1.AnomalyAmbiguousResource, v1alpha1.AnomalyInvalidLabel:
				return true
			case v1alpha1.AnomalyMoreThanLabelled:
				return m.withholdsCard(node.Name, a.Name)
			}
			return false
		}) {
			count++
		}
	}

	return count
}

// withholdsCard reports whether a node keeps a card from new pods.
func (m *clusterState) withholdsCard(node, card string) bool {
	for _, offer := range m.nodes[node].Cards {
		if offer.Oversold != "" && offer.Oversold == card {
			return true
		}
	}
	return false
}

func (m *clusterState) expectSchedulerQueue(queue, text string, limits rule.Limits, add gauge) {
	used := m.usageOf(m.subtreeOf(queue)).Cards
	quota, deserved, guarantee := m.amountsInForce(queue, limits)

	_, err := rule.ParseQuota(text)
	prefix := ""
	if (err != nil && text != "") || limits.AnyCard || queue == "root" {
		prefix = ignoredSeries // nothing or zero: the queue takes no cards, or any
	}

	granted := quota
	if prefix != "" {
		granted = nil
	}

	for card := range cardsOf(granted, used) { // all numbers of each card, so that they can be compared
		labels := map[string]string{"queue": queue, "card": card}
		add("cardquota_scheduler_used_cards", float64(used[card]), labels)
		add(prefix+"cardquota_scheduler_quota_cards", float64(quota[card]), labels)
		if deserved != nil {
			add(prefix+"cardquota_scheduler_deserved_cards", float64(deserved[card]), labels)
			add(prefix+"cardquota_queue_card_guarantee", float64(guarantee[card]), labels)
			add("cardquota_queue_card_borrowed", float64(max(0, used[card]-deserved[card])), labels)
		}
	}
}

// amountsInForce returns the quota of a queue and, in a tree, what it deserves and its guarantee.
func (m *clusterState) amountsInForce(queue string, limits rule.Limits) (quota, deserved, guarantee rule.Quota) {
	if m.options.Tree && queue != "root" {
		if q := m.currentTree().Queue(queue); q != nil && len(q.Path) > 0 && !q.AnyCard {
			return q.Cards, q.Deserved, q.Guarantee
		}
	}
	return limits.Cards, nil, nil
}

// cardsOf returns the cards that a queue has quota for, or uses.
func cardsOf(granted, used rule.Quota) map[string]bool {
	cards := map[string]bool{}
	for card := range granted {
		cards[card] = true
	}
	for card, count := range used {
		if count > 0 {
			cards[card] = true
		}
	}
	return cards
}
