package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// MissingPods returns the pods that Volcano has not created yet for the Volcano jobs of the cluster,
// because the job is not enqueued or is restarted. They compete with the pods of new workloads for cards. They are at most
// MaxPods.
func (c *Cluster) MissingPods() []Workload {
	m := newWorkloadMaker(c)
	for _, pod := range c.Pods {
		if pod.DeletionTimestamp != nil { // its successor has the same name
			delete(m.taken, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}

	for _, job := range c.Jobs {
		if isStarting(job) {
			m.addMissing(job.DeepCopy())
		}
	}

	return m.workloads
}

// isStarting reports whether Volcano creates the pods that a job lacks: the job neither ends nor has ended. A job without
// a phase is new.
func isStarting(job *batch.Job) bool {
	phases := []batch.JobPhase{"", batch.Pending, batch.Running, batch.Restarting}
	return job.DeletionTimestamp == nil && slices.Contains(phases, job.Status.State.Phase)
}

// addMissing adds a workload with the pods that a job lacks, if any. It leaves out pods that the API server would refuse,
// those of other schedulers, and those that wait for other tasks. It completes the job, so it gets a copy.
func (m *workloadMaker) addMissing(job *batch.Job) {
	m.completeJob(job)
	w := Workload{Job: job, WaitsForEnqueue: true, Group: m.podGroup(job.Namespace, jobGroupName(job))}
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		if task.DependsOn != nil {
			continue
		}

		for index := range task.Replicas {
			if m.pods >= MaxPods {
				break
			}
			if m.taken[types.NamespacedName{Namespace: job.Namespace, Name: taskPodName(job, task, int(index))}] {
				continue
			}

			pod := newTaskPod(job, task, int(index))
			// What cannot be created now does not compete either, so it is left out without an
			// error.
			if m.checkScheduler(pod) == nil && m.completePod(pod) == nil {
				w.Pods = append(w.Pods, pod)
				m.pods++
			}
		}
	}

	if len(w.Pods) == 0 {
		return
	}

	if w.Group == nil {
		w.Group = m.newJobGroup(job)
		w.Group.CreationTimestamp = job.CreationTimestamp
	}
	m.addWorkload(w)
}
