package capacitycard

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// rootQueue is the queue under which Volcano puts all others.
const rootQueue = "root"

// adopted is a copy of a queue under root, made for an original whose own
// parents lead nowhere.
type adopted struct{ original, copy *scheduling.Queue }

// adoptLostQueues gives the session a copy under root of every queue whose
// parents do not lead to root: one that does not exist, or a circle. Volcano
// walks up the parents when it closes the session, and would panic or never
// return (pkg/scheduler/framework/session.go, updateQueueStatus). Card quotas
// are flat, so such a queue loses nothing by it.
func (p *plugin) adoptLostQueues() {
	known := p.memory.adopted
	p.memory.adopted = map[types.UID]adopted{}
	for _, id := range lostQueues(p.ssn.Queues) {
		info := p.ssn.Queues[id]
		child, ok := known[info.Queue.UID]
		if !ok || child.original != info.Queue {
			child = adopted{original: info.Queue, copy: info.Queue.DeepCopy()}
			if child.copy.Spec.Parent = rootQueue; id == rootQueue {
				child.copy.Spec.Parent = ""
			}
		}
		p.memory.adopted[info.Queue.UID] = child
		info.Queue = child.copy
		p.tellQueue(child.original)
	}
}

// lostQueues lists the queues whose parent does not exist and those that are
// their own ancestors. Queues below them reach root once these are under it.
// root itself is lost with any parent.
func lostQueues(queues map[api.QueueID]*api.QueueInfo) []api.QueueID {
	var lost []api.QueueID
	for id, info := range queues {
		if id == rootQueue {
			if info.Queue.Spec.Parent != "" {
				lost = append(lost, id)
			}
			continue
		}
		for at, steps := id, 0; ; steps++ {
			parent := api.QueueID(queues[at].Queue.Spec.Parent)
			if parent == "" || parent == rootQueue {
				break
			}
			_, exists := queues[parent]
			if !exists && at == id || parent == id {
				lost = append(lost, id)
			}
			if !exists || parent == id || steps > len(queues) {
				break
			}
			at = parent
		}
	}
	return lost
}

// tellQueue says once on a queue that its parent does not lead to root.
func (p *plugin) tellQueue(queue *scheduling.Queue) {
	refusal := &workload.Refusal{Reason: workload.ReasonParentNotFound, Message: fmt.Sprintf(
		"Queue <%s> names parent <%s>, which does not exist or leads back to it: it is treated as a child of <%s>; set spec.parent to an existing queue",
		queue.Name, queue.Spec.Parent, rootQueue)}
	if queue.Name == rootQueue {
		refusal.Message = fmt.Sprintf("Queue <%s> names parent <%s>: it has none and is treated so; remove spec.parent", rootQueue, queue.Spec.Parent)
	}
	p.sayOnQueue(queue, refusal)
}

// sayOnQueue says something on a queue, once.
func (p *plugin) sayOnQueue(queue *scheduling.Queue, refusal *workload.Refusal) {
	if _, isNew := p.memory.voice.say(queue.UID, refusal); !isNew {
		return
	}
	if recorder := p.memory.voice.events(p.ssn.KubeClient()); recorder != nil {
		recorder.Event(&v1beta1.Queue{TypeMeta: queueType, ObjectMeta: queue.ObjectMeta}, corev1.EventTypeWarning, refusal.Reason, refusal.Message)
	}
}

// queueType is what an event needs to name a Queue, which Volcano's cache keeps
// without it.
var queueType = metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue"}
