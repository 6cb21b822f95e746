package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CardQuotaForecast is what mode Enforce would refuse or take back in the queue of a CardQuota now, and in those below
// it. It counts as if the quotas had been enforced from the start, the oldest workload first.
type CardQuotaForecast struct {
	// waiting are the workloads that would wait for quota, or that the queue would not accept.
	// +optional
	Waiting *ForecastWorkloads `json:"waiting,omitempty"`
	// reclaimed are the gangs that would lose their cards to workloads of other queues that wait for cards.
	// +optional
	Reclaimed *ForecastWorkloads `json:"reclaimed,omitempty"`
	// withoutQueue are the workloads that name no queue and count here by their namespace. With Enforce they
	// need the queue and the schedulerName of the policy.
	// +optional
	WithoutQueue *ForecastWorkloads `json:"withoutQueue,omitempty"`
	// bypassing are the workloads that name the queue, and a scheduler that does not enforce quotas.
	// +optional
	Bypassing *ForecastWorkloads `json:"bypassing,omitempty"`
	// unknownServiceType are the workloads of a queue whose service type the policy does not have.
	// +optional
	UnknownServiceType *ForecastWorkloads `json:"unknownServiceType,omitempty"`
}

// ForecastWorkloads are workloads that Enforce would treat alike.
type ForecastWorkloads struct {
	// total is the number of workloads, also of those that are not listed.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Total int32 `json:"total,omitempty"`
	// cards is the number of cards that they use or request.
	// +required
	// +kubebuilder:validation:Minimum=0
	Cards int64 `json:"cards"`
	// workloads lists the youngest ones, the youngest first, at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Workloads []ForecastWorkload `json:"workloads,omitempty"`
}

// ForecastWorkload is a workload that Enforce would treat differently.
type ForecastWorkload struct {
	// workload is the controller of the pods, or the pod itself.
	// +required
	Workload WorkloadReference `json:"workload,omitzero"`
	// card is the card name, or the alternatives joined by "|".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2600
	Card string `json:"card,omitempty"`
	// count is the number of these cards.
	// +required
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count"`
	// since is when the workload was created.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// message says why, and what would help.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PolicyForecast is how many CardQuotas foretell something, and what no CardQuota decides about, while quotas are only
// observed.
type PolicyForecast struct {
	// cardQuotas is the number of CardQuotas whose own status.forecast says what Enforce would change.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	CardQuotas int32 `json:"cardQuotas,omitempty"`
	// unlimited are the workloads with cards that no CardQuota counts, so that no quota limits them.
	// +optional
	Unlimited *ForecastWorkloads `json:"unlimited,omitempty"`
	// ambiguousNamespacesTotal is the number of namespaces that ambiguousNamespaces lists or has no room for.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	AmbiguousNamespacesTotal int32 `json:"ambiguousNamespacesTotal,omitempty"`
	// ambiguousNamespaces are namespaces with pods that use cards, name no queue, and that several
	// CardQuotas select. They count for none of them. The first 10 by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	AmbiguousNamespaces []AmbiguousNamespace `json:"ambiguousNamespaces,omitempty"`
}

// AmbiguousNamespace is a namespace that several CardQuotas select.
type AmbiguousNamespace struct {
	// name is the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// cardQuotas are the CardQuotas that select it, the first 10 by name.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=253
	CardQuotas []string `json:"cardQuotas,omitempty"`
}
