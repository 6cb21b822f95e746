package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ServiceTypePolicyStatus is what the operator observed last.
type ServiceTypePolicyStatus struct {
	// conditions are ConfigSynced, Enforced, BypassGuarded and Ready. See docs/troubleshooting.md.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// mode is the mode in force. Observe comes into force when Cardquota's scheduler has ended, and stays
	// while the policy is deleted.
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// serviceTypes are the service types in force, sorted by name. If a spec is refused, those of the
	// spec before it stay in force.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=34
	ServiceTypes []ServiceTypeStatus `json:"serviceTypes,omitempty"`
	// reclaim is spec.reclaim of the policy in force.
	// +optional
	Reclaim ReclaimMode `json:"reclaim,omitempty"`
	// reclaimResources is spec.reclaimResources of the policy in force.
	// +optional
	ReclaimResources ReclaimResources `json:"reclaimResources,omitempty"`
	// queueHierarchy is spec.queueHierarchy of the policy in force. Unset means Flat.
	// +optional
	QueueHierarchy QueueHierarchy `json:"queueHierarchy,omitempty"`
	// cards is spec.cards of the policy in force, by resource.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Cards []CardMapping `json:"cards,omitempty"`
	// configHash is the SHA-256 of the rendered configuration, in hexadecimal digits. Quotas are
	// proven to be enforced while the scheduler reports the same hash.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`
	// scheduler is the scheduler that reported last.
	// +optional
	Scheduler *SchedulerStatus `json:"scheduler,omitempty"`
	// forecast is what no CardQuota decides about in mode Observe: cards that no quota limits, and
	// namespaces that several CardQuotas select.
	// +optional
	Forecast *PolicyForecast `json:"forecast,omitempty"`
}

// ServiceTypeStatus is one service type in force.
type ServiceTypeStatus struct {
	// name is the name of the service type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// priority is the priority of its queues.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority"`
	// reclaimPolicy controls whether other types take cards back from its queues.
	// +required
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// reclaimFrom lists the service types from which it takes cards back.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	ReclaimFrom []string `json:"reclaimFrom,omitempty"`
	// minimumRuntimeSeconds is how long its jobs run before they may lose cards to another type.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MinimumRuntimeSeconds int32 `json:"minimumRuntimeSeconds,omitempty"`
	// cardQuotas is the number of CardQuotas of this type.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	CardQuotas int32 `json:"cardQuotas"`
}

// SchedulerStatus is what the scheduler's heartbeat reported.
type SchedulerStatus struct {
	// identity is the scheduler process, beginning with its host name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Identity string `json:"identity,omitempty"`
	// version is the version of the scheduler.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Version string `json:"version,omitempty"`
	// configHash is the hash of the configuration that the scheduler runs with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`
}
