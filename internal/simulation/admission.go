package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/validation"
	"cardquota.dev/operator/internal/workload"
)

// admissionInput returns what the webhooks know of the cluster.
func (c *Cluster) admissionInput() validation.WorkloadInput {
	tree := c.tree()
	return validation.WorkloadInput{
		Inventory: c.Inventory(), Policy: c.Policy, Queue: c.queueByName, Tree: func(*v1beta1.Queue) *quota.Tree { return tree },
	}
}

// queueByName returns a queue of the cluster, nil if there is none of that name.
func (c *Cluster) queueByName(name string) *v1beta1.Queue {
	if i := slices.IndexFunc(c.Queues, func(q *v1beta1.Queue) bool { return q.Name == name }); i >= 0 {
		return c.Queues[i]
	}
	return nil
}

func (c *Cluster) hasChildren(name string) bool {
	return slices.ContainsFunc(c.Queues, func(q *v1beta1.Queue) bool { return q.Spec.Parent == name })
}

// admit sets the defaults of Cardquota's webhooks in an object, and returns an error if they would refuse it. An object
// that they do not know is admitted.
func (m *workloadMaker) admit(object runtime.Object, namespace string) error {
	i := slices.IndexFunc(m.cluster.Namespaces, func(n *corev1.Namespace) bool { return n.Name == namespace })
	if i < 0 {
		return fmt.Errorf("there is no namespace %s: create it, or choose one with --namespace", namespace)
	}

	// What the webhooks know depends on the namespace of the object.
	input := m.admission
	input.Namespace = m.cluster.Namespaces[i]
	input.PodGroup = func(name string) *v1beta1.PodGroup { return m.podGroup(namespace, name) }

	// The mutating webhooks come before the validating ones, as in the API server.
	if job, isJob := object.(*batch.Job); isJob {
		defaults := validation.VCJobDefaults(job, input)
		if defaults.MaxRetry > 0 {
			job.Spec.MaxRetry = defaults.MaxRetry
		}
		job.Spec.Policies = append(job.Spec.Policies, defaults.Policies...)
	}

	load, ok := validation.WorkloadOf(object)
	if !ok {
		return nil
	}

	// A workload without an old one is a creation.
	result, err := validation.ValidateWorkload(context.Background(), load, nil, input)
	if err != nil {
		return err
	}
	if err := result.Truncated().Errors.ToAggregate(); err != nil {
		return fmt.Errorf("the webhook of Cardquota would refuse it: %w", err)
	}

	return nil
}

// setNamespaceQueue sets the queue of a PodGroup as Volcano's webhook does: one that names the default
// queue gets that of its namespace, if the namespace has an annotation for it.
func (m *workloadMaker) setNamespaceQueue(group *v1beta1.PodGroup) {
	for _, namespace := range m.cluster.Namespaces {
		if name := namespace.Annotations[v1beta1.QueueNameAnnotationKey]; name != "" && namespace.Name == group.Namespace && group.Spec.Queue == workload.DefaultQueue {
			group.Spec.Queue = name
		}
	}
}

// podGroup returns a PodGroup of the cluster or of the files, nil if there is none.
func (m *workloadMaker) podGroup(namespace, name string) *v1beta1.PodGroup {
	return m.groups[types.NamespacedName{Namespace: namespace, Name: name}]
}

// addGroup makes a PodGroup known to podGroup. The first one of a name stays.
func (m *workloadMaker) addGroup(group *v1beta1.PodGroup) {
	if m.podGroup(group.Namespace, group.Name) == nil {
		m.groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
	}
}

// addWorkload adds what an object becomes, and makes its PodGroup known.
func (m *workloadMaker) addWorkload(w Workload) {
	m.workloads = append(m.workloads, w)
	if w.Group != nil {
		m.addGroup(w.Group)
	}
}

// checkQueue returns an error for a queue to which Volcano's webhooks let nothing be submitted: it does not exist, or is
// not Open.
func (m *workloadMaker) checkQueue(name string) error {
	queue := m.cluster.queueByName(name)
	switch {
	case queue == nil:
		return refusedByVolcano("there is no queue %s", name)
	case queue.Status.State != v1beta1.QueueStateOpen:
		return refusedByVolcano("queue %s is %s, not Open", name, cmp.Or(string(queue.Status.State), "without a state"))
	}
	return nil
}

// checkJob returns an error for a Volcano job that Volcano's webhook refuses, or with fields that whatif does not know.
func (m *workloadMaker) checkJob(job *batch.Job) error {
	if err := m.checkQueue(job.Spec.Queue); err != nil {
		return err
	}

	replicas := int32(0)
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		replicas += task.Replicas
		switch {
		// An answer that ignores such a field would promise a start that Volcano does not make.
		case task.DependsOn != nil:
			return fmt.Errorf("whatif does not know the order of tasks: leave out dependsOn of task %s", task.Name)
		case task.PartitionPolicy != nil:
			return fmt.Errorf("whatif does not know partitions: leave out partitionPolicy of task %s", task.Name)
		case task.MinAvailable != nil && *task.MinAvailable > task.Replicas:
			return refusedByVolcano("minAvailable of task %s is %d, and it has %d replicas", task.Name, *task.MinAvailable, task.Replicas)
		}
	}

	switch {
	case len(job.Spec.Tasks) == 0:
		return refusedByVolcano("it has no tasks")
	case job.Spec.MinAvailable > replicas:
		return refusedByVolcano("minAvailable is %d, and its tasks have %d replicas", job.Spec.MinAvailable, replicas)
	case job.Spec.Queue == workload.RootQueue:
		return refusedByVolcano("no job may use the root queue")
	case m.cluster.hasChildren(job.Spec.Queue):
		return refusedByVolcano("queue %s has queues below it", job.Spec.Queue)
	}

	return nil
}

func refusedByVolcano(format string, values ...any) error {
	return fmt.Errorf("the webhook of Volcano would refuse it: "+format, values...)
}
