package observer

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// recountedCard is a recount of one card of the CardInventory.
type recountedCard struct {
	resources                []string
	isOffered                bool
	total, healthy, cordoned int64
	allocated, pending       int64
	quota, deserved          int64
	types                    map[string]typeSums
	// isUncertain is set where a pod may use this card or another one.
	isUncertain bool
}

// typeSums are the numbers of one service type.
type typeSums struct{ quota, used, pending int64 }

func (c *recountedCard) isListed() bool {
	return c.isOffered || c.quota > 0 || c.allocated > 0 || c.deserved > 0 || c.pending > 0
}

// anomalyKey is a reason, and the card or resource.
type anomalyKey struct {
	reason v1alpha1.AnomalyReason
	name   string
}

// recountedAnomaly is what is wrong with some nodes for one reason.
type recountedAnomaly struct {
	count       int64
	nodes       map[string]bool
	isUncertain bool
}

// inventoryRecount is a naive recount of the CardInventory.
type inventoryRecount struct {
	cards     map[string]*recountedCard
	anomalies map[anomalyKey]*recountedAnomaly
	// nodes are those that offer cards or have an anomaly.
	nodes map[string]bool
}

func (r *inventoryRecount) card(name string) *recountedCard {
	if r.cards[name] == nil {
		r.cards[name] = &recountedCard{types: map[string]typeSums{}}
	}
	return r.cards[name]
}

func (r *inventoryRecount) addToType(card, serviceType string, more typeSums) {
	if more == (typeSums{}) {
		return
	}
	sums := r.card(card).types[serviceType]
	r.card(card).types[serviceType] = typeSums{sums.quota + more.quota, sums.used + more.used, sums.pending + more.pending}
}

func (r *inventoryRecount) addAnomaly(node string, anomaly rule.Anomaly) *recountedAnomaly {
	key := anomalyKey{anomaly.Reason, anomaly.Name}
	if r.anomalies[key] == nil {
		r.anomalies[key] = &recountedAnomaly{nodes: map[string]bool{}}
	}
	r.anomalies[key].count += anomaly.Count
	r.anomalies[key].nodes[node] = true
	r.nodes[node] = true
	return r.anomalies[key]
}

// recordRenamedCards records that a pod on a node uses a card by another name than before.
func (m *clusterState) recordRenamedCards(state *podState, before *rule.Charge) {
	if before == nil || state.charge == nil {
		return
	}
	for card := range before.Cards {
		if _, isSame := state.charge.Cards[card]; !isSame {
			m.renamedCards[card] = true
		}
	}
}

// expectModelChanges allows an anomaly for each card of which the name has changed. The operator counts
// at most once a second, so it may miss a change, and after a restart it takes younger pods for older ones.
func (m *clusterState) expectModelChanges(r *inventoryRecount) {
	for card := range m.renamedCards {
		r.anomalies[anomalyKey{v1alpha1.AnomalyModelChanged, card}] = &recountedAnomaly{nodes: map[string]bool{}, isUncertain: true}
	}
}

// recountInventory recounts the CardInventory from nodes, pods, CardQuotas and Queues.
func (m *clusterState) recountInventory() *inventoryRecount {
	r := &inventoryRecount{cards: map[string]*recountedCard{}, anomalies: map[anomalyKey]*recountedAnomaly{}, nodes: map[string]bool{}}
	owners := m.ownersByQueue()
	typeOf := func(queue string) string { return shownType(owners[queue], m.queues[queue]) }
	m.recountNodes(r)
	m.expectModelChanges(r)
	m.recountCharges(r, typeOf)
	m.recountPending(r, owners, typeOf)
	m.recountQuotas(r, owners, typeOf)
	m.recountUnownedQuotas(r, owners, typeOf)
	return r
}

// shownType returns the service type under which a queue is shown, by its CardQuota and its Queue, of
// which there may be none.
func shownType(owner *v1alpha1.CardQuota, queue *v1beta1.Queue) string {
	name := ""
	if owner != nil {
		name = owner.Spec.ServiceType
	} else if queue != nil {
		name = queue.Annotations[v1alpha1.AnnotationServiceType]
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return "none"
	}
	return name
}

// ownersByQueue returns the CardQuota that owns each queue.
func (m *clusterState) ownersByQueue() map[string]*v1alpha1.CardQuota {
	owners := map[string]*v1alpha1.CardQuota{}
	for _, state := range m.quotas {
		if queue := state.quota.QueueName(); owners[queue] == nil {
			owners[queue] = m.ownerOf(queue)
		}
	}
	return owners
}

func (m *clusterState) recountNodes(r *inventoryRecount) {
	for name, node := range m.nodeObjects {
		for resource, offer := range m.nodes[name].Cards {
			if offer.Card == "" {
				continue
			}

			r.nodes[name] = true
			c := r.card(offer.Card)
			c.isOffered = true
			if !slices.Contains(c.resources, string(resource)) {
				c.resources = append(c.resources, string(resource))
			}

			c.total += offer.Count
			if rule.IsReady(node) {
				c.healthy += offer.Count
				if node.Spec.Unschedulable {
					c.cordoned += offer.Count
				}
			}
		}

		for _, anomaly := range rule.AnomaliesOf(node, m.options.Mappings, m.inventory.IsCard) {
			r.addAnomaly(name, anomaly)
		}
	}
}

func (m *clusterState) recountCharges(r *inventoryRecount, typeOf func(string) string) {
	for _, state := range m.pods {
		if state.charge == nil {
			continue
		}

		queue := state.charge.Queue
		node := state.pod.Spec.NodeName
		isOutside := m.queues[queue] == nil
		for card, count := range state.charge.Cards {
			c := r.card(card)
			c.isUncertain = c.isUncertain || offeredCards(m.nodes[node], card) == 0
			c.allocated += count

			r.addToType(card, typeOf(queue), typeSums{used: count})
			if isOutside && count > 0 {
				a := r.addAnomaly(node, rule.Anomaly{Reason: v1alpha1.AnomalyCardsOutsideQueues, Name: card, Count: count})
				a.isUncertain = a.isUncertain || c.isUncertain
			}
		}
	}
}

// recountPending counts each pending request under the first alternative that its queue has quota
// for.
func (m *clusterState) recountPending(r *inventoryRecount, owners map[string]*v1alpha1.CardQuota, typeOf func(string) string) {
	m.forEachPending(func(queue string, names []string, count int64) {
		if queue == "" || len(names) == 0 || count == 0 {
			return
		}
		granted := m.inForce(queue, owners[queue])
		card := names[max(0, slices.IndexFunc(names, func(name string) bool { return granted[name] > 0 }))]
		r.card(card).pending += count
		r.addToType(card, typeOf(queue), typeSums{pending: count})
	})
}

// forEachPending calls wait for everything that waits in any queue: pods, and PodGroups without pods.
func (m *clusterState) forEachPending(wait func(queue string, names []string, count int64)) {
	for _, state := range m.pods {
		if state.pod.Spec.SchedulerName == m.options.SchedulerName && rule.IsWaiting(state.pod) {
			queue := rule.QueueOf(state.pod, m.groupOf(state.pod), "")
			if m.isShownIn(queue, state.pod.Namespace) {
				request := rule.RequestOf(state.pod, m.inventory)
				wait(queue, request.Cards, request.Count)
			}
		}
	}

	peopled := m.groupsWithPods()
	for key, state := range m.groups {
		if peopled[key] || !isGroupWaiting(state.group) || !m.isShownIn(rule.QueueOfGroup(state.group), key.Namespace) {
			continue
		}
		for _, a := range m.announcedRequests(state.group) {
			wait(rule.QueueOfGroup(state.group), a.names, a.count)
		}
	}
}

// inForce returns the quota in force of a queue by its CardQuota.
func (m *clusterState) inForce(queue string, owner *v1alpha1.CardQuota) map[string]int64 {
	granted := map[string]int64{}
	if owner != nil && owner.Spec.ServiceType != "" { // flat, a parent grants nothing itself
		for _, c := range owner.Spec.Cards {
			granted[c.Name] = ptr.Deref(c.Quota, ptr.Deref(c.Deserved, 0))
		}
	}
	return m.grantedIn(queue, granted)
}

// recountQuotas adds up the quotas of CardQuotas. In a tree the top level grants, and the leaves are
// counted by service type.
func (m *clusterState) recountQuotas(r *inventoryRecount, owners map[string]*v1alpha1.CardQuota, typeOf func(string) string) {
	for queue, owner := range owners {
		if owner.DeletionTimestamp != nil {
			if rival := m.nextOwnerOf(queue); rival != nil && !m.options.Tree {
				addGranted(r, m.inForce(queue, rival))
			}
			continue
		}

		granted := m.inForce(queue, owner)
		if !m.options.Tree {
			addGranted(r, granted)
		} else if owner.Spec.Parent == "" {
			for _, c := range owner.Spec.Cards {
				r.card(c.Name).quota += ptr.Deref(c.Quota, 0)
				r.card(c.Name).deserved += ptr.Deref(c.Deserved, 0)
			}
		}

		m.addByType(r, queue, typeOf, granted)
	}
}

// recountUnownedQuotas adds up the quotas of Queues without a CardQuota.
func (m *clusterState) recountUnownedQuotas(r *inventoryRecount, owners map[string]*v1alpha1.CardQuota, typeOf func(string) string) {
	for name, queue := range m.queues {
		quota, err := rule.ParseQuota(queue.Annotations[v1alpha1.AnnotationCardQuota])
		if owners[name] != nil {
			continue
		}

		isTop := queue.Spec.Parent == "" || queue.Spec.Parent == "root"
		if err == nil && (isTop || !m.options.Tree) {
			addGranted(r, quota)
		}
		if err == nil {
			m.addByType(r, name, typeOf, quota)
		}

		if deserved, err := rule.ParseQuota(queue.Annotations["volcano.sh/card.deserved"]); err == nil && isTop && m.options.Tree {
			for card, count := range deserved {
				r.card(card).deserved += count
			}
		}
	}
}

func addGranted(r *inventoryRecount, granted map[string]int64) {
	for card, count := range granted {
		r.card(card).quota += count
	}
}

// addByType adds the quota of a queue that runs work itself.
func (m *clusterState) addByType(r *inventoryRecount, queue string, typeOf func(string) string, granted map[string]int64) {
	if m.options.Tree && m.isAnyParent(queue) {
		return
	}
	for card, count := range granted {
		r.addToType(card, typeOf(queue), typeSums{quota: count})
	}
}

// isAnyParent reports whether a Queue or a CardQuota names the queue as its parent.
func (m *clusterState) isAnyParent(queue string) bool {
	for _, other := range m.queues {
		if other.Spec.Parent == queue {
			return true
		}
	}
	for _, state := range m.quotas {
		if parent := state.quota.Spec.Parent; parent != "" && parent == ownerName(m.ownerOf(queue)) {
			return true
		}
	}
	return false
}

func ownerName(quota *v1alpha1.CardQuota) string {
	if quota == nil {
		return ""
	}
	return quota.Name
}

// nextOwnerOf returns the oldest CardQuota of a queue that is not being deleted.
func (m *clusterState) nextOwnerOf(queue string) (next *v1alpha1.CardQuota) {
	for _, state := range m.quotas {
		if q := state.quota; q.QueueName() == queue && q.DeletionTimestamp == nil && (next == nil || q.CreationTimestamp.Before(&next.CreationTimestamp)) {
			next = q
		}
	}
	return next
}

// sortedCards returns the cards that the CardInventory lists.
func (r *inventoryRecount) sortedCards() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.cards)), func(name string) bool { return !r.cards[name].isListed() })
}
