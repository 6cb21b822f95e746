// Package keptcards says which cards and which quota are kept for which pending pods: what was reclaimed or
// preempted for them, and free cards of which their jobs lack more. It also knows the nodes that pods wait for.
// reclaimed.go and preempted.go say how long cards are kept, also while their node offers none.
package keptcards

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// Kept are the cards and the quota that are kept for pending pods: those that were freed for them, and
// free ones of which their jobs lack more.
type Kept struct {
	*snapshot.Session
	stuck   *snapshot.StuckPods
	periods periods
	// freed are the freed cards of this and of earlier sessions.
	freed *Freed
	// reclaimedCards are the pods for which cards were reclaimed on a node, by node.
	reclaimedCards map[string][]keptCardsOwner
	// preemptedCards are kept for the pods for which preempt freed them.
	preemptedCards preemptedCards
	// keptCharges are what is kept of the quotas for the pods of reclaimedCards and preemptedCards.
	keptCharges map[api.TaskID]*quota.Charge
	// awaited are the free cards that are kept for waiting jobs, nil for none.
	awaited *awaitedCards
	// Preemptors are the pods that the action preempt pipelined.
	Preemptors map[types.UID]bool
}

// keptCardsOwner is a pod for which reclaimed cards are kept on a node.
type keptCardsOwner struct {
	task *api.TaskInfo
	// queue is that of the pod, serviceType that of the pod, priority that of its queue.
	queue       api.QueueID
	serviceType string
	priority    int32
	// from are the queues from which the cards were reclaimed.
	from map[api.QueueID]bool
}

// preemptedCards are the cards that preempt freed and that are kept for the pods that it freed
// them for.
type preemptedCards struct {
	byNode  map[string][]*waitingPreemptor
	byQueue map[api.QueueID][]*waitingPreemptor
}

// waitingPreemptor is a pending pod for which preempt freed cards on a node.
type waitingPreemptor struct {
	task *api.TaskInfo
	job  *api.JobInfo
	// charge is what the pod will use of the quota of its queue.
	charge *quota.Charge
}

// awaitedCards are the free cards that are kept for jobs that lack more of them, while the action
// allocate runs and after it. Otherwise a job of several cards would never start beside jobs of one
// card, which take each card as it becomes free.
type awaitedCards struct {
	// byNode are the pods for which free cards are kept, by node.
	byNode map[string][]AwaitingPod
	// running are the jobs that ran pods when allocate began, if a job below its minimum waits.
	running map[api.JobID]bool
}

// AwaitingPod is a pod for which the free cards of a node are kept.
type AwaitingPod struct {
	Job  *api.JobInfo
	Task *api.TaskInfo
	// Count is how many cards of the resource are kept on the node.
	Node     string
	Resource corev1.ResourceName
	Count    card.Count
	// Borrows is set if the queue of the job would use more than it deserves with its missing pods,
	// IsBelowMinimum if other pods of the job run.
	Borrows, IsBelowMinimum bool
	// ServiceType is that of the pod, Priority that of its queue.
	ServiceType string
	Priority    int32
}

// New returns what is kept in a session: nothing until Load. freed is what earlier sessions freed.
func New(s *snapshot.Session, stuck *snapshot.StuckPods, freed *Freed) *Kept {
	return &Kept{Session: s, stuck: stuck, periods: periods{s}, freed: freed}
}

// waitingCharge returns what a pending pod will use of a queue with a card. The guarantees of a tree treat usage that
// cannot be reclaimed in another way, so the charge states that, too.
func waitingCharge(request *workload.Request, queue api.QueueID, name card.Name) *quota.Charge {
	charge := &quota.Charge{Queue: string(queue), MilliCPU: request.MilliCPU, Memory: request.Memory, IsUnreclaimable: request.IsUnreclaimable}
	if request.Count > 0 {
		charge.Cards = []card.Amount{{Name: name, Count: request.Count}}
	}
	return charge
}

// keepQuota keeps quota for a pod for which cards are kept on a node: others could use up the quota of the
// ancestors that their queue shares with its own.
func (k *Kept) keepQuota(task *api.TaskInfo, queue api.QueueID, node string) {
	request := k.RequestFor(task)
	name, allowed := k.CardFor(request, node)
	if !allowed {
		return
	}
	charge := waitingCharge(request, queue, name)
	if k.keptCharges == nil {
		k.keptCharges = map[api.TaskID]*quota.Charge{}
	}
	k.keptCharges[task.UID] = charge
	k.Ledger.Keep(string(task.UID), charge)
}

// KeepAgain keeps quota again for a pod whose placement is undone: it waits again for what was freed for it.
func (k *Kept) KeepAgain(task api.TaskID) {
	if charge, isOwner := k.keptCharges[task]; isOwner {
		k.Ledger.Keep(string(task), charge)
	}
}

// isPromised reports whether pods on a node were evicted for a pod: what is free there is for it, too.
func (k *Kept) isPromised(task *api.TaskInfo, node *api.NodeInfo) bool {
	uid := task.Pod.UID
	nominated := k.freed.Nominations[uid]
	return (nominated.preempts && nominated.Node == node.Name) || k.freed.Reclaimed[uid].Node == node.Name || k.freed.Preempted[uid].Node == node.Name
}

// HasPromisedNode reports whether freed cards of some node are kept for a pod. Reclaimed cards that the quota no
// longer allows have no node.
func (k *Kept) HasPromisedNode(task *api.TaskInfo) bool {
	hasReclaimed := k.freed.Reclaimed[task.Pod.UID].Node != ""
	_, hasPreempted := k.freed.Preempted[task.Pod.UID]
	return hasReclaimed || hasPreempted
}

// jobWithFreedCards is a job and its pending pods for which cards were freed.
type jobWithFreedCards struct {
	job   *api.JobInfo
	tasks []*api.TaskInfo
}

// jobsWithFreedCards returns the jobs with pending pods for which cards were freed. Jobs and their pods come
// in the order in which that happened. So after the quota was lowered, those lose their cards for which they
// were freed last.
func (k *Kept) jobsWithFreedCards(freed map[types.UID]Nomination) []jobWithFreedCards {
	compare := func(a, b *api.TaskInfo) int {
		return cmp.Or(freed[a.Pod.UID].Since.Compare(freed[b.Pod.UID].Since), cmp.Compare(a.UID, b.UID))
	}

	var jobs []jobWithFreedCards
	for _, job := range k.Volcano.Jobs {
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

// forgetFreedCards forgets the cards of all pods but those that wait, and those that are being bound: when a
// binding fails, the pod waits again.
func (k *Kept) forgetFreedCards(freed map[types.UID]Nomination, waiting map[types.UID]bool) {
	for _, job := range k.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Binding] {
			waiting[task.Pod.UID] = true
		}
	}
	maps.DeleteFunc(freed, func(uid types.UID, _ Nomination) bool { return !waiting[uid] })
}

// addDeserved adds cards to the amounts if their queue deserves them beside these, and reports whether it does.
func (k *Kept) addDeserved(key snapshot.QueueCard, count card.Count, amounts map[snapshot.QueueCard]card.Count) bool {
	all := amounts[key].Add(count)
	if !k.Ledger.Fits(string(key.Queue), quota.Request{Names: []card.Name{key.Name}, Count: all}, quota.Within{Bound: quota.DeservedLeft}) {
		return false
	}
	amounts[key] = all
	return true
}
