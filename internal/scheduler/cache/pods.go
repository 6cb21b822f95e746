package cache

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// ObservePod returns the state of a pod and marks the pod as seen in this session.
func (c *Cache) ObservePod(pod *corev1.Pod) *PodState {
	state, ok := c.podsByObject[pod]
	if !ok || state.generation != c.RequestGeneration {
		state = c.refreshPod(pod)
	}
	if state.lastSession != c.SessionCount {
		state.lastSession = c.SessionCount
		c.podsSeen++
	}
	return state
}

// SawThisSession reports whether the session's jobs contain the pod, possibly an older version
// of it.
func (c *Cache) SawThisSession(pod *corev1.Pod) bool {
	state, ok := c.podsByObject[pod]
	if !ok {
		state, ok = c.Pods[pod.UID]
	}
	return ok && state.lastSession == c.SessionCount
}

// refreshPod reads a pod that is new, has changed, or whose request may mean something else now, as with
// other arguments. It keeps the charge of a known pod, which ObservePod's callers compute again. A pod is
// unassigned until the API server shows its node. At that moment OtherBindings checks whether another
// scheduler bound it.
func (c *Cache) refreshPod(pod *corev1.Pod) *PodState {
	fresh := c.NewPodState(pod)
	fresh.generation = c.RequestGeneration
	fresh.unassigned = pod.Spec.NodeName == ""
	if old, ok := c.Pods[pod.UID]; ok {
		fresh.Request.IsUnreclaimable = old.Request.IsUnreclaimable
		fresh.treeGeneration = old.treeGeneration
		fresh.Charge = old.Charge
		fresh.ChargedNode = old.ChargedNode
		fresh.ChargedAs = old.ChargedAs
		fresh.lastSession = old.lastSession
		// A node that appears in the same object was written by Volcano, and one in a new object by the API
		// server.
		fresh.unassigned = old.unassigned && (old.object == pod || fresh.unassigned)
		fresh.AssumedNodeInvalid = old.AssumedNodeInvalid && old.object == pod

		if old.unassigned && !fresh.unassigned {
			c.OtherBindings.observeBinding(pod, fresh.IsOurs, old.lastSession)
		}
		delete(c.podsByObject, old.object)
	}

	if !fresh.unassigned { // before its binding, only the pod's creator can have written the annotation
		fresh.AnnotatedQueue = workload.ChargedQueue(pod)
	}
	c.Pods[pod.UID] = fresh
	c.podsByObject[pod] = fresh

	return fresh
}

// NewPodState returns the state of a pod that the ledger does not charge.
func (c *Cache) NewPodState(pod *corev1.Pod) *PodState {
	state := &PodState{
		object: pod, IsOurs: c.Resolver.UsesOurScheduler(pod), outOfSync: workload.IsMarkedOutOfSync(pod) && workload.ManagedByVCJob(pod), Request: c.Resolver.Request(pod),
	}
	// Only a tree asks which usage can be reclaimed.
	if !c.Tree.IsFlat() {
		state.IsProtected = !workload.IsEvictable(pod, nil)
		state.ServiceType = workload.ServiceTypeFor(nil, pod.Annotations, nil, "")
		state.OwnerType = c.Tree.owners.TypeFor(pod)
	}

	if c.CardUnlimitedCPUMemory && state.Request.Count > 0 { // no limit of CPU and memory counts it
		state.Request.MilliCPU = 0
		state.Request.Memory = 0
	}

	return state
}

// StateOf returns the state of a pod that was read in this generation, false if it was not.
func (c *Cache) StateOf(pod *corev1.Pod) (*PodState, bool) {
	state, isKnown := c.podsByObject[pod]
	return state, isKnown && state.generation == c.RequestGeneration
}

// ReleasePod removes the charge of a pod.
func (c *Cache) ReleasePod(state *PodState) {
	if state.ChargedAs != notCharged {
		c.Ledger.Release(string(state.object.UID))
	}
	state.ChargedAs = notCharged
}

// ForgetUnseenPods removes the pods that the session did not see.
func (c *Cache) ForgetUnseenPods() {
	// In most sessions no pod is gone. Then the loop over all pods is spared.
	if c.podsSeen == len(c.Pods) {
		return
	}

	for uid, state := range c.Pods {
		if state.lastSession != c.SessionCount {
			c.ReleasePod(state)
			delete(c.Pods, uid)
			delete(c.podsByObject, state.object)
			delete(c.OtherBindings.boundByOthers, uid)
		}
	}
}

// IsOutOfSync reports whether Volcano's job controller is about to delete and recreate the pod.
// It is if the pod is marked so, or if this process requested its eviction.
//
// The mark counts only on pods of Volcano jobs, and only if the actions of package actions run, which
// delete marked pods that stay. Otherwise a user could mark a pod to protect its cards from reclaim. In the
// first session of a process it is unknown whether they run.
func (c *Cache) IsOutOfSync(task *api.TaskInfo, state *PodState) bool {
	if c.SessionCount > 1 && c.LastActionSession+1 < c.SessionCount {
		return false
	}
	marked := state.outOfSync
	if !marked && len(c.EvictingSince) > 0 {
		_, marked = c.EvictingSince[task.Pod.UID]
	}
	return marked && task.Pod.DeletionTimestamp == nil
}

// ReplaceObject makes another object of a pod stand for it. Preempt works on copies of some pods, and a copy is no
// change of the pod.
func (c *Cache) ReplaceObject(old, other *corev1.Pod) {
	state, known := c.podsByObject[old]
	if !known {
		return
	}
	delete(c.podsByObject, old)
	state.object = other
	c.podsByObject[other] = state
}
