package cli

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/explanation"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// countPods counts the pods by what they wait for, and sets what one of them requests.
func (w *whyReader) countPods() {
	for _, pod := range w.found.pods {
		switch {
		case workload.IsPending(pod):
			w.input.Pending++
			if created := pod.CreationTimestamp.Time; w.input.Created.IsZero() || created.Before(w.input.Created) {
				w.input.Created = created
			}
		case pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) > 0:
			w.input.Gated++
		case workload.IsAssigned(pod):
			w.input.Placed++
		}
	}

	if len(w.found.pods) == 0 && isJobWaiting(w.found.group) {
		w.input.Pending = 1
	}

	w.setRequest(w.shownCard())
}

// cardOf returns the cards of a pod as status.blocked has them: those that it names, else its resource.
func (w *whyReader) cardOf(pod *corev1.Pod) string {
	request := w.resolver.Request(pod)
	if request.Named.AllowsAny() {
		return string(request.Resource)
	}
	return request.Named.String()
}

// pendingCards returns the cards of the pods that wait, "" for a pod without cards.
func (w *whyReader) pendingCards() []string {
	var cards []string
	for _, pod := range w.found.pods {
		if workload.IsPending(pod) {
			cards = append(cards, w.cardOf(pod))
		}
	}
	return cards
}

// shownCard returns the cards that the explanation is about: those of its entry, else those of the
// first pod that requests any.
func (w *whyReader) shownCard() string {
	if len(w.input.Entries) > 0 {
		return w.input.Entries[0].Card
	}
	for _, asked := range w.pendingCards() {
		if asked != "" {
			return asked
		}
	}
	return ""
}

// setRequest sets what the waiting pod requests that the entry is about: one with these cards, of these
// one for which the scheduler states what it lacks. If none has them, it is the first waiting pod, or the
// job without pods.
func (w *whyReader) setRequest(asked string) {
	var chosen *corev1.Pod
	best := -1
	for _, pod := range w.found.pods {
		if rank := w.rankOf(pod, asked); workload.IsPending(pod) && rank > best {
			chosen = pod
			best = rank
		}
	}

	switch {
	case chosen != nil:
		w.setPodRequest(chosen)
	case w.input.Pending > 0:
		w.setJobRequest(asked)
	}
}

// rankOf returns how well a pod fits the first entry: its cards count most, then how many of them the
// scheduler refuses, then that it is its own message.
func (w *whyReader) rankOf(pod *corev1.Pod, asked string) (rank int) {
	if w.cardOf(pod) != asked {
		return 0
	}

	rank = 4
	if len(w.input.Entries) == 0 {
		return rank
	}

	message := w.input.Entries[0].Message
	if refused := statedRequest(message); refused > 0 && refused == int64(w.resolver.Request(pod).Count) {
		rank += 2
	}

	for _, condition := range pod.Status.Conditions {
		if isOwn := condition.Type == corev1.PodScheduled && condition.Message != ""; isOwn && strings.HasSuffix(message, condition.Message) {
			rank++
		}
	}

	return rank
}

// statedRequest returns how many cards the scheduler refuses at once, 0 if it does not say so.
func statedRequest(message string) int64 {
	statedReason := blocked.ReadStatedReason("", message, "")
	switch {
	case statedReason.Refusal != nil:
		return statedReason.Refusal.Requested
	case len(statedReason.NodeRefusals) > 0:
		return statedReason.NodeRefusals[0].Requested
	}
	return 0
}

// setJobRequest sets what a job without pods requests.
func (w *whyReader) setJobRequest(asked string) {
	_, isWritten := workload.CardRequestAnnotation(w.found.group)
	why, _ := cardquota.PodGroupPendingReason(w.found.group)
	request, _ := blocked.GroupRequest(&w.resolver, w.found.group, why.Message)
	w.input.Request = explanation.Request{PriorityClass: w.found.group.Spec.PriorityClassName, MilliCPU: request.MilliCPU, Memory: request.Memory, IsJob: true, IsAnyCard: !isWritten}
	for i, demand := range request.Cards {
		if i == 0 || card.NewRequest(demand.Names...).String() == asked {
			w.input.Request.Names = demand.Names
			w.input.Request.Count = demand.Count
		}
	}
}

// setPodRequest sets what a pod requests.
func (w *whyReader) setPodRequest(pod *corev1.Pod) {
	request := w.resolver.Request(pod)
	w.input.Request = explanation.Request{
		Names: request.Names, Resource: string(request.Resource), Count: request.Count, PriorityClass: pod.Spec.PriorityClassName, MilliCPU: request.MilliCPU, Memory: request.Memory, IsAnyCard: request.Named.AllowsAny(),
	}

	if pod.Spec.Priority != nil {
		w.input.Request.Priority = *pod.Spec.Priority
	}

	w.input.Request.TakesNone = pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	w.input.PodGroup = workload.PodGroupName(pod)
	w.addGangRequest(w.found.groups[workload.PodGroupName(pod)], request.Resource)
	w.requester = pod
	if !w.resolver.UsesOurScheduler(pod) {
		w.input.OtherScheduler = pod.Spec.SchedulerName
	}
}

// setObstacles sets which nodes refuse the pod whose request was set last. It sums up all pods.
func (w *whyReader) setObstacles() {
	if w.requester != nil && w.loaded.isComplete {
		w.input.Obstacles = explanation.FindObstacles(w.requester, w.loaded.nodes, w.loaded.pods)
	}
}

// addGangRequest sets what the quota must have for the pod to start. Until the scheduler admits a
// PodGroup, that is the request of the whole PodGroup. resource is the card resource of the pod.
func (w *whyReader) addGangRequest(group *v1beta1.PodGroup, resource corev1.ResourceName) {
	if group == nil || (group.Status.Phase != v1beta1.PodGroupPending && group.Status.Phase != "") {
		return
	}

	total, written := workload.CardRequestAnnotation(group)
	request, _ := w.resolver.PodGroupRequest(total, written, group.Spec.MinResources)
	own := &w.input.Request
	own.MilliCPU = max(own.MilliCPU, request.MilliCPU)
	own.Memory = max(own.Memory, request.Memory)

	for _, demand := range request.Cards {
		if slices.Equal(demand.Names, own.Names) {
			own.GangCount = demand.Count
			own.MinimumCount = demand.Count
			if group.Spec.MinResources != nil {
				own.MinimumCount = min(demand.Count, card.NewCount((*group.Spec.MinResources)[resource]))
			}
		}
	}
}

// findEntries sets why the workload waits: its entries in the status of the CardQuota, else what they
// would be. The status has ten entries at most. Those of the pods that the user asks for come first.
func (w *whyReader) findEntries() {
	var blocked []v1alpha1.BlockedStatus
	if len(w.input.Path) > 0 {
		blocked = w.input.Path[0].Status.Blocked
	}

	if w.input.Pending == 0 {
		return
	}

	asked := w.pendingCards()
	isAsked := func(b v1alpha1.BlockedStatus) bool {
		// Without the nodes no resource is known to be a card, and the request of such a pod has none.
		return len(asked) == 0 || slices.Contains(asked, b.Card) || (!w.loaded.isComplete && slices.Contains(asked, ""))
	}

	for _, entry := range blocked {
		if entry.Workload == w.input.Workload {
			w.input.Entries = append(w.input.Entries, entry)
		}
	}

	var counted []v1alpha1.BlockedStatus
	isListed := slices.ContainsFunc(w.input.Entries, isAsked)
	if !isListed || len(w.input.Entries) > 1 {
		counted = w.countEntries()
	}

	if !isListed {
		w.input.Entries = append(w.input.Entries, counted...)
	}

	slices.SortStableFunc(w.input.Entries, func(a, b v1alpha1.BlockedStatus) int {
		return w.entryRank(a, isAsked(a), counted) - w.entryRank(b, isAsked(b), counted)
	})
	w.countWaitLonger(blocked)
}

// countEntries returns the entries that the workload would have, and sets the request to that of the last one.
func (w *whyReader) countEntries() []v1alpha1.BlockedStatus {
	var counted []v1alpha1.BlockedStatus
	for _, entry := range w.countBlocked() {
		if entry.Workload == w.input.Workload {
			w.setRequest(entry.Card)
			counted = append(counted, w.withoutGuess(entry))
		}
	}
	return counted
}

// entryRank returns the place of an entry in the explanation. A user who asks for one pod gets its own
// entry first, as counted. Otherwise the entry of pods that only wait for others of their gang is the
// last one, because the others say what would help.
func (w *whyReader) entryRank(b v1alpha1.BlockedStatus, isAsked bool, counted []v1alpha1.BlockedStatus) int {
	isOwn := len(w.found.pods) == 1 && slices.ContainsFunc(counted, func(own v1alpha1.BlockedStatus) bool {
		return own.Message == b.Message || (own.Card == b.Card && own.Reason == b.Reason)
	})

	switch {
	case !isAsked:
		return 4
	case isOwn:
		return 0
	case b.Reason == v1alpha1.BlockedGangIncomplete:
		return 3
	case b.Card == "":
		return 2
	default:
		return 1
	}
}

// countWaitLonger counts the entries of other workloads that have waited longer. A LocalCardQuota lists
// the workloads of one namespace only.
func (w *whyReader) countWaitLonger(blocked []v1alpha1.BlockedStatus) {
	if len(w.input.Entries) == 0 || len(w.input.Path) == 0 || w.input.Path[0].Namespace != "" {
		return
	}
	w.input.WaitLonger = 0
	for _, entry := range blocked {
		if entry.Workload != w.input.Workload && entry.Since.Before(&w.input.Entries[0].Since) {
			w.input.WaitLonger++
		}
	}
}

// withoutGuess returns an entry without a reason that depends on the free cards of nodes, if those are
// unknown. The scheduler's message is in the entry anyway.
func (w *whyReader) withoutGuess(entry v1alpha1.BlockedStatus) v1alpha1.BlockedStatus {
	switch entry.Reason {
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedNodesUnsuitable:
		if w.loaded.isComplete {
			break
		}

		entry.Reason = v1alpha1.BlockedOther
		entry.Holders = nil
		if w.input.LacksFreeCards() {
			entry.Reason = v1alpha1.BlockedNoFreeCard
		}
	}
	return entry
}

// countBlocked counts the entries of the workload by the rules of the operator. Other waiting pods are
// left out, because the count lists the ten oldest. Without the right to list everything, the pods of
// the workload alone decide; then reasons that need free cards are less exact.
func (w *whyReader) countBlocked() []v1alpha1.BlockedStatus {
	pods := slices.Clone(w.found.pods)
	own := map[types.UID]bool{}
	named := map[string]bool{}
	for _, pod := range w.found.pods {
		own[pod.UID] = true
		named[workload.PodGroupName(pod)] = true
	}

	if w.loaded.isComplete {
		for _, pod := range w.loaded.pods {
			if workload.MayBeRunning(pod) && !own[pod.UID] {
				pods = append(pods, pod)
			}
		}
	}

	var groups []*v1beta1.PodGroup
	if w.found.group != nil && len(w.found.pods) == 0 {
		groups = append(groups, w.found.group)
	}

	for _, group := range w.found.groups {
		if named[group.Name] {
			groups = append(groups, group)
		}
	}

	var tree *cardquota.Tree // nil while queues are flat
	if policy.IsTree(w.input.Policy) {
		tree = cardquota.NewTree(w.quotas, nil, w.input.Policy.Spec.UnmanagedQueues)
	}

	types := map[string]string{}
	quotas := map[string]card.Quota{}
	for _, q := range w.quotas {
		types[q.QueueName()] = q.Spec.ServiceType
		quotas[q.QueueName()] = tree.QuotaFor(q)
	}

	usage := cardquota.CountUsage(cardquota.CountInput{
		Pods: pods, PodGroups: groups, Inventory: w.resolver.Inventory, Nodes: w.tracker.Nodes(), Quotas: quotas, Schedulers: w.resolver.Schedulers, ServiceTypes: types,
		QueuesBelow: tree.QueuesBelow, QueuesAbove: tree.QueuesAbove, LacksPodGroups: !w.found.knowsGroups, Now: w.input.Now,
	})
	return usage[w.input.Queue].Blocked
}
