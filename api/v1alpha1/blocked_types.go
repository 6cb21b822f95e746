package v1alpha1

import (
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BlockedReason is why a workload waits. The values are constants of this package. A later version may
// write others, so a program must accept any value.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type BlockedReason string

// The reasons why a workload waits.
const (
	// BlockedQuotaExhausted: the queue's quota of the card has too little left for the request.
	BlockedQuotaExhausted BlockedReason = "QuotaExhausted"
	// BlockedNoQuota: the queue has no quota of the card.
	BlockedNoQuota BlockedReason = "NoQuota"
	// BlockedAncestorQuotaExhausted: the quota of a queue above has too little left for the request.
	BlockedAncestorQuotaExhausted BlockedReason = "AncestorQuotaExhausted"
	// BlockedGuaranteedToOthers: what is left is guaranteed to other queues, or kept for pods that
	// reclaimed it.
	BlockedGuaranteedToOthers BlockedReason = "GuaranteedToOthers"
	// BlockedNotReclaimable: the queue would borrow for pods from which no other queue could take back.
	BlockedNotReclaimable BlockedReason = "NotReclaimable"
	// BlockedRecentlyReclaimed: another queue has just taken back what the queue would borrow again.
	BlockedRecentlyReclaimed BlockedReason = "RecentlyReclaimed"
	// BlockedCPUQuotaExhausted: the queue, or one above, has too little CPU quota left.
	BlockedCPUQuotaExhausted BlockedReason = "CPUQuotaExhausted"
	// BlockedMemoryQuotaExhausted: the queue, or one above, has too little memory quota left.
	BlockedMemoryQuotaExhausted BlockedReason = "MemoryQuotaExhausted"
	// BlockedCardsTerminating: pods that are being deleted still use the cards.
	BlockedCardsTerminating BlockedReason = "CardsTerminating"

	// BlockedNoFreeCard: too few cards are free on nodes that are ready and take pods.
	BlockedNoFreeCard BlockedReason = "NoFreeCard"
	// BlockedFragmented: enough cards are free, but not on one node.
	BlockedFragmented BlockedReason = "Fragmented"
	// BlockedNodesUnsuitable: the nodes with enough free cards refuse the pod for another reason: a
	// taint, affinity, CPU, memory, or because they are cordoned.
	BlockedNodesUnsuitable BlockedReason = "NodesUnsuitable"
	// BlockedUnknownCard: no node has any of the cards.
	BlockedUnknownCard BlockedReason = "UnknownCard"

	// BlockedWrongCombination: the cards and resources of the request do not belong together.
	BlockedWrongCombination BlockedReason = "WrongCombination"
	// BlockedInvalidRequest: the request cannot be read, or is more than any queue can have.
	BlockedInvalidRequest BlockedReason = "InvalidRequest"
	// BlockedUnmanagedClaim: a ResourceClaim of the pod is for cards, or may be. No quota limits these.
	BlockedUnmanagedClaim BlockedReason = "UnmanagedClaim"
	// BlockedQueueStopped: the queue takes no new work. It is not open or held, its place in the tree
	// is wrong, or its quota cannot be read.
	BlockedQueueStopped BlockedReason = "QueueStopped"
	// BlockedQueueNotFound: the queue does not exist.
	BlockedQueueNotFound BlockedReason = "QueueNotFound"
	// BlockedNamespaceNotAllowed: the queue, or one above, is not for this namespace.
	BlockedNamespaceNotAllowed BlockedReason = "NamespaceNotAllowed"
	// BlockedPodGroupNotFound: the PodGroup that the pods name does not exist. Volcano makes no other one
	// for them, so the scheduler never tries them.
	BlockedPodGroupNotFound BlockedReason = "PodGroupNotFound"
	// BlockedGangIncomplete: the pods fit, but others of their gang do not, or do not exist yet.
	BlockedGangIncomplete BlockedReason = "GangIncomplete"
	// BlockedSchedulerNotReady: the scheduler has just started, or its arguments are invalid.
	BlockedSchedulerNotReady BlockedReason = "SchedulerNotReady"
	// BlockedOther: the scheduler says something else, or nothing yet. See the message.
	BlockedOther BlockedReason = "Other"
)

// BlockedStatus is one pending workload, for one of its cards and one reason.
type BlockedStatus struct {
	// workload is the Deployment, Job or other controller of the pods, else the pod or PodGroup.
	// +required
	Workload WorkloadReference `json:"workload,omitzero"`
	// since is when the oldest pending pod was created, or the PodGroup if it has no pods yet. All
	// entries of a gang that is incomplete have the time of its oldest pod.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// card is the card request with its alternatives, "NVIDIA-H200|NVIDIA-H800", or the resource name
	// if the pod names no card. Unset for workloads without cards.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2600
	Card string `json:"card,omitempty"`
	// count is the number of cards for which the workload waits. Unset for workloads without cards.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count,omitempty"`
	// reason is why the workload waits, for example QuotaExhausted. See docs/troubleshooting.md.
	// +optional
	Reason BlockedReason `json:"reason,omitempty"`
	// message is the scheduler's message: what is missing, how many, and what would help.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// holders are the workloads that use most of these cards, at most 3, the largest first: those of
	// the queue, of the queue above whose quota is exhausted, or of all queues if too few cards are
	// free. Unset for other reasons.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Holders []CardHolder `json:"holders,omitempty"`
}

// CardHolder is a workload that uses cards.
type CardHolder struct {
	// workload is the controller of the pods, or the pod. Unset in a LocalCardQuota for the sum of those
	// of the three largest holders that are in other namespaces.
	// +optional
	Workload WorkloadReference `json:"workload,omitzero"`
	// queue is the queue that is charged. Unset for pods that are in no queue, and where workload is
	// unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`
	// serviceType is the service type of the queue. It is none for queues without one, and for pods that
	// are in no queue.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceType string `json:"serviceType,omitempty"`
	// card is the card name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Card string `json:"card,omitempty"`
	// count is the number of cards that the workload uses.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count,omitempty"`
}

// WorkloadReference names a workload.
type WorkloadReference struct {
	// apiGroup is the API group of the workload, unset for pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// kind is the kind of the workload, for example Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`
	// namespace is the namespace of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// UnmarshalJSON ignores a value that is not an object. An earlier version wrote such values, and the
// next status replaces them.
func (w *WorkloadReference) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil
	}
	type plain WorkloadReference // without this method, which would call itself
	return json.Unmarshal(data, (*plain)(w))
}
