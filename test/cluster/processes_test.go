package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/childprocess"
	"cardquota.dev/operator/test/cluster"
)

// processesOf returns the processes whose command line or environment contains dir.
func processesOf(dir string) map[int]string {
	found := map[int]string{}
	for _, id := range childprocess.Processes(func(proc string) bool {
		command, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(proc, "environ"))
		return bytes.Contains(command, []byte(dir)) || bytes.Contains(environment, []byte("HOME="+dir+"\x00"))
	}) {
		pid, _ := strconv.Atoi(id)
		program, _ := os.Readlink(filepath.Join("/proc", id, "exe"))
		found[pid] = filepath.Base(program)
	}
	return found
}

// TestAnAPIServerAlone: tests of the operator need no scheduler and no nodes. With APIServerOnly a cluster is
// etcd and kube-apiserver alone, with Volcano's CRDs. Pods need no ServiceAccount there, because no controller
// creates one. If the API server is killed, the cluster reports it at once, and Stop returns it as an error.
func TestAnAPIServerAlone(t *testing.T) {
	g := NewWithT(check.Trail(t))
	reports := make(chan string, 100)
	c, err := cluster.Start(t.Context(), cluster.Options{
		APIServerOnly: true, Log: funcr.New(func(_, line string) { reports <- line }, funcr.Options{}),
	})

	skipUnbuilt(t, err)
	t.Cleanup(func() { _ = c.Stop() })

	parts := processesOf(c.Dir())
	g.Expect(slices.Sorted(maps.Values(parts))).To(Equal([]string{"etcd", "kube-apiserver"}))

	resources := check.Value(c.Client().Discovery().ServerResourcesForGroupVersion("scheduling.volcano.sh/v1beta1"))(t)
	g.Expect(resources.APIResources).To(ContainElement(HaveField("Kind", "Queue")))

	pod := builder.Pod("default", "alone").Obj()
	_, err = c.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "without a ServiceAccount")

	for pid, name := range parts {
		if name == "kube-apiserver" {
			g.Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
	}

	g.Eventually(reports, "20s").Should(Receive(ContainSubstring("component ended")), "report that the API server was killed")
	g.Expect(c.Stop()).To(MatchError(ContainSubstring("kube-apiserver ended by itself (signal: killed)")))
}

// TestFailedStartLeavesNothingBehind: if a component does not start, Start returns its exit status and its last
// output, and ends the components that it has started.
func TestFailedStartLeavesNothingBehind(t *testing.T) {
	g := NewWithT(check.Trail(t))
	bin := sharedCluster(t).BinDir()

	// The same binaries, but the controller manager cannot run.
	broken := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		g.Expect(os.Symlink(filepath.Join(bin, name), filepath.Join(broken, name))).To(Succeed())
	}

	script := "#!/bin/sh\necho this one is broken\nexit 3\n"
	g.Expect(os.WriteFile(filepath.Join(broken, "kube-controller-manager"), []byte(script), 0o755)).To(Succeed())
	dir := t.TempDir()

	_, err := cluster.Start(t.Context(), cluster.Options{BinDir: broken, Dir: dir, WithoutKwok: true, WithoutVolcano: true})

	g.Expect(err).To(MatchError(And(
		ContainSubstring("kube-controller-manager ended by itself (exit status 3)"),
		ContainSubstring("this one is broken"),
	)))
	g.Expect(processesOf(dir)).To(BeEmpty())
}

// TestCancelledStartLeavesNothingBehind: Ctrl-C during the start, here when the first component after etcd and
// the API server is ready, ends all components that run by then.
func TestCancelledStartLeavesNothingBehind(t *testing.T) {
	g := NewWithT(check.Trail(t))
	sharedCluster(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	_, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: funcr.New(func(_, line string) {
		// The first component after the API server is ready, the others are not yet.
		if strings.Contains(line, `"msg"="ready"`) && !strings.Contains(line, `"component"="etcd"`) && !strings.Contains(line, `"component"="kube-apiserver"`) {
			g.Expect(processesOf(dir)).NotTo(BeEmpty())
			cancel()
		}
	}, funcr.Options{})})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(processesOf(dir)).To(BeEmpty())
}

// TestMissingBinariesAreNamed: on a machine where `make controlplane` has not run, the error names the programs
// that are missing, such as kube-apiserver. Tests recognise it as ErrNotBuilt and skip.
func TestMissingBinariesAreNamed(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{BinDir: t.TempDir()})
	NewWithT(check.Trail(t)).Expect(err).To(And(MatchError(cluster.ErrNotBuilt), MatchError(ContainSubstring("kube-apiserver"))))
}

// TestAClusterBesideAnother: two clusters on one machine have addresses and nodes of their own. Stop ends all
// processes of a cluster, with the children of processes that a test has started, and removes the cluster's
// folder. A second Stop has no effect. A client that does not answer does not delay Stop. A stopped cluster starts no
// process.
func TestAClusterBesideAnother(t *testing.T) {
	g := NewWithT(check.Trail(t))
	first := sharedCluster(t)
	c := startCluster(t, cluster.Options{WithoutVolcano: true, WithoutKwok: true})
	dir := c.Dir()
	g.Expect(c.Config().Host).NotTo(Equal(first.Config().Host))

	g.Expect(check.Value(c.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items).To(BeEmpty())
	child := startScript(t, c, "child", "sleep 1000 & echo $GREETING; wait", defaultStopTimeout) // $GREETING says that it is up
	g.Expect(processesOf(dir)).To(HaveLen(5), "etcd, apiserver, controller manager, the child and its own child")

	// A frozen client neither closes its watch nor answers the server's shutdown, like a pod
	// without network. Stop does not wait for it.
	watcher := exec.CommandContext(t.Context(), filepath.Join(c.BinDir(), "kubectl"), "get", "namespaces", "--watch")
	watcher.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	out := check.Value(watcher.StdoutPipe())(t)
	g.Expect(watcher.Start()).To(Succeed())

	_, err := bufio.NewReader(out).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred(), "it watches")
	g.Expect(watcher.Process.Signal(syscall.SIGSTOP)).To(Succeed())

	g.Expect(c.Stop()).To(Succeed())
	g.Expect(c.Stop()).To(Succeed())

	g.Expect(watcher.Process.Kill()).To(Succeed())
	_ = watcher.Wait()
	g.Expect(child.Running()).To(BeFalse())
	g.Expect(processesOf(dir)).To(BeEmpty())
	g.Expect(dir).NotTo(BeADirectory(), "a temporary folder is removed with its cluster")

	_, err = c.StartProcess(t.Context(), cluster.ProcessSpec{Name: "late", Path: "/bin/true"})
	g.Expect(err).To(MatchError(ContainSubstring("the cluster is stopped")))
}

// defaultStopTimeout lets a ProcessSpec have its default.
const defaultStopTimeout = 0

// startScript runs a script that prints $GREETING when it is up.
func startScript(t *testing.T, c *cluster.Cluster, name, script string, stopTimeout time.Duration) *cluster.Process {
	NewWithT(check.Trail(t)).Expect(os.RemoveAll(c.LogFile(name))).To(Succeed()) // of an earlier run

	p := check.Value(c.StartProcess(t.Context(), cluster.ProcessSpec{
		Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, StopTimeout: stopTimeout,
		Ready: func(context.Context) error {
			if text, err := os.ReadFile(c.LogFile(name)); string(text) != "hello\n" {
				return fmt.Errorf("it says %q: %w", text, err)
			}
			return nil
		},
	}))(t)

	return p
}

// TestProcessesCanBeKilledAndStopped: tests start programs of their own beside a cluster. Kill sends SIGKILL,
// and Wait returns how the process ended. Stop sends SIGTERM. It kills a process that has not ended after its
// StopTimeout, and reports that.
func TestProcessesCanBeKilledAndStopped(t *testing.T) {
	g := NewWithT(check.Trail(t))
	c := sharedCluster(t)
	killed := startScript(t, c, "killed", "echo $GREETING; exec sleep 1000", defaultStopTimeout)
	g.Expect(killed.Running()).To(BeTrue())

	killed.Kill()
	g.Expect(killed.Wait()).To(MatchError("signal: killed"))

	obedient := startScript(t, c, "obedient", "trap 'exit 0' TERM; echo $GREETING; sleep 1000 & wait", defaultStopTimeout)
	g.Expect(obedient.Stop()).To(Succeed())
	g.Expect(obedient.Wait()).To(Succeed())

	stubborn := startScript(t, c, "stubborn", "trap '' TERM; echo $GREETING; sleep 1000", 300*time.Millisecond)
	g.Expect(stubborn.Stop()).To(MatchError(ContainSubstring("did not stop within 300ms after SIGTERM and was killed")))
	g.Expect(stubborn.Running()).To(BeFalse())
}
