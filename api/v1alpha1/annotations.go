package v1alpha1

// Annotations that users write on Queues, workloads and pods. They keep the
// prefix volcano.sh/ because Volcano's controllers copy annotations of that
// prefix from a workload to its PodGroup.
const (
	// AnnotationCardQuota on a Queue is its quota: a JSON object, card name to
	// whole number, {"NVIDIA-H200":8}. The operator writes it from a CardQuota;
	// the scheduler honours it when it was written by hand as well.
	AnnotationCardQuota = "volcano.sh/card.quota"
	// AnnotationCardRequest on a vcjob or PodGroup tells how many cards the
	// whole job asks for, for the time before its pods exist: a JSON object,
	// card request to whole number.
	AnnotationCardRequest = "volcano.sh/card.request"
	// AnnotationCardName on a pod (template) names the card it runs on, or
	// alternatives in the order of preference: "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D".
	// The count is the pod's own request of the resource.
	AnnotationCardName = "volcano.sh/card.name"
	// AnnotationServiceType on a Queue, pod or PodGroup is the service type,
	// for example inference or training. The queue's decides when it has one.
	AnnotationServiceType = "volcano.sh/service.type"
	// AnnotationNamespaceSelector on a Queue selects, by their labels, the
	// namespaces whose pods may use the queue: a metav1.LabelSelector as JSON,
	// {"matchLabels":{"team":"chat"}}; {} is every namespace, and so is a Queue
	// without the annotation. One that cannot be read selects no namespace. The
	// operator writes it from a CardQuota; the scheduler honours it when it was
	// written by hand as well.
	AnnotationNamespaceSelector = "volcano.sh/namespace-selector"
	// AnnotationCardAllocated on a Queue is written by the operator: what the
	// queue's pods hold now, in the form of card.quota.
	AnnotationCardAllocated = "volcano.sh/card.allocated"
	// AnnotationCreatedBy on a Queue is the name of the CardQuota for which the
	// operator made the Queue. It is written in the request that makes a Queue
	// and in no other, counts only while the operator is the manager of the
	// field, and decides whether deletionPolicy Delete may delete the Queue:
	// taking it off, or writing it by hand, keeps the Queue. It has the
	// operator's own prefix, since no workload carries it. On a PriorityClass it
	// names, under the same rules, the ServiceTypePolicy.
	AnnotationCreatedBy = "cardquota.dev/created-by"
	// AnnotationRenderedFrom on the scheduler's ConfigMap says, for people and the
	// operator, what its text was rendered from.
	AnnotationRenderedFrom = "cardquota.dev/rendered-from"
	// AnnotationDescription on an object that the operator made says, for people,
	// what the object is.
	AnnotationDescription = "cardquota.dev/description"
	// AnnotationCheckpointTime on a PodGroup or pod is when the job last saved its
	// work, in the form of RFC 3339, "2026-03-01T12:00:00Z". The latest of a job
	// counts; what was computed before it is not lost when its cards are taken
	// back.
	AnnotationCheckpointTime = "volcano.sh/checkpoint-time"
	// AnnotationChargedQueue on a placed pod is the queue that its cards, CPU and
	// memory are charged to as long as it runs, whatever becomes of its PodGroup.
	// The scheduler writes it in the request that binds the pod to its node; what
	// stood there before is overwritten, and on a pod without a node it means
	// nothing. On a placed pod only who may update Queues may change it; the
	// scheduler that bound the pod goes by what it remembers, one that is started
	// later, and the status, by this.
	AnnotationChargedQueue = "cardquota.dev/charged-queue"
)
