package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CardQuotaStatus is what the operator observed last, written at most once a second.
type CardQuotaStatus struct {
	// conditions are QueueSynced, WithinQuota, InventorySatisfied, CardsKnown, Enforced and Ready, in a
	// tree also HierarchyValid. All should be True.
	// Enforced is Unknown without a ServiceTypePolicy. See docs/troubleshooting.md.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the metadata.generation of the spec that this status describes.
	// A smaller number than metadata.generation means that the operator has not seen the last change.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// mode is Enforce if the operator writes this quota to the Queue, Observe if it only observes. See
	// spec.mode of the ServiceTypePolicy.
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// queue is the Volcano Queue that carries the quota.
	// +optional
	Queue *QueueStatus `json:"queue,omitempty"`
	// summary is used/quota of the cards in one line: "6/8 NVIDIA-H200, 0/4 Ascend-910B".
	// Cards over quota come first. A long line ends with ", and 3 more".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// pendingSummary is the number of cards that pending pods request: "4 NVIDIA-H200", or "0".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PendingSummary string `json:"pendingSummary,omitempty"`
	// cards is the usage of each card of the spec, in that order. After them come cards without a quota
	// that the queue's pods use or request. A parent sums the queues below it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Cards []CardStatus `json:"cards,omitempty"`
	// cpu is the CPU that the queue's pods request together.
	// +optional
	CPU *ResourceStatus `json:"cpu,omitempty"`
	// memory is the memory that the queue's pods request together.
	// +optional
	Memory *ResourceStatus `json:"memory,omitempty"`
	// children is the number of CardQuotas that name this one as their parent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Children int32 `json:"children,omitempty"`
	// blockedTotal is the number of all blocked workloads, also those that blocked does not list.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	BlockedTotal int32 `json:"blockedTotal,omitempty"`
	// blocked lists pending workloads, why they wait and who uses the cards, the longest waiting first,
	// at most 10 entries. A workload has one for each card and reason.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Blocked []BlockedStatus `json:"blocked,omitempty"`
	// forecast is what mode Enforce would refuse now. It is set in mode Observe only, and only if there is
	// something to say.
	// +optional
	Forecast *CardQuotaForecast `json:"forecast,omitempty"`
}

// QueueStatus is the state of the Volcano Queue.
type QueueStatus struct {
	// name is the name of the Queue.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// state is status.state of the Queue: Open, Closed, Closing or Unknown. Only an Open queue takes
	// workloads. Unset until Volcano has opened it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
	// parent is spec.parent of the Queue, the Queue that contains it in a tree. Unset for a Queue at
	// the top level.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Parent string `json:"parent,omitempty"`
}

// CardStatus is the usage of one card name, in whole cards.
type CardStatus struct {
	// name is the card name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Name string `json:"name,omitempty"`
	// quota is the limit of the spec, 0 for a card that the spec does not list. In a tree it is the
	// limit in force, also an inherited one.
	// +required
	// +kubebuilder:validation:Minimum=0
	Quota int64 `json:"quota"`
	// used is the number of cards that the queue's assigned pods use, by the card of their node.
	// +required
	// +kubebuilder:validation:Minimum=0
	Used int64 `json:"used"`
	// pending is the number of cards that pending pods and jobs request. A request with alternatives
	// counts for the first one that the queue has quota for.
	// +required
	// +kubebuilder:validation:Minimum=0
	Pending int64 `json:"pending"`
	// free is quota minus used, at least 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	Free int64 `json:"free"`
	// overQuotaBy is used minus quota if that is more than 0, for example after a quota was lowered.
	// Running pods continue, no new pod starts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OverQuotaBy int64 `json:"overQuotaBy,omitempty"`
	// deserved is the number of cards that the queue takes back from borrowers, in a tree. It is the
	// number in force: smaller than in the spec where a parent has less. Unset if it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Deserved int64 `json:"deserved,omitempty"`
	// guarantee is the number of cards that stay free for the queue, in a tree. It is the number in
	// force, as for deserved. Unset if it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Guarantee int64 `json:"guarantee,omitempty"`
	// borrowed is used minus deserved if that is more than 0, in a tree. Other queues may take these
	// cards back.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Borrowed int64 `json:"borrowed,omitempty"`
	// physical is the number of these cards on all nodes when the status was last written. It alone is no
	// reason to write it again, unless no node has the card any more, or one has it again. The
	// CardInventory has the number now. 0 means that no node has it: check the name.
	// +required
	// +kubebuilder:validation:Minimum=0
	Physical int64 `json:"physical"`
}

// ResourceStatus is the usage of CPU or memory.
type ResourceStatus struct {
	// used is the sum that the queue's assigned pods request.
	// +required
	Used resource.Quantity `json:"used"`
	// quota is the limit of the spec. Unset: not limited, in a tree the limit of the parent. 0: none.
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`
}
