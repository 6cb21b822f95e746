package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// Drain cordons a node and evicts its pods, as kubectl drain --force does. Pods of a controller wait
// for another node, and so do all pods of a Volcano job that restarts on evictions. Other pods end, and so do all pods of a
// Volcano job that ends on evictions. Pods of a DaemonSet and static pods stay. An error is an unknown node.
func (c *Cluster) Drain(name string) error {
	i := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no node %s", name)
	}

	cordoned := c.Nodes[i].DeepCopy()
	cordoned.Spec.Unschedulable = true
	c.Nodes[i] = cordoned

	isEvicted := func(pod *corev1.Pod) bool { return pod.Spec.NodeName == name && !staysDuringDrain(pod) }
	restarted, ended := c.jobsOfEvicted(isEvicted)
	var left []*corev1.Pod
	for _, pod := range c.Pods {
		job := types.NamespacedName{Namespace: pod.Namespace, Name: workload.VCJobOwner(pod)}
		switch {
		case workload.IsFinished(pod), !isEvicted(pod) && !restarted[job] && !ended[job]:
			left = append(left, pod)
		case pod.DeletionTimestamp != nil: // it ends anyway, so the drain does not evict it
		case metav1.GetControllerOf(pod) == nil || ended[job]:
			c.Evicted = append(c.Evicted, Eviction{Pod: pod})
		case pod.Spec.NodeName == "": // it waits already
			left = append(left, pod)
		default:
			again := Recreate(pod)
			left = append(left, again)
			c.Evicted = append(c.Evicted, Eviction{pod, again.UID})
		}
	}

	c.Pods = left
	c.Jobs = slices.DeleteFunc(slices.Clone(c.Jobs), func(job *batch.Job) bool {
		return ended[types.NamespacedName{Namespace: job.Namespace, Name: job.Name}]
	})

	return nil
}

// jobsOfEvicted returns the Volcano jobs that restart as a whole, and those that end, when some pods are evicted.
func (c *Cluster) jobsOfEvicted(isEvicted func(*corev1.Pod) bool) (restarted, ended map[types.NamespacedName]bool) {
	touched := map[types.NamespacedName]bool{}
	for _, pod := range c.Pods {
		if job := workload.VCJobOwner(pod); job != "" && isEvicted(pod) {
			touched[types.NamespacedName{Namespace: pod.Namespace, Name: job}] = true
		}
	}

	restarted = map[types.NamespacedName]bool{}
	ended = map[types.NamespacedName]bool{}
	for _, job := range c.Jobs {
		name := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
		if !touched[name] {
			continue
		}

		// If its policies say so, an eviction restarts or ends the whole job, with its pods on other nodes.
		// Other jobs lose only the evicted pods.
		policy := workload.EvictionPolicyFor(job)
		restarted[name] = policy.Inelastic && !policy.Terminates
		ended[name] = policy.Terminates
	}

	return restarted, ended
}

// staysDuringDrain reports whether kubectl drain leaves a pod on its node: a static pod, or a pod of a DaemonSet, which
// would come back at once.
func staysDuringDrain(pod *corev1.Pod) bool {
	if _, isStatic := pod.Annotations[corev1.MirrorPodAnnotationKey]; isStatic {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// Recreate returns the pod that the controller of an evicted pod creates in its place: it waits, with a new UID. It keeps
// the name, also where a controller would draw a new one.
func Recreate(pod *corev1.Pod) *corev1.Pod {
	again := pod.DeepCopy()
	again.UID += "-again"
	again.CreationTimestamp = metav1.Time{}
	again.DeletionTimestamp = nil
	again.DeletionGracePeriodSeconds = nil
	again.Spec.NodeName = ""
	again.Status = corev1.PodStatus{Phase: corev1.PodPending}
	delete(again.Annotations, v1alpha1.AnnotationChargedQueue)
	delete(again.Annotations, workload.AnnotationOutOfSync)
	return again
}
