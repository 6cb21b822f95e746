package waiting

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Pending is a pod that waits, or a job without pods, with what the scheduler states about it.
type Pending struct {
	// Entry has no reason yet. Its count is that of the pod.
	Entry   v1alpha1.BlockedStatus
	Stated  *StatedReason
	Request Request
}

// PendingPod is a pod without a node, with what else is known about it.
type PendingPod struct {
	Pod      *corev1.Pod
	Workload v1alpha1.WorkloadReference
	Request  *workload.Request
	// Group is its PodGroup, nil for none. LacksGroup reports that it names one that does not exist.
	Group      *v1beta1.PodGroup
	LacksGroup bool
	// Last remembers what its last condition means.
	Last *LastStated
}

// LastStated remembers what the scheduler stated last about a pod, which most counts find again. The zero value
// remembers nothing.
type LastStated struct{ last *readCondition }

// readCondition is a condition of the scheduler, with what it means.
type readCondition struct {
	reason, message string
	stated          StatedReason
}

// read returns what a condition of the scheduler means, and remembers it. resource is the card resource that the pod
// requests.
func (l *LastStated) read(reason, message string, resource corev1.ResourceName) *StatedReason {
	if l.last == nil || l.last.reason != reason || l.last.message != message {
		l.last = &readCondition{reason, message, ReadStatedReason(reason, message, resource)}
	}
	return &l.last.stated
}

// Pending returns the pod with why it waits, false if no scheduler has tried it yet.
func (p *PendingPod) Pending() (Pending, bool) {
	message, stated := p.statedReason()
	if stated == nil {
		return Pending{}, false
	}

	requested := p.Request.Named.String()
	if p.Request.Named.AllowsAny() { // the pod names no card: show the resource
		requested = string(p.Request.Resource)
	}

	// A gang that runs fewer pods than its minimum uses cards with which it cannot work, so the message
	// begins with that. The text is empty for any other gang.
	if p.Group != nil {
		message = belowMinimumText(p.Group.Status.Running, p.Group.Spec.MinMember) + message
	}

	return Pending{
		Entry:   v1alpha1.BlockedStatus{Workload: p.Workload, Since: p.Pod.CreationTimestamp, Card: requested, Count: int64(p.Request.Count), Message: message},
		Stated:  stated,
		Request: Request{Names: p.Request.Names, Named: p.Request.Named.Names(), Count: p.Request.Count},
	}, true
}

// statedReason returns why the pod is pending: its PodGroup does not exist, the refusal of its request,
// its own condition, or the condition of its PodGroup. It returns nil for a pod that no scheduler has
// tried yet.
func (p *PendingPod) statedReason() (message string, stated *StatedReason) {
	refusal := p.Request.Denied
	if p.LacksGroup {
		refusal = &workload.Refusal{
			Code: workload.CodePodGroupNotFound, Object: p.Pod.Namespace + "/" + workload.PodGroupName(p.Pod), Other: v1beta1.KubeGroupNameAnnotationKey,
		}
	}

	// A request that no scheduler can serve waits for the user, whatever its last condition says.
	if refusal != nil {
		return refusal.Message(), &StatedReason{Refusal: refusal}
	}

	for _, condition := range p.Pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message, p.Last.read(condition.Reason, condition.Message, p.Request.Resource)
		}
	}

	// Volcano tries no pod of a gang that is not enqueued, so only its PodGroup says why.
	if p.Group == nil {
		return "", nil
	}
	why, stated, isPending := readPodGroup(p.Group, p.Request.Resource, p.Last)
	if !isPending {
		return "", nil
	}
	return why.Message, stated
}

// podGroupLag is how long the PodGroup of a new pod may be unknown: pods and PodGroups come by watches of
// their own, and a list of one is older than that of the other.
const podGroupLag = 30 * time.Second

// MayAwaitPodGroup reports whether a pod is so new that its PodGroup may exist although it is not known yet.
// A count without a time, now, has read pods and PodGroups together, so what it lacks does not exist.
func MayAwaitPodGroup(pod *corev1.Pod, now time.Time) bool {
	return !now.IsZero() && now.Sub(pod.CreationTimestamp.Time) < podGroupLag
}

// NewPendingGroup returns what a PodGroup without pods requests, and why each of its cards waits, nothing if the
// scheduler does not say. A refused request has no cards to list, but its reason is still shown.
func NewPendingGroup(resolver *workload.Resolver, group *v1beta1.PodGroup) (request quota.JobRequest, pending []Pending) {
	why, stated, isBlocked := readPodGroup(group, "", &LastStated{})
	request, refusal := GroupRequest(resolver, group)
	if refusal != nil {
		why.Message = refusal.Message()
		stated = &StatedReason{Refusal: refusal}
		isBlocked = true
	}

	if !isBlocked {
		return request, nil
	}

	// The entries of all cards differ only in the card, its count and the request.
	waits := Pending{
		Entry:  v1alpha1.BlockedStatus{Workload: workload.ControllerReference(group, v1beta1.GroupName, "PodGroup"), Since: group.CreationTimestamp, Message: why.Message},
		Stated: stated,
	}
	if len(request.Cards) == 0 {
		return request, []Pending{waits}
	}

	for _, part := range request.Cards {
		waits.Request = Request{Names: part.Names, Count: part.Count, IsJob: true}
		waits.Entry.Card = card.NewRequest(part.Names...).String()
		waits.Entry.Count = int64(part.Count)
		// minResources has a resource and no card names, so its user knows the resource.
		if _, isWritten := workload.CardRequestAnnotation(group); !isWritten && group.Spec.MinResources != nil {
			waits.Entry.Card = cmp.Or(resourceForCards(resolver.Inventory, part.Names, *group.Spec.MinResources), waits.Entry.Card)
		}
		pending = append(pending, waits)
	}

	return request, pending
}

// resourceForCards returns the resource, among those that are requested, whose cards are the given names, "" for
// none.
func resourceForCards(inventory *card.Inventory, names []card.Name, requested corev1.ResourceList) string {
	for _, resource := range inventory.Resources() {
		if _, isRequested := requested[resource]; isRequested && slices.Equal(inventory.NamesFor(resource), names) {
			return string(resource)
		}
	}
	return ""
}
