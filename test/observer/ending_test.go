package observer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatEndsIsBounded: the queue q has a quota of two.
func TestWhatEndsIsBounded(t *testing.T) {
	born := 0
	restart := func(s *script, cards string, node string) *corev1.Pod {
		born++
		p := pod(fmt.Sprint("p", born), cards, h200)
		s.place(p, node)
		now := metav1.NewTime(began)
		p.DeletionTimestamp = &now
		s.write(p)
		return p
	}
	works := func(s *script, name string, status corev1.ConditionStatus) {
		n := node(name, "NVIDIA-H200")
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		s.write(n)
	}
	for _, test := range []struct {
		name string
		play func(*script)
		want []Invariant
	}{
		{"a restart of all", func(s *script) {
			restart(s, "2", "h200-0")
			s.place(pod("a", "2", h200), "h200-0")
		}, nil},
		{"a second one before the first has ended", func(s *script) {
			restart(s, "2", "h200-0")
			restart(s, "2", "h200-0")
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Quota}},
		{"a second one after the first has ended", func(s *script) {
			s.remove(restart(s, "2", "h200-0"))
			restart(s, "2", "h200-0")
			s.place(pod("a", "2", h200), "h200-0")
		}, nil},
		{"what has finished has ended", func(s *script) {
			p := restart(s, "2", "h200-0")
			p.Status.Phase = corev1.PodFailed
			s.write(p)
			restart(s, "2", "h200-0")
			s.place(pod("a", "2", h200), "h200-0")
		}, nil},
		{"what hangs on a node that is gone", func(s *script) {
			s.write(node("h200-1", "NVIDIA-H200"))
			restart(s, "2", "h200-1")
			restart(s, "2", "h200-0")
			s.remove(node("h200-1", "NVIDIA-H200"))
			s.place(pod("a", "2", h200), "h200-0")
		}, nil},
		{"what hangs on a node that does not work, or did not a moment ago", func(s *script) {
			s.write(node("h200-1", "NVIDIA-H200"))
			restart(s, "2", "h200-1")
			restart(s, "2", "h200-0")
			works(s, "h200-1", corev1.ConditionUnknown)
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
			works(s, "h200-1", corev1.ConditionTrue)
			s.place(pod("b", "1", h200), "h200-0")
		}, nil},
		{"a node that works again", func(s *script) {
			s.write(node("h200-1", "NVIDIA-H200"))
			restart(s, "2", "h200-1")
			restart(s, "2", "h200-0")
			works(s, "h200-1", corev1.ConditionFalse)
			works(s, "h200-1", corev1.ConditionTrue)
			s.wait(11 * time.Second)
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Quota}},
		{"another card", func(s *script) {
			s.write(queue("q", `{"NVIDIA-H200":2,"NVIDIA-GeForce-RTX-4090":1}`))
			restart(s, "2", "h200-0")
			restart(s, "2", "h200-0")
			s.place(pod("a", "1", rtx4090), "rtx4090-0")
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			test.play(s)
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}
