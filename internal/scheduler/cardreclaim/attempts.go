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
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// Bounds of how long a search is not repeated that placed no pod, while nothing changes
// that it looked at. They hold for what changes and is not looked at: volumes, plugins
// that judge nodes by their own measurements, and searches that ended for lack of effort.
const (
	maxSkippedSessions = 32 // sessions
	maxSearchWait      = time.Minute
)

// searchHistory remembers by job the searches that placed no pod. The same search would be
// made in every session, however many pods wait in vain; it is made again when something
// changed that it looked at, and else after 1, 2, 4 … sessions.
type searchHistory struct {
	changeTracker
	failed map[api.JobID]*failedSearch
}

// failedSearch is the last search for a job that placed none of its pods.
type failedSearch struct {
	// session is when it was made, skipped how many sessions it is not made again.
	session, skipped int
	// until is when it is made again in any case.
	until time.Time
	// waits stands for the pods that waited, and what their queue could still take.
	pendingHash uint64
	// places are those of the nodes that were asked about, by kind of pod; everywhere
	// tells that pods elsewhere matter too.
	nodes      [][]int
	everywhere bool
}

// startSession begins a session in which some jobs wait, and forgets the others.
func (a *searchHistory) startSession(s *reclaimSession, waiting []*api.JobInfo) {
	a.observeSession(s)
	failed := make(map[api.JobID]*failedSearch, len(a.failed))
	for _, job := range waiting {
		if known := a.failed[job.UID]; known != nil {
			failed[job.UID] = known
		}
	}
	a.failed = failed
}

// canSkip reports whether the search for a job, whose sum is waits, would find no more than the
// last one did.
func (a *searchHistory) canSkip(s *reclaimSession, job *api.JobInfo, waits uint64) bool {
	last := a.failed[job.UID]
	return last != nil && a.isUnchanged(last, waits) && a.session-last.session <= last.skipped && s.now.Before(last.until)
}

// isUnchanged reports whether nothing has changed that a search looked at.
func (a *searchHistory) isUnchanged(last *failedSearch, waits uint64) bool {
	return last.pendingHash == waits && !a.changedAfter(last.session, last.nodes, last.everywhere)
}

// recordSearch remembers the search for a job that has just been made, and whose sum was waits.
func (a *searchHistory) recordSearch(s *reclaimSession, job *api.JobInfo, waits uint64, placed bool) {
	if placed || len(s.scope.kinds) == 0 || s.scope.unbound {
		delete(a.failed, job.UID)
		return
	}
	made := &failedSearch{session: a.session, skipped: 1, until: s.now.Add(maxSearchWait), pendingHash: waits, nodes: s.scope.nodes, everywhere: s.scope.everywhere}
	if last := a.failed[job.UID]; last != nil && a.isUnchanged(last, waits) {
		made.skipped = min(2*last.skipped, maxSkippedSessions)
	}
	for key := range s.scope.kinds {
		if at, any := s.minRuntimeEnds[key.reclaimerKey]; any && at.Before(made.until) {
			made.until = at
		}
	}
	a.failed[job.UID] = made
}

// searchScope is what the search for one job has looked at.
type searchScope struct {
	kinds      map[podKind]bool
	nodes      [][]int
	everywhere bool
	// unbound tells that it ended at something that no node decides, such as a volume
	// that is not bound yet. That costs little to find, and may change at any time.
	unbound bool
}

// addKind notes that the search for a job asks about nodes for pods of one kind.
func (a *searchScope) addKind(key podKind, task *api.TaskInfo, nodes []int) {
	if a.kinds[key] {
		return
	}
	if a.kinds == nil {
		a.kinds = map[podKind]bool{}
	}
	a.kinds[key] = true
	a.nodes = append(a.nodes, nodes)
	a.everywhere = a.everywhere || dependsOnOtherNodes(task.Pod)
}

// hashPending stands for the pods of a job that wait, and what their queue may still take.
func (s *reclaimSession) hashPending(job *api.JobInfo) uint64 {
	sum := hashOf(struct {
		minimum, ready int32
		promised       int
	}{job.MinAvailable, job.ReadyTaskNum(), len(job.TaskStatusIndex[api.Pipelined])})
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		sum += hashOf(struct {
			uid      api.TaskID
			gated    bool
			giverKey reclaimerKey
			needs    string
		}{uid, task.SchGated, s.reclaimerKeyFor(task), s.needsKey(job, task)})
	}
	cards, milliCPU, memory := s.policy.FreeQuotaByCard(job.Queue)
	for name, room := range cards {
		sum += hashOf(struct {
			name card.Name
			room card.Count
		}{name, room})
	}
	return sum + hashOf([2]int64{milliCPU, memory})
}

// dependsOnOtherNodes reports whether it depends on pods of other nodes where a pod can run.
func dependsOnOtherNodes(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(topologyKeys(pod)) > 0 || a != nil && a.PodAffinity != nil
}

// changeTracker tells since which session nothing has changed that decides whether cards can
// be taken back on a node: its room, its pods, and what their jobs can give. One look at
// all pods of a session costs far less than one search.
type changeTracker struct {
	session int
	// all is the last session with a change that concerns every node: one came, went or
	// takes other pods, or other rules say who takes from whom.
	allChanged int
	rules      string
	nodes      []nodeState
}

// nodeState is a node as the last session had it.
type nodeState struct {
	object *corev1.Node
	// sum stands for everything on it, changed is the session that brought another one.
	hash    uint64
	changed int
}

// hashSeed is the same for all sums of a process.
var hashSeed = maphash.MakeSeed()

func hashOf[T comparable](value T) uint64 { return maphash.Comparable(hashSeed, value) }

// observeSession begins a session.
func (c *changeTracker) observeSession(s *reclaimSession) {
	c.session++
	if rules := s.policy.ServiceTypeRules(); rules != c.rules {
		c.rules, c.allChanged = rules, c.session
	}
	if len(c.nodes) != len(s.nodes) {
		c.nodes, c.allChanged = make([]nodeState, len(s.nodes)), c.session
	}
	sums := make([]uint64, len(s.nodes)+1) // the last is of nodes that the session does not have
	for _, job := range s.ssn.Jobs {
		s.addJobHash(job, sums)
	}
	for i, node := range s.nodes {
		state := &c.nodes[i]
		if state.object != node.Node {
			if !acceptsSamePods(state.object, node.Node) {
				c.allChanged = c.session
			}
			state.object = node.Node
		}
		if sum := sums[i] + hashFree(node); sum != state.hash {
			state.hash, state.changed = sum, c.session
		}
	}
}

// markChanged notes that pods of the session go from the node at a place.
func (c *changeTracker) markChanged(place int) {
	if place < len(c.nodes) {
		c.nodes[place].changed = c.session
	}
}

// changedAfter reports whether something changed after a session that concerns any of the
// nodes at some places, or any node at all if everywhere is set.
func (c *changeTracker) changedAfter(session int, places [][]int, everywhere bool) bool {
	if c.allChanged > session {
		return true
	}
	changed := func(i int) bool { return c.nodes[i].changed > session }
	if everywhere {
		return slices.ContainsFunc(c.nodes, func(n nodeState) bool { return n.changed > session })
	}
	return slices.ContainsFunc(places, func(of []int) bool { return slices.ContainsFunc(of, changed) })
}

// acceptsSamePods reports whether two states of a node take the same pods if they are empty.
func acceptsSamePods(a, b *corev1.Node) bool {
	return a != nil && b != nil && a.Name == b.Name && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// hashFree stands for what a node has free or will have.
func hashFree(node *api.NodeInfo) uint64 {
	idle, releasing, pipelined := node.Idle, node.Releasing, node.Pipelined
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

// jobState are what decides, beside its pods, what a job can give.
type jobState struct {
	queue                       api.QueueID
	queuePriority, priority     int32
	reclaimable                 bool
	minimum, ready              int32
	queueType, groupType, gives string
	evictionPolicy              workload.EvictionPolicy
	isKnown                     bool
	pods                        uint64
}

// addJobHash adds what stands for a job to the sums of all nodes that have pods of it: with
// any of them everything may change that the job can give.
func (s *reclaimSession) addJobHash(job *api.JobInfo, sums []uint64) {
	queue := s.ssn.Queues[job.Queue]
	if queue == nil || job.PodGroup == nil {
		return
	}
	facts := jobState{
		queue: job.Queue, queuePriority: queue.Queue.Spec.Priority, priority: job.Priority, reclaimable: queue.Reclaimable(),
		minimum: job.MinAvailable, ready: job.ReadyTaskNum(), queueType: queue.Queue.Annotations[v1alpha1.AnnotationServiceType],
		groupType: job.PodGroup.Annotations[v1alpha1.AnnotationServiceType], gives: job.PodGroup.Annotations[v1beta1.PodPreemptable],
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
		}{task.Pod, isOnNode(task), statusClass(task.Status)})
	}
	if any == nil {
		return
	}
	if name := workload.VCJobOwner(any.Pod); name != "" {
		facts.evictionPolicy, facts.isKnown = s.action.jobPolicies.EvictionPolicyFor(job.Namespace, name)
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

// statusClass leaves out how far a pod has come in starting.
func statusClass(status api.TaskStatus) api.TaskStatus {
	if api.AllocatedStatus(status) {
		return api.Running
	}
	return status
}
