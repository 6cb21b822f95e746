package snapshot

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// checkFunc returns why a request is refused, nil if the check passes.
type checkFunc func(*Session, CheckInput) *workload.Refusal

// All checks. The first that refuses gives the reason. Each list has an array of its own: in a common one, the
// checks that one list appends would replace those of another.
var (
	// queueChecks: may pods of the namespace use the queue?
	queueChecks = []checkFunc{argumentsAreValid, cacheIsSynced, queueExists, queueIsUsable, namespaceIsAllowed}
	// PodChecks: may the pod be placed at all?
	PodChecks = append(queueChecks[:len(queueChecks):len(queueChecks)], requestIsValid, claimsAreAllowed)
	// QuotaChecks: does the pod fit the quota of the queue on some card?
	QuotaChecks = append(PodChecks[:len(PodChecks):len(PodChecks)], queueHasQuota)
	// ReclaimChecks: may the pod reclaim cards from other queues?
	ReclaimChecks = append(PodChecks[:len(PodChecks):len(PodChecks)], mayReclaim, queueDeserves)
	// CardChecks: may the pod use the card of the node?
	CardChecks = []checkFunc{cardIsAllowed, queueHasQuotaForCard}
	// PlaceChecks: may the pod be where it is placed?
	PlaceChecks = append(PodChecks[:len(PodChecks):len(PodChecks)], CardChecks...)
)

// RunChecks returns the refusal of the first check that fails, nil if all pass.
func (s *Session) RunChecks(checks []checkFunc, r CheckInput) *workload.Refusal {
	for _, check := range checks {
		if refusal := check(s, r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// CheckInputFor returns the input of the checks for a pod, false if its job is not in the
// session.
func (s *Session) CheckInputFor(task *api.TaskInfo) (CheckInput, bool) {
	r := CheckInput{Task: task, Request: s.RequestFor(task)}
	job, known := s.Volcano.Jobs[task.Job]
	if known {
		r.Job = job
		r.Rules = s.QueueRules[job.Queue]
	}
	return r, known
}

// CheckQueue returns why a job's queue accepts no pods of its namespace now, nil if it does.
func (s *Session) CheckQueue(job *api.JobInfo) *workload.Refusal {
	return s.RunChecks(queueChecks, CheckInput{Job: job, Rules: s.QueueRules[job.Queue]})
}

// argumentsAreValid: the plugin could read its arguments. Otherwise it does not know which rules hold.
func argumentsAreValid(s *Session, _ CheckInput) *workload.Refusal {
	if s.ArgumentsErr == nil {
		return nil
	}
	return &workload.Refusal{Code: workload.CodeInvalidArguments, Detail: s.ArgumentsErr.Error()}
}

// cacheIsSynced: the session has all nodes and pods. Otherwise cards in use could be given away again.
func cacheIsSynced(s *Session, _ CheckInput) *workload.Refusal {
	if !s.AwaitsSync {
		return nil
	}
	return &workload.Refusal{Code: workload.CodeNotSynced}
}

// queueExists: the session has the queue, and so its rules.
func queueExists(_ *Session, r CheckInput) *workload.Refusal {
	if r.Rules != nil {
		return nil
	}
	return &workload.Refusal{Code: workload.CodeQueueNotFound, Queue: string(r.Job.Queue)}
}

func queueIsUsable(_ *Session, r CheckInput) *workload.Refusal { return r.Rules.Refusal }

func namespaceIsAllowed(s *Session, r CheckInput) *workload.Refusal {
	return s.checkNamespace(r.Job.Queue, r.Rules, r.Job.Namespace)
}

// requestIsValid: what the pod requests is not denied, whatever is free.
func requestIsValid(_ *Session, r CheckInput) *workload.Refusal { return r.Request.Denied }

// queueHasQuota: CPU, memory and some card of the request fit the quota.
func queueHasQuota(s *Session, r CheckInput) *workload.Refusal {
	return s.CheckWithin(r, r.Request.Request, r.Within())
}

// Within returns in what the request of a check must fit: in what the quota has left once evictions have
// released what the check counts on.
func (r CheckInput) Within() (within quota.Within) {
	if r.Released != nil {
		within.Released = *r.Released
	}
	return within
}

// CheckWithin returns why a request does not fit, nil if it does.
func (s *Session) CheckWithin(r CheckInput, request quota.Request, within quota.Within) *workload.Refusal {
	if insufficient := s.Ledger.Check(string(r.Job.Queue), request, within); len(insufficient) > 0 {
		return r.Rules.RefusalFor(&insufficient[0])
	}
	return nil
}

// mayReclaim: the pod requests cards of a queue with a card quota, and its service type may reclaim
// from another one. A queue without one, see unmanagedQueues, has no cards that it could take back. In a
// tree any known type may reclaim what others borrow. If all resources are reclaimed, pods without cards
// may reclaim too.
func mayReclaim(s *Session, r CheckInput) *workload.Refusal {
	serviceType := s.ServiceType(r.Task)
	hasRule := s.Args.ServiceTypes.Reclaims(serviceType) || (s.IsTree() && s.KnowsServiceType(serviceType))
	hasCards := r.Request.Count > 0 && s.Ledger.LimitsCards(string(r.Job.Queue))
	reclaimsComputeOnly := r.Request.Count == 0 && s.ReclaimsAll()
	if !hasRule || (!hasCards && !reclaimsComputeOnly) {
		return &workload.Refusal{Code: workload.CodeMayNotReclaim, Object: string(serviceType)}
	}
	return nil
}

// queueDeserves: the queue stays within what it deserves, so that no queue evicts in order to
// borrow. A flat queue deserves its quota.
func queueDeserves(s *Session, r CheckInput) *workload.Refusal {
	return s.CheckWithin(r, r.Request.Request, s.WithinReclaimable())
}

// cardIsAllowed: the card of the node is one that the pod may use.
func cardIsAllowed(s *Session, r CheckInput) *workload.Refusal {
	if _, allowed := s.CardFor(r.Request, r.Node); !allowed {
		return &workload.Refusal{Code: workload.CodeCardNotAllowed, Object: r.Task.Namespace + "/" + r.Task.Name, Other: r.Node}
	}
	return nil
}

// queueHasQuotaForCard: CPU, memory and the card of the node fit the quota.
func queueHasQuotaForCard(s *Session, r CheckInput) *workload.Refusal {
	name, _ := s.CardFor(r.Request, r.Node)
	return s.CheckWithin(r, r.Request.On(name), r.Within())
}

// ReclaimsByType reports whether the service type of a pod may reclaim cards from another one, for a queue with a card
// quota. Queues without one have no cards that they could take back.
func (s *Session) ReclaimsByType(task *api.TaskInfo) bool {
	job := s.Volcano.Jobs[task.Job]
	return job != nil && s.Args.ServiceTypes.Reclaims(s.ServiceType(task)) && s.Ledger.LimitsCards(string(job.Queue))
}

// DeservesCard reports whether the queue of a pod stays within what it deserves if the pod uses this card.
func (s *Session) DeservesCard(r CheckInput, name card.Name) bool {
	return s.Ledger.Fits(string(r.Job.Queue), r.Request.On(name), s.WithinReclaimable())
}
