package capacitycard

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// request is what is checked: that of a pod, or of anything that a queue would take of a
// namespace when there is no task.
type request struct {
	queue     api.QueueID
	namespace string
	task      *api.TaskInfo
	ask       *workload.Request
	// node is where the pod would run, "" before a node is looked for.
	node string
	// freed is what others would have given back by then.
	freed quota.Freed
}

// checkFunc says why a request is refused, nil when it has nothing against it.
type checkFunc func(*plugin, request) *workload.Refusal

// nodeCheckFunc says why a node is refused to a pod, in the words of the predicate; it fits when
// it has nothing against it.
type nodeCheckFunc func(*plugin, request, *api.NodeInfo) unfitKey

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
	nodeChecks = []nodeCheckFunc{noPodKeepsItOff, noPodStaysApart, roomDoesNotHang, roomIsNotHeld, nodeHasTheCard, quotaFitsTheNode}
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
	job, known := p.ssn.Jobs[task.Job]
	if !known {
		return request{}, false
	}
	return request{queue: job.Queue, namespace: job.Namespace, task: task, ask: p.askOf(task)}, true
}

// closedGate says why a queue takes nothing at all of a namespace now, nil when it
// does.
func (p *plugin) closedGate(queue api.QueueID, namespace string) *workload.Refusal {
	return p.refusal(queueChecks, request{queue: queue, namespace: namespace})
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

func queueExists(p *plugin, r request) *workload.Refusal {
	if _, exists := p.rules[r.queue]; exists {
		return nil
	}
	return &workload.Refusal{Reason: workload.ReasonQueueNotFound, Message: fmt.Sprintf("Queue <%s> does not exist", r.queue)}
}

func queueIsUsable(p *plugin, r request) *workload.Refusal { return p.rules[r.queue].Refusal }

func namespaceIsAdmitted(p *plugin, r request) *workload.Refusal {
	return p.leftOut(r.queue, r.namespace, p.rules[r.queue].Namespaces)
}

func requestIsReadable(_ *plugin, r request) *workload.Refusal { return r.ask.Denied }

// queueHasRoom: CPU and memory fit, and on some card that the pod may use its cards do.
func queueHasRoom(p *plugin, r request) *workload.Refusal {
	if short := p.account.Fits(string(r.queue), r.ask.Request); short != nil {
		return p.rules[r.queue].Short(short)
	}
	return nil
}

// takesFromOthers: the pod asks for cards, and its service type takes from some other.
func takesFromOthers(p *plugin, r request) *workload.Refusal {
	if kind := p.serviceType(r.task); r.ask.Count == 0 || !p.args.serviceTypes.Takes(kind) {
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
	name, _ := p.cardFor(r.ask, r.node)
	if short := p.account.FitsNode(string(r.queue), r.ask.Request, name, r.freed); short != nil {
		return p.rules[r.queue].Short(short)
	}
	return nil
}

func noPodKeepsItOff(p *plugin, r request, node *api.NodeInfo) (key unfitKey) {
	if p.isKeptOff(r.task, node) {
		key.why = keptOff
	}
	return key
}

func noPodStaysApart(p *plugin, r request, node *api.NodeInfo) (key unfitKey) {
	if p.staysApart(r.task, node) {
		key.why = staysApart
	}
	return key
}

func roomDoesNotHang(p *plugin, r request, node *api.NodeInfo) (key unfitKey) {
	switch {
	case !p.needsHanging(r.task, node):
	case p.isReclaimer(r.task) || p.preemption != nil && !p.mayPreemptOn(node, r.task):
		key.why = hangingWithoutVictims // Volcano would promise the node without evicting anybody
	default:
		key.why = hanging
	}
	return key
}

func roomIsNotHeld(p *plugin, r request, node *api.NodeInfo) (key unfitKey) {
	if p.isHeld(r.task, node) {
		key.why = heldForOthers
	}
	return key
}

func nodeHasTheCard(p *plugin, r request, node *api.NodeInfo) unfitKey {
	if r.ask.Count == 0 {
		return unfitKey{}
	}
	name, named := p.inv.On(node.Name, r.ask.Resource)
	switch {
	case !named:
		return unfitKey{why: namelessCard, text: string(r.ask.Resource)}
	case !r.ask.Named.Allows(name):
		return unfitKey{why: otherCard, text: r.ask.Named.String()}
	}
	return unfitKey{}
}

// quotaFitsTheNode: a full quota can have room once something of the queue has ended, so
// that preemption inside the queue may help, unless too much of the queue is ending already.
func quotaFitsTheNode(p *plugin, r request, node *api.NodeInfo) unfitKey {
	name, _ := p.inv.On(node.Name, r.ask.Resource)
	if r.ask.Count == 0 || p.leavesQuotaOut(r.task) || p.account.FitsOn(string(r.queue), name, r.ask.Count) {
		return unfitKey{}
	}
	key := unfitKey{why: noRoom, queue: r.queue, name: name, limit: p.rules[r.queue].Limits.Cards[name]}
	switch {
	case p.account.Crowded(string(r.queue), name):
		key.why = stillEnding
		_, key.within = p.account.Ending(string(r.queue), name)
		return key
	case p.isReclaimer(r.task):
		// Cards of other queues are no help: what is missing is quota. Volcano
		// would give up at such a node and not look at the next one.
		key.why = noRoomToReclaim
	}
	key.count = r.ask.Count
	return key
}
