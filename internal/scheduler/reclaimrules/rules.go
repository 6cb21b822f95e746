// Package reclaimrules says who may reclaim from whom, in which order victims are taken, what stop policies drain,
// and which queues may not borrow for a while.
package reclaimrules

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Rules says who may reclaim from whom.
type Rules struct {
	*snapshot.Session
	stops BorrowStops
}

// New returns the rules of a session, with what earlier ones know of borrowing.
func New(s *snapshot.Session, stops BorrowStops) *Rules {
	return &Rules{Session: s, stops: stops}
}

// CanReclaim reports whether a pod may reclaim cards: its service type may reclaim from another
// one, and its own queue stays within what it deserves. In a tree any known type may.
func (r *Rules) CanReclaim(task *api.TaskInfo) bool {
	input, known := r.CheckInputFor(task)
	return known && r.RunChecks(snapshot.ReclaimChecks, input) == nil
}

// CanReclaimFrom reports whether a pod may reclaim from another one by any rule.
func (r *Rules) CanReclaimFrom(reclaimer, victim *api.TaskInfo) bool {
	return r.ReclaimRule(reclaimer, victim) != NotReclaimable
}

// HasReachedMinRuntime reports whether the pod's job has run for the minimum runtime of its
// service type.
func (r *Rules) HasReachedMinRuntime(task *api.TaskInfo) bool {
	minimum := r.MinimumRuntime(task)
	return minimum == 0 || gang.RunningSince(r.Volcano.Jobs[task.Job]).Add(minimum).Before(r.Now())
}

// FreeQuota returns how many more of some cards a queue may use while it reclaims: within its quota and what it
// deserves. A card of which terminating pods use more than the quota counts as full, because nothing may be placed
// on it. Of a card without limit it counts MaxCount.
func (r *Rules) FreeQuota(queue api.QueueID, names ...card.Name) (free card.Count) {
	for _, name := range names {
		own := r.Ledger.MayUseByLevel(string(queue), quota.Resource(name))[0] // of the queue itself, without its ancestors
		free = free.Add(card.Count(max(0, min(own.Quota, own.Deserved, int64(card.MaxCount)))))
	}
	return free
}

// ServiceTypeRules returns the reclaim matrix as text, which changes with the matrix.
func (r *Rules) ServiceTypeRules() string { return fmt.Sprint(r.Args.ServiceTypes) }

// Kind is by which rule a pod may reclaim from another one.
type Kind int

// The rules of reclaim.
const (
	// NotReclaimable: no rule allows it.
	NotReclaimable Kind = iota
	// ReclaimableByMatrix: the service type of the reclaimer reclaims from that of the victim,
	// in a tree down to the guarantee of the victim's queue.
	ReclaimableByMatrix
	// ReclaimableByTree: the victim's queue, and each of its ancestors below the lowest common
	// ancestor, has borrowed. Their last job may be taken below what they deserve.
	ReclaimableByTree
)

// ReclaimRule returns by which rule a pod may reclaim from another one, whatever their queues
// use now. The victim must be evictable, and in a reclaimable queue. Its queue is the one that is
// charged for it, also after its PodGroup moved.
func (r *Rules) ReclaimRule(reclaimer, victim *api.TaskInfo) Kind {
	reclaimerJob := r.Volcano.Jobs[reclaimer.Job]
	victimJob := r.Volcano.Jobs[victim.Job]
	if reclaimerJob == nil || victimJob == nil {
		return NotReclaimable
	}

	charged := r.VictimQueue(victim)
	if reclaimerJob.Queue == charged || !r.IsEvictable(victim) {
		return NotReclaimable
	}

	reclaimerQueue := r.Volcano.Queues[reclaimerJob.Queue]
	victimQueue := r.Volcano.Queues[charged]
	if reclaimerQueue == nil || victimQueue == nil || !victimQueue.Reclaimable() {
		return NotReclaimable
	}

	by := r.ServiceType(reclaimer)
	from := r.ServiceTypeIn(charged, victim)
	// The reclaim matrix comes first: by it a queue may lose all but its guarantee, by the tree only what it
	// borrowed.
	switch {
	case victimQueue.Queue.Spec.Priority < reclaimerQueue.Queue.Spec.Priority && r.Args.ServiceTypes.CanReclaim(by, from):
		return ReclaimableByMatrix
	case r.canReclaimByTree(reclaimerJob.Queue, charged, by, from):
		return ReclaimableByTree
	}

	return NotReclaimable
}

// canReclaimByTree reports whether a reclaimer of service type by may reclaim from a victim of service type from by
// the places of their queues in the tree: the victim's is not an ancestor, and the matrix has both types.
func (r *Rules) canReclaimByTree(reclaimer, victim api.QueueID, by, from string) bool {
	return r.IsTree() && r.KnowsServiceType(by) && r.KnowsServiceType(from) && len(r.PathBelow(reclaimer, victim)) > 0
}
