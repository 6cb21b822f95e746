package explanation

import (
	"cmp"
	"fmt"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// isQuotaReason reports whether a reason says that the quota of cards is exhausted.
func isQuotaReason(reason v1alpha1.BlockedReason) bool {
	return reason == v1alpha1.BlockedQuotaExhausted || reason == v1alpha1.BlockedNoQuota || reason == v1alpha1.BlockedAncestorQuotaExhausted
}

// statedShortage returns the refusal because of a quota of cards that the scheduler states: of the workload, else
// of its pod on the first such node. It is nil for none. Only the scheduler knows what enqueued jobs reserve.
func (in *Input) statedShortage() *workload.Refusal {
	if len(in.Entries) == 0 || !isQuotaReason(in.Entries[0].Reason) {
		return nil
	}
	statedReason := waiting.ReadStatedReason("", in.Entries[0].Message, "") // the message alone says it
	if statedReason.Refusal != nil && isQuotaReason(statedReason.Refusal.Blocked()) {
		return statedReason.Refusal
	}

	for i := range statedReason.NodeRefusals {
		if isQuotaReason(statedReason.NodeRefusals[i].Blocked()) {
			return &statedReason.NodeRefusals[i]
		}
	}

	return nil
}

// shortage is what a quota has too little of for the request.
type shortage struct {
	// left is how many cards more the quota allows, less than 0 if more are in use.
	left int64
	// reserved is how many cards are reserved for enqueued jobs, beside those in use.
	reserved int64
	// isStated reports whether these are numbers with which the scheduler refuses a request because of this
	// quota.
	isStated bool
}

// shortageOf returns how much of a card a CardQuota has left: by its status, or by the numbers with which the
// scheduler refuses a request. The smaller number counts: the status may be newer.
func (in *Input) shortageOf(quota *v1alpha1.CardQuota, name card.Name) shortage {
	status := cardStatus(quota, name)
	found := shortage{left: status.Quota - status.Used}
	stated := in.statedShortage()
	// Without Total the refusal states no numbers.
	if stated == nil || stated.Queue != quota.QueueName() || stated.Total == 0 || !slices.Contains(stated.CardNames(), name) {
		return found
	}

	// The refusal has one sum for all its cards together, so compare it with the sums of the status.
	limit := int64(0)
	used := int64(0)
	for _, refused := range stated.CardNames() {
		limit += cardStatus(quota, refused).Quota
		used += cardStatus(quota, refused).Used
	}

	if stated.Limit < limit { // the quota was raised since
		return found
	}

	// Total includes the request, so taken is what others use and have reserved. What of it is not in use, up
	// to the limit, is reserved.
	taken := stated.Total - stated.Requested
	return shortage{left: min(found.left, stated.Limit-taken), reserved: max(0, min(taken, stated.Limit)-used), isStated: true}
}

// describe returns the usage of a card with what is reserved, which the operator does not count.
func (s shortage) describe(status v1alpha1.CardStatus) string {
	if status.Quota == 0 {
		return "no quota of " + status.Name
	}
	text := fmt.Sprintf("%d/%d %s used", status.Used, status.Quota, status.Name)
	if s.reserved > 0 {
		text += fmt.Sprintf(", %d reserved by enqueued jobs", s.reserved)
	}
	return text + fmt.Sprintf(", %d free", max(0, status.Free-s.reserved))
}

// dropCardsWithoutQuota removes cards for which a CardQuota of the path has no quota from a request without a
// card name: it does not wait for them. If the path has quota for none, all stay. Where the user reads no
// CardQuota of the path, the cards for which the scheduler states a limit replace them.
func (in *Input) dropCardsWithoutQuota() {
	if !in.Request.IsAnyCard {
		return
	}

	stated := in.statedShortage()
	if len(in.Path) == 0 && stated != nil && stated.Limit > 0 && stated.Cards != "" {
		in.Request.Names = stated.CardNames()
		return
	}

	hasNoQuota := func(name card.Name) bool {
		return slices.ContainsFunc(in.Path, func(quota *v1alpha1.CardQuota) bool {
			return quota.Status.Summary != "" && cardStatus(quota, name).Quota == 0 // unknown before the operator has counted it
		})
	}

	granted := slices.DeleteFunc(slices.Clone(in.Request.Names), hasNoQuota)
	switch {
	case len(granted) == 0: // all stay
	case isRefusedForOthers(stated, granted): // the job names them where it cannot be read, such as in its pod template
		in.Request.Names = stated.CardNames()
	default:
		in.Request.Names = granted
	}
}

// isRefusedForOthers reports whether the scheduler states that no quota is there for cards, and none of them
// is among those with quota. It states cards with quota if a request may have any card.
func isRefusedForOthers(stated *workload.Refusal, granted []card.Name) bool {
	if stated == nil || stated.Limit > 0 || stated.Cards == "" {
		return false
	}
	return !slices.ContainsFunc(stated.CardNames(), func(name card.Name) bool { return slices.Contains(granted, name) })
}

// nearestCard returns the card of the request for which the CardQuotas of the path lack least, the first
// of those that the request names.
func (a adviser) nearestCard() card.Name {
	lacking := func(name card.Name) (most int64) { // every CardQuota of the path must have room
		for _, quota := range a.Path {
			most = max(most, a.Request.quotaCount()-a.shortageOf(quota, name).left)
		}
		return most
	}
	return slices.MinFunc(a.Request.Names, func(a, b card.Name) int { return cmp.Compare(lacking(a), lacking(b)) })
}

// adviseAnyQuota says what helps a request without a card name in a queue without quota for any card that
// it may be.
func (a adviser) adviseAnyQuota() string {
	const maxNames = 3
	text := fmt.Sprintf("CardQuota %s has quota for no card that %s may use: %s", a.Path[0].Name, a.Request.unit(), conditions.JoinFirst(a.Request.Names, maxNames))
	if !a.ChangesQuotas || a.Path[0].Namespace != "" {
		return text + ". Ask the administrator for quota of one of them."
	}
	return fmt.Sprintf("%s. Give it quota for one of them: kubectl edit cardq %s.", text, a.Path[0].Name)
}

// adviseQuota says how much more quota each CardQuota of the path needs, for the card of the request that
// lacks least, and why that alone may not help.
func (a adviser) adviseQuota(entry v1alpha1.BlockedStatus) []string {
	if len(a.Path) == 0 {
		return []string{a.adviseFirstQuota()}
	}
	if len(a.Request.Names) == 0 { // it is unknown which card it requests
		return a.adviseUncountedQuota(entry)
	}
	if entry.Reason == v1alpha1.BlockedNoQuota && a.Request.IsAnyCard && len(a.Request.Names) > 1 {
		return []string{a.adviseAnyQuota()}
	}

	name := a.nearestCard()
	advice, reserved := a.adviseQuotaOf(name, entry)
	if len(advice) == 0 {
		return a.adviseUncountedQuota(entry)
	}

	// Reservations matter to a job that waits for one itself, and where the jobs that have them can be named.
	if reserved > 0 && (a.Request.awaitsEnqueue() || len(a.Reservations) > 0) {
		advice = append(advice, a.adviseReservations(reserved, string(name))...)
	}

	return append(advice, a.adviseBeyondQuota(name)...)
}

// adviseFirstQuota says what helps in a queue of which the user reads no CardQuota.
func (a adviser) adviseFirstQuota() string {
	switch {
	case a.HidesQuota:
		return fmt.Sprintf("Ask the administrator for quota of queue %s.", a.Queue)
	case !a.ChangesQuotas:
		return fmt.Sprintf("Queue %s has no CardQuota: ask the administrator for one.", a.Queue)
	default:
		return fmt.Sprintf("Queue %s has no CardQuota: kubectl cardquota import %s prints one.", a.Queue, a.Queue)
	}
}

// adviseQuotaOf says how much more quota of a card each CardQuota of the path needs, except those that the operator has
// not counted yet. reserved is the most that enqueued jobs have reserved of it.
func (a adviser) adviseQuotaOf(name card.Name, entry v1alpha1.BlockedStatus) (advice []string, reserved int64) {
	wanted := a.Request.quotaCount()
	for _, quota := range a.Path {
		found := a.shortageOf(quota, name)
		missing := wanted - found.left
		missingForAll := entry.Count - found.left // for all pods of the workload that wait for this reason
		if missing <= 0 || quota.Status.Summary == "" {
			continue
		}

		text := fmt.Sprintf("CardQuota %s lacks %d %s for %s", quota.Name, missing, name, a.Request.quotaUnit())
		if missingForAll > missing {
			text += fmt.Sprintf(", %d for all that wait", missingForAll)
		}

		reserved = max(reserved, found.reserved)
		if !a.ChangesQuotas || quota.Namespace != "" { // a LocalCardQuota cannot be changed
			advice = append(advice, text+": ask the administrator for them.")
			continue
		}
		advice = append(advice, fmt.Sprintf("%s: kubectl edit cardq %s.", text, quota.Name))
	}

	return advice, reserved
}

// adviseUncountedQuota says what helps where no CardQuota that the user may read lacks quota by its
// status: the one above it is hidden, or the status is about to change.
func (a adviser) adviseUncountedQuota(entry v1alpha1.BlockedStatus) []string {
	if entry.Reason != v1alpha1.BlockedAncestorQuotaExhausted {
		if a.ChangesQuotas {
			return []string{fmt.Sprintf("Ask again in a few seconds. If this stays, raise the quota of queue %s.", a.Queue)}
		}
		return []string{fmt.Sprintf("Ask again in a few seconds. If this stays, ask the administrator for quota of queue %s.", a.Queue)}
	}

	// Only the scheduler says what the queue above has left: its limit without what others use or have
	// reserved.
	stated := a.statedShortage()
	missing := int64(0)
	if stated != nil && stated.Total != 0 && len(a.Request.Names) > 0 {
		missing = a.Request.quotaCount() - (stated.Limit - (stated.Total - stated.Requested))
	}

	if missing <= 0 { // unknown, or the message is about an earlier, larger request
		return []string{fmt.Sprintf("Ask the administrator for quota of the queues above %s, or wait until other workloads below them end.", a.Queue)}
	}

	name := cmp.Or(append(stated.CardNames(), a.Request.Names...)...) // the first that the scheduler states
	return []string{fmt.Sprintf("Queue %s, which is above %s, lacks %d %s for %s: ask the administrator for them, or wait until other workloads below it end.",
		stated.Queue, a.Queue, missing, name, a.Request.quotaUnit())}
}
