package capacitycard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
)

// tasks lists the tasks of the session in one of the states, by UID.
func (l *lifecycle) tasks(states ...api.TaskStatus) []*api.TaskInfo {
	var found []*api.TaskInfo
	for _, job := range l.ssn.Jobs {
		for _, task := range job.Tasks {
			if len(states) == 0 || slices.Contains(states, task.Status) {
				found = append(found, task)
			}
		}
	}
	slices.SortFunc(found, func(a, b *api.TaskInfo) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return found
}

// asked returns what a pod requests: how many cards, and of which models as its annotation names them.
func asked(pod *corev1.Pod) (cards int, names string) {
	quantity := pod.Spec.Containers[0].Resources.Requests[gpu]
	return int(quantity.Value()), pod.Annotations["volcano.sh/card.name"]
}

// usesCards is the rule of the recount. Cards are used by pods that run or are being bound, that this session pipelined,
// or that an earlier session evicted and the API server has not deleted.
func (l *lifecycle) usesCards(task *api.TaskInfo) bool {
	switch task.Status {
	case api.Allocated, api.Pipelined, api.Binding, api.Bound, api.Running:
		return true
	case api.Releasing:
		return l.leaving[task.Pod.UID]
	}
	return false
}

// isTerminating is the rule of terminating pods: those that are deleted, are on their node and have not finished, and those
// that this session evicted.
func (l *lifecycle) isTerminating(task *api.TaskInfo) bool {
	return task.Status == api.Releasing && !l.usesCards(task) && task.NodeName != "" && task.Pod.Status.Phase != corev1.PodSucceeded
}

// queueOf is the queue that a task's PodGroup is in.
func (l *lifecycle) queueOf(task *api.TaskInfo) string {
	return l.groups[strings.TrimPrefix(string(task.Job), "ns/")].Spec.Queue
}

// chargedQueue is the queue that is charged for a task. If this session places it, that is the queue of its PodGroup. Else
// it is the queue that was charged for it on this node before, then the one of its binding, then that of its PodGroup. A
// queue that does not exist is not charged.
func (l *lifecycle) chargedQueue(task *api.TaskInfo) string {
	uid := task.Pod.UID
	queue := l.queueOf(task)
	switch last := l.lastCharged[uid]; {
	case task.Status == api.Allocated || task.Status == api.Pipelined:
	case last.node == task.NodeName && l.queues[last.queue] != nil:
		queue = last.queue
	case l.queues[l.written[uid]] != nil:
		queue = l.written[uid]
	}
	l.lastCharged[uid] = chargedOn{queue, task.NodeName}
	return queue
}

// modelOf is the model of the card that a task uses: that of its node or, while the node has no label, the one for which it
// was charged last.
func (l *lifecycle) modelOf(task *api.TaskInfo) string {
	if model := l.models[task.NodeName]; model != "" {
		l.lastModel[task.Pod.UID] = model
	}
	return l.lastModel[task.Pod.UID]
}

// used counts the cards that each queue uses, and those of its terminating pods, by model.
func (l *lifecycle) used() map[use]int {
	sums := map[use]int{}
	for _, task := range l.tasks() {
		if task.Status == api.Pending {
			delete(l.lastCharged, task.Pod.UID) // it is placed again
		}

		ends := l.isTerminating(task)
		if ends || l.usesCards(task) {
			cards, _ := asked(task.Pod)
			sums[use{l.chargedQueue(task), l.modelOf(task), ends}] += cards
		}
	}

	return sums
}

// use is a sum of used cards or, if ends is set, of terminating ones.
type use struct {
	queue, model string
	ends         bool
}

// mayUse reports whether a task may be placed on a node with this usage.
func (l *lifecycle) mayUse(task *api.TaskInfo, node string, used map[use]int) bool {
	cards, names := asked(task.Pod)
	queue := l.queueOf(task)
	model := l.models[node]
	if l.quotas[queue] == nil || cards == 0 {
		return l.quotas[queue] != nil
	}
	limit := l.quotas[queue][model]
	isNamed := names == "" || strings.Contains(names, model)
	isWithinQuota := used[use{queue, model, false}]+cards <= limit && used[use{queue, model, true}] <= limit
	return model != "" && isNamed && isWithinQuota
}

// check compares the ledger with the recount.
func (l *lifecycle) check(t *rapid.T) {
	pods := map[string]int{}
	used := l.used()
	for _, task := range l.tasks() {
		charge := l.plugin.Ledger.Charged(string(task.UID))
		check.Must(t, l.usesCards(task) == (charge != nil), "%s is %s on %q, evicted before: %v, and is charged %+v",
			task.UID, task.Status, task.NodeName, l.leaving[task.Pod.UID], charge)
		if charge != nil {
			pods[l.chargedQueue(task)]++
		}
	}

	usages := map[string]quota.QueueUsage{}
	for _, usage := range l.plugin.Ledger.Snapshot() {
		usages[usage.Queue] = usage
	}

	for queue := range l.queues {
		limits := usages[queue].Limits
		check.Must(t, len(limits.Cards) == len(l.quotas[queue]), "queue %s is limited to %v, its quota is %v", queue, limits.Cards, l.quotas[queue])

		for _, model := range []string{"A", "B"} {
			terminating, _ := l.plugin.Ledger.Terminating(queue, card.Name(model))
			check.Equal(t, "cards "+model+" that queue "+queue+" uses", used[use{queue, model, false}], int(l.plugin.Ledger.Used(queue, card.Name(model))))
			check.Equal(t, "terminating cards "+model+" of queue "+queue, used[use{queue, model, true}], int(terminating))
		}

		of := usages[queue]
		check.Must(t, of.MilliCPU == int64(pods[queue])*1000 && of.Memory == int64(pods[queue])<<30,
			"queue %s uses %dm CPU and %d bytes for %d pods of 1 CPU and 1Gi", queue, of.MilliCPU, of.Memory, pods[queue])
	}
}

// grewWithinQuota checks each usage that has grown since before: it is within the quota, and no more cards than that are
// terminating.
func (l *lifecycle) grewWithinQuota(t *rapid.T, before map[use]int) {
	after := l.used()
	for u, used := range after {
		if u.ends || used <= before[u] {
			continue
		}

		quota := l.quotas[u.queue][u.model]
		ending := after[use{u.queue, u.model, true}]
		check.Must(t, used <= quota && ending <= quota, "queue %s uses %d of %s after %d while %d terminate, its quota is %d",
			u.queue, used, u.model, before[u], ending, quota)
	}
}
