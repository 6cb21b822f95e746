package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
)

// Tide is what the rules of card quota say to an action that takes cards back.
// It is valid until its session closes, and like the session for one goroutine.
type Tide struct{ p *plugin }

// Tide returns the rules of the session that is open, by its UID: false when capacity-card is
// not part of it or can decide nothing in it; then nobody may be evicted.
func (c *Cache) Tide(session types.UID) (*Tide, bool) {
	p := c.open
	if p == nil || p.ssn.UID != session {
		return nil, false
	}
	c.insisted = c.session
	if p.invalid != nil || p.notReady != "" {
		return nil, false
	}
	return &Tide{p}, true
}

// Now is the time of the session.
func (t *Tide) Now() time.Time { return t.p.cache.now() }

// Takes tells whether a pod may take cards back from others at all: its service
// type does, its queue is open and has room for it, and it asks for cards.
func (t *Tide) Takes(task *api.TaskInfo) bool { return t.p.mayReclaim(task) }

// Ask is what a pod asks for of its queue.
func (t *Tide) Ask(task *api.TaskInfo) quota.Request { return t.p.askOf(task).Request }

// Resource is the card resource that a pod asks for, "" when it asks for none.
func (t *Tide) Resource(task *api.TaskInfo) corev1.ResourceName { return t.p.askOf(task).Resource }

// CardOn is the card that a pod would use on a node, false when it may not run
// there.
func (t *Tide) CardOn(task *api.TaskInfo, node string) (card.Name, bool) {
	return t.p.cardFor(t.p.askOf(task), node)
}

// RoomOn returns what a node has idle or will have, without what pods hold there that are
// not gone long after they should be.
func (t *Tide) RoomOn(node *api.NodeInfo) *api.Resource { return t.p.roomOn(node) }

// Room is what a queue may still take of a card: nothing while too much of it is
// ending.
func (t *Tide) Room(queue api.QueueID, name card.Name) card.Count {
	limits := t.p.account.Limits(string(queue))
	if limits.AnyCard {
		return card.MaxCount
	}
	if t.p.account.Crowded(string(queue), name) {
		return 0
	}
	return limits.Cards[name].Sub(t.p.account.Used(string(queue), name))
}

// RoomFor is what a queue may still take of the cards that a pod may run on.
func (t *Tide) RoomFor(queue api.QueueID, ask quota.Request) card.Count {
	names := ask.Names
	if limits := t.p.account.Limits(string(queue)); limits.AnyCard {
		return card.MaxCount
	} else if len(names) == 0 {
		names = slices.Collect(maps.Keys(limits.Cards))
	}
	var room card.Count
	for _, name := range names {
		room = room.Add(max(0, t.Room(queue, name)))
	}
	return room
}

// Rooms is what a queue may still take of each card of its quota, nil for one without a
// quota that may take any, and how much of its CPU and memory is counted as used.
func (t *Tide) Rooms(queue api.QueueID) (cards map[card.Name]card.Count, milliCPU, memory int64) {
	limits := t.p.account.Limits(string(queue))
	if !limits.AnyCard {
		cards = make(map[card.Name]card.Count, len(limits.Cards))
		for name := range limits.Cards {
			cards[name] = t.Room(queue, name)
		}
	}
	usedCPU, usedMemory := t.p.account.UsedCPUMemory(string(queue))
	return cards, limits.MilliCPU - usedCPU, limits.Memory - usedMemory
}

// Rules writes down who may take cards back from whom.
func (t *Tide) Rules() string { return fmt.Sprint(t.p.args.serviceTypes) }

// TypeOf is the service type of a pod, "" when nothing tells.
func (t *Tide) TypeOf(task *api.TaskInfo) string { return t.p.serviceType(task) }

// GivesWay tells whether a pod may be evicted for another one that takes cards
// back: by the matrix of service types, from a reclaimable queue of lower
// priority, and unless it is protected.
func (t *Tide) GivesWay(by, of *api.TaskInfo) bool { return t.p.mayDisplace(by, of) }

// Cards is how many cards a pod holds, of whatever name.
func (t *Tide) Cards(task *api.TaskInfo) card.Count {
	charge := t.p.account.Charged(string(task.UID))
	if charge == nil {
		return 0
	}
	var total card.Count
	for _, held := range charge.Cards {
		total = total.Add(held.Count)
	}
	return total
}

// MinimumRuntime is how long jobs of a pod's service type run before cards are
// taken back from them.
func (t *Tide) MinimumRuntime(task *api.TaskInfo) time.Duration {
	return t.p.args.serviceTypes[t.p.serviceType(task)].MinimumRuntime
}

// VictimOrder says what decides which jobs of other queues give cards back.
func (t *Tide) VictimOrder() servicetype.VictimOrder { return t.p.args.victimOrder }

// Priority returns the priority of a pod that counts between queues: that of its
// PriorityClass if the policy lists the class, else the lowest that it lists.
func (t *Tide) Priority(task *api.TaskInfo) int32 {
	return t.p.args.priorityClasses.Priority(task.Pod.Spec.PriorityClassName)
}

// JobPriority returns the priority of a job with a PodGroup that counts between
// queues. It is at most that of its pods.
func (t *Tide) JobPriority(job *api.JobInfo) int32 {
	classes := t.p.args.priorityClasses
	highest := classes.Lowest
	for _, task := range job.Tasks {
		highest = max(highest, t.Priority(task))
	}
	return classes.JobPriority(job.PodGroup.Spec.PriorityClassName, highest)
}

// Hangs reports whether a pod is there for long after it should have been gone.
func (t *Tide) Hangs(task *api.TaskInfo) bool { return t.p.hangs(task) }

// Leaves notes that a pod was told to go.
// Until it is gone, coming sessions know that it is on its way out.
func (t *Tide) Leaves(task *api.TaskInfo) {
	t.p.cache.leaving[task.Pod.UID] = t.p.cache.now()
}

// Overdue lists pods that were told to go longer ago than patience, and that
// nobody has deleted.
func (t *Tide) Overdue(patience time.Duration) []*api.TaskInfo {
	var late []*api.TaskInfo
	for _, task := range t.p.leavers {
		if t.LeftFor(task, patience) {
			late = append(late, task)
		}
	}
	return late
}

// LeftFor tells that a pod was told to go longer ago than patience.
func (t *Tide) LeftFor(task *api.TaskInfo, patience time.Duration) bool {
	return t.p.cache.now().Sub(t.p.cache.leaving[task.Pod.UID]) > patience
}

// markLeaving gives pods that were told to go the status that Volcano would
// give them had they been deleted: their cards are promised to others as soon as
// they are free, and they cannot be taken a second time. They still hold them
// for everybody else.
func (p *plugin) markLeaving(found []*api.TaskInfo) {
	p.leavers = found
	gone := map[types.UID]bool{}
	for uid := range p.cache.leaving {
		gone[uid] = true
	}
	for _, task := range found {
		uid := task.Pod.UID
		if delete(gone, uid); p.cache.leaving[uid].IsZero() {
			p.cache.leaving[uid] = p.cache.now()
		}
		job, node := p.ssn.Jobs[task.Job], p.ssn.Nodes[task.NodeName]
		if err := job.UpdateTaskStatus(task, api.Releasing); err != nil || node == nil {
			continue
		}
		_ = node.UpdateTask(task)
	}
	for uid := range gone {
		delete(p.cache.leaving, uid)
	}
}

// Tell sends an event in the name of the plugin.
func (t *Tide) Tell(object runtime.Object, kind, reason, message string) {
	if recorder := t.p.cache.voice.events(t.p.ssn.KubeClient()); recorder != nil {
		recorder.Event(object, kind, reason, message)
	}
}

// FitsCPUMemory tells whether a queue has room for so much CPU, in thousandths
// of a core, and memory, in bytes.
func (t *Tide) FitsCPUMemory(queue api.QueueID, milliCPU, memory int64) bool {
	return t.p.account.Fits(string(queue), quota.Request{MilliCPU: milliCPU, Memory: memory}) == nil
}
