package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// CheckInput is what checks read: the request of a pod, or a job without a task. It is passed
// by value, so the predicate allocates no memory.
type CheckInput struct {
	Job *api.JobInfo
	// Rules are those of the job's queue, nil if it does not exist.
	Rules   *workload.QueueRules
	Task    *api.TaskInfo
	Request *workload.Request
	// Node is where the pod would run, "" before a node is chosen.
	Node string
	// Released is what evictions release before, nil for nothing.
	Released *quota.Released
}

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
	ReclaimChecks = append(PodChecks[:len(PodChecks):len(PodChecks)], mayReclaim, queueHasQuota)
	// TreeReclaimChecks: the same in a tree.
	TreeReclaimChecks = append(PodChecks[:len(PodChecks):len(PodChecks)], mayReclaim, queueDeserves)
	// CardChecks: may the pod use the card of the node?
	CardChecks = []checkFunc{cardIsAllowed, queueHasQuotaForCard}
	// PlaceChecks: may the pod be where it is placed?
	PlaceChecks = append(PodChecks[:len(PodChecks):len(PodChecks)], CardChecks...)
)

// RunChecks returns the refusal of the first check that fails, nil if all pass.
func (p *Session) RunChecks(checks []checkFunc, r CheckInput) *workload.Refusal {
	for _, check := range checks {
		if refusal := check(p, r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// CheckInputFor returns the input of the checks for a pod, false if its job is not in the
// session.
func (p *Session) CheckInputFor(task *api.TaskInfo) (CheckInput, bool) {
	r := CheckInput{Task: task, Request: p.RequestFor(task)}
	job, known := p.Volcano.Jobs[task.Job]
	if known {
		r.Job = job
		r.Rules = p.QueueRules[job.Queue]
	}
	return r, known
}

// CheckQueue returns why a job's queue accepts no pods of its namespace now, nil if it does.
func (p *Session) CheckQueue(job *api.JobInfo) *workload.Refusal {
	return p.RunChecks(queueChecks, CheckInput{Job: job, Rules: p.QueueRules[job.Queue]})
}

func argumentsAreValid(p *Session, _ CheckInput) *workload.Refusal {
	if p.ArgumentsErr == nil {
		return nil
	}
	return &workload.Refusal{Code: workload.CodeInvalidArguments, Detail: p.ArgumentsErr.Error()}
}

func cacheIsSynced(p *Session, _ CheckInput) *workload.Refusal {
	if !p.AwaitsSync {
		return nil
	}
	return &workload.Refusal{Code: workload.CodeNotSynced}
}

func queueExists(_ *Session, r CheckInput) *workload.Refusal {
	if r.Rules != nil {
		return nil
	}
	return &workload.Refusal{Code: workload.CodeQueueNotFound, Queue: string(r.Job.Queue)}
}

func queueIsUsable(_ *Session, r CheckInput) *workload.Refusal { return r.Rules.Refusal }

func namespaceIsAllowed(p *Session, r CheckInput) *workload.Refusal {
	return p.checkNamespace(r.Job.Queue, r.Rules, r.Job.Namespace)
}

// QueueNamespace is a namespace in a queue with a namespace selector.
type QueueNamespace struct {
	queue     api.QueueID
	namespace string
}

// checkNamespace returns why a queue, or an ancestor of it, does not allow a namespace, nil if
// all do. The answers are kept for the session, so that a label change cannot split its
// decisions. Goroutines may call it in parallel.
func (p *Session) checkNamespace(queue api.QueueID, rules *workload.QueueRules, namespace string) *workload.Refusal {
	if refusal := p.checkOwnNamespace(queue, rules, namespace); refusal != nil {
		return refusal
	}
	for _, ancestor := range p.Cache.Tree.Selectors[queue] {
		if refusal := p.checkOwnNamespace(ancestor, p.QueueRules[ancestor], namespace); refusal != nil {
			return workload.RefusalOfAncestor(string(queue), refusal)
		}
	}
	return nil
}

// checkOwnNamespace returns why the selector of a queue does not allow a namespace.
func (p *Session) checkOwnNamespace(queue api.QueueID, rules *workload.QueueRules, namespace string) *workload.Refusal {
	if rules == nil || rules.Namespaces == nil {
		return nil
	}

	p.namespaceLock.Lock()
	defer p.namespaceLock.Unlock()

	refusal, known := p.NamespaceRefusals[QueueNamespace{queue, namespace}]
	if !known {
		var object *corev1.Namespace // nil if it is not known yet
		if p.NamespaceLister != nil {
			object, _ = p.NamespaceLister.Get(namespace)
		}
		refusal = workload.CheckNamespace(string(queue), rules.Namespaces, namespace, object)
		p.NamespaceRefusals[QueueNamespace{queue, namespace}] = refusal
	}

	return refusal
}

func requestIsValid(_ *Session, r CheckInput) *workload.Refusal { return r.Request.Denied }

// queueHasQuota: CPU, memory and some card of the request fit the quota.
func queueHasQuota(p *Session, r CheckInput) *workload.Refusal {
	return p.CheckWithin(r, r.Request.Request, r.Within())
}

// Within returns what the quota of a queue has left for a check.
func (r CheckInput) Within() (within quota.Within) {
	if r.Released != nil {
		within.Released = *r.Released
	}
	return within
}

// CheckWithin returns why a request does not fit, nil if it does.
func (p *Session) CheckWithin(r CheckInput, request quota.Request, within quota.Within) *workload.Refusal {
	if insufficient := p.Ledger.Check(string(r.Job.Queue), request, within); len(insufficient) > 0 {
		return r.Rules.RefusalFor(&insufficient[0])
	}
	return nil
}

// mayReclaim: the pod requests cards, and its service type may reclaim from another one. In a
// tree any known type may reclaim what others borrow. If all resources are reclaimed, pods
// without cards may reclaim too.
func mayReclaim(p *Session, r CheckInput) *workload.Refusal {
	serviceType := p.ServiceType(r.Task)
	hasRule := p.Args.ServiceTypes.Reclaims(serviceType) || (p.IsTree() && p.KnowsServiceType(serviceType))
	if (r.Request.Count == 0 && !p.ReclaimsAll()) || !hasRule {
		return &workload.Refusal{Code: workload.CodeMayNotReclaim, Object: string(serviceType)}
	}
	return nil
}

// queueDeserves: the queue stays within what it deserves, so that no queue evicts in order to
// borrow.
func queueDeserves(p *Session, r CheckInput) *workload.Refusal {
	return p.CheckWithin(r, r.Request.Request, p.WithinReclaimable())
}

func cardIsAllowed(p *Session, r CheckInput) *workload.Refusal {
	if _, allowed := p.CardFor(r.Request, r.Node); !allowed {
		return &workload.Refusal{Code: workload.CodeCardNotAllowed, Object: r.Task.Namespace + "/" + r.Task.Name, Other: r.Node}
	}
	return nil
}

func queueHasQuotaForCard(p *Session, r CheckInput) *workload.Refusal {
	name, _ := p.CardFor(r.Request, r.Node)
	return p.CheckWithin(r, r.Request.On(name), r.Within())
}

// DeservesCard reports whether the queue of a pod of a tree stays within what it deserves with
// one card.
func (p *Session) DeservesCard(r CheckInput, name card.Name) bool {
	return p.IsTree() && p.Ledger.Fits(string(r.Job.Queue), r.Request.On(name), p.WithinReclaimable())
}
