package capacitycard

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// checkInput is what checks read: the request of a pod, or a job without a task. It is passed
// by value, so the predicate allocates no memory.
type checkInput struct {
	job *api.JobInfo
	// rules are those of the job's queue, nil if it does not exist.
	rules   *workload.QueueRules
	task    *api.TaskInfo
	request *workload.Request
	// node is where the pod would run, "" before a node is chosen.
	node string
	// released is what evictions release before, nil for nothing.
	released *quota.Released
}

// checkFunc returns why a request is refused, nil if the check passes.
type checkFunc func(*Session, checkInput) *workload.Refusal

// nodeCheckFunc returns why a node does not fit a pod, as one of the predicate's reasons.
type nodeCheckFunc func(*nodeChoice, checkInput, *api.NodeInfo) int

// All checks. The first that refuses gives the reason.
var (
	// queueChecks: may pods of the namespace use the queue?
	queueChecks = []checkFunc{argumentsAreValid, cacheIsSynced, queueExists, queueIsUsable, namespaceIsAllowed}
	// podChecks: may the pod be placed at all?
	podChecks = append(queueChecks[:len(queueChecks):len(queueChecks)], requestIsValid, claimsAreAllowed)
	// quotaChecks: does the pod fit the quota of the queue on some card?
	quotaChecks = append(podChecks[:len(podChecks):len(podChecks)], queueHasQuota)
	// reclaimChecks: may the pod reclaim cards from other queues?
	reclaimChecks = append(podChecks[:len(podChecks):len(podChecks)], mayReclaim, queueHasQuota)
	// treeReclaimChecks: the same in a tree.
	treeReclaimChecks = append(podChecks[:len(podChecks):len(podChecks)], mayReclaim, queueDeserves)
	// cardChecks: may the pod use the card of the node?
	cardChecks = []checkFunc{cardIsAllowed, queueHasQuotaForCard}
	// placeChecks: may the pod be where it is placed?
	placeChecks = append(podChecks[:len(podChecks):len(podChecks)], cardChecks...)
	// nodeChecks: does the node fit the pod, in the predicate?
	nodeChecks = []nodeCheckFunc{noStuckPodConflicts, conflictsArePreemptable, cardsAreNotStuck, reclaimedCardsStayFree, preemptedCardsStayFree, cardIsDeserved, cardFits, preemptedQuotaStaysFreeOnNode, awaitedCardsStayFree}
)

// runChecks returns the refusal of the first check that fails, nil if all pass.
func (p *Session) runChecks(checks []checkFunc, r checkInput) *workload.Refusal {
	for _, check := range checks {
		if refusal := check(p, r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkInputFor returns the input of the checks for a pod, false if its job is not in the
// session.
func (p *Session) checkInputFor(task *api.TaskInfo) (checkInput, bool) {
	r := checkInput{task: task, request: p.RequestFor(task)}
	job, known := p.ssn.Jobs[task.Job]
	if known {
		r.job = job
		r.rules = p.queueRules[job.Queue]
	}
	return r, known
}

// checkedInput returns the input for a pod and the result of podChecks. During a node search it
// returns the result from the start of the search.
func (p *nodeChoice) checkedInput(task *api.TaskInfo) (r checkInput, refusal *workload.Refusal, known bool) {
	if s := p.preemption.search.Load(); s != nil && s.task == task {
		return s.checkInput, s.refusal, s.known
	}
	r, known = p.checkInputFor(task)
	if known {
		refusal = p.runChecks(podChecks, r)
	}
	return r, refusal, known
}

// checkQueue returns why a job's queue accepts no pods of its namespace now, nil if it does.
func (p *Session) checkQueue(job *api.JobInfo) *workload.Refusal {
	return p.runChecks(queueChecks, checkInput{job: job, rules: p.queueRules[job.Queue]})
}

func argumentsAreValid(p *Session, _ checkInput) *workload.Refusal {
	if p.argumentsErr == nil {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonNotReady, Message: fmt.Sprintf("Arguments of %s are invalid: %v", PluginName, p.argumentsErr)}
}

func cacheIsSynced(p *Session, _ checkInput) *workload.Refusal {
	if p.notReadyReason == "" {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonNotReady, Message: p.notReadyReason}
}

func queueExists(_ *Session, r checkInput) *workload.Refusal {
	if r.rules != nil {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonQueueNotFound, Message: fmt.Sprintf("Queue <%s> does not exist", r.job.Queue)}
}

func queueIsUsable(_ *Session, r checkInput) *workload.Refusal { return r.rules.Refusal }

func namespaceIsAllowed(p *Session, r checkInput) *workload.Refusal {
	return p.checkNamespace(r.job.Queue, r.rules, r.job.Namespace)
}

// queueNamespace is a namespace in a queue with a namespace selector.
type queueNamespace struct {
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
	for _, ancestor := range p.cache.Tree.Selectors[queue] {
		if refusal := p.checkOwnNamespace(ancestor, p.queueRules[ancestor], namespace); refusal != nil {
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

	refusal, known := p.namespaceRefusals[queueNamespace{queue, namespace}]
	if !known {
		var object *corev1.Namespace // nil if it is not known yet
		if p.namespaceLister != nil {
			object, _ = p.namespaceLister.Get(namespace)
		}
		refusal = workload.CheckNamespace(string(queue), rules.Namespaces, namespace, object)
		p.namespaceRefusals[queueNamespace{queue, namespace}] = refusal
	}

	return refusal
}

func requestIsValid(_ *Session, r checkInput) *workload.Refusal { return r.request.Denied }

// queueHasQuota: CPU, memory and some card of the request fit the quota.
func queueHasQuota(p *Session, r checkInput) *workload.Refusal {
	return p.checkWithin(r, r.request.Request, r.within())
}

// within returns what the quota of a queue has left for a check.
func (r checkInput) within() (within quota.Within) {
	if r.released != nil {
		within.Released = *r.released
	}
	return within
}

// checkWithin returns why a request does not fit, nil if it does.
func (p *Session) checkWithin(r checkInput, request quota.Request, within quota.Within) *workload.Refusal {
	if insufficient := p.ledger.Check(string(r.job.Queue), request, within); len(insufficient) > 0 {
		return r.rules.RefusalFor(&insufficient[0])
	}
	return nil
}

// mayReclaim: the pod requests cards, and its service type may reclaim from another one. In a
// tree any known type may reclaim what others borrow. If all resources are reclaimed, pods
// without cards may reclaim too.
func mayReclaim(p *Session, r checkInput) *workload.Refusal {
	serviceType := p.ServiceType(r.task)
	hasRule := p.args.serviceTypes.Reclaims(serviceType) || (p.IsTree() && p.knowsServiceType(serviceType))
	if (r.request.Count == 0 && !p.ReclaimsAll()) || !hasRule {
		return &workload.Refusal{Message: fmt.Sprintf("pods of service type %q may not reclaim cards", serviceType)}
	}
	return nil
}

// queueDeserves: the queue stays within what it deserves, so that no queue evicts in order to
// borrow.
func queueDeserves(p *Session, r checkInput) *workload.Refusal {
	if insufficient := p.ledger.FitsDeserved(string(r.job.Queue), r.request.Request, p.ReclaimsAll()); insufficient != nil {
		return r.rules.RefusalFor(insufficient)
	}
	return nil
}

func cardIsAllowed(p *Session, r checkInput) *workload.Refusal {
	if _, allowed := p.cardFor(r.request, r.node); !allowed {
		return &workload.Refusal{Message: fmt.Sprintf("pod %s/%s may not run on the card of node %s", r.task.Namespace, r.task.Name, r.node)}
	}
	return nil
}

func queueHasQuotaForCard(p *Session, r checkInput) *workload.Refusal {
	name, _ := p.cardFor(r.request, r.node)
	return p.checkWithin(r, r.request.On(name), r.within())
}

func cardsAreNotStuck(p *nodeChoice, r checkInput, node *api.NodeInfo) int {
	switch {
	case !p.stuck.needsStuckCards(r.task, node):
		return nodeFits
	case p.preemption.evictsNothingOn(node, r.task):
		return cardsAreStuckWithoutVictims // Volcano would pipeline the pod there without an eviction
	}
	return cardsAreStuck
}

// cardFits: the pod may run on the node's card, and the quota has room for it. If the quota is
// full, preemption in the queue may help, unless too many cards are terminating already.
func cardFits(p *nodeChoice, r checkInput, node *api.NodeInfo) int {
	if r.request.Count == 0 {
		return nodeFits
	}

	name, named := p.inventory.CardOnNode(node.Name, r.request.Resource)
	queue := string(r.job.Queue)
	switch {
	case !named:
		return unnamedCard
	case !r.request.Named.Allows(name):
		return cardNotAllowed
	case p.preemption.ignoresQuota(r.task) || p.ledger.Fits(queue, r.request.On(name).OnlyCards(), quota.Within{}):
		return nodeFits
	case p.ledger.IsTerminatingOverQuota(queue, name):
		return quotaTerminating
	case p.preemption.isReclaimer(r.task):
		// Cards of other queues do not help if quota is missing. Volcano would stop at such a
		// node instead of trying the next one.
		return quotaExceededForReclaim
	case p.preemption.run != nil && !p.ledger.CouldFit(queue, name, r.request.Count):
		// No eviction in the queue makes enough quota. Volcano would stop at such a node, too.
		return quotaExceededForReclaim
	}

	return quotaExceeded
}

// deservesCard reports whether the queue of a pod of a tree stays within what it deserves with
// one card.
func (p *Session) deservesCard(r checkInput, name card.Name) bool {
	if !p.IsTree() {
		return false
	}
	request := r.request.Request
	if request.Count > 0 {
		request.Names = []card.Name{name}
	}
	return p.ledger.FitsDeserved(string(r.job.Queue), request, p.ReclaimsAll()) == nil
}
