package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// tide is a script with a queue of inference, which may reclaim, and one of
// training, from which may be reclaimed, eight H200 each.
func tide() *script {
	s := newScript()
	s.load(typed("inference", 80000, false), typed("training", 20000, true))
	return s
}

func typed(name string, priority int32, reclaimable bool) *v1beta1.Queue {
	q := queue(name, `{"NVIDIA-H200":8}`)
	q.Annotations[v1alpha1.AnnotationServiceType] = name
	q.Spec.Priority, q.Spec.Reclaimable = priority, ptr.To(reclaimable)
	return q
}

// member is a pod of a queue that asks for H200 cards.
func member(name, queue, cards string, priority int32) *corev1.Pod {
	p := pod(name, cards, h200)
	p.Annotations[v1alpha1.AnnotationQueueName] = queue
	p.Spec.Priority = ptr.To(priority)
	return p
}

// ranked puts a pod into a PodGroup of a priority class, both of that name.
func (s *script) ranked(p *corev1.Pod, name string, value int32) {
	g := group(name, "training")
	g.Spec.PriorityClassName = name
	s.write(g)
	s.write(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("class-" + name)}, Value: value})
	inGroup(p, name)
}

// evict marks a pod as Volcano does, by an action; then it is deleted.
func (s *script) evict(p *corev1.Pod, by string) {
	s.mark(p, by)
	s.remove(p)
}

func (s *script) mark(p *corev1.Pod, by string) {
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: "volcano: preempting to accommodate a higher priority pod"},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of " + by},
	}
	s.write(p)
}

func TestWhoMayBeEvictedForWhom(t *testing.T) {
	// One victim runs, one pod waits, the victim is evicted and the other placed.
	preempting := func() (*corev1.Pod, *corev1.Pod) {
		return member("victim", "training", "1", 1), member("waiting", "training", "1", 2)
	}
	reclaiming := func() (*corev1.Pod, *corev1.Pod) {
		return member("victim", "training", "1", 9), member("waiting", "inference", "1", 0)
	}
	unchanged := func(*script, *corev1.Pod, *corev1.Pod) {}
	for _, test := range []struct {
		name   string
		pods   func() (victim, waiting *corev1.Pod)
		by     string
		change func(s *script, victim, waiting *corev1.Pod)
		want   []Invariant
	}{
		{"the higher priority of a queue preempts", preempting, "preempt", unchanged, nil},
		{"the priority of a job is its PodGroup's", preempting, "preempt", func(s *script, victim, waiting *corev1.Pod) {
			victim.Spec.Priority, waiting.Spec.Priority = ptr.To[int32](9), ptr.To[int32](0)
			s.ranked(victim, "low", 1)
			s.ranked(waiting, "high", 2)
		}, nil},
		{"and not that of its pods", preempting, "preempt", func(s *script, victim, waiting *corev1.Pod) {
			s.ranked(victim, "low", 1)
			s.ranked(waiting, "also-low", 1)
		}, []Invariant{Eviction}},
		{"within a job it is that of the pods", preempting, "preempt", func(s *script, victim, waiting *corev1.Pod) {
			s.ranked(victim, "low", 1)
			inGroup(waiting, "low")
		}, nil},
		{"which an annotation may raise", preempting, "preempt", func(s *script, victim, waiting *corev1.Pod) {
			s.ranked(victim, "low", 1)
			inGroup(waiting, "low")
			victim.Annotations["volcano.sh/task-priority"] = "5"
		}, []Invariant{Eviction}},
		{"an equal priority does not", preempting, "preempt", func(_ *script, _, waiting *corev1.Pod) { waiting.Spec.Priority = ptr.To[int32](1) }, []Invariant{Eviction}},
		{"nor one of another queue", reclaiming, "preempt", func(_ *script, _, waiting *corev1.Pod) { waiting.Spec.Priority = ptr.To[int32](99) }, []Invariant{Eviction}},
		{"nor one that may not use the node's card", preempting, "preempt", func(_ *script, _, waiting *corev1.Pod) {
			waiting.Annotations[v1alpha1.AnnotationCardName] = rtx4090
		}, []Invariant{Eviction}},
		{"it also preempts for CPU and memory", preempting, "preempt", func(_ *script, _, waiting *corev1.Pod) {
			waiting.Spec.Containers[0].Resources.Requests = nil
		}, nil},
		{"inference reclaims from training whatever the pods' priority", reclaiming, "reclaim", unchanged, nil},
		{"the service type may stand on the workloads", reclaiming, "reclaim", func(s *script, victim, waiting *corev1.Pod) {
			for name, p := range map[string]*corev1.Pod{"inference": waiting, "training": victim} {
				q := typed(name, s.machine.queues[name].Spec.Priority, name == "training")
				delete(q.Annotations, v1alpha1.AnnotationServiceType)
				s.write(q)
				p.Annotations[v1alpha1.AnnotationServiceType] = name
			}
		}, nil},
		{"or follow from the kind of their owner", reclaiming, "reclaim", func(s *script, victim, waiting *corev1.Pod) {
			s.machine.options.OwnerKinds = map[string]string{"ReplicaSet": "inference", "Job": "training"}
			for name, p := range map[string]*corev1.Pod{"inference": waiting, "training": victim} {
				q := typed(name, s.machine.queues[name].Spec.Priority, name == "training")
				delete(q.Annotations, v1alpha1.AnnotationServiceType)
				s.write(q)
				p.OwnerReferences = []metav1.OwnerReference{{Kind: map[string]string{"inference": "ReplicaSet", "training": "Job"}[name], Controller: ptr.To(true)}}
			}
		}, nil},
		{"training reclaims from nobody", reclaiming, "reclaim", func(_ *script, victim, waiting *corev1.Pod) {
			victim.Annotations[v1alpha1.AnnotationQueueName], waiting.Annotations[v1alpha1.AnnotationQueueName] = "inference", "training"
		}, []Invariant{Eviction}},
		{"a type that no rule names reclaims from nobody", reclaiming, "reclaim", func(s *script, _, _ *corev1.Pod) {
			q := typed("inference", 80000, false)
			q.Annotations[v1alpha1.AnnotationServiceType] = "notebook"
			s.write(q)
		}, []Invariant{Eviction}},
		{"nothing is reclaimed within a queue", preempting, "reclaim", unchanged, []Invariant{Eviction}},
		{"a queue may refuse", reclaiming, "reclaim", func(s *script, _, _ *corev1.Pod) { s.write(typed("training", 20000, false)) }, []Invariant{Eviction}},
		{"a queue of equal priority gives nothing", reclaiming, "reclaim", func(s *script, _, _ *corev1.Pod) { s.write(typed("training", 80000, true)) }, []Invariant{Eviction}},
		{"a closed queue reclaims nothing", reclaiming, "reclaim", func(s *script, _, _ *corev1.Pod) {
			q := typed("inference", 80000, false)
			q.Status.State = v1beta1.QueueStateClosed
			s.write(q)
		}, []Invariant{Eviction}},
		{"a pod may refuse", reclaiming, "reclaim", func(_ *script, victim, _ *corev1.Pod) { victim.Annotations[v1beta1.PodPreemptable] = "false" }, []Invariant{Eviction}},
		{"with a label too", reclaiming, "reclaim", func(_ *script, victim, _ *corev1.Pod) {
			victim.Labels = map[string]string{v1beta1.PodPreemptable: "no"}
		}, []Invariant{Eviction}},
		{"a PodGroup may refuse", reclaiming, "reclaim", func(s *script, victim, _ *corev1.Pod) {
			g := group("g", "training")
			g.Annotations = map[string]string{v1beta1.PodPreemptable: "false"}
			s.write(g)
			inGroup(victim, "g")
		}, []Invariant{Eviction}},
		{"critical pods stay", reclaiming, "reclaim", func(_ *script, victim, _ *corev1.Pod) {
			victim.Spec.PriorityClassName = "system-node-critical"
		}, []Invariant{Eviction}},
		{"a card of no use stays", reclaiming, "reclaim", func(_ *script, _, waiting *corev1.Pod) {
			waiting.Annotations[v1alpha1.AnnotationCardName] = rtx4090
		}, []Invariant{Eviction}},
		{"who never preempts is no reason", reclaiming, "reclaim", func(_ *script, _, waiting *corev1.Pod) {
			waiting.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		}, []Invariant{Eviction}},
		{"who waits for another scheduler is no reason", reclaiming, "reclaim", func(_ *script, _, waiting *corev1.Pod) {
			waiting.Spec.SchedulerName = "default-scheduler"
		}, []Invariant{Eviction}},
		{"cardreclaim goes by the same rules", reclaiming, "cardreclaim", unchanged, nil},
		{"shuffle is not allowed", reclaiming, "shuffle", unchanged, []Invariant{Eviction}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tide()
			victim, waiting := test.pods()
			test.change(s, victim, waiting)
			victim.Spec.NodeName = "h200-0"
			s.load(victim)
			s.write(waiting)
			s.evict(victim, test.by)
			waiting.Spec.NodeName = "h200-0"
			if waiting.Annotations[v1alpha1.AnnotationCardName] == rtx4090 {
				waiting.Spec.NodeName = "" // never placed: only the eviction is looked at
			}
			s.write(waiting)
			s.judge()
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}

func TestEvictionsByAnybodyElse(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: status, Reason: reason}}
		}
	}
	for _, test := range []struct {
		name string
		mark func(*corev1.Pod)
		want []Invariant
	}{
		{"the eviction API marks its pods", condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI"), []Invariant{Eviction}},
		{"another scheduler marks its pods", condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonPreemptionByScheduler), []Invariant{Eviction}},
		{"an eviction without a reason has none", condition(corev1.PodReady, corev1.ConditionFalse, "Evict"), []Invariant{Eviction}},
		{"kubelets mark their pods", func(p *corev1.Pod) { p.Status.Reason = "Evicted" }, []Invariant{Eviction}},
		{"a disruption that was called off is none", condition(corev1.DisruptionTarget, corev1.ConditionFalse, "x"), nil},
		{"a pod that is not ready is not evicted", condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), nil},
		{"a deletion is no eviction", func(*corev1.Pod) {}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tide()
			s.write(member("waiting", "inference", "1", 9)) // who would have a reason
			p := member("a", "training", "1", 0)
			s.place(p, "h200-0")
			test.mark(p)
			s.write(p)
			s.write(p)
			s.remove(p)
			s.wait(5 * time.Second)
			s.judge()
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}

func TestWhatWasEvictedBeforeTheStartIsNoViolation(t *testing.T) {
	s := tide()
	p := member("a", "training", "1", 0)
	p.Spec.NodeName, p.Status.Reason = "h200-0", "Evicted"
	s.load(p)
	s.write(p)
	wantInvariants(t, s.machine.found)
}
