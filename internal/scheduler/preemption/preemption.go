// Package preemption decides which pods Volcano's action preempt evicts inside of a queue, and for which pods.
package preemption

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// Preemption decides what Volcano's action preempt evicts inside of a queue.
type Preemption struct {
	*snapshot.Session
	precedence *precedence
	prices     *victims.Prices
	stuck      *snapshot.StuckPods
	kept       *keptcards.Kept
	victims    *victims.Selection
	// run is what the action evicts, nil unless it runs.
	run *preemptRun
	// attempt is the pod and node that it tries now, nil if none.
	attempt atomic.Pointer[preemptionAttempt]
	// ignoringQuota is the pod that the predicate checks without quota now.
	ignoringQuota quotaIgnorer
	// search is the node search that Volcano started last, nil for none.
	search atomic.Pointer[preemptSearch]
}

// New returns the preemption of a session.
func New(s *snapshot.Session, prices *victims.Prices, stuck *snapshot.StuckPods, kept *keptcards.Kept, selection *victims.Selection) *Preemption {
	return &Preemption{Session: s, precedence: &precedence{s, prices}, prices: prices, stuck: stuck, kept: kept, victims: selection}
}

// IsRunning reports whether Volcano's action preempt runs.
func (p *Preemption) IsRunning() bool { return p.run != nil }

// Preempt runs Volcano's action preempt, which execute is, and returns the pods it evicts, by job. A gang
// loses only elastic pods, or all pods. The caller carries out the evictions.
func (p *Preemption) Preempt(hooks Hooks, execute func()) [][]*api.TaskInfo {
	p.Cache.EvictionPolicies = hooks.PolicyFor
	run := newPreemptRun(p, hooks)
	p.run = run
	defer func() {
		p.run = nil
		p.victims.LimitBorrowing(nil)
	}()
	defer p.hideOldNominations()()

	// Volcano does not tell for whom it evicts. Its preemptors are the pods that it pipelines
	// meanwhile.
	before := pipelinedPods(p.Session)
	p.executeByQueue(execute)
	p.kept.Preemptors = pipelinedPods(p.Session)
	maps.DeleteFunc(p.kept.Preemptors, func(uid types.UID, _ bool) bool { return before[uid] })
	// Gangs are completed when the next search begins. No search follows the last evictions.
	run.completeGangs()
	p.keepFreedCards(run.victimsByPreemptor())

	var jobs [][]*api.TaskInfo
	for id, evicted := range run.evicted {
		tasks := slices.Collect(maps.Values(evicted))
		if rest := run.restOfGangs[id]; rest != nil {
			tasks = append(tasks, rest.tasks...)
		}
		if len(tasks) > 0 {
			slices.SortFunc(tasks, func(a, b *api.TaskInfo) int { return cmp.Compare(a.UID, b.UID) })
			jobs = append(jobs, tasks)
		}
	}

	slices.SortFunc(jobs, func(a, b []*api.TaskInfo) int { return cmp.Compare(a[0].Job, b[0].Job) })
	return jobs
}

// keepFreedCards keeps what preempt freed for the pods that it pipelined. victims are the pods that it evicts,
// by the job for which it does.
func (p *Preemption) keepFreedCards(victims map[api.JobID][]*api.TaskInfo) {
	for id, evicted := range victims {
		job := p.Volcano.Jobs[id]
		// Volcano takes back what it did for a job that cannot start.
		if job == nil || !p.Volcano.JobPipelined(job) {
			continue
		}

		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if p.kept.Preemptors[task.Pod.UID] {
				tasks = append(tasks, task)
			}
		}
		p.kept.KeepPreemptedCards(tasks, evicted)
	}
}

// pipelinedPods returns the pods that are pipelined.
func pipelinedPods(s *snapshot.Session) map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, job := range s.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			pods[task.Pod.UID] = true
		}
	}
	return pods
}

// RecordEviction records a pod that Volcano evicts.
func (p *Preemption) RecordEviction(task *api.TaskInfo) { p.run.recordEviction(task) }

// UndoEviction records an undone eviction, and restores the rest of the gang.
func (p *Preemption) UndoEviction(task *api.TaskInfo) { p.run.undoEviction(task) }

// CompleteGangs evicts, in the session, the rest of each job that would run below its minimum.
func (p *Preemption) CompleteGangs() { p.run.completeGangs() }

// TasksToComplete returns the pods that CompleteGangs will evict.
func (p *Preemption) TasksToComplete() []*api.TaskInfo { return p.run.tasksToComplete() }
