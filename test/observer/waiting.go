package observer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// maxBlocked is how many entries status.blocked has at most.
const maxBlocked = 10

// listsAllBlocked reports whether status.blocked has room for more than it lists.
func listsAllBlocked(entries []v1alpha1.BlockedStatus) bool { return len(entries) < maxBlocked }

// waitingWorkload is a recount of what waits of one workload.
type waitingWorkload struct {
	// count is for how many cards it waits, by the cards as the user writes them. Those of a job without
	// pods, and of pods that can never run, are under "".
	count map[string]int64
	// isStated reports whether one of its pods, or its PodGroup, states why. Otherwise it may be listed.
	isStated bool
}

// waitingWorkloads are what waits in one queue.
type waitingWorkloads map[v1alpha1.WorkloadReference]*waitingWorkload

func (w waitingWorkloads) add(workload v1alpha1.WorkloadReference, cards string, count int64, isStated bool) {
	if w[workload] == nil {
		w[workload] = &waitingWorkload{count: map[string]int64{}}
	}
	w[workload].isStated = w[workload].isStated || isStated
	w[workload].count[cards] += count
}

// waitingIn recounts what waits in a queue, and may be listed in status.blocked. A pod that states
// nothing, and has no PodGroup that does, is not listed, so the scheduler has not tried it.
func (m *clusterState) waitingIn(queue string) waitingWorkloads {
	out := waitingWorkloads{}
	for _, state := range m.pods {
		if !m.isWaitingIn(state, queue) {
			continue
		}

		request := rule.RequestOf(state.pod, m.inventory)
		cards := cmp.Or(strings.Join(request.Named, "|"), string(request.Resource))
		if request.Denial != "" || request.Count == 0 {
			cards = ""
		}

		isStated := podHasCondition(state.pod) || groupHasCondition(m.groupOf(state.pod)) || m.lacksPodGroup(state.pod)
		if isStated || request.Denial != "" {
			out.add(referenceTo(state.pod, "", "Pod"), cards, request.Count, isStated)
		}
	}

	m.addGroupsWithoutPods(out, queue)
	return out
}

// lacksPodGroup reports whether a pod names a PodGroup that does not exist.
func (m *clusterState) lacksPodGroup(pod *corev1.Pod) bool {
	return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] != "" && m.groupOf(pod) == nil
}

// addGroupsWithoutPods adds the PodGroups that wait in a queue and have no pods yet.
func (m *clusterState) addGroupsWithoutPods(out waitingWorkloads, queue string) {
	peopled := m.groupsWithPods()
	for key, state := range m.groups {
		if peopled[key] || !isGroupWaiting(state.group) || rule.QueueOfGroup(state.group) != queue || !m.isShownIn(queue, key.Namespace) {
			continue
		}

		count := int64(0)
		for _, announced := range m.announcedRequests(state.group) {
			count += announced.count
		}
		if isStated := groupHasCondition(state.group); isStated || state.group.Annotations[v1alpha1.AnnotationCardRequest] != "" {
			out.add(referenceTo(state.group, v1beta1.GroupName, "PodGroup"), "", count, isStated)
		}
	}
}

func podHasCondition(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}

func groupHasCondition(group *v1beta1.PodGroup) bool {
	return group != nil && slices.ContainsFunc(group.Status.Conditions, func(c v1beta1.PodGroupCondition) bool {
		return c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue
	})
}

// referenceTo returns the controller of a pod or PodGroup, the Deployment of a ReplicaSet, or the object.
func referenceTo(object metav1.Object, group, kind string) v1alpha1.WorkloadReference {
	out := v1alpha1.WorkloadReference{APIGroup: group, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return out
	}

	out.APIGroup = ""
	out.Kind = owner.Kind
	out.Name = owner.Name
	if before, _, ok := strings.Cut(owner.APIVersion, "/"); ok {
		out.APIGroup = before
	}

	if hash := object.GetLabels()["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(owner.Name, "-"+hash) {
		out.Kind = "Deployment"
		out.Name = strings.TrimSuffix(owner.Name, "-"+hash)
	}

	return out
}

// waitingRecount is what waits in the queue of a CardQuota and, in a tree, in those below it.
type waitingRecount struct {
	// workloads have the sums of all these queues.
	workloads waitingWorkloads
	// least and most are how many there are, by namespace and under "" in all: those that state why,
	// and also those that may be listed. Each queue counts for itself.
	least, most map[string]int
}

func (m *clusterState) recountWaiting(queue string) waitingRecount {
	out := waitingRecount{workloads: waitingWorkloads{}, least: map[string]int{}, most: map[string]int{}}
	for _, below := range m.subtreeOf(queue) {
		for workload, waiting := range m.waitingIn(below) {
			for cards, count := range waiting.count {
				out.workloads.add(workload, cards, count, waiting.isStated)
			}

			for _, namespace := range []string{"", workload.Namespace} {
				out.most[namespace]++
				if waiting.isStated {
					out.least[namespace]++
				}
			}
		}
	}

	return out
}

// totalDifference returns how a total of what waits in a namespace, or in all for "", differs from the
// recount.
func (r *waitingRecount) totalDifference(what string, said int32, namespace string) string {
	least := r.least[namespace]
	most := r.most[namespace]
	if int(said) < least || int(said) > most {
		return fmt.Sprintf("%s is %d, a recount gives %d to %d", what, said, least, most)
	}
	return ""
}

// listDifference returns how entries differ from what waits in a namespace, or in all for "": a list that
// is not full has every workload that states why, with all cards for which it waits.
func (r *waitingRecount) listDifference(entries []v1alpha1.BlockedStatus, namespace string) string {
	listed := waitingWorkloads{}
	for i := range entries {
		listed.add(entries[i].Workload, entries[i].Card, entries[i].Count, true)
	}

	if len(entries) > maxBlocked {
		return fmt.Sprintf("it lists %d entries", len(entries))
	}

	for _, workload := range sortedWorkloads(listed) {
		if r.workloads[workload] == nil {
			return fmt.Sprintf("it lists %s, which does not wait", formatWorkload(workload))
		}
	}

	if !listsAllBlocked(entries) {
		return ""
	}

	return r.workloadsDifference(listed, namespace)
}

// workloadsDifference returns which workload of a namespace, or of all for "", is not listed although it
// states why it waits, or is listed with other cards.
func (r *waitingRecount) workloadsDifference(listed waitingWorkloads, namespace string) string {
	for _, workload := range sortedWorkloads(r.workloads) {
		waits := r.workloads[workload]
		said := listed[workload]
		switch {
		case namespace != "" && workload.Namespace != namespace:
		case said == nil && waits.isStated:
			return fmt.Sprintf("it does not list %s", formatWorkload(workload))
		case said != nil:
			if difference := countDifference(said.count, waits.count); difference != "" {
				return formatWorkload(workload) + ": " + difference
			}
		}
	}

	return ""
}

// countDifference compares for how many cards a workload waits. Only the sum is known of a job without
// pods, and of pods that can never run.
func countDifference(said, counted map[string]int64) string {
	saidSum := int64(0)
	sum := int64(0)
	for _, count := range said {
		saidSum += count
	}

	for cards, count := range counted {
		sum += count
		if cards != "" && said[cards] < count {
			return fmt.Sprintf("it waits for %d %s, a recount gives %d", said[cards], cards, count)
		}
	}

	if saidSum != sum {
		return fmt.Sprintf("it waits for %d cards, a recount gives %d", saidSum, sum)
	}

	return ""
}

func sortedWorkloads(all waitingWorkloads) []v1alpha1.WorkloadReference {
	return slices.SortedFunc(maps.Keys(all), func(a, b v1alpha1.WorkloadReference) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

func formatWorkload(w v1alpha1.WorkloadReference) string {
	return w.Kind + " " + w.Namespace + "/" + w.Name
}

// waitingDifference returns how status.blocked and its total differ from a recount.
func (m *clusterState) waitingDifference(quota *v1alpha1.CardQuota) string {
	if m.ignoresWaiting || m.ownerOf(quota.QueueName()) != quota {
		return ""
	}
	counted := m.recountWaiting(quota.QueueName())
	return cmp.Or(counted.totalDifference("blockedTotal", quota.Status.BlockedTotal, ""), counted.listDifference(quota.Status.Blocked, ""))
}

// waitingDifferences returns how what a view says of its namespace, and of the others, differs from a
// recount.
func (m *clusterState) waitingDifferences(view *v1alpha1.LocalCardQuota, quota *v1alpha1.CardQuota) (wrong []string) {
	if m.ignoresWaiting {
		return nil
	}

	counted := m.recountWaiting(quota.QueueName())
	status := view.Status
	for _, difference := range []string{
		counted.totalDifference("blockedTotal", status.BlockedTotal, view.Namespace),
		counted.totalDifference("the sum of blockedTotal and blockedElsewhere", status.BlockedTotal+status.BlockedElsewhere, ""),
		counted.listDifference(status.Blocked, view.Namespace),
	} {
		if difference != "" {
			wrong = append(wrong, difference)
		}
	}

	return wrong
}

// withQuotaLeft returns the cards of an entry for which its queue, and those above it, have quota left for
// one of its pods. Without any it returns all: free cards decide only where quota suffices.
func (m *clusterState) withQuotaLeft(entry *v1alpha1.BlockedStatus, cards []string) []string {
	isLeft := map[string]bool{}
	consider := func(queue string, names []string, count int64) {
		for _, card := range names {
			isLeft[card] = isLeft[card] || m.ownerOf(queue) == nil || m.hasQuotaLeft(queue, card, count)
		}
	}

	m.forEachRequestOf(entry, cards, consider)
	left := slices.DeleteFunc(slices.Clone(cards), func(card string) bool { return !isLeft[card] })
	if len(left) == 0 {
		return cards
	}

	return left
}

// forEachRequestOf calls consider for everything that waits of an entry: pods, and PodGroups without
// pods.
func (m *clusterState) forEachRequestOf(entry *v1alpha1.BlockedStatus, cards []string, consider func(queue string, names []string, count int64)) {
	for _, state := range m.pods {
		if state.pod.Spec.SchedulerName != m.options.SchedulerName || !rule.IsWaiting(state.pod) || referenceTo(state.pod, "", "Pod") != entry.Workload {
			continue
		}
		if request := rule.RequestOf(state.pod, m.inventory); cmp.Or(strings.Join(request.Named, "|"), string(request.Resource)) == entry.Card {
			consider(rule.QueueOf(state.pod, m.groupOf(state.pod), ""), request.Cards, request.Count)
		}
	}

	peopled := m.groupsWithPods()
	for key, state := range m.groups {
		if !peopled[key] && isGroupWaiting(state.group) && referenceTo(state.group, v1beta1.GroupName, "PodGroup") == entry.Workload {
			consider(rule.QueueOfGroup(state.group), cards, 1) // a job may use several cards
		}
	}
}

// hasQuotaLeft reports whether a queue, and those above it in a tree, have quota left for so many of a
// card.
func (m *clusterState) hasQuotaLeft(queue, card string, count int64) bool {
	if !m.options.Tree || m.currentTree().Queue(queue) == nil {
		limits := rule.Limits{}
		if object := m.queues[queue]; object != nil {
			limits = rule.LimitsOf(object, m.options.Unmanaged)
		}
		return limits.AnyCard || m.usage(queue).Cards[card]+count <= limits.Cards[card]
	}

	return !slices.ContainsFunc(m.currentTree().PathOf(queue), func(name string) bool {
		at := m.currentTree().Queue(name)
		return at != nil && !at.AnyCard && m.usageOf(m.subtreeOf(name)).Cards[card]+count > at.Cards[card]
	})
}

// isWaitingIn reports whether a pod of our scheduler waits in a queue that shows it.
func (m *clusterState) isWaitingIn(state *podState, queue string) bool {
	isHere := state.pod.Spec.SchedulerName == m.options.SchedulerName && rule.IsWaiting(state.pod) && rule.QueueOf(state.pod, m.groupOf(state.pod), "") == queue
	return isHere && m.isShownIn(queue, state.pod.Namespace)
}
