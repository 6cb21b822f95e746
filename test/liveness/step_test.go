package liveness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	case "quota", "queue", "cordon", "down":
		w.disturbed = time.Now()
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
		w.addJob(parseJob(w.id, strings.TrimPrefix(line, "job ")))
	case "end":
		w.endJob(words[1])
	case "finish":
		w.endJob(w.longestRunningJob(words[1]))
	case "delete":
		w.server.deletePod(words[1])
	case "cordon", "uncordon", "down", "up":
		w.changeNode(words[1], words[0])
	case "hold":
		w.delayChanges(words[1], mustParseInt(words[2]))
	case "faults":
		w.server.pods.percent = mustParseInt(words[1])
		w.server.pods.seed = words[2]
		w.server.groups.percent = mustParseInt(words[1])
		w.server.groups.seed = words[2]
	}
}

// addJob creates a job and its pods.
func (w *simulation) addJob(j *job) {
	w.jobs[j.group.Name] = j
	w.server.groups.store(j.group.DeepCopy())
	for _, pod := range j.pods {
		w.server.pods.store(pod.DeepCopy())
	}
}

// delayChanges lets the scheduler not see changes of pods, or of groups, for some sessions.
func (w *simulation) delayChanges(of string, sessions int) {
	if of == "pods" {
		w.holdPods = sessions
	} else {
		w.holdGroups = sessions
	}
}

// endJob deletes a job and its pods.
func (w *simulation) endJob(name string) {
	j := w.jobs[name]
	if j == nil {
		return
	}

	delete(w.jobs, name)
	w.server.groups.remove(name)
	for _, pod := range j.pods {
		w.server.deletePod(pod.Name)
	}
}

// longestRunningJob returns the job of a queue whose first pod has run for the longest time, "" if none
// runs.
func (w *simulation) longestRunningJob(queue string) string {
	longest := ""
	began := time.Time{}
	for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
		j := w.jobs[name]
		pod := w.server.pods.objects[j.pods[0].Name]
		if j.group.Spec.Queue != queue || pod == nil || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}

		if start := pod.Status.StartTime.Time; longest == "" || start.Before(began) {
			longest = name
			began = start
		}
	}

	return longest
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
	q := addText(&session.Cluster{}, line).Queues[0]
	q.ResourceVersion = fmt.Sprint(w.id, "-", w.version) // no two sequences have the same
	w.queueObjects[q.Name] = q.DeepCopy()
	delete(w.cache.Queues, api.QueueID(q.Name))
	w.cache.AddQueueV1beta1(q)
}
