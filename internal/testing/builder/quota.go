package builder

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// CardQuotaBuilder builds a CardQuota.
type CardQuotaBuilder struct {
	object[*CardQuotaBuilder, *v1alpha1.CardQuota]
}

// CardQuota is a CardQuota of tenant team for training, without a card.
func CardQuota(name string) *CardQuotaBuilder {
	b := &CardQuotaBuilder{}
	b.object = newObject("CardQuota", "", name, b, &v1alpha1.CardQuota{Spec: v1alpha1.CardQuotaSpec{Tenant: "team", ServiceType: "training"}})
	return b
}

// Card adds a card and its quota.
func (b *CardQuotaBuilder) Card(name string, quota int64) *CardQuotaBuilder {
	b.obj.Spec.Cards = append(b.obj.Spec.Cards, v1alpha1.Card{Name: name, Quota: &quota})
	return b
}

// Deserves sets what the queue deserves of the card added last.
func (b *CardQuotaBuilder) Deserves(count int64) *CardQuotaBuilder {
	b.obj.Spec.Cards[len(b.obj.Spec.Cards)-1].Deserved = &count
	return b
}

// Resources sets the quota of CPU and memory.
func (b *CardQuotaBuilder) Resources(cpu, memory string) *CardQuotaBuilder {
	b.obj.Spec.Resources = &v1alpha1.Resources{}
	list := Resources(cpu, memory)
	if q, set := list[corev1.ResourceCPU]; set {
		b.obj.Spec.Resources.CPU = &q
	}
	if q, set := list[corev1.ResourceMemory]; set {
		b.obj.Spec.Resources.Memory = &q
	}
	return b
}

// Queue sets another queue than the one of the CardQuota's name.
func (b *CardQuotaBuilder) Queue(name string) *CardQuotaBuilder {
	b.obj.Spec.QueueName = name
	return b
}

// Selects lets in the namespaces with these labels, each key followed by its value.
func (b *CardQuotaBuilder) Selects(labels ...string) *CardQuotaBuilder {
	b.obj.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: Namespace("", labels...).Labels}
	return b
}

// Tenant sets the tenant.
func (b *CardQuotaBuilder) Tenant(name string) *CardQuotaBuilder { b.obj.Spec.Tenant = name; return b }

// Parent sets the parent.
func (b *CardQuotaBuilder) Parent(name string) *CardQuotaBuilder { b.obj.Spec.Parent = name; return b }

// ServiceType sets the service type.
func (b *CardQuotaBuilder) ServiceType(name string) *CardQuotaBuilder {
	b.obj.Spec.ServiceType = name
	return b
}

// Condition sets a condition of the CardQuota's generation.
func (b *CardQuotaBuilder) Condition(kind string, status metav1.ConditionStatus, reason, message string) *CardQuotaBuilder {
	meta.SetStatusCondition(&b.obj.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: b.obj.Generation,
	})
	return b
}

// PolicyBuilder builds the ServiceTypePolicy.
type PolicyBuilder struct {
	object[*PolicyBuilder, *v1alpha1.ServiceTypePolicy]
}

// ServiceTypePolicy returns the policy of the cluster with all defaults.
func ServiceTypePolicy() *PolicyBuilder {
	b := &PolicyBuilder{}
	b.object = newObject("ServiceTypePolicy", "", v1alpha1.PolicyName, b, &v1alpha1.ServiceTypePolicy{})
	return b
}

// Hierarchy sets the hierarchy of queues that is in force.
func (b *PolicyBuilder) Hierarchy(hierarchy v1alpha1.QueueHierarchy) *PolicyBuilder {
	b.obj.Status.QueueHierarchy = hierarchy
	return b
}
