package why

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/workload"
)

// turn decides when the scheduler tries a PodGroup: by its PriorityClass, then those whose minimum does
// not run yet, then by its age. Volcano's plugins priority and gang decide so.
type turn struct {
	priority int32
	// isReady reports whether the minimum of the PodGroup runs.
	isReady bool
	created metav1.Time
}

// isBefore reports whether the scheduler tries a PodGroup before another one.
func (t turn) isBefore(other turn) bool {
	switch {
	case t.priority != other.priority:
		return t.priority > other.priority
	case t.isReady != other.isReady:
		return other.isReady
	default:
		return t.created.Before(&other.created)
	}
}

// priorities are the values of the PriorityClasses by name, and standard, that of PodGroups without a known class.
type priorities struct {
	values   map[string]int32
	standard int32
}

// readPriorities reads all PriorityClasses, and reports whether the user may.
func readPriorities(ctx context.Context, r *reader.Reader) (p priorities, mayRead bool) {
	var classes []*schedulingv1.PriorityClass
	mayRead = reader.ListInto(ctx, r, &schedulingv1.PriorityClassList{}, &classes)
	p.values = map[string]int32{}
	for _, class := range classes {
		p.values[class.Name] = class.Value
		if class.GlobalDefault {
			p.standard = class.Value
		}
	}
	return p, mayRead
}

// turnOf returns the turn of a PodGroup. ready is how many of its pods are ready, as isReady reports, without
// those that have succeeded: finished pods are not read, and the PodGroup counts them.
func (p priorities) turnOf(group *v1beta1.PodGroup, ready int32) turn {
	priority, known := p.values[group.Spec.PriorityClassName]
	if !known {
		priority = p.standard
	}
	return turn{priority, ready+group.Status.Succeeded >= group.Spec.MinMember, group.CreationTimestamp}
}

// isReady reports whether an unfinished pod counts for the minimum of its PodGroup: it has a node, or waits
// and requests nothing, so that it needs no room.
func isReady(pod *corev1.Pod) bool {
	if !workload.IsPending(pod) {
		return workload.IsAssigned(pod)
	}
	for _, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if quantity.Sign() > 0 {
			return false
		}
	}
	return true
}

// readOrder reads in which order the scheduler tries the workloads of the queue, if the user may list all of them.
func (r *inputReader) readOrder(ctx context.Context) {
	if !r.loaded.IsComplete || r.input.Pending == 0 {
		return
	}
	if classes, mayRead := readPriorities(ctx, r.Reader); mayRead {
		r.setOrder(r.waitingTurns(classes))
	}
}

// setOrder sets how many turns are before that of the workload, and the priority of a job without pods: that of its
// PodGroup.
func (r *inputReader) setOrder(turns map[v1alpha1.WorkloadReference]turn) {
	own, waits := turns[r.input.Workload]
	if !waits {
		return
	}

	if r.input.Request.IsJob {
		r.input.Request.Priority = own.priority
	}

	r.input.Ahead = &explanation.Ahead{}
	for reference, other := range turns {
		switch {
		case reference == r.input.Workload || !other.isBefore(own):
		case other.priority > own.priority:
			r.input.Ahead.Higher++
		// Volcano's gang plugin puts jobs below their minimum first.
		case own.isReady && !other.isReady:
			r.input.Ahead.Incomplete++
		default:
			r.input.Ahead.Older++
		}
	}
}

// waitingTurns returns the first turn of each workload that waits in the queue, also of jobs without
// pods.
func (r *inputReader) waitingTurns(classes priorities) map[v1alpha1.WorkloadReference]turn {
	turns := map[v1alpha1.WorkloadReference]turn{}
	add := func(reference v1alpha1.WorkloadReference, next turn) {
		if first, known := turns[reference]; !known || next.isBefore(first) {
			turns[reference] = next
		}
	}

	groups := map[client.ObjectKey]*v1beta1.PodGroup{}
	for _, group := range r.loaded.PodGroups {
		groups[client.ObjectKeyFromObject(group)] = group
	}

	hasPods, ready := countReadyPods(r.loaded.Pods)
	for _, pod := range r.loaded.Pods {
		key := podGroupKey(pod)
		group := groups[key]
		if !r.waitsInQueue(pod, group) {
			continue
		}

		if group != nil {
			add(workload.ReferenceFor(pod), classes.turnOf(group, ready[key]))
		} else {
			// Alone it is its own minimum, which does not run yet.
			add(workload.ReferenceFor(pod), turn{ptr.Deref(pod.Spec.Priority, 0), false, pod.CreationTimestamp})
		}
	}

	for key, group := range groups {
		if !hasPods[key] && workload.IsPodGroupPending(group) && workload.PodGroupQueue(group) == r.input.Queue {
			add(workload.ControllerReference(group, v1beta1.GroupName, "PodGroup"), classes.turnOf(group, 0))
		}
	}

	return turns
}

// waitsInQueue reports whether a pod waits in the queue of the workload.
func (r *inputReader) waitsInQueue(pod *corev1.Pod, group *v1beta1.PodGroup) bool {
	return workload.IsPending(pod) && r.resolver.UsesOurScheduler(pod) && r.queueOf(pod, group) == r.input.Queue
}

// countReadyPods returns which PodGroups have pods, and how many of these are ready.
func countReadyPods(pods []*corev1.Pod) (hasPods map[client.ObjectKey]bool, ready map[client.ObjectKey]int32) {
	hasPods = map[client.ObjectKey]bool{}
	ready = map[client.ObjectKey]int32{}
	for _, pod := range pods {
		key := podGroupKey(pod)
		hasPods[key] = true
		if isReady(pod) {
			ready[key]++
		}
	}
	return hasPods, ready
}

// podGroupKey returns the key of the PodGroup of a pod.
func podGroupKey(pod *corev1.Pod) client.ObjectKey {
	return client.ObjectKey{Namespace: pod.Namespace, Name: workload.PodGroupName(pod)}
}
