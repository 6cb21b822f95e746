package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// ReclaimPolicy is the plugin as the action cardreclaim uses it. It is valid until the session
// closes, for one goroutine.
type ReclaimPolicy = plugin

// ReclaimPolicyFor returns the rules of the open session with this UID. It is false if
// capacity-card is not part of the session or may not decide; then the action must not evict.
func (c *Cache) ReclaimPolicyFor(session types.UID) (*ReclaimPolicy, bool) {
	p := c.openPlugin
	if p == nil || p.ssn.UID != session {
		return nil, false
	}
	c.lastReclaimSession = c.session
	if p.argumentsErr != nil || p.notReadyReason != "" {
		return nil, false
	}
	return p, true
}

// Now returns the time of the session.
func (p *plugin) Now() time.Time { return p.cache.now() }

// CardOn returns the card that a pod would use on a node, false if it may not run there.
func (p *plugin) CardOn(task *api.TaskInfo, node string) (card.Name, bool) {
	return p.cardFor(p.RequestFor(task), node)
}

// FreeQuota returns how many more of some cards a queue may use, or of all its cards without
// names. Cards with too many terminating pods count as full.
func (p *plugin) FreeQuota(queue api.QueueID, names ...card.Name) (free card.Count) {
	limits := p.ledger.Limits(string(queue))
	if limits.AnyCard {
		return card.MaxCount
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(limits.Cards))
	}
	for _, name := range names {
		if !p.ledger.IsTerminatingOverQuota(string(queue), name) {
			free = free.Add(limits.Cards[name].Sub(p.ledger.Used(string(queue), name)))
		}
	}
	return free
}

// FreeQuotaByCard returns how many more of each card a queue may use, nil if its cards are
// unlimited, and the same of CPU and memory.
func (p *plugin) FreeQuotaByCard(queue api.QueueID) (cards map[card.Name]card.Count, milliCPU, memory int64) {
	limits := p.ledger.Limits(string(queue))
	if !limits.AnyCard {
		cards = make(map[card.Name]card.Count, len(limits.Cards))
		for name := range limits.Cards {
			cards[name] = p.FreeQuota(queue, name)
		}
	}
	usedCPU, usedMemory := p.ledger.UsedCPUMemory(string(queue))
	return cards, limits.MilliCPU - usedCPU, limits.Memory - usedMemory
}

// FitsCPUMemory reports whether so much CPU, in millicores, and memory, in bytes, fit the
// quota.
func (p *plugin) FitsCPUMemory(queue api.QueueID, milliCPU, memory int64) bool {
	return p.ledger.FitsAnyCard(string(queue), quota.Request{MilliCPU: milliCPU, Memory: memory}) == nil
}

// ServiceTypeRules returns the reclaim matrix as text.
func (p *plugin) ServiceTypeRules() string { return fmt.Sprint(p.args.serviceTypes) }

// CardCount returns how many cards a pod uses, whatever their names.
func (p *plugin) CardCount(task *api.TaskInfo) (total card.Count) {
	if charge := p.ledger.Charged(string(task.UID)); charge != nil {
		for _, held := range charge.Cards {
			total = total.Add(held.Count)
		}
	}
	return total
}

// MinimumRuntime returns how long jobs of a pod's service type are protected from reclaim.
func (p *plugin) MinimumRuntime(task *api.TaskInfo) time.Duration {
	return p.args.serviceTypes[p.ServiceType(task)].MinimumRuntime
}

// VictimOrder returns in which order jobs of other queues lose cards.
func (p *plugin) VictimOrder() v1alpha1.VictimOrder { return p.args.victimOrder }

// PodPriority returns the priority of a pod between queues: that of its PriorityClass if the
// policy lists it, else the lowest listed.
func (p *plugin) PodPriority(task *api.TaskInfo) int32 {
	return p.args.priorityClasses.Priority(task.Pod.Spec.PriorityClassName)
}

// JobPriority returns the priority of a job between queues, at most that of its pods.
func (p *plugin) JobPriority(job *api.JobInfo) int32 {
	highest := p.args.priorityClasses.Lowest
	for _, task := range job.Tasks {
		highest = max(highest, p.PodPriority(task))
	}
	return p.args.priorityClasses.JobPriority(job.PodGroup.Spec.PriorityClassName, highest)
}

// MarkEvicting records that the eviction of a pod was requested. Later sessions know it until
// the pod is gone.
func (p *plugin) MarkEvicting(task *api.TaskInfo) {
	p.cache.evictingSince[task.Pod.UID] = p.cache.now()
}

// OverdueEvictions returns pods whose eviction was requested longer than timeout ago and that
// are not deleted.
func (p *plugin) OverdueEvictions(timeout time.Duration) (overdue []*api.TaskInfo) {
	for _, task := range p.evictingTasks {
		if p.EvictingLongerThan(task, timeout) {
			overdue = append(overdue, task)
		}
	}
	return overdue
}

// EvictingLongerThan reports whether the eviction of a pod was requested longer than timeout
// ago.
func (p *plugin) EvictingLongerThan(task *api.TaskInfo, timeout time.Duration) bool {
	return p.cache.now().Sub(p.cache.evictingSince[task.Pod.UID]) > timeout
}

// markReleasing sets evicting pods to the status that Volcano gives deleted pods: others may be
// pipelined to their cards, and they cannot become victims again. They keep their charge.
func (p *plugin) markReleasing(found []*api.TaskInfo) {
	p.evictingTasks = found
	since := make(map[types.UID]time.Time, len(found))
	for _, task := range found {
		uid := task.Pod.UID
		if since[uid] = p.cache.evictingSince[uid]; since[uid].IsZero() {
			since[uid] = p.cache.now()
		}
		job, node := p.ssn.Jobs[task.Job], p.ssn.Nodes[task.NodeName]
		if err := job.UpdateTaskStatus(task, api.Releasing); err == nil && node != nil {
			_ = node.UpdateTask(task)
		}
	}
	p.cache.evictingSince = since
}
