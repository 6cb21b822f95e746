package cardreclaim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/sessioncheck"
)

// runWatched plays sessions and returns the violations that sessioncheck finds in what the API
// server would show. No evicted pod is deleted, as with a slow API server.
func (w *world) runWatched(sessions int, by string, plugins []string, play func()) []sessioncheck.Violation {
	clock := w.Now
	j := sessioncheck.New(sessioncheck.Options{ReclaimFrom: map[string][]string{"inference": {"training"}}})
	j.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, clock)
	for _, object := range w.Objects() {
		j.Load(object, clock)
	}

	shown := map[string]bool{}
	for session := range sessions {
		w.openSession(plugins...)
		play()
		for _, job := range w.Ssn.Jobs {
			for status, tasks := range job.TaskStatusIndex {
				for _, task := range tasks {
					if pod := podAfterSession(task, status, by); pod != nil && !shown[task.Name] {
						shown[task.Name] = true
						j.Apply(pod, false, clock)
					}
				}
			}
		}

		w.Close()
		clock = clock.Add(time.Second)
		j.AddReading(sessioncheck.Reading{Asked: clock, Answered: clock, Closed: session, Decides: true})
		j.Check(clock)
	}

	return j.TakeViolations()
}

// podAfterSession returns the pod of a task as the API server shows it after a session, nil if
// nothing changed.
func podAfterSession(task *api.TaskInfo, status api.TaskStatus, by string) *corev1.Pod {
	pod := task.Pod.DeepCopy()
	switch status {
	case api.Releasing:
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of " + by})
	case api.Pipelined:
		pod.Spec.NodeName = ""
		pod.Status.NominatedNodeName = task.NodeName
	default:
		return nil
	}

	return pod
}

// runPreempt runs Volcano's action preempt after allocate.
func (w *world) runPreempt() { w.Run(allocate.New(), preempt.New()) }

// twoNodeGroups has training in two node groups, that of the first protected. A pod of
// inference needs a card of the second.
func twoNodeGroups(text string) *world {
	w := newWorld(`node n1,n2 A 4; queue inf1 PLENTY 90000 inference cpu=1000; queue inf2 PLENTY 80000 inference cpu=1000
		queue tra1 PLENTY 20000 training cpu=1000; queue tra2 PLENTY 20000 training cpu=1000
		t1 tra1 4: n1*4 ran=24h protected; t2 tra2 4: n2*4 ran=24h; y inf2 1: -;` + text)
	for i, n := range w.Nodes {
		n.Labels["volcano.sh/nodegroup-name"] = fmt.Sprint("g", i+1)
	}

	for _, q := range w.Queues {
		if number := q.Name[len(q.Name)-1:]; number == "1" || number == "2" {
			q.Spec.Affinity = &v1beta1.Affinity{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []string{"g" + number}}}
		}
	}

	return w
}

// nodesWithBlockingPods have training that may be evicted. A protected pod keeps the pending
// pod out of the whole domain of a node label. One more node has training of larger loss and
// no such pod.
func nodesWithBlockingPods(n int, label string) *world {
	w := newWorld("node clean A 4; old tra 4: clean*4 ran=24h; queue cpu {} 50000 gives")
	for i := range n {
		w.add(fmt.Sprintf("node n%02d A 4; tn%02d tra 4: n%02d*4 ran=1h", i, i, i)).add(fmt.Sprintf("xn%02d cpu 1: n%02d cards=0 ran=24h", i, i), withLabelAndAntiAffinity("x", "i"))
	}

	w.add("i inf 1: -", withLabelAndAntiAffinity("i", ""))
	for _, node := range w.Nodes {
		node.Labels[corev1.LabelHostname] = node.Name
		node.Labels[zone] = node.Name
	}

	for _, pod := range w.Pods {
		if pod.Labels["app"] == "x" {
			pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = label
		}
	}

	return w
}

// TestPreemptWaitsForDeletion: no other pod is evicted while the API server does not show the
// first deletion.
func TestPreemptWaitsForDeletion(t *testing.T) {
	w := newWorld(`node n A 8; queue inf {"A":4} 80000 inference cpu=1000; low inf 1: n*4 ran=24h class=low; high inf 1: - class=high`)
	found := w.runWatched(4, "preempt", nil, w.runPreempt)
	check.That(t, len(found) == 0, "found %v", found)
}

// TestSessionCheckFindsNoViolation: no pod starves because a pending pod of another queue
// comes before it, or because many nodes do not fit.
func TestSessionCheckFindsNoViolation(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		world   *world
		plugins []string
		promise string
	}{
		"node groups":                           {twoNodeGroups(""), []string{"nodegroup"}, "y-0@n2"},
		"node groups, another one waits before": {twoNodeGroups("x inf1 1: -"), []string{"nodegroup"}, "y-0@n2"},
		"nodes that refuse":                     {nodesWithBlockingPods(40, corev1.LabelHostname), nil, "i-0@clean"},
		"zones that refuse":                     {nodesWithBlockingPods(40, zone), nil, "i-0@clean"},
	}) {
		pipelined := ""
		found := tc.world.runWatched(10, Name, tc.plugins, func() {
			tc.world.executeActions()
			_, pipelined = tc.world.Outcome()
		})

		check.That(t, len(found) == 0, "found %v", found)
		check.Equal(t, "pipelined", tc.promise, pipelined)
	}
}
