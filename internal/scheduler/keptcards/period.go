package keptcards

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// keptPeriod is how long freed cards are kept for a pod, counted from the moment when the last pod that was
// evicted with them has ended or should have ended. Reclaimed cards are kept only from pods from which the
// reclaimer may reclaim; others could have reclaimed cards themselves. If a node of its gang is missing for
// a moment, Volcano undoes the whole gang and would give the cards back to the victims.
const keptPeriod = 5 * time.Minute

// periods says how long freed cards are kept.
type periods struct{ *snapshot.Session }

// newEvictionPlan returns the plan that evicts some pods now for tasks. Tasks that stay on the node on which earlier
// plans freed cards for them wait for the victims of these, too.
func (p periods) newEvictionPlan(victims, tasks []*api.TaskInfo, earlier map[types.UID]Nomination) *evictionPlan {
	plan := &evictionPlan{began: p.Now(), lastSeen: p.Now()}
	for _, task := range victims {
		plan.victims = append(plan.victims, evictedPod{task.Pod.UID, api.PodKey(task.Pod), task.NodeName})
	}
	for _, nomination := range keptOnSameNode(tasks, earlier) {
		plan.addVictimsOf(nomination.plan)
	}
	return plan
}

// addVictimsOf adds the victims of an earlier plan, which may be nil.
func (e *evictionPlan) addVictimsOf(earlier *evictionPlan) {
	if earlier == nil {
		return
	}
	for _, victim := range earlier.victims {
		if !slices.Contains(e.victims, victim) {
			e.victims = append(e.victims, victim)
		}
	}
}

// keptOnSameNode returns the nominations of those tasks for which cards are kept on their node already.
func keptOnSameNode(tasks []*api.TaskInfo, kept map[types.UID]Nomination) (same []Nomination) {
	for _, task := range tasks {
		if nomination, known := kept[task.Pod.UID]; known && nomination.Node == task.NodeName {
			same = append(same, nomination)
		}
	}
	return same
}

// isOver reports whether the time is over for which freed cards are kept: it begins when the last victim has gone or
// should have.
func (p periods) isOver(nomination Nomination) bool {
	since := nomination.Since
	if nomination.plan != nil {
		since = p.lastVictimSeen(nomination.plan)
	}
	return p.Now().Sub(since) >= keptPeriod
}

// lastVictimSeen returns when a session last saw a victim of a plan that was not overdue. An overdue one
// should have ended. It looks once a session, and removes from the plan the victims that have ended.
func (p periods) lastVictimSeen(plan *evictionPlan) time.Time {
	if plan.session == p.Cache.SessionCount {
		return plan.lastSeen
	}
	plan.session = p.Cache.SessionCount

	left := plan.victims[:0]
	for _, victim := range plan.victims {
		task := p.findEvictedPod(victim)
		if task == nil {
			continue
		}

		left = append(left, victim)
		if !p.isVictimOverdue(task, plan) {
			plan.lastSeen = p.Now()
		}
	}

	plan.victims = left
	return plan.lastSeen
}

// findEvictedPod returns an evicted pod that is still on its node, nil if it is gone.
func (p periods) findEvictedPod(victim evictedPod) *api.TaskInfo {
	node := p.Volcano.Nodes[victim.node]
	if node == nil {
		return nil
	}
	task := node.Tasks[victim.key]
	if task == nil || task.Pod.UID != victim.uid {
		return nil
	}
	return task
}

// isVictimOverdue reports whether an evicted pod should have ended: its grace period is over, or it was not
// even deleted for longer than an eviction may take. So a pod that never ends keeps cards for a bounded time.
func (p periods) isVictimOverdue(task *api.TaskInfo, plan *evictionPlan) bool {
	now := p.Now()
	deleted := task.Pod.DeletionTimestamp
	if deleted == nil {
		return now.Sub(plan.began) >= snapshot.EvictionTimeout
	}
	return !now.Before(deleted.Time) // the timestamp includes the grace period
}
