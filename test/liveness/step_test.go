package liveness

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
)

// applyStep applies a change from outside.
func (w *sequenceRun) applyStep(text string) {
	line := words.Lines(text)[0]
	if slices.Contains([]string{"setQuota", "queue", "cordon", "down"}, line.Verb) {
		w.disturbed = time.Now()
	}

	switch line.Verb {
	case "node":
		w.addNodes(text)
	case "queue":
		w.queues[line.Name()] = line
		w.setQueue(line)
	case "setQuota":
		changed := w.queues[line.Name()]
		changed.Words = append(slices.Clone(changed.Words), line.Words...)
		w.setQueue(changed)
	case "job":
		w.addJob(parseJob(w.id, line))
	case "deleteJob":
		w.endJob(line.Name())
	case "deleteOldestJob":
		w.endJob(w.longestRunningJob(line.Value("queue")))
	case "deletePod":
		w.server.deletePod(line.Name())
	case "cordon", "uncordon", "down", "up":
		w.changeNode(line.Name(), line.Verb)
	case "delay":
		w.delayChanges(line.Name(), mustParseInt(line.Value("sessions")))
	case "faults":
		w.setFaults(mustParseInt(line.Value("percent")), line.Value("seed"))
	default:
		panic(line.Errorf("%q is not a step", line.Verb))
	}
}

// addNodes adds the nodes of a line.
func (w *sequenceRun) addNodes(text string) {
	for _, n := range (&session.Cluster{ID: w.id}).Add(text).Nodes {
		w.setNode(n)
	}
}

// setFaults lets so many percent of the writes fail.
func (w *sequenceRun) setFaults(percent int, seed string) {
	w.server.pods.percent = percent
	w.server.pods.seed = seed
	w.server.groups.percent = percent
	w.server.groups.seed = seed
}

// addJob creates a job and its pods.
func (w *sequenceRun) addJob(j *job) {
	w.jobs[j.group.Name] = j
	w.server.groups.store(j.group.DeepCopy())
	for _, pod := range j.pods {
		w.server.pods.store(pod.DeepCopy())
	}
}

// delayChanges lets the scheduler not see changes of pods, or of groups, for some sessions.
func (w *sequenceRun) delayChanges(of string, sessions int) {
	if of == "pods" {
		w.delayPods = sessions
	} else {
		w.delayGroups = sessions
	}
}

// endJob deletes a job and its pods.
func (w *sequenceRun) endJob(name string) {
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
func (w *sequenceRun) longestRunningJob(queue string) string {
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
func (w *sequenceRun) setNode(n *corev1.Node) {
	w.nodes[n.Name] = n
	utilruntime.Must(w.cache.AddOrUpdateNode(n.DeepCopy()))
}

func (w *sequenceRun) changeNode(name, what string) {
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
func (w *sequenceRun) setQueue(line words.Line) {
	w.version++
	cluster := &session.Cluster{}
	cluster.AddLine(line)
	q := cluster.Queues[0]
	q.ResourceVersion = fmt.Sprint(w.id, "-", w.version) // no two sequences have the same
	w.queueObjects[q.Name] = q.DeepCopy()
	delete(w.cache.Queues, api.QueueID(q.Name))
	w.cache.AddQueueV1beta1(q)
}
