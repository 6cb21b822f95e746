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

// ReclaimPolicy is the plugin of a session as an action asks it that takes cards back. It is valid
// until the session closes, and like the session for one goroutine.
type ReclaimPolicy = plugin

// ReclaimPolicyFor returns the rules of the session that is open, by its UID: false when capacity-card is
// not part of it or can decide nothing in it; then nobody may be evicted.
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

// Now is the time of the session.
func (p *plugin) Now() time.Time { return p.cache.now() }

// CardOn is the card that a pod would use on a node, false when it may not run
// there.
func (p *plugin) CardOn(task *api.TaskInfo, node string) (card.Name, bool) {
	return p.cardFor(p.RequestFor(task), node)
}

// FreeQuota is what a queue may still take of some cards, or of all of its quota when none are
// named: nothing of one of which too many are ending.
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

// FreeQuotaByCard is what a queue may still take of each card of its quota, nil for one without a
// quota that may take any, and of CPU and memory.
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

// FitsCPUMemory tells whether a queue has room for so much CPU, in thousandths
// of a core, and memory, in bytes.
func (p *plugin) FitsCPUMemory(queue api.QueueID, milliCPU, memory int64) bool {
	return p.ledger.FitsAnyCard(string(queue), quota.Request{MilliCPU: milliCPU, Memory: memory}) == nil
}

// ServiceTypeRules writes down who may take cards back from whom.
func (p *plugin) ServiceTypeRules() string { return fmt.Sprint(p.args.serviceTypes) }

// CardCount is how many cards a pod holds, of whatever name.
func (p *plugin) CardCount(task *api.TaskInfo) (total card.Count) {
	if charge := p.ledger.Charged(string(task.UID)); charge != nil {
		for _, held := range charge.Cards {
			total = total.Add(held.Count)
		}
	}
	return total
}

// MinimumRuntime is how long jobs of a pod's service type run before cards are
// taken back from them.
func (p *plugin) MinimumRuntime(task *api.TaskInfo) time.Duration {
	return p.args.serviceTypes[p.ServiceType(task)].MinimumRuntime
}

// VictimOrder says what decides which jobs of other queues give cards back.
func (p *plugin) VictimOrder() v1alpha1.VictimOrder { return p.args.victimOrder }

// PodPriority returns the priority of a pod that counts between queues: that of its
// PriorityClass if the policy lists the class, else the lowest that it lists.
func (p *plugin) PodPriority(task *api.TaskInfo) int32 {
	return p.args.priorityClasses.Priority(task.Pod.Spec.PriorityClassName)
}

// JobPriority returns the priority of a job with a PodGroup that counts between
// queues. It is at most that of its pods.
func (p *plugin) JobPriority(job *api.JobInfo) int32 {
	highest := p.args.priorityClasses.Lowest
	for _, task := range job.Tasks {
		highest = max(highest, p.PodPriority(task))
	}
	return p.args.priorityClasses.JobPriority(job.PodGroup.Spec.PriorityClassName, highest)
}

// MarkEvicting notes that a pod was told to go.
// Until it is gone, coming sessions know that it is on its way out.
func (p *plugin) MarkEvicting(task *api.TaskInfo) {
	p.cache.evictingSince[task.Pod.UID] = p.cache.now()
}

// OverdueEvictions lists pods that were told to go longer ago than patience, and that
// nobody has deleted.
func (p *plugin) OverdueEvictions(timeout time.Duration) (overdue []*api.TaskInfo) {
	for _, task := range p.evictingTasks {
		if p.EvictingLongerThan(task, timeout) {
			overdue = append(overdue, task)
		}
	}
	return overdue
}

// EvictingLongerThan tells that a pod was told to go longer ago than patience.
func (p *plugin) EvictingLongerThan(task *api.TaskInfo, timeout time.Duration) bool {
	return p.cache.now().Sub(p.cache.evictingSince[task.Pod.UID]) > timeout
}

// markReleasing gives pods that were told to go the status that Volcano would
// give them had they been deleted: their cards are promised to others as soon as
// they are free, and they cannot be taken a second time. They still hold them
// for everybody else.
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
