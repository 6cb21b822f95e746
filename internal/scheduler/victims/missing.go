package victims

import (
	"slices"
	"sort"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// MissingAmounts returns what must be released so that a pod can be placed on a node: what the node and the quotas of its
// queue lack, beside what is kept for others, and what the queue may not borrow while its pods preempt.
func (s *Selection) MissingAmounts(task *api.TaskInfo, node *api.NodeInfo) Amounts {
	request := s.RequestFor(task)
	job := s.Volcano.Jobs[task.Job]
	name, _ := s.CardFor(request, node.Name)
	missing := MissingResources(task.InitResreq, s.kept.IdleFor(task, node))

	kept := s.kept.DeductKept(snapshot.CheckInput{Job: job, Task: task}, quota.Released{})
	missing = s.addMissingQuota(missing, job.Queue, request, name, kept)
	if tooMany := s.CardsBorrowedTooMany(snapshot.CheckInput{Job: job, Request: request}, name); tooMany > 0 {
		missing[QuotaCards] = max(missing[QuotaCards], float64(tooMany))
	}
	return missing
}

// addMissingQuota adds to missing what the quotas of a queue and its ancestors lack for a pod that would use
// the named card. It leaves out what terminating pods use, because evictions in the queue do not release
// that. It returns missing. released is what the check counts as released. It begins with what is kept for
// others, as negative amounts, and is changed.
func (s *Selection) addMissingQuota(missing Amounts, queue api.QueueID, request *workload.Request, name card.Name, released quota.Released) Amounts {
	// Each check finds the first limit that is exceeded, so it is repeated until none is. There are
	// maxMissingLimits limits.
	for range maxMissingLimits {
		isComplete := true
		for _, insufficient := range s.Ledger.Check(string(queue), request.On(name), quota.Within{Released: released}) {
			what := quotaOf(insufficient.Of)
			lack := insufficient.Total - insufficient.Limit
			if lack <= 0 || insufficient.Kind == quota.Terminating {
				continue
			}

			isComplete = false
			// What the pod uses within the guarantee of its own queue takes nothing from the guarantees of
			// others.
			if insufficient.Kind == quota.Guaranteed {
				lack = s.leastForGuarantees(insufficient, queue, request, name, released)
			}

			// Where too much is used by pods from which others cannot reclaim, only such pods release it. reused is how much
			// of it is missing already, for another limit that any pod can satisfy: the same pods release it for both.
			reused := int64(0)
			isUnreclaimable := insufficient.Kind == quota.NotReclaimable
			if isUnreclaimable {
				reused = min(lack, int64(missing[what]-missing[UnreclaimableQuota(what)]))
				missing[UnreclaimableQuota(what)] += float64(lack)
			}

			// What is missing counts as released from now on, so that the next check finds what another limit
			// lacks. What is reused counts so already, and must not count twice.
			missing[what] += float64(lack - reused)
			released.Add(chargeOf(insufficient.Of, name, lack, isUnreclaimable))
			released.Remove(chargeOf(insufficient.Of, name, reused, false))
		}

		if isComplete {
			break
		}
	}
	return missing
}

// leastForGuarantees returns the least that must be released so that a pod leaves the guarantees of other
// queues free, by bisection from 1 to the excess. It may be less than the excess: what the pod uses within the guarantee
// of its own queue takes nothing from others.
func (s *Selection) leastForGuarantees(insufficient quota.InsufficientQuota, queue api.QueueID, request *workload.Request, name card.Name, released quota.Released) int64 {
	excess := insufficient.Total - insufficient.Limit
	isSame := func(other quota.InsufficientQuota) bool {
		return other.Kind == insufficient.Kind && other.Queue == insufficient.Queue && other.Of == insufficient.Of
	}
	return 1 + int64(sort.Search(int(excess-1), func(n int) bool {
		more := released.Clone()
		more.Add(chargeOf(insufficient.Of, name, int64(n+1), false))
		return !slices.ContainsFunc(s.Ledger.Check(string(queue), request.On(name), quota.Within{Released: more}), isSame)
	}))
}

// chargeOf returns a charge of an amount of CPU or memory, or of a card with a name.
func chargeOf(of quota.Resource, name card.Name, amount int64, isUnreclaimable bool) *quota.Charge {
	charge := &quota.Charge{IsUnreclaimable: isUnreclaimable}
	switch of {
	case quota.CPU:
		charge.MilliCPU = amount
	case quota.Memory:
		charge.Memory = amount
	default:
		charge.Cards = []card.Amount{{Name: name, Count: card.Count(amount)}}
	}
	return charge
}

// maxMissingLimits is how many limits a pod can exceed: on each level of a tree and at root, four
// limits of a card, of CPU and of memory. Each search finds the first that is left.
const maxMissingLimits = 4 * 3 * (quota.MaxDepth + 1)

// LimitBorrowing limits how many cards of a name the queue may borrow whose pods preempt now, nil for no limit.
func (s *Selection) LimitBorrowing(most map[card.Name]int64) { s.mostBorrowed = most }

// CardsBorrowedTooMany returns by how many cards a queue would borrow more than it may while its pods preempt, if a
// pod used this card. It is 0 without a limit.
func (s *Selection) CardsBorrowedTooMany(r snapshot.CheckInput, name card.Name) int64 {
	if r.Request.Count == 0 {
		return 0
	}
	most, isLimited := s.mostBorrowed[name]
	if !isLimited {
		return 0
	}

	used := s.Ledger.AboveDeserved(string(r.Job.Queue), quota.Resource(name)) + int64(r.Request.Count)
	if r.Released != nil {
		used -= int64(r.Released.Cards[name])
	}

	return max(0, used-most)
}
