package actions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/cardreclaim"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/workload"
)

// DrainName is the reason that is written to the pods that a stop policy evicts.
const DrainName = "drain"

// eventDrained is on the PodGroup of a drained job, and on its queue.
const eventDrained = "Drained"

// maxDrainedPods is how many pods a session drains. The next sessions drain the rest. A job is
// evicted as a whole, so a session may drain the whole of one larger job.
const maxDrainedPods = 256

// drain evicts the jobs of drained queues in one session.
type drain struct {
	plugin    *capacitycard.Plugin
	evictions *cardreclaim.Evictions
}

// drained counts what a session evicts from one queue.
type drained struct {
	jobs, pods int
	// by is the queue with the stop policy.
	by api.QueueID
}

// evictJobs evicts jobs of queues whose stop policy is HoldAndDrain, or an ancestor's is. Evicted
// pods count as terminating in the following sessions, so none is evicted twice. After a restart,
// the pods that still run are evicted again. While the policies of vcjobs are not known, vcjobs
// wait: their own policy may want to see the eviction.
func (d *drain) evictJobs(jobs []*api.JobInfo, policiesKnown bool) {
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
		queue := d.plugin.Drains.DrainedQueue(job)
		count := byQueue[queue]
		if count == nil {
			count = &drained{by: d.plugin.Drains.DrainedBy(queue)}
			byQueue[queue] = count
		}

		count.jobs++
		count.pods += len(tasks)
		d.evictJob(job, tasks, count.by)
	}

	for _, name := range slices.Sorted(maps.Keys(byQueue)) {
		count := byQueue[name]
		d.plugin.Events.RecordEvent(queueReference(d.plugin.Volcano.Queues[name]), corev1.EventTypeNormal, eventDrained, fmt.Sprintf(
			"%d job(s) with %d pod(s) are drained: stopPolicy of queue %s is HoldAndDrain", count.jobs, count.pods, count.by))
	}
}

// drainableTasks lists the pods of a job that a drain evicts, by name: all on nodes but those that are critical to
// the system. It lists none while a pod is being bound, because a job is evicted as a whole.
func drainableTasks(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range job.Tasks {
		switch {
		case !api.AllocatedStatus(task.Status) || workload.IsCritical(task.Pod):
		case !gang.IsOnNode(task.Status):
			return nil
		default:
			tasks = append(tasks, task)
		}
	}

	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int { return cmp.Compare(a.Name, b.Name) })
	return tasks
}

// evictJob evicts pods of a job, and records an event on its PodGroup: which stop policy drains it, and what
// becomes of the job. by is the queue with that policy. The pods of a Volcano job are recreated, unless the
// job's own policy decides about evicted pods.
func (d *drain) evictJob(job *api.JobInfo, tasks []*api.TaskInfo, by api.QueueID) {
	// The statement releases the pods in this session. It is never committed, because Evictions writes to the
	// pods.
	statement := framework.NewStatement(d.plugin.Volcano)
	for _, task := range tasks {
		if err := statement.Evict(task, DrainName); err != nil {
			klog.ErrorS(err, "Pod could not be evicted", "pod", klog.KObj(task.Pod))
		}
	}

	vcjob := workload.VCJobOwner(tasks[0].Pod)
	recreated := d.evictions.Evict(d.plugin.Evictions, tasks, DrainName)
	klog.InfoS("Job is drained", "job", klog.KRef(job.Namespace, job.Name), "pods", len(tasks), "recreated", recreated, "queue", job.Queue, "stopPolicyOf", by)

	// vcjob is "" if no Volcano job owns the pods. Another controller, such as that of a Job, then starts new
	// ones.
	then := "what is started in their place waits until stopPolicy is None"
	switch {
	case vcjob != "" && !recreated:
		then = "the job's own policy on evicted pods ends it"
	case vcjob != "":
		then = "the job starts again when stopPolicy is None and cards are free; no retry is counted"
	}

	d.plugin.Events.RecordEvent(capacitycard.PodGroupReference(job), corev1.EventTypeWarning, eventDrained, fmt.Sprintf(
		"%d pod(s) are drained, because stopPolicy of queue %s is HoldAndDrain: %s", len(tasks), by, then))
}

// queueReference returns a queue as the object of an event.
func queueReference(queue *api.QueueInfo) *v1beta1.Queue {
	return &v1beta1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue"},
		ObjectMeta: metav1.ObjectMeta{Name: queue.Name, UID: queue.Queue.UID},
	}
}
