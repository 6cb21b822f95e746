package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// A busy machine may stall a scheduler for a while: only a stall longer than renewDeadline
// loses its lease. What must not take the whole of either ends within soon.
const (
	leaseDuration = 60 * time.Second
	renewDeadline = 40 * time.Second
	soon          = 20 * time.Second
)

// Configurations of the scheduler: valid and otherValid have different actions, withoutPlugin lacks plugin capacity-card,
// which enforces quotas.
const (
	valid         = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: capacity-card\n"
	otherValid    = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: capacity-card\n"
	withoutPlugin = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n"
)

// process is one running scheduler.
type process struct {
	command *exec.Cmd
	health  string
	metrics string
	exited  chan int

	mu  sync.Mutex
	log strings.Builder
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// freeAddress is one that no outgoing connection can take before it is used.
func freeAddress(t *testing.T) string {
	return fmt.Sprintf("127.0.0.1:%d", check.Value(cluster.FreePort())(t))
}

// startProcess runs the scheduler under the shipped account until the test ends.
func (c *testCluster) startProcess(t *testing.T) *process {
	p := &process{health: freeAddress(t), metrics: freeAddress(t), exited: make(chan int, 1)}
	p.command = exec.CommandContext(t.Context(), c.binary, "-v=2",
		"--leader-elect-lease-duration="+leaseDuration.String(), "--leader-elect-renew-deadline="+renewDeadline.String(),
		"--kubeconfig="+c.kubeconfig, "--healthz-address="+p.health, "--listen-address="+p.metrics)

	p.command.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "DEBUG_SOCKET_DIR="+t.TempDir())
	p.command.Stdout = p
	p.command.Stderr = p
	check.NoError(t, p.command.Start())

	go func() {
		_ = p.command.Wait() // the exit code says it all
		p.exited <- p.command.ProcessState.ExitCode()
	}()

	t.Cleanup(func() {
		_ = p.command.Process.Kill() // it may have ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.health, p.output())
		}
	})

	return p
}

// page returns the body of a page that answers 200.
func page(g Gomega, address, path string) string {
	status, body, err := get("http://" + address + path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(200))
	return body
}

// TestProcessThroughItsLife runs the real scheduler with a real API server and the shipped rights. It is live and
// ready at any time, and says on /readyz what it waits for. It leads with the first configuration that enforces
// quotas, keeps the last valid one, and follows the next. When it is stopped, another replica leads at once. A
// replica that loses the Lease ends with code 1. Both replicas remove their private directory at their end, and no
// right was missing.
func TestProcessThroughItsLife(t *testing.T) {
	c := startCluster(t)
	g := NewWithT(check.Trail(t))
	g.SetDefaultEventuallyTimeout(soon)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	first := c.startProcess(t)

	// Started without a configuration it is live and ready.
	g.Eventually(func(g Gomega) {
		g.Expect(page(g, first.health, "/healthz")).To(Equal("ok\n"))
		g.Expect(page(g, first.health, "/readyz")).To(Equal("ok\nNotConfigured: ConfigMap volcano-system/cardquota-scheduler-configmap does not exist\n"))
		g.Expect(page(g, first.metrics, "/metrics")).To(ContainSubstring("\ncardquota_scheduler_config_valid 0\n"))
	}).Should(Succeed())

	c.configure(t, withoutPlugin)
	g.Eventually(func(g Gomega) {
		g.Expect(page(g, first.health, "/readyz")).To(And(HavePrefix("ok\nNotConfigured"), ContainSubstring("capacity-card is missing")))
	}).Should(Succeed())

	// With none or one that enforces no quotas it takes no Lease, and does not create Volcano's queues.
	g.Consistently(func(g Gomega) {
		g.Expect(c.holder(t)).To(BeEmpty())
		var queues schedulingv1beta1.QueueList
		g.Expect(c.admin.List(t.Context(), &queues)).To(Succeed())
		g.Expect(queues.Items).To(BeEmpty())
	}, "2s").Should(Succeed())

	// With the first valid text it leads. Volcano logs "Final state" for each configuration that it loads.
	c.configure(t, valid)
	g.Eventually(func() string { return c.holder(t) }).ShouldNot(BeEmpty())

	leader := c.holder(t)
	g.Expect(page(g, first.health, "/readyz")).To(ContainSubstring("(in force: " + schedulerconfig.Hash(valid) + ")"))
	g.Eventually(first.output).Should(ContainSubstring("Final state: actions=[enqueue allocate backfill]"))
	c.expectBound(t, g, "first")

	// A text that is no YAML changes nothing but the report. The next valid one is loaded by Volcano.
	c.configure(t, "actions: \"")
	g.Eventually(func(g Gomega) {
		g.Expect(page(g, first.health, "/readyz")).To(And(HavePrefix("ok\nConfigurationRejected: the text is not YAML"), ContainSubstring(schedulerconfig.Hash(valid))))
		g.Expect(page(g, first.metrics, "/metrics")).To(And(ContainSubstring("\ncardquota_scheduler_config_valid 0\n"),
			ContainSubstring(fmt.Sprintf("cardquota_scheduler_config_info{hash=%q} 1", schedulerconfig.Hash(valid)))))
	}).Should(Succeed())

	c.expectBound(t, g, "second")
	c.configure(t, otherValid)
	g.Eventually(first.output).Should(ContainSubstring("Final state: actions=[enqueue allocate],"))

	// A second replica waits, and leads when the first is stopped, long before the Lease would expire.
	second := c.startProcess(t)
	g.Eventually(func(g Gomega) {
		g.Expect(page(g, second.health, "/readyz")).To(ContainSubstring("ConfigurationLoaded"))
	}).Should(Succeed())
	g.Eventually(second.output).Should(ContainSubstring("attempting to acquire leader lease"))

	g.Expect(c.holder(t)).To(Equal(leader))
	g.Expect(first.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Eventually(first.exited).Should(Receive(Equal(0)))
	g.Eventually(func() string { return c.holder(t) }).ShouldNot(Or(BeEmpty(), Equal(leader)))
	c.expectBound(t, g, "third")

	// Another holder takes the Lease from the second replica. It ends with code 1, before client-go's deadline
	// (renewDeadline).
	c.takeLease(t, g)
	g.Eventually(second.exited).Should(Receive(Equal(1)))
	g.Expect(second.output()).To(ContainSubstring("the lease is lost"))
	g.Expect(c.holder(t)).To(Equal("another"))

	// The shipped rights were enough.
	for _, p := range []*process{first, second} {
		g.Expect(p.output()).NotTo(ContainSubstring("forbidden"))
		left := check.Value(filepath.Glob(filepath.Join(tempDir(p.command), "cardquota-scheduler-*")))(t)
		g.Expect(left).To(BeEmpty(), "the private directory is removed")
	}
}

func tempDir(command *exec.Cmd) string {
	for _, variable := range command.Env {
		if dir, ok := strings.CutPrefix(variable, "TMPDIR="); ok && dir != os.TempDir() {
			return dir
		}
	}
	return ""
}

// expectBound creates a pod that requests no card, and waits for its placement.
func (c *testCluster) expectBound(t *testing.T, g *WithT, name string) {
	c.create(t, builder.PodGroup("default", name).Queue("default").Obj())
	pod := builder.Pod("default", name).PodGroup(name).CPU("100m").Obj()

	c.create(t, pod)
	g.Eventually(func(g Gomega) {
		// Volcano's controllers, which open queues, do not run here.
		var queue schedulingv1beta1.Queue
		g.Expect(c.admin.Get(t.Context(), client.ObjectKey{Name: "default"}, &queue)).To(Succeed())
		if queue.Status.State != schedulingv1beta1.QueueStateOpen {
			queue.Status.State = schedulingv1beta1.QueueStateOpen
			g.Expect(c.admin.Status().Update(t.Context(), &queue)).To(Succeed())
		}
		g.Expect(c.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).To(Equal("node"))
	}).Should(Succeed())
}

// configure writes the scheduler's ConfigMap.
func (c *testCluster) configure(t *testing.T, text string) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: "cardquota-scheduler-configmap"},
		Data:       map[string]string{"volcano-scheduler.conf": text},
	}
	err := c.admin.Create(t.Context(), object)
	if apierrors.IsAlreadyExists(err) {
		err = c.admin.Update(t.Context(), object)
	}
	check.NoError(t, err)
}
