package waiting

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
)

// Cluster is what decides why something waits, and for whom: what queues may use, and who uses the cards.
type Cluster struct {
	// Tree is the tree of the queues.
	Tree *quota.Tree
	// Quotas is the quota of each queue that has a CardQuota, Used what the pods of each queue use.
	Quotas map[string]card.Quota
	Used   map[string]map[card.Name]card.Count
	// ServiceTypes is the service type of each queue that has one. It only names holders of cards.
	ServiceTypes map[string]string
	// Inventory has the cards of each node, Nodes which nodes can use them.
	Inventory *card.Inventory
	Nodes     []card.NodeState
	// HiddenFleet is what is known of free cards where Nodes and the pods of others may not be read, nil where they
	// may.
	HiddenFleet *Fleet
	// Charged are the pods that use cards, Terminating those that may have theirs still.
	Charged, Terminating []ChargedPod
	// LocalQueues are the queues of which tenants see what waits in their namespace.
	LocalQueues map[string]bool
	// ListsAllBlocked lists all that is blocked, not only the first MaxBlocked.
	ListsAllBlocked bool
}

// ChargedPod is a pod with its workload and its charge.
type ChargedPod struct {
	Pod      *corev1.Pod
	Workload *v1alpha1.WorkloadReference
	Charge   *quota.Charge
}

// Explain returns what waits in each queue and why, from all that is pending there.
func Explain(cluster *Cluster, pending map[string][]Pending) map[string]Summary {
	e := explainer{cluster: cluster, fleet: cluster.HiddenFleet, subtrees: map[string]*subtree{}}
	summaries := make(map[string]Summary, len(pending))
	for queue, all := range pending {
		summaries[queue] = e.summarizeQueue(queue, all)
	}
	return summaries
}

// explainer keeps what all queues ask of a cluster.
type explainer struct {
	cluster *Cluster
	// fleet and holders are nil until something waits for them.
	fleet    *Fleet
	holders  *Holders
	subtrees map[string]*subtree
}

// subtree is a queue and those below it, as a list and as a set, with what they use.
type subtree struct {
	queues []string
	has    map[string]bool
	used   map[card.Name]card.Count
}

// subtreeOf returns a queue and those below it. It asks the tree once for each queue.
func (e *explainer) subtreeOf(queue string) *subtree {
	if known, isKnown := e.subtrees[queue]; isKnown {
		return known
	}

	found := &subtree{queues: e.cluster.Tree.Below(queue), has: map[string]bool{}, used: map[card.Name]card.Count{}}
	for _, below := range found.queues {
		found.has[below] = true
		for name, count := range e.cluster.Used[below] {
			found.used[name] = found.used[name].Add(count)
		}
	}

	e.subtrees[queue] = found
	return found
}

// queuesBelow returns a queue and those below it.
func (e *explainer) queuesBelow(queue string) []string { return e.subtreeOf(queue).queues }

// explainPending returns what waits in a queue and why, one entry for each workload, card and reason. Volcano
// tries only the first pod of a role and says nothing about the next ones, so they wait for the same
// reason.
//
// Tenants can write the conditions of their pods. So a stated ancestor counts only if the tree has
// it above the queue. Otherwise a forged one would reveal who uses the cards of any queue.
func (e *explainer) explainPending(queue string, all []Pending) entrySet {
	set := entrySet{}
	groups := siblingsOf(all)
	for i := range all {
		pending := &all[i]
		group := groups[workloadCard{pending.Entry.Workload, pending.Entry.Card}]
		added := entry{BlockedStatus: pending.Entry, names: pending.Request.Names, helpful: e.withQuotaLeft(queue, &pending.Request)}
		stated := pending.Stated
		if stated.IsSilent() && group.cause != nil {
			stated = group.cause.Stated
			added.Message = group.cause.Entry.Message
		}

		// Free cards without quota do not help, and neither do those that other pods of the gang will take.
		request := pending.Request
		request.Names = added.helpful
		request.Taken = group.taken

		added.Reason = ReasonFor(stated, &request, e.countFleet)
		if added.Reason == v1alpha1.BlockedAncestorQuotaExhausted {
			if above := stated.FirstRefusal().Queue; e.subtreeOf(above).has[queue] {
				added.ancestor = above
			}
		}
		set.add(added)
	}

	set.setTimeOfGangs()
	return set
}

// summarizeQueue returns what waits in a queue, and for one of LocalQueues also what waits in each namespace.
func (e *explainer) summarizeQueue(queue string, all []Pending) Summary {
	set := e.explainPending(queue, all)
	listed := e.listEntries(queue, set.list())
	s := Summary{
		Blocked: listed.Blocked, BlockedTotal: listed.Total,
		BlockedCards: set.cardsByReason(), OldestWithinQuota: set.oldestWithinQuota(e.cluster.Quotas[queue]),
	}

	if e.cluster.LocalQueues[queue] {
		s.Local = map[string]Entries{}
		for namespace, entries := range set.byNamespace() {
			s.Local[namespace] = e.listEntries(queue, entries)
		}
	}

	return s
}

// listEntries returns the entries of a queue that have waited longest, or all with ListsAllBlocked, with the holders
// of their cards. It sorts the given entries.
func (e *explainer) listEntries(queue string, entries []entry) Entries {
	slices.SortFunc(entries, func(a, b entry) int { return CompareBlocked(a.BlockedStatus, b.BlockedStatus) })
	out := Entries{Total: countWorkloads(entries)}
	if !e.cluster.ListsAllBlocked {
		entries = entries[:min(len(entries), MaxBlocked)]
	}

	for _, entry := range entries {
		entry.Holders = e.holdersFor(queue, &entry)
		out.Blocked = append(out.Blocked, entry.BlockedStatus)
	}

	return out
}

// holdersFor returns who uses the cards that an entry of a queue waits for: in the queue or below the ancestor whose
// quota is exhausted, or anywhere if no card is free. Other reasons are not about cards that others use.
func (e *explainer) holdersFor(queue string, blocked *entry) []v1alpha1.CardHolder {
	switch blocked.Reason {
	case v1alpha1.BlockedQuotaExhausted:
		return e.listHolders().InQueue(queue, blocked.names)
	case v1alpha1.BlockedAncestorQuotaExhausted:
		if blocked.ancestor != "" {
			return e.listHolders().InSubtree(blocked.ancestor, e.queuesBelow, blocked.names)
		}
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented:
		if e.cluster.HiddenFleet == nil {
			return e.listHolders().Anywhere(blocked.helpful)
		}
	}

	return nil
}

// withQuotaLeft returns the cards of a request for which a queue, and those above it, have quota left.
// Free cards of another name would not help. Without any such card it returns all of them: then the
// scheduler states whose quota is exhausted, or the queue has no CardQuota.
//
// A job without pods may use several names, so any quota left of one counts.
func (e *explainer) withQuotaLeft(queue string, request *Request) []card.Name {
	if len(request.Names) < 2 || e.cluster.Quotas[queue] == nil { // the result is the same, whatever is left
		return request.Names
	}

	least := request.Count
	if request.IsJob {
		least = 1
	}

	path := append([]string{queue}, e.cluster.Tree.WrittenAncestors(queue)...)
	var left []card.Name
	for _, name := range request.Names {
		if e.hasQuotaLeft(path, name, least) {
			left = append(left, name)
		}
	}

	if left == nil {
		return request.Names
	}

	return left
}

// hasQuotaLeft reports whether each of some queues has quota left for so many of a card. What the queues below use counts
// too. A queue without a CardQuota limits nothing here.
func (e *explainer) hasQuotaLeft(queues []string, name card.Name, count card.Count) bool {
	for _, queue := range queues {
		if granted, isKnown := e.cluster.Quotas[queue]; isKnown && granted[name] < e.subtreeOf(queue).used[name].Add(count) {
			return false
		}
	}
	return true
}

// countFleet returns the free cards of all nodes: those that neither placed nor terminating pods use. It counts them
// once, and only if something waits for them.
func (e *explainer) countFleet() *Fleet {
	if e.fleet != nil {
		return e.fleet
	}

	used := map[NodeCard]card.Count{}
	for _, pods := range [][]ChargedPod{e.cluster.Charged, e.cluster.Terminating} {
		for i := range pods {
			for _, amount := range pods[i].Charge.Cards {
				key := NodeCard{Node: pods[i].Pod.Spec.NodeName, Name: amount.Name}
				used[key] = used[key].Add(amount.Count)
			}
		}
	}

	e.fleet = NewFleet(e.cluster.Inventory, e.cluster.Nodes, used)
	return e.fleet
}

// listHolders returns the workloads that use cards. It lists them once, and only if an entry
// shows some.
func (e *explainer) listHolders() *Holders {
	if e.holders != nil {
		return e.holders
	}

	e.holders = &Holders{}
	types := map[string]string{} // by queue
	for i := range e.cluster.Charged {
		pod := &e.cluster.Charged[i]
		queue := pod.Charge.Queue
		if _, isKnown := types[queue]; !isKnown {
			types[queue] = servicetype.DisplayName(e.cluster.ServiceTypes[queue])
		}
		for _, amount := range pod.Charge.Cards {
			e.holders.Add(*pod.Workload, queue, types[queue], amount.Name, amount.Count)
		}
	}

	return e.holders
}
