package cardreclaim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// DrainName is the reason that is written to the pods that a stop policy evicts.
const DrainName = "drain"

// eventDrained is on the PodGroup of a drained job, and on its queue.
const eventDrained = "Drained"

// maxDrainedPods is how many pods a session drains. The next sessions drain the rest. A job is
// evicted as a whole, so a session may drain the whole of one larger job.
const maxDrainedPods = 256

// Allocate is Volcano's action allocate, with the order of a tree. After it, it drains queues.
// Every configuration that starts pods has allocate, so stop policies drain whatever else the
// configuration evicts.
type Allocate struct {
	framework.Action
	// reclaim has what all our actions need.
	reclaim *Action
}

var _ framework.Action = &Allocate{}

// NewAllocate returns the action allocate, which evicts pods as reclaim does.
func NewAllocate(reclaim *Action) *Allocate {
	return &Allocate{Action: allocate.New(), reclaim: reclaim}
}

// Execute starts pods, in a tree first those with which no queue borrows. Then it deletes evicted
// pods that do not end, and evicts the jobs of drained queues.
func (a *Allocate) Execute(ssn *framework.Session) {
	policy, ok := a.reclaim.cache.ReclaimPolicyFor(ssn.UID)
	if !ok {
		a.Action.Execute(ssn)
		return
	}

	policy.Allocate(func() { a.Action.Execute(ssn) })
	policiesKnown := a.reclaim.jobPolicies.OpenSession(ssn)
	a.reclaim.deleteOverdue(ssn, policy)
	if jobs := policy.DrainedJobs(); len(jobs) > 0 {
		s := &reclaimSession{ssn: ssn, policy: policy, action: a.reclaim, now: policy.Now()}
		s.drainJobs(jobs, policiesKnown)
	}
}

// drained counts what a session evicts from one queue.
type drained struct {
	jobs, pods int
	// by is the queue with the stop policy.
	by api.QueueID
}

// drainJobs evicts jobs of queues whose stop policy is HoldAndDrain, or an ancestor's is. Evicted
// pods count as terminating in the following sessions, so none is evicted twice. After a restart,
// the pods that still run are evicted again. While the policies of vcjobs are not known, vcjobs
// wait: their own policy may want to see the eviction.
func (s *reclaimSession) drainJobs(jobs []*api.JobInfo, policiesKnown bool) {
	total := 0
	byQueue := map[api.QueueID]*drained{}
	for _, job := range jobs {
		if total >= maxDrainedPods {
			break
		}
		tasks := drainableTasks(job)
		if len(tasks) == 0 || (!policiesKnown && workload.VCJobOwner(tasks[0].Pod) != "") {
			continue
		}

		total += len(tasks)
		queue := s.policy.DrainedQueue(job)
		d := byQueue[queue]
		if d == nil {
			d = &drained{by: s.policy.DrainedBy(queue)}
			byQueue[queue] = d
		}

		d.jobs++
		d.pods += len(tasks)
		s.drainJob(job, tasks, d.by)
	}

	for _, name := range slices.Sorted(maps.Keys(byQueue)) {
		d := byQueue[name]
		s.policy.RecordEvent(queueReference(s.ssn.Queues[name]), corev1.EventTypeNormal, eventDrained, fmt.Sprintf(
			"%d job(s) with %d pod(s) are drained: stopPolicy of queue %s is HoldAndDrain", d.jobs, d.pods, d.by))
	}
}

// drainableTasks lists the pods of a job that a drain evicts: all but those that are critical to
// the system. It lists none while a pod is on its way to its node, because a job is evicted as a
// whole.
func drainableTasks(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range job.Tasks {
		switch {
		case !api.AllocatedStatus(task.Status) || workload.IsCritical(task.Pod):
		case !capacitycard.IsOnNode(task.Status):
			return nil
		default:
			tasks = append(tasks, task)
		}
	}

	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int { return cmp.Compare(a.Name, b.Name) })
	return tasks
}

// drainJob evicts pods of a job, and records by which stop policy.
func (s *reclaimSession) drainJob(job *api.JobInfo, tasks []*api.TaskInfo, by api.QueueID) {
	gone := framework.NewStatement(s.ssn) // never committed, see simulation
	for _, task := range tasks {
		if err := gone.Evict(task, DrainName); err != nil {
			klog.ErrorS(err, "Pod could not be evicted", "pod", klog.KObj(task.Pod))
		}
	}

	vcjob := workload.VCJobOwner(tasks[0].Pod)
	recreated := s.action.isRecreated(job.Namespace, vcjob)
	klog.InfoS("Job is drained", "job", klog.KRef(job.Namespace, job.Name), "pods", len(tasks), "recreated", recreated, "queue", job.Queue, "stopPolicyOf", by)
	s.evictTasks(tasks, recreated, DrainName)

	then := "what is started in their place waits until stopPolicy is None"
	switch {
	case vcjob != "" && !recreated:
		then = "the job's own policy on evicted pods ends it"
	case vcjob != "":
		then = "the job starts again when stopPolicy is None and cards are free; no retry is counted"
	}

	s.policy.RecordEvent(capacitycard.PodGroupReference(job), corev1.EventTypeWarning, eventDrained, fmt.Sprintf(
		"%d pod(s) are drained, because stopPolicy of queue %s is HoldAndDrain: %s", len(tasks), by, then))
}

// queueReference returns a queue as the object of an event.
func queueReference(queue *api.QueueInfo) *v1beta1.Queue {
	return &v1beta1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue"},
		ObjectMeta: metav1.ObjectMeta{Name: queue.Name, UID: queue.Queue.UID},
	}
}
