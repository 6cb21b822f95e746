package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceTypePolicy defines how kinds of work share the cluster: queue priorities, reclaim between
// service types, admission and the scheduler's configuration. A cluster has one, named default.
// An empty spec is valid. Example and manual: docs/administrator-guide.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=stp
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`,description="whether quotas are enforced or only observed"
// +kubebuilder:printcolumn:name="Reclaim",type=string,JSONPath=`.status.reclaim`,description="how cards are taken back"
// +kubebuilder:printcolumn:name="Scheduler",type=string,JSONPath=`.status.scheduler.version`,description="version of the active scheduler"
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="ConfigSynced")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one ServiceTypePolicy, named default: change that one"
type ServiceTypePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired policy.
	// +optional
	Spec ServiceTypePolicySpec `json:"spec,omitzero"`
	// status is the policy in force, its rendered configuration, and the scheduler that loaded it.
	// +optional
	Status ServiceTypePolicyStatus `json:"status,omitzero"`
}

// ServiceTypePolicyList is a list of ServiceTypePolicies.
// +kubebuilder:object:root=true
type ServiceTypePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServiceTypePolicy `json:"items"`
}

// ServiceTypePolicySpec is the desired policy.
// +kubebuilder:validation:XValidation:rule="!has(self.priorityClassPolicy) || self.priorityClassPolicy != 'None' || !has(self.priorityClasses) || self.priorityClasses.size() == 0",fieldPath=".priorityClasses",message="with priorityClassPolicy None the operator creates no PriorityClass: leave priorityClasses out"
// +kubebuilder:validation:XValidation:rule="!has(self.reclaim) || self.reclaim != 'Pods' || !has(self.queueHierarchy) || self.queueHierarchy != 'Tree'",fieldPath=".reclaim",message="Pods cannot be used with queueHierarchy: Tree, because Volcano's action reclaim knows no tree: set reclaim: Gangs, with which cardreclaim takes back by all rules of the tree, or Off"
type ServiceTypePolicySpec struct {
	// mode is Enforce (default) or Observe. Enforce: the operator writes CardQuotas to Queues, and this
	// policy to the scheduler's configuration. Observe: it writes only its own objects, and refuses no
	// workload. A change to Observe restores what Queues had before, once Cardquota's scheduler has ended.
	// See docs/adopt.md.
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`
	// serviceTypes define the kinds of work, 1 to 32. They replace the built-in types by name, with all
	// fields: inference (priority 80000, reclaims from training) and training (priority 20000,
	// WhenNeeded). The built-in types cannot be removed. See docs/administrator-guide.md.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ServiceTypes []ServiceType `json:"serviceTypes,omitempty"`
	// owners assign a service type to workloads that name none, by the kind of their owner, at most 32.
	// They apply only in queues without a service type; the queue of a CardQuota always has one.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=32
	Owners []OwnerKind `json:"owners,omitempty"`
	// priorityClasses are the PriorityClasses that the operator creates with the policy, 1 to 16. Unset
	// means pc-high 80000, pc-medium 60000, pc-normal 40000 and pc-low 20000. Between queues any other
	// class counts as the lowest of them. See docs/tide.md.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	PriorityClasses []PriorityClass `json:"priorityClasses,omitempty"`
	// priorityClassPolicy is Managed (default) if the operator creates priorityClasses. None: it creates
	// none, deletes those it created, and all work of a queue has the same priority in a reclaim.
	// Deprecated: a single class in priorityClasses makes all work of a queue equal, too.
	// +optional
	// +kubebuilder:default=Managed
	PriorityClassPolicy PriorityClassPolicy `json:"priorityClassPolicy,omitempty"`
	// reclaim controls how cards are taken back between queues. Gangs (default): whole gangs at the least
	// loss, by action cardreclaim of Cardquota's scheduler. Pods: pod by pod, by Volcano's action
	// reclaim, not with queueHierarchy Tree. Off: no cards are taken back. See docs/tide.md.
	// +optional
	// +kubebuilder:default=Gangs
	Reclaim ReclaimMode `json:"reclaim,omitempty"`
	// preempt controls eviction inside a queue. InQueue: jobs evict jobs of a lower PriorityClass, and
	// pods evict pods of their own job with a lower volcano.sh/task-priority. Off (default): only if
	// Volcano's configuration has action preempt. See docs/scheduler.md.
	// +optional
	// +kubebuilder:default=Off
	Preempt PreemptMode `json:"preempt,omitempty"`
	// victimOrder selects the victims of a reclaim. Priority (default): the lowest priority of queue, job
	// and pod, then the least loss of work. Loss: the least loss of work, whatever the priority. Pods
	// that a PodDisruptionBudget protects come last. See docs/tide.md.
	// Deprecated: Loss evicts work of high priority where work of low priority would suffice. For the
	// least loss among the queues of one priority, list a single class in priorityClasses.
	// +optional
	// +kubebuilder:default=Priority
	VictimOrder VictimOrder `json:"victimOrder,omitempty"`
	// reclaimResources controls what is taken back between queues. Cards (default): only cards. All: CPU
	// and memory too, by the same rules; pods without cards may be evicted and evict. See
	// docs/administrator-guide.md.
	// +optional
	// +kubebuilder:default=Cards
	ReclaimResources ReclaimResources `json:"reclaimResources,omitempty"`
	// queueHierarchy controls whether queues form a tree. Flat: every queue is under root, and parent,
	// deserved and guarantee of CardQuotas have no effect. Tree: CardQuotas form a tree by spec.parent,
	// and lend what they deserve and do not use. Unset keeps what is in force, in a new cluster Flat:
	// only a written Flat ends a tree. See docs/hierarchy.md.
	// +optional
	QueueHierarchy QueueHierarchy `json:"queueHierarchy,omitempty"`
	// computeQuota controls whether pods that request cards count against the CPU and memory limits of
	// their queue. IgnoreForCardPods (default): they do not. Enforce: they do.
	// +optional
	// +kubebuilder:default=IgnoreForCardPods
	ComputeQuota ComputeQuota `json:"computeQuota,omitempty"`
	// unmanagedQueues controls what a queue without a card quota may use. Enforce (default): no cards.
	// Ignore: any cards, for migration. Deny: no cards, and only the CPU and memory that the Queue's
	// spec.capability states. See docs/scheduler.md.
	// +optional
	// +kubebuilder:default=Enforce
	UnmanagedQueues UnmanagedQueues `json:"unmanagedQueues,omitempty"`
	// overCommitPercent limits the requests of enqueued jobs, in percent of the quota, 100 (default) to
	// 10000. At 150, jobs are enqueued up to one and a half times the quota, to wait for cards that will
	// soon be free. Usage never exceeds the quota.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	OverCommitPercent int32 `json:"overCommitPercent,omitempty"`
	// maxReservationMinutes limits how long in all more and more free cards prolong the reservation of a
	// waiting job, 5 to 1440. The default of the scheduler is 60. See docs/scheduler.md.
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=1440
	MaxReservationMinutes int32 `json:"maxReservationMinutes,omitempty"`
	// billingTimeZone is where the days and months of card-hours begin, as in the IANA database, such as
	// Europe/Berlin. The default is UTC. After a change the running day is longer or shorter. See
	// docs/kubectl.md.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][-+_A-Za-z0-9]*(/[A-Za-z][-+_A-Za-z0-9]*)*$')",message="write a name of the IANA database, such as Europe/Berlin, or UTC"
	BillingTimeZone string `json:"billingTimeZone,omitempty"`
	// nodeOrderWeightPercent scales the score that keeps gangs together and fills used nodes, 1 to
	// 100000. At 100 (default) it counts like a Volcano plugin of weight 25. The order of a pod's
	// cards does not depend on it. Lower it for plugins without a weight of their own, such as
	// nodegroup, which cannot decide otherwise. See docs/scheduler.md.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	NodeOrderWeightPercent int32 `json:"nodeOrderWeightPercent,omitempty"`
	// cards name the cards of resources that the labels of nodes do not name, at most 64. An entry
	// replaces the labels `<vendor>/<type>.product` and `.memory` for its resource. Two entries must differ
	// in resource or nodeSelector. See docs/administrator-guide.md.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Cards []CardMapping `json:"cards,omitempty"`
	// scheduler names the ConfigMap with Volcano's configuration, and the schedulerNames of pods.
	// +optional
	// +kubebuilder:default={}
	Scheduler Scheduler `json:"scheduler,omitzero"`
	// admission controls what the API server refuses and completes when workloads are submitted.
	// +optional
	// +kubebuilder:default={}
	Admission Admission `json:"admission,omitzero"`
}

// ServiceType is one kind of work.
// +kubebuilder:validation:XValidation:rule="!has(self.reclaimFrom) || !(self.name in self.reclaimFrom)",fieldPath=".reclaimFrom",message="a service type cannot take cards back from itself: two jobs of it would evict each other for ever"
type ServiceType struct {
	// name is the value of spec.serviceType in CardQuotas and of annotation volcano.sh/service.type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// priority is the priority of its queues, 0 to 1000000. Queues of higher priority are served first,
	// and give no cards back to queues of the same or a lower priority.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority"`
	// reclaimPolicy controls whether other types take cards back from this one. Never (default): none
	// does. WhenNeeded: the types that list this one in reclaimFrom do.
	// +optional
	// +kubebuilder:default=Never
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// reclaimFrom lists the service types from which this type takes cards back, at most 32. Each must be
	// defined, of reclaimPolicy WhenNeeded and of lower priority. Cycles are refused.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	ReclaimFrom []string `json:"reclaimFrom,omitempty"`
	// minimumRuntimeSeconds is how long a job of this type runs before cards are taken back from it.
	// 1 to 604800 seconds (a week) from the start of its oldest running pod. Unset means no minimum.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MinimumRuntimeSeconds int32 `json:"minimumRuntimeSeconds,omitempty"`
}

// OwnerKind assigns a service type to workloads of one kind.
type OwnerKind struct {
	// kind is the kind of a pod's owner, for example Job, or Job.batch.volcano.sh with its API group,
	// which takes precedence. Deployment means the ReplicaSets of Deployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]{0,62}(\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`
	Kind string `json:"kind,omitempty"`
	// serviceType is the service type of such workloads.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceType string `json:"serviceType,omitempty"`
}

// PriorityClass is a PriorityClass that the operator creates with the policy.
type PriorityClass struct {
	// name is the name of the PriorityClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="names that begin with system- belong to Kubernetes"
	Name string `json:"name,omitempty"`
	// value is the priority of its pods, -2147483648 to 1000000000.
	// +required
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=1000000000
	Value int32 `json:"value"`
}

// Scheduler names the scheduler's configuration and its pods.
type Scheduler struct {
	// baseConfigMap has Volcano's configuration. The operator reads it, follows its changes, and renders
	// it with this policy into ConfigMap cardquota-scheduler-configmap in the scheduler's namespace.
	// +optional
	// +kubebuilder:default={}
	BaseConfigMap ConfigMapKeyReference `json:"baseConfigMap,omitzero"`
	// names are the schedulerNames of pods that the scheduler places, 1 to 8, by default volcano. They must
	// equal its flag --scheduler-name. For pods with another one see admission.schedulerBypassPolicy.
	// +optional
	// +listType=set
	// +kubebuilder:default={volcano}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// Admission controls what happens to workloads when they are submitted.
type Admission struct {
	// schedulerBypassPolicy controls pods with cards that bypass the scheduler, by another schedulerName
	// or a spec.nodeName. It also controls changes of the queue that running pods are charged to. Deny
	// (default) refuses them, Warn warns the user, Allow does nothing. The API server enforces it also
	// while the operator is down. See docs/admission.md.
	// +optional
	// +kubebuilder:default=Deny
	SchedulerBypassPolicy SchedulerBypassPolicy `json:"schedulerBypassPolicy,omitempty"`
	// exemptServiceAccounts may bypass the scheduler, at most 32, for example the validation pods of a
	// device plugin. Pods that one of them creates are exempt, and pods that run as one of them in its
	// namespace: give it a namespace of its own. See docs/admission.md.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ExemptServiceAccounts []ServiceAccountReference `json:"exemptServiceAccounts,omitempty"`
	// maxTerminationGracePeriodSeconds is how long a terminating pod may use cards, 30 to 86400 seconds
	// (a day), by default 3600. Pods with cards, deletions and evictions that state a longer grace
	// period are handled as schedulerBypassPolicy says. See docs/admission.md.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	MaxTerminationGracePeriodSeconds int64 `json:"maxTerminationGracePeriodSeconds,omitempty"`
	// vcjobEvictionPolicy completes new Volcano jobs that request cards in queues of reclaimPolicy
	// WhenNeeded. RestartOnEviction adds maxRetry 100 and the policy PodEvicted to RestartJob, unless
	// the job has its own. Unchanged (default) adds nothing. See docs/admission.md.
	// +optional
	// +kubebuilder:default=Unchanged
	VCJobEvictionPolicy VCJobEvictionPolicy `json:"vcjobEvictionPolicy,omitempty"`
	// jobEvictionPolicy completes new Jobs (batch/v1) that request cards, with restartPolicy Never.
	// IgnoreEvictions adds a first podFailurePolicy rule that ignores DisruptionTarget, so that evicted
	// pods do not count against backoffLimit. Unchanged (default) only warns. See docs/admission.md.
	// +optional
	// +kubebuilder:default=Unchanged
	JobEvictionPolicy JobEvictionPolicy `json:"jobEvictionPolicy,omitempty"`
}

// ServiceAccountReference names a ServiceAccount.
type ServiceAccountReference struct {
	// namespace is the namespace of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// SchedulerBypassPolicy controls pods with cards that bypass the scheduler.
// +kubebuilder:validation:Enum=Deny;Warn;Allow
type SchedulerBypassPolicy string

// VCJobEvictionPolicy controls how new Volcano jobs are completed.
// +kubebuilder:validation:Enum=Unchanged;RestartOnEviction
type VCJobEvictionPolicy string

// JobEvictionPolicy controls how new Jobs (batch/v1) are completed.
// +kubebuilder:validation:Enum=Unchanged;IgnoreEvictions
type JobEvictionPolicy string

// ReclaimPolicy controls whether cards are taken back from a service type.
// +kubebuilder:validation:Enum=Never;WhenNeeded
type ReclaimPolicy string

// PriorityClassPolicy controls whether the operator creates PriorityClasses.
// +kubebuilder:validation:Enum=Managed;None
type PriorityClassPolicy string

// ComputeQuota controls whether pods with cards count against CPU and memory limits.
// +kubebuilder:validation:Enum=Enforce;IgnoreForCardPods
type ComputeQuota string

// ConfigMapKeyReference names one key of one ConfigMap.
// +kubebuilder:validation:XValidation:rule="!has(self.name) || self.name != 'cardquota-scheduler-configmap'",message="the operator renders that ConfigMap: name the ConfigMap with Volcano's configuration"
type ConfigMapKeyReference struct {
	// namespace is the namespace of the ConfigMap. Unset means the value of the operator's flag
	// --volcano-namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the ConfigMap.
	// +optional
	// +kubebuilder:default=volcano-scheduler-configmap
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// key is the key of the ConfigMap under which the configuration is.
	// +optional
	// +kubebuilder:default=volcano-scheduler.conf
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// Mode controls whether quotas are enforced.
// +kubebuilder:validation:Enum=Observe;Enforce
type Mode string

// ReclaimMode controls how cards are taken back.
// +kubebuilder:validation:Enum=Gangs;Pods;Off
type ReclaimMode string

// PreemptMode controls eviction inside a queue.
// +kubebuilder:validation:Enum=Off;InQueue
type PreemptMode string

// VictimOrder controls which jobs of other queues give cards back.
// +kubebuilder:validation:Enum=Priority;Loss
type VictimOrder string

// ReclaimResources controls what is taken back between queues.
// +kubebuilder:validation:Enum=Cards;All
type ReclaimResources string

// QueueHierarchy controls whether queues form a tree.
// +kubebuilder:validation:Enum=Flat;Tree
type QueueHierarchy string

// UnmanagedQueues controls what a queue without a card quota may use.
// +kubebuilder:validation:Enum=Enforce;Ignore;Deny
type UnmanagedQueues string

// PolicyName is the name of the only ServiceTypePolicy.
const PolicyName = "default"

// The values of the enumerations.
const (
	ModeObserve Mode = "Observe"
	ModeEnforce Mode = "Enforce"

	SchedulerBypassDeny  SchedulerBypassPolicy = "Deny"
	SchedulerBypassWarn  SchedulerBypassPolicy = "Warn"
	SchedulerBypassAllow SchedulerBypassPolicy = "Allow"

	VCJobUnchanged         VCJobEvictionPolicy = "Unchanged"
	VCJobRestartOnEviction VCJobEvictionPolicy = "RestartOnEviction"

	JobUnchanged       JobEvictionPolicy = "Unchanged"
	JobIgnoreEvictions JobEvictionPolicy = "IgnoreEvictions"

	ReclaimNever      ReclaimPolicy = "Never"
	ReclaimWhenNeeded ReclaimPolicy = "WhenNeeded"

	PriorityClassesManaged PriorityClassPolicy = "Managed"
	PriorityClassesNone    PriorityClassPolicy = "None"

	ComputeQuotaEnforce           ComputeQuota = "Enforce"
	ComputeQuotaIgnoreForCardPods ComputeQuota = "IgnoreForCardPods"

	ReclaimGangs ReclaimMode = "Gangs"
	ReclaimPods  ReclaimMode = "Pods"
	ReclaimOff   ReclaimMode = "Off"

	PreemptOff     PreemptMode = "Off"
	PreemptInQueue PreemptMode = "InQueue"

	VictimsByPriority VictimOrder = "Priority"
	VictimsByLoss     VictimOrder = "Loss"

	ReclaimResourcesCards ReclaimResources = "Cards"
	ReclaimResourcesAll   ReclaimResources = "All"

	QueueHierarchyFlat QueueHierarchy = "Flat"
	QueueHierarchyTree QueueHierarchy = "Tree"

	UnmanagedEnforce UnmanagedQueues = "Enforce"
	UnmanagedIgnore  UnmanagedQueues = "Ignore"
	UnmanagedDeny    UnmanagedQueues = "Deny"
)
