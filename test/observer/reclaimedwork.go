package observer

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// The counters of action cardreclaim.
const (
	reclaimedMetric     = "cardquota_reclaimed_pods_total"
	reclaimedJobsMetric = "cardquota_reclaimed_jobs_total"
	reclaimedLossMetric = "cardquota_reclaimed_card_seconds_total"
)

// Between the decision of a session and the mark of the API server on a pod may lie decisionLag. The
// API server dates the mark in whole seconds.
const (
	decisionLag = 10 * time.Second
	markSlack   = 2 * time.Second
)

// reclaimedWork is what action cardreclaim has taken from a queue.
type reclaimedWork struct {
	pods, jobs int64
	// leastLoss and mostLoss are the card-seconds that it destroyed.
	leastLoss, mostLoss float64
}

// recordReclaimed counts an eviction by cardreclaim. The job is evicted as a whole with its last pod.
func (m *clusterState) recordReclaimed(state *podState, by evictionAction, seen time.Time) {
	if by != cardReclaim {
		return
	}

	queue := m.queueOf(state)
	sums := m.reclaimed[queue]
	if sums == nil {
		sums = &reclaimedWork{}
		m.reclaimed[queue] = sums
	}

	sums.pods++
	if !m.hasOtherPods(state) {
		sums.jobs++
	}

	count := float64(rule.RequestOf(state.pod, m.inventory).Count)
	at := markedAt(state.pod, seen)
	if begun := m.workSince(state); !begun.IsZero() {
		sums.leastLoss += count * max(0, at.Add(-decisionLag).Sub(begun).Seconds()-1)
		sums.mostLoss += count * max(0, at.Add(markSlack).Sub(begun).Seconds())
	}
}

// hasOtherPods reports whether other pods of the job are placed and not evicted.
func (m *clusterState) hasOtherPods(state *podState) bool {
	for _, other := range m.podsOfJob(state) {
		if other != state && other.charge != nil && other.evicted == nil {
			return true
		}
	}
	return false
}

// podsOfJob returns the pods with the PodGroup of a pod, the pod alone if it has none.
func (m *clusterState) podsOfJob(state *podState) []*podState {
	name := rule.PodGroupName(state.pod)
	if name == "" {
		return []*podState{state}
	}
	var out []*podState
	for _, other := range m.pods {
		if other.pod.Namespace == state.pod.Namespace && rule.PodGroupName(other.pod) == name {
			out = append(out, other)
		}
	}
	return out
}

// workSince returns since when an eviction destroys the work of a pod: its start, or the last checkpoint
// that its PodGroup or a pod of its job states. It is zero for a pod that has not started.
func (m *clusterState) workSince(state *podState) time.Time {
	if state.pod.Status.StartTime == nil {
		return time.Time{}
	}

	since := state.pod.Status.StartTime.Time
	annotations := []map[string]string{}
	if group := m.groupOf(state.pod); group != nil {
		annotations = append(annotations, group.Annotations)
	}

	for _, other := range m.podsOfJob(state) {
		annotations = append(annotations, other.pod.Annotations)
	}

	for _, written := range annotations {
		if at, err := time.Parse(time.RFC3339, written[v1alpha1.AnnotationCheckpointTime]); err == nil && at.After(since) {
			since = at
		}
	}

	return since
}

// markedAt returns when a pod was marked as evicted, by the clock of the cluster if it says so.
func markedAt(pod *corev1.Pod, seen time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return seen
}

// expectEvictions adds the jobs and pods that action cardreclaim has evicted from each queue.
func (m *clusterState) expectEvictions(add gauge) []string {
	for queue, sums := range m.reclaimed {
		if m.queues[queue] != nil {
			add(reclaimedMetric, float64(sums.pods), map[string]string{"queue": queue})
			if sums.jobs > 0 { // a counter begins with its first job
				add(reclaimedJobsMetric, float64(sums.jobs), map[string]string{"queue": queue})
			}
		}
	}
	return []string{reclaimedMetric, reclaimedJobsMetric}
}

// checkLoss compares the work that evictions destroyed with the times of the pods.
func (c *metricsComparison) checkLoss(page []sample) {
	served := map[string]float64{}
	for _, s := range page {
		if s.name == reclaimedLossMetric {
			served[s.labels["queue"]] = s.value
		}
	}

	for queue := range c.state.reclaimed {
		served[queue] += 0
	}

	for queue, value := range served {
		s := sample{reclaimedLossMetric, map[string]string{"queue": queue}, value}
		if c.state.queues[queue] == nil || !c.concerns(&s) {
			continue
		}

		difference := ""
		sums := c.state.reclaimed[queue]
		if sums == nil {
			sums = &reclaimedWork{}
		}

		if value < sums.leastLoss-1e-6 || value > sums.mostLoss+1e-6 {
			difference = fmt.Sprintf("it is %.0f, a recount gives %.0f to %.0f", value, sums.leastLoss, sums.mostLoss)
		}
		c.compare(s.key(), difference)
	}
}

// sumReclaimers adds up the counters of each queue over the service types of the reclaimers.
func sumReclaimers(page []sample) (out []sample) {
	type series struct{ name, queue string }
	sums := map[series]float64{}
	for _, s := range page {
		switch s.name {
		case reclaimedMetric, reclaimedJobsMetric, reclaimedLossMetric:
			sums[series{s.name, s.labels["queue"]}] += s.value
		}
	}

	for key, value := range sums {
		out = append(out, sample{key.name, map[string]string{"queue": key.queue}, value})
	}

	return out
}
