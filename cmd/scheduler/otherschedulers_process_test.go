package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// createStockSchedulerPod creates a pod of the stock scheduler. Only the test deletes it.
func (c *testCluster) createStockSchedulerPod(t *testing.T, name, node string) *corev1.Pod {
	pod := builder.Pod("volcano-system", name).Label("app", "volcano-scheduler").Scheduler("").Node(node).Obj()
	c.create(t, pod)
	return pod
}

// TestProcessWaitsForTheStockSchedulerToEnd: with a real API server and the shipped rights, our scheduler starts while
// a pod of Volcano's own scheduler runs on a node. It is live and ready, says on /readyz for what it waits, and takes
// no Lease. When that pod is deleted, our scheduler leads, although another such pod exists that has no node. Its
// heartbeat reports the configuration, and then a problem of it. When a pod of Volcano's own scheduler runs again, ours
// ends with code 1 and frees the Lease.
func TestProcessWaitsForTheStockSchedulerToEnd(t *testing.T) {
	c := startCluster(t)
	g := NewWithT(check.Trail(t))
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)

	// The API server admits no pods without this ServiceAccount.
	c.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: "default"}})
	c.configure(t, valid)
	stock := c.createStockSchedulerPod(t, "volcano-scheduler-0", "node")
	c.createStockSchedulerPod(t, "volcano-scheduler-waits", "")

	first := c.startProcess(t)
	g.Eventually(func(g Gomega) {
		g.Expect(page(g, first.health, "/healthz")).To(Equal("ok\n"))
		g.Expect(page(g, first.health, "/readyz")).To(And(HavePrefix("ok\nConfigurationLoaded"),
			HaveSuffix("\nForeignScheduler: not elected: another scheduler runs in pod volcano-system/volcano-scheduler-0, and two must never run at the same time: scale its Deployment to 0\n")))
	}).Should(Succeed())

	g.Consistently(func() string { return c.holder(t) }, "2s").Should(BeEmpty())
	g.Expect(c.admin.Delete(t.Context(), stock, client.GracePeriodSeconds(0))).To(Succeed())
	g.Eventually(func() string { return c.holder(t) }).ShouldNot(BeEmpty())
	g.Expect(page(g, first.health, "/readyz")).NotTo(ContainSubstring("ForeignScheduler"))

	// The leader writes heartbeats, with the rights of the shipped account.
	report := func(g Gomega) enforcement.Report {
		var lease coordinationv1.Lease
		g.Expect(c.admin.Get(t.Context(), client.ObjectKey{Namespace: "volcano-system", Name: enforcement.LeaseName}, &lease)).To(Succeed())
		report, err := enforcement.ReadReport(&lease)
		g.Expect(err).NotTo(HaveOccurred())
		return report
	}
	g.Eventually(func(g Gomega) { g.Expect(report(g).ConfigHash).To(Equal(schedulerconfig.Hash(valid))) }).Should(Succeed())
	g.Expect(report(g).Identity).To(Equal(c.holder(t)))

	c.configure(t, withoutPlugin)
	g.Eventually(func(g Gomega) { g.Expect(report(g).ConfigProblem).To(ContainSubstring("capacity-card is missing")) }).Should(Succeed())

	c.createStockSchedulerPod(t, "volcano-scheduler-1", "node")
	g.Eventually(first.exited).Should(Receive(Equal(1)))
	g.Expect(first.output()).To(ContainSubstring("another scheduler runs in pod volcano-system/volcano-scheduler-1,"))
	g.Expect(first.output()).NotTo(ContainSubstring("forbidden"))
	g.Expect(c.holder(t)).To(BeEmpty())
}
