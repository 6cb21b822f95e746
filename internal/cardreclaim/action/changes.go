package action

import (
	"fmt"
	"hash/maphash"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// changes tells since which session nothing has changed that decides whether cards can
// be taken back on a node: its room, its pods, and what their jobs can give. One look at
// all pods of a session costs far less than one search.
type changes struct {
	session int
	// all is the last session with a change that concerns every node: one came, went or
	// takes other pods, or other rules say who takes from whom.
	all   int
	rules string
	nodes []nodeState
}

// nodeState is a node as the last session had it.
type nodeState struct {
	object *corev1.Node
	// sum stands for everything on it, changed is the session that brought another one.
	sum     uint64
	changed int
}

// hashSeed is the same for all sums of a process.
var hashSeed = maphash.MakeSeed()

func hashOf[T comparable](value T) uint64 { return maphash.Comparable(hashSeed, value) }

// observe begins a session.
func (c *changes) observe(w *wave) {
	c.session++
	if rules := w.tide.Rules(); rules != c.rules {
		c.rules, c.all = rules, c.session
	}
	if len(c.nodes) != len(w.list) {
		c.nodes, c.all = make([]nodeState, len(w.list)), c.session
	}
	sums := make([]uint64, len(w.list)+1) // the last is of nodes that the session does not have
	for _, job := range w.ssn.Jobs {
		w.addJob(job, sums)
	}
	for i, node := range w.list {
		state := &c.nodes[i]
		if state.object != node.Node {
			if !takesTheSame(state.object, node.Node) {
				c.all = c.session
			}
			state.object = node.Node
		}
		if sum := sums[i] + roomSum(node); sum != state.sum {
			state.sum, state.changed = sum, c.session
		}
	}
}

// free notes that pods of the session go from the node at a place.
func (c *changes) free(place int) {
	if place < len(c.nodes) {
		c.nodes[place].changed = c.session
	}
}

// after reports whether something changed after a session that concerns any of the
// nodes at some places, or any node at all if everywhere is set.
func (c *changes) after(session int, places [][]int, everywhere bool) bool {
	if c.all > session {
		return true
	}
	changed := func(i int) bool { return c.nodes[i].changed > session }
	if everywhere {
		return slices.ContainsFunc(c.nodes, func(n nodeState) bool { return n.changed > session })
	}
	return slices.ContainsFunc(places, func(of []int) bool { return slices.ContainsFunc(of, changed) })
}

// takesTheSame reports whether two states of a node take the same pods if they are empty.
func takesTheSame(a, b *corev1.Node) bool {
	return a != nil && b != nil && a.Name == b.Name && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// roomSum stands for what a node has free or will have.
func roomSum(node *api.NodeInfo) uint64 {
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

// jobFacts are what decides, beside its pods, what a job can give.
type jobFacts struct {
	queue                       api.QueueID
	queuePriority, priority     int32
	reclaimable                 bool
	minimum, ready              int32
	queueType, groupType, gives string
	habit                       workload.EvictionPolicy
	isKnown                     bool
	pods                        uint64
}

// addJob adds what stands for a job to the sums of all nodes that have pods of it: with
// any of them everything may change that the job can give.
func (w *wave) addJob(job *api.JobInfo, sums []uint64) {
	queue := w.ssn.Queues[job.Queue]
	if queue == nil || job.PodGroup == nil {
		return
	}
	facts := jobFacts{
		queue: job.Queue, queuePriority: queue.Queue.Spec.Priority, priority: job.Priority, reclaimable: queue.Reclaimable(),
		minimum: job.MinAvailable, ready: job.ReadyTaskNum(), queueType: queue.Queue.Annotations[v1alpha1.AnnotationServiceType],
		groupType: job.PodGroup.Annotations[v1alpha1.AnnotationServiceType], gives: job.PodGroup.Annotations[v1alpha1.AnnotationPreemptable],
	}
	var any *api.TaskInfo
	for status, tasks := range job.TaskStatusIndex {
		if status == api.Pending {
			continue
		}
		for _, task := range tasks {
			any = task
			facts.pods += hashOf(struct {
				pod    *corev1.Pod
				onNode bool
				status api.TaskStatus
			}{task.Pod, onNode(task), classOf(status)})
		}
	}
	if any == nil {
		return
	}
	if name := workload.VCJobOwner(any.Pod); name != "" {
		facts.habit, facts.isKnown = w.action.jobs.HabitOf(job.Namespace, name)
	}
	for role, least := range job.TaskMinAvailable {
		facts.pods += hashOf(fmt.Sprint(role, least))
	}
	sum := hashOf(facts)
	for status, tasks := range job.TaskStatusIndex {
		if status == api.Pending {
			continue
		}
		for _, task := range tasks {
			sums[w.placeOf(task.NodeName)] += sum
		}
	}
}

// classOf leaves out how far a pod has come in starting.
func classOf(status api.TaskStatus) api.TaskStatus {
	if api.AllocatedStatus(status) {
		return api.Running
	}
	return status
}
