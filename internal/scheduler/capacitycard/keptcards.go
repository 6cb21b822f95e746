package capacitycard

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// waitingPreemptor is a pending pod for which preempt freed cards on a node.
type waitingPreemptor struct {
	task *api.TaskInfo
	job  *api.JobInfo
	// charge is what the pod will use of the quota of its queue.
	charge *quota.Charge
}

// preemptedCards are the cards that preempt freed and that are kept for the pods that it freed
// them for.
type preemptedCards struct {
	byNode  map[string][]*waitingPreemptor
	byQueue map[api.QueueID][]*waitingPreemptor
}

// keepsQuotaFrom reports whether the quota that preempt freed for a pod is kept from another one. Once the pod is
// placed, the ledger counts it.
func (w *waitingPreemptor) keepsQuotaFrom(task *api.TaskInfo, job *api.JobInfo) bool {
	return w.task.Status == api.Pending && w.goesBefore(task, job)
}

// keepsCardsFrom reports whether the cards of a node that preempt freed for a pod are kept from another one. They
// stay kept while the pod is placed on another node and its gang cannot start yet: the next session may place it
// on this one again.
func (w *waitingPreemptor) keepsCardsFrom(task *api.TaskInfo, job *api.JobInfo, node string) bool {
	isBound := w.task.Status != api.Pending && w.task.Status != api.Allocated && w.task.Status != api.Pipelined
	if isBound || w.task.NodeName == node { // the node counts it
		return false
	}
	return w.goesBefore(task, job)
}

// goesBefore reports whether a pod for which preempt evicted others goes before another one: one of
// another queue, of a job of its queue that has no higher priority, or of its job with a lower
// priority.
func (w *waitingPreemptor) goesBefore(task *api.TaskInfo, job *api.JobInfo) bool {
	switch {
	case w.job.UID == job.UID:
		return task.Priority < w.task.Priority
	case w.job.Queue != job.Queue:
		return true
	default:
		return job.Priority <= w.job.Priority
	}
}

// KeptCards are the cards and the quota that are kept for pending pods: those that were freed for them, and
// free ones of which their jobs lack more.
type KeptCards struct {
	*snapshot.Session
	stuck *snapshot.StuckPods
	// freed are the freed cards of this and of earlier sessions.
	freed *freedCards
	// reclaimedCards are the pods for which cards were reclaimed on a node, by node.
	reclaimedCards map[string][]keptCardsOwner
	// preemptedCards are kept for the pods for which preempt freed them.
	preemptedCards preemptedCards
	// keptCharges are what is kept of the quotas of a tree for the pods of reclaimedCards.
	keptCharges map[api.TaskID]*quota.Charge
	// awaited are the free cards that are kept for waiting jobs, nil for none.
	awaited *awaitedCards
	// preemptors are the pods that the action preempt pipelined.
	preemptors map[types.UID]bool
}

// keepPreemptedCards keeps what preempt freed for the pods that it pipelined. victims are the pods that it
// evicts, by the job for which it does. Without that, pods that may evict nothing would get the cards, and
// preempt would evict again.
func (p *KeptCards) keepPreemptedCards(victims map[api.JobID][]*api.TaskInfo) {
	for id, evicted := range victims {
		job := p.Volcano.Jobs[id]
		// Volcano takes back what it did for a job that cannot start.
		if job == nil || !p.Volcano.JobPipelined(job) {
			continue
		}

		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if p.preemptors[task.Pod.UID] {
				tasks = append(tasks, task)
			}
		}

		plan := p.newEvictionPlan(evicted, tasks, p.freed.preemptedCards)
		for _, task := range tasks {
			p.freed.preemptedCards[task.Pod.UID] = nomination{node: task.NodeName, since: p.Cache.Now(), plan: plan}
		}
	}
}

// loadPreemptedCards finds the pending pods for which cards are kept, and forgets all others.
// kept is what is kept of the quotas of a tree for other pods, to which it adds.
func (p *KeptCards) loadPreemptedCards(kept map[queueCard]card.Count) {
	p.preemptedCards = preemptedCards{}
	if len(p.freed.preemptedCards) == 0 {
		return
	}

	p.preemptedCards = preemptedCards{map[string][]*waitingPreemptor{}, map[api.QueueID][]*waitingPreemptor{}}
	waiting := map[types.UID]bool{}
	for _, freed := range p.jobsWithFreedCards(p.freed.preemptedCards) {
		job := freed.job
		if job.ValidTaskNum() < job.MinAvailable {
			continue // the job cannot start
		}

		for _, task := range freed.tasks {
			made := p.freed.preemptedCards[task.Pod.UID]
			if !p.isKeptPeriodOver(made) && p.keepPreemptedCardsOn(made.node, task, job, kept) {
				waiting[task.Pod.UID] = true
			}
		}
	}
	p.forgetFreedCards(p.freed.preemptedCards, waiting)
}

// forgetFreedCards forgets the cards of all pods but those that wait, and those that are being bound: when a
// binding fails, the pod waits again.
func (p *KeptCards) forgetFreedCards(freed map[types.UID]nomination, waiting map[types.UID]bool) {
	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Binding] {
			waiting[task.Pod.UID] = true
		}
	}
	maps.DeleteFunc(freed, func(uid types.UID, _ nomination) bool { return !waiting[uid] })
}

// keepPreemptedCardsOn keeps cards on a node for a pod. It keeps none if the pod cannot use
// them any more: the node is gone, the queue accepts no pods, or its quota was lowered.
func (p *KeptCards) keepPreemptedCardsOn(node string, task *api.TaskInfo, job *api.JobInfo, kept map[queueCard]card.Count) bool {
	request := p.RequestFor(task)
	name, allowed := p.CardFor(request, node)
	couldFit := p.Ledger.Fits(string(job.Queue), request.On(name).OnlyCards(), quota.Within{Bound: quota.QuotaIfIdle})
	if p.Volcano.Nodes[node] == nil || !allowed || !couldFit || p.CheckQueue(job) != nil {
		return false
	}

	w := &waitingPreemptor{task: task, job: job, charge: waitingCharge(request, job.Queue, name)}
	p.preemptedCards.byNode[node] = append(p.preemptedCards.byNode[node], w)
	p.preemptedCards.byQueue[job.Queue] = append(p.preemptedCards.byQueue[job.Queue], w)

	key := queueCard{job.Queue, name}
	if all := kept[key].Add(request.Count); p.Ledger.Fits(string(job.Queue), quota.Request{Names: []card.Name{name}, Count: all}, quota.Within{Bound: quota.DeservedLeft}) { // with borrowed cards other queues come first
		kept[key] = all
		p.keepQuota(task, job.Queue, node)
	}

	return true
}

// jobWithFreedCards is a job and its pending pods for which cards were freed.
type jobWithFreedCards struct {
	job   *api.JobInfo
	tasks []*api.TaskInfo
}

// jobsWithFreedCards returns the jobs with pending pods for which cards were freed. Jobs and their
// pods come in the order in which that happened: a lowered quota ends what was freed last.
func (p *KeptCards) jobsWithFreedCards(freed map[types.UID]nomination) []jobWithFreedCards {
	compare := func(a, b *api.TaskInfo) int {
		return cmp.Or(freed[a.Pod.UID].since.Compare(freed[b.Pod.UID].since), cmp.Compare(a.UID, b.UID))
	}

	var jobs []jobWithFreedCards
	for _, job := range p.Volcano.Jobs {
		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if _, known := freed[task.Pod.UID]; known {
				tasks = append(tasks, task)
			}
		}

		if len(tasks) > 0 {
			slices.SortFunc(tasks, compare)
			jobs = append(jobs, jobWithFreedCards{job, tasks})
		}
	}

	slices.SortFunc(jobs, func(a, b jobWithFreedCards) int { return compare(a.tasks[0], b.tasks[0]) })
	return jobs
}

// waitingCharge returns what a pending pod will use of a queue with a card. What it uses of what cannot be
// reclaimed is kept for it as well.
func waitingCharge(request *workload.Request, queue api.QueueID, name card.Name) *quota.Charge {
	charge := &quota.Charge{Queue: string(queue), MilliCPU: request.MilliCPU, Memory: request.Memory, IsUnreclaimable: request.IsUnreclaimable}
	if request.Count > 0 {
		charge.Cards = []card.Amount{{Name: name, Count: request.Count}}
	}
	return charge
}

// keptOnNode returns what is kept on a node from a pod, nil if nothing is.
func (p *KeptCards) keptOnNode(task *api.TaskInfo, job *api.JobInfo, node string) (kept *api.Resource) {
	for _, w := range p.preemptedCards.byNode[node] {
		if !w.keepsCardsFrom(task, job, node) {
			continue
		}
		if kept == nil {
			kept = api.EmptyResource()
		}
		kept.Add(w.task.InitResreq)
	}
	return kept
}

// fitsBesideKept reports whether a pod fits what a node has idle or will have, beside what is
// kept from it there.
func (p *KeptCards) fitsBesideKept(task *api.TaskInfo, job *api.JobInfo, node *api.NodeInfo) bool {
	kept := p.keptOnNode(task, job, node.Name)
	return kept == nil || kept.Add(task.InitResreq).LessEqual(p.stuck.FutureIdleOn(node), api.Zero)
}

// IdleFor returns what a node has idle or will have for a pod: without the resources of stuck
// pods, and without what is kept from the pod. Of the cards that are kept for waiting jobs those count that are
// free now.
func (p *KeptCards) IdleFor(task *api.TaskInfo, node *api.NodeInfo) *api.Resource {
	idle := p.stuck.FutureIdleOn(node)
	if kept := p.keptOnNode(task, p.Volcano.Jobs[task.Job], node.Name); kept != nil {
		idle.MilliCPU -= kept.MilliCPU
		idle.Memory -= kept.Memory
		for name, quantity := range kept.ScalarResources {
			idle.AddScalar(name, -quantity)
		}
	}

	if r, known := p.CheckInputFor(task); known {
		if awaited := p.awaitedOnNode(r, node); awaited > 0 {
			free := max(0, idle.Get(r.Request.Resource))
			idle.AddScalar(r.Request.Resource, -min(free, float64(awaited)*snapshot.Milli))
		}
	}

	return idle
}

// keepsCardsOn reports whether some cards of a node may be kept from a pod, at a glance: IdleFor knows what is
// left for it. Volcano counts kept cards as free, so it would evict too few pods on such a node.
func (p *KeptCards) keepsCardsOn(task *api.TaskInfo, node *api.NodeInfo) bool {
	if len(p.preemptedCards.byNode[node.Name]) > 0 {
		return true
	}
	r, known := p.CheckInputFor(task)
	return known && p.awaitedOnNode(r, node) > 0
}

// keptInQueue adds to what a check treats as released what is kept in the queue of a pod from
// the pod, as a negative amount.
func (p *KeptCards) keptInQueue(r snapshot.CheckInput, released quota.Released) quota.Released {
	// From most pods nothing is kept, and each check of a pod would pay for a copy.
	isCopy := false
	for _, w := range p.preemptedCards.byQueue[r.Job.Queue] {
		if !w.keepsQuotaFrom(r.Task, r.Job) {
			continue
		}

		if !isCopy {
			released = released.Clone()
			isCopy = true
		}
		released.Remove(w.charge)
	}

	return released
}

// preemptedQuotaStaysFree: the quota has room besides what preempt freed for others, with the
// card of the node or with some card of the request.
func preemptedQuotaStaysFree(p *KeptCards, r snapshot.CheckInput) *workload.Refusal {
	// A pod whose card no node names takes none of the kept quota.
	hasNoCard := r.Request.Count > 0 && len(r.Request.Names) == 0
	if len(p.preemptedCards.byQueue[r.Job.Queue]) == 0 || hasNoCard {
		return nil
	}

	request := r.Request.Request
	if r.Node != "" {
		name, _ := p.CardFor(r.Request, r.Node)
		request = request.On(name)
	}

	within := r.Within()
	within.Released = p.keptInQueue(r, within.Released)
	refusal := p.CheckWithin(r, request, within)
	if refusal != nil {
		refusal.IsKept = true
	}
	return refusal
}

// checkQuota returns why a pod does not fit the quota of its queue on any card, beside what is kept
// for others, nil if it does.
func (p *KeptCards) checkQuota(r snapshot.CheckInput) *workload.Refusal {
	if refusal := p.RunChecks(snapshot.QuotaChecks, r); refusal != nil {
		return refusal
	}
	return preemptedQuotaStaysFree(p, r)
}

// checkCard returns why a pod may not use the card of its node, nil if it may.
func (p *KeptCards) checkCard(r snapshot.CheckInput) *workload.Refusal {
	if refusal := p.RunChecks(snapshot.CardChecks, r); refusal != nil {
		return refusal
	}
	return preemptedQuotaStaysFree(p, r)
}

// checkPlace returns why a pod may not be where it is placed, nil if it may.
func (p *KeptCards) checkPlace(r snapshot.CheckInput) *workload.Refusal {
	if refusal := p.RunChecks(snapshot.PlaceChecks, r); refusal != nil {
		return refusal
	}
	return preemptedQuotaStaysFree(p, r)
}

// isKeptNodeFor reports whether the node of an attempt that Volcano does not name may be one
// where a pod would take what is kept from it.
func (p *preemption) isKeptNodeFor(r snapshot.CheckInput) bool {
	isKept := func(name string) bool {
		node := p.Volcano.Nodes[name]
		_, allowed := p.CardFor(r.Request, name)
		if node == nil || !allowed || !r.Task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
			return false
		}
		return !r.Task.InitResreq.LessEqual(p.kept.IdleFor(r.Task, node), api.Zero) && len(p.preemptableTasksOn(node, r.Task)) > 0
	}

	for name := range p.kept.preemptedCards.byNode {
		if isKept(name) {
			return true
		}
	}

	if p.kept.awaited == nil {
		return false
	}

	for name := range p.kept.awaited.byNode {
		if isKept(name) {
			return true
		}
	}

	return false
}

// IsNominated reports whether a node is nominated for a pod, or cards are kept for it there. So
// a search for it may have another result than for an equal pod.
func (p *KeptCards) IsNominated(task *api.TaskInfo) bool {
	_, isKept := p.freed.preemptedCards[task.Pod.UID]
	_, isNominated := p.freed.nominations[task.Pod.UID]
	return isKept || isNominated || task.Pod.Status.NominatedNodeName != ""
}
