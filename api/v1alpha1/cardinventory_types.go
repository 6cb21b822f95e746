package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CardInventory lists the cards of all nodes, what CardQuotas grant of them, and what pods use. It
// also lists anomalies, with their nodes and what to do. A cluster has one, named cluster. The
// operator creates it and writes its status, so it has no spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=cardinventories,shortName=cardinv
// +kubebuilder:printcolumn:name="Cards",type=string,JSONPath=`.status.summary`,description="allocated/total of each card"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="nodes that offer cards or have an anomaly"
// +kubebuilder:printcolumn:name="Over-Allocated",type=integer,JSONPath=`.status.overAllocatedCards`,description="cards of which CardQuotas grant more than healthy nodes have"
// +kubebuilder:printcolumn:name="Anomalies",type=integer,JSONPath=`.status.anomaliesTotal`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one CardInventory, named cluster: the operator creates it"
type CardInventory struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the operator counted last. It is empty before the first count.
	// +optional
	Status CardInventoryStatus `json:"status,omitzero"`
}

// CardInventoryList is a list of CardInventories.
// +kubebuilder:object:root=true
type CardInventoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CardInventory `json:"items"`
}

// CardInventoryStatus is what the operator counted last, written at most once a second.
type CardInventoryStatus struct {
	// summary is allocated/total of the cards in one line: "6/16 NVIDIA-H200, 0/8 Ascend-910B".
	// Over-allocated cards come first. A long line ends with ", and 3 more".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// nodes is the number of nodes that offer cards or have an anomaly.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Nodes int32 `json:"nodes"`
	// overAllocatedCards is the number of cards of which CardQuotas grant more than healthy nodes have.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	OverAllocatedCards int32 `json:"overAllocatedCards"`
	// cards are the cards that some node offers, by name. After them come cards that only quotas name or
	// pods use, then those that only pending pods name. At most 512.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Cards []InventoryCard `json:"cards,omitempty"`
	// anomaliesTotal is the number of all anomalies, of which anomalies lists the first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	AnomaliesTotal int32 `json:"anomaliesTotal"`
	// anomalies are what is wrong with nodes, with the use of their cards and with its bills, at most 64.
	// Those of cards that no quota limits come first, then those of bills, then the others, by reason and
	// name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Anomalies []InventoryAnomaly `json:"anomalies,omitempty"`
}

// InventoryCard is one card name, in whole cards.
type InventoryCard struct {
	// name is the card name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Name string `json:"name,omitempty"`
	// resources are the resources under which nodes offer the card, at most 16. Empty if no node has it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=317
	Resources []string `json:"resources,omitempty"`
	// sharing is how nodes share the cards of which this is a share, such as time-slicing or mps, at most
	// 16. Labels `<vendor>/<type>.sharing-strategy` say so. Unset for cards that are not shared.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Sharing []string `json:"sharing,omitempty"`
	// total is the number of allocatable cards of all nodes.
	// +required
	// +kubebuilder:validation:Minimum=0
	Total int64 `json:"total"`
	// healthy is the number of allocatable cards of Ready nodes.
	// +required
	// +kubebuilder:validation:Minimum=0
	Healthy int64 `json:"healthy"`
	// cordoned is how many of the healthy cards are on cordoned nodes. No new pod gets them.
	// +required
	// +kubebuilder:validation:Minimum=0
	Cordoned int64 `json:"cordoned"`
	// allocated is the number of cards that assigned pods use, whatever their queue.
	// +required
	// +kubebuilder:validation:Minimum=0
	Allocated int64 `json:"allocated"`
	// quota is the sum of all quotas, as condition InventorySatisfied compares it with the healthy
	// cards. In a tree it is the sum of the top level.
	// +required
	// +kubebuilder:validation:Minimum=0
	Quota int64 `json:"quota"`
	// deserved is the sum of what the queues at the top level of a tree deserve. Unset if it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Deserved int64 `json:"deserved,omitempty"`
	// overAllocatedBy is quota minus healthy if that is more than 0.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OverAllocatedBy int64 `json:"overAllocatedBy,omitempty"`
	// serviceTypes are the quota and usage of the card by service type, at most 34.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=34
	ServiceTypes []InventoryServiceType `json:"serviceTypes,omitempty"`
}

// InventoryServiceType is the quota and usage of one card by the queues of one service type.
type InventoryServiceType struct {
	// name is the service type of the queues. It is none for queues without one, and for pods outside
	// any queue.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// quota is the sum of the quotas in force of these queues. In a tree it is the sum of the leaves,
	// which may be more than the quota of the top level.
	// +required
	// +kubebuilder:validation:Minimum=0
	Quota int64 `json:"quota"`
	// used is the number of cards that assigned pods of these queues use.
	// +required
	// +kubebuilder:validation:Minimum=0
	Used int64 `json:"used"`
	// pending is the number of cards that pending pods and jobs of these queues request.
	// +required
	// +kubebuilder:validation:Minimum=0
	Pending int64 `json:"pending"`
}

// InventoryAnomaly is something that is wrong with nodes, with the use of their cards, or with its bills.
type InventoryAnomaly struct {
	// reason is the kind of the anomaly. See docs/troubleshooting.md.
	// +required
	Reason AnomalyReason `json:"reason,omitempty"`
	// resource is the resource that the anomaly is about. Unset if it is about several.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`
	// card is the card that the anomaly is about. Unset if it has no name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Card string `json:"card,omitempty"`
	// count is the number of cards that the anomaly is about. Unset if it is not known, such as when a
	// device plugin has stopped.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count,omitempty"`
	// nodesTotal is the number of all nodes with this anomaly, of which nodes lists the first.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	NodesTotal int32 `json:"nodesTotal"`
	// nodes are the names of the nodes, sorted, at most 20.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes,omitempty"`
	// message says what is wrong, and what to do.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AnomalyReason is the kind of an anomaly. The values are constants of this package. A later version
// may write others, so a program must accept any value.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type AnomalyReason string

// The reasons of anomalies.
const (
	// AnomalyNoModelLabel: no label names the card of a resource. No pod gets it.
	AnomalyNoModelLabel AnomalyReason = "NoModelLabel"
	// AnomalySeveralModels: labels name more than one card model. No pod gets a card of the node.
	AnomalySeveralModels AnomalyReason = "SeveralModels"
	// AnomalyAmbiguousResource: the model could be any of several resources. No pod gets one of them.
	AnomalyAmbiguousResource AnomalyReason = "AmbiguousResource"
	// AnomalyInvalidLabel: the value of a label makes no card name. No pod gets that resource.
	AnomalyInvalidLabel AnomalyReason = "InvalidLabel"
	// AnomalyMoreThanLabelled: the node offers more of a card than its labels say, as if cards were shared.
	// If it is at least twice as many, no new pod gets one of them.
	AnomalyMoreThanLabelled AnomalyReason = "MoreThanLabelled"
	// AnomalyUnmappedResource: the resource looks like a card, and nothing names it. No quota limits it.
	AnomalyUnmappedResource AnomalyReason = "UnmappedResource"
	// AnomalyCardsOutsideQueues: pods use cards and name no queue, or one that does not exist. No quota
	// limits them.
	AnomalyCardsOutsideQueues AnomalyReason = "CardsOutsideQueues"
	// AnomalyResourceClaimCards: a driver of dynamic resource allocation hands out cards by ResourceClaims. No
	// quota limits them.
	AnomalyResourceClaimCards AnomalyReason = "ResourceClaimCards"
	// AnomalyCardsUnhealthy: cards are not allocatable. The device plugin reports them as broken, or it has
	// stopped.
	AnomalyCardsUnhealthy AnomalyReason = "CardsUnhealthy"
	// AnomalyModelChanged: a label with the card model changed while pods used the cards. Their queues are
	// charged by the new name.
	AnomalyModelChanged AnomalyReason = "ModelChanged"
	// AnomalyBillsNotStored: card-seconds are counted and cannot be stored. A restart of the operator would
	// lose them.
	AnomalyBillsNotStored AnomalyReason = "BillsNotStored"
	// AnomalyBillDaysDropped: card-seconds of days were dropped before their time, because there was no room.
	// Those of months stay.
	AnomalyBillDaysDropped AnomalyReason = "BillDaysDropped"
)

// InventoryName is the name of the only CardInventory.
const InventoryName = "cluster"
