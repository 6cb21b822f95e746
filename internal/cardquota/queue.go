// Package cardquota holds the rules of a CardQuota: what the Volcano Queue must carry for
// it, which of its fields are in place and who else writes them; what the pods of every
// queue hold and wait for, counted from the beginning every time, so that no number can
// drift; and what the status is, given these.
//
// The package is pure: objects in, apply configurations, counts and conditions out; the
// time is an argument.
package cardquota

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// LabelManagedBy on a Queue tells who manages it: v1alpha1.FieldManager as long as it is
// a CardQuota's. It is left to whoever wrote another value.
const LabelManagedBy = "app.kubernetes.io/managed-by"

// notClosedByParent is what Volcano's queue controller writes for a queue that
// was not closed together with its parent.
const notClosedByParent = "false"

// nonexistentVersion is a resource version that no stored object has. An apply that names
// it makes a Queue, and is a conflict where there is one by now: what is said
// of a new Queue never gets onto one that somebody else has just made.
const nonexistentVersion = "1"

// DesiredQueue is what a Queue shall carry.
type DesiredQueue struct {
	// Config holds exactly the fields that the operator owns. Applying it
	// removes what it owned before and does not name any more.
	Config *apply.QueueApplyConfiguration
	// WeightHeldBy names the manager to whom spec.weight is left although the
	// CardQuota wants another value, "" when there is none.
	WeightHeldBy string
}

// ServiceTypeLookup tells what a service type means for its queues. It is false for a type
// that means nothing: its queues keep the priority they have.
type ServiceTypeLookup func(name string) (servicetype.Type, bool)

// NewDesiredQueue plans the Queue of a CardQuota by the types in force. live is the
// Queue as it is, nil when there is none; allocated is the value for
// volcano.sh/card.allocated, "" to leave it out.
//
// Four fields are given way: the label of who manages the Queue and spec.weight to whoever manages it with another
// value, spec.parent to whoever set another one, and
// volcano.sh/closed-by-parent to Volcano's queue controller as soon as it says
// true. The last two are written at all because Volcano 1.14 patches the
// queue with JSON patches that fail while spec or that annotation is missing.
func NewDesiredQueue(quota *v1alpha1.CardQuota, types ServiceTypeLookup, live *v1beta1.Queue, allocated string) DesiredQueue {
	config := baseConfig(quota, live, QuotaOf(quota), allocated)
	spec := config.Spec
	if limits := capabilityList(quota.Spec.Resources); len(limits) > 0 {
		spec.WithCapability(limits)
	}
	if serviceType, ok := types(quota.Spec.ServiceType); ok {
		spec.WithPriority(serviceType.Priority).WithReclaimable(serviceType.Reclaimable)
	}
	desired := DesiredQueue{Config: config}
	if weight := quota.Spec.Weight; weight != nil {
		desired.WeightHeldBy = otherWeightManager(live, *weight)
		if desired.WeightHeldBy == "" {
			spec.WithWeight(*weight)
		}
	}
	desired.dropEmptySpec()
	return desired
}

// NewDrainedQueue plans the Queue of a CardQuota that is being deleted: no card, no
// CPU and no memory, so that nothing new starts while pods finish.
func NewDrainedQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue, allocated string) DesiredQueue {
	desired := DesiredQueue{Config: baseConfig(quota, live, card.Quota{}, allocated)}
	desired.dropEmptySpec()
	return desired
}

// NewAbandonedQueue plans a Queue that the operator did not make and is about to leave: no
// card, no CPU and no memory, since nobody decided that work may go on in it
// without a CardQuota. What would grow stale there without an operator is taken
// off. It is to be applied before ownership is given up.
func NewAbandonedQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue) DesiredQueue {
	desired := DesiredQueue{Config: baseConfig(quota, live, card.Quota{}, "")}
	delete(desired.Config.Annotations, v1alpha1.AnnotationServiceType)
	delete(desired.Config.Annotations, v1alpha1.AnnotationNamespaceSelector)
	desired.Config.Labels = nil
	desired.dropEmptySpec()
	return desired
}

// baseConfig plans what every owned Queue carries.
func baseConfig(quota *v1alpha1.CardQuota, live *v1beta1.Queue, cards card.Quota, allocated string) *apply.QueueApplyConfiguration {
	spec := apply.QueueSpec()
	config := apply.Queue(quota.QueueName()).WithSpec(spec).WithAnnotations(map[string]string{
		v1alpha1.AnnotationCardQuota:   cards.String(),
		v1alpha1.AnnotationServiceType: quota.Spec.ServiceType,
	})
	if text := namespaceSelectorText(quota.Spec.NamespaceSelector); text != "" {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationNamespaceSelector: text})
	}
	if allocated != "" {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationCardAllocated: allocated})
	}
	if live == nil {
		config.WithResourceVersion(nonexistentVersion).WithAnnotations(map[string]string{v1alpha1.AnnotationCreatedBy: quota.Name})
	}
	closedByParent, parent, manager := "", "", ""
	if live != nil {
		manager = live.Labels[LabelManagedBy]
		if live.UID != "" { // an apply must not make a Queue that was there a moment ago
			config.WithUID(live.UID)
		}
		if CreatedByOperator(live) { // applying without it would remove it
			config.WithAnnotations(map[string]string{v1alpha1.AnnotationCreatedBy: live.Annotations[v1alpha1.AnnotationCreatedBy]})
		}
		closedByParent, parent = live.Annotations[annotationClosedByParent], live.Spec.Parent
	}
	if manager == "" || manager == v1alpha1.FieldManager {
		config.WithLabels(map[string]string{LabelManagedBy: v1alpha1.FieldManager})
	}
	if closedByParent == "" || closedByParent == notClosedByParent {
		config.WithAnnotations(map[string]string{annotationClosedByParent: notClosedByParent})
	}
	if parent == "" || parent == workload.RootQueue {
		spec.WithParent(workload.RootQueue)
	}
	return config
}

// namespaceSelectorText is the value for volcano.sh/namespace-selector, "" for a CardQuota
// that does not choose. Equal selectors are equal texts.
func namespaceSelectorText(selector *metav1.LabelSelector) string {
	if selector == nil {
		return ""
	}
	text, err := json.Marshal(selector)
	if err != nil {
		return "none" // strings and lists of strings always marshal; whoever cannot read it lets nobody in
	}
	return string(text)
}

// QuotaOf returns the quota that a CardQuota grants.
func QuotaOf(quota *v1alpha1.CardQuota) card.Quota {
	out := make(card.Quota, len(quota.Spec.Cards))
	for _, c := range quota.Spec.Cards {
		out[card.Name(c.Name)] = card.Count(c.Quota)
	}
	return out
}

func capabilityList(resources *v1alpha1.Resources) corev1.ResourceList {
	limits := corev1.ResourceList{}
	if resources != nil && resources.CPU != nil {
		limits[corev1.ResourceCPU] = *resources.CPU
	}
	if resources != nil && resources.Memory != nil {
		limits[corev1.ResourceMemory] = *resources.Memory
	}
	return limits
}

// YieldField takes a field that another manager holds out of the plan. It is false
// for a field that the operator insists on.
func (p *DesiredQueue) YieldField(c FieldConflict) bool {
	switch c.Field {
	case fieldWeight:
		p.Config.Spec.Weight = nil
		p.WeightHeldBy = c.Manager
	case fieldParent:
		p.Config.Spec.Parent = nil
	case labelField(LabelManagedBy):
		p.Config.Labels = nil
	case annotationField(annotationClosedByParent):
		delete(p.Config.Annotations, annotationClosedByParent)
	default:
		return false
	}
	p.dropEmptySpec()
	return true
}

// dropEmptySpec keeps an empty spec out of the plan: applied, it would make the
// operator the owner of spec as a whole.
func (p *DesiredQueue) dropEmptySpec() {
	if spec := p.Config.Spec; spec != nil && spec.Capability == nil && spec.Parent == nil &&
		spec.Priority == nil && spec.Reclaimable == nil && spec.Weight == nil {
		p.Config.Spec = nil
	}
}

// QueueOwner picks, of all CardQuotas for one queue, the one that has it: the
// oldest, of equally old ones the first by name. It returns nil for none. A
// CardQuota that is being deleted has its queue until it is gone.
func QueueOwner(candidates []*v1alpha1.CardQuota) *v1alpha1.CardQuota {
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, func(a, b *v1alpha1.CardQuota) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// NextOwner picks, of all CardQuotas for one queue, the one that will have it
// when the given one is gone, nil for none.
func NextOwner(of *v1alpha1.CardQuota, candidates []*v1alpha1.CardQuota) *v1alpha1.CardQuota {
	return QueueOwner(slices.DeleteFunc(slices.Clone(candidates), func(c *v1alpha1.CardQuota) bool {
		return c.Name == of.Name || c.DeletionTimestamp != nil
	}))
}
