package why

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// requestChoice sets what of a workload the explanation is about. Its found.pods are those that the user asks for, and
// input.Entries those of status.blocked, the explained one first.
type requestChoice struct{ *inputReader }

// countPods counts the pods that wait, that have scheduling gates, and that have a node.
func (c requestChoice) countPods() {
	for _, pod := range c.found.pods {
		switch {
		case workload.IsPending(pod):
			c.input.Pending++
			if created := pod.CreationTimestamp.Time; c.input.Created.IsZero() || created.Before(c.input.Created) {
				c.input.Created = created
			}
		case pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) > 0:
			c.input.Gated++
		case workload.IsAssigned(pod):
			c.input.Placed++
		}
	}

	if len(c.found.pods) == 0 && isJobWaiting(c.found.group) {
		c.input.Pending = 1
	}
}

// cardOf returns the cards of a pod as status.blocked has them: those that it names, else its resource.
func (c requestChoice) cardOf(pod *corev1.Pod) string {
	request := c.resolver.Request(pod)
	if request.Named.AllowsAny() {
		return string(request.Resource)
	}
	return request.Named.String()
}

// pendingCards returns the cards of the pods that wait, "" for a pod without cards.
func (c requestChoice) pendingCards() []string {
	var cards []string
	for _, pod := range c.found.pods {
		if workload.IsPending(pod) {
			cards = append(cards, c.cardOf(pod))
		}
	}
	return cards
}

// shownCard returns the cards that the explanation is about: those of its entry, else those of the
// first pod that requests any.
func (c requestChoice) shownCard() string {
	if len(c.input.Entries) > 0 {
		return c.input.Entries[0].Card
	}
	return cmp.Or(c.pendingCards()...)
}

// findRequester returns the waiting pod that the explanation is about: one with the shown cards, of these the one that
// fits the entry best. If none has them, it is the first waiting pod. It is nil for a job without pods.
func (c requestChoice) findRequester() (chosen *corev1.Pod) {
	cards := c.shownCard()
	best := -1
	for _, pod := range c.found.pods {
		if rank := c.rankOf(pod, cards); workload.IsPending(pod) && rank > best {
			chosen = pod
			best = rank
		}
	}
	return chosen
}

// setRequest sets what the requester requests. A job without pods has no requester: there its PodGroup says it.
func (c requestChoice) setRequest() {
	switch {
	case c.requester != nil:
		c.setPodRequest(c.requester)
	case c.input.Pending > 0:
		c.setJobRequest(c.shownCard())
	}
}

// rankOf returns how well a pod fits the first entry, more for better: its cards count 4, that it requests as
// many as the scheduler refuses 2, and that the message of the entry is its own 1. So each counts more than
// all after it.
func (c requestChoice) rankOf(pod *corev1.Pod, cards string) (rank int) {
	if c.cardOf(pod) != cards {
		return 0
	}

	rank = 4
	if len(c.input.Entries) == 0 {
		return rank
	}

	message := c.input.Entries[0].Message
	if refused := statedRequest(message); refused > 0 && refused == int64(c.resolver.Request(pod).Count) {
		rank += 2
	}

	// The entry may have words before the message of the pod.
	for _, condition := range pod.Status.Conditions {
		if isOwn := condition.Type == corev1.PodScheduled && condition.Message != ""; isOwn && strings.HasSuffix(message, condition.Message) {
			rank++
		}
	}

	return rank
}

// statedRequest returns how many cards the scheduler refuses at once, 0 if it does not say so.
func statedRequest(message string) int64 {
	statedReason := waiting.ReadStatedReason("", message, "")
	if refusal := statedReason.FirstRefusal(); refusal != nil {
		return refusal.RequestedCards()
	}
	return 0
}

// setJobRequest sets what a job without pods requests by its PodGroup: these cards, else the first ones.
func (c requestChoice) setJobRequest(cards string) {
	_, isWritten := workload.CardRequestAnnotation(c.found.group)
	request, _ := waiting.GroupRequest(&c.resolver, c.found.group)
	c.input.Request = explanation.Request{PriorityClass: c.found.group.Spec.PriorityClassName, MilliCPU: request.MilliCPU, Memory: request.Memory, IsJob: true, IsAnyCard: !isWritten}
	for i, part := range request.Cards {
		if i == 0 || card.NewRequest(part.Names...).String() == cards {
			c.input.Request.Names = part.Names
			c.input.Request.Count = part.Count
		}
	}
}

// setPodRequest sets what a pod requests, with which gang, and from which scheduler if that is none of ours.
func (c requestChoice) setPodRequest(pod *corev1.Pod) {
	request := c.resolver.Request(pod)
	c.input.Request = explanation.Request{
		Names: request.Names, Resource: string(request.Resource), Count: request.Count, Priority: ptr.Deref(pod.Spec.Priority, 0), PriorityClass: pod.Spec.PriorityClassName,
		MilliCPU: request.MilliCPU, Memory: request.Memory, IsAnyCard: request.Named.AllowsAny(),
	}

	c.input.Request.TakesNone = ptr.Deref(pod.Spec.PreemptionPolicy, "") == corev1.PreemptNever
	c.input.PodGroup = workload.PodGroupName(pod)
	c.addGangRequest(c.found.groups[workload.PodGroupName(pod)], request.Resource)
	if !c.resolver.UsesOurScheduler(pod) {
		c.input.OtherScheduler = pod.Spec.SchedulerName
	}
}

// setNodeRefusals asks the scheduler which nodes refuse the requester, if one has enough free cards. That stays unknown
// in a program without the scheduler, as on Windows, without the right to list all nodes and pods, and of a job without
// pods.
func (c requestChoice) setNodeRefusals(ctx context.Context) {
	if c.nodeRefusals == nil || c.requester == nil || !c.input.HasFreeNode() {
		return
	}

	cluster := &simulation.Cluster{Nodes: c.loaded.Nodes, Pods: c.loaded.Pods, Schedulers: c.input.Schedulers()}
	reader.ListInto(ctx, c.Reader, &corev1.NamespaceList{}, &cluster.Namespaces)
	refusals, err := c.nodeRefusals(cluster, c.requester, c.input.Now)
	if err != nil {
		c.Gaps = append(c.Gaps, "it is not known which nodes refuse the pod: "+err.Error())
	}

	c.input.NodeRefusals = refusals
}

// addGangRequest sets what the quota must have for the pod to start. Until the scheduler enqueues its
// PodGroup, that is the request of the whole PodGroup. The nodes must have only what its minimum requests, which
// minResources states. resource is the card resource of the pod.
func (c requestChoice) addGangRequest(group *v1beta1.PodGroup, resource corev1.ResourceName) {
	if group == nil || (group.Status.Phase != v1beta1.PodGroupPending && group.Status.Phase != "") {
		return
	}

	total, written := workload.CardRequestAnnotation(group)
	request, _ := c.resolver.PodGroupRequest(total, written, group.Spec.MinResources)
	own := &c.input.Request
	own.MilliCPU = max(own.MilliCPU, request.MilliCPU)
	own.Memory = max(own.Memory, request.Memory)

	for _, part := range request.Cards {
		if slices.Equal(part.Names, own.Names) {
			own.GangCount = part.Count
			own.MinimumCount = part.Count
			if group.Spec.MinResources != nil {
				own.MinimumCount = min(part.Count, card.NewCount((*group.Spec.MinResources)[resource]))
			}
		}
	}
}
