// Package cardquota contains the rules of a CardQuota. They decide which fields its Volcano
// Queue carries, and what the status is.
//
// The package is pure: objects in, apply configurations and conditions out; the time is an
// argument.
package cardquota

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// Finalizer keeps a CardQuota until its Queue is deleted, released or restored.
const Finalizer = "cardquota.dev/queue"

// notClosedByParent is the value that Volcano's queue controller writes for a queue that
// was not closed with its parent.
const notClosedByParent = "false"

// DesiredQueue is the Queue as the CardQuota wants it.
type DesiredQueue struct {
	// Config has exactly the fields that the operator owns. Applying it removes fields
	// that the operator owned before.
	Config *apply.QueueApplyConfiguration
	// WeightManager is the manager that keeps spec.weight although the CardQuota wants
	// another value, "" for none. ParentManager is that of spec.parent.
	WeightManager, ParentManager string
	// WantedParent is the spec.parent of the CardQuota's place.
	WantedParent string
}

// ServiceTypeLookup returns the definition of a service type. It returns false for an
// undefined type, whose queues keep their priority.
type ServiceTypeLookup func(name string) (servicetype.Type, bool)

// PolicyInput is what the ServiceTypePolicy in force says about queues.
type PolicyInput struct {
	Types ServiceTypeLookup
	// Bands returns the priorities that the queues of a service type may have. Where it is nil, or false for a
	// type, only the lowest is bounded.
	Bands func(name string) (servicetype.Band, bool)
}

// priorityOf returns the priority of a Queue: that of its service type, and what the CardQuota adds. It also
// returns the band (the priorities that the service type may have) if that cuts the priority, otherwise nil.
func (p PolicyInput) priorityOf(quota *v1alpha1.CardQuota, serviceType servicetype.Type) (int32, *servicetype.Band) {
	if quota.Spec.Priority == nil {
		return serviceType.Priority, nil
	}

	band := servicetype.Band{Type: quota.Spec.ServiceType, Lowest: serviceType.Priority, Highest: math.MaxInt32}
	if p.Bands != nil {
		if found, ok := p.Bands(quota.Spec.ServiceType); ok {
			band = found
		}
	}

	priority, isCut := band.PriorityFor(*quota.Spec.Priority)
	if !isCut {
		return priority, nil
	}

	return priority, &band
}

// CutPriority says why the Queue does not get the priority of a CardQuota: it would be among the priorities of
// another service type. It is "" for a priority that is not cut.
func (p PolicyInput) CutPriority(quota *v1alpha1.CardQuota) string {
	serviceType, ok := p.Types(quota.Spec.ServiceType)
	if !ok {
		return ""
	}
	if _, band := p.priorityOf(quota, serviceType); band != nil {
		return band.Check(*quota.Spec.Priority).Error()
	}
	return ""
}

// NewDesiredQueue returns the Queue of a CardQuota by the service types in force. live is
// nil when there is no Queue. allocated is the value of volcano.sh/card.allocated, "" to
// leave it out.
//
// The operator yields four fields to other managers: LabelManagedBy, spec.weight and
// spec.parent when they have another value, and volcano.sh/closed-by-parent when Volcano's
// queue controller writes true. It writes the last two because Volcano 1.14 sends JSON
// patches that fail while spec or that annotation is missing.
//
// place is where the Queue belongs. A flat Queue carries no fields of a tree.
func NewDesiredQueue(quota *v1alpha1.CardQuota, policy PolicyInput, live *v1beta1.Queue, allocated string, place Placement) DesiredQueue {
	desired := newDesiredQueue(quota, live, QuotaOf(quota), allocated, place.Parent)
	config := desired.Config
	spec := config.Spec

	config.WithAnnotations(stopAnnotations(quota, place)).WithAnnotations(place.Annotations)
	config.WithAnnotations(unlimitedAnnotation(quota, place))
	place.applyTo(spec)

	if serviceType, ok := policy.Types(quota.Spec.ServiceType); ok {
		priority, _ := policy.priorityOf(quota, serviceType) // CutPriority says whether it is cut
		spec.WithPriority(priority).WithReclaimable(serviceType.Reclaimable)
	}

	// Another manager's weight is reported and not fought: no quota depends on it.
	if weight := quota.Spec.Weight; weight != nil {
		desired.WeightManager = otherWeightManager(live, *weight)
		if desired.WeightManager == "" {
			spec.WithWeight(*weight)
		}
	}

	desired.dropEmptySpec()
	return desired
}

// NewDrainedQueue returns the Queue of a CardQuota that is being deleted: no card, no CPU
// and no memory, so that nothing new starts while pods finish.
func NewDrainedQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue, allocated string) DesiredQueue {
	desired := newDesiredQueue(quota, live, card.Quota{}, allocated, CurrentParent(live))
	desired.dropEmptySpec()
	return desired
}

// NewAbandonedQueue returns a Queue that the operator did not create and is about to
// abandon. It has no card, no CPU and no memory, so that nothing new starts without a
// CardQuota. Fields that would become stale without the operator are left out. Apply it
// before removing the managed fields.
func NewAbandonedQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue) DesiredQueue {
	desired := newDesiredQueue(quota, live, card.Quota{}, "", CurrentParent(live))
	delete(desired.Config.Annotations, v1alpha1.AnnotationServiceType)
	delete(desired.Config.Annotations, v1alpha1.AnnotationNamespaceSelector)
	delete(desired.Config.Annotations, v1alpha1.AnnotationBefore)
	desired.Config.Labels = nil
	desired.dropEmptySpec()
	return desired
}

// CurrentParent returns the parent to apply to a Queue that is not moved any more, "" if another manager owns
// it. Volcano writes root itself, so root belongs to no manager.
func CurrentParent(live *v1beta1.Queue) string {
	if live == nil || live.Spec.Parent == "" || live.Spec.Parent == workload.RootQueue {
		return workload.RootQueue
	}
	if OwnsParent(live) {
		return live.Spec.Parent
	}
	return ""
}

// stopAnnotations returns the annotations that keep jobs from a Queue. One without a path to the
// top level is held.
func stopAnnotations(quota *v1alpha1.CardQuota, place Placement) map[string]string {
	out := map[string]string{}
	switch {
	case workload.StopsWork(quota.Spec.StopPolicy):
		out[v1alpha1.AnnotationStopPolicy] = string(quota.Spec.StopPolicy)
	case place.HoldMessage != "":
		out[v1alpha1.AnnotationStopPolicy] = string(v1alpha1.StopPolicyHold)
		out[v1alpha1.AnnotationHoldMessage] = place.HoldMessage
	}

	if quota.Spec.ServiceType == "" {
		out[v1alpha1.AnnotationParentOnly] = "true"
	}

	return out
}

// unlimitedAnnotation returns the annotation that lists what of CPU and memory the Queue does not limit, none for a Queue
// that drains: it takes nothing, so nothing in it is unlimited.
func unlimitedAnnotation(quota *v1alpha1.CardQuota, place Placement) map[string]string {
	if len(place.Unlimited) == 0 || quota.Spec.StopPolicy == v1alpha1.StopPolicyHoldAndDrain {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationUnlimitedResources: workload.FormatUnlimitedResources(place.Unlimited)}
}

// newDesiredQueue returns the fields that every Queue of a CardQuota carries. allocated or parent "" is left
// out. The apply changes only the Queue that was read as live, or creates one if live is nil.
func newDesiredQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue, cards card.Quota, allocated, parent string) DesiredQueue {
	spec := apply.QueueSpec()
	config := apply.Queue(quota.QueueName()).WithSpec(spec).WithAnnotations(map[string]string{
		v1alpha1.AnnotationCardQuota: cards.String(),
	})

	if quota.Spec.ServiceType != "" {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationServiceType: quota.Spec.ServiceType})
	}

	if text := namespaceSelectorText(quota.Spec.NamespaceSelector); text != "" {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationNamespaceSelector: text})
	}

	if allocated != "" {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationCardAllocated: allocated})
	}

	setIdentity(config, live, quota.Name)

	closedByParent := ""
	manager := ""
	if live != nil {
		manager = live.Labels[v1alpha1.LabelManagedBy]
		closedByParent = live.Annotations[annotationClosedByParent]
	}

	// A GitOps tool may mark its objects with the same label, so only an own or a free label is written.
	// Likewise the annotation stays as it is where Volcano closed the Queue with its parent.
	if manager == "" || manager == v1alpha1.FieldManager {
		config.WithLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager})
	}
	if closedByParent == "" || closedByParent == notClosedByParent {
		config.WithAnnotations(map[string]string{annotationClosedByParent: notClosedByParent})
	}

	desired := DesiredQueue{
		Config: config, WantedParent: parent, ParentManager: otherParentManager(live, parent),
	}
	if desired.ParentManager == "" && parent != "" {
		spec.WithParent(parent)
	}

	return desired
}

// setIdentity lets an apply change only the Queue that was read, or create one if there is none. It
// keeps the annotation of the CardQuota that created the Queue, and the record of what another client's Queue had.
func setIdentity(config *apply.QueueApplyConfiguration, live *v1beta1.Queue, creator string) {
	if live == nil { // the apply conflicts if another client has created one meanwhile
		config.WithResourceVersion(v1alpha1.NonexistentVersion).WithAnnotations(map[string]string{v1alpha1.AnnotationCreatedBy: creator})
		return
	}

	if live.UID != "" { // an apply must not recreate a Queue that was just deleted
		config.WithUID(live.UID)
	}
	// Applying without them would remove them.
	if CreatedByOperator(live) {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationCreatedBy: live.Annotations[v1alpha1.AnnotationCreatedBy]})
	} else if before := recordBefore(live); before != "" {
		config.WithAnnotations(map[string]string{v1alpha1.AnnotationBefore: before})
	}
}

// namespaceSelectorText returns the value of volcano.sh/namespace-selector, "" for a
// CardQuota without a selector. Equal selectors have equal texts.
func namespaceSelectorText(selector *metav1.LabelSelector) string {
	if selector == nil {
		return ""
	}
	text, err := json.Marshal(selector)
	if err != nil {
		return "none" // cannot happen with strings; an unreadable selector allows no namespace
	}
	return string(text)
}

// flatPlacementFor returns the place of a flat Queue. A parent has none of CPU and memory, because it grants nothing while
// queues are flat.
func flatPlacementFor(q *v1alpha1.CardQuota, parent string) Placement {
	p := Placement{Parent: parent, Capability: corev1.ResourceList{}}
	if q.Spec.ServiceType == "" {
		return p
	}

	var limits v1alpha1.Resources
	if q.Spec.Resources != nil {
		limits = *q.Spec.Resources
	}

	for _, limit := range []struct {
		key    quota.Resource
		name   corev1.ResourceName
		amount *resource.Quantity
	}{{quota.CPU, corev1.ResourceCPU, limits.CPU}, {quota.Memory, corev1.ResourceMemory, limits.Memory}} {
		if limit.amount == nil {
			p.Unlimited = append(p.Unlimited, limit.key)
		} else {
			p.Capability[limit.name] = *limit.amount
		}
	}

	return p
}

// YieldField drops a field that another manager keeps. It returns false for a field that
// the operator must own.
func (d *DesiredQueue) YieldField(c FieldConflict) bool {
	// A field can have several managers, with a conflict for each. The first one may have emptied the spec.
	spec := cmp.Or(d.Config.Spec, apply.QueueSpec())
	switch c.Field {
	case fieldWeight:
		spec.Weight = nil
		d.WeightManager = c.Manager
	case fieldParent:
		// Volcano's queue controller only fills in a missing parent, so its root is not a
		// decision.
		if d.WantedParent != workload.RootQueue && isQueueController(c.Manager) {
			return false
		}
		spec.Parent = nil
		d.ParentManager = c.Manager
	case labelField(v1alpha1.LabelManagedBy):
		d.Config.Labels = nil // it has no other label
	case annotationField(annotationClosedByParent):
		delete(d.Config.Annotations, annotationClosedByParent)
	default:
		return false
	}

	d.dropEmptySpec()
	return true
}

// dropEmptySpec drops an empty spec. Applied, it would make the operator own spec as a
// whole.
func (d *DesiredQueue) dropEmptySpec() {
	if d.Config.Spec != nil && isEmptySpec(d.Config.Spec) {
		d.Config.Spec = nil
	}
}

// isEmptySpec reports whether a spec has none of the fields that the operator applies.
func isEmptySpec(spec *apply.QueueSpecApplyConfiguration) bool {
	return spec.Capability == nil && spec.Deserved == nil && spec.Guarantee == nil &&
		spec.Parent == nil && spec.Priority == nil && spec.Reclaimable == nil && spec.Weight == nil
}

// Placement is where a Queue belongs now, and its CPU and memory.
type Placement struct {
	// Parent is the Queue above it, workload.RootQueue at the top level.
	Parent string
	// HoldMessage says why the CardQuota has no path to the top level, "" if it has one. Its Queue may
	// still have one, as before, and must not start anything there.
	HoldMessage string
	// Limit, Deserved and Guarantee are of CPU and memory only.
	Limit, Deserved, Guarantee quota.Amounts
	// Inherits are those of CPU and memory of which a CardQuota of a tree writes no limit. Limit has what its parent,
	// InheritsFrom, allows. It is true where Volcano needs that number, because the Queue or one below it writes an
	// amount.
	Inherits     map[quota.Resource]bool
	InheritsFrom string
	// Unlimited are those of CPU and memory of which the Queue carries no limit, because it has none of its own.
	Unlimited []quota.Resource
	// Annotations are those of a Queue of a tree about its cards.
	Annotations map[string]string
	// Capability is the CPU and memory of a flat Queue as they are written.
	Capability corev1.ResourceList
}

// deservesAny reports whether a Queue without a limit of CPU or memory writes no amount that it deserves either. For
// Volcano its children may then deserve any amount.
func (p Placement) deservesAny(key quota.Resource) bool {
	_, isWritten := p.Deserved[key]
	return p.Limit[key] == quota.Unlimited && !isWritten
}

// applyTo writes the placement into the desired Queue.
func (p *Placement) applyTo(spec *apply.QueueSpecApplyConfiguration) {
	limits := resourceList(p.Limit)
	maps.Copy(limits, p.Capability)
	if len(limits) > 0 {
		spec.WithCapability(limits)
	}
	if list := resourceList(p.Deserved); len(list) > 0 {
		spec.WithDeserved(list)
	}
	if list := resourceList(p.Guarantee); len(list) > 0 {
		spec.WithGuarantee(apply.Guarantee().WithResource(list))
	}
}

// resourceList returns amounts of CPU and memory as Kubernetes writes them.
func resourceList(amounts quota.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	if milli, ok := amounts[quota.CPU]; ok {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	if bytes, ok := amounts[quota.Memory]; ok {
		list[corev1.ResourceMemory] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	return list
}
