package waiting

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// workloadCard identifies what pods of one workload request.
type workloadCard struct {
	workload v1alpha1.WorkloadReference
	card     string
}

// siblings are the pods of one workload that wait for the same card.
type siblings struct {
	// taken is what some of them would take as soon as their gang is complete, nil for nothing.
	taken *Taken
	// cause is the one whose reason the scheduler states, nil if it states none.
	cause *Pending
}

// siblingsOf groups pods by workload and card. Of several pods with a stated reason, the one with the first message is
// the cause of the others, so that the order of pods does not matter.
func siblingsOf(all []Pending) map[workloadCard]*siblings {
	out := map[workloadCard]*siblings{}
	for i := range all {
		pending := &all[i]
		key := workloadCard{pending.Entry.Workload, pending.Entry.Card}
		same := out[key]
		if same == nil {
			same = &siblings{}
			out[key] = same
		}

		switch node := pending.Stated.Node; {
		// Such a pod waits only for its gang, and will take these cards. They are not free for
		// the others.
		case node != "":
			if same.taken == nil {
				same.taken = NewTaken(map[string]card.Count{})
			}
			same.taken.byNode[node] = same.taken.byNode[node].Add(pending.Request.Count)
		case !pending.Stated.IsSilent() && (same.cause == nil || compareMessages(pending.Entry.Message, same.cause.Entry.Message) < 0):
			same.cause = pending
		}
	}

	return out
}

// entryKey identifies the entry that blocked pods share.
type entryKey struct {
	workloadCard
	reason v1alpha1.BlockedReason
}

// entry is an entry of status.blocked, with what is needed to find who uses the cards that it waits for.
type entry struct {
	v1alpha1.BlockedStatus
	// names are the cards of the request, helpful those for which quota is left, so that free ones would help.
	names, helpful []card.Name
	// ancestor is the queue above whose quota is exhausted, "" if the tree does not have it there.
	ancestor string
}

// entrySet has the entries of a queue.
type entrySet map[entryKey]entry

// add counts a pod in the entry of its workload. The entry keeps the earliest time, the first message and the first
// ancestor by name, so the order of pods does not matter.
func (s entrySet) add(added entry) {
	key := entryKey{workloadCard{added.Workload, added.Card}, added.Reason}
	if had, ok := s[key]; ok {
		added.Count = int64(card.Count(added.Count).Add(card.Count(had.Count)))
		if compareMessages(had.Message, added.Message) < 0 {
			added.Message = had.Message
		}

		if len(added.helpful) < len(had.helpful) { // a pod with fewer cards fits into what is left of more names
			added.helpful = had.helpful
		}

		if added.ancestor == "" || (had.ancestor != "" && had.ancestor < added.ancestor) {
			added.ancestor = had.ancestor
		}

		if had.Since.Before(&added.Since) {
			added.Since = had.Since
		}
	}
	s[key] = added
}

// list returns all entries.
func (s entrySet) list() []entry {
	return slices.AppendSeq(make([]entry, 0, len(s)), maps.Values(s))
}

// byNamespace returns the entries of each namespace.
func (s entrySet) byNamespace() map[string][]entry {
	entries := map[string][]entry{}
	for _, entry := range s {
		entries[entry.Workload.Namespace] = append(entries[entry.Workload.Namespace], entry)
	}
	return entries
}

// oldestWithinQuota returns when the oldest was created that requests cards and waits although the
// queue has quota for it.
func (s entrySet) oldestWithinQuota(granted card.Quota) (oldest metav1.Time) {
	for _, entry := range s {
		hasQuota := slices.ContainsFunc(entry.names, func(name card.Name) bool { return granted[name] > 0 })
		if entry.Count > 0 && isWithinQuota(entry.Reason, hasQuota) && (oldest.IsZero() || entry.Since.Before(&oldest)) {
			oldest = entry.Since
		}
	}
	return oldest
}

// isWithinQuota reports whether a reason is that of a workload for which its queue, and those above
// it, have quota: too few free cards, other pods of its gang or its turn keep it waiting. A card that
// no node has may be one whose nodes are gone: hasQuota is whether the queue has quota for it. Nodes that
// refuse the pod do not count: a tenant could raise the alert for waiting within the quota by a node selector that no
// node has.
func isWithinQuota(reason v1alpha1.BlockedReason, hasQuota bool) bool {
	switch reason {
	case v1alpha1.BlockedUnknownCard:
		return hasQuota
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented,
		v1alpha1.BlockedCardsTerminating, v1alpha1.BlockedGangIncomplete, v1alpha1.BlockedOther:
		return true
	}
	return false
}

// cardsByReason returns how many cards wait for each reason, nil for none. It counts all entries, also
// those for which a status has no room.
func (s entrySet) cardsByReason() map[v1alpha1.BlockedReason]card.Count {
	var cards map[v1alpha1.BlockedReason]card.Count
	for _, entry := range s {
		if entry.Count <= 0 {
			continue
		}
		if cards == nil {
			cards = map[v1alpha1.BlockedReason]card.Count{}
		}
		cards[entry.Reason] = cards[entry.Reason].Add(card.Count(entry.Count))
	}
	return cards
}

// setTimeOfGangs gives all entries of a gang that is incomplete the time of its oldest pod, because its
// pods wait together. So what keeps the gang waiting stands beside the pods that have a place.
func (s entrySet) setTimeOfGangs() {
	oldest := map[v1alpha1.WorkloadReference]metav1.Time{}
	for key, entry := range s {
		if key.reason == v1alpha1.BlockedGangIncomplete {
			oldest[key.workload] = entry.Since
		}
	}

	if len(oldest) == 0 {
		return
	}

	for key, entry := range s {
		if since, isGang := oldest[key.workload]; isGang && entry.Since.Before(&since) {
			oldest[key.workload] = entry.Since
		}
	}

	for key, entry := range s {
		if since, isGang := oldest[key.workload]; isGang {
			entry.Since = since
			s[key] = entry
		}
	}
}

// countWorkloads counts the workloads of some entries.
func countWorkloads(entries []entry) int {
	workloads := make(map[v1alpha1.WorkloadReference]bool, len(entries))
	for i := range entries {
		workloads[entries[i].Workload] = true
	}
	return len(workloads)
}
