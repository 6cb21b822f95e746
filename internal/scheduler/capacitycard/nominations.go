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
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

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

	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if nominations[task.Pod.UID].node != task.NodeName {
				preempts := p.preemptors[task.Pod.UID] || p.freed.nominations[task.Pod.UID].preempts
				nominations[task.Pod.UID] = nomination{node: task.NodeName, since: p.Cache.Now(), preempts: preempts}
			}
		}

		for _, task := range job.TaskStatusIndex[api.Pending] { // nominated by a previous process
			node := task.Pod.Status.NominatedNodeName
			if _, known := nominations[task.Pod.UID]; !known && node != "" && p.hasEvictedPods(node) {
				nominations[task.Pod.UID] = nomination{node: node, since: p.Cache.Now()}
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
	if s == nil || s.Task.UID != task.UID {
		return p.computeAwaitsNominatedNode(task)
	}
	s.awaitsOnce.Do(func() { s.awaitsNominated = p.computeAwaitsNominatedNode(task) })
	return s.awaitsNominated
}

func (p *preemption) computeAwaitsNominatedNode(task *api.TaskInfo) bool {
	made, known := p.kept.freed.nominations[task.Pod.UID]
	if !known {
		made = nomination{node: task.Pod.Status.NominatedNodeName, since: p.Cache.Now()}
	}
	isDeleted := func(task *api.TaskInfo) bool { return task.Pod.DeletionTimestamp != nil }
	isLeaving := func(task *api.TaskInfo) bool { return p.IsBeingEvicted(task) && !p.run.evicts(task) }
	node := p.Volcano.Nodes[made.node]
	return anyTaskOn(node, isLeaving) && (p.Cache.Now().Sub(made.since) < nominationTimeout || anyTaskOn(node, isDeleted)) &&
		p.Volcano.PredicateForPreemptAction(task, node) == nil
}

// hasEvictedPods reports whether some pod of a node is being evicted.
func (p *KeptCards) hasEvictedPods(name string) bool {
	return anyTaskOn(p.Volcano.Nodes[name], p.IsBeingEvicted)
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
		if job := p.Volcano.Jobs[victim.Job]; job != nil {
			from[job.Queue] = true
		}
	}

	for _, task := range tasks {
		p.freed.reclaimedCards[task.Pod.UID] = nomination{node: task.NodeName, since: p.Cache.Now(), from: from, plan: plan}
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
			p.reclaimedCards[made.node] = append(p.reclaimedCards[made.node], keptCardsOwner{task, job.Queue, p.ServiceType(task), p.Volcano.Queues[job.Queue].Queue.Spec.Priority, made.from})
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
		if p.isKeptPeriodOver(made) || p.CheckQueue(job) != nil {
			continue
		}

		request := p.RequestFor(task)
		name, allowed := p.CardFor(request, made.node)
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
	if !p.Ledger.Fits(string(key.queue), quota.Request{Names: []card.Name{key.name}, Count: all}, quota.Within{Bound: quota.DeservedLeft}) {
		return false
	}
	amounts[key] = all
	return true
}

// keepQuota keeps quota of a tree for a pod for which cards are kept on a node.
func (p *KeptCards) keepQuota(task *api.TaskInfo, queue api.QueueID, node string) {
	request := p.RequestFor(task)
	name, allowed := p.CardFor(request, node)
	if !p.IsTree() || !allowed {
		return
	}
	charge := waitingCharge(request, queue, name)
	if p.keptCharges == nil {
		p.keptCharges = map[api.TaskID]*quota.Charge{}
	}
	p.keptCharges[task.UID] = charge
	p.Ledger.Keep(string(task.UID), charge)
}

// wouldBorrowFrom reports whether a pod of a tree would borrow with what a node has: its queue,
// or an ancestor that it does not share with the owner of kept cards, would use more than it
// deserves. Other jobs of the owner's queue may not borrow them either.
func (p *KeptCards) wouldBorrowFrom(owner *keptCardsOwner, r snapshot.CheckInput, node *api.NodeInfo) bool {
	if !p.IsTree() || owner.task.Job == r.Task.Job {
		return false
	}
	request := quota.Request{MilliCPU: r.Request.MilliCPU}
	if r.Request.Count > 0 {
		name, _ := p.Inventory.CardOnNode(node.Name, r.Request.Resource)
		request = r.Request.On(name).OnlyCards()
	}

	borrows := func(queue string) bool {
		return !p.Ledger.Fits(queue, request, quota.Within{Bound: quota.DeservedLeft})
	}
	return borrows(string(r.Job.Queue)) || slices.ContainsFunc(p.PathBelow(owner.queue, r.Job.Queue), borrows)
}

// preemptableTasksOn returns the pods of a node that may be evicted for another pod of their
// queue.
func (p *preemption) preemptableTasksOn(node *api.NodeInfo, preemptor *api.TaskInfo) []*api.TaskInfo {
	queue := p.Volcano.Jobs[preemptor.Job].Queue
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.Volcano.Jobs[task.Job]
		isInQueue := job != nil && job.Queue == queue
		if isInQueue && api.PreemptableStatus(task.Status) && p.mayPreempt(preemptor, task) && p.IsEvictable(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// hideOldNominations hides the nominated nodes of pending pods that no evicted pod leaves, until
// the returned function is called. Volcano also writes nodes of placements that it undid, and never
// withdraws one. It would let no such pod preempt while the node passes the predicates.
func (p *preemption) hideOldNominations() (restore func()) {
	hidden := map[*api.TaskInfo]*corev1.Pod{}
	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if node := task.Pod.Status.NominatedNodeName; node == "" || p.kept.hasEvictedPods(node) {
				continue
			}

			hidden[task] = task.Pod
			pod := *task.Pod // the original belongs to the informer
			pod.Status.NominatedNodeName = ""
			p.Cache.ReplaceObject(task.Pod, &pod)
			task.Pod = &pod
		}
	}

	return func() {
		for task, original := range hidden {
			p.Cache.ReplaceObject(task.Pod, original)
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
