package why

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// entryList sets the entries of status.blocked that say why the workload waits. Its found.pods are those that the user
// asks for, and loaded is the cluster, complete if the user may list all of it.
type entryList struct{ *inputReader }

// setEntries sets why the workload waits: its entries in the status of the CardQuota. If none of them is
// about the pods that the user asks for, it adds those that countEntries returns. The entries of these pods
// come first.
func (l entryList) setEntries() {
	if l.input.Pending == 0 {
		return
	}

	var blocked []v1alpha1.BlockedStatus // of the CardQuota of its queue, which Path begins with
	if len(l.input.Path) > 0 {
		blocked = l.input.Path[0].Status.Blocked
	}

	// An entry is about the pods that the user asks for if it has the cards of one of them. A job without
	// pods has only its own entries.
	asked := requestChoice(l).pendingCards()
	isAsked := func(b v1alpha1.BlockedStatus) bool {
		// Without the nodes it may be unknown that a resource is a card. Then a pod that requests one and
		// names no card has "" here, and any entry may be its own.
		return len(asked) == 0 || slices.Contains(asked, b.Card) || (!l.loaded.IsComplete && slices.Contains(asked, ""))
	}

	l.input.Entries = slices.DeleteFunc(slices.Clone(blocked), func(b v1alpha1.BlockedStatus) bool { return b.Workload != l.input.Workload })

	// The status is up to a second old and has ten entries at most, so count again where it does not list the pod.
	// Of several entries the count shows which one is that of the pod.
	var counted []v1alpha1.BlockedStatus
	isListed := slices.ContainsFunc(l.input.Entries, isAsked)
	if !isListed || len(l.input.Entries) > 1 {
		counted = l.countEntries()
	}

	if !isListed {
		l.input.Entries = append(l.input.Entries, counted...)
	}

	slices.SortStableFunc(l.input.Entries, func(a, b v1alpha1.BlockedStatus) int {
		return l.entryRank(a, isAsked(a), counted) - l.entryRank(b, isAsked(b), counted)
	})
	l.setWaitLonger(blocked)
}

// entryRank returns the place of an entry in the explanation, 0 for the first. A user who asks for one pod gets its own
// entry first, as counted. Otherwise pods with cards come before those without, and the entry of pods that only wait for
// others of their gang is the last one, because the others say what would help.
func (l entryList) entryRank(b v1alpha1.BlockedStatus, isAsked bool, counted []v1alpha1.BlockedStatus) int {
	isOwn := len(l.found.pods) == 1 && slices.ContainsFunc(counted, func(own v1alpha1.BlockedStatus) bool {
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

// setWaitLonger counts the entries of other workloads that have waited longer. Their number stays unknown where
// the user reads a LocalCardQuota, which lists the workloads of one namespace only.
func (l entryList) setWaitLonger(blocked []v1alpha1.BlockedStatus) {
	if len(l.input.Entries) == 0 || len(l.input.Path) == 0 || l.input.Path[0].Namespace != "" {
		return
	}
	l.input.WaitLonger = 0
	for _, entry := range blocked {
		if entry.Workload != l.input.Workload && entry.Since.Before(&l.input.Entries[0].Since) {
			l.input.WaitLonger++
		}
	}
}

// countEntries returns the entries that the workload would have in status.blocked, by the rules of the
// operator. It counts the pods that the user asks for and the pods that use cards. Other waiting pods are
// left out: the count lists only the ten oldest entries. Without the right to list everything it counts only
// the pods that the user asks for.
func (l entryList) countEntries() []v1alpha1.BlockedStatus {
	pods := slices.Clone(l.found.pods)
	own := map[types.UID]bool{}
	named := map[string]bool{}
	for _, pod := range l.found.pods {
		own[pod.UID] = true
		named[workload.PodGroupName(pod)] = true
	}

	var hidden *waiting.Fleet
	if l.loaded.IsComplete {
		for _, pod := range l.loaded.Pods {
			if workload.MayBeRunning(pod) && !own[pod.UID] {
				pods = append(pods, pod)
			}
		}
	} else { // which nodes have free cards is unknown, only how many there may be at most
		hidden = waiting.NewHiddenFleet(l.resolver.Inventory, l.input.MostFree)
	}

	// A job without pods waits as its PodGroup. Pods wait in the PodGroups that they name.
	var groups []*v1beta1.PodGroup
	if l.found.group != nil && len(l.found.pods) == 0 {
		groups = append(groups, l.found.group)
	}

	for _, group := range l.found.groups {
		if named[group.Name] {
			groups = append(groups, group)
		}
	}

	types := map[string]string{}
	quotas := map[string]card.Quota{}
	for _, q := range l.quotas {
		types[q.QueueName()] = q.Spec.ServiceType
		quotas[q.QueueName()] = l.tree.QuotaFor(q)
	}

	usage := queueusage.Count(queueusage.Input{
		Pods: pods, PodGroups: groups, Inventory: l.resolver.Inventory, Nodes: l.tracker.Nodes(), HiddenFleet: hidden, Quotas: quotas, Schedulers: l.resolver.Schedulers, ServiceTypes: types,
		Tree: l.tree.Queues(), LacksPodGroups: !l.found.knowsGroups, Now: l.input.Now,
	})
	return slices.DeleteFunc(usage[l.input.Queue].Blocked, func(entry v1alpha1.BlockedStatus) bool { return entry.Workload != l.input.Workload })
}
