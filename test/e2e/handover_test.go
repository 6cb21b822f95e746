package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/heartbeat"
	"cardquota.dev/operator/internal/schedulerconf"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/observer"
)

// newSuccession is a scene on a cluster of its own, with the operator and
// without a scheduler: a pod of another scheduler stops ours for everybody.
func newSuccession(t *testing.T, name string) *scene {
	t.Helper()
	g := NewWithT(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Fleet: "testdata/fleet.yaml"})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	k8s, err := newClient(c)
	g.Expect(err).NotTo(HaveOccurred())
	d, err := deployment.Install(t.Context(), c, programs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.StartManager(t.Context())).To(Succeed())
	return newSceneOn(t, name, c, k8s, d)
}

// heartbeat is what the scheduler's Lease says.
func (s *scene) heartbeat() (heartbeat.Report, error) {
	lease := &coordinationv1.Lease{}
	if err := s.Get(s.ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: heartbeat.LeaseName}, lease); err != nil {
		return heartbeat.Report{}, err
	}
	return heartbeat.Read(lease)
}

// beats waits for a heartbeat of a session that was closed after now.
func (s *scene) beats() heartbeat.Report {
	s.Helper()
	var report heartbeat.Report
	now := time.Now()
	s.Eventually(func() (time.Time, error) {
		var err error
		report, err = s.heartbeat()
		return report.At, err
	}).Should(BeTemporally(">", now))
	return report
}

// silent checks that no session closes any more.
func (s *scene) silent() {
	s.Helper()
	last, _ := s.heartbeat()
	s.Consistently(func() time.Time { report, _ := s.heartbeat(); return report.At }, "5s").Should(Equal(last.At), "nobody enforces")
}

// log is what the scheduler has written.
func (s *scene) log() string {
	text, err := os.ReadFile(s.cluster.LogFile("cardquota-scheduler"))
	s.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// exitCode waits until the scheduler has ended by itself.
func (s *scene) exitCode() int {
	s.Helper()
	s.Eventually(s.deployment.Scheduler.Done()).Should(BeClosed())
	var exit *exec.ExitError
	if errors.As(s.deployment.Scheduler.Wait(), &exit) {
		return exit.ExitCode()
	}
	return 0
}

// runOnModel creates bare pods that say to the stock scheduler, too, which card
// they want. Only as many as the quota allows: it knows no quota.
func (s *scene) runOnModel(w work) {
	s.Helper()
	for _, pod := range s.barePods(w) {
		pod.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": w.card}
		s.create(pod)
	}
}

// createStock makes the pod of a stock scheduler, which kwok runs.
func (s *scene) createStock(name string) *corev1.Pod {
	s.Helper()
	pod := deployment.StockPod(name, "cpu-0")
	s.Expect(s.Create(s.ctx, pod)).To(Succeed())
	return pod
}

// TestOursTakesOverWhenTheStockSchedulerIsGone is the way in: configure, scale
// the stock scheduler to 0, ours is elected.
func TestOursTakesOverWhenTheStockSchedulerIsGone(t *testing.T) {
	t.Parallel() // on a cluster of its own
	s := newSuccession(t, "successor")
	s.quota("successor", cards(h200, 4))
	resume := s.observer.Excuse(observer.Reason) // the stock scheduler does not know why
	stock, err := s.deployment.StartStockScheduler(s.ctx)
	s.Expect(err).NotTo(HaveOccurred())
	pod := s.createStock("volcano-scheduler-1")
	s.runOnModel(work{name: "before", queue: "successor", card: h200, count: 1, pods: 2})
	s.wantRunning("before", 2, 0)

	s.startScheduler() // live and ready
	s.Eventually(s.log).Should(ContainSubstring("another scheduler runs in pod volcano-system/volcano-scheduler-1,"))
	s.Eventually(func() []string { return s.eventsOn("Pod", pod.Name, "ForeignScheduler") }).ShouldNot(BeEmpty())
	s.runOnModel(work{name: "meanwhile", queue: "successor", card: h200, count: 1, pods: 1})
	s.wantRunning("meanwhile", 1, 0)

	// The stock scheduler's process ends first, its pod a while later.
	s.Expect(stock.Stop()).To(Succeed())
	s.run(work{name: "after", queue: "successor", card: h200, count: 1, pods: 3})
	ours := func() string {
		report, _ := s.heartbeat()
		return fmt.Sprintf("%s, lease of %q, heartbeat of %q", pods(s.running("after"), 3-s.running("after")), s.holder(), report.Identity)
	}
	s.Consistently(ours).Should(Equal(`0 run, 3 wait, lease of "", heartbeat of ""`), "ours is not at work")
	s.Expect(s.Delete(s.ctx, pod)).To(Succeed())
	s.Consistently(ours).Should(Equal(`0 run, 3 wait, lease of "", heartbeat of ""`), "the pod still ends")
	s.Expect(s.Get(s.ctx, keyOf(pod), pod)).To(Succeed(), "the pod still ends")
	s.Expect(s.deployment.Scheduler.Running()).To(BeTrue())

	s.wantRunning("after", 1, 2)
	resume()
	s.Expect(s.beats().Identity).To(Equal(s.holder()))
	s.wantSaid("after", insufficient("successor", h200, 1, 4))
}

// TestOursStopsWhenTheStockSchedulerComesBack is the way back, and what happens
// to somebody who starts the stock scheduler beside ours by mistake.
func TestOursStopsWhenTheStockSchedulerComesBack(t *testing.T) {
	t.Parallel() // on a cluster of its own
	s := newSuccession(t, "predecessor")
	s.quota("predecessor", cards(h200, 3))
	s.startScheduler()
	resume := s.observer.Excuse(observer.Reason)
	short := map[string]string{"test.cardquota.dev/run-for": "1s"}
	const load = 30
	s.run(work{name: "load", queue: "predecessor", card: h200, count: 1, pods: load, annotations: short})
	s.Eventually(func() int { return s.finished("load") }, "60s").Should(BeNumerically(">=", 4))
	s.Expect(s.beats().SecondScheduler).To(BeEmpty())

	// One that waits for a node is not at work yet.
	waits := s.createStockWithoutNode()
	s.beats()
	s.letSchedulerEnd()
	pod := s.createStock("volcano-scheduler-2")
	s.Expect(s.exitCode()).To(Equal(1))
	s.Expect(s.log()).To(ContainSubstring("another scheduler runs in pod volcano-system/volcano-scheduler-2,"))
	s.Expect(s.holder()).To(BeEmpty(), "the lease is free")
	bound := s.bound("load")
	s.Expect(bound).To(BeNumerically("<", load), "some still wait")

	// The kubelet starts it again: it waits.
	s.startScheduler()
	s.silent()
	s.Expect(s.holder()).To(BeEmpty())
	s.Expect(s.bound("load")).To(Equal(bound), "nothing is bound any more")

	// The stock scheduler is at work, alone.
	for _, left := range s.podsOf("load") {
		s.Expect(client.IgnoreNotFound(s.Delete(s.ctx, &left))).To(Succeed())
	}
	s.Eventually(func() int { return len(s.podsOf("load")) }).Should(BeZero())
	stock, err := s.deployment.StartStockScheduler(s.ctx)
	s.Expect(err).NotTo(HaveOccurred())
	s.runOnModel(work{name: "more", queue: "predecessor", card: h200, count: 1, pods: 2})
	s.wantRunning("more", 2, 0)
	s.Expect(stock.Stop()).To(Succeed())
	s.Expect(s.Delete(s.ctx, pod)).To(Succeed())
	s.run(work{name: "again", queue: "predecessor", card: h200, count: 1, pods: 2})
	s.wantRunning("again", 1, 1)
	s.Expect(s.Delete(s.ctx, waits)).To(Succeed())
	resume()
}

// createStockWithoutNode is a pod of the stock scheduler that no node has.
func (s *scene) createStockWithoutNode() *corev1.Pod {
	s.Helper()
	pod := deployment.StockPod("volcano-scheduler-waits", "")
	pod.Spec.SchedulerName = "nobody"
	s.Expect(s.Create(s.ctx, pod)).To(Succeed())
	return pod
}

// bound counts the pods of a workload that were ever bound.
func (s *scene) bound(name string) int {
	n := 0
	for _, pod := range s.podsOf(name) {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

func TestHeartbeatProvesWhatIsInForce(t *testing.T) {
	t.Parallel() // on a cluster of its own
	s := newSuccession(t, "heartbeat")
	s.quota("heartbeat", cards(h200, 2))
	_, err := s.heartbeat()
	s.Expect(client.IgnoreNotFound(err)).To(Succeed())
	s.Expect(err).To(HaveOccurred(), "nobody enforces yet")

	s.startScheduler()
	good := s.configuration().Data[configurationKey]
	report := s.beats()
	s.Expect(report.ConfigHash).To(Equal(schedulerconf.Hash(good)))
	s.Expect(report.ConfigProblem).To(BeEmpty())
	s.Expect(report.Identity).To(Equal(s.holder()))
	s.Expect(report.Version).To(Equal(s.version()))
	s.Expect(report.Fresh(time.Now())).To(BeTrue())
	s.beats() // and again

	// Pods come and go, all bound by this process.
	s.create(s.deploymentOf(work{name: "web", queue: "heartbeat", card: h200, count: 1, pods: 3}))
	s.wantRunning("web", 2, 1)
	other := strings.Replace(good, "enqueue, allocate, backfill", "enqueue, allocate", 1)
	s.configure(other)
	s.Eventually(func() string { return s.beats().ConfigHash }).Should(Equal(schedulerconf.Hash(other)))
	s.configure("actions: [\n")
	s.Eventually(func() string { return s.beats().ConfigProblem }).Should(ContainSubstring("the text is not YAML"))
	s.Expect(s.beats().ConfigHash).To(Equal(schedulerconf.Hash(other)), "the last good one is in force")
	s.configure(good)
	s.Eventually(func() string { return s.beats().ConfigHash }).Should(Equal(schedulerconf.Hash(good)))
	s.Expect(s.beats().ConfigProblem).To(BeEmpty())

	s.bindsByHand()

	s.letSchedulerEnd()
	s.Expect(s.deployment.Scheduler.Stop()).To(Succeed())
	s.silent()
	last, err := s.heartbeat()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(last.Fresh(last.At.Add(heartbeat.StaleAfter))).To(BeFalse())
	s.startScheduler() // the observer's last look needs one
	s.Expect(s.beats().SecondScheduler).To(BeEmpty(), "a new process has seen nothing of it")
}

// bindsByHand has a pod bound by somebody else: the heartbeat names it until it
// is gone, and no pod that the scheduler bound itself.
func (s *scene) bindsByHand() {
	s.Helper()
	s.quota("heartbeat-foreign", cards(h800, 1))
	// It waits for a node that does not exist, and is bound once the time is over
	// in which a binding may be a predecessor's.
	pod := s.barePods(work{name: "foreign", queue: "heartbeat-foreign", card: h800, count: 1, pods: 1})[0]
	pod.Spec.NodeSelector = map[string]string{"nowhere": "yes"}
	s.create(pod)
	s.Eventually(func() string { return s.log() }).Should(ContainSubstring("deciding begins"))
	s.Consistently(func() []string { return s.beats().SecondScheduler }, "35s", "1s").Should(BeEmpty())
	s.Expect(s.cluster.Client().CoreV1().Pods(s.namespace).Bind(s.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "h800-0"},
	}, metav1.CreateOptions{})).To(Succeed())
	s.Eventually(func() []string { return s.beats().SecondScheduler }).Should(Equal([]string{s.namespace + "/" + pod.Name}))
	s.Expect(s.Delete(s.ctx, pod)).To(Succeed())
	s.Eventually(func() []string { return s.beats().SecondScheduler }).Should(BeEmpty())
}

// version is what the scheduler's binary says it is.
func (s *scene) version() string {
	s.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(s.ctx), filepath.Join(suite.root, "bin", "cardquota-scheduler"), "--version").Output()
	s.Expect(err).NotTo(HaveOccurred())
	words := strings.FieldsFunc(string(out), func(c rune) bool { return c == ' ' || c == ',' })
	s.Expect(len(words)).To(BeNumerically(">", 1))
	return words[1]
}
