package observer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/test/observer"
)

// withIdleScheduler lets an observer see a scheduler that closes a session at each reading. It says that it decides,
// but starts nothing. The queue of the scene has no CPU and memory, so these do not count for pods with cards.
func withIdleScheduler() observer.Options {
	closed := &atomic.Int64{}
	return observer.Options{UnlimitedCPUMemory: true, Sessions: func(context.Context) (observer.SessionCount, error) {
		return observer.SessionCount{Process: 1, Closed: int(closed.Add(1)), Decides: true}, nil
	}}
}

// stateReason makes a pod state why it waits.
func (s *scene) stateReason(pod, message string) {
	s.Eventually(func() error {
		live, err := s.cluster.Client().CoreV1().Pods(s.name).Get(s.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
		_, err = s.cluster.Client().CoreV1().Pods(s.name).UpdateStatus(s.Context(), live, metav1.UpdateOptions{})
		return err
	}, "10s", "100ms").Should(Succeed())
}

// TestASchedulerThatStartsNothingIsFound: the simulated scheduler closes sessions, and says that it decides. The
// queue has a quota of 2 H200, so a pod that wants 1 fits, and must start within a few sessions (invariant I7). A pod
// that wants 3 does not fit, so it may wait.
func TestASchedulerThatStartsNothingIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-progress")
	o := s.startObserver(withIdleScheduler())
	for name, count := range map[string]string{"fits": "1", "too-large": "3"} {
		s.createPod(name, "NVIDIA-H200", count) // Volcano's controller makes its PodGroup
		s.stateReason(name, "waits")
	}
	s.settleAndExpect(o, "I7 progress pod/break-progress/fits")
	for _, name := range []string{"fits", "too-large"} {
		s.deletePod(name)
	}
}

// TestAReasonWithAWrongQuotaIsFound: both pods want 3 H200 of a queue with a quota of 2. One states that quota,
// which is true. The other one states a quota of 1, which the queue never had, and violates invariant I8.
func TestAReasonWithAWrongQuotaIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-truth")
	o := s.startObserver(withIdleScheduler())
	const insufficient = "Queue <break-truth> has insufficient <NVIDIA-H200> quota: requested <3>, total would be <3>, but capability is <%d>"

	for _, pod := range []string{"true", "wrong"} {
		s.createPod(pod, "NVIDIA-H200", "3")
		s.stateReason(pod, "waits")
	}

	s.stateReason("true", fmt.Sprintf(insufficient, 2))
	s.settleAndExpect(o)

	s.stateReason("wrong", fmt.Sprintf(insufficient, 1))
	s.settleAndExpect(o, "I8 truth pod/break-truth/wrong")

	for _, name := range []string{"true", "wrong"} {
		s.deletePod(name)
	}
}

// TestAPlacementBeyondTheCardsOfTheNodeIsFound: node h200-1 has 8 H200. Two pods with 5 each are bound to it,
// so the second one violates invariant I9. The quota of 20 is not the reason.
func TestAPlacementBeyondTheCardsOfTheNodeIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-capacity")
	s.writeQuota(`{"NVIDIA-H200":20}`)
	o := s.startObserver(withIdleScheduler())
	for _, name := range []string{"first", "second"} {
		s.createPod(name, "NVIDIA-H200", "5")
		s.bindPod(name, "h200-1")
	}
	s.settleAndExpect(o, "I9 capacity pod/break-capacity/second")
}
