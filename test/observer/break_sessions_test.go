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

// idleScheduler simulates a scheduler that closes a session at each reading and makes no
// decisions.
func idleScheduler() func(context.Context) (observer.SessionCount, error) {
	closed := &atomic.Int64{}
	return func(context.Context) (observer.SessionCount, error) {
		return observer.SessionCount{Process: 1, Closed: int(closed.Add(1)), Decides: true}, nil
	}
}

// stateReason makes a pod state why it waits.
func (w *scene) stateReason(pod, message string) {
	w.Helper()
	w.Eventually(func() error {
		live, err := w.cluster.Client().CoreV1().Pods(w.name).Get(w.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
		_, err = w.cluster.Client().CoreV1().Pods(w.name).UpdateStatus(w.Context(), live, metav1.UpdateOptions{})
		return err
	}, "10s", "100ms").Should(Succeed())
}

func TestASchedulerThatStartsNothingIsFound(t *testing.T) {
	w := newScene(t, "break-progress")
	o := w.startObserver(observer.Options{Sessions: idleScheduler(), UnlimitedCPUMemory: true})
	for name, count := range map[string]string{"fits": "1", "too-large": "3"} {
		w.createPod(name, "NVIDIA-H200", count) // Volcano's controller makes its PodGroup
		w.stateReason(name, "waits")
	}
	w.wantExactly(o, "I7 progress pod/break-progress/fits")
	for _, name := range []string{"fits", "too-large"} {
		w.deletePod(name)
	}
}

func TestAFalseReasonIsFound(t *testing.T) {
	w := newScene(t, "break-truth")
	o := w.startObserver(observer.Options{Sessions: idleScheduler(), UnlimitedCPUMemory: true})
	const short = "Queue <break-truth> has insufficient <NVIDIA-H200> quota: requested <3>, total would be <3>, but capability is <%d>"

	for _, pod := range []string{"honest", "liar"} {
		w.createPod(pod, "NVIDIA-H200", "3")
		w.stateReason(pod, "waits")
	}

	w.stateReason("honest", fmt.Sprintf(short, 2))
	w.wantExactly(o)
	w.stateReason("liar", fmt.Sprintf(short, 1))
	w.wantExactly(o, "I8 truth pod/break-truth/liar")

	for _, name := range []string{"honest", "liar"} {
		w.deletePod(name)
	}
}

func TestAPlacementBeyondTheNodeIsFound(t *testing.T) {
	w := newScene(t, "break-capacity")
	w.createQueue(`{"NVIDIA-H200":20}`)
	o := w.startObserver(observer.Options{Sessions: idleScheduler(), UnlimitedCPUMemory: true})
	for _, name := range []string{"first", "second"} {
		w.createPod(name, "NVIDIA-H200", "5")
		w.bindPod(name, "h200-1")
	}
	w.wantExactly(o, "I9 capacity pod/break-capacity/second")
}
