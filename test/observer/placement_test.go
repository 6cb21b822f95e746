package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

const (
	h200    = "NVIDIA-H200"
	rtx4090 = "NVIDIA-GeForce-RTX-4090"
)

func TestPlacement(t *testing.T) {
	terminating := func(p *corev1.Pod) *corev1.Pod {
		now := metav1.NewTime(began)
		p.DeletionTimestamp = &now
		return p
	}
	ended := func(p *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
		p.Status.Phase = phase
		return p
	}
	for _, test := range []struct {
		name string
		play func(*script)
		want []Invariant
	}{
		{"a pod within the quota is fine", func(s *script) {
			s.place(pod("a", "2", h200), "h200-0")
		}, nil},
		{"a pod beyond the quota is a violation", func(s *script) {
			s.place(pod("a", "3", h200), "h200-0")
		}, []Invariant{Quota}},
		{"pods add up", func(s *script) {
			s.place(pod("a", "1", h200), "h200-0")
			s.place(pod("b", "1", h200), "h200-0")
			s.place(pod("c", "1", h200), "h200-0")
		}, []Invariant{Quota}},
		{"a pod that is created on a node counts as placed", func(s *script) {
			p := pod("a", "3", h200)
			p.Spec.NodeName = "h200-0"
			s.write(p)
		}, []Invariant{Quota}},
		{"a card without a quota is a violation", func(s *script) {
			s.place(pod("a", "1", rtx4090), "rtx4090-0")
		}, []Invariant{Quota}},
		{"a queue without card.quota may use no card", func(s *script) {
			s.load(queue("q", ""))
			s.place(pod("a", "1", h200), "h200-0")
		}, nil}, // the quota of a moment ago still counts
		{"a queue that never had card.quota may use no card", func(s *script) {
			s.load(queue("bare", ""))
			p := pod("a", "1", h200)
			p.Annotations[v1alpha1.AnnotationQueueName] = "bare"
			s.place(p, "h200-0")
		}, []Invariant{Quota}},
		{"a queue that does not exist may use no card", func(s *script) {
			p := pod("a", "1", h200)
			p.Annotations[v1alpha1.AnnotationQueueName] = "nowhere"
			s.place(p, "h200-0")
		}, []Invariant{Quota}},
		{"a queue that was closed a while ago takes nothing", func(s *script) {
			q := queue("q", `{"NVIDIA-H200":2}`)
			q.Status.State = v1beta1.QueueStateClosed
			s.write(q)
			s.wait(9 * time.Second)
			s.place(pod("a", "1", h200), "h200-0")
			s.wait(2 * time.Second)
			s.place(pod("b", "1", h200), "h200-0")
		}, []Invariant{Quota}},
		{"an unreadable quota allows nothing", func(s *script) {
			s.load(queue("broken", `{"NVIDIA-H200":-1}`))
			p := pod("a", "1", h200)
			p.Annotations[v1alpha1.AnnotationQueueName] = "broken"
			s.place(p, "h200-0")
		}, []Invariant{Quota}},
		{"a deleted pod makes room", func(s *script) {
			p := pod("a", "2", h200)
			s.place(p, "h200-0")
			s.write(terminating(p))
			s.place(pod("b", "2", h200), "h200-0")
		}, nil},
		{"a pod that is gone at once makes room", func(s *script) {
			p := pod("a", "2", h200)
			s.place(p, "h200-0")
			s.remove(p)
			s.place(pod("b", "2", h200), "h200-0")
		}, nil},
		{"a finished pod makes room", func(s *script) {
			p := pod("a", "1", h200)
			s.place(p, "h200-0")
			s.write(ended(p, corev1.PodSucceeded))
			q := pod("b", "1", h200)
			s.place(q, "h200-0")
			s.write(ended(q, corev1.PodFailed))
			s.place(pod("c", "2", h200), "h200-0")
		}, nil},
		{"a placement before the deletion is a violation although the pod goes later", func(s *script) {
			p := pod("a", "2", h200)
			s.place(p, "h200-0")
			s.place(pod("b", "1", h200), "h200-0")
			s.remove(p)
		}, []Invariant{Quota}},
		{"a quota that was lowered less than 10 s ago still counts", func(s *script) {
			s.write(queue("q", `{"NVIDIA-H200":0}`))
			s.wait(9 * time.Second)
			s.place(pod("a", "2", h200), "h200-0")
		}, nil},
		{"a quota that was lowered more than 10 s ago does not count", func(s *script) {
			s.write(queue("q", `{"NVIDIA-H200":0}`))
			s.wait(11 * time.Second)
			s.place(pod("a", "2", h200), "h200-0")
		}, []Invariant{Quota}},
		{"the largest quota of the last 10 s counts, not the first", func(s *script) {
			s.write(queue("q", `{"NVIDIA-H200":0}`))
			s.wait(11 * time.Second)
			s.write(queue("q", `{"NVIDIA-H200":3}`))
			s.wait(time.Second)
			s.write(queue("q", `{"NVIDIA-H200":1}`))
			s.place(pod("a", "3", h200), "h200-0")
			s.place(pod("b", "1", h200), "h200-0")
		}, []Invariant{Quota}},
		{"a quota that is raised afterwards does not count", func(s *script) {
			s.place(pod("a", "3", h200), "h200-0")
			s.write(queue("q", `{"NVIDIA-H200":3}`))
		}, []Invariant{Quota}},
		{"a quota lowered below use is no violation while nothing is placed", func(s *script) {
			s.place(pod("a", "2", h200), "h200-0")
			s.write(queue("q", `{"NVIDIA-H200":1}`))
			s.wait(time.Minute)
			s.judge()
		}, nil},
		{"over-use of one card does not spoil another", func(s *script) {
			s.place(pod("a", "2", h200), "h200-0")
			s.write(queue("q", `{"NVIDIA-H200":1,"NVIDIA-GeForce-RTX-4090":1}`))
			s.wait(time.Minute)
			s.place(pod("b", "1", rtx4090), "rtx4090-0")
		}, nil},
		{"a queue made anew has its new quota only", func(s *script) {
			s.remove(queue("q", `{"NVIDIA-H200":2}`))
			s.wait(11 * time.Second)
			s.write(queue("q", `{"NVIDIA-H200":1}`))
			s.place(pod("a", "2", h200), "h200-0")
		}, []Invariant{Quota}},
		{"the PodGroup's queue pays", func(s *script) {
			s.load(queue("other", ""))
			s.write(group("g", "other"))
			s.place(inGroup(pod("a", "1", h200), "g"), "h200-0")
		}, []Invariant{Quota}},
		{"without its PodGroup a pod stays with the queue that paid", func(s *script) {
			s.load(queue("other", `{"NVIDIA-H200":1}`))
			g := group("g", "other")
			s.write(g)
			s.place(inGroup(pod("a", "1", h200), "g"), "h200-0")
			s.remove(g)
			s.place(pod("b", "2", h200), "h200-0")
		}, nil},
		{"a pod without a queue is nobody's", func(s *script) {
			p := pod("a", "4", h200)
			p.Annotations = nil
			s.place(p, "h200-0")
		}, nil},
		{"a pod on another card than it names is a violation of both rules", func(s *script) {
			s.place(pod("a", "1", h200), "rtx4090-0")
		}, []Invariant{Card, Quota}},
		{"any of the alternatives is right", func(s *script) {
			s.load(queue("q", `{"NVIDIA-H200":2,"NVIDIA-GeForce-RTX-4090":1}`))
			s.place(pod("a", "1", rtx4090+"|"+h200), "h200-0")
			s.place(pod("b", "1", rtx4090+"|"+h200), "rtx4090-0")
		}, nil},
		{"a pod that names no card may be on any", func(s *script) {
			s.place(pod("a", "1", ""), "h200-0")
		}, nil},
		{"a pod that names no card is charged where it is", func(s *script) {
			s.place(pod("a", "1", ""), "rtx4090-0")
		}, []Invariant{Quota}},
		{"a node that does not name its card takes no pod", func(s *script) {
			s.place(pod("a", "1", h200), "unnamed-0")
		}, []Invariant{Card}},
		{"a pod that asks for two card resources must not run", func(s *script) {
			n := node("npu-0", "")
			n.Labels["huawei.com/npu.product"], n.Labels["huawei.com/npu.memory"] = "Ascend-910B", "65536"
			n.Status.Allocatable = corev1.ResourceList{"huawei.com/Ascend910": resource.MustParse("8")}
			s.load(n, queue("q", `{"NVIDIA-H200":2,"Ascend-910B":2}`))
			p := pod("a", "1", h200)
			p.Spec.Containers[0].Resources.Requests["huawei.com/Ascend910"] = resource.MustParse("1")
			s.place(p, "h200-0")
		}, []Invariant{Card}},
		{"a node that loses its label moves nothing", func(s *script) {
			s.place(pod("a", "1", h200), "h200-0")
			s.write(node("h200-0", ""))
			s.load(node("h200-1", h200))
			s.place(pod("b", "1", h200), "h200-1")
			s.place(pod("c", "1", h200), "h200-1")
		}, []Invariant{Quota}},
		{"a pod without cards is nobody's business", func(s *script) {
			s.place(pod("a", "", ""), "rtx4090-0")
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			test.play(s)
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}

func TestWhatWasPlacedBeforeTheStartIsNoViolation(t *testing.T) {
	s := newScript()
	p := pod("a", "5", h200)
	p.Spec.NodeName = "rtx4090-0"
	s.load(p)
	s.write(p)
	wantInvariants(t, s.machine.found)
}

func TestEveryHolderOfAViolationIsNamed(t *testing.T) {
	s := newScript()
	s.place(pod("a", "3", h200), "h200-0")
	want := "was placed on node h200-0 with 3 of <NVIDIA-H200>: queue <q> now holds 3, and its quota was at most 2 in the 10s before (revision 2)"
	if got := s.machine.found; len(got) != 1 || got[0].Message != want || got[0].Object != "pod/test/a" {
		t.Errorf("found %v, want %q", got, want)
	}
}
