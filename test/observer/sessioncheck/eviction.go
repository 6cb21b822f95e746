package sessioncheck

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/test/observer/rule"
)

// evictedBy returns the action of the scheduler that evicted a pod, or "". Volcano writes it
// into the pod's condition Ready.
func evictedBy(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == "Evict" {
			_, action, _ := strings.Cut(c.Message, "because of ")
			return action
		}
	}
	return ""
}

// isLeaving reports whether a pod was evicted or deleted and still exists.
func isLeaving(pod *corev1.Pod) bool {
	return rule.IsTerminating(pod) || (rule.IsCharged(pod) && evictedBy(pod) != "")
}

// checkNeedlessEviction checks a pod that preempt has just evicted. What preempt evicted before
// in the same queue and is not gone yet must not suffice for all waiting pods there. The sum
// is without the largest of these victims, since one may free more than is needed. A pod may be
// evicted with its gang when the gang would otherwise run below its minimum.
func (j *Checker) checkNeedlessEviction(victim *podState, at time.Time) {
	if victim.charge == nil || evictedBy(victim.pod) != "preempt" || j.isEvictedWithGang(victim) {
		return
	}

	queue := victim.charge.Queue
	given := amounts{}
	largest := amounts{}
	needed := amounts{}
	for _, state := range j.state.pods {
		for resource, amount := range state.requests {
			switch {
			case freesCards(state, queue):
				given[resource] += amount
				largest[resource] = max(largest[resource], amount)
			case j.isWaitingIn(state, queue):
				needed[resource] += amount
			}
		}
	}

	for resource, amount := range needed {
		if given[resource]-largest[resource] < amount {
			return
		}
	}

	j.addViolation(Eviction, at, "pod/"+victim.pod.Namespace+"/"+victim.pod.Name,
		"was evicted (preempt) although what was evicted before and has not gone yet gives all that waits in queue <%s>: %v given, %v waited for", queue, given, needed)
}

// isEvictedWithGang reports whether preempt evicted other pods of the gang before, and fewer
// than its minimum would stay. A pod of a Volcano job is evicted with any other pod of it: the
// job's policies may end all of them.
func (j *Checker) isEvictedWithGang(victim *podState) bool {
	group := j.state.groups[groupKey(victim.pod)]
	if group == nil {
		return false
	}

	before := 0
	stay := int32(1) // the victim
	for _, state := range j.state.pods {
		switch {
		case state == victim || groupKey(state.pod) != groupKey(victim.pod):
		case evictedBy(state.pod) == "preempt":
			before++
		case rule.IsCharged(state.pod):
			stay++
		}
	}

	owner := metav1.GetControllerOfNoCopy(victim.pod)
	isVCJob := owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/")
	return before > 0 && (isVCJob || stay < group.Spec.MinMember || len(group.Spec.MinTaskMember) > 0)
}

// freesCards reports whether a pod of a queue was evicted by preempt or is terminating.
func freesCards(state *podState, queue string) bool {
	isEvicted := state.charge != nil && state.charge.Queue == queue && evictedBy(state.pod) == "preempt"
	isTerminating := state.terminating != nil && state.terminating.Queue == queue
	return isEvicted || isTerminating
}

func (j *Checker) isWaitingIn(state *podState, queue string) bool {
	return rule.IsWaiting(state.pod) && state.pod.Spec.SchedulerName == j.options.SchedulerName &&
		rule.QueueOf(state.pod, j.state.groups[groupKey(state.pod)], "") == queue
}

// mustReclaim reports whether the scheduler must reclaim cards for a unit that cannot start:
// one plain pod within its quota, of a type that may reclaim, and a node with enough
// reclaimable pods, while no eviction is under way.
func (j *Checker) mustReclaim(u *unit, units []*unit) bool {
	if j.state.tree != nil {
		return j.mustReclaimInTree(u, units)
	}
	if len(j.options.ReclaimFrom) == 0 || !isOnePlainPod(u) || !isEnqueued(u) || !j.state.isOpen(u) {
		return false
	}

	from := j.options.ReclaimFrom[j.serviceType(u.pods[0], u.queue)]
	if !asksForCards(u.pods[0]) || len(from) == 0 || !j.state.hasQuota(u) || !j.state.hasCPUMemory(u) {
		return false
	}

	return !j.isEvictionUnderWay(u, units) && j.canClearAnyNode(u, from)
}

// isOnePlainPod reports whether a unit waits for one pod, and nothing of it is out of scope.
func isOnePlainPod(u *unit) bool {
	return u.unsupported == "" && u.minPods == 1 && len(u.pods) == 1
}

// asksForCards reports whether a pod requests cards, and its request is valid.
func asksForCards(pod *podState) bool { return pod.request.Count != 0 && pod.request.Denial == "" }

// isEvictionUnderWay reports whether pods are leaving, possibly for another unit, or another
// unit may be served first.
func (j *Checker) isEvictionUnderWay(u *unit, units []*unit) bool {
	for _, state := range j.state.pods {
		if isLeaving(state.pod) || state.pod.Status.NominatedNodeName != "" {
			return true
		}
	}
	return slices.ContainsFunc(units, func(other *unit) bool { return other != u && j.mayPrecede(other) })
}

// canClearAnyNode reports whether some node would have room for a pod of a unit without the
// reclaimable pods.
func (j *Checker) canClearAnyNode(u *unit, from []string) bool {
	return j.state.clearsNode(u, func(state *podState) bool { return j.isGangReclaimable(state, u.queue, from) })
}

// mayPrecede reports whether a unit may start or reclaim before another one.
func (j *Checker) mayPrecede(u *unit) bool {
	if len(u.pods) == 0 || !j.state.isOpen(u) || !j.state.canEverFit(u) {
		return false
	}
	if u.pods[0].request.Count > 0 && !j.state.hasQuota(u) {
		return false
	}
	from := j.options.ReclaimFrom[j.serviceType(u.pods[0], u.queue)]
	return u.unsupported != "" || j.mayStart(u) || (len(from) > 0 && j.canClearAnyNode(u, from))
}

func (j *Checker) serviceType(state *podState, queue string) string {
	var ofQueue, ofGroup map[string]string
	if known := j.state.queues[queue]; known != nil {
		ofQueue = known.queue.Annotations
	}
	if group := j.state.groups[groupKey(state.pod)]; group != nil {
		ofGroup = group.Annotations
	}
	return rule.ServiceType(ofQueue, state.pod.Annotations, ofGroup, "")
}

// hasCPUMemory reports whether a queue has CPU and memory left for one pod of a unit.
func (w *clusterState) hasCPUMemory(u *unit) bool {
	limits := w.queues[u.queue].limits
	used := w.queueUsage(u.queue)
	request := u.pods[0].request
	return !w.countsCPUMemory(u.pods[0]) || (isWithin(limits.MilliCPU, used.milliCPU+request.MilliCPU) && isWithin(limits.Memory, used.memory+request.Memory))
}

// clearsNode reports whether some node accepts a unit's pod and has room for it without its victims.
func (w *clusterState) clearsNode(u *unit, isVictim func(*podState) bool) bool {
	pod := u.pods[0]
	for name, node := range w.nodes {
		if pod.request.Allows(w.inventory.CardOn(name, pod.request.Resource)) && w.acceptsPods(node.Node, u) && w.fitsWithout(name, node, pod, isVictim) {
			return true
		}
	}
	return false
}

// fitsWithout reports whether a node has room for a pod without its victims, and no remaining pod has
// anti-affinity.
func (w *clusterState) fitsWithout(name string, node nodeState, pod *podState, isVictim func(*podState) bool) bool {
	used := amounts{}
	for _, state := range w.pods {
		if state.pod.Spec.NodeName != name || !rule.IsCharged(state.pod) || isVictim(state) {
			continue
		}
		if state.pod.Spec.Affinity != nil {
			return false
		}

		for resource, amount := range state.requests {
			used[resource] += amount
		}
		used[corev1.ResourcePods]++
	}

	if limit, stated := node.allocatable[corev1.ResourcePods]; stated && used[corev1.ResourcePods] >= limit {
		return false
	}

	for resource, amount := range pod.requests {
		if used[resource]+amount > node.allocatable[resource] {
			return false
		}
	}

	return true
}

// isGangReclaimable reports whether a placed pod and every pod of its gang is certainly
// reclaimable.
func (j *Checker) isGangReclaimable(state *podState, queue string, from []string) bool {
	if state.charge == nil || len(state.charge.Cards) == 0 {
		return false
	}

	by := j.state.queues[queue]
	of := j.state.queues[state.charge.Queue]
	group := j.state.groups[groupKey(state.pod)]
	if by == nil || of == nil || group == nil {
		return false
	}
	if !ptr.Deref(of.queue.Spec.Reclaimable, false) || of.queue.Spec.Priority >= by.queue.Spec.Priority || !rule.IsPreemptable(group.Annotations, group.Labels) {
		return false
	}

	for _, other := range j.state.pods {
		if groupKey(other.pod) == groupKey(state.pod) && !j.isReclaimable(other, state.charge.Queue, from) {
			return false
		}
	}

	return true
}

// isReclaimable reports whether a pod is certainly reclaimable for a unit that may reclaim from
// some service types.
func (j *Checker) isReclaimable(state *podState, queue string, from []string) bool {
	return slices.Contains(from, cmp.Or(j.serviceType(state, queue), "none")) && !rule.IsCritical(state.pod) &&
		rule.IsPreemptable(state.pod.Annotations, state.pod.Labels) && state.pod.Spec.Affinity == nil
}
