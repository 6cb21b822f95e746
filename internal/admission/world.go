package admission

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// World is what the rules for workloads know besides the object. What is not
// known refuses nothing: the scheduler knows it later.
type World struct {
	// Inventory is the cards of all nodes; an empty one before they were read.
	Inventory *card.Inventory
	// Policy is the ServiceTypePolicy, nil when there is none.
	Policy *v1alpha1.ServiceTypePolicy
	// Namespace is that of the object, nil when it is not known.
	Namespace *corev1.Namespace
	// Queue finds a Queue by name, nil when it is not known.
	Queue func(name string) *v1beta1.Queue
	// Group finds a PodGroup of the object's namespace by name, nil when it is not
	// known.
	Group func(name string) *v1beta1.PodGroup
	// User is who writes, as the API server names it.
	User string
	// effective is what spec returns, nil before it was asked.
	effective *v1alpha1.ServiceTypePolicySpec
}

// read notes what the workload asks for, once for all rules.
func (w *World) read(ctx context.Context, load *Workload) {
	resolver := workload.Resolver{Inventory: w.Inventory}
	for i := range load.Templates {
		if ctx.Err() != nil {
			return
		}
		load.Templates[i].request = resolver.Request(load.Templates[i].Pod)
	}
	load.totals, load.wrong = card.ParseTotals(load.Annotations[v1alpha1.AnnotationCardRequest])
}

// spec is the effective policy. Without one nobody is kept from passing the
// scheduler by.
func (w *World) spec() *v1alpha1.ServiceTypePolicySpec {
	if w.effective == nil {
		spec := v1alpha1.ServiceTypePolicySpec{Admission: v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassAllow}}
		if w.Policy != nil {
			spec = w.Policy.Spec
		}
		w.effective = ptr.To(policy.Effective(spec))
	}
	return w.effective
}

// looksOn tells that workloads are warned of and none is refused.
func (w *World) looksOn() bool {
	return w.Policy == nil || w.spec().Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassWarn
}

// ours tells whether our scheduler places a pod. A vcjob that names no scheduler
// is Volcano's.
func ours(w *Workload, pod *corev1.Pod, spec *v1alpha1.ServiceTypePolicySpec) bool {
	name := cmp.Or(pod.Spec.SchedulerName, w.Scheduler)
	return name == "" && w.Volcano || slices.Contains(spec.Scheduler.Names, name)
}

// queueOf is the queue that pays for a pod of the workload, as the scheduler and
// Volcano's controllers settle it. Where Volcano's webhook for PodGroups is
// switched on, which is not its default, a namespace can have a queue of its own:
// then the PodGroup is judged by that.
func (w *World) queueOf(load *Workload, pod *corev1.Pod) string {
	if load.Queue != "" || load.Volcano {
		return cmp.Or(load.Queue, workload.DefaultQueue)
	}
	var group *v1beta1.PodGroup
	if name := workload.PodGroupName(pod); name != "" {
		group = w.Group(name)
	}
	return cmp.Or((&workload.Resolver{}).Queue(pod, group, ""), workload.DefaultQueue)
}
