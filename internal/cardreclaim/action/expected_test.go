package action

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
	"cardquota.dev/operator/test/observer/expected"
	"cardquota.dev/operator/test/observer/judge"
)

// watched plays sessions under the eyes of the judge, which is told what the API
// server would show of each: who was evicted, and who was promised a node. No pod
// that was evicted is deleted, as with an API server that is slow.
func (w *world) watched(sessions int, by string, plugins []string, play func()) []judge.Violation {
	clock := w.Now
	j := judge.New(judge.Options{ReclaimFrom: map[string][]string{"inference": {"training"}}})
	j.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, clock)
	for _, object := range w.Objects() {
		j.Load(object, clock)
	}
	shown := map[string]bool{}
	for session := range sessions {
		w.open(plugins...)
		play()
		for _, job := range w.Ssn.Jobs {
			for status, tasks := range job.TaskStatusIndex {
				for _, task := range tasks {
					if pod := shownAs(task, status, by); pod != nil && !shown[task.Name] {
						shown[task.Name] = true
						j.Take(pod, false, clock)
					}
				}
			}
		}
		w.Close()
		clock = clock.Add(time.Second)
		j.Hear(judge.Reading{Asked: clock, Answered: clock, Closed: session, Decides: true})
		j.Judge(clock)
	}
	return j.Found()
}

// shownAs is the pod of a task as the API server shows it after a session, nil
// where nothing changed.
func shownAs(task *api.TaskInfo, status api.TaskStatus, by string) *corev1.Pod {
	pod := task.Pod.DeepCopy()
	switch status {
	case api.Releasing:
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of " + by})
	case api.Pipelined:
		pod.Spec.NodeName, pod.Status.NominatedNodeName = "", task.NodeName
	default:
		return nil
	}
	return pod
}

// preempts runs Volcano's action preempt after allocate.
func (w *world) preempts() { w.Run(allocate.New(), preempt.New()) }

// twoNodeGroups has training in two node groups, that of the first protected, and
// a pod of inference waits for a card of the second.
func twoNodeGroups(text string) *world {
	w := tides(`node n1,n2 A 4; queue inf1 PLENTY 90000 inference cpu=1000; queue inf2 PLENTY 80000 inference cpu=1000
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

// nodesThatRefuse have training that may be taken, and a pod that stays and keeps
// the pod off that waits; one more node has dearer training and no such pod.
func nodesThatRefuse(n int) *world {
	w := tides("node clean A 4; old tra 4: clean*4 ran=24h; queue cpu {} 50000 gives")
	for i := range n {
		w.add(fmt.Sprintf("node n%02d A 4; tn%02d tra 4: n%02d*4 ran=1h", i, i, i)).add(fmt.Sprintf("xn%02d cpu 1: n%02d cards=0 ran=24h", i, i), labelled("x", "i"))
	}
	return w.add("i inf 1: -", labelled("i", ""))
}

func TestExpectedViolations(t *testing.T) {
	t.Run("preempt", func(t *testing.T) {
		w := tides(`node n A 8; queue inf {"A":4} 80000 inference cpu=1000; low inf 1: n*4 ran=24h class=low; high inf 1: - class=high`)
		expected.Check(t, "preempt evicts one more pod in each session until the first is deleted", w.watched(4, "preempt", nil, w.preempts))
	})
	t.Run("node groups", func(t *testing.T) {
		w := twoNodeGroups("x inf1 1: -")
		expected.Check(t, "cardreclaim remembers which nodes fit by needs and not by queue", w.watched(10, Name, []string{"nodegroup"}, w.execute))
	})
	t.Run("nodes that refuse", func(t *testing.T) {
		w := nodesThatRefuse(16)
		expected.Check(t, "cardreclaim gives up after sixteen nodes that refuse", w.watched(10, Name, nil, w.execute))
	})
}

// TestTheJudgeFindsNothingWhereTheSchedulerServes: the same scenes without what
// leads the scheduler astray.
func TestTheJudgeFindsNothingWhereTheSchedulerServes(t *testing.T) {
	w := twoNodeGroups("")
	for name, found := range map[string][]judge.Violation{
		"node groups":       w.watched(10, Name, []string{"nodegroup"}, w.execute),
		"nodes that refuse": func() []judge.Violation { w := nodesThatRefuse(10); return w.watched(10, Name, nil, w.execute) }(),
	} {
		check.That(t, len(found) == 0, "%s: found %v", name, found)
	}
}
