package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	ourScheduler   = "cardquota-scheduler-7d9-x_6a1c"
	stockScheduler = "volcano-scheduler-5b-q"
)

// fakeScheduler simulates ours: it writes the heartbeat.
type fakeScheduler struct {
	t *testing.T
	// mu guards report, which the next heartbeat writes.
	mu     sync.Mutex
	report enforcement.Report
	// beats is the number of closed sessions.
	beats int
}

// startWithPolicy creates Volcano's ConfigMap and the policy, and waits until the operator has written
// the configuration. It returns a scheduler that uses it and has not reported so yet.
func startWithPolicy(t *testing.T) *fakeScheduler {
	g := requireControlPlane(t)
	newBase(t, baseConfigMap, byHand)
	newPolicy(t, nil)
	g.Eventually(policyCondition(t, v1alpha1.ConditionConfigSynced)).Should(gomega.HavePrefix("True/"))

	status := check.Value(policyStatus(t)())(t)
	g.Expect(status.ConfigHash).NotTo(gomega.BeEmpty())

	t.Cleanup(func() {
		admin.DeleteAndWait(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: enforcement.LeaseName}})
	})

	return &fakeScheduler{t: t, report: enforcement.Report{Identity: ourScheduler, Version: "v0.4.0", ConfigHash: status.ConfigHash}}
}

// startEnforcing returns a scheduler with a regular heartbeat, after the CardQuota and the
// policy report that quotas are enforced.
func startEnforcing(t *testing.T, name string) *fakeScheduler {
	s := startWithPolicy(t)
	s.keepBeating()
	createReady(t, newQuota(name, nil))
	expectEnforced(t, name, gomega.HavePrefix("True/Enforced: the scheduler enforces"))
	return s
}

// writeHeartbeat reports a session that closed some time ago.
func (s *fakeScheduler) writeHeartbeat(ctx context.Context, ago time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.report.At = time.Now().Add(-ago)
	s.beats++
	lease := s.report.Lease(systemNamespace)

	err := admin.Create(ctx, lease)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		return err
	}

	s.report.WriteTo(lease)
	return admin.Update(ctx, lease, client.FieldOwner("cardquota-scheduler"))
}

// countSessions returns the number of closed sessions.
func (s *fakeScheduler) countSessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats
}

// keepBeating writes five heartbeats a second, ten times as many as the scheduler, until the
// returned function is called.
func (s *fakeScheduler) keepBeating() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		for {
			err := s.writeHeartbeat(ctx, 0)
			check.That(s.t, err == nil || ctx.Err() != nil, "write the heartbeat: %v", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})

	stop = func() {
		cancel()
		done.Wait()
	}
	s.t.Cleanup(stop)

	return stop
}

// changeReport changes the report of the next heartbeats, and writes one.
func (s *fakeScheduler) changeReport(change func(*enforcement.Report)) {
	s.mu.Lock()
	change(&s.report)
	s.mu.Unlock()
	gomega.NewWithT(check.Trail(s.t)).Expect(s.writeHeartbeat(s.t.Context(), 0)).To(gomega.Succeed())
}

// writeLeaderLease writes the leader Lease of a scheduler that was elected some time ago. It
// lasts two seconds instead of fifteen.
func writeLeaderLease(t *testing.T, identity string, ago time.Duration) {
	now := time.Now()
	admin.CreateWithCleanup(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "volcano"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &identity, LeaseDurationSeconds: ptr.To(int32(2)),
		AcquireTime: &metav1.MicroTime{Time: now.Add(-ago)}, RenewTime: &metav1.MicroTime{Time: now},
	}})
}

// stockPod returns a pod of Volcano's own scheduler, on a node.
func stockPod(t *testing.T) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: stockScheduler, Labels: map[string]string{"app": "volcano-scheduler"}},
		Spec:       corev1.PodSpec{NodeName: "somewhere", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	admin.CreateWithCleanup(t, pod)
	setPod(t, pod, setRunning)
	return pod
}

// bindPod binds a pod as a scheduler does.
func bindPod(t *testing.T, pod *corev1.Pod, node string) {
	gomega.NewWithT(check.Trail(t)).Expect(admin.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	})).To(gomega.Succeed())
}

// policyCondition returns a condition of the policy like cardQuotaCondition.
func policyCondition(t *testing.T, kind string) func() (string, error) {
	return admin.Condition(t, builder.ServiceTypePolicy().Obj(), kind)
}
