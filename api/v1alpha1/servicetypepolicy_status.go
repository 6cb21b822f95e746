package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionBypassGuarded on a ServiceTypePolicy: the API server refuses pods that
// ask for a card and would pass the scheduler by, and changes that would move or
// end the charge for cards that are held.
const ConditionBypassGuarded = "BypassGuarded"

// Reasons of BypassGuarded.
const (
	// ReasonBypassDenied: such pods are refused; the message names the card
	// resources. True.
	ReasonBypassDenied = "Denied"
	// ReasonBypassWarned: spec.admission.schedulerBypassPolicy is Warn, such pods are created with
	// a warning. False.
	ReasonBypassWarned = "OnlyWarned"
	// ReasonBypassOff: spec.admission.schedulerBypassPolicy is Allow. False.
	ReasonBypassOff = "SwitchedOff"
	// ReasonNoCardResources: no node has offered a card yet, so there is nothing to
	// guard. Unknown.
	ReasonNoCardResources = "NoCardResources"
	// ReasonGuardRefused: the ValidatingAdmissionPolicy could not be written; the
	// message says why. False.
	ReasonGuardRefused = "GuardRefused"
)

// Annotations and events of the guard against bypassing the scheduler.
const (
	// AnnotationCardResources on the ValidatingAdmissionPolicy lists the resources
	// that are cards, separated by commas. The list only grows: a resource stays a
	// card when the last node that offers it is away.
	AnnotationCardResources = "cardquota.dev/card-resources"
	// EventGuardRefused: the ValidatingAdmissionPolicy could not be written.
	// Warning.
	EventGuardRefused = ReasonGuardRefused
	// EventGuardRestored: somebody had changed or deleted the
	// ValidatingAdmissionPolicy or its binding, and it was put back. Warning.
	EventGuardRestored = "GuardRestored"
)

// Names of the ValidatingAdmissionPolicies, each also that of its binding.
const (
	// BypassPolicyName guards against bypassing the scheduler.
	BypassPolicyName = "cardquota-bypass.cardquota.dev"
	// ChargePolicyName guards against holding cards that no quota is charged for,
	// or another one than that of the queue in which they were handed out.
	ChargePolicyName = "cardquota-charge.cardquota.dev"
)

// ServiceTypePolicyStatus is what holds in the cluster.
type ServiceTypePolicyStatus struct {
	// conditions are ConfigSynced, Enforced, BypassGuarded and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// serviceTypes is the matrix in force, sorted by name: when a spec is refused,
	// the one before it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=34
	ServiceTypes []ServiceTypeStatus `json:"serviceTypes,omitempty"`
	// reclaim is how cards are taken back now.
	// +optional
	Reclaim ReclaimMode `json:"reclaim,omitempty"`
	// configHash is the SHA-256, in hexadecimal digits, of the configuration that
	// was written. Quotas are proven to be enforced while the scheduler reports
	// this very hash.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`
	// scheduler is the scheduler that reported last.
	// +optional
	Scheduler *SchedulerStatus `json:"scheduler,omitempty"`
}

// ServiceTypeStatus is one row of the matrix in force.
type ServiceTypeStatus struct {
	// name of the service type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// priority of its queues.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority"`
	// reclaimPolicy says whether cards are taken back from its queues.
	// +required
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// reclaimFrom names the types from which it takes cards back.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	ReclaimFrom []string `json:"reclaimFrom,omitempty"`
	// minimumRuntimeSeconds is how long its jobs run before cards are taken back.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MinimumRuntimeSeconds int32 `json:"minimumRuntimeSeconds,omitempty"`
	// cardQuotas is how many CardQuotas are of this type.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	CardQuotas int32 `json:"cardQuotas"`
}

// SchedulerStatus is what the scheduler's heartbeat said.
type SchedulerStatus struct {
	// identity of the process, its host's name first.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Identity string `json:"identity,omitempty"`
	// version of the scheduler.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Version string `json:"version,omitempty"`
	// configHash is the hash of the configuration it works by.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`
}
