package cardreclaim

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
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

// searchHistory remembers for each job the last search that placed no pod. Every session would
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
	// takes are the limits of a tree that victims counted against.
	takes map[takeKey]seenTake
}

// startSession begins a session in which some jobs need cards, and forgets the others.
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

// canSkip reports whether the search for a job would find no more than the last one did.
func (h *searchHistory) canSkip(s *reclaimSession, job *api.JobInfo, pendingHash uint64) bool {
	last := h.failed[job.UID]
	return last != nil && h.isUnchanged(s, last, pendingHash) && h.session-last.session <= last.skipped && s.now.Before(last.until)
}

// isUnchanged reports whether nothing has changed that a search looked at.
func (h *searchHistory) isUnchanged(s *reclaimSession, last *failedSearch, pendingHash uint64) bool {
	return last.pendingHash == pendingHash && !h.changedAfter(last.session, last.nodes, last.everywhere) && s.haveSameTakes(last.takes)
}

// recordSearch remembers the search for a job if it placed no pod.
func (h *searchHistory) recordSearch(s *reclaimSession, job *api.JobInfo, pendingHash uint64, placed bool) {
	if placed || len(s.scope.kinds) == 0 || s.scope.unbound {
		delete(h.failed, job.UID)
		return
	}

	made := &failedSearch{session: h.session, skipped: 1, until: s.now.Add(maxSearchWait), pendingHash: pendingHash, nodes: s.scope.nodes, everywhere: s.scope.everywhere, takes: s.scope.takes}
	if last := h.failed[job.UID]; last != nil && h.isUnchanged(s, last, pendingHash) {
		made.skipped = min(2*last.skipped, maxSkippedSessions)
	}

	// A job that reaches its minimum runtime becomes a victim although no node changes.
	for key := range s.scope.kinds {
		if at, any := s.victims.minRuntimeEnds[s.victimKeyFor(key.reclaimerKey)]; any && at.Before(made.until) {
			made.until = at
		}
	}
	h.failed[job.UID] = made
}

// searchScope is what the search for one job looked at.
type searchScope struct {
	kinds      map[podKind]bool
	nodes      [][]int
	everywhere bool
	takes      map[takeKey]seenTake
	// unbound reports whether the search ended at something that is not about nodes, such as
	// an unbound volume. Such a search is cheap, and its result may change at any time.
	unbound bool
}

// addKind records that the search checks nodes for pods of one kind.
func (s *searchScope) addKind(key podKind, task *api.TaskInfo, nodes []int) {
	if s.kinds[key] {
		return
	}
	if s.kinds == nil {
		s.kinds = map[podKind]bool{}
	}
	s.kinds[key] = true
	s.nodes = append(s.nodes, nodes)
	s.everywhere = s.everywhere || dependsOnOtherNodes(task.Pod)
}

// hashPending returns a hash of a job's pending pods and of what their queue's quota has left of what
// they request.
func (s *reclaimSession) hashPending(job *api.JobInfo) uint64 {
	sum := hashOf(struct {
		minimum, ready int32
		pipelined      int
	}{job.MinAvailable, job.ReadyTaskNum(), len(job.TaskStatusIndex[api.Pipelined])})

	// The order of a map does not change a sum.
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		sum += hashOf(struct {
			uid      api.TaskID
			gated    bool
			giverKey reclaimerKey
			needs    string
		}{uid, task.SchGated, s.reclaimerKeyFor(task), s.finder.needsKey(job, task)})
	}
	return sum + s.hashLevels(job)
}

// dependsOnOtherNodes reports whether pods on other nodes decide where a pod can run.
func dependsOnOtherNodes(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(topologyKeys(pod)) > 0 || (a != nil && a.PodAffinity != nil)
}

// changeTracker tracks for each node the last session with a change that matters for
// reclaiming: of its free resources, of its pods, or of their jobs. That costs far less than
// one search.
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

// observeSession records what has changed since the last session.
func (c *changeTracker) observeSession(s *reclaimSession) {
	c.session++
	if rules := fmt.Sprint(s.plugin.Rules.ServiceTypeRules(), s.plugin.TreeVersion(), s.plugin.ReclaimsAll()); rules != c.rules {
		c.rules = rules
		c.allChanged = c.session
	}

	if len(c.nodes) != len(s.nodes) {
		c.nodes = make([]nodeState, len(s.nodes))
		c.allChanged = c.session
	}

	sums := make([]uint64, len(s.nodes)+1) // the last is for nodes that the session does not have
	for _, job := range s.ssn.Jobs {
		s.addJobHash(job, sums)
	}

	for i, node := range s.nodes {
		state := &c.nodes[i]
		if state.object != node.Node {
			// Kubelets write their nodes all the time, and most of that decides about no pod.
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

// markChanged records that the session evicts pods of a node.
func (c *changeTracker) markChanged(index int) {
	if index < len(c.nodes) {
		c.nodes[index].changed = c.session
	}
}

// changedAfter reports whether a change after a session concerns any of some nodes, or any
// node at all if everywhere is set.
func (c *changeTracker) changedAfter(session int, nodes [][]int, everywhere bool) bool {
	if c.allChanged > session {
		return true
	}
	changed := func(i int) bool { return c.nodes[i].changed > session }
	if everywhere {
		return slices.ContainsFunc(c.nodes, func(n nodeState) bool { return n.changed > session })
	}
	return slices.ContainsFunc(nodes, func(of []int) bool { return slices.ContainsFunc(of, changed) })
}

// acceptsSamePods reports whether two states of a node accept the same pods if it is empty.
func acceptsSamePods(a, b *corev1.Node) bool {
	return a != nil && b != nil && a.Name == b.Name && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// hashFree returns a hash of what a node has free or will have.
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

// jobState is what decides, beside its pods, which of a job's pods may be evicted.
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

// addJobHash adds the hash of a job to all nodes that run pods of it. A change of any pod may
// change which others may be evicted.
func (s *reclaimSession) addJobHash(job *api.JobInfo, sums []uint64) {
	queue := s.ssn.Queues[job.Queue]
	if queue == nil || job.PodGroup == nil {
		return
	}

	facts := jobState{
		queue: job.Queue, queuePriority: queue.Queue.Spec.Priority, priority: job.Priority, reclaimable: queue.Reclaimable(),
		minimum: job.MinAvailable, ready: job.ReadyTaskNum(), queueType: queue.Queue.Annotations[v1alpha1.AnnotationServiceType],
		groupType: job.PodGroup.Annotations[v1alpha1.AnnotationServiceType], preemptable: job.PodGroup.Annotations[v1beta1.PodPreemptable],
	}

	var any *api.TaskInfo
	for _, task := range job.Tasks {
		if task.Status == api.Pending {
			continue
		}

		any = task
		facts.pods += hashOf(struct {
			pod    *corev1.Pod
			onNode bool
			status api.TaskStatus
		}{task.Pod, gang.IsOnNode(task.Status), statusClass(task.Status)})
	}

	if any == nil {
		return
	}

	if name := workload.VCJobOwner(any.Pod); name != "" {
		facts.evictionPolicy, facts.isKnown = s.search.evictions.EvictionPolicyFor(job.Namespace, name)
	}

	// A pod that fails anywhere changes how many evictions its Kubernetes Job survives.
	for uid, left := range s.plugin.Prices.EvictionsLeft(job) {
		facts.pods += hashOf(fmt.Sprint(uid, left))
	}

	for role, least := range job.TaskMinAvailable {
		facts.pods += hashOf(fmt.Sprint(role, least))
	}

	sum := hashOf(facts)
	for _, task := range job.Tasks {
		if task.Status != api.Pending {
			sums[s.indexOfNode(task.NodeName)] += sum
		}
	}
}

// statusClass ignores how far a pod has come in starting.
func statusClass(status api.TaskStatus) api.TaskStatus {
	if api.AllocatedStatus(status) {
		return api.Running
	}
	return status
}
