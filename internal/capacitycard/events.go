package capacitycard

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// Tell sends an event in the name of the plugin.
func (p *plugin) Tell(object runtime.Object, kind, reason, message string) {
	if recorder := p.cache.voice.events(p.ssn.KubeClient()); recorder != nil {
		recorder.Event(object, kind, reason, message)
	}
}

func (p *plugin) tellRefusal(object runtime.Object, refusal *workload.Refusal) {
	p.Tell(object, corev1.EventTypeWarning, refusal.Reason, refusal.Message)
}

// tellPod says on a pod why it is refused: as an event when it is news, and
// through Volcano in the pod's condition PodScheduled.
func (p *plugin) tellPod(task *api.TaskInfo, refusal *workload.Refusal) {
	text, isNew := p.cache.voice.say(task.Pod.UID, refusal)
	if job, ok := p.ssn.Jobs[task.Job]; ok {
		fit := api.NewFitErrors()
		fit.SetError(text)
		job.NodesFitErrors[task.UID] = fit
	}
	if isNew && refusal.Reason != workload.ReasonNotReady {
		p.cache.meters.refused(p.ssn.Jobs[task.Job], refusal)
		p.tellRefusal(task.Pod, refusal)
	}
}

// tellJob says on a PodGroup why it is not admitted. A vcjob has no pods then,
// so the PodGroup's event and condition are all its owner can see.
func (p *plugin) tellJob(job *api.JobInfo, refusal *workload.Refusal) {
	text, isNew := p.cache.voice.say(job.PgUID, refusal)
	job.JobFitErrors = text
	if isNew && refusal.Reason != workload.ReasonNotReady {
		p.cache.meters.refused(job, refusal)
		p.tellRefusal(GroupOf(job), refusal)
	}
	if len(job.Tasks) > 0 || told(job.PodGroup, text) {
		return
	}
	err := p.ssn.UpdatePodGroupCondition(job, &scheduling.PodGroupCondition{
		Type: scheduling.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: refusal.Reason, Message: text,
		LastTransitionTime: metav1.Now(), TransitionID: string(p.ssn.UID),
	})
	if err != nil {
		klog.ErrorS(err, "Cannot set the condition of a PodGroup", "podGroup", klog.KRef(job.Namespace, job.Name))
	}
}

// GroupOf is the PodGroup of a job as the object of an event.
func GroupOf(job *api.JobInfo) runtime.Object {
	return &v1beta1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.PodGroup.Name, UID: job.PodGroup.UID},
	}
}

func told(group *api.PodGroup, text string) bool {
	for _, c := range group.Status.Conditions {
		if c.Type == scheduling.PodGroupUnschedulableType && c.Message == text {
			return true
		}
	}
	return false
}

// tellIfLost says on a waiting pod of this scheduler that its queue does not
// exist or takes nothing. Volcano makes no PodGroup for such a pod, so it never
// reaches a session and nobody else would ever tell.
func (p *plugin) tellIfLost(pod *corev1.Pod) {
	if !workload.Waiting(pod) || workload.PodGroupName(pod) != "" || !p.cache.resolver.IsOurs(pod) {
		return
	}
	queue := p.cache.resolver.Queue(pod, nil, "")
	if queue == "" {
		queue = workload.DefaultQueue
	}
	_ = p.welcome(api.QueueID(queue), pod.Namespace) // so that the gate remembers it
	refusal := p.closedGate(&api.JobInfo{Queue: api.QueueID(queue), Namespace: pod.Namespace})
	if refusal == nil || refusal.Reason == workload.ReasonNotReady {
		return
	}
	if _, isNew := p.cache.voice.say(pod.UID, refusal); isNew {
		p.tellRefusal(pod, refusal)
		go p.cache.voice.mark(p.ssn.KubeClient(), pod.DeepCopy(), refusal)
	}
}

// adopted is a copy of a queue under root, made for an original whose own
// parents lead nowhere.
type adopted struct{ original, copy *scheduling.Queue }

// adoptLostQueues gives the session a copy under root of every queue whose
// parents do not lead to root: one that does not exist, or a circle. Volcano
// walks up the parents when it closes the session, and would panic or never
// return (pkg/scheduler/framework/session.go, updateQueueStatus). Card quotas
// are flat, so such a queue loses nothing by it.
func (p *plugin) adoptLostQueues() {
	known := p.cache.adopted
	p.cache.adopted = map[types.UID]adopted{}
	for _, id := range lostQueues(p.ssn.Queues) {
		info := p.ssn.Queues[id]
		child, ok := known[info.Queue.UID]
		if !ok || child.original != info.Queue {
			child = adopted{original: info.Queue, copy: info.Queue.DeepCopy()}
			if child.copy.Spec.Parent = workload.RootQueue; id == workload.RootQueue {
				child.copy.Spec.Parent = ""
			}
		}
		p.cache.adopted[info.Queue.UID] = child
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
		if id == workload.RootQueue {
			if info.Queue.Spec.Parent != "" {
				lost = append(lost, id)
			}
			continue
		}
		for at, steps := id, 0; ; steps++ {
			parent := api.QueueID(queues[at].Queue.Spec.Parent)
			if parent == "" || parent == workload.RootQueue {
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
		queue.Name, queue.Spec.Parent, workload.RootQueue)}
	if queue.Name == workload.RootQueue {
		refusal.Message = fmt.Sprintf("Queue <%s> names parent <%s>: it has none and is treated so; remove spec.parent", workload.RootQueue, queue.Spec.Parent)
	}
	p.sayOnQueue(queue, refusal)
}

// sayOnQueue says something on a queue, once.
func (p *plugin) sayOnQueue(queue *scheduling.Queue, refusal *workload.Refusal) {
	if _, isNew := p.cache.voice.say(queue.UID, refusal); isNew {
		// Volcano's cache keeps a Queue without its type, which an event needs.
		of := metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue"}
		p.tellRefusal(&v1beta1.Queue{TypeMeta: of, ObjectMeta: queue.ObjectMeta}, refusal)
	}
}
