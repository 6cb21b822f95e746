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
func (w *scene) runWatched(sessions int, by string, plugins []string, play func()) []sessioncheck.Violation {
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
func (w *scene) runPreempt() { w.Run(allocate.New(), preempt.New()) }

// twoNodeGroups has training in two node groups, that of the first protected. A pod of
// inference needs a card of the second.
func twoNodeGroups(text string) *scene {
	w := newScene(`node n1,n2 model=A cards=4; queue inf1 quota=PLENTY priority=90000 serviceType=inference cpu=1000; queue inf2 quota=PLENTY priority=80000 serviceType=inference cpu=1000
		queue tra1 quota=PLENTY priority=20000 serviceType=training cpu=1000; queue tra2 quota=PLENTY priority=20000 serviceType=training cpu=1000
		job t1 queue=tra1 min=4 running=n1*4 age=24h preemptable=false; job t2 queue=tra2 min=4 running=n2*4 age=24h; job y queue=inf2 min=1 pending=1;` + text)
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
func nodesWithBlockingPods(n int, label string) *scene {
	w := newScene("node clean model=A cards=4; job old queue=tra min=4 running=clean*4 age=24h; queue cpu quota={} priority=50000 reclaimable=true")
	for i := range n {
		w.add(fmt.Sprintf("node n%02d model=A cards=4; job tn%02d queue=tra min=4 running=n%02d*4 age=1h", i, i, i)).add(fmt.Sprintf("job xn%02d queue=cpu min=1 running=n%02d cards=0 age=24h", i, i), withLabelAndAntiAffinity("x", "i"))
	}

	w.add("job i queue=inf min=1 pending=1", withLabelAndAntiAffinity("i", ""))
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
	w := newScene(`node n model=A cards=8; queue inf quota={"A":4} priority=80000 serviceType=inference cpu=1000; job low queue=inf min=1 running=n*4 age=24h priorityClass=low; job high queue=inf min=1 pending=1 priorityClass=high`)
	found := w.runWatched(4, "preempt", nil, w.runPreempt)
	check.That(t, len(found) == 0, "found %v", found)
}

// TestSessionCheckFindsNoViolation: no pod starves because a pending pod of another queue
// comes before it, or because many nodes do not fit.
func TestSessionCheckFindsNoViolation(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene   *scene
		plugins []string
		promise string
	}{
		"node groups":                           {twoNodeGroups(""), []string{"nodegroup"}, "y-0@n2"},
		"node groups, another one waits before": {twoNodeGroups("job x queue=inf1 min=1 pending=1"), []string{"nodegroup"}, "y-0@n2"},
		"nodes that refuse":                     {nodesWithBlockingPods(40, corev1.LabelHostname), nil, "i-0@clean"},
		"zones that refuse":                     {nodesWithBlockingPods(40, zone), nil, "i-0@clean"},
	}) {
		pipelined := ""
		found := tc.scene.runWatched(10, Name, tc.plugins, func() {
			tc.scene.executeActions()
			_, pipelined = tc.scene.Outcome()
		})

		check.That(t, len(found) == 0, "found %v", found)
		check.Equal(t, "pipelined", tc.promise, pipelined)
	}
}
