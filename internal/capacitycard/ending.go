package capacitycard

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// ends tells a pod that is being deleted and holds its cards until it is gone.
// What hangs on a node that is gone, or does not work, holds them from nobody.
func (p *plugin) ends(pod *corev1.Pod, node string) bool {
	if node == "" || !workload.Ending(pod) {
		return false
	}
	known, exists := p.memory.nodes[node]
	return exists && workload.Works(known.object)
}

// end books a pod that ends: of the queue and card that it was charged to.
func (p *plugin) end(pod *corev1.Pod, facts *podFacts, queue, node string) {
	if p.settle(facts, queue, node) && facts.ending {
		return
	}
	p.bookEnd(string(pod.UID), pod, facts)
}

// bookEnd moves what a pod is charged from what is used to what is ending.
func (p *plugin) bookEnd(uid string, pod *corev1.Pod, facts *podFacts) {
	p.account.End(uid, facts.charge, workload.Goodbye(pod))
	facts.booked, facts.ending = false, true
}

// evicted books a pod that this session evicts. It gives its quota back, and its
// cards when it has ended. It is false for a pod that held nothing.
func (p *plugin) evicted(event *framework.Event, facts *podFacts) bool {
	if event.Task.Status != api.Releasing || !facts.booked && !facts.ending {
		return false
	}
	if facts.booked {
		p.bookEnd(string(event.Task.UID), event.Task.Pod, facts)
	}
	return true
}

// endsTooMuch tells that pods that would be evicted for another one of a queue
// hold more of a card than may be ending there: it could not be placed either
// before they are gone, and neither could any other pod of the queue.
func (p *plugin) endsTooMuch(queue api.QueueID, name card.Name, victims []*api.TaskInfo) bool {
	var freed quota.Freed
	for _, victim := range victims {
		if charge := p.chargeIn(queue, victim); charge != nil {
			freed.Add(charge)
		}
	}
	return freed.Cards[name] > p.account.MayEnd(string(queue), name)
}

// endingText are the words in which a node is refused.
func (k unfitKey) endingText(ending card.Count) string {
	text := workload.EndingText(&quota.Shortage{Queue: string(k.queue), Names: []card.Name{k.name}, Total: int64(ending), Limit: int64(k.limit), Within: k.within})
	return strings.ToLower(text[:1]) + text[1:]
}
