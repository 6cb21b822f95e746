package explanation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// describeReason returns what a reason means here, "" for one of a newer operator.
func (in *Input) describeReason(reason v1alpha1.BlockedReason) string {
	switch {
	case isQuotaReason(reason) && in.deletedQuota() != nil:
		return "CardQuota " + in.deletedQuota().Name + " is being deleted, and its queue gives no more cards"
	case reason == v1alpha1.BlockedNodesUnsuitable && in.Request.Count == 0:
		return "every node refuses the pod"
	case reason == v1alpha1.BlockedGangIncomplete:
		return in.describeIncompleteGang()
	case reason == v1alpha1.BlockedUnknownCard:
		return in.describeUnknownCard()
	case reason == v1alpha1.BlockedQuotaExhausted, reason == v1alpha1.BlockedAncestorQuotaExhausted:
		return in.describeExhaustion(reason)
	}

	return reasonTexts[reason]
}

// describeIncompleteGang says whether pods of the gang do not exist yet, or exist and do not fit. Where its
// PodGroup may not be read, it may be either.
func (in *Input) describeIncompleteGang() string {
	switch {
	case in.Gang.lacksPods():
		return in.Gang.describe()
	case in.Gang.Pods > 0:
		return "its pods fit, but others of its gang do not"
	default:
		return reasonTexts[v1alpha1.BlockedGangIncomplete]
	}
}

// describeUnknownCard says whether nodes have the card all the same: no new pod gets it, or it has no name yet.
func (in *Input) describeUnknownCard() string {
	switch {
	case in.areAllWithheld():
		return "nodes offer more of this card than their labels say, so no new pod gets one"
	case len(in.unnamedCards()) > 0:
		return "no node has this card, or it is not named yet"
	default:
		return reasonTexts[v1alpha1.BlockedUnknownCard]
	}
}

// describeExhaustion says in which way a quota is exhausted: it is smaller than the request, in use, or
// reserved.
func (in *Input) describeExhaustion(reason v1alpha1.BlockedReason) string {
	owner := "the queue"
	if reason == v1alpha1.BlockedAncestorQuotaExhausted {
		owner = "a queue above it"
	}

	requested, found := in.exhaustedAmounts()
	switch {
	case !found.isKnown:
		return reasonTexts[reason]
	case requested > found.largest:
		return "it requests more than the whole quota of " + owner
	case found.used >= found.quota:
		return "the quota of " + owner + " is in use"
	case found.used == 0 && found.reserved > 0:
		return "the quota of " + owner + " is reserved for jobs that the scheduler has enqueued"
	default:
		return "too little of the quota of " + owner + " is left"
	}
}

// exhaustedAmounts are the quota of the cards of a request, and how much of it is used and reserved, in cards.
type exhaustedAmounts struct {
	quota, used, reserved int64
	// largest is the most that a request can have if nothing of the quota is used.
	largest int64
	// isKnown reports whether the user may read the quota, or the scheduler states it.
	isKnown bool
}

// exhaustedAmounts returns how many cards are requested at once, and the amounts of the CardQuota whose exhausted quota
// is the reason. A pod gets all its cards of one name, so only the alternative counts of which most is left. Its largest
// is that of all alternatives: the pod may wait for any of them. A job that waits to be enqueued may use several
// alternatives, so their amounts are summed up.
func (in *Input) exhaustedAmounts() (requested int64, found exhaustedAmounts) {
	requested = in.Request.quotaCount()
	stated := in.statedShortage() // the scheduler may ask for more at once, such as for a whole gang
	if stated != nil && stated.Requested > 0 {
		requested = stated.Requested
	}

	at := slices.IndexFunc(in.Path, in.isRefusing)
	if at < 0 || in.Path[at].Status.Summary == "" || len(in.Request.Names) == 0 { // not readable, or not counted yet
		return requested, statedAmounts(stated)
	}

	for _, name := range in.quotaCards(stated) {
		status := cardStatus(in.Path[at], name)
		lacking := in.shortageOf(in.Path[at], name)
		next := exhaustedAmounts{quota: status.Quota, used: status.Used, reserved: lacking.reserved, largest: status.Quota, isKnown: true}
		largest := max(found.largest, next.largest)
		switch {
		case in.Request.awaitsEnqueue() && found.isKnown: // all cards together; what is reserved is one number for all
			found.quota += next.quota
			found.used += next.used
			found.reserved = max(found.reserved, next.reserved)
			largest = found.quota
		case !found.isKnown || next.quota-next.used > found.quota-found.used: // more of this card is left
			found = next
		}
		found.largest = largest
	}

	return requested, found
}

// statedAmounts returns the quota that the scheduler states. It states used and reserved cards only as one sum, so
// both stay 0.
func statedAmounts(stated *workload.Refusal) exhaustedAmounts {
	if stated == nil || stated.Limit == 0 {
		return exhaustedAmounts{}
	}
	return exhaustedAmounts{quota: stated.Limit, largest: stated.Limit, isKnown: true}
}

// quotaCards returns the cards that a refusal is about, those of the request if it names none.
func (in *Input) quotaCards(stated *workload.Refusal) []card.Name {
	if stated != nil && stated.Cards != "" {
		return stated.CardNames()
	}
	return in.Request.Names
}

// isRefusing reports whether a CardQuota of the path, that of the queue and then those above it, is the one whose
// exhausted quota is the reason. The scheduler names its queue. Otherwise it is the first of the path, unless the reason is
// about one above it.
func (in *Input) isRefusing(quota *v1alpha1.CardQuota) bool {
	if len(in.Entries) == 0 || !isQuotaReason(in.Entries[0].Reason) {
		return false
	}
	stated := in.statedShortage()
	isStated := func(q *v1alpha1.CardQuota) bool { return stated != nil && stated.Queue == q.QueueName() }
	if slices.ContainsFunc(in.Path, isStated) {
		return isStated(quota)
	}
	return in.Entries[0].Reason != v1alpha1.BlockedAncestorQuotaExhausted && quota == in.Path[0]
}

// explainRefusal returns what a quota answers that has enough left by its status, although the scheduler refuses
// the request because of it: the scheduler may not have seen the newest quota, or requests more at once than a pod.
func (g gateCheck) explainRefusal(quota *v1alpha1.CardQuota) (Answer, string) {
	stated := g.statedShortage()
	if stated == nil || stated.Requested == 0 || stated.Queue != quota.QueueName() {
		return Unknown, "; the scheduler has refused it"
	}

	limit := int64(0) // by the status, which may be newer than what the scheduler states
	for _, name := range stated.CardNames() {
		limit += cardStatus(quota, name).Quota
	}

	if stated.Limit < limit {
		return Unknown, "; raised since the scheduler has tried it"
	}

	return No, fmt.Sprintf("; the scheduler refuses %d at once", stated.Requested)
}

// deletedQuota returns the first CardQuota of the path that is being deleted, nil for none.
func (in *Input) deletedQuota() *v1alpha1.CardQuota {
	for _, quota := range in.Path {
		if quota.DeletionTimestamp != nil {
			return quota
		}
	}
	return nil
}

// adviseDeletedQuota says what helps in a queue whose CardQuota is being deleted.
func (a adviser) adviseDeletedQuota(quota *v1alpha1.CardQuota) []string {
	if quota.Namespace != "" { // a tenant cannot apply it again
		return []string{fmt.Sprintf("CardQuota %s gets no more cards: name another queue, or ask the administrator whether there will be a new one.", quota.Name)}
	}
	return []string{
		fmt.Sprintf("A change of CardQuota %s has no effect any more. It is gone when all pods and PodGroups of queue %s have ended, this workload included.", quota.Name, quota.QueueName()),
		"End or delete them, scale Deployments to 0, then apply the CardQuota and the workloads again. Or name another queue.",
	}
}

// maxSilence is how long the scheduler may take for its first answer.
const maxSilence = time.Minute

// adviseSilence says what helps while the scheduler has not said why the workload waits.
func (a adviser) adviseSilence() string {
	if waited := a.Now.Sub(a.Created); !a.Created.IsZero() && waited > maxSilence {
		return fmt.Sprintf("The scheduler is silent since the pod was created %s ago: kubectl cardquota doctor says whether it runs.", duration.HumanDuration(waited))
	}
	return "Ask again in a few seconds. If this stays, kubectl cardquota doctor says whether the scheduler runs."
}
