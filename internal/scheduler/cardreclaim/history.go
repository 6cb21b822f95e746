package cardreclaim

// This file decides which searches a session leaves out because nothing has changed that could let them find a plan. It
// sums hashes, because a sum is the same in each order of pods and nodes.

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/workload"
)

// Bounds of how long a search that placed no pod is skipped while nothing changes that it
// looked at. They exist for changes that are not tracked: volumes, plugins with measurements
// of their own, and searches that ended at their budget.
const (
	maxSkippedSessions = 32 // sessions
	maxSearchWait      = time.Minute
)

// searchHistory remembers for each job the last search that placed no pod, because every session would
// repeat that search. It is repeated when something changes that it looked at, otherwise after
// 1, 2, 4 … sessions.
type searchHistory struct {
	changeTracker
	failed map[api.JobID]*failedSearch
}

// failedSearch is the last search for a job, which placed none of its pods.
type failedSearch struct {
	// session is the session of the search, skipped how many sessions do not repeat it.
	session, skipped int
	// until is when the search is repeated in any case.
	until time.Time
	// pendingHash identifies the job's pending pods, and what their queue's quota had left.
	pendingHash uint64
	// nodes are the indexes of the nodes that were checked, by kind of pod. everywhere reports
	// whether pods on other nodes matter too.
	nodes      [][]int
	everywhere bool
	// takes are the limits of a tree that victims counted against, as the search saw them.
	takes map[takeKey]seenTake
}

// startSession begins a session: it records what has changed since the last one, and forgets the searches for jobs
// that do not wait any more.
func (h *searchHistory) startSession(s *reclaimSession, waiting []*api.JobInfo) {
	h.observeSession(s)
	failed := make(map[api.JobID]*failedSearch, len(h.failed))
	for _, job := range waiting {
		if known := h.failed[job.UID]; known != nil {
			failed[job.UID] = known
		}
	}
	h.failed = failed
}

// canSkip reports whether the last search for a job placed no pod and is not repeated yet: nothing has changed that it
// looked at, and neither its number of sessions nor its time is over.
func (h *searchHistory) canSkip(s *reclaimSession, job *api.JobInfo, pendingHash uint64) bool {
	last := h.failed[job.UID]
	return last != nil && h.isUnchanged(s, last, pendingHash) && h.session-last.session <= last.skipped && s.now.Before(last.until)
}

// isUnchanged reports whether nothing has changed that a search looked at.
func (h *searchHistory) isUnchanged(s *reclaimSession, last *failedSearch, pendingHash uint64) bool {
	return last.pendingHash == pendingHash && !h.changedAfter(last.session, last.nodes, last.everywhere) && s.haveSameTakes(last.takes)
}

// recordSearch remembers the search for a job if it placed no pod. Each search that found the same as the one before it
// is skipped in twice as many sessions. A search that looked at no node, or ended at something that is not about nodes, is
// forgotten, because changes of these are not tracked.
func (h *searchHistory) recordSearch(s *reclaimSession, job *api.JobInfo, pendingHash uint64, placed bool) {
	if placed || len(s.scope.kinds) == 0 || s.scope.unbound {
		delete(h.failed, job.UID)
		return
	}

	failed := &failedSearch{session: h.session, skipped: 1, until: s.now.Add(maxSearchWait), pendingHash: pendingHash, nodes: s.scope.nodes, everywhere: s.scope.everywhere, takes: s.scope.takes}
	if last := h.failed[job.UID]; last != nil && h.isUnchanged(s, last, pendingHash) {
		failed.skipped = min(2*last.skipped, maxSkippedSessions)
	}

	// A job that reaches its minimum runtime becomes a victim although no node changes.
	for key := range s.scope.kinds {
		if at, known := s.victims.minRuntimeEnds[s.victimKeyFor(key.reclaimerKey)]; known && at.Before(failed.until) {
			failed.until = at
		}
	}
	h.failed[job.UID] = failed
}

// hashPending returns a hash that changes with a job's pending pods, with how many pods it has of its minimum, and with
// what their queue may use of what they request.
func (s *reclaimSession) hashPending(job *api.JobInfo) uint64 {
	sum := hashOf(struct {
		minimum, ready int32
		pipelined      int
	}{job.MinAvailable, job.ReadyTaskNum(), len(job.TaskStatusIndex[api.Pipelined])})

	// The order of a map does not change a sum.
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		sum += hashOf(struct {
			uid       api.TaskID
			gated     bool
			reclaimer reclaimerKey
			needs     string
		}{uid, task.SchGated, s.reclaimerKeyFor(task), s.finder.needsKey(job, task)})
	}
	return sum + s.hashLevels(job)
}

// changeTracker tracks for each node the last session with a change that matters for
// reclaiming: of its free resources, of its pods, or of their jobs. That costs far less than
// one search. Sessions are numbered from 1.
type changeTracker struct {
	session int
	// allChanged is the last session with a change that concerns every node. A node was added
	// or removed, accepts other pods, or the rules of reclaim changed.
	allChanged int
	rules      string
	nodes      []nodeState
}

// nodeState is a node as the last session saw it.
type nodeState struct {
	object *corev1.Node
	// hash is of everything on the node, changed is the last session that changed it.
	hash    uint64
	changed int
}

// hashSeed is the same for all hashes of a process.
var hashSeed = maphash.MakeSeed()

func hashOf[T comparable](value T) uint64 { return maphash.Comparable(hashSeed, value) }

// observeSession begins the next session, and records what has changed since the last one.
func (c *changeTracker) observeSession(s *reclaimSession) {
	c.session++
	// ReclaimsAll: CPU and memory are reclaimed too.
	if rules := fmt.Sprint(s.rules.ServiceTypeRules(), s.TreeVersion(), s.ReclaimsAll()); rules != c.rules {
		c.rules = rules
		c.allChanged = c.session
	}

	if len(c.nodes) != len(s.nodes) {
		c.nodes = make([]nodeState, len(s.nodes))
		c.allChanged = c.session
	}

	sums := make([]uint64, len(s.nodes)+1) // the last is for nodes that the session does not have
	for _, job := range s.Volcano.Jobs {
		s.addJobHash(job, sums)
	}

	for i, node := range s.nodes {
		state := &c.nodes[i]
		if state.object != node.Node {
			// Kubelets write their nodes often. Most of these writes change nothing about which pods fit.
			if !acceptsSamePods(state.object, node.Node) {
				c.allChanged = c.session
			}
			state.object = node.Node
		}

		if sum := sums[i] + hashFree(node); sum != state.hash {
			state.hash = sum
			state.changed = c.session
		}
	}
}

// markChanged records that the session evicts pods of a node. An index beyond all nodes is of one that it does not have.
func (c *changeTracker) markChanged(index int) {
	if index < len(c.nodes) {
		c.nodes[index].changed = c.session
	}
}

// changedAfter reports whether a change after a session concerns any of some nodes, or any
// node at all if everywhere is set. nodes are indexes, in several lists.
func (c *changeTracker) changedAfter(session int, nodes [][]int, everywhere bool) bool {
	if c.allChanged > session {
		return true
	}
	if everywhere {
		return slices.ContainsFunc(c.nodes, func(n nodeState) bool { return n.changed > session })
	}
	hasChanged := func(i int) bool { return c.nodes[i].changed > session }
	return slices.ContainsFunc(nodes, func(indexes []int) bool { return slices.ContainsFunc(indexes, hasChanged) })
}

// acceptsSamePods reports whether a node, if it were empty, accepts the same pods in two states. It is false for a node
// that is new.
func acceptsSamePods(a, b *corev1.Node) bool {
	return a != nil && b != nil && a.Name == b.Name && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// hashFree returns a hash of what a node has free, or will have once terminating pods are gone.
func hashFree(node *api.NodeInfo) uint64 {
	idle := node.Idle
	releasing := node.Releasing
	pipelined := node.Pipelined
	sum := hashOf([3]float64{
		idle.MilliCPU + releasing.MilliCPU - pipelined.MilliCPU, idle.Memory + releasing.Memory - pipelined.Memory, float64(len(node.Tasks)),
	})

	for name, quantity := range idle.ScalarResources {
		sum += hashOf(struct {
			name     corev1.ResourceName
			quantity float64
		}{name, quantity + releasing.ScalarResources[name] - pipelined.ScalarResources[name]})
	}

	return sum
}

// jobState is what decides which of a job's pods may be evicted. isKnown is false while its eviction policy is unknown.
// pods is a hash of its pods, of how many evictions its Kubernetes Jobs survive, and of the minimums of its roles.
type jobState struct {
	queue                             api.QueueID
	queuePriority, priority           int32
	reclaimable                       bool
	minimum, ready                    int32
	queueType, groupType, preemptable string
	evictionPolicy                    workload.EvictionPolicy
	isKnown                           bool
	pods                              uint64
}

// addJobHash adds the hash of a job to the sums of all nodes that run pods of it. A change of any pod may
// change which others may be evicted. Pods without a queue or a PodGroup are no victims, so they change nothing.
func (s *reclaimSession) addJobHash(job *api.JobInfo, sums []uint64) {
	queue := s.Volcano.Queues[job.Queue]
	if queue == nil || job.PodGroup == nil {
		return
	}

	state := jobState{
		queue: job.Queue, queuePriority: queue.Queue.Spec.Priority, priority: job.Priority, reclaimable: queue.Reclaimable(),
		minimum: job.MinAvailable, ready: job.ReadyTaskNum(), queueType: queue.Queue.Annotations[v1alpha1.AnnotationServiceType],
		groupType: job.PodGroup.Annotations[v1alpha1.AnnotationServiceType], preemptable: job.PodGroup.Annotations[v1beta1.PodPreemptable],
	}

	var placed *api.TaskInfo // any one of them
	for _, task := range job.Tasks {
		if task.Status == api.Pending {
			continue
		}

		placed = task
		state.pods += hashOf(struct {
			pod    *corev1.Pod
			onNode bool
			status api.TaskStatus
		}{task.Pod, gang.IsOnNode(task.Status), statusClass(task.Status)})
	}

	if placed == nil {
		return
	}

	if name := workload.VCJobOwner(placed.Pod); name != "" {
		state.evictionPolicy, state.isKnown = s.search.evictions.EvictionPolicyFor(job.Namespace, name)
	}

	// A pod that fails anywhere changes how many evictions its Kubernetes Job survives.
	for uid, left := range s.prices.EvictionsLeft(job) {
		state.pods += hashOf(fmt.Sprint(uid, left))
	}

	for role, least := range job.TaskMinAvailable {
		state.pods += hashOf(fmt.Sprint(role, least))
	}

	sum := hashOf(state)
	for _, task := range job.Tasks {
		if task.Status != api.Pending {
			sums[s.indexOfNode(task.NodeName)] += sum
		}
	}
}

// statusClass returns the same status for all pods that are placed, so that a pod that starts on its node repeats no
// search.
func statusClass(status api.TaskStatus) api.TaskStatus {
	if api.AllocatedStatus(status) {
		return api.Running
	}
	return status
}

// haveSameTakes reports whether the limits of what may be taken from queues allow the same victims as when a search saw
// them. A limit above what these victims use protects none of them, so its changes do not matter. What the queues use may
// change on nodes that the search did not look at.
func (s *reclaimSession) haveSameTakes(seen map[takeKey]seenTake) bool {
	for key, take := range seen {
		if min(s.mostTaken(key), take.used) != min(take.most, take.used) {
			return false
		}
	}
	return true
}

// hashLevels returns a hash of what a job's queue may use at each level of the tree, as far as its pending
// pods request it. Other queues change that by what they use, on whatever nodes.
func (s *reclaimSession) hashLevels(job *api.JobInfo) (sum uint64) {
	var total quota.Request
	names := sets.New(quota.Compute[:]...)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		request := s.RequestFor(task)
		for _, name := range request.Names {
			names.Insert(quota.Resource(name))
		}

		total.Count = total.Count.Add(request.Count)
		total.MilliCPU = quota.AddSaturating(total.MilliCPU, request.MilliCPU)
		total.Memory = quota.AddSaturating(total.Memory, request.Memory)
	}

	for name := range names {
		requested := total.Amount(name)
		for i, may := range s.Ledger.MayUseByLevel(string(job.Queue), name) {
			sum += hashLevel(name, i, may, requested)
		}
	}

	return sum
}

// hashLevel returns a hash of what a queue may use of a resource at a level. What exceeds the request decides nothing, so
// its changes repeat no search.
func hashLevel(resource quota.Resource, level int, may quota.MayUse, requested int64) uint64 {
	return hashOf(struct {
		resource quota.Resource
		level    int
		may      quota.MayUse
	}{resource, level, quota.MayUse{
		Quota: min(may.Quota, requested), Covered: min(may.Covered, requested), Coverable: min(may.Coverable, requested),
		BesideKept: min(may.BesideKept, requested), Deserved: min(may.Deserved, requested),
	}})
}
