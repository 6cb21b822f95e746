package keptcards

import (
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

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

// KeepPreemptedCards records that preempt evicts some victims for pipelined pods of a job. Without that, pods
// that may evict nothing would get the cards, and preempt would evict again.
func (k *Kept) KeepPreemptedCards(tasks, victims []*api.TaskInfo) {
	plan := k.periods.newEvictionPlan(victims, tasks, k.freed.Preempted)
	for _, task := range tasks {
		k.freed.Preempted[task.Pod.UID] = Nomination{Node: task.NodeName, Since: k.Now(), plan: plan}
	}
}

// loadPreemptedCards finds the pending pods for which preempt freed cards that are still kept, and forgets
// all others. kept is what is kept of the quotas of a tree for other pods, to which it adds.
func (k *Kept) loadPreemptedCards(kept map[snapshot.QueueCard]card.Count) {
	k.preemptedCards = preemptedCards{}
	if len(k.freed.Preempted) == 0 {
		return
	}

	k.preemptedCards = preemptedCards{map[string][]*waitingPreemptor{}, map[api.QueueID][]*waitingPreemptor{}}
	waiting := map[types.UID]bool{}
	for _, freed := range k.jobsWithFreedCards(k.freed.Preempted) {
		job := freed.job
		if job.ValidTaskNum() < job.MinAvailable {
			continue // the job cannot start
		}

		for _, task := range freed.tasks {
			nomination := k.freed.Preempted[task.Pod.UID]
			if !k.periods.isOver(nomination) && k.keepPreemptedCardsOn(nomination.Node, task, job, kept) {
				waiting[task.Pod.UID] = true
			}
		}
	}
	k.forgetFreedCards(k.freed.Preempted, waiting)
}

// keepPreemptedCardsOn keeps cards on a node for a pod, and reports whether it does. It keeps none if the pod
// cannot use them any more: the node is gone, the queue accepts no pods, or its quota was lowered.
func (k *Kept) keepPreemptedCardsOn(node string, task *api.TaskInfo, job *api.JobInfo, kept map[snapshot.QueueCard]card.Count) bool {
	request := k.RequestFor(task)
	name, allowed := k.CardFor(request, node)
	couldFit := k.Ledger.Fits(string(job.Queue), request.On(name).OnlyCards(), quota.Within{Bound: quota.QuotaIfIdle})
	if k.Volcano.Nodes[node] == nil || !allowed || !couldFit || k.CheckQueue(job) != nil {
		return false
	}

	preemptor := &waitingPreemptor{task: task, job: job, charge: waitingCharge(request, job.Queue, name)}
	k.preemptedCards.byNode[node] = append(k.preemptedCards.byNode[node], preemptor)
	k.preemptedCards.byQueue[job.Queue] = append(k.preemptedCards.byQueue[job.Queue], preemptor)

	// Quota of the ancestors is kept only for what the queue deserves: before it borrows, other queues come first.
	if k.addDeserved(snapshot.QueueCard{Queue: job.Queue, Name: name}, request.Count, kept) {
		k.keepQuota(task, job.Queue, node)
	}

	return true
}

// HasPreempted reports whether pods of the same queue were evicted for a pod. They must not be
// placed again before it, although it may borrow what they need not.
func (k *Kept) HasPreempted(r snapshot.CheckInput) bool {
	return k.freed.Nominations[r.Task.Pod.UID].preempts
}

// keptOnNode returns what is kept on a node from a pod, nil if nothing is.
func (k *Kept) keptOnNode(task *api.TaskInfo, job *api.JobInfo, node string) (kept *api.Resource) {
	for _, preemptor := range k.preemptedCards.byNode[node] {
		if !preemptor.keepsCardsFrom(task, job, node) {
			continue
		}
		if kept == nil {
			kept = api.EmptyResource()
		}
		kept.Add(preemptor.task.InitResreq)
	}
	return kept
}

// FitsBesidePreempted reports whether a pod fits what a node has idle or will have, beside what is
// kept from it there.
func (k *Kept) FitsBesidePreempted(task *api.TaskInfo, job *api.JobInfo, node *api.NodeInfo) bool {
	kept := k.keptOnNode(task, job, node.Name)
	return kept == nil || kept.Add(task.InitResreq).LessEqual(k.stuck.FutureIdleOn(node), api.Zero)
}

// KeepsQuotaIn reports whether quota of a queue is kept for pods for which preempt freed it.
func (k *Kept) KeepsQuotaIn(queue api.QueueID) bool {
	return len(k.preemptedCards.byQueue[queue]) > 0
}

// CheckQuota returns why a pod does not fit the quota of its queue on any card, beside what is kept
// for others, nil if it does.
func (k *Kept) CheckQuota(r snapshot.CheckInput) *workload.Refusal {
	if refusal := k.RunChecks(snapshot.QuotaChecks, r); refusal != nil {
		return refusal
	}
	return k.CheckKeptQuota(r)
}

// CheckCard returns why a pod may not use the card of its node, beside what is kept for others, nil if it may.
func (k *Kept) CheckCard(r snapshot.CheckInput) *workload.Refusal {
	if refusal := k.RunChecks(snapshot.CardChecks, r); refusal != nil {
		return refusal
	}
	return k.CheckKeptQuota(r)
}

// CheckPlace returns why a pod may not be where it is placed, beside what is kept for others, nil if it may.
func (k *Kept) CheckPlace(r snapshot.CheckInput) *workload.Refusal {
	if refusal := k.RunChecks(snapshot.PlaceChecks, r); refusal != nil {
		return refusal
	}
	return k.CheckKeptQuota(r)
}

// DeductKept returns what a check may count as released for a pod, less the quota of its queue that is kept from
// the pod. That may be negative: the check then finds less quota.
func (k *Kept) DeductKept(r snapshot.CheckInput, released quota.Released) quota.Released {
	// From most pods nothing is kept, and each check of a pod would pay for a copy.
	isCopy := false
	for _, preemptor := range k.preemptedCards.byQueue[r.Job.Queue] {
		if !preemptor.keepsQuotaFrom(r.Task, r.Job) {
			continue
		}

		if !isCopy {
			released = released.Clone()
			isCopy = true
		}
		released.Remove(preemptor.charge)
	}

	return released
}

// CheckKeptQuota returns why the quota does not suffice for a pod beside what preempt freed for others, nil
// if it does. Once a node is chosen its card counts, before that any card of the request.
func (k *Kept) CheckKeptQuota(r snapshot.CheckInput) *workload.Refusal {
	// A pod whose card no node names takes none of the kept quota.
	hasNoCard := r.Request.Count > 0 && len(r.Request.Names) == 0
	if !k.KeepsQuotaIn(r.Job.Queue) || hasNoCard {
		return nil
	}

	request := r.Request.Request
	if r.Node != "" {
		name, _ := k.CardFor(r.Request, r.Node)
		request = request.On(name)
	}

	// What is kept for others counts against the pod: less is released for it.
	within := r.Within()
	within.Released = k.DeductKept(r, within.Released)
	refusal := k.CheckWithin(r, request, within)
	if refusal != nil {
		refusal.IsKept = true
	}
	return refusal
}
