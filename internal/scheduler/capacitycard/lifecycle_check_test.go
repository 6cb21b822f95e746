package capacitycard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
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

// asked is what a pod says: how many cards, and which models may be its.
func asked(pod *corev1.Pod) (cards int, names string) {
	quantity := pod.Spec.Containers[0].Resources.Requests[gpu]
	return int(quantity.Value()), pod.Annotations["volcano.sh/card.name"]
}

// holdsCards is the rule of the recount. Cards belong to pods that run or are being bound, that
// this session pipelined, or that an earlier session evicted and the API server has not
// deleted.
func (l *lifecycle) holdsCards(task *api.TaskInfo) bool {
	switch task.Status {
	case api.Allocated, api.Pipelined, api.Binding, api.Bound, api.Running:
		return true
	case api.Releasing:
		return l.leaving[task.Pod.UID]
	}
	return false
}

// isTerminating is the rule of what ends: pods that are being deleted on their node and
// have not finished, whatever Volcano calls them, and those that this session
// evicted.
func (l *lifecycle) isTerminating(task *api.TaskInfo) bool {
	return task.Status == api.Releasing && !l.holdsCards(task) && task.NodeName != "" && task.Pod.Status.Phase != corev1.PodSucceeded
}

// queueOf is the queue that a task's PodGroup is in.
func (l *lifecycle) queueOf(task *api.TaskInfo) string {
	return l.groups[strings.TrimPrefix(string(task.Job), "ns/")].Spec.Queue
}

// chargedQueue is the queue that pays for a task: that of its PodGroup when this session
// places it; then the one that paid for it on its node, else the one of its
// binding, else that of its PodGroup, as far as they exist.
func (l *lifecycle) chargedQueue(task *api.TaskInfo) string {
	uid := task.Pod.UID
	queue := l.queueOf(task)
	switch last := l.paid[uid]; {
	case task.Status == api.Allocated || task.Status == api.Pipelined:
	case last.node == task.NodeName && l.queues[last.queue] != nil:
		queue = last.queue
	case l.queues[l.written[uid]] != nil:
		queue = l.written[uid]
	}
	l.paid[uid] = payment{queue, task.NodeName}
	return queue
}

// modelOf is the card a task is on: its node's, or while that has no label the
// one it was charged last.
func (l *lifecycle) modelOf(task *api.TaskInfo) string {
	if model := l.models[task.NodeName]; model != "" {
		l.last[task.Pod.UID] = model
	}
	return l.last[task.Pod.UID]
}

// used counts what every queue uses of every model, and what of it ends.
func (l *lifecycle) used() map[use]int {
	sums := map[use]int{}
	for _, task := range l.tasks() {
		if task.Status == api.Pending {
			delete(l.paid, task.Pod.UID) // it is placed again
		}

		ends := l.isTerminating(task)
		if ends || l.holdsCards(task) {
			cards, _ := asked(task.Pod)
			sums[use{l.chargedQueue(task), l.modelOf(task), ends}] += cards
		}
	}

	return sums
}

// use is a queue and a model, of what is used or what ends.
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
		charge := l.plugin.ledger.Charged(string(task.UID))
		check.Must(t, l.holdsCards(task) == (charge != nil), "%s is %s on %q, evicted before: %v, and is charged %+v", task.UID, task.Status, task.NodeName, l.leaving[task.Pod.UID], charge)
		if charge != nil {
			pods[l.chargedQueue(task)]++
		}
	}

	for queue := range l.queues {
		limits := l.plugin.ledger.PathLimits(queue)
		check.Must(t, len(limits.Cards) == len(l.quotas[queue]), "queue %s is limited to %v, its quota is %v", queue, limits.Cards, l.quotas[queue])

		for _, model := range []string{"A", "B"} {
			terminating, _ := l.plugin.ledger.Terminating(queue, card.Name(model))
			check.Equal(t, "cards "+model+" that queue "+queue+" uses", used[use{queue, model, false}], int(l.plugin.ledger.Used(queue, card.Name(model))))
			check.Equal(t, "terminating cards "+model+" of queue "+queue, used[use{queue, model, true}], int(terminating))
		}

		milliCPU, memory := l.plugin.ledger.UsedCPUMemory(queue)
		check.Must(t, milliCPU == int64(pods[queue])*1000 && memory == int64(pods[queue])<<30,
			"queue %s uses %dm CPU and %d bytes for %d pods of 1 CPU and 1Gi", queue, milliCPU, memory, pods[queue])
	}
}

// grewWithinQuota checks that what is in use grew only where it is within the
// quota and no more than that ends, since so much was in use.
func (l *lifecycle) grewWithinQuota(t *rapid.T, before map[use]int) {
	after := l.used()
	for u, used := range after {
		if u.ends || used <= before[u] {
			continue
		}

		quota := l.quotas[u.queue][u.model]
		ending := after[use{u.queue, u.model, true}]
		check.Must(t, used <= quota && ending <= quota, "queue %s uses %d of %s after %d while %d end, its quota is %d", u.queue, used, u.model, before[u], ending, quota)
	}
}
