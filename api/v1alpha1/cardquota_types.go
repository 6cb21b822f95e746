package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CardQuota gives one tenant's project or business line a quota per card
// model. Every CardQuota stands for exactly one Volcano Queue: the operator
// writes the quota to the Queue, the scheduler enforces it there, and what the
// queue's pods hold comes back in the status.
//
//	apiVersion: cardquota.dev/v1alpha1
//	kind: CardQuota
//	metadata:
//	  name: chat-inference
//	spec:
//	  tenant: chat
//	  serviceType: inference
//	  cards:
//	  - name: NVIDIA-H200
//	    quota: 8
//	  resources:
//	    cpu: "96"
//	    memory: 1Ti
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cardq
// +kubebuilder:selectablefield:JSONPath=`.spec.tenant`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenant`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.serviceType`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queue.name`
// +kubebuilder:printcolumn:name="Cards",type=string,JSONPath=`.status.summary`,description="used/quota per card"
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.status.pendingSummary`,description="cards that waiting pods ask for"
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`,description="whether the quota is proven to be enforced"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Project",type=string,priority=1,JSONPath=`.spec.project`
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.queue.state`
// +kubebuilder:printcolumn:name="CPU",type=string,priority=1,JSONPath=`.status.cpu.used`
// +kubebuilder:printcolumn:name="Memory",type=string,priority=1,JSONPath=`.status.memory.used`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="has(self.spec.queueName) || self.metadata.name.size() <= 63",message="the name is also the name of the Queue, which Volcano writes as a label on pods: at most 63 characters, or set spec.queueName"
// +kubebuilder:validation:XValidation:rule="has(self.spec.queueName) || self.metadata.name != 'root'",message="the queue root belongs to Volcano and cannot carry a quota: choose another name"
// +kubebuilder:validation:XValidation:rule="has(self.spec.queueName) || self.metadata.name != 'default'",message="the queue default takes every workload that names no queue: to put a quota on it, say so with spec.queueName: default"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.queueName) ? self.spec.queueName : self.metadata.name) == (has(oldSelf.spec.queueName) ? oldSelf.spec.queueName : oldSelf.metadata.name)",message="spec.queueName cannot be changed: create another CardQuota for the other queue"
type CardQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of objects.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the tenant is granted.
	// +required
	Spec CardQuotaSpec `json:"spec,omitzero"`
	// status is what the operator saw last: use per card, what waits and why,
	// and whether the Queue carries this quota.
	// +optional
	Status CardQuotaStatus `json:"status,omitzero"`
}

// CardQuotaList is a list of CardQuotas.
//
// +kubebuilder:object:root=true
type CardQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CardQuota `json:"items"`
}

// CardQuotaSpec is what a tenant is granted.
type CardQuotaSpec struct {
	// tenant is who the cards are for. CardQuotas can be selected by it:
	// kubectl get cardq --field-selector spec.tenant=chat.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Tenant string `json:"tenant,omitempty"`
	// project is the tenant's project or business line, for people to read. A
	// tenant with several projects has one CardQuota for each.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Project string `json:"project,omitempty"`
	// serviceType says what kind of work runs in the queue. inference gets
	// queue priority 80000 and cannot be reclaimed; training gets 20000 and can,
	// unless the ServiceTypePolicy says otherwise. A type that it does not define
	// is refused when it is written; one that loses its definition later leaves
	// both fields of the Queue alone. It is written to the Queue as
	// volcano.sh/service.type, where it decides for every workload of the queue:
	// no pod can claim more than its queue grants.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceType string `json:"serviceType,omitempty"`
	// namespaceSelector selects, by their labels, the namespaces whose pods may use
	// the queue. Unset means every namespace, as in Volcano, where any pod may name
	// any queue; {} is every namespace as well, as in Kubernetes.
	//
	//	namespaceSelector:
	//	  matchLabels:
	//	    team: chat
	//
	// Every namespace carries its own name as the label kubernetes.io/metadata.name:
	//
	//	namespaceSelector:
	//	  matchExpressions:
	//	  - key: kubernetes.io/metadata.name
	//	    operator: In
	//	    values: [chat, chat-staging]
	//
	// It is written to the Queue as volcano.sh/namespace-selector, and the scheduler
	// goes by it: a job or pod of another namespace is neither admitted nor placed,
	// takes cards from nobody, and says why it waits, whether it asks for cards or
	// not. Who may label namespaces decides who may use the queue; the roles admin
	// and edit of Kubernetes do not allow it. A change touches no running pod: it
	// stays, and counts, when its namespace is left out later. Unset takes back what
	// was written to the Queue; an annotation that somebody else wrote there stays
	// and counts. A key or value that is no label's is told in condition QueueSynced
	// (InvalidNamespaceSelector), and the Queue keeps what it had. At most 32 labels,
	// 32 expressions, and 256 values in each.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.size() <= 32",message="at most 32 labels can be matched"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.size() <= 32",message="at most 32 expressions can be matched"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['In', 'NotIn']) || has(e.values) && e.values.size() > 0 && e.values.size() <= 256)",message="the operators In and NotIn need 1 to 256 values"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || e.values.size() == 0)",message="the operators Exists and DoesNotExist take no values"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// queueName is the Volcano Queue that carries the quota; the operator
	// creates it when it does not exist. Unset means the name of this
	// CardQuota. It cannot be changed later. Of two CardQuotas for one queue
	// the older one has it, the other waits. root is refused; default must be
	// written here in full, since it takes every workload that names no queue.
	// Jobs name the queue in spec.queue, pods in the annotation
	// scheduling.volcano.sh/queue-name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self != 'root'",message="the queue root belongs to Volcano and cannot carry a quota"
	QueueName string `json:"queueName,omitempty"`
	// cards is the quota per card: how many cards of each name the pods of the
	// queue may hold at the same time. A card that is not listed may not be
	// used at all; an empty list is a queue for work without cards.
	//
	//	cards:
	//	- name: NVIDIA-H200                    # whole cards of this model
	//	  quota: 8
	//	- name: NVIDIA-H200/mig-1g.18gb-mixed  # MIG slices of a profile
	//	  quota: 3
	//	- name: NVIDIA-H800/mps-80g*1/2        # MPS halves of a card
	//	  quota: 2
	//
	// A quota may be larger than the cluster; overAllocation says what is
	// thought of that. Lowering a quota below what is in use stops nothing that
	// runs; nothing new starts until use has fallen, and status shows
	// overQuotaBy. At most 64 entries, one per name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Cards []Card `json:"cards,omitempty"`
	// resources limits CPU and memory of the queue's pods together. It is
	// written to the Queue's spec.capability; what is unset here counts as 0 in
	// a queue with a card quota, so pods that ask for CPU or memory would not
	// start, unless the ServiceTypePolicy's computeQuota is IgnoreForCardPods (then
	// pods that ask for cards are not limited in CPU and memory).
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// weight is written to the Queue as its weight, 1 to 65535. It has no effect on
	// who gets cards, CPU or memory: capacity-card shares nothing by weight. Unset
	// leaves the Queue's weight to others. When somebody else manages the
	// field it is left alone and condition QueueSynced says so.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Weight *int32 `json:"weight,omitempty"`
	// overAllocation says what is thought of quotas that add up to more cards
	// than the cluster has: of any card that this CardQuota grants, the quotas of
	// all CardQuotas together against the cards of Ready nodes. Warn (default):
	// condition InventorySatisfied turns False and an event says so. Allow: the
	// condition stays True and says how many too many are granted. Deny: this
	// CardQuota may not be made, and none of its quotas raised, beyond what the
	// others leave; the admission webhook refuses it. What was granted stays
	// granted: when cards go away later, or others are granted more, or the webhook
	// did not run, Deny is as Warn. Every quota is enforced as written in any case,
	// nothing is withheld, and Ready does not depend on it.
	// +optional
	// +kubebuilder:default=Warn
	OverAllocation OverAllocation `json:"overAllocation,omitempty"`
	// deletionPolicy says what happens to the Queue when this CardQuota is
	// deleted. Delete (default): the quota becomes empty at once, so nothing
	// new starts, running pods finish, and the Queue is deleted when no pod and
	// no PodGroup uses it any more; the CardQuota stays visible until then. Only
	// a Queue that the operator made is deleted; it carries the annotation
	// cardquota.dev/created-by. A Queue that was there before, or was retained
	// once (event Adopted), stays and belongs to nobody: its card quota is left
	// empty ({}) and its CPU and memory limits are taken away, so nothing new
	// starts in it until somebody writes or removes volcano.sh/card.quota;
	// service type, priority and the other fields of the operator are taken off.
	// The queue default is never deleted and gets no empty quota, it is only
	// given back. Retain: the Queue stays as it is and belongs to nobody; only its
	// label app.kubernetes.io/managed-by is taken off, as it is from any Queue that a
	// CardQuota leaves.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Card is the quota of one card name.
type Card struct {
	// name is the card name. A whole card is called as the node label
	// <vendor>/<type>.product says, for example NVIDIA-H200 or Ascend-910B. A
	// MIG slice is <model>/mig-<profile>-mixed, an MPS share is
	// <model>/mps-<memory>g*1/<replicas>. Every name is counted for itself: a
	// quota of whole cards does not cover their slices. A name that no
	// node has shows as physical: 0 in the status.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?(/(mig-[a-z0-9][-a-z0-9_.]{0,40}-mixed|mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}))?$`
	Name string `json:"name,omitempty"`
	// quota is the hard ceiling in whole cards (or whole slices or shares), 0
	// to 1000000. 0 is the same as leaving the card out, but keeps it in the
	// status.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Quota int64 `json:"quota"`
}

// Resources are the limits of a queue besides cards.
type Resources struct {
	// cpu is the most CPU that the queue's pods may request together, for
	// example "96" or "1500m"; at most 1000000000. Unset counts as 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1000000000')) <= 0",message="cpu must be between 0 and 1000000000"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory is the most memory that the queue's pods may request together, for
	// example 512Gi; at most 4Ei. Unset counts as 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('4Ei')) <= 0",message="memory must be between 0 and 4Ei"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// OverAllocation says what is thought of quotas beyond the cluster's cards.
//
// +kubebuilder:validation:Enum=Allow;Warn;Deny
type OverAllocation string

// The values of OverAllocation.
const (
	// OverAllocationAllow says that it is meant.
	OverAllocationAllow OverAllocation = "Allow"
	// OverAllocationWarn tells of it in a condition and an event.
	OverAllocationWarn OverAllocation = "Warn"
	// OverAllocationDeny refuses to grant more than is left.
	OverAllocationDeny OverAllocation = "Deny"
)

// DeletionPolicy says what becomes of the Queue with its CardQuota.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// The values of DeletionPolicy.
const (
	DeletionPolicyDelete DeletionPolicy = "Delete"
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// QueueName returns the name of the Queue that carries this quota: spec.queueName,
// or the name of the CardQuota.
func (c *CardQuota) QueueName() string {
	if c.Spec.QueueName != "" {
		return c.Spec.QueueName
	}
	return c.Name
}
