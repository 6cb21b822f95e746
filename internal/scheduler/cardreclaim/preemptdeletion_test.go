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

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/sessioncheck"
)

// findViolations plays sessions and returns the violations that sessioncheck finds in what the API
// server would show. No evicted pod is deleted, as with a slow API server.
func (s *scene) findViolations(sessions int, evictingAction string, plugins []string, play func()) []sessioncheck.Violation {
	clock := s.Now
	judge := sessioncheck.New(sessioncheck.Options{ReclaimFrom: map[string][]string{"inference": {"training"}}})
	judge.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, clock)
	for _, object := range s.Objects() {
		judge.Load(object, clock)
	}

	isShown := map[string]bool{}
	for session := range sessions {
		s.openSession(plugins...)
		play()
		for _, job := range s.Ssn.Jobs {
			for status, tasks := range job.TaskStatusIndex {
				for _, task := range tasks {
					if pod := podAfterSession(task, status, evictingAction); pod != nil && !isShown[task.Name] {
						isShown[task.Name] = true
						judge.Apply(pod, false, clock)
					}
				}
			}
		}

		s.Close()
		clock = clock.Add(time.Second)
		judge.AddReading(sessioncheck.Reading{Asked: clock, Answered: clock, Closed: session, Decides: true})
		judge.Check(clock)
	}

	return judge.TakeViolations()
}

// podAfterSession returns the pod of a task as the API server shows it after a session, nil if
// nothing changed.
func podAfterSession(task *api.TaskInfo, status api.TaskStatus, evictingAction string) *corev1.Pod {
	pod := task.Pod.DeepCopy()
	switch status {
	case api.Releasing:
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of " + evictingAction})
	case api.Pipelined:
		pod.Spec.NodeName = ""
		pod.Status.NominatedNodeName = task.NodeName
	default:
		return nil
	}

	return pod
}

// TestPreemptWaitsForDeletion: one of four pods of low priority is evicted for the pod of high priority, in a queue
// with a quota of 4. The API server shows no deletion for four sessions of Volcano's action preempt. In each of them
// the plugin remembers the eviction, so no second pod is evicted. Package sessioncheck, which judges what the API
// server would show, finds no violation.
func TestPreemptWaitsForDeletion(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue inference quota={"A":4} priority=80000 serviceType=inference cpu=1000
		node n model=A cards=8
		job low queue=inference min=1 running=n*4 age=24h priorityClass=low
		job high queue=inference min=1 pending=1 priorityClass=high`)

	evicted := 0
	violations := s.findViolations(4, "preempt", nil, func() {
		s.Run(allocate.New(), preempt.New())
		evicted = len(s.In(api.Releasing))
	})
	check.Equal(t, "violations", nil, violations)
	check.Equal(t, "evicted pods in the last session", 1, evicted)
}

// TestAQueueReclaimsInItsOwnNodeGroup: with Volcano's plugin nodegroup the pods of a queue run only in the
// node group of the queue. Group g1 has node n1, whose training is protected. Job y of queue inference2
// reclaims in its group g2. In one row job x, of a queue of higher priority, waits in vain for group g1
// meanwhile. No evicted pod is deleted, so y waits for its card in all ten sessions. Package sessioncheck
// finds no pod that should have started and no needless eviction.
func TestAQueueReclaimsInItsOwnNodeGroup(t *testing.T) {
	for t, other := range check.Cases(t, map[string]string{
		"y waits alone":                     "",
		"a job of group g1 waits before it": "job x queue=inference1 min=1 pending=1",
	}) {
		s := newInferenceAndTrainingScene(`
			queue inference1 quota=1000 priority=90000 serviceType=inference cpu=1000
			queue inference2 quota=1000 priority=80000 serviceType=inference cpu=1000
			queue training1 quota=1000 priority=20000 serviceType=training cpu=1000
			queue training2 quota=1000 priority=20000 serviceType=training cpu=1000
			node n1,n2 model=A cards=4
			job t1 queue=training1 min=4 running=n1*4 age=24h preemptable=false
			job t2 queue=training2 min=4 running=n2*4 age=24h
			job y queue=inference2 min=1 pending=1
			` + other)
		s.changeNodes(withNodeLabel("volcano.sh/nodegroup-name", "g1"), withNodeLabel("volcano.sh/nodegroup-name", "g2"))
		for queue, group := range map[string]string{"inference1": "g1", "training1": "g1", "inference2": "g2", "training2": "g2"} {
			s.queue(queue).Spec.Affinity = &v1beta1.Affinity{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []string{group},
			}}
		}

		pipelined := ""
		violations := s.findViolations(10, schedulerconfig.CardReclaim, []string{"nodegroup"}, func() {
			s.runActions()
			_, pipelined = s.Outcome()
		})
		check.Equal(t, "violations", nil, violations)
		check.Equal(t, "pods that wait for a node in the last session", "y-0@n2", pipelined)
	}
}

// TestAPodReclaimsBesideManyNodesThatRefuseIt: on each of 40 nodes a pod of queue cpu avoids pods of label i,
// on its node or in its zone. That queue has no service type, so its pods may not be evicted, and the waiting
// pod cannot run there. The training gangs of these nodes have run for one hour. The pod reclaims on the only
// other node, although the gang there has run for 24 hours. No evicted pod is deleted, so in each of ten
// sessions the pod waits for that node again. Package sessioncheck finds no violation in what the sessions
// evict.
func TestAPodReclaimsBesideManyNodesThatRefuseIt(t *testing.T) {
	for t, topologyKey := range check.Cases(t, map[string]string{
		"on the same node":                          corev1.LabelHostname,
		"in the same zone, and each node is a zone": zone,
	}) {
		s := newInferenceAndTrainingScene(`
			queue cpu quota={} priority=50000
			node clean model=A cards=4
			job old queue=training min=4 running=clean*4 age=24h`)
		for i := range 40 {
			s.add(fmt.Sprintf(`
				node n%02[1]d model=A cards=4
				job tn%02[1]d queue=training min=4 running=n%02[1]d*4 age=1h
				job xn%02[1]d queue=cpu min=1 running=n%02[1]d cards=0 age=24h`, i), onJob(fmt.Sprintf("xn%02d", i), avoidingWithin(topologyKey, "i")))
		}

		s.add("job i queue=inference min=1 pending=1", withLabel("i"))
		for _, node := range s.Nodes {
			node.Labels[zone] = node.Name
		}

		pipelined := ""
		violations := s.findViolations(10, schedulerconfig.CardReclaim, nil, func() {
			s.runActions()
			_, pipelined = s.Outcome()
		})
		check.Equal(t, "violations", nil, violations)
		check.Equal(t, "pods that wait for a node in the last session", "i-0@clean", pipelined)
	}
}
