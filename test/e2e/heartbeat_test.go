package e2e

import (
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/deployment"
)

// readHeartbeat is what the scheduler's Lease says.
func (s *scene) readHeartbeat() (enforcement.Report, error) {
	lease := &coordinationv1.Lease{}
	if err := s.Get(s.ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: enforcement.LeaseName}, lease); err != nil {
		return enforcement.Report{}, err
	}
	return enforcement.ReadReport(lease)
}

// waitForHeartbeat waits for a heartbeat of a session that was closed after now.
func (s *scene) waitForHeartbeat() enforcement.Report {
	var report enforcement.Report
	now := time.Now()
	s.Eventually(func() (time.Time, error) {
		var err error
		report, err = s.readHeartbeat()
		return report.At, err
	}).Should(BeTemporally(">", now))
	return report
}

// checkNoSessions checks that no session closes any more.
func (s *scene) checkNoSessions() {
	last, err := s.readHeartbeat()
	s.Expect(client.IgnoreNotFound(err)).To(Succeed())
	s.Consistently(func(g Gomega) time.Time {
		report, err := s.readHeartbeat()
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return report.At
	}, "5s").Should(Equal(last.At), "no scheduler enforces")
}

// schedulerLog returns the log of the scheduler.
func (s *scene) schedulerLog() string {
	return string(check.Value(os.ReadFile(s.cluster.LogFile("cardquota-scheduler")))(s))
}

// runOnModel creates bare pods whose card the stock scheduler respects too. It creates only as
// many as the quota allows: the stock scheduler knows no quota.
func (s *scene) runOnModel(w podSet) {
	for _, pod := range s.barePods(w) {
		pod.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": w.card}
		s.createObjects(pod)
	}
}

// heartbeatProvesWhatIsInForce: the heartbeat states the leader, its version, and the configuration with which it
// runs. It names a pod that another program has bound, until that is gone, and never one that the scheduler bound
// itself. It ends with the scheduler.
func heartbeatProvesWhatIsInForce(t *testing.T, st *testCluster) {
	s := newSceneOn(t, "heartbeat", st)
	s.stopScheduler()
	s.startScheduler() // a new process has seen nothing of what others bound
	s.createQuota("heartbeat", cardList(h200, 2))
	report := s.waitForHeartbeat()
	s.Expect(report.ConfigHash).To(Equal(schedulerconfig.Hash(s.configText())))
	s.Expect(report.ConfigProblem).To(BeEmpty())
	s.Expect(report.Identity).To(Equal(s.leaseHolder()))
	program := check.Value(deployment.ProgramPath(s.ctx, "cardquota-scheduler"))(t)
	version := check.Value(exec.CommandContext(s.ctx, program, "--version").Output())(t)
	s.Expect(string(version)).To(HavePrefix("cardquota-scheduler " + report.Version + ", Volcano "))
	s.Expect(report.Fresh(time.Now())).To(BeTrue())
	s.waitForHeartbeat() // and again

	// Pods are created and deleted, all bound by this process.
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "heartbeat", card: h200, count: 1, pods: 3}))
	s.wantRunningAndWaiting("web", 2, 1)

	s.bindPastScheduler()

	s.stopScheduler()
	s.checkNoSessions()
	last := check.Value(s.readHeartbeat())(t)
	s.Expect(last.Fresh(last.At.Add(enforcement.StaleAfter))).To(BeFalse())
	s.startScheduler() // the observer's last look needs one
	s.Expect(s.waitForHeartbeat().SecondScheduler).To(BeEmpty(), "a new process has seen nothing of it")
}

// bindPastScheduler binds a pod past the scheduler. The heartbeat names that pod until it is gone,
// and no pod that the scheduler bound itself.
func (s *scene) bindPastScheduler() {
	s.createQuota("heartbeat-other", cardList(h800, 1))

	// It waits for a node that does not exist. It is bound after the time in which a binding
	// may come from a predecessor.
	pod := s.barePods(podSet{name: "other", queue: "heartbeat-other", card: h800, count: 1, pods: 1})[0]
	pod.Spec.NodeSelector = map[string]string{"nowhere": "yes"}
	s.createObjects(pod)
	s.Eventually(func() string { return s.schedulerLog() }).Should(ContainSubstring("scheduling starts"))

	// As shipped, a binding may come from a predecessor for 30 s.
	s.Consistently(func() []string { return s.waitForHeartbeat().SecondScheduler }, 30*time.Second/time.Duration(deployment.ClockFactor())+5*time.Second).Should(BeEmpty())
	s.Expect(s.cluster.Client().CoreV1().Pods(s.namespace).Bind(s.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "h800-0"},
	}, metav1.CreateOptions{})).To(Succeed())
	s.Eventually(func() []string { return s.waitForHeartbeat().SecondScheduler }).Should(Equal([]string{s.namespace + "/" + pod.Name}))
	s.Expect(s.Delete(s.ctx, pod)).To(Succeed())
	s.Eventually(func() []string { return s.waitForHeartbeat().SecondScheduler }).Should(BeEmpty())
}
