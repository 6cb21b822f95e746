package v1alpha1

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CardQuota grants a tenant a quota for each card model. The operator writes it to one Volcano
// Queue, the scheduler enforces it there, and status reports what the queue's pods use.
// Example and manual: docs/administrator-guide.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cardq
// +kubebuilder:selectablefield:JSONPath=`.spec.tenant`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenant`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.serviceType`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`,description="whether the quota is enforced or only observed"
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blockedTotal`,description="workloads that wait"
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`,description="whether the quota is proven to be enforced"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Would wait",type=integer,priority=1,JSONPath=`.status.forecast.waiting.total`,description="workloads that would wait if the quota were enforced"
// +kubebuilder:printcolumn:name="Cards",type=string,priority=1,JSONPath=`.status.summary`,description="used/quota per card"
// +kubebuilder:printcolumn:name="Pending",type=string,priority=1,JSONPath=`.status.pendingSummary`,description="cards that pending pods request"
// +kubebuilder:printcolumn:name="Queue",type=string,priority=1,JSONPath=`.status.queue.name`
// +kubebuilder:printcolumn:name="Project",type=string,priority=1,JSONPath=`.spec.project`
// +kubebuilder:printcolumn:name="Parent",type=string,priority=1,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.queue.state`
// +kubebuilder:printcolumn:name="CPU",type=string,priority=1,JSONPath=`.status.cpu.used`
// +kubebuilder:printcolumn:name="Memory",type=string,priority=1,JSONPath=`.status.memory.used`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="has(self.spec.queueName) || self.metadata.name.size() <= 63",message="the name is also the name of the Queue, which Volcano writes as a label on pods: at most 63 characters, or set spec.queueName"
// +kubebuilder:validation:XValidation:rule="has(self.spec.queueName) || self.metadata.name != 'root'",message="the queue root belongs to Volcano and cannot carry a quota: choose another name"
// +kubebuilder:validation:XValidation:rule="has(self.spec.queueName) || self.metadata.name != 'default'",message="the queue default takes every workload that names no queue: to put a quota on it, say so with spec.queueName: default"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.queueName) ? self.spec.queueName : self.metadata.name) == (has(oldSelf.spec.queueName) ? oldSelf.spec.queueName : oldSelf.metadata.name)",message="spec.queueName cannot be changed: create another CardQuota for the other queue"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parent) || self.spec.parent != self.metadata.name",message="a CardQuota cannot be its own parent"
type CardQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the tenant is granted.
	// +required
	Spec CardQuotaSpec `json:"spec,omitzero"`
	// status is what the operator observed last: usage of each card, blocked workloads, conditions.
	// +optional
	Status CardQuotaStatus `json:"status,omitzero"`
}

// CardQuotaList is a list of CardQuotas.
// +kubebuilder:object:root=true
type CardQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CardQuota `json:"items"`
}

// CardQuotaSpec is what a tenant is granted.
type CardQuotaSpec struct {
	// tenant is the owner of the quota, 1 to 63 characters. To list the CardQuotas of one tenant:
	// kubectl get cardq --field-selector spec.tenant=chat.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Tenant string `json:"tenant,omitempty"`
	// project is the tenant's project or business line, for information only.
	// A tenant with several projects has one CardQuota for each.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Project string `json:"project,omitempty"`
	// serviceType is the kind of work in the queue, a service type of the ServiceTypePolicy. By default
	// inference has queue priority 80000; training has 20000 and gives cards back to inference.
	// It applies to every workload of the queue. Unset means a parent in a tree of quotas: its queue
	// takes no jobs, its children do. See docs/administrator-guide.md.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceType string `json:"serviceType,omitempty"`
	// parent is the CardQuota that contains this one in a tree of quotas. Unset means the top level.
	// What a child uses counts in every ancestor. The parent may be created later: until then the
	// operator creates no Queue, and lets nothing new start in one that exists. It takes effect if
	// queueHierarchy of the ServiceTypePolicy is Tree.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Parent string `json:"parent,omitempty"`
	// namespaceSelector selects by labels the namespaces whose pods may use the queue. Unset and {}
	// select every namespace. At most 32 labels and 32 expressions of 256 values. Pods of other
	// namespaces wait; running pods are not affected. In a tree every ancestor must select the namespace
	// as well. See docs/administrator-guide.md.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.size() <= 32",message="at most 32 labels can be matched"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.size() <= 32",message="at most 32 expressions can be matched"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['In', 'NotIn']) || has(e.values) && e.values.size() > 0 && e.values.size() <= 256)",message="the operators In and NotIn need 1 to 256 values"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || e.values.size() == 0)",message="the operators Exists and DoesNotExist take no values"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// queueName is the Volcano Queue that carries the quota. The operator creates it if necessary.
	// Unset means the name of this CardQuota. It is immutable and cannot be root. The queue default
	// must be named here, because it takes every workload that names no queue.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self != 'root'",message="the queue root belongs to Volcano and cannot carry a quota"
	QueueName string `json:"queueName,omitempty"`
	// cards are the quotas: how many cards of each name the queue's pods may use at the same time.
	// A card that is not listed cannot be used. At most 64 entries, one for each name.
	// Lowering a quota stops no running pod. See docs/administrator-guide.md.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Cards []Card `json:"cards,omitempty"`
	// resources limits the CPU and memory that the queue's pods request together, each by itself. Unset:
	// not limited. 0: none, so pods that request it do not start. In a tree unset means the limit of the
	// parent. If computeQuota of the ServiceTypePolicy is IgnoreForCardPods, pods that request cards are
	// not limited.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// weight is the weight of the Queue, 1 to 65535. Unset leaves it unchanged. Of queues of equal priority
	// that wait, one of weight 2 gets twice the part of its quota, in a tree twice as many borrowed
	// cards. If another field manager owns it, condition QueueSynced says so.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Weight *int32 `json:"weight,omitempty"`
	// priority orders queues of one service type, 0 (default) to 9999. Jobs of a higher one start first
	// and lose their cards last. It is added to the priority of the service type, and cut below the next
	// service type's. A queue never evicts jobs of its own service type because of it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9999
	Priority *int32 `json:"priority,omitempty"`
	// stopPolicy stops the queue and everything below it in a tree. None (default) does not. With Hold
	// running pods continue, but nothing new starts, and unused guarantees are lent to other queues.
	// HoldAndDrain also evicts every running job as a whole, but no system-critical pod. While queues
	// are flat, it stops this queue alone.
	// +optional
	// +kubebuilder:default=None
	StopPolicy StopPolicy `json:"stopPolicy,omitempty"`
	// overAllocation controls what happens when all CardQuotas together grant more of a card than
	// Ready nodes have. Warn (default) reports it, Allow accepts it, Deny refuses new grants.
	// Every quota is enforced as written. See docs/administrator-guide.md.
	// +optional
	// +kubebuilder:default=Warn
	OverAllocation OverAllocation `json:"overAllocation,omitempty"`
	// deletionPolicy controls what happens to the Queue when this CardQuota is deleted. Delete
	// (default) empties the quota at once. If the operator created the Queue, it deletes it when no pod
	// uses it. Retain keeps the Queue and its quota. See docs/administrator-guide.md.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Card is the quota of one card name.
// +kubebuilder:validation:XValidation:rule="has(self.quota) || has(self.deserved)",message="write quota, or in a tree deserved with the quota of the parent"
// +kubebuilder:validation:XValidation:rule="!has(self.quota) || !has(self.deserved) || self.deserved <= self.quota",message="deserved must be at most quota"
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.deserved) || self.guarantee <= self.deserved",message="guarantee must be at most deserved"
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.quota) || self.guarantee <= self.quota",message="guarantee must be at most quota"
type Card struct {
	// name is the card name: the value of node label `<vendor>/<type>.product`, such as NVIDIA-H200.
	// A MIG slice is `<model>/mig-<profile>-mixed`, a share of it `<model>/mig-<profile>-mixed-SHARED`.
	// A share under the resource `<vendor>/<type>.shared` is `<model>/mps-<memory>g*1/<replicas>`.
	// A quota for whole cards or slices does not cover their shares.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?(/(mig-[a-z0-9][-a-z0-9_.]{0,40}-mixed(-SHARED)?|mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}))?$`
	Name string `json:"name,omitempty"`
	// quota is the maximum number of whole cards, slices or shares, 0 to 1000000.
	// 0 forbids the card and keeps it in status. Unset inherits the quota of the parent, which exists
	// in a tree only. While queues are flat, deserved is the quota then.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Quota *int64 `json:"quota,omitempty"`
	// deserved is how many of these cards the queue takes back from queues that use more than they
	// deserve, 0 to 1000000, at most quota. Up to quota it borrows what others do not use. It has an
	// effect in a tree only. Unset counts as quota.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Deserved *int64 `json:"deserved,omitempty"`
	// guarantee is how many of these cards stay free for the queue when it does not use them, 0 to
	// 1000000, at most deserved. Nothing takes them from it. It has an effect in a tree only. Unset
	// counts as 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Guarantee *int64 `json:"guarantee,omitempty"`
}

// Resources are the limits of a queue besides cards.
// +kubebuilder:validation:XValidation:rule="!has(self.deserved) || !has(self.deserved.cpu) || has(self.cpu) || !has(self.memory)",message="deserved.cpu needs cpu, because memory is limited"
// +kubebuilder:validation:XValidation:rule="!has(self.deserved) || !has(self.deserved.memory) || has(self.memory) || !has(self.cpu)",message="deserved.memory needs memory, because cpu is limited"
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.guarantee.cpu) || has(self.cpu) || has(self.deserved) && has(self.deserved.cpu) && !has(self.memory)",message="guarantee.cpu needs cpu, or deserved.cpu if neither cpu nor memory is limited"
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.guarantee.memory) || has(self.memory) || has(self.deserved) && has(self.deserved.memory) && !has(self.cpu)",message="guarantee.memory needs memory, or deserved.memory if neither cpu nor memory is limited"
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !has(self.deserved) || !has(self.deserved.cpu) || quantity(string(self.deserved.cpu)).compareTo(quantity(string(self.cpu))) <= 0",message="deserved.cpu must be at most cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.deserved) || !has(self.deserved.memory) || quantity(string(self.deserved.memory)).compareTo(quantity(string(self.memory))) <= 0",message="deserved.memory must be at most memory"
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !has(self.guarantee) || !has(self.guarantee.cpu) || quantity(string(self.guarantee.cpu)).compareTo(quantity(string(self.cpu))) <= 0",message="guarantee.cpu must be at most cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.guarantee) || !has(self.guarantee.memory) || quantity(string(self.guarantee.memory)).compareTo(quantity(string(self.memory))) <= 0",message="guarantee.memory must be at most memory"
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.guarantee.cpu) || !has(self.deserved) || !has(self.deserved.cpu) || quantity(string(self.guarantee.cpu)).compareTo(quantity(string(self.deserved.cpu))) <= 0",message="guarantee.cpu must be at most deserved.cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.guarantee.memory) || !has(self.deserved) || !has(self.deserved.memory) || quantity(string(self.guarantee.memory)).compareTo(quantity(string(self.deserved.memory))) <= 0",message="guarantee.memory must be at most deserved.memory"
type Resources struct {
	// cpu is the maximum CPU that the queue's pods request together, for example "96" or "1500m".
	// At most 1000000000. Unset: not limited, in a tree the limit of the parent. 0: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1000000000')) <= 0",message="cpu must be between 0 and 1000000000"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory is the maximum memory that the queue's pods request together, for example 512Gi.
	// At most 4Ei. Unset: not limited, in a tree the limit of the parent. 0: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('4Ei')) <= 0",message="memory must be between 0 and 4Ei"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// deserved is the CPU and memory that the queue takes back from queues that use more than they
	// deserve. It has an effect in a tree only. Each unset amount counts as the limit.
	// +optional
	Deserved *ResourceAmounts `json:"deserved,omitempty"`
	// guarantee is the CPU and memory that stay free for the queue when it does not use them. It has
	// an effect in a tree only. Each unset amount counts as 0.
	// +optional
	Guarantee *ResourceAmounts `json:"guarantee,omitempty"`
}

// ResourceAmounts are amounts of CPU and memory.
// +kubebuilder:validation:MinProperties=1
type ResourceAmounts struct {
	// cpu is the CPU of all pods of the queue together, for example "96" or "1500m", at most the limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1000000000')) <= 0",message="cpu must be between 0 and 1000000000"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory is the memory of all pods of the queue together, for example 512Gi, at most the limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('4Ei')) <= 0",message="memory must be between 0 and 4Ei"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// OverAllocation controls quotas beyond the inventory.
// +kubebuilder:validation:Enum=Allow;Warn;Deny
type OverAllocation string

// DeletionPolicy controls the Queue of a deleted CardQuota.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// StopPolicy stops a queue.
// +kubebuilder:validation:Enum=None;Hold;HoldAndDrain
type StopPolicy string

// The values of the enumerations.
const (
	OverAllocationAllow OverAllocation = "Allow"
	OverAllocationWarn  OverAllocation = "Warn"
	OverAllocationDeny  OverAllocation = "Deny"

	DeletionPolicyDelete DeletionPolicy = "Delete"
	DeletionPolicyRetain DeletionPolicy = "Retain"

	StopPolicyNone         StopPolicy = "None"
	StopPolicyHold         StopPolicy = "Hold"
	StopPolicyHoldAndDrain StopPolicy = "HoldAndDrain"
)

// QueueName returns the name of the Queue: spec.queueName, or the name of the CardQuota.
func (c *CardQuota) QueueName() string { return cmp.Or(c.Spec.QueueName, c.Name) }
