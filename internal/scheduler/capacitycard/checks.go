package capacitycard

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// request is what is checked: that of a pod, or of a job in general when there is no task.
// It is passed on by value, in registers: the predicate allocates nothing.
type request struct {
	job *api.JobInfo
	// rules are those of the job's queue, nil when it does not exist.
	rules *workload.QueueRules
	task  *api.TaskInfo
	ask   *workload.Request
	// node is where the pod would run, "" before a node is looked for.
	node string
	// freed is what others would have given back by then, nil for nothing.
	freed *quota.Released
}

// checkFunc says why a request is refused, nil when it has nothing against it.
type checkFunc func(*plugin, request) *workload.Refusal

// nodeCheckFunc says why a node does not fit a pod, by one of the predicate's reasons.
type nodeCheckFunc func(*plugin, request, *api.NodeInfo) int

// These are all checks. The first one that refuses gives the reason.
var (
	// queueChecks: may anything of the namespace have something of the queue?
	queueChecks = []checkFunc{argumentsAreValid, everythingWasSeen, queueExists, queueIsUsable, namespaceIsAdmitted}
	// podChecks: may the pod be placed at all?
	podChecks = append(queueChecks[:len(queueChecks):len(queueChecks)], requestIsReadable)
	// quotaChecks: has the queue room for the pod on some card?
	quotaChecks = append(podChecks[:len(podChecks):len(podChecks)], queueHasRoom)
	// reclaimChecks: may the pod have cards taken back from other queues?
	reclaimChecks = append(podChecks[:len(podChecks):len(podChecks)], takesFromOthers, queueHasRoom)
	// cardChecks: may the pod use the card of the node?
	cardChecks = []checkFunc{cardIsAllowed, queueHasRoomForTheCard}
	// placeChecks: may the pod be where it is placed?
	placeChecks = append(podChecks[:len(podChecks):len(podChecks)], cardChecks...)
	// nodeChecks: does the node fit the pod, in the predicate?
	nodeChecks = []nodeCheckFunc{noPodKeepsItOff, noPodStaysApart, roomDoesNotHang, roomIsNotHeld, cardFits}
)

// refusal is the first of some checks that refuses a request, nil when none does.
func (p *plugin) refusal(checks []checkFunc, r request) *workload.Refusal {
	for _, check := range checks {
		if refusal := check(p, r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// requestOf is what a pod asks for, false for one whose job is not in the session.
func (p *plugin) requestOf(task *api.TaskInfo) (request, bool) {
	r := request{task: task, ask: p.Ask(task)}
	job, known := p.ssn.Jobs[task.Job]
	if known {
		r.job, r.rules = job, p.rules[job.Queue]
	}
	return r, known
}

// checked is what a pod asks for, and what podChecks have against it. In a search for a node
// they were asked when it began.
func (p *plugin) checked(task *api.TaskInfo) (r request, refusal *workload.Refusal, known bool) {
	if s := p.search.Load(); s != nil && s.task == task {
		return s.request, s.refusal, s.known
	}
	if r, known = p.requestOf(task); known {
		refusal = p.refusal(podChecks, r)
	}
	return r, refusal, known
}

// closedGate says why a job's queue takes nothing at all of its namespace now, nil when it
// does.
func (p *plugin) closedGate(job *api.JobInfo) *workload.Refusal {
	return p.refusal(queueChecks, request{job: job, rules: p.rules[job.Queue]})
}

func argumentsAreValid(p *plugin, _ request) *workload.Refusal {
	if p.invalid == nil {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonNotReady, Message: fmt.Sprintf("Arguments of %s are invalid: %v", PluginName, p.invalid)}
}

func everythingWasSeen(p *plugin, _ request) *workload.Refusal {
	if p.notReady == "" {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonNotReady, Message: p.notReady}
}

func queueExists(_ *plugin, r request) *workload.Refusal {
	if r.rules != nil {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonQueueNotFound, Message: fmt.Sprintf("Queue <%s> does not exist", r.job.Queue)}
}

func queueIsUsable(_ *plugin, r request) *workload.Refusal { return r.rules.Refusal }

func namespaceIsAdmitted(p *plugin, r request) *workload.Refusal {
	return p.welcome(r.job.Queue, r.rules, r.job.Namespace)
}

// tenant is whose jobs are, as far as a queue that chooses its namespaces goes.
type tenant struct {
	queue     api.QueueID
	namespace string
}

// welcome returns why a queue does not take jobs of a namespace, nil when it does. It
// remembers that for the session, so that a namespace whose labels change is judged alike
// from the first check to the last. Many goroutines may ask.
func (p *plugin) welcome(queue api.QueueID, rules *workload.QueueRules, namespace string) *workload.Refusal {
	if rules == nil || rules.Namespaces == nil {
		return nil
	}
	p.tenantsLock.Lock()
	defer p.tenantsLock.Unlock()
	refusal, known := p.tenants[tenant{queue, namespace}]
	if !known {
		var object *corev1.Namespace // nil is one that is not known, or not yet
		if p.namespaces != nil {
			object, _ = p.namespaces.Get(namespace)
		}
		refusal = workload.CheckNamespace(string(queue), rules.Namespaces, namespace, object)
		p.tenants[tenant{queue, namespace}] = refusal
	}
	return refusal
}

func requestIsReadable(_ *plugin, r request) *workload.Refusal { return r.ask.Denied }

// queueHasRoom: CPU and memory fit, and on some card that the pod may use its cards do.
func queueHasRoom(p *plugin, r request) *workload.Refusal {
	if short := p.account.FitsAnyCard(string(r.job.Queue), r.ask.Request); short != nil {
		return r.rules.RefusalFor(short)
	}
	return nil
}

// takesFromOthers: the pod asks for cards, and its service type takes from some other.
func takesFromOthers(p *plugin, r request) *workload.Refusal {
	if kind := p.TypeOf(r.task); r.ask.Count == 0 || !p.args.serviceTypes.Reclaims(kind) {
		return &workload.Refusal{Message: fmt.Sprintf("pods of service type %q take no cards from others", kind)}
	}
	return nil
}

func cardIsAllowed(p *plugin, r request) *workload.Refusal {
	if _, allowed := p.cardFor(r.ask, r.node); !allowed {
		return &workload.Refusal{Message: fmt.Sprintf("pod %s/%s may not run on the card of node %s", r.task.Namespace, r.task.Name, r.node)}
	}
	return nil
}

func queueHasRoomForTheCard(p *plugin, r request) *workload.Refusal {
	var freed quota.Released
	if r.freed != nil {
		freed = *r.freed
	}
	name, _ := p.cardFor(r.ask, r.node)
	if short := p.account.FitsAfterRelease(string(r.job.Queue), r.ask.Request, name, freed); short != nil {
		return r.rules.RefusalFor(short)
	}
	return nil
}

func roomDoesNotHang(p *plugin, r request, node *api.NodeInfo) int {
	switch {
	case !p.needsHanging(r.task, node):
		return fits
	case p.isReclaimer(r.task) || p.preemption != nil && len(p.preemptableOn(node, r.task)) == 0:
		return hangingWithoutVictims // Volcano would promise the node without evicting anybody
	}
	return hanging
}

// cardFits: the pod may run on the node's card, and there is quota for that card. A full
// quota can have room once something of the queue has ended, so that preemption inside the
// queue may help, unless too much of the queue is ending already.
func cardFits(p *plugin, r request, node *api.NodeInfo) int {
	if r.ask.Count == 0 {
		return fits
	}
	name, named := p.inv.CardOnNode(node.Name, r.ask.Resource)
	queue := string(r.job.Queue)
	switch {
	case !named:
		return namelessCard
	case !r.ask.Named.Allows(name):
		return otherCard
	case p.leavesQuotaOut(r.task) || p.account.FitsCard(queue, name, r.ask.Count):
		return fits
	case p.account.IsTerminatingOverQuota(queue, name):
		return stillEnding
	case p.isReclaimer(r.task):
		// Cards of other queues are no help: what is missing is quota. Volcano
		// would give up at such a node and not look at the next one.
		return noRoomToReclaim
	}
	return noRoom
}
