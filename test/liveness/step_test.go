package liveness

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/session"
)

// applyStep applies a change from outside.
func (w *simulation) applyStep(line string) {
	words := strings.Fields(line)
	for _, n := range parseNode(w.id, line) {
		w.setNode(n)
	}
	switch words[0] {
	case "queue":
		w.queues[words[1]] = line
		w.setQueue(line)
	case "quota":
		was := strings.Fields(w.queues[words[1]])
		was[2] = words[2]
		w.setQueue(strings.Join(was, " "))
	case "job":
		j := parseJob(w.id, strings.TrimPrefix(line, "job "))
		w.jobs[j.group.Name] = j
		w.server.groups.store(j.group.DeepCopy())
		for _, pod := range j.pods {
			w.server.pods.store(pod.DeepCopy())
		}
	case "end":
		if j := w.jobs[words[1]]; j != nil {
			delete(w.jobs, words[1])
			w.server.groups.remove(words[1])
			for _, pod := range j.pods {
				w.server.deletePod(pod.Name)
			}
		}
	case "delete":
		w.server.deletePod(words[1])
	case "cordon", "uncordon", "down", "up":
		w.changeNode(words[1], words[0])
	case "hold":
		if words[1] == "pods" {
			w.holdPods = mustParseInt(words[2])
		} else {
			w.holdGroups = mustParseInt(words[2])
		}
	case "faults":
		w.server.pods.percent, w.server.pods.seed = mustParseInt(words[1]), words[2]
		w.server.groups.percent, w.server.groups.seed = mustParseInt(words[1]), words[2]
	}
}

// setNode updates a node in Volcano's cache.
func (w *simulation) setNode(n *corev1.Node) {
	w.nodes[n.Name] = n
	if err := w.cache.AddOrUpdateNode(n.DeepCopy()); err != nil {
		panic(err)
	}
}

func (w *simulation) changeNode(name, what string) {
	n, known := w.nodes[name]
	if !known {
		return
	}
	n = n.DeepCopy()
	switch what {
	case "cordon", "uncordon":
		n.Spec.Unschedulable = what == "cordon"
	default:
		w.down[name] = what == "down"
		n.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionUnknown, false: corev1.ConditionTrue}[w.down[name]]
	}
	w.setNode(n)
}

// setQueue updates a queue in Volcano's cache.
func (w *simulation) setQueue(line string) {
	w.version++
	q := (&session.Cluster{}).Add(line).Queues[0]
	q.ResourceVersion = fmt.Sprint(w.id, "-", w.version) // no two sequences have the same
	w.queueObjects[q.Name] = q.DeepCopy()
	delete(w.cache.Queues, api.QueueID(q.Name))
	w.cache.AddQueueV1beta1(q)
}
