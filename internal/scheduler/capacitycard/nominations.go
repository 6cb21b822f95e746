package capacitycard

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// evictionTimeout is how long an evicted pod may take until it is deleted. After that the
// eviction counts as failed.
const evictionTimeout = time.Minute

// nominationTimeout is how long a pod waits for its nominated node while no pod there is
// deleted.
const nominationTimeout = 5 * time.Minute

// nomination is the node to which a pod was pipelined first, or on which cards were reclaimed
// for it.
type nomination struct {
	node  string
	since time.Time
	// preempts reports whether the action preempt evicted pods for the pod.
	preempts bool
	// from are the queues from which pods were evicted for the pod by cardreclaim.
	from map[api.QueueID]bool
	// plan has all evictions for the pod and for those that were placed with it, nil for a node without
	// kept cards.
	plan *evictionPlan
}

// saveNominations stores the nodes of pipelined pods when the session closes, and keeps older
// ones while evicted pods leave the node. The API server may be too slow to show either by the
// next session.
func (p *KeptCards) saveNominations() {
	nominations := map[types.UID]nomination{}
	for uid, made := range p.freed.nominations {
		if p.hasEvictedPods(made.node) {
			nominations[uid] = made
		}
	}

	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if nominations[task.Pod.UID].node != task.NodeName {
				preempts := p.preemptors[task.Pod.UID] || p.freed.nominations[task.Pod.UID].preempts
				nominations[task.Pod.UID] = nomination{node: task.NodeName, since: p.cache.Now(), preempts: preempts}
			}
		}

		for _, task := range job.TaskStatusIndex[api.Pending] { // nominated by a previous process
			node := task.Pod.Status.NominatedNodeName
			if _, known := nominations[task.Pod.UID]; !known && node != "" && p.hasEvictedPods(node) {
				nominations[task.Pod.UID] = nomination{node: node, since: p.cache.Now()}
			}
		}
	}

	p.freed.nominations = nominations
}

// nominatedAmong returns the nominated node of a pod, nil if it is not among the scored nodes.
// The pods of a gang are nominated together. If one went elsewhere, it could take the place of
// another. Volcano itself uses a nomination only when the API server shows it, and only after
// evictions.
func (p *KeptCards) nominatedAmong(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	made, known := p.freed.nominations[task.Pod.UID]
	if !known {
		made, known = p.keptNodeFor(task)
	}
	if !known {
		return nil
	}

	for _, nodes := range scored {
		for _, node := range nodes {
			if node.Name == made.node {
				return node
			}
		}
	}

	return nil
}

// keptNodeFor returns the node on which freed cards are kept for a pod. The nomination ends earlier, when the
// pod was placed once and its gang was not.
func (p *KeptCards) keptNodeFor(task *api.TaskInfo) (made nomination, known bool) {
	made, known = p.freed.preemptedCards[task.Pod.UID]
	if !known {
		made, known = p.freed.reclaimedCards[task.Pod.UID]
	}
	return made, known
}

// awaitsNominatedNode reports whether a pod needs no eviction, because pods are leaving the
// node nominated for it, which were evicted before this session. It waits only while the node still
// accepts the pod, and for a bounded time. The answer stays true for the whole node search.
func (p *preemption) awaitsNominatedNode(task *api.TaskInfo) bool {
	s := p.search.Load()
	if s == nil || s.task.UID != task.UID {
		return p.computeAwaitsNominatedNode(task)
	}
	s.awaitsOnce.Do(func() { s.awaitsNominated = p.computeAwaitsNominatedNode(task) })
	return s.awaitsNominated
}

func (p *preemption) computeAwaitsNominatedNode(task *api.TaskInfo) bool {
	made, known := p.kept.freed.nominations[task.Pod.UID]
	if !known {
		made = nomination{node: task.Pod.Status.NominatedNodeName, since: p.cache.Now()}
	}
	isDeleted := func(task *api.TaskInfo) bool { return task.Pod.DeletionTimestamp != nil }
	isLeaving := func(task *api.TaskInfo) bool { return p.isBeingEvicted(task) && !p.run.evicts(task) }
	node := p.ssn.Nodes[made.node]
	return anyTaskOn(node, isLeaving) && (p.cache.Now().Sub(made.since) < nominationTimeout || anyTaskOn(node, isDeleted)) &&
		p.ssn.PredicateForPreemptAction(task, node) == nil
}

// hasEvictedPods reports whether some pod of a node is being evicted.
func (p *KeptCards) hasEvictedPods(name string) bool {
	return anyTaskOn(p.ssn.Nodes[name], p.isBeingEvicted)
}

// anyTaskOn reports whether some pod of a node, which may be nil, meets the condition.
func anyTaskOn(node *api.NodeInfo, is func(*api.TaskInfo) bool) bool {
	if node != nil {
		for _, task := range node.Tasks {
			if is(task) {
				return true
			}
		}
	}
	return false
}

// isBeingEvicted reports whether a pod was evicted and still exists. A pod that a user deleted,
// or that is stuck, does not count.
func (p *Session) isBeingEvicted(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	if task.Pod.DeletionTimestamp != nil {
		return evicted && !p.IsStuckTerminating(task)
	}
	return isEvictionPending(task, task.Status) || (evicted && p.cache.Now().Sub(since) < evictionTimeout)
}

// keptCardsOwner is a pod for which reclaimed cards are kept on a node.
type keptCardsOwner struct {
	task *api.TaskInfo
	// queue is that of the pod, ServiceType that of the pod, priority that of its queue.
	queue       api.QueueID
	serviceType string
	priority    int32
	// from are the queues from which the cards were reclaimed.
	from map[api.QueueID]bool
}

// KeepReclaimedCards records that cards of some victims were reclaimed for pipelined pods of a job. cardreclaim
// plans another eviction, with other victims, when a gang loses one of its nodes. The cards of its other nodes
// stay kept from the queues that lost them.
func (p *KeptCards) KeepReclaimedCards(tasks, victims []*api.TaskInfo) {
	from := map[api.QueueID]bool{}
	plan := p.newEvictionPlan(victims, tasks, p.freed.reclaimedCards)
	for _, made := range keptOnSameNode(tasks, p.freed.reclaimedCards) {
		maps.Copy(from, made.from)
	}

	for _, victim := range victims {
		if job := p.ssn.Jobs[victim.Job]; job != nil {
			from[job.Queue] = true
		}
	}

	for _, task := range tasks {
		p.freed.reclaimedCards[task.Pod.UID] = nomination{node: task.NodeName, since: p.cache.Now(), from: from, plan: plan}
	}
}

// loadReclaimedCards finds the pending pods for which cards are kept, and forgets all others.
func (p *KeptCards) loadReclaimedCards() {
	p.reclaimedCards = nil
	p.keptCharges = nil
	kept := map[queueCard]card.Count{}
	// What preempt freed is kept beside all that is kept for reclaimers.
	defer p.loadPreemptedCards(kept)

	if len(p.freed.reclaimedCards) == 0 {
		return
	}

	p.reclaimedCards = map[string][]keptCardsOwner{}
	waiting := map[types.UID]bool{}
	for _, freed := range p.jobsWithFreedCards(p.freed.reclaimedCards) {
		job := freed.job
		tasks, others := p.tasksKeepingCards(job, freed.tasks, kept)
		for _, task := range others { // counts in its gang until its time is over
			waiting[task.Pod.UID] = true
			made := p.freed.reclaimedCards[task.Pod.UID]
			p.freed.reclaimedCards[task.Pod.UID] = nomination{since: made.since, plan: made.plan}
		}

		for _, task := range tasks {
			made := p.freed.reclaimedCards[task.Pod.UID]
			waiting[task.Pod.UID] = true
			p.keepQuota(task, job.Queue, made.node)
			p.reclaimedCards[made.node] = append(p.reclaimedCards[made.node], keptCardsOwner{task, job.Queue, p.ServiceType(task), p.ssn.Queues[job.Queue].Queue.Spec.Priority, made.from})
		}
	}

	p.forgetFreedCards(p.freed.reclaimedCards, waiting)
}

// queueCard is a card of a queue.
type queueCard struct {
	queue api.QueueID
	name  card.Name
}

// tasksKeepingCards returns those of a job's pending pods for which cards are still kept. Its queue
// must deserve them beside what it uses and what is kept for its other pods: its quota may be
// lowered, and other pods may use it up. Pods that lost their cards so are returned as others. A
// gang keeps nothing once too few pods are left besides others whose queue deserves no other card.
// kept is what is kept for other jobs, to which this one is added.
func (p *KeptCards) tasksKeepingCards(job *api.JobInfo, pending []*api.TaskInfo, kept map[queueCard]card.Count) (tasks, others []*api.TaskInfo) {
	// What a gang would keep counts only if the gang keeps it in the end.
	added := maps.Clone(kept)
	for _, task := range pending {
		made := p.freed.reclaimedCards[task.Pod.UID]
		if p.isKeptPeriodOver(made) || p.checkQueue(job) != nil {
			continue
		}

		request := p.RequestFor(task)
		name, allowed := p.cardFor(request, made.node)
		if made.node == "" || (allowed && !p.addDeserved(queueCard{job.Queue, name}, request.Count, added)) {
			others = append(others, task)
			continue
		}
		tasks = append(tasks, task)
	}

	if refused := p.countWithoutCard(others, job.Queue, added); refused > 0 && len(job.Tasks)-refused < int(job.MinAvailable) {
		return nil, nil
	}
	maps.Copy(kept, added)

	return tasks, others
}

// countWithoutCard returns how many pods that lost their cards have no other card that their queue
// deserves beside the amounts. They come after all pods that keep theirs, in whatever order the
// session has them.
func (p *KeptCards) countWithoutCard(tasks []*api.TaskInfo, queue api.QueueID, amounts map[queueCard]card.Count) int {
	refused := 0
	all := maps.Clone(amounts)
	for _, task := range tasks {
		request := p.RequestFor(task)
		if !slices.ContainsFunc(request.Names, func(name card.Name) bool { return p.addDeserved(queueCard{queue, name}, request.Count, all) }) {
			refused++
		}
	}
	return refused
}

// addDeserved adds cards to the amounts if their queue deserves them beside these.
func (p *KeptCards) addDeserved(key queueCard, count card.Count, amounts map[queueCard]card.Count) bool {
	all := amounts[key].Add(count)
	if !p.ledger.Deserves(string(key.queue), quota.Resource(key.name), int64(all)) {
		return false
	}
	amounts[key] = all
	return true
}

// keepQuota keeps quota of a tree for a pod for which cards are kept on a node.
func (p *KeptCards) keepQuota(task *api.TaskInfo, queue api.QueueID, node string) {
	request := p.RequestFor(task)
	name, allowed := p.cardFor(request, node)
	if !p.IsTree() || !allowed {
		return
	}
	charge := waitingCharge(request, queue, name)
	if p.keptCharges == nil {
		p.keptCharges = map[api.TaskID]*quota.Charge{}
	}
	p.keptCharges[task.UID] = charge
	p.ledger.Keep(string(task.UID), charge)
}

// reclaimedCardsStayFree: the node has room besides the cards kept for pending reclaimers that
// may reclaim from this pod, or from which this pod of a tree would borrow. They are also kept from
// the queues that lost them: a gang goes as a whole, so a queue may then be below what it deserves,
// and would take back what the reclaimer waits for. What this session placed is already counted on
// the node.
func reclaimedCardsStayFree(p *nodeChoice, r checkInput, node *api.NodeInfo) int {
	if len(p.kept.reclaimedCards[node.Name]) == 0 {
		return nodeFits
	}

	needed := r.task.InitResreq.Clone()
	found := false
	serviceType := p.ServiceType(r.task)

	queue := p.ssn.Queues[r.job.Queue]
	kept := p.kept.reclaimedCards[node.Name]
	for i := range kept {
		h := &kept[i]
		byMatrix := queue != nil && queue.Queue.Spec.Priority < h.priority && p.args.serviceTypes.CanReclaim(h.serviceType, serviceType)
		if h.task.Status == api.Pending && (byMatrix || h.from[r.job.Queue] || p.kept.wouldBorrowFrom(h, r, node)) {
			needed.Add(h.task.InitResreq)
			found = true
		}
	}

	if found && !needed.LessEqual(p.stuck.FutureIdleOn(node), api.Zero) {
		return reclaimedByOthers
	}

	return nodeFits
}

// wouldBorrowFrom reports whether a pod of a tree would borrow with what a node has: its queue,
// or an ancestor that it does not share with the owner of kept cards, would use more than it
// deserves. Other jobs of the owner's queue may not borrow them either.
func (p *KeptCards) wouldBorrowFrom(owner *keptCardsOwner, r checkInput, node *api.NodeInfo) bool {
	if !p.IsTree() || owner.task.Job == r.task.Job {
		return false
	}
	resource := quota.CPU
	if r.request.Count > 0 {
		name, _ := p.inventory.CardOnNode(node.Name, r.request.Resource)
		resource = quota.Resource(name)
	}

	count := r.request.Amount(resource)
	borrows := func(queue string) bool { return !p.ledger.Deserves(queue, resource, count) }
	return borrows(string(r.job.Queue)) || slices.ContainsFunc(p.PathBelow(owner.queue, r.job.Queue), borrows)
}

// stuckAfter is how long after its grace period a terminating pod counts as stuck. A finalizer
// or a missing kubelet may keep it for ever.
const stuckAfter = 5 * time.Minute

// stuckPods are terminating pods long past their grace period.
type stuckPods struct {
	*Session
	// stuckPods are by node.
	stuckPods map[string][]*api.TaskInfo
}

// findStuckPods finds the stuck pods of all nodes, also those without a job.
func (p *stuckPods) findStuckPods() {
	p.stuckPods = map[string][]*api.TaskInfo{}
	for _, node := range p.ssn.NodeList {
		for _, task := range node.Tasks {
			if task.Status == api.Releasing && p.IsStuckTerminating(task) {
				p.stuckPods[node.Name] = append(p.stuckPods[node.Name], task)
			}
		}
	}
}

// IsStuckTerminating reports whether a pod still exists long after its grace period.
func (p *Session) IsStuckTerminating(task *api.TaskInfo) bool {
	deleted := task.Pod.DeletionTimestamp
	return deleted != nil && p.cache.Now().Sub(deleted.Time) >= stuckAfter
}

// noStuckPodConflicts: no stuck pod conflicts with the pod. Volcano's preempt ignores
// terminating pods, and would pipeline the pod to the node for ever.
func noStuckPodConflicts(p *nodeChoice, r checkInput, node *api.NodeInfo) int {
	if slices.ContainsFunc(p.stuck.stuckPods[node.Name], func(other *api.TaskInfo) bool { return workload.ConflictOnNode(r.task.Pod, other.Pod) }) {
		return conflictsWithStuckPod
	}
	return nodeFits
}

// FutureIdleOn returns what a node has idle or will have, without the resources of stuck pods.
// Volcano expects those back, and would pipeline pods to them for ever.
func (p *stuckPods) FutureIdleOn(node *api.NodeInfo) *api.Resource {
	idle := node.FutureIdle()
	for _, task := range p.stuckPods[node.Name] {
		// Volcano's Sub panics if less is left.
		idle.MilliCPU -= task.Resreq.MilliCPU
		idle.Memory -= task.Resreq.Memory
		for name, quantity := range task.Resreq.ScalarResources {
			if _, known := idle.ScalarResources[name]; known {
				idle.ScalarResources[name] -= quantity
			}
		}
	}

	return idle
}

// needsStuckCards reports whether a pod fits a node only after stuck pods are gone.
func (p *stuckPods) needsStuckCards(task *api.TaskInfo, node *api.NodeInfo) bool {
	return len(p.stuckPods[node.Name]) > 0 && task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) &&
		!task.InitResreq.LessEqual(node.Idle, api.Zero) && !task.InitResreq.LessEqual(p.FutureIdleOn(node), api.Zero)
}

// preemptableTasksOn returns the pods of a node that may be evicted for another pod of their
// queue.
func (p *preemption) preemptableTasksOn(node *api.NodeInfo, preemptor *api.TaskInfo) []*api.TaskInfo {
	queue := p.ssn.Jobs[preemptor.Job].Queue
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.ssn.Jobs[task.Job]
		isInQueue := job != nil && job.Queue == queue
		if isInQueue && api.PreemptableStatus(task.Status) && p.mayPreempt(preemptor, task) && p.isEvictable(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// conflictsArePreemptable: preempt may evict all pods that conflict with the pod. Volcano
// pipelines a pod to a node that needs no eviction without this check, and tries no other node
// when that is refused.
func conflictsArePreemptable(p *nodeChoice, r checkInput, node *api.NodeInfo) int {
	if p.preemption.run == nil || p.victims.hasNoConflicts(r.task, node) {
		return nodeFits
	}
	if _, _, useful := p.victims.splitConflicting(r.task, node, p.preemption.preemptableTasksOn(node, r.task)); !useful {
		return conflictNotPreemptable
	}
	return nodeFits
}

// hideOldNominations hides the nominated nodes of pending pods that no evicted pod leaves, until
// the returned function is called. Volcano also writes nodes of placements that it undid, and never
// withdraws one. It would let no such pod preempt while the node passes the predicates.
func (p *preemption) hideOldNominations() (restore func()) {
	hidden := map[*api.TaskInfo]*corev1.Pod{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if node := task.Pod.Status.NominatedNodeName; node == "" || p.kept.hasEvictedPods(node) {
				continue
			}

			hidden[task] = task.Pod
			pod := *task.Pod // the original belongs to the informer
			pod.Status.NominatedNodeName = ""
			p.cache.ReplaceObject(task.Pod, &pod)
			task.Pod = &pod
		}
	}

	return func() {
		for task, original := range hidden {
			p.cache.ReplaceObject(task.Pod, original)
			task.Pod = original
		}
	}
}

// evicts reports whether the action evicts a pod in this session.
func (p *preemptRun) evicts(task *api.TaskInfo) bool {
	return p != nil && (p.evicted[task.Job][task.UID] != nil || p.restOfGangs[task.Job] != nil)
}

// freedCards are the cards that evictions freed for pending pods, and the nodes that these pods wait for, as
// the sessions know them.
type freedCards struct {
	// nominations are the nodes of pipelined pods, by UID.
	nominations map[types.UID]nomination
	// reclaimedCards are the nodes on which cards were reclaimed for pending pods, by UID. The node is
	// "" once the quota no longer allows them.
	reclaimedCards map[types.UID]nomination
	// preemptedCards are the nodes on which preempt freed cards for pending pods, by UID.
	preemptedCards map[types.UID]nomination
}

// newFreedCards returns no cards.
func newFreedCards() *freedCards {
	return &freedCards{nominations: map[types.UID]nomination{}, reclaimedCards: map[types.UID]nomination{}, preemptedCards: map[types.UID]nomination{}}
}
