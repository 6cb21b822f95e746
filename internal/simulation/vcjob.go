package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// addVolcanoJob adds the workload of a Volcano job: its PodGroup, and the pods that Volcano creates after the PodGroup
// has been enqueued, see pkg/controllers/job of Volcano. It returns an error for a job that exists, that Volcano would
// refuse, or that whatif does not know.
func (m *workloadMaker) addVolcanoJob(job *batch.Job) error {
	if slices.ContainsFunc(m.cluster.Jobs, func(j *batch.Job) bool { return j.Namespace == job.Namespace && j.Name == job.Name }) {
		return errExists
	}
	if job.Spec.NetworkTopology != nil {
		return errors.New("whatif does not know the network topology: leave out spec.networkTopology")
	}

	// Volcano's webhooks set defaults before they validate.
	m.completeJob(job)
	if err := m.checkJob(job); err != nil {
		return err
	}

	w := Workload{Job: job, WaitsForEnqueue: true}
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		if err := m.countPods(task.Replicas); err != nil {
			return err
		}

		for index := range task.Replicas {
			pod := newTaskPod(job, task, int(index))
			if err := m.completePod(pod); err != nil {
				return err
			}
			if err := m.checkScheduler(pod); err != nil {
				return err
			}
			w.Pods = append(w.Pods, pod)
		}
	}

	w.Group = m.newJobGroup(job)
	m.addWorkload(w)
	return nil
}

// completeJob sets the defaults that Volcano's webhook sets: queue, scheduler, names of tasks, and minimums. A job that
// names no scheduler is for ours, as whatif answers for no other.
func (m *workloadMaker) completeJob(job *batch.Job) {
	job.Spec.Queue = cmp.Or(job.Spec.Queue, "default")
	if job.Spec.SchedulerName == "" {
		job.Spec.SchedulerName = policy.DefaultScheduler
		if !slices.Contains(m.cluster.Schedulers, policy.DefaultScheduler) {
			job.Spec.SchedulerName = m.cluster.Schedulers[0]
		}
	}

	total := int32(0)
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		task.Name = cmp.Or(task.Name, batch.DefaultTaskSpec+strconv.Itoa(i))
		task.MinAvailable = cmp.Or(task.MinAvailable, ptr.To(task.Replicas))
		total += *task.MinAvailable
	}

	job.Spec.MinAvailable = cmp.Or(job.Spec.MinAvailable, total)
}

// jobGroupName returns the name that Volcano gives to the PodGroup of a job.
func jobGroupName(job *batch.Job) string { return job.Name + "-" + string(job.UID) }

// newJobGroup returns the PodGroup that Volcano creates for a Volcano job. It is not enqueued yet.
func (m *workloadMaker) newJobGroup(job *batch.Job) *v1beta1.PodGroup {
	least := map[string]int32{}
	for i := range job.Spec.Tasks {
		least[job.Spec.Tasks[i].Name] = *job.Spec.Tasks[i].MinAvailable
	}

	resources := m.minResources(job)
	return &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: jobGroupName(job), UID: "whatif-group-" + job.UID, Annotations: maps.Clone(job.Annotations), Labels: maps.Clone(job.Labels),
			OwnerReferences: []metav1.OwnerReference{jobReference(job)},
		},
		Spec: v1beta1.PodGroupSpec{
			MinMember: job.Spec.MinAvailable, MinTaskMember: least, Queue: job.Spec.Queue, MinResources: &resources, PriorityClassName: job.Spec.PriorityClassName,
		},
		Status: v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupPending},
	}
}

func jobReference(job *batch.Job) metav1.OwnerReference {
	return *metav1.NewControllerRef(job, batch.SchemeGroupVersion.WithKind("Job"))
}

// minResources returns what the minimum of a job requests, as Volcano's job controller computes it: tasks of a higher
// priority count first. If the job's minimum is not less than the sum of its tasks' minimums, each task counts with its
// minimum before any counts with more.
func (m *workloadMaker) minResources(job *batch.Job) corev1.ResourceList {
	tasks := make([]*batch.TaskSpec, len(job.Spec.Tasks))
	total := int32(0)
	for i := range job.Spec.Tasks {
		tasks[i] = &job.Spec.Tasks[i]
		total += *tasks[i].MinAvailable
	}

	// The order is that of Volcano's job controller: enqueue decides by what that writes.
	slices.SortStableFunc(tasks, func(a, b *batch.TaskSpec) int {
		return cmp.Compare(m.priorityOf(b.Template.Spec.PriorityClassName), m.priorityOf(a.Template.Spec.PriorityClassName))
	})

	// add adds so many pods of a task, but no more than the minimum still needs.
	sum := corev1.ResourceList{}
	left := job.Spec.MinAvailable
	add := func(task *batch.TaskSpec, atMost int32) {
		count := max(0, min(atMost, left))
		left -= count
		pod := &corev1.Pod{Spec: *task.Template.Spec.DeepCopy()}
		workload.DefaultRequests(pod)
		addTo(sum, timesRequests(pod, count))
	}

	if job.Spec.MinAvailable < total { // then the minimum of a task does not matter
		for _, task := range tasks {
			add(task, task.Replicas)
		}
		return sum
	}

	for _, task := range tasks {
		add(task, *task.MinAvailable)
	}
	for _, task := range tasks {
		add(task, task.Replicas-*task.MinAvailable)
	}

	return sum
}

func taskPodName(job *batch.Job, task *batch.TaskSpec, index int) string {
	return fmt.Sprintf("%s-%s-%d", job.Name, task.Name, index)
}

// newTaskPod returns the pod that Volcano creates for a task of a Volcano job, by its index in the task.
func newTaskPod(job *batch.Job, task *batch.TaskSpec, index int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *task.Template.ObjectMeta.DeepCopy(), Spec: *task.Template.Spec.DeepCopy()}
	pod.Namespace = job.Namespace
	pod.Name = taskPodName(job, task, index)
	pod.OwnerReferences = []metav1.OwnerReference{jobReference(job)}
	pod.Spec.SchedulerName = cmp.Or(pod.Spec.SchedulerName, job.Spec.SchedulerName)
	pod.Spec.PriorityClassName = cmp.Or(pod.Spec.PriorityClassName, job.Spec.PriorityClassName)
	pod.Annotations = labels.Merge(pod.Annotations, labels.Set{
		batch.TaskIndex: strconv.Itoa(index), batch.TaskSpecKey: task.Name, v1beta1.KubeGroupNameAnnotationKey: jobGroupName(job),
		batch.JobNameKey: job.Name, batch.QueueNameKey: job.Spec.Queue, batch.JobVersion: strconv.Itoa(int(job.Status.Version)), batch.PodTemplateKey: job.Name + "-" + task.Name,
		batch.JobRetryCountKey: strconv.Itoa(int(job.Status.RetryCount)),
	})
	pod.Annotations = labels.Merge(pod.Annotations, handedDown(job.Annotations, inheritedAnnotations))
	if task.TopologyPolicy != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.NumaPolicyKey, string(task.TopologyPolicy))
	}

	pod.Labels = labels.Merge(pod.Labels, handedDown(job.Labels, inheritedLabels))
	pod.Labels = labels.Merge(pod.Labels, labels.Set{
		batch.TaskIndex: strconv.Itoa(index), batch.JobNameKey: job.Name, batch.TaskSpecKey: task.Name, batch.JobNamespaceKey: job.Namespace, batch.QueueNameKey: job.Spec.Queue,
	})

	return pod
}

// Volcano hands down only these keys, from a job to its pods and from a pod to its PodGroup. Others must be in the
// template to have an effect.
var (
	inheritedAnnotations = []string{v1beta1.PodPreemptable, v1beta1.CooldownTime, v1beta1.RevocableZone, v1beta1.JDBMinAvailable, v1beta1.JDBMaxUnavailable}
	inheritedLabels      = []string{v1beta1.PodPreemptable, v1beta1.CooldownTime}
)

// handedDown returns the annotations or labels with the given keys.
func handedDown(written map[string]string, keys []string) labels.Set {
	kept := maps.Clone(written)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !slices.Contains(keys, key) })
	return kept
}
