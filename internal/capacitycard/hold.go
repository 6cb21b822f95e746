package capacitycard

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// holdLasts is how long cards that were taken back for a pod are held for it, counted
// from the eviction. They are held against those only from whom the pod may take cards:
// others could have had cards taken back themselves. A node of its gang may be away for a
// moment; Volcano then takes the whole gang back, and would give the cards to those they
// were taken from.
const holdLasts = 5 * time.Minute

// hold is a node on which room was made for a pod.
type hold struct {
	node  string
	since time.Time
}

// held are the pods of a session for which room is held on a node.
type held struct {
	task *api.TaskInfo
	// kind and priority are the service type of the pod, and the priority of its queue.
	kind     string
	priority int32
}

// Hold notes that others were evicted for a pod that was promised a node.
func (t *Tide) Hold(task *api.TaskInfo) {
	m := t.p.memory
	m.holds[task.Pod.UID] = hold{node: task.NodeName, since: m.now()}
}

// openHolds finds the pods that wait for room that is held for them, and ends the holds
// of all others.
func (p *plugin) openHolds() {
	p.held = nil
	if len(p.memory.holds) == 0 {
		return
	}
	p.held = map[string][]held{}
	waiting := map[types.UID]bool{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			made, known := p.memory.holds[task.Pod.UID]
			if !known || p.memory.now().Sub(made.since) >= holdLasts || p.closedGate(job.Queue, job.Namespace) != nil {
				continue
			}
			waiting[task.Pod.UID] = true
			p.held[made.node] = append(p.held[made.node], held{task, p.serviceType(task), p.ssn.Queues[job.Queue].Queue.Spec.Priority})
		}
	}
	for uid := range p.memory.holds {
		if !waiting[uid] {
			delete(p.memory.holds, uid)
		}
	}
}

// isHeld reports whether a node has too little room for a pod beside what is held there
// for pods that may take cards back from it, and that still wait. What a pod was promised
// or given in this session, the node counts itself.
func (p *plugin) isHeld(task *api.TaskInfo, node *api.NodeInfo) bool {
	if len(p.held[node.Name]) == 0 {
		return false
	}
	queue, known := p.ssn.Queues[p.ssn.Jobs[task.Job].Queue]
	if !known {
		return false
	}
	needed, any := task.InitResreq.Clone(), false
	kind := p.serviceType(task)
	for _, h := range p.held[node.Name] {
		if h.task.Status != api.Pending || queue.Queue.Spec.Priority >= h.priority || !p.args.serviceTypes.MayReclaim(h.kind, kind) {
			continue
		}
		needed.Add(h.task.InitResreq)
		any = true
	}
	return any && !needed.LessEqual(p.roomOn(node), api.Zero)
}
