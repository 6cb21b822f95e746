package why

import (
	"cmp"
	"maps"
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
	// pending is what each of those requests that wait.
	pending []cardDemand
	// reference names the workload of one of them.
	reference v1alpha1.WorkloadReference
}

// cardDemand is how many cards a pod requests, and which ones it may use.
type cardDemand struct {
	names []card.Name
	count card.Count
}

// missingMinimum returns what the pods request that the gang lacks for its minimum: the smallest ones, because
// the scheduler reserves no more.
func (g *gangPods) missingMinimum(group *v1beta1.PodGroup) []cardDemand {
	missing := int(group.Spec.MinMember-group.Status.Succeeded) - g.placed
	bySize := func(a, b cardDemand) int { return cmp.Compare(a.count, b.count) }
	return slices.SortedStableFunc(slices.Values(g.pending), bySize)[:max(0, min(missing, len(g.pending)))]
}

// countGangPods returns the unfinished pods of each PodGroup. A user who may not list everything gets those of the
// namespace, which has all pods of its PodGroups. Pods without a PodGroup share an entry that is never looked up.
func (r *inputReader) countGangPods() map[client.ObjectKey]*gangPods {
	pods := r.loaded.Pods
	if !r.loaded.IsComplete {
		pods = r.found.namespacePods
	}

	gangs := map[client.ObjectKey]*gangPods{}
	for _, pod := range pods {
		key := podGroupKey(pod)
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
			request := r.resolver.Request(pod)
			gang.pending = append(gang.pending, cardDemand{request.Names, request.Count})
		}
	}

	return gangs
}

// setGang sets how many pods the gang of the requester has. For a user who may not read its PodGroup they are those that
// the scheduler's message states.
func (r *inputReader) setGang(gangs map[client.ObjectKey]*gangPods) {
	if r.requester == nil {
		return
	}

	if len(r.input.Entries) > 0 {
		r.input.Gang.Pods, r.input.Gang.Minimum = waiting.GangCounts(r.input.Entries[0].Message)
	}

	group := r.found.groups[workload.PodGroupName(r.requester)]
	gang := gangs[podGroupKey(r.requester)]
	if group != nil && gang != nil {
		r.input.Gang = explanation.Gang{Minimum: int(group.Spec.MinMember), Pods: gang.all + int(group.Status.Succeeded)}
	}
}

// setOrphans sets which pods name a PodGroup that does not exist. If the user may not list PodGroups, only the reason
// of the entry says so. The PodGroup of a very new pod may exist already, so such a pod is left out.
func (r *inputReader) setOrphans() {
	isStated := len(r.input.Entries) > 0 && r.input.Entries[0].Reason == v1alpha1.BlockedPodGroupNotFound
	if !r.found.knowsGroups && !isStated {
		return
	}

	for _, pod := range r.found.pods {
		name := workload.PodGroupName(pod)
		isOrphan := workload.IsPending(pod) && name != "" && r.found.groups[name] == nil
		if isOrphan && !waiting.MayAwaitPodGroup(pod, r.input.Now) {
			r.input.Orphans = append(r.input.Orphans, pod.Name)
			r.input.OrphanGroups = append(r.input.OrphanGroups, name)
		}
	}

	slices.Sort(r.input.Orphans)
	slices.Sort(r.input.OrphanGroups)
	r.input.OrphanGroups = slices.Compact(r.input.OrphanGroups)
}

// setReservations sets which enqueued jobs wait for cards that the request may use, in the queue that
// refuses and those below it.
func (r *inputReader) setReservations(gangs map[client.ObjectKey]*gangPods) {
	groups := r.loaded.PodGroups
	if !r.loaded.IsComplete {
		groups = slices.Collect(maps.Values(r.found.groups))
	}

	for _, group := range groups {
		if !mayReserve(group) || r.isOwnGroup(group) || !r.sharesQuota(workload.PodGroupQueue(group)) {
			continue
		}
		if found, isWaiting := r.reservationOf(group, gangs[client.ObjectKeyFromObject(group)]); isWaiting {
			r.input.Reservations = append(r.input.Reservations, found)
		}
	}

	slices.SortFunc(r.input.Reservations, func(a, b explanation.Reservation) int {
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

// isOwnGroup reports whether a PodGroup is of the workload itself, whose reservation does not stand in its way.
func (r *inputReader) isOwnGroup(group *v1beta1.PodGroup) bool {
	if group.Namespace != r.input.Workload.Namespace {
		return false
	}
	isOwn := workload.ControllerReference(group, v1beta1.GroupName, "PodGroup") == r.input.Workload
	return isOwn || group.Name == r.input.PodGroup || (r.found.group != nil && group.Name == r.found.group.Name)
}

// sharesQuota reports whether a queue uses the quota that refuses the workload: that of the queue which the
// scheduler names, else that of its own queue.
func (r *inputReader) sharesQuota(queue string) bool {
	refusing := r.input.Queue
	if len(r.input.Entries) > 0 {
		if statedReason := waiting.ReadStatedReason("", r.input.Entries[0].Message, ""); statedReason.Refusal != nil {
			refusing = cmp.Or(statedReason.Refusal.QuotaQueue(), refusing)
		}
	}
	isRefusing := func(quota *v1alpha1.CardQuota) bool { return quota.QueueName() == refusing }
	return queue == refusing || slices.ContainsFunc(r.pathOf(queue), isRefusing)
}

// reservationOf returns for how many cards of the request an enqueued job still waits to have its minimum, which is all
// that the scheduler reserves for it, and whether it waits for any. gang is nil for a PodGroup without pods: then the
// PodGroup says what its minimum requests.
func (r *inputReader) reservationOf(group *v1beta1.PodGroup, gang *gangPods) (found explanation.Reservation, isWaiting bool) {
	found = explanation.Reservation{Workload: workload.ControllerReference(group, v1beta1.GroupName, "PodGroup"), PodGroup: group.Name, HasPods: gang != nil}
	if gang == nil {
		if group.Status.Phase != v1beta1.PodGroupInqueue { // it has had its pods, and waits for none
			return found, false
		}
		total, isWritten := workload.CardRequestAnnotation(group)
		request, _ := r.resolver.PodGroupRequest(total, isWritten, group.Spec.MinResources)
		for _, part := range request.Cards {
			r.addReserved(&found, part.Names, part.Count)
		}

		return found, found.Count > 0
	}

	found.Workload = gang.reference
	for _, part := range gang.missingMinimum(group) {
		r.addReserved(&found, part.names, part.count)
	}

	return found, found.Count > 0
}

// addReserved adds count cards of some names to a reservation, if the request may use one of these names. The
// reservation then names only the shared ones, because a job that names no card may have any. Of several additions it
// names the cards of the first.
func (r *inputReader) addReserved(found *explanation.Reservation, names []card.Name, count card.Count) {
	isOther := func(name card.Name) bool { return !slices.Contains(r.input.Request.Names, name) }
	shared := slices.DeleteFunc(slices.Clone(names), isOther)
	if len(shared) == 0 {
		return
	}

	found.Count += int64(count)
	found.Card = cmp.Or(found.Card, card.NewRequest(shared...).String())
}
