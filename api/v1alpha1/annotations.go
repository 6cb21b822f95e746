package v1alpha1

// Annotations that users write. They have the prefix volcano.sh/ because Volcano's controllers copy
// annotations of that prefix from a workload to its PodGroup. docs/tenant-guide.md has a table of them.
const (
	// AnnotationCardQuota on a Queue is its quota, card name to whole number: {"NVIDIA-H200":8}.
	// The operator writes it from a CardQuota; the scheduler also reads one that a user wrote.
	AnnotationCardQuota = "volcano.sh/card.quota"
	// AnnotationCardDeserved on a Queue of a tree is how many cards it takes back from borrowers, in the
	// form of AnnotationCardQuota. The operator writes it; a user may write it on other Queues.
	AnnotationCardDeserved = "volcano.sh/card.deserved"
	// AnnotationCardGuarantee on a Queue of a tree is how many cards stay free for it, like AnnotationCardDeserved.
	AnnotationCardGuarantee = "volcano.sh/card.guarantee"
	// AnnotationUnlimitedResources on a Queue with AnnotationCardQuota lists what of CPU and memory it does not limit:
	// "cpu,memory". It counts where spec.capability has no limit, which is 0 otherwise. In a tree the limit of the parent
	// counts. The operator writes it; a user may write it on other Queues.
	AnnotationUnlimitedResources = "volcano.sh/unlimited.resources"
	// AnnotationStopPolicy on a Queue is Hold or HoldAndDrain, as spec.stopPolicy of a CardQuota. Absent is None.
	AnnotationStopPolicy = "volcano.sh/stop-policy"
	// AnnotationCardRequest on a vcjob or PodGroup is the number of cards that the whole job requests
	// before its pods exist, card request to whole number: {"NVIDIA-H200":8}.
	AnnotationCardRequest = "volcano.sh/card.request"
	// AnnotationCardName on a pod (template) names its card, or alternatives in order of preference:
	// "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D". The pod's resource request is the count.
	AnnotationCardName = "volcano.sh/card.name"
	// AnnotationServiceType on a Queue, pod or PodGroup is the service type. The queue's takes precedence.
	AnnotationServiceType = "volcano.sh/service.type"
	// AnnotationNamespaceSelector on a Queue selects the namespaces whose pods may use it: a
	// metav1.LabelSelector as JSON. Unset and {} select every namespace, an invalid one selects none.
	AnnotationNamespaceSelector = "volcano.sh/namespace-selector"
	// AnnotationCheckpointTime on a PodGroup or pod is when the job last saved its work, in RFC 3339.
	// The latest of a job counts: work before it is not lost when the job is evicted.
	AnnotationCheckpointTime = "volcano.sh/checkpoint-time"
)

// Annotations that the operator or the scheduler writes.
const (
	// AnnotationCardAllocated on a Queue is what its pods use, in the form of AnnotationCardQuota.
	AnnotationCardAllocated = "volcano.sh/card.allocated"
	// AnnotationCreatedBy on a Queue or PriorityClass names the object for which the operator created it.
	// It counts only while the operator manages the field; without it the operator deletes nothing.
	AnnotationCreatedBy = "cardquota.dev/created-by"
	// AnnotationBefore on a Queue that existed before its CardQuota is what the operator replaced there, as
	// JSON: spec and annotations. On the way back to mode Observe the operator restores it.
	AnnotationBefore = "cardquota.dev/before"
	// AnnotationParentOnly on a Queue is "true" if its CardQuota has no service type: it takes no jobs.
	AnnotationParentOnly = "cardquota.dev/parent-only"
	// AnnotationHoldMessage on a Queue says why the operator holds it, although no stopPolicy does: its
	// CardQuota has no path to the top level of the tree.
	AnnotationHoldMessage = "cardquota.dev/hold-message"
	// AnnotationRenderedFrom on the scheduler's ConfigMap names what its text was rendered from.
	AnnotationRenderedFrom = "cardquota.dev/rendered-from"
	// AnnotationDescription on an object that the operator created describes it.
	AnnotationDescription = "cardquota.dev/description"
	// AnnotationChargedQueue on a placed pod is the queue that it is charged to, also when its PodGroup
	// is moved or deleted. The scheduler writes it in the request that binds the pod and then uses its
	// own record; a new scheduler and the status use this. docs/admission.md: who may change it.
	AnnotationChargedQueue = "cardquota.dev/charged-queue"
	// AnnotationCardResources on the ValidatingAdmissionPolicy lists the resources that labels of
	// nodes made cards, separated by commas. The list only grows: a resource stays a card while the last node that offers it is away.
	AnnotationCardResources = "cardquota.dev/card-resources"
)
