package observer

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// gauge adds an expected series.
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
		"cardquota_over_allocation_allowed",
	}
}

// expectUnownedQuotas adds the quotas of Queues without a CardQuota.
func (m *clusterState) expectUnownedQuotas(add gauge) {
	for name, queue := range m.queues {
		quota, err := rule.ParseQuota(queue.Annotations[v1alpha1.AnnotationCardQuota])
		isTop := queue.Spec.Parent == "" || queue.Spec.Parent == "root"
		if err != nil || m.ownerOf(name) != nil || m.options.Tree && !isTop {
			continue
		}
		for card, count := range quota {
			add("cardquota_unowned_quota_cards", float64(count), map[string]string{"queue": name, "card": card})
		}
	}
}

// expectInventoryMetrics adds the series of each card.
func (m *clusterState) expectInventoryMetrics(add gauge) {
	for name, c := range m.recountInventory().cards {
		if c.allowing > 0 && c.refusing == 0 {
			add("cardquota_over_allocation_allowed", 1, map[string]string{"card": name})
		}
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
}

// ignoredSeries precedes the name of a series that may have any value.
const ignoredSeries = "any "

const (
	oldestPendingMetric     = "cardquota_oldest_pending_timestamp_seconds"
	oldestWithinQuotaMetric = "cardquota_oldest_pending_within_quota_timestamp_seconds"
)

// expectQuotaMetrics adds the series of a CardQuota's queue. The cards of a parent are those of the
// queues below it.
func (m *clusterState) expectQuotaMetrics(quota *v1alpha1.CardQuota, add gauge) {
	queue, status := quota.QueueName(), m.expectedStatus(quota)
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
	unknown := int64(0)
	for name, c := range status {
		labels := map[string]string{"queue": queue, "card": name}
		if c.Quota == 0 && c.Used == 0 && c.Physical == 0 {
			unknown += c.Pending
			continue
		}
		add("cardquota_quota_cards", float64(c.Quota), labels)
		add("cardquota_used_cards", float64(c.Used), labels)
		add("cardquota_pending_cards", float64(c.Pending), labels)
		add("cardquota_over_quota_cards", float64(c.OverQuotaBy), labels)
		add("cardquota_deserved_cards", float64(c.Deserved), labels)
	}
	add("cardquota_pending_cards", float64(unknown), map[string]string{"queue": queue, "card": "unknown"})
	if oldest := m.oldestWaiting(queue); !oldest.IsZero() {
		add(oldestPendingMetric, float64(oldest.Unix()), map[string]string{"queue": queue})
	}
	name := oldestWithinQuotaMetric
	if int(quota.Status.BlockedTotal) > len(quota.Status.Blocked) {
		name = ignoredSeries + name
	}
	if oldest := oldestWithinQuota(quota); !oldest.IsZero() {
		add(name, float64(oldest.Unix()), map[string]string{"queue": queue})
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
		if !peopled[key] && isGroupWaiting(state.group) && rule.QueueOfGroup(state.group) == queue {
			created(state.group.CreationTimestamp)
		}
	}
	return oldest
}

func (m *clusterState) isWaitingIn(state *podState, queue string) bool {
	return state.pod.Spec.SchedulerName == m.options.SchedulerName && rule.IsWaiting(state.pod) && rule.QueueOf(state.pod, m.groupOf(state.pod), "") == queue
}

// oldestWithinQuota returns when the oldest was created that waits with cards although its queue has
// quota, by the reasons in status.blocked.
func oldestWithinQuota(quota *v1alpha1.CardQuota) (oldest time.Time) {
	for _, entry := range quota.Status.Blocked {
		if entry.Count > 0 && slices.Contains([]v1alpha1.BlockedReason{
			v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedNodesUnsuitable, v1alpha1.BlockedCardsTerminating,
			v1alpha1.BlockedGangIncomplete, v1alpha1.BlockedOther,
		}, entry.Reason) && (oldest.IsZero() || entry.Since.Time.Before(oldest)) {
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
		add("cardquota_card_physical", float64(count), map[string]string{"card": name})
	}
	unowned, uncertain := map[string]int64{}, map[string]bool{}
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
		name := "cardquota_card_unowned"
		if uncertain[card] {
			name = ignoredSeries + name
		}
		add(name, float64(count), map[string]string{"card": card})
	}
	return []string{
		"cardquota_queue_card_quota", "cardquota_queue_card_allocated", "cardquota_queue_card_deserved", "cardquota_queue_card_guarantee",
		"cardquota_queue_card_borrowed", "cardquota_card_physical", "cardquota_card_unowned",
	}
}

func (m *clusterState) expectSchedulerQueue(queue, text string, limits rule.Limits, add gauge) {
	used := m.usageOf(m.subtreeOf(queue)).Cards
	quota, deserved, guarantee := limits.Cards, rule.Quota(nil), rule.Quota(nil)
	if m.options.Tree && queue != "root" {
		if q := m.currentTree().Queue(queue); q != nil && len(q.Path) > 0 && !q.AnyCard {
			quota, deserved, guarantee = q.Cards, q.Deserved, q.Guarantee
		}
	}
	_, err := rule.ParseQuota(text)
	prefix := ""
	if err != nil && text != "" || limits.AnyCard || queue == "root" {
		prefix = ignoredSeries // nothing or zero: the queue takes no cards, or any
	}
	for _, numbers := range []struct {
		name   string
		values rule.Quota
	}{{prefix + "cardquota_queue_card_quota", quota}, {"cardquota_queue_card_allocated", used}, {prefix + "cardquota_queue_card_deserved", deserved}, {prefix + "cardquota_queue_card_guarantee", guarantee}} {
		for card, count := range numbers.values {
			add(numbers.name, float64(count), map[string]string{"queue": queue, "card": card})
		}
	}
	if deserved == nil {
		return
	}
	for card, count := range used {
		add("cardquota_queue_card_borrowed", float64(max(0, count-deserved[card])), map[string]string{"queue": queue, "card": card})
	}
}
