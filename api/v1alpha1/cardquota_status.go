package v1alpha1

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CardQuotaStatus is what the operator saw last. It is rewritten at most once
// a second.
type CardQuotaStatus struct {
	// conditions are QueueSynced (the Queue carries this quota), WithinQuota
	// (nothing is held beyond it), Enforced (a scheduler that enforces it is
	// proven to be at work; Unknown without a ServiceTypePolicy),
	// InventorySatisfied (all quotas together grant no more than healthy nodes
	// have) and Ready (the queue can be used). True is good.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the metadata.generation that this status is about.
	// While it is smaller than metadata.generation the last change of the spec
	// has not been worked on yet.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// queue is the Volcano Queue that carries the quota.
	// +optional
	Queue *QueueStatus `json:"queue,omitempty"`
	// summary is used/quota of the cards in one line:
	// "6/8 NVIDIA-H200, 0/3 NVIDIA-H200/mig-1g.18gb-mixed". Cards over quota
	// come first; a long line ends with ", and 3 more".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// pendingSummary is the cards that waiting pods ask for, in one line:
	// "4 NVIDIA-H200"; "0" when nothing waits.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PendingSummary string `json:"pendingSummary,omitempty"`
	// cards is the use of every card that the spec lists, in that order, then
	// of cards that pods of the queue hold or wait for without a quota.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Cards []CardStatus `json:"cards,omitempty"`
	// cpu is the CPU that the queue's pods request together.
	// +optional
	CPU *ResourceStatus `json:"cpu,omitempty"`
	// memory is the memory that the queue's pods request together.
	// +optional
	Memory *ResourceStatus `json:"memory,omitempty"`
	// blockedTotal is how many entries blocked would have without its limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	BlockedTotal int32 `json:"blockedTotal,omitempty"`
	// blocked is what waits and why, by workload, who waits longest first: at most
	// 10 entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Blocked []BlockedStatus `json:"blocked,omitempty"`
}

// QueueStatus is the state of the Volcano Queue.
type QueueStatus struct {
	// name is the name of the Queue.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// state is the Queue's own status.state: Open, Closed, Closing or Unknown.
	// Only an Open queue takes work. Unset until Volcano has opened it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
}

// CardStatus is the use of one card name, in whole cards.
type CardStatus struct {
	// name is the card name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Name string `json:"name,omitempty"`
	// quota is the ceiling that the spec gives, 0 for a card it does not list.
	// +required
	// +kubebuilder:validation:Minimum=0
	Quota int64 `json:"quota"`
	// used is how many cards the queue's assigned pods hold now, each counted
	// under the card of the node it is on.
	// +required
	// +kubebuilder:validation:Minimum=0
	Used int64 `json:"used"`
	// pending is how many cards waiting pods and jobs ask for. A request with
	// alternatives stands under the first one that the queue has quota for.
	// +required
	// +kubebuilder:validation:Minimum=0
	Pending int64 `json:"pending"`
	// free is quota minus used, at least 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	Free int64 `json:"free"`
	// overQuotaBy is used minus quota, at least 0: more than 0 after a quota
	// was lowered below use. Nothing is stopped, nothing new starts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OverQuotaBy int64 `json:"overQuotaBy,omitempty"`
	// physical is how many of this card all nodes of the cluster offer
	// together. 0 means that no node has it: check the name.
	// +required
	// +kubebuilder:validation:Minimum=0
	Physical int64 `json:"physical"`
}

// ResourceStatus is the use of CPU or memory.
type ResourceStatus struct {
	// used is what the queue's assigned pods request together.
	// +required
	Used resource.Quantity `json:"used"`
	// quota is the limit that the spec gives. Unset when it gives none.
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`
}

// BlockedStatus is one workload that waits.
type BlockedStatus struct {
	// workload is what waits: the Deployment, Job or other controller of the pods,
	// or a pod or PodGroup without one.
	// +required
	Workload WorkloadReference `json:"workload,omitzero"`
	// since is when the oldest of its waiting pods was created, or its PodGroup
	// when there are no pods yet.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// card is the card request that waits, with its alternatives:
	// "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D", or the resource name
	// when the pod names no card. Unset for work without cards.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2600
	Card string `json:"card,omitempty"`
	// count is how many cards wait. Unset for work without cards.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count,omitempty"`
	// reason is the scheduler's reason, one word.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// message is the scheduler's message.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// WorkloadReference names a workload.
type WorkloadReference struct {
	// apiGroup of the workload, "" for pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// kind of the workload, for example Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`
	// namespace of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// UnmarshalJSON reads nothing of what is no object: in a status that an earlier version
// wrote the workload is a text. The next status that is written replaces it.
func (w *WorkloadReference) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil
	}
	type plain WorkloadReference
	return json.Unmarshal(data, (*plain)(w))
}
