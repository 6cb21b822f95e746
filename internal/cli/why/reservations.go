package why

import (
	"cmp"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// gangPods are the pods of a PodGroup that have not finished.
type gangPods struct {
	// all and placed count them.
	all, placed int
	// pending is what those request that wait.
	pending []cardDemand
	// reference is that of one of them.
	reference v1alpha1.WorkloadReference
}

// cardDemand is how many cards a pod requests, and which ones it may use.
type cardDemand struct {
	names []card.Name
	count card.Count
}

// missingMinimum returns what the pods request that the gang lacks for its minimum: the smallest ones, as
// the scheduler has it.
func (g *gangPods) missingMinimum(group *v1beta1.PodGroup) []cardDemand {
	missing := int(group.Spec.MinMember-group.Status.Succeeded) - g.placed
	bySize := func(a, b cardDemand) int { return cmp.Compare(a.count, b.count) }
	return slices.SortedStableFunc(slices.Values(g.pending), bySize)[:max(0, min(missing, len(g.pending)))]
}

// countGangPods returns the unfinished pods of each PodGroup. Who may not list everything gets all of the
// namespace, which has all pods of its PodGroups.
func (w *inputReader) countGangPods() map[client.ObjectKey]*gangPods {
	pods := w.loaded.Pods
	if !w.loaded.IsComplete {
		pods = w.found.namespacePods
	}

	gangs := map[client.ObjectKey]*gangPods{}
	for _, pod := range pods {
		key := client.ObjectKey{Namespace: pod.Namespace, Name: workload.PodGroupName(pod)}
		gang := gangs[key]
		if gang == nil {
			gang = &gangPods{reference: workload.ReferenceFor(pod)}
			gangs[key] = gang
		}

		gang.all++
		if workload.IsAssigned(pod) {
			gang.placed++
		}

		if workload.IsPending(pod) {
			request := w.resolver.Request(pod)
			gang.pending = append(gang.pending, cardDemand{request.Names, request.Count})
		}
	}

	return gangs
}

// setGang sets how many pods the gang of the requester has. Who may not read its PodGroup knows what the
// scheduler says.
func (w *inputReader) setGang(gangs map[client.ObjectKey]*gangPods) {
	if w.requester == nil {
		return
	}

	if len(w.input.Entries) > 0 {
		w.input.Gang.Pods, w.input.Gang.Minimum = waiting.GangCounts(w.input.Entries[0].Message)
	}

	name := workload.PodGroupName(w.requester)
	group := w.found.groups[name]
	gang := gangs[client.ObjectKey{Namespace: w.requester.Namespace, Name: name}]
	if group != nil && gang != nil {
		w.input.Gang = explanation.Gang{Minimum: int(group.Spec.MinMember), Pods: gang.all + int(group.Status.Succeeded)}
	}
}

// setOrphans sets which pods name a PodGroup that does not exist. Who may not list PodGroups knows it only
// by the reason of the entry.
func (w *inputReader) setOrphans() {
	isStated := len(w.input.Entries) > 0 && w.input.Entries[0].Reason == v1alpha1.BlockedPodGroupNotFound
	if len(w.input.Orphans) > 0 || (!w.found.knowsGroups && !isStated) {
		return
	}

	for _, pod := range w.found.pods {
		name := workload.PodGroupName(pod)
		isOrphan := workload.IsPending(pod) && name != "" && w.found.groups[name] == nil
		if isOrphan && !waiting.MayAwaitPodGroup(pod, w.input.Now) {
			w.input.Orphans = append(w.input.Orphans, pod.Name)
			w.input.OrphanGroups = append(w.input.OrphanGroups, name)
		}
	}

	slices.Sort(w.input.Orphans)
	slices.Sort(w.input.OrphanGroups)
	w.input.OrphanGroups = slices.Compact(w.input.OrphanGroups)
}

// setReservations sets which enqueued jobs wait for cards that the request may use, in the queue that
// refuses and those below it.
func (w *inputReader) setReservations(gangs map[client.ObjectKey]*gangPods) {
	groups := w.loaded.PodGroups
	if !w.loaded.IsComplete {
		groups = nil
		for _, group := range w.found.groups {
			groups = append(groups, group)
		}
	}

	for _, group := range groups {
		if !mayReserve(group) || w.isOwnGroup(group) || !w.sharesQuota(workload.PodGroupQueue(group)) {
			continue
		}
		if found, any := w.reservationOf(group, gangs[client.ObjectKeyFromObject(group)]); any {
			w.input.Reservations = append(w.input.Reservations, found)
		}
	}

	slices.SortFunc(w.input.Reservations, func(a, b explanation.Reservation) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), waiting.CompareWorkloads(&a.Workload, &b.Workload), cmp.Compare(a.PodGroup, b.PodGroup))
	})
}

// mayReserve reports whether the scheduler reserves what a PodGroup waits for.
func mayReserve(group *v1beta1.PodGroup) bool {
	switch group.Status.Phase {
	case v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning, v1beta1.PodGroupUnknown:
		return group.DeletionTimestamp == nil
	}
	return false
}

func (w *inputReader) isOwnGroup(group *v1beta1.PodGroup) bool {
	if group.Namespace != w.input.Workload.Namespace {
		return false
	}
	isOwn := workload.ControllerReference(group, v1beta1.GroupName, "PodGroup") == w.input.Workload
	return isOwn || group.Name == w.input.PodGroup || (w.found.group != nil && group.Name == w.found.group.Name)
}

// sharesQuota reports whether a queue uses the quota that refuses the workload, or that of its own queue.
func (w *inputReader) sharesQuota(queue string) bool {
	refusing := w.input.Queue
	if len(w.input.Entries) > 0 {
		if statedReason := waiting.ReadStatedReason("", w.input.Entries[0].Message, ""); statedReason.Refusal != nil {
			refusing = cmp.Or(statedReason.Refusal.QuotaQueue(), refusing)
		}
	}
	isRefusing := func(quota *v1alpha1.CardQuota) bool { return quota.QueueName() == refusing }
	return queue == refusing || slices.ContainsFunc(w.pathOf(queue), isRefusing)
}

// reservationOf returns for how many cards of the request an enqueued job still waits to have its minimum.
// The scheduler reserves no more for it. gang is nil for a PodGroup without pods.
func (w *inputReader) reservationOf(group *v1beta1.PodGroup, gang *gangPods) (explanation.Reservation, bool) {
	found := explanation.Reservation{Workload: workload.ControllerReference(group, v1beta1.GroupName, "PodGroup"), PodGroup: group.Name, HasPods: gang != nil}
	if gang == nil {
		if group.Status.Phase != v1beta1.PodGroupInqueue {
			return found, false
		}
		total, isWritten := workload.CardRequestAnnotation(group)
		request, _ := w.resolver.PodGroupRequest(total, isWritten, group.Spec.MinResources)
		for _, part := range request.Cards {
			w.addReserved(&found, part.Names, part.Count)
		}

		return found, found.Count > 0
	}

	found.Workload = gang.reference
	for _, part := range gang.missingMinimum(group) {
		w.addReserved(&found, part.names, part.count)
	}

	return found, found.Count > 0
}

// addReserved adds cards that the request may use, too. It names those only: a job that names no card may have
// any.
func (w *inputReader) addReserved(found *explanation.Reservation, names []card.Name, count card.Count) {
	isOther := func(name card.Name) bool { return !slices.Contains(w.input.Request.Names, name) }
	shared := slices.DeleteFunc(slices.Clone(names), isOther)
	if len(shared) == 0 {
		return
	}

	found.Count += int64(count)
	found.Card = cmp.Or(found.Card, card.NewRequest(shared...).String())
}
