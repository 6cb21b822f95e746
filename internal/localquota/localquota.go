// Package localquota returns what tenants see of a CardQuota: in which namespaces, and what. A view
// names no workload and no queue of other tenants.
package localquota

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/waiting"
)

// MaxNamespaces is how many namespaces have a LocalCardQuota of one CardQuota.
const MaxNamespaces = 50

// OwnsQueue reports whether a CardQuota may show its queue: it does not belong to another CardQuota.
func OwnsQueue(q *v1alpha1.CardQuota) bool {
	synced := conditions.Get(q.Status.Conditions, v1alpha1.ConditionQueueSynced).Reason
	return synced != v1alpha1.ReasonQueueConflict && synced != v1alpha1.ReasonQueueReserved
}

// SelectNamespaces returns the namespaces that a selector selects, sorted. A namespace that is being deleted
// takes no new objects. The first MaxNamespaces get a LocalCardQuota.
func SelectNamespaces(selector labels.Selector, namespaces []corev1.Namespace) []string {
	var names []string
	for i := range namespaces {
		if namespaces[i].DeletionTimestamp == nil && selector.Matches(labels.Set(namespaces[i].Labels)) {
			names = append(names, namespaces[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// ViewsCondition is condition LocalViewsComplete of a CardQuota that selects so many namespaces explicitly, nil if each
// of them has a view.
func ViewsCondition(selected int) *metav1.Condition {
	if selected <= MaxNamespaces {
		return nil
	}
	condition := conditions.New(metav1.ConditionFalse, v1alpha1.ReasonTooManyNamespaces,
		"namespaceSelector selects %d namespaces, and only the first %d by name have a LocalCardQuota: all may use the queue; for more views, divide the CardQuota",
		selected, MaxNamespaces)
	return &condition
}

// New returns the view of a CardQuota in a namespace, without its status. It ends with the
// CardQuota.
func New(q *v1alpha1.CardQuota, namespace string) *v1alpha1.LocalCardQuota {
	return &v1alpha1.LocalCardQuota{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: q.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CardQuota", Name: q.Name, UID: q.UID}},
	}}
}

// NewStatus returns the status of a view. The numbers are those of the CardQuota. here is what
// waits in the namespace, and total what waits in all.
func NewStatus(q *v1alpha1.CardQuota, namespace string, here waiting.Entries, total int) v1alpha1.LocalCardQuotaStatus {
	status := v1alpha1.LocalCardQuotaStatus{
		Queue: q.QueueName(), State: queueState(q), ServiceType: q.Spec.ServiceType,
		Summary: q.Status.Summary, PendingSummary: q.Status.PendingSummary, Cards: slices.Clone(q.Status.Cards),
		CPU: q.Status.CPU.DeepCopy(), Memory: q.Status.Memory.DeepCopy(),
		BlockedTotal:     int32(min(here.Total, math.MaxInt32)),
		BlockedElsewhere: int32(min(max(0, total-here.Total), math.MaxInt32)),
	}

	for _, entry := range waiting.Truncate(here.Blocked) {
		// A tenant may know that others use the cards, but not their workloads.
		entry.Holders = waiting.HideOthers(entry.Holders, namespace)
		status.Blocked = append(status.Blocked, entry)
	}
	return status
}

// queueState returns the state that a view shows of its queue. Volcano keeps a queue Open that gets no more
// cards. That one is Draining if it has lost its quota for good, and Held if a stop policy, or a broken path
// to the top level of the tree, holds it.
func queueState(q *v1alpha1.CardQuota) string {
	if q.Status.Queue == nil || q.Status.Queue.State != string(v1beta1.QueueStateOpen) {
		return ptr.Deref(q.Status.Queue, v1alpha1.QueueStatus{}).State
	}
	if conditions.Get(q.Status.Conditions, v1alpha1.ConditionQueueSynced).Reason == v1alpha1.ReasonDraining {
		return v1alpha1.QueueDraining
	}

	// Condition Ready has only one reason, and may have another one than Held. So the spec counts as well.
	// Only Ready says that an ancestor is held.
	isStopped := q.Spec.StopPolicy == v1alpha1.StopPolicyHold || q.Spec.StopPolicy == v1alpha1.StopPolicyHoldAndDrain
	if isStopped || conditions.Get(q.Status.Conditions, v1alpha1.ConditionReady).Reason == v1alpha1.ReasonHeld {
		return v1alpha1.QueueHeld
	}

	switch conditions.Get(q.Status.Conditions, v1alpha1.ConditionHierarchyValid).Reason {
	case v1alpha1.ReasonParentNotFound, v1alpha1.ReasonParentCycle, v1alpha1.ReasonTooDeep:
		return v1alpha1.QueueHeld
	}

	return q.Status.Queue.State
}
