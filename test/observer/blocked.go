package observer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// checkBlocked compares what status.blocked lists and its total, and the reasons and holders in it, with a
// naive recount, where one is possible. What the messages state is checked by package sessioncheck.
func (m *clusterState) checkBlocked(now time.Time) (open []string) {
	isExcused := m.excused[Status] > 0 || m.excused[Reason] > 0 || m.excused[Truth] > 0
	seen := map[string]bool{}
	for _, state := range m.quotas {
		quota := state.quota
		if isExcused || !m.options.Concerns("cardquota/"+quota.Name) || quota.DeletionTimestamp != nil {
			continue
		}

		if wrong := m.waitingDifference(quota); wrong != "" {
			key := fmt.Sprint(quota.UID)
			seen[key] = true
			open = append(open, m.checkBlockedEntry(Status, key, "cardquota/"+quota.Name, wrong, now)...)
		}

		for i := range quota.Status.Blocked {
			entry := &quota.Status.Blocked[i]
			key := fmt.Sprint(quota.UID, entry.Workload, entry.Card, entry.Reason)
			wrong := cmp.Or(m.reasonDifference(quota, entry), m.holdersDifference(quota, entry))
			if wrong == "" {
				continue
			}

			seen[key] = true
			open = append(open, m.checkBlockedEntry(Truth, key, "cardquota/"+quota.Name, formatBlocked(entry)+": "+wrong, now)...)
		}
	}

	maps.DeleteFunc(m.blocked, func(key string, _ *difference) bool { return !seen[key] })
	return open
}

// checkBlockedEntry reports an entry that has been wrong in the same way for too long, and
// returns it as open while it has time.
func (m *clusterState) checkBlockedEntry(invariant Invariant, key, object, wrong string, now time.Time) (open []string) {
	return m.reportOverdue(m.blocked.recordOf(key, wrong, now), invariant, object, wrong, m.options.ReasonWithin, now)
}

func formatBlocked(b *v1alpha1.BlockedStatus) string {
	return fmt.Sprintf("%s %s/%s waits for %d %s by %s", b.Workload.Kind, b.Workload.Namespace, b.Workload.Name, b.Count, b.Card, b.Reason)
}

// reasonDifference returns how the reason of an entry differs from a recount, "" if it does not.
func (m *clusterState) reasonDifference(quota *v1alpha1.CardQuota, entry *v1alpha1.BlockedStatus) string {
	cards := m.cardsOfEntry(entry)
	switch entry.Reason {
	case v1alpha1.BlockedUnknownCard, v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedNodesUnsuitable:
		cards = m.withQuotaLeft(entry, cards)
	}

	switch entry.Reason {
	case v1alpha1.BlockedUnknownCard:
		if slices.ContainsFunc(cards, func(card string) bool { return m.inventory.Totals()[card] > 0 }) {
			return "a node has such a card"
		}
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedNodesUnsuitable:
		if len(cards) > 0 {
			return nodeReasonDifference(entry.Reason, m.freeCards(cards), m.waitingOf(quota, entry))
		}
	case v1alpha1.BlockedNoQuota, v1alpha1.BlockedQueueStopped, v1alpha1.BlockedQueueNotFound:
		return m.queueReasonDifference(quota, entry.Reason, cards)
	}

	return ""
}

// nodeReasonDifference checks a reason about the free cards of nodes. waits is for how many cards
// the workload waits, 0 if that is not known.
func nodeReasonDifference(reason v1alpha1.BlockedReason, free freeCount, waits int64) string {
	switch {
	// Free cards may be pledged to a pod that waits for terminating ones on the same node.
	case reason == v1alpha1.BlockedNoFreeCard && waits > 0 && free.sum >= waits && free.ending == 0:
		return fmt.Sprintf("%d are free, and it waits for %d", free.sum, waits)
	case reason == v1alpha1.BlockedFragmented && (free.sum == 0 || (waits > 0 && free.most >= waits)):
		return fmt.Sprintf("%d are free, %d of them on one node, and it waits for %d", free.sum, free.most, waits)
	case reason == v1alpha1.BlockedNodesUnsuitable && free.mostReady == 0:
		return "no ready node has a free card"
	}
	return ""
}

// queueReasonDifference checks a reason about the queue of a CardQuota. A parent repeats the
// entries of other queues, and in a tree other queues decide as well.
func (m *clusterState) queueReasonDifference(quota *v1alpha1.CardQuota, reason v1alpha1.BlockedReason, cards []string) string {
	queue := m.queues[quota.QueueName()]
	if m.options.Tree || queue == nil {
		return ""
	}

	limits := rule.LimitsOf(queue, m.options.Unmanaged)
	stop := queue.Annotations[v1alpha1.AnnotationStopPolicy]
	switch {
	case reason == v1alpha1.BlockedNoQuota && len(cards) > 0 && !slices.ContainsFunc(cards, func(card string) bool { return limits.Cards[card] == 0 }):
		return "the queue has quota of each card"
	case reason == v1alpha1.BlockedQueueStopped && limits.Closed == "" && (stop == "" || stop == string(v1alpha1.StopPolicyNone)):
		return "the queue is open"
	case reason == v1alpha1.BlockedQueueNotFound:
		return "the queue exists"
	}

	return ""
}

// cardsOfEntry returns the cards that an entry names, those of its resource if it names none.
func (m *clusterState) cardsOfEntry(entry *v1alpha1.BlockedStatus) []string {
	if resource := corev1.ResourceName(entry.Card); m.inventory.IsCard(resource) {
		return m.inventory.Cards(resource)
	}
	return strings.FieldsFunc(entry.Card, func(r rune) bool { return r == '|' })
}

// waitingOf returns for how many cards the workload of an entry waits, by all its entries, 0 if
// not all entries are listed.
func (m *clusterState) waitingOf(quota *v1alpha1.CardQuota, entry *v1alpha1.BlockedStatus) (count int64) {
	if !listsAllBlocked(quota.Status.Blocked) {
		return 0
	}
	for _, other := range quota.Status.Blocked {
		if other.Workload == entry.Workload {
			count += other.Count
		}
	}
	return count
}

// freeCount is a recount of free cards: on all nodes that take pods, the most on one of them,
// and the most on one ready node. ending is what terminating pods use.
type freeCount struct{ sum, most, mostReady, ending int64 }

// freeCards recounts the free cards, for the card of which most are free.
func (m *clusterState) freeCards(cards []string) (best freeCount) {
	for _, card := range cards {
		of := freeCount{}
		used := map[string]int64{}
		for _, state := range m.pods {
			ending := cardsOfCharge(state.terminating)[card]
			of.ending += ending
			used[state.pod.Spec.NodeName] += cardsOfCharge(state.charge)[card] + ending
		}

		for name, node := range m.nodes {
			free := max(0, offeredCards(node, card)-used[name])
			if !m.tree.unschedulable[name] {
				of.sum += free
				of.most = max(of.most, free)
			}
			if stopped := m.notReady[name]; stopped == nil || !stopped.current() {
				of.mostReady = max(of.mostReady, free)
			}
		}
		best = freeCount{max(best.sum, of.sum), max(best.most, of.most), max(best.mostReady, of.mostReady), best.ending + of.ending}
	}
	return best
}

func offeredCards(node rule.Node, card string) (count int64) {
	for _, offer := range node.Cards {
		if offer.Card == card {
			count += offer.Count
		}
	}
	return count
}

// cardsOfCharge returns the cards of a charge, nil for none.
func cardsOfCharge(charge *rule.Charge) rule.Quota {
	if charge == nil {
		return nil
	}
	return charge.Cards
}

// holdersDifference compares the holders of an entry with the largest sums of a recount. A
// parent repeats the holders of other queues.
func (m *clusterState) holdersDifference(quota *v1alpha1.CardQuota, entry *v1alpha1.BlockedStatus) string {
	queue := quota.QueueName()
	cards := m.cardsOfEntry(entry)
	switch {
	case entry.Reason == v1alpha1.BlockedNoFreeCard || entry.Reason == v1alpha1.BlockedFragmented:
		queue = ""
		cards = m.withQuotaLeft(entry, cards)
	case entry.Reason != v1alpha1.BlockedQuotaExhausted || (m.options.Tree && m.currentTree().IsParent(queue)):
		return ""
	}

	sums := m.usedByWorkload(queue, cards)
	var said, counted []int64
	for _, h := range entry.Holders {
		name := fmt.Sprintf("%s %s/%s of %s: %s", h.Workload.Kind, h.Workload.Namespace, h.Workload.Name, h.Queue, h.Card)
		said = append(said, h.Count)
		if sums[name] != h.Count {
			return fmt.Sprintf("it says that %s uses %d, a recount gives %d", name, h.Count, sums[name])
		}
		if want := shownType(m.ownerOf(h.Queue), m.queues[h.Queue]); h.ServiceType != want {
			return fmt.Sprintf("it says that %s is of service type %s, want %s", name, h.ServiceType, want)
		}
	}

	for _, count := range sums {
		counted = append(counted, count)
	}

	slices.SortFunc(counted, func(a, b int64) int { return cmp.Compare(b, a) })
	counted = counted[:min(3, len(counted))]
	if !slices.Equal(said, counted) {
		return fmt.Sprintf("its holders use %v, the largest use %v", said, counted)
	}

	return ""
}

// usedByWorkload recounts what workloads use of some cards, in a queue, or in all for "".
func (m *clusterState) usedByWorkload(queue string, cards []string) map[string]int64 {
	sums := map[string]int64{}
	for _, state := range m.pods {
		if state.charge == nil || (queue != "" && state.charge.Queue != queue) {
			continue
		}
		for _, card := range cards {
			if count := state.charge.Cards[card]; count > 0 {
				sums[fmt.Sprintf("%s of %s: %s", ownerOfPod(state.pod), state.charge.Queue, card)] += count
			}
		}
	}

	return sums
}

// ownerOfPod returns the kind and name of a pod's controller, the Deployment of a ReplicaSet, or
// of the pod.
func ownerOfPod(pod *corev1.Pod) string { return formatWorkload(referenceTo(pod, "", "Pod")) }
