package cluster_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// boundPod creates a pod that is bound to node cpu-0 from its creation, with an init container and two containers.
func boundPod(t *testing.T, c *cluster.Cluster, name string, graceSeconds int64, annotations map[string]string) *corev1.Pod {
	pod := builder.Pod(metav1.NamespaceDefault, name).Scheduler("").Node("cpu-0").GracePeriod(graceSeconds).
		InitContainer("", "").Container("", "").With(func(p *corev1.Pod) {
		p.Annotations = annotations
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}).Obj()

	created := check.Value(c.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)

	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		err := c.Client().CoreV1().Pods(pod.Namespace).Delete(context.WithoutCancel(t.Context()), name, now)
		check.That(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	})

	return created
}

// observedPod is what a watch saw of one pod, without repetitions.
type observedPod struct {
	phases    []string // "Running", "Failed 143" …, with "gone" at the end
	end, gone time.Time
}

// late is the tolerance of upper limits on a busy machine. Lower limits need none.
const late = 15 * time.Second

// watchUntilGone watches a pod until it is gone.
func watchUntilGone(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) (observedPod, error) {
	w, err := c.Client().CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, ResourceVersion: pod.ResourceVersion,
	})
	if err != nil {
		return observedPod{}, err
	}
	defer w.Stop()

	var s observedPod
	for event := range w.ResultChan() {
		current, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}

		if event.Type == watch.Deleted {
			s.phases = append(s.phases, "gone")
			s.gone = time.Now()
			return s, nil
		}

		phase := string(current.Status.Phase)
		if statuses := current.Status.ContainerStatuses; len(statuses) > 0 && statuses[0].State.Terminated != nil {
			phase += " " + statuses[0].State.Terminated.Reason
			if statuses[0].State.Terminated.ExitCode == 143 {
				phase += " 143"
			}
		}

		if len(s.phases) == 0 || s.phases[len(s.phases)-1] != phase {
			s.phases = append(s.phases, phase)
			s.end = time.Now()
		}
	}

	return s, ctx.Err()
}

// TestHowDeletedPodsEnd: kwok runs no containers, so its stages imitate how the pods of a real kubelet end
// after a deletion. Before it the pod is ready and has an address, and its init container has completed. By
// default the containers do not handle SIGTERM and fail at once with exit code 143 = 128 + 15. Annotations of
// the pod choose another exit code or a delay. The grace period bounds the delay. The pod's object vanishes
// after its last status.
func TestHowDeletedPodsEnd(t *testing.T) {
	c := sharedCluster(t)
	const (
		failed    = "Failed Error 143"
		succeeded = "Succeeded Completed"
	)

	for name, tc := range map[string]struct {
		pod             string
		graceSeconds    int64
		annotations     map[string]string
		wantEnd         string
		atLeast, atMost time.Duration // from the deletion to the end of the containers
	}{
		"without annotations: exit code 143 at once": {
			pod: "fails-by-default", graceSeconds: 30, wantEnd: failed, atMost: 2 * time.Second,
		},
		"delete-exit-code is 0, as of a program that handles SIGTERM: succeeds at once": {
			pod: "handles-the-signal", graceSeconds: 30, annotations: map[string]string{"test.cardquota.dev/delete-exit-code": "0"},
			wantEnd: succeeded, atMost: 2 * time.Second,
		},
		"delete-after is 2 s, within the grace period: ends after 2 s": {
			pod: "takes-two-seconds", graceSeconds: 30, annotations: map[string]string{"test.cardquota.dev/delete-after": "2s"},
			wantEnd: failed, atLeast: 2 * time.Second, atMost: 5 * time.Second,
		},
		"delete-after is 1 h, beyond the grace period of 2 s: killed after 2 s": {
			pod: "is-killed", graceSeconds: 2, annotations: map[string]string{"test.cardquota.dev/delete-after": "1h"},
			wantEnd: failed, atLeast: 2 * time.Second, atMost: 5 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(check.Trail(t))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()

			pod := boundPod(t, c, tc.pod, tc.graceSeconds, tc.annotations)
			running := inPhase(t, c, pod, corev1.PodRunning)
			g.Expect(running.Status.PodIP).NotTo(BeEmpty())
			g.Expect(running.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))
			g.Expect(running.Status.InitContainerStatuses[0].State.Terminated.Reason).To(Equal("Completed"))

			deleted := time.Now()
			g.Expect(c.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
			got := check.Value(watchUntilGone(ctx, c, running))(t)
			g.Expect(got.phases).To(Equal([]string{"Running", tc.wantEnd, "gone"}))
			g.Expect(got.end.Sub(deleted)).To(And(BeNumerically(">=", tc.atLeast), BeNumerically("<=", tc.atMost+late)))
			g.Expect(got.gone).To(BeTemporally(">", got.end), "the object vanishes after its last status")
		})
	}
}

// TestHowLongPodsRun: the annotation run-for lets kwok end the containers of a pod by themselves, here after 1.5
// s, with exit code 0. Both containers then report "Completed". A deletion without a grace period removes the
// object at once.
func TestHowLongPodsRun(t *testing.T) {
	g := NewWithT(check.Trail(t))
	c := sharedCluster(t)

	pod := boundPod(t, c, "runs-to-success", 30, map[string]string{"test.cardquota.dev/run-for": "1500ms"})
	ended := inPhase(t, c, pod, corev1.PodSucceeded)
	g.Expect(ended.Status.ContainerStatuses).To(HaveLen(2))

	for _, status := range ended.Status.ContainerStatuses {
		g.Expect(status.State.Running).To(BeNil())
		g.Expect(status.State.Terminated.ExitCode).To(BeZero())
		g.Expect(status.State.Terminated.Reason).To(Equal("Completed"))
		g.Expect(status.State.Terminated.FinishedAt.Sub(ended.Status.StartTime.Time)).To(BeNumerically(">=", time.Second)) // statuses have whole seconds
	}

	// The watch starts at the resource version of the creation, so it sees every phase.
	g.Expect(c.Client().CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})).To(Succeed())
	g.Expect(check.Value(watchUntilGone(t.Context(), c, pod))(t).phases).To(Equal([]string{"Running", "Succeeded Completed", "gone"}))
}

// inPhase waits until a pod is in a phase.
func inPhase(t *testing.T, c *cluster.Cluster, pod *corev1.Pod, phase corev1.PodPhase) (live *corev1.Pod) {
	NewWithT(check.Trail(t)).Eventually(func() (_ corev1.PodPhase, err error) {
		live, err = c.Client().CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return live.Status.Phase, err
	}, "30s", "20ms").Should(Equal(phase))
	return live
}
