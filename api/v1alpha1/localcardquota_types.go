package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LocalCardQuota shows a CardQuota to the users of a namespace. The operator keeps one, with the name
// of the CardQuota, in each namespace that its explicit namespaceSelector selects. Users may only read
// it. It names workloads of its own namespace only.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=localcardquotas,shortName=lcq
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.serviceType`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queue`
// +kubebuilder:printcolumn:name="Cards",type=string,JSONPath=`.status.summary`,description="used/quota of each card, in all namespaces"
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.status.pendingSummary`,description="cards that pending pods request, in all namespaces"
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blockedTotal`,description="workloads of this namespace that wait"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.blocked[0].reason`,description="why the one that waits longest waits"
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.state`,description="only an Open queue takes workloads"
// +kubebuilder:printcolumn:name="CPU",type=string,priority=1,JSONPath=`.status.cpu.used`
// +kubebuilder:printcolumn:name="Memory",type=string,priority=1,JSONPath=`.status.memory.used`
// +kubebuilder:printcolumn:name="Card-Hours",type=string,priority=1,JSONPath=`.status.cardHours.thisMonth.summary`,description="card-hours of this month, in all namespaces"
// +kubebuilder:printcolumn:name="Last-Month",type=string,priority=1,JSONPath=`.status.cardHours.lastMonth.summary`,description="card-hours of the month before"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.blocked[0].message`,description="what the scheduler says about it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LocalCardQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the operator observed last.
	// +optional
	Status LocalCardQuotaStatus `json:"status,omitzero"`
}

// LocalCardQuotaList is a list of LocalCardQuotas.
// +kubebuilder:object:root=true
type LocalCardQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LocalCardQuota `json:"items"`
}

// QueueHeld is the state of a queue in which nothing new starts, although Volcano has it open.
const QueueHeld = "Held"

// QueueDraining is the state of a queue without quota, whose CardQuota is being deleted.
const QueueDraining = "Draining"

// LocalCardQuotaStatus is what the operator observed last. An operator writes it at most once in 10
// seconds. Creating the view is a write of its own, and a new leader does not wait for the last one's.
type LocalCardQuotaStatus struct {
	// queue is the queue that jobs name to use this quota.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`
	// state is the state of the queue: Open, Held, Draining, Closed, Closing or Unknown. Only an Open queue takes
	// workloads. An administrator or the operator holds a Held one. The CardQuota of a Draining one is being
	// deleted. Unset until Volcano has opened it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
	// serviceType is the service type of the queue. Unset for a parent of other CardQuotas.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceType string `json:"serviceType,omitempty"`
	// summary is used/quota of the cards in one line, as in the CardQuota.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// pendingSummary is the number of cards that pending pods request, as in the CardQuota.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PendingSummary string `json:"pendingSummary,omitempty"`
	// cards is the usage of each card by all pods of the queue, as in the CardQuota.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Cards []CardStatus `json:"cards,omitempty"`
	// cpu is the CPU that the queue's pods request together, as in the CardQuota.
	// +optional
	CPU *ResourceStatus `json:"cpu,omitempty"`
	// memory is the memory that the queue's pods request together, as in the CardQuota.
	// +optional
	Memory *ResourceStatus `json:"memory,omitempty"`
	// cardHours is how long pods of the queue, in all namespaces, have used cards in this month and in
	// the last one. It is at most two hours old. Unset until the operator knows it.
	// +optional
	CardHours *CardHoursStatus `json:"cardHours,omitempty"`
	// blockedTotal is the number of all blocked workloads of this namespace, also those that blocked
	// does not list.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	BlockedTotal int32 `json:"blockedTotal"`
	// blockedElsewhere is the number of the queue's blocked workloads of other namespaces.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	BlockedElsewhere int32 `json:"blockedElsewhere"`
	// blocked lists pending workloads of this namespace, why they wait and who uses the cards, the
	// longest waiting first, at most 10 entries. A workload has one for each card and reason. Those of
	// the three largest holders that are in other namespaces are sums by service type.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Blocked []BlockedStatus `json:"blocked,omitempty"`
}

// CardHoursStatus is the use of a queue in this month and in the last one. The operator refreshes it at
// most once an hour, and when a month begins. A parent in a tree has the use of all queues below it.
type CardHoursStatus struct {
	// countedUntil is until when the use was counted when the operator refreshed it. Use that has not
	// changed since is not refreshed.
	// +required
	CountedUntil metav1.Time `json:"countedUntil,omitzero"`
	// thisMonth is the use in the month of countedUntil.
	// +required
	ThisMonth MonthCardHours `json:"thisMonth,omitzero"`
	// lastMonth is the use in the month before.
	// +required
	LastMonth MonthCardHours `json:"lastMonth,omitzero"`
}

// MonthCardHours is the use of a queue in a month.
type MonthCardHours struct {
	// month is the month, such as 2026-11. It begins in the time zone billingTimeZone of the
	// ServiceTypePolicy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=7
	Month string `json:"month,omitempty"`
	// summary is the card-hours of each card in one line.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// cards is the use of each card, sorted by name, at most 128. Beyond that it has those with the
	// most card-hours.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Cards []CardHours `json:"cards,omitempty"`
}

// CardHours is the use of one card.
type CardHours struct {
	// name is the card name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Name string `json:"name,omitempty"`
	// hours is cards × hours, in whole card-hours, rounded down.
	// +required
	// +kubebuilder:validation:Minimum=0
	Hours int64 `json:"hours"`
}
