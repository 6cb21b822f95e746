package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ServiceTypePolicyStatus is what holds in the cluster.
type ServiceTypePolicyStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// serviceTypes is the matrix in force, sorted by name: when a spec is refused,
	// the one before it.
	// +optional
	// +listType=map
	// +listMapKey=name
	ServiceTypes []ServiceTypeStatus `json:"serviceTypes,omitempty"`
	// reclaim is how cards are taken back now.
	// +optional
	Reclaim ReclaimMode `json:"reclaim,omitempty"`
	// configMap is where the configuration was written, and where it is undone when
	// the policy goes or names another one.
	// +optional
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`
	// configHash is the SHA-256, in hexadecimal digits, of the configuration that
	// was written. Quotas are proven to be enforced while the scheduler reports
	// this very hash.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// scheduler is the scheduler that reported last.
	// +optional
	Scheduler *SchedulerStatus `json:"scheduler,omitempty"`
	// conditions are ConfigSynced, Enforced and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ServiceTypeStatus is one row of the matrix in force.
type ServiceTypeStatus struct {
	// name of the service type.
	// +required
	Name string `json:"name"`
	// priority of its queues.
	// +required
	Priority int32 `json:"priority"`
	// reclaimable tells whether cards are taken back from its queues.
	// +required
	Reclaimable bool `json:"reclaimable"`
	// reclaimFrom names the types from which it takes cards back.
	// +optional
	// +listType=set
	ReclaimFrom []string `json:"reclaimFrom,omitempty"`
	// minimumRuntime is how long its jobs run before cards are taken back.
	// +optional
	MinimumRuntime *metav1.Duration `json:"minimumRuntime,omitempty"`
	// cardQuotas is how many CardQuotas are of this type.
	// +required
	CardQuotas int32 `json:"cardQuotas"`
}

// SchedulerStatus is what the scheduler's heartbeat said.
type SchedulerStatus struct {
	// identity of the process, its host's name first.
	// +optional
	Identity string `json:"identity,omitempty"`
	// version of the scheduler.
	// +optional
	Version string `json:"version,omitempty"`
	// configHash is the hash of the configuration it works by.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
}
