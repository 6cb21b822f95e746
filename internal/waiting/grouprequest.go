package waiting

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// PodGroupPendingReason returns why a PodGroup is pending: its newest Unschedulable condition, false if it has none.
func PodGroupPendingReason(group *v1beta1.PodGroup) (v1beta1.PodGroupCondition, bool) {
	for _, condition := range slices.Backward(group.Status.Conditions) {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return condition, true
		}
	}
	return v1beta1.PodGroupCondition{}, false
}

// RefusalCondition returns the condition of a PodGroup that says to programs what why says to people, false for
// none. why is its PodGroupPendingReason. Schedulers before 0.2 write none, nor does Volcano for what it states itself.
func RefusalCondition(group *v1beta1.PodGroup, why *v1beta1.PodGroupCondition) (v1beta1.PodGroupCondition, bool) {
	for _, condition := range slices.Backward(group.Status.Conditions) {
		if condition.Type == workload.PodGroupCardsRefused && condition.TransitionID == why.TransitionID {
			return condition, true
		}
	}
	return v1beta1.PodGroupCondition{}, false
}

// readPodGroup returns why a PodGroup is pending, in words and for programs, false if the scheduler does not say.
// resource is the card resource that its pods request, and last what the words meant at the last count.
func readPodGroup(group *v1beta1.PodGroup, resource corev1.ResourceName, last *LastStated) (why v1beta1.PodGroupCondition, stated *StatedReason, isPending bool) {
	why, isPending = PodGroupPendingReason(group)
	condition, _ := RefusalCondition(group, &why)
	if refusal, isRefusal := workload.ReadRefusalData(condition.Message); isRefusal && isPending {
		return why, &StatedReason{Refusal: &refusal}, isPending
	}
	return why, last.read(why.Reason, why.Message, resource), isPending
}

// GroupRequest returns what a PodGroup without pods requests, or why its request is refused.
//
// card.request says all. minResources does not: it names no card, and that of a Volcano job counts no
// limits. The scheduler also reads the job and the quota of the queue, so what it states counts then.
func GroupRequest(resolver *workload.Resolver, group *v1beta1.PodGroup) (quota.JobRequest, *workload.Refusal) {
	total, isWritten := workload.CardRequestAnnotation(group)
	request, refusal := resolver.PodGroupRequest(total, isWritten, group.Spec.MinResources)
	if refusal != nil || isWritten {
		return request, refusal
	}
	_, statedReason, _ := readPodGroup(group, "", &LastStated{})
	if stated := statedReason.Refusal; stated != nil && stated.RequestedCards() > 0 && areValidNames(stated.CardNames()) {
		request.Cards = addStated(request.Cards, stated, workload.VCJobOwner(group) != "")
	}
	return request, nil
}

// areValidNames reports whether all are names that a card can have, and there is one. Tenants can write anything into
// the conditions of their PodGroups.
func areValidNames(names []card.Name) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(name card.Name) bool {
		_, err := card.ParseName(string(name))
		return err != nil
	})
}

// addStated returns the requests of a PodGroup with what a refusal states. It replaces the first request that has all
// cards of the refusal. If the refusal is about fewer cards, the rest stays a request of its own. If no request has its
// cards, it is added to those of a vcjob. A refusal of a queue that has quota for none of the cards (Limit is 0) names
// only one of them, so it gets all names of the request.
func addStated(requests []quota.CardRequest, stated *workload.Refusal, isVCJob bool) []quota.CardRequest {
	names := stated.CardNames()
	isMeant := func(request quota.CardRequest) bool {
		return !slices.ContainsFunc(names, func(name card.Name) bool { return !slices.Contains(request.Names, name) })
	}
	refused := quota.CardRequest{Names: names, Count: card.Count(stated.Requested)}

	// minResources of a vcjob counts no limits, so it can lack a card that the scheduler refused.
	at := slices.IndexFunc(requests, isMeant)
	if at < 0 {
		if isVCJob {
			return append(slices.Clone(requests), refused)
		}
		return requests
	}

	if stated.Limit == 0 {
		refused.Names = requests[at].Names
	}

	// A refusal can be about fewer cards than the request. The rest stays, so that the sum is right.
	requests = slices.Clone(requests)
	if requests[at].Count <= refused.Count {
		requests[at] = refused
		return requests
	}

	requests[at].Count -= refused.Count
	return slices.Insert(requests, at, refused)
}
