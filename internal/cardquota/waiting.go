package cardquota

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
)

// waiting is a pod that waits, or a job without pods, with what the scheduler states about it.
type waiting struct {
	// entry has no reason yet. Its count is that of the pod.
	entry        v1alpha1.BlockedStatus
	statedReason *blocked.StatedReason
	request      blocked.Request
}

// workloadCard identifies what pods of one workload request.
type workloadCard struct {
	workload v1alpha1.WorkloadReference
	card     string
}

// siblings are the pods of one workload that wait for the same card.
type siblings struct {
	// byNode is what some of them would take as soon as their gang is complete, and taken the same for
	// package blocked, nil for nothing.
	byNode map[string]card.Count
	taken  *blocked.Taken
	// cause is the one whose reason the scheduler states, nil if it states none.
	cause *waiting
}

// siblingsOf groups pods. Of several causes the one with the first message counts, so that the
// order of pods does not matter.
func siblingsOf(all []waiting) map[workloadCard]*siblings {
	out := map[workloadCard]*siblings{}
	for i := range all {
		w := &all[i]
		key := workloadCard{w.entry.Workload, w.entry.Card}
		s := out[key]
		if s == nil {
			s = &siblings{}
			out[key] = s
		}

		switch node := w.statedReason.Node; {
		// Such a pod waits only for its gang, and will take these cards. They are not free for
		// the others.
		case node != "":
			if s.byNode == nil {
				s.byNode = map[string]card.Count{}
				s.taken = blocked.NewTaken(s.byNode)
			}
			s.byNode[node] = s.byNode[node].Add(w.request.Count)
		case !w.statedReason.IsSilent() && (s.cause == nil || blocked.CompareMessages(w.entry.Message, s.cause.entry.Message) < 0):
			s.cause = w
		}
	}

	return out
}

// blockedKey identifies the entry that blocked pods share.
type blockedKey struct {
	workloadCard
	reason v1alpha1.BlockedReason
}

// blockedEntry is an entry with what finds the holders of its cards.
type blockedEntry struct {
	v1alpha1.BlockedStatus
	// names are the cards of the request, helpful those of which free ones would help.
	names, helpful []card.Name
	// ancestor is the queue above whose quota is exhausted, "" if the tree does not have it there.
	ancestor string
}

type blockedSet map[blockedKey]blockedEntry

// add counts a pod in the entry of its workload. The entry keeps the earliest time and the first
// message, so the order of pods does not matter.
func (s blockedSet) add(b blockedEntry) {
	key := blockedKey{workloadCard{b.Workload, b.Card}, b.Reason}
	if had, ok := s[key]; ok {
		b.Count = int64(card.Count(b.Count).Add(card.Count(had.Count)))
		if blocked.CompareMessages(had.Message, b.Message) < 0 {
			b.Message = had.Message
		}

		if len(b.helpful) < len(had.helpful) { // a pod with fewer cards
			b.helpful = had.helpful
		}

		if b.ancestor == "" || (had.ancestor != "" && had.ancestor < b.ancestor) {
			b.ancestor = had.ancestor
		}

		if had.Since.Before(&b.Since) {
			b.Since = had.Since
		}
	}
	s[key] = b
}

// oldestWithinQuota returns when the oldest was created that requests cards and waits although the
// queue has quota for it.
func (s blockedSet) oldestWithinQuota(granted card.Quota) (oldest metav1.Time) {
	for _, entry := range s {
		hasQuota := slices.ContainsFunc(entry.names, func(name card.Name) bool { return granted[name] > 0 })
		if entry.Count > 0 && blocked.IsWithinQuota(entry.Reason, hasQuota) && (oldest.IsZero() || entry.Since.Before(&oldest)) {
			oldest = entry.Since
		}
	}
	return oldest
}

// explainWaiting returns what waits in a queue and why, one entry for each workload, card and
// reason. Volcano tries only the first pod of a role and says nothing about the next ones, so
// they wait for the same reason.
//
// Tenants can write the conditions of their pods. So a stated ancestor counts only if the tree has
// it above the queue. Otherwise a forged one would reveal who uses the cards of any queue.
func (c *counter) explainWaiting(queue string, all []waiting) blockedSet {
	set := blockedSet{}
	groups := siblingsOf(all)
	for i := range all {
		w := &all[i]
		group := groups[workloadCard{w.entry.Workload, w.entry.Card}]
		entry := blockedEntry{BlockedStatus: w.entry, names: w.request.Names, helpful: c.withQuotaLeft(queue, &w.request)}
		statedReason := w.statedReason
		if statedReason.IsSilent() && group.cause != nil {
			statedReason = group.cause.statedReason
			entry.Message = group.cause.entry.Message
		}

		request := w.request
		request.Names = entry.helpful
		request.Taken = group.taken

		entry.Reason = blocked.ReasonFor(statedReason, &request, c.countFleet)
		if entry.Reason == v1alpha1.BlockedAncestorQuotaExhausted {
			if stated := ancestorOf(statedReason); c.subtreeOf(stated).has[queue] {
				entry.ancestor = stated
			}
		}
		set.add(entry)
	}

	set.setTimeOfGangs()
	return set
}

// setTimeOfGangs gives all entries of a gang that is incomplete the time of its oldest pod, because its
// pods wait together. So what keeps the gang waiting stands beside the pods that have a place.
func (s blockedSet) setTimeOfGangs() {
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
func countWorkloads(entries []blockedEntry) int {
	workloads := make(map[v1alpha1.WorkloadReference]bool, len(entries))
	for i := range entries {
		workloads[entries[i].Workload] = true
	}
	return len(workloads)
}

// ancestorOf returns the queue that refuses.
func ancestorOf(s *blocked.StatedReason) string {
	if s.Refusal != nil {
		return s.Refusal.Queue
	}
	return s.NodeRefusals[0].Queue
}

// waitingByNamespace returns what waits in each namespace.
func (c *counter) waitingByNamespace(queue string, set blockedSet) map[string]localquota.Waiting {
	entries := map[string][]blockedEntry{}
	for _, entry := range set {
		entries[entry.Workload.Namespace] = append(entries[entry.Workload.Namespace], entry)
	}
	out := make(map[string]localquota.Waiting, len(entries))
	for namespace, all := range entries {
		out[namespace] = localquota.Waiting{Blocked: c.oldestFirst(queue, all), Total: countWorkloads(all)}
	}
	return out
}

// oldestFirst returns the MaxBlocked entries of a queue that have waited longest, or all of them, with
// the holders of their cards. It sorts the given entries.
func (c *counter) oldestFirst(queue string, entries []blockedEntry) []v1alpha1.BlockedStatus {
	slices.SortFunc(entries, func(a, b blockedEntry) int { return compareBlocked(a.BlockedStatus, b.BlockedStatus) })
	var out []v1alpha1.BlockedStatus
	if !c.input.ListsAllBlocked {
		entries = entries[:min(len(entries), MaxBlocked)]
	}

	for _, entry := range entries {
		switch entry.Reason {
		case v1alpha1.BlockedQuotaExhausted:
			entry.Holders = c.listHolders().InQueue(queue, entry.names)
		case v1alpha1.BlockedAncestorQuotaExhausted:
			if entry.ancestor != "" {
				entry.Holders = c.listHolders().InSubtree(entry.ancestor, c.queuesBelow, entry.names)
			}
		case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented:
			entry.Holders = c.listHolders().Anywhere(entry.helpful)
		}
		out = append(out, entry.BlockedStatus)
	}

	return out
}

// subtree is a queue and those below it, as a list and as a set.
type subtree struct {
	queues []string
	has    map[string]bool
}

// subtreeOf returns a queue and those below it. It asks the tree once for each queue.
func (c *counter) subtreeOf(queue string) subtree {
	if known, ok := c.subtrees[queue]; ok {
		return known
	}

	found := subtree{queues: c.tree().Below(queue), has: map[string]bool{}}
	for _, below := range found.queues {
		found.has[below] = true
	}

	if c.subtrees == nil {
		c.subtrees = map[string]subtree{}
	}
	c.subtrees[queue] = found

	return found
}

// queuesBelow returns a queue and those below it.
func (c *counter) queuesBelow(queue string) []string { return c.subtreeOf(queue).queues }

// countFleet returns the free cards of all nodes. It counts them once, and only if something
// waits for them.
func (c *counter) countFleet() *blocked.Fleet {
	if c.fleet != nil {
		return c.fleet
	}

	used := map[blocked.NodeCard]card.Count{}
	add := func(node string, charge *quota.Charge) {
		for _, amount := range charge.Cards {
			key := blocked.NodeCard{Node: node, Name: amount.Name}
			used[key] = used[key].Add(amount.Count)
		}
	}

	for i := range c.charged {
		add(c.charged[i].pod.Spec.NodeName, c.charged[i].charge)
	}
	for _, pod := range c.ending { // a terminating pod still has its cards
		charge := c.resolver.Usage(pod, nil, c.lastCharge(pod))
		add(pod.Spec.NodeName, &charge)
	}

	c.fleet = blocked.NewFleet(c.input.Inventory, c.input.Nodes, used)
	return c.fleet
}

// listHolders returns the workloads that use cards. It lists them once, and only if an entry
// shows some.
func (c *counter) listHolders() *blocked.Holders {
	if c.holders != nil {
		return c.holders
	}

	c.holders = &blocked.Holders{}
	types := map[string]string{} // by queue
	for i := range c.charged {
		pod := &c.charged[i]
		queue := pod.charge.Queue
		if _, isKnown := types[queue]; !isKnown {
			types[queue] = servicetype.DisplayName(c.input.ServiceTypes[queue])
		}
		for _, amount := range pod.charge.Cards {
			c.holders.Add(pod.facts.reference, queue, types[queue], amount.Name, amount.Count)
		}
	}

	return c.holders
}
