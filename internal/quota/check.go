package quota

import (
	"cmp"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// Bound is which limits bound a request.
type Bound int

// The bounds of a request.
const (
	// QuotaLeft is what the quotas of the queue and its ancestors leave, beside what is kept for
	// pods of others and what is guaranteed to other queues. A pod is placed only within it.
	QuotaLeft Bound = iota
	// QuotaIfIdle is what the quotas would leave beside what is guaranteed to others, if no queue used
	// more than its guarantee. Within its own guarantee, and within those of its ancestors that others
	// do not use, a queue leaves others theirs. Releases do not change it.
	QuotaIfIdle
	// DeservedLeft is what the queue deserves beyond what it uses, whether it may use that now or not.
	// A queue of a tree without a quota for cards deserves none. Without a tree a queue deserves its
	// quota.
	DeservedLeft
	// ReclaimableCards is what the queue may reclaim cards for: DeservedLeft within its own quota,
	// unless too many cards are terminating. CPU and memory must fit the quota of the queue itself.
	// Evictions may free those of its ancestors.
	ReclaimableCards
	// ReclaimableAll is ReclaimableCards if CPU and memory are reclaimed, too: the queue must deserve
	// them.
	ReclaimableAll
)

// Within is what a request has to fit. Its zero value is what a queue has left now.
type Within struct {
	Bound Bound
	// Released are charges that count as released.
	Released Released
}

// Check returns why a request does not fit, nil if it does: the first limit that each of its
// cards, CPU and memory exceed, in this order. A request with alternatives fits if one of its cards
// does. If none fits, the result names one, see cardToReport. Goroutines may call Check in
// parallel while none writes.
func (l *Ledger) Check(queue string, request Request, within Within) (all []InsufficientQuota) {
	q := l.readQueue(queue)
	if !q.fitsSomeCard(&request, &within) {
		name, others := q.cardToReport(&request, &within.Released)
		e, _ := q.firstExceeded(Resource(name), &request, &within)
		s := q.describeInsufficient(e, Resource(name), int64(request.Count))
		s.OtherCards = others
		all = append(all, s)
	}

	for _, resource := range Compute {
		if e, isExceeded := q.firstExceeded(resource, &request, &within); isExceeded {
			all = append(all, q.describeInsufficient(e, resource, request.Amount(resource)))
		}
	}

	return all
}

// Fits reports whether Check returns nil. It allocates no memory, as the scheduler calls it for
// each pod and node.
func (l *Ledger) Fits(queue string, request Request, within Within) bool {
	q := l.readQueue(queue)
	if !q.fitsSomeCard(&request, &within) {
		return false
	}

	for _, resource := range Compute {
		if _, isExceeded := q.firstExceeded(resource, &request, &within); isExceeded {
			return false
		}
	}

	return true
}

// fitsSomeCard reports whether the cards of a request fit with one of its names. Cards without a
// name are none that a quota lists, so they fit only a queue that may use any.
func (q *queueLedger) fitsSomeCard(request *Request, within *Within) bool {
	if len(request.Names) == 0 {
		_, isExceeded := q.firstExceeded("", request, within)
		return !isExceeded
	}

	for _, name := range request.Names {
		if _, isExceeded := q.firstExceeded(Resource(name), request, within); !isExceeded {
			return true
		}
	}

	return false
}

// firstExceeded returns the first limit that a request exceeds with one resource: CPU, memory or one of
// its cards. What is not requested exceeds none.
func (q *queueLedger) firstExceeded(resource Resource, request *Request, within *Within) (e exceededLimit, isExceeded bool) {
	count := request.Amount(resource)
	if count <= 0 {
		return e, false
	}
	c := &resourceCheck{q, resource, count, request.IsUnreclaimable, &within.Released}
	return c.firstExceeded(within.Bound)
}

// cardToReport returns the card that a refusal names, and how many others of the request do not fit
// either. Cards without quota are none of those that the request waits for. A card that the quotas
// have left becomes free when pods terminate, or others release it. Otherwise it is the card with the
// most free quota, and among equals the one with the largest quota.
func (q *queueLedger) cardToReport(request *Request, released *Released) (name card.Name, others int) {
	if len(request.Names) == 0 {
		return "", 0
	}

	names := q.grantedNames(request.Names)
	isLeft := func(name card.Name) bool { return q.freeOnPath(Resource(name), released) >= int64(request.Count) }
	if index := slices.IndexFunc(names, isLeft); index >= 0 {
		return names[index], len(names) - 1
	}

	return slices.MaxFunc(names, func(x, y card.Name) int {
		return cmp.Or(
			cmp.Compare(q.freeOnPath(Resource(x), released), q.freeOnPath(Resource(y), released)),
			cmp.Compare(q.limitOnPath(Resource(x)), q.limitOnPath(Resource(y))),
		)
	}), len(names) - 1
}

// describeInsufficient describes an exceeded limit.
func (q *queueLedger) describeInsufficient(e exceededLimit, of Resource, requested int64) InsufficientQuota {
	s := InsufficientQuota{Kind: e.kind, Queue: e.at.name, Ancestor: e.at != q, Requested: requested, Total: e.total, Limit: e.limit}
	if s.Ancestor {
		s.Requester = q.name
	}

	switch {
	case !of.IsCard():
		s.Of = of
	case of != "":
		s.Names = []card.Name{of.Card()}
	}

	if e.kind == Terminating {
		s.GracePeriod = e.at.terminating[of.Card()].longestGracePeriod
	}

	return s
}
