package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceTypePolicy says how inference and training, and any other kind of
// work, share the cluster: which queues are served first, who takes cards back
// from whom, and with which configuration the scheduler runs. There is one, and
// it is named default.
//
//	apiVersion: cardquota.dev/v1alpha1
//	kind: ServiceTypePolicy
//	metadata:
//	  name: default
//	spec:
//	  serviceTypes:
//	  - name: inference
//	    priority: 80000
//	    reclaimFrom: [training]
//	  - name: training
//	    priority: 20000
//	    reclaimPolicy: WhenNeeded
//	    minimumRuntimeSeconds: 600
//
// An empty spec is a good one: it is exactly the policy above without
// minimumRuntimeSeconds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=stp
// +kubebuilder:printcolumn:name="Reclaim",type=string,JSONPath=`.status.reclaim`,description="how cards are taken back"
// +kubebuilder:printcolumn:name="Scheduler",type=string,JSONPath=`.status.scheduler.version`,description="version of the scheduler at work"
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="ConfigSynced")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one ServiceTypePolicy, named default: change that one"
type ServiceTypePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of objects.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what shall hold.
	// +optional
	Spec ServiceTypePolicySpec `json:"spec,omitzero"`
	// status is what holds: the matrix in force, the configuration that was
	// written, and whether the scheduler works by it.
	// +optional
	Status ServiceTypePolicyStatus `json:"status,omitzero"`
}

// ServiceTypePolicyList is a list of ServiceTypePolicies.
//
// +kubebuilder:object:root=true
type ServiceTypePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServiceTypePolicy `json:"items"`
}

// ServiceTypePolicySpec is what shall hold in the cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.priorityClassPolicy) || self.priorityClassPolicy != 'None' || !has(self.priorityClasses) || self.priorityClasses.size() == 0",fieldPath=".priorityClasses",message="priorityClassPolicy None means that no PriorityClass comes with the policy: leave priorityClasses out"
type ServiceTypePolicySpec struct {
	// serviceTypes are the kinds of work that there are, laid by name over the two
	// that there always are: inference (priority 80000, takes cards back from
	// training) and training (priority 20000, reclaimPolicy WhenNeeded). An entry of
	// one of these names takes its place with all its fields; another name is added.
	// Neither can be removed. For training that gives nothing, list both: training
	// with reclaimPolicy Never, and inference without reclaimFrom. A type that is in neither list takes no cards back and gives
	// none, and its queues keep the priority they have. 1 to 32.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ServiceTypes []ServiceType `json:"serviceTypes,omitempty"`
	// owners tell the service type of workloads that name none, by the kind of
	// their owner. It matters only in queues without a service type; the queue of
	// a CardQuota always has one. At most 32.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=32
	Owners []OwnerKind `json:"owners,omitempty"`
	// priorityClasses are the PriorityClasses that come with the policy, made
	// once and left to whoever has one of the name already. Unset means
	// pc-high 80000, pc-medium 60000, pc-normal 40000 and pc-low 20000;
	// priorityClassPolicy None means none. Between queues only these classes count,
	// each with its value here: when cards are taken back, any other class, and none,
	// counts as the lowest of them. 1 to 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	PriorityClasses []PriorityClass `json:"priorityClasses,omitempty"`
	// priorityClassPolicy says whether PriorityClasses come with the policy. Managed
	// (default): those of priorityClasses. None: none, and those that were made
	// before go; then all work of a queue counts alike when cards are taken back.
	// +optional
	// +kubebuilder:default=Managed
	PriorityClassPolicy PriorityClassPolicy `json:"priorityClassPolicy,omitempty"`
	// reclaim says how cards are taken back. Gangs (default): whole gangs at the
	// least loss, by the scheduler's action cardreclaim, which only Cardquota's
	// scheduler knows. Pods: pod by pod, by Volcano's own action reclaim. Off:
	// nothing is taken back.
	// +optional
	// +kubebuilder:default=Gangs
	Reclaim ReclaimMode `json:"reclaim,omitempty"`
	// preempt says whether pods take the place of others of their own queue. Off
	// (default): they do not, unless the action preempt already stands in the
	// configuration. InQueue: a job takes the place of jobs of its queue
	// whose PriorityClass is lower, and a pod the place of pods of its own job whose
	// priority is lower (volcano.sh/task-priority), by Volcano's action preempt.
	// +optional
	// +kubebuilder:default=Off
	Preempt PreemptMode `json:"preempt,omitempty"`
	// victimOrder says which jobs of other queues give cards back. Priority
	// (default): the lowest priorities that suffice, of the queue, then of the job,
	// then of the pod; within one priority those that lose least. Loss: those that
	// lose least, whatever their priority. Either way pods that a
	// PodDisruptionBudget does not allow to evict go last, by Priority within
	// their priority.
	// +optional
	// +kubebuilder:default=Priority
	VictimOrder VictimOrder `json:"victimOrder,omitempty"`
	// computeQuota says whether pods that ask for cards count against the CPU and
	// memory limits of their queue. IgnoreForCardPods (default): they do not; who has
	// the cards may use the CPUs beside them. Enforce: they do.
	// +optional
	// +kubebuilder:default=IgnoreForCardPods
	ComputeQuota ComputeQuota `json:"computeQuota,omitempty"`
	// unmanagedQueues says what a queue without a card quota may use. Enforce
	// (default): no cards; CPU and memory as in Volcano. Ignore: as many cards as
	// there are, for clusters that are being moved to quotas. Deny: no cards, and of
	// CPU and memory only what the Queue's spec.capability states, where unset is 0.
	// Deny holds for the queue default too, also for pods of kube-system that our
	// scheduler places. A CardQuota's queue is never unmanaged.
	// +optional
	// +kubebuilder:default=Enforce
	UnmanagedQueues UnmanagedQueues `json:"unmanagedQueues,omitempty"`
	// overCommitPercent is how much of the quotas jobs may be admitted to wait for,
	// 100 (default) to 10000: at 150, jobs may wait for half as many cards again as
	// the quota, which will soon be free. What a queue holds is never more than its
	// quota.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	OverCommitPercent int32 `json:"overCommitPercent,omitempty"`
	// nodeOrderWeightPercent multiplies the score that keeps gangs together and fills
	// nodes that are in use, beside the scores of Volcano's plugins: at 100 (default) it
	// counts as much as one of them with a weight of 25. The order of a pod's cards does
	// not depend on it. 1 to 100000.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	NodeOrderWeightPercent int32 `json:"nodeOrderWeightPercent,omitempty"`
	// scheduler says where the scheduler's configuration is, and under which
	// names pods are its own, which decides who is refused.
	// +optional
	// +kubebuilder:default={}
	Scheduler Scheduler `json:"scheduler,omitzero"`
	// admission says what is refused, and what is filled in, when workloads are
	// submitted.
	// +optional
	// +kubebuilder:default={}
	Admission Admission `json:"admission,omitzero"`
}

// ServiceType is one kind of work.
//
// +kubebuilder:validation:XValidation:rule="!has(self.reclaimFrom) || !(self.name in self.reclaimFrom)",fieldPath=".reclaimFrom",message="a service type cannot take cards back from itself: two jobs of it would evict each other for ever"
type ServiceType struct {
	// name is what CardQuotas write in spec.serviceType, and workloads in the
	// annotation volcano.sh/service.type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// priority is the priority of its queues, 0 to 1000000: of two queues the
	// higher one is served first. Cards are taken back only from queues of a
	// lower one.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority"`
	// reclaimPolicy says whether cards may be taken back from its queues. Never
	// (default): they may not. WhenNeeded: types that name this one in reclaimFrom
	// take them when they need them.
	// +optional
	// +kubebuilder:default=Never
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// reclaimFrom names the service types from which it takes cards back. They
	// must be defined, of reclaimPolicy WhenNeeded, and of lower priority. Circles, through
	// whomever, are refused: jobs would evict each other for ever. At most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	ReclaimFrom []string `json:"reclaimFrom,omitempty"`
	// minimumRuntimeSeconds is how long a job of this type may run before cards are
	// taken back from it, in seconds: 1 to 604800 (a week). It is measured from the
	// start of its oldest running pod. Unset means no such time.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MinimumRuntimeSeconds int32 `json:"minimumRuntimeSeconds,omitempty"`
}

// OwnerKind gives workloads of one kind a service type.
type OwnerKind struct {
	// kind is the kind of a pod's owner, for example Job, or with its API group
	// Job.batch.volcano.sh, which goes before the kind alone. Deployment means the
	// ReplicaSets of Deployments.
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

// PriorityClass is a PriorityClass that comes with the policy.
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

// Scheduler says where the scheduler is configured, and which pods are its own.
type Scheduler struct {
	// baseConfigMap holds Volcano's configuration, over which this policy is laid. It
	// is only read, and followed when it changes; what our scheduler reads is rendered
	// into ConfigMap cardquota-scheduler-configmap in the scheduler's namespace.
	// +optional
	// +kubebuilder:default={}
	BaseConfigMap ConfigMapKeyReference `json:"baseConfigMap,omitzero"`
	// names are the schedulerNames of pods that our scheduler places: 1 to 8, by
	// default volcano. They must be those of its flag --scheduler-name. A pod that
	// asks for a card under another one is refused (admission.schedulerBypassPolicy), and one that
	// holds a card has passed the quota by.
	// +optional
	// +listType=set
	// +kubebuilder:default={volcano}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// Admission says what happens to workloads as they are submitted.
type Admission struct {
	// schedulerBypassPolicy says what happens to a pod that asks for a card and would
	// not pass the scheduler: its schedulerName is none of scheduler.names, or it
	// brings a spec.nodeName along. Deny (default): it is refused. Warn: whoever
	// creates it is warned, and condition Enforced of the CardQuotas becomes False
	// when it runs. Allow: nothing is said when it is created. The API server itself
	// decides that, by the ValidatingAdmissionPolicy cardquota-bypass.cardquota.dev
	// that the operator makes, and goes on deciding while no operator runs. Mirror
	// pods, by which kubelets show their static pods, are let through. The same
	// switch is that of cardquota-charge.cardquota.dev, which keeps the cards that are
	// held charged to the queue in which they were handed out.
	// +optional
	// +kubebuilder:default=Deny
	SchedulerBypassPolicy SchedulerBypassPolicy `json:"schedulerBypassPolicy,omitempty"`
	// exemptServiceAccounts may bypass the scheduler, for example the device
	// plugin's own validation pods. A pod is exempt when it is created by one of
	// them, or when it runs as one of them in that one's own namespace: whoever
	// may create pods in the namespace of an exempt account is exempt with it. A
	// card that such a pod holds is still told of in condition Enforced. At most
	// 32.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ExemptServiceAccounts []ServiceAccountReference `json:"exemptServiceAccounts,omitempty"`
	// maxTerminationGracePeriodSeconds is how long a pod that asks for a card may
	// take to end, in seconds: 30 to 86400 (a day), by default 3600. A pod that is
	// being deleted holds its cards until it has ended, and is counted no more but
	// against its queue's own quota, up to it. So a pod with a longer
	// terminationGracePeriodSeconds is refused, and so are its deletion with a grace
	// period longer than this and than its own, and the eviction of any pod with one
	// longer than this. What schedulerBypassPolicy says about refusing, and who is
	// exempt, holds here too.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	MaxTerminationGracePeriodSeconds int64 `json:"maxTerminationGracePeriodSeconds,omitempty"`
	// vcjobEvictionPolicy completes Volcano jobs as they are created. Unchanged
	// (default): they are left as they are. RestartOnEviction: a job that asks for
	// cards, in a queue of a service type whose reclaimPolicy is WhenNeeded, gets what
	// lets it survive that its cards are taken back: spec.maxRetry 100, and the policy
	// PodEvicted to RestartJob where no policy of the job or of its tasks says what
	// becomes of it. A job that runs with fewer pods than it has (minAvailable) gets
	// no policy, and a job that is to end when it is evicted is left as it is. A
	// maxRetry of 3 counts as unset: Volcano writes it into every job that says
	// nothing.
	// +optional
	// +kubebuilder:default=Unchanged
	VCJobEvictionPolicy VCJobEvictionPolicy `json:"vcjobEvictionPolicy,omitempty"`
}

// ServiceAccountReference names a ServiceAccount.
type ServiceAccountReference struct {
	// namespace of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// name of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// SchedulerBypassPolicy says what happens to a pod with cards that passes the
// scheduler by.
//
// +kubebuilder:validation:Enum=Deny;Warn;Allow
type SchedulerBypassPolicy string

// The values of SchedulerBypassPolicy.
const (
	SchedulerBypassDeny  SchedulerBypassPolicy = "Deny"
	SchedulerBypassWarn  SchedulerBypassPolicy = "Warn"
	SchedulerBypassAllow SchedulerBypassPolicy = "Allow"
)

// VCJobEvictionPolicy says how Volcano jobs are completed.
//
// +kubebuilder:validation:Enum=Unchanged;RestartOnEviction
type VCJobEvictionPolicy string

// The values of VCJobEvictionPolicy.
const (
	VCJobUnchanged         VCJobEvictionPolicy = "Unchanged"
	VCJobRestartOnEviction VCJobEvictionPolicy = "RestartOnEviction"
)

// ReclaimPolicy says whether cards may be taken back from a service type.
//
// +kubebuilder:validation:Enum=Never;WhenNeeded
type ReclaimPolicy string

// The values of ReclaimPolicy.
const (
	ReclaimNever      ReclaimPolicy = "Never"
	ReclaimWhenNeeded ReclaimPolicy = "WhenNeeded"
)

// PriorityClassPolicy says whether PriorityClasses come with the policy.
//
// +kubebuilder:validation:Enum=Managed;None
type PriorityClassPolicy string

// The values of PriorityClassPolicy.
const (
	PriorityClassesManaged PriorityClassPolicy = "Managed"
	PriorityClassesNone    PriorityClassPolicy = "None"
)

// ComputeQuota says whether pods with cards count against CPU and memory limits.
//
// +kubebuilder:validation:Enum=Enforce;IgnoreForCardPods
type ComputeQuota string

// The values of ComputeQuota.
const (
	ComputeQuotaEnforce           ComputeQuota = "Enforce"
	ComputeQuotaIgnoreForCardPods ComputeQuota = "IgnoreForCardPods"
)

// ConfigMapKeyReference names one key of one ConfigMap.
// +kubebuilder:validation:XValidation:rule="!has(self.name) || self.name != 'cardquota-scheduler-configmap'",message="that ConfigMap is rendered: name the one that it is rendered from"
type ConfigMapKeyReference struct {
	// namespace of the ConfigMap. Unset means that of Volcano's programs, as the
	// operator's flag --volcano-namespace says.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// name of the ConfigMap.
	// +optional
	// +kubebuilder:default=volcano-scheduler-configmap
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// key whose value is the configuration.
	// +optional
	// +kubebuilder:default=volcano-scheduler.conf
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ReclaimMode says how cards are taken back.
//
// +kubebuilder:validation:Enum=Gangs;Pods;Off
type ReclaimMode string

// The values of ReclaimMode.
const (
	ReclaimGangs ReclaimMode = "Gangs"
	ReclaimPods  ReclaimMode = "Pods"
	ReclaimOff   ReclaimMode = "Off"
)

// PreemptMode says whether pods take the place of others of their own queue.
//
// +kubebuilder:validation:Enum=Off;InQueue
type PreemptMode string

// The values of PreemptMode.
const (
	PreemptOff     PreemptMode = "Off"
	PreemptInQueue PreemptMode = "InQueue"
)

// VictimOrder says which jobs of other queues give cards back.
//
// +kubebuilder:validation:Enum=Priority;Loss
type VictimOrder string

// The values of VictimOrder.
const (
	VictimsByPriority VictimOrder = "Priority"
	VictimsByLoss     VictimOrder = "Loss"
)

// UnmanagedQueues says what a queue without a card quota may use.
//
// +kubebuilder:validation:Enum=Enforce;Ignore;Deny
type UnmanagedQueues string

// The values of UnmanagedQueues.
const (
	UnmanagedEnforce UnmanagedQueues = "Enforce"
	UnmanagedIgnore  UnmanagedQueues = "Ignore"
	UnmanagedDeny    UnmanagedQueues = "Deny"
)

// PolicyName is the name of the one ServiceTypePolicy.
const PolicyName = "default"
