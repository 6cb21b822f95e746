package capacitycard

import (
	"fmt"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
)

// predicate is the gate of a pod on a node, and the one that makes quota exact:
// the node's own card must be one the pod may run on and must have room in the
// queue. A wrong card can never fit this pod; a full quota can, once something
// of the queue has ended, so that preemption inside the queue may help.
func (p *plugin) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	job, ok := p.ssn.Jobs[task.Job]
	if !ok {
		return p.unfit(task, node, unfitKey{why: withoutJob})
	}
	if refusal := p.closedGate(job.Queue); refusal != nil {
		return p.unfit(task, node, unfitKey{why: refused, text: refusal.Message})
	}
	ask := p.askOf(task)
	if ask.Refusal != nil {
		return p.unfit(task, node, unfitKey{why: refused, text: ask.Refusal.Message})
	}
	if ask.Count == 0 {
		return nil
	}
	name, ok := p.inv.On(node.Name, ask.Resource)
	switch {
	case !ok:
		return p.unfit(task, node, unfitKey{why: namelessCard, text: string(ask.Resource)})
	case !ask.Request.Allows(name):
		return p.unfit(task, node, unfitKey{why: otherCard, text: ask.Request.String()})
	case !p.account.FitsOn(string(job.Queue), name, ask.Count):
		return p.unfit(task, node, unfitKey{why: noRoom, queue: job.Queue, name: name, count: ask.Count})
	}
	return nil
}

// The reasons for which a node does not fit a pod.
const (
	withoutJob = iota
	refused
	namelessCard
	otherCard
	noRoom
)

// unfitKey is everything that the words of a refusal depend on.
type unfitKey struct {
	why   int
	text  string
	queue api.QueueID
	name  card.Name
	count card.Count
}

// unfitness keeps refusals of nodes. A pod that names a card is refused by
// every node with another one, thousands of times in a session and always in
// the same words, so each refusal is made once.
type unfitness struct {
	mutex    sync.RWMutex
	statuses map[unfitKey][]*api.Status
}

// mostUnfit bounds the refusals that are kept.
const mostUnfit = 10_000

func (u *unfitness) of(key unfitKey) []*api.Status {
	u.mutex.RLock()
	statuses, ok := u.statuses[key]
	u.mutex.RUnlock()
	if ok {
		return statuses
	}
	statuses = []*api.Status{key.status()}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(u.statuses) >= mostUnfit {
		clear(u.statuses)
	}
	u.statuses[key] = statuses
	return statuses
}

func (k unfitKey) status() *api.Status {
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: PluginName, Reason: k.text}
	switch k.why {
	case withoutJob:
		status.Reason = "job of the pod is not in this session"
	case namelessCard:
		status.Reason = fmt.Sprintf("node(s) have no named card for %s", k.text)
	case otherCard:
		status.Reason = fmt.Sprintf("node(s) have another card than <%s>", k.text)
	case noRoom:
		status.Code = api.Unschedulable
		status.Reason = fmt.Sprintf("queue <%s> has no room for <%d> of <%s>", k.queue, k.count, k.name)
	}
	return status
}

// unfit is the refusal of one node. Volcano writes the node's name into it, so
// only the words can be shared.
func (p *plugin) unfit(task *api.TaskInfo, node *api.NodeInfo, key unfitKey) error {
	return api.NewFitErrWithStatus(task, node, p.memory.unfit.of(key)...)
}
