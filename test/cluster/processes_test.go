package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/test/cluster"
)

// beParent starts a whole cluster in dir, says so by a file, and waits to be killed.
func beParent(dir string) {
	_, err := cluster.Start(context.Background(), cluster.Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.WriteFile(filepath.Join(dir, "up"), nil, 0o600); err != nil {
		os.Exit(1)
	}
	select {}
}

// processesOf lists the processes whose command line or environment names dir.
func processesOf(dir string) map[int]string {
	found := map[int]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(entry, "environ"))
		if bytes.Contains(command, []byte(dir)) || bytes.Contains(environment, []byte("HOME="+dir+"\x00")) {
			name, _, _ := strings.Cut(string(command), "\x00")
			found[pid] = filepath.Base(name)
		}
	}
	return found
}

func TestEveryProcessDiesWithAKilledParent(t *testing.T) {
	g := NewWithT(t)
	whole(t) // skips when nothing is built
	dir := t.TempDir()
	var output bytes.Buffer
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentMode+"="+dir)
	parent.Stdout, parent.Stderr = &output, &output
	g.Expect(parent.Start()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- parent.Wait() }()
	g.Eventually(filepath.Join(dir, "up"), "2m", "100ms").Should(BeAnExistingFile(), output.String)
	components := processesOf(dir)
	delete(components, parent.Process.Pid)
	g.Expect(components).To(HaveLen(6), "etcd, three Kubernetes and Volcano pairs, kwok: %v", components)

	t.Cleanup(func() { // a failing test must not leave behind what it complains of
		for pid := range processesOf(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})

	g.Expect(parent.Process.Kill()).To(Succeed())
	<-ended
	g.Eventually(func() map[int]string { return processesOf(dir) }, "20s", "20ms").Should(BeEmpty())
}

func TestFailedStartLeavesNothingBehind(t *testing.T) {
	g := NewWithT(t)
	bin := whole(t).BinDir()
	// The same binaries, but the controller manager cannot work.
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

func TestCancelledStartLeavesNothingBehind(t *testing.T) {
	g := NewWithT(t)
	whole(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: funcr.New(func(_, line string) {
		// The first part to be ready after the API server: the others are not yet.
		if strings.Contains(line, `"msg"="ready"`) && !strings.Contains(line, `"component"="etcd"`) && !strings.Contains(line, `"component"="kube-apiserver"`) {
			g.Expect(processesOf(dir)).NotTo(BeEmpty())
			cancel()
		}
	}, funcr.Options{})})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(processesOf(dir)).To(BeEmpty())
}

func TestMissingBinariesAreNamed(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{BinDir: t.TempDir()})
	if !errors.Is(err, cluster.ErrNotBuilt) || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Fatalf("got %v, want ErrNotBuilt that names kube-apiserver", err)
	}
}

func TestStopIsOrderlyAndIdempotent(t *testing.T) {
	g := NewWithT(t)
	c := start(t, cluster.Options{WithoutVolcano: true, WithoutKwok: true})
	dir := c.Dir()
	child, err := c.StartProcess(t.Context(), cluster.ProcessSpec{Name: "child", Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & echo up; wait"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() string { text, _ := os.ReadFile(child.LogFile()); return string(text) }, "20s").Should(Equal("up\n"))
	g.Expect(processesOf(dir)).To(HaveLen(5), "etcd, apiserver, controller manager, the child and its own child")

	g.Expect(c.Stop()).To(Succeed())
	g.Expect(c.Stop()).To(Succeed())

	g.Expect(child.Running()).To(BeFalse())
	g.Expect(processesOf(dir)).To(BeEmpty())
	g.Expect(dir).NotTo(BeADirectory(), "a temporary folder goes with its cluster")
	_, err = c.StartProcess(t.Context(), cluster.ProcessSpec{Name: "late", Path: "/bin/true"})
	g.Expect(err).To(MatchError(ContainSubstring("the cluster is stopped")))
}

// A client that is frozen neither closes its watch nor answers when the server
// says goodbye, as a pod whose network is gone.
func TestStopDoesNotWaitForWatchers(t *testing.T) {
	g := NewWithT(t)
	c := start(t, cluster.Options{WithoutVolcano: true, WithoutKwok: true})
	root, err := cluster.ModuleRoot()
	g.Expect(err).NotTo(HaveOccurred())
	watcher := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "controlplane", "kubectl"),
		"--kubeconfig="+c.Kubeconfig(), "get", "namespaces", "--watch")
	out, err := watcher.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(watcher.Start()).To(Succeed())
	_, err = bufio.NewReader(out).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred(), "it watches")
	g.Expect(watcher.Process.Signal(syscall.SIGSTOP)).To(Succeed())

	g.Expect(c.Stop()).To(Succeed())
	g.Expect(watcher.Process.Kill()).To(Succeed())
	_ = watcher.Wait()
}

func TestACrashedComponentIsReported(t *testing.T) {
	g := NewWithT(t)
	whole(t)
	reports := make(chan string, 100)
	c, err := cluster.Start(t.Context(), cluster.Options{
		WithoutVolcano: true, WithoutKwok: true,
		Log: funcr.New(func(_, line string) { reports <- line }, funcr.Options{}),
	})
	g.Expect(err).NotTo(HaveOccurred())
	for pid, name := range processesOf(c.Dir()) {
		if name == "kube-controller-manager" {
			g.Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
	}
	g.Eventually(reports, "20s").Should(Receive(ContainSubstring("component ended")), "before anybody asks")
	g.Expect(c.Stop()).To(MatchError(ContainSubstring("kube-controller-manager ended by itself (signal: killed)")))
}

func TestProcessesCanBeKilledAndStopped(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	run := func(name, script string, patience time.Duration) *cluster.Process {
		g.Expect(os.RemoveAll(c.LogFile(name))).To(Succeed()) // of an earlier run
		p, err := c.StartProcess(t.Context(), cluster.ProcessSpec{
			Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, StopTimeout: patience,
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(func() string { text, _ := os.ReadFile(p.LogFile()); return string(text) }, "20s").Should(ContainSubstring("hello"))
		return p
	}
	killed := run("killed", "echo $GREETING; exec sleep 1000", 0)
	g.Expect(killed.Running()).To(BeTrue())
	killed.Kill()
	g.Expect(killed.Wait()).To(MatchError("signal: killed"))

	obedient := run("obedient", "trap 'exit 0' TERM; echo $GREETING; sleep 1000 & wait", 0)
	g.Expect(obedient.Stop()).To(Succeed())
	g.Expect(obedient.Wait()).To(Succeed())

	stubborn := run("stubborn", "trap '' TERM; echo $GREETING; sleep 1000", 300*time.Millisecond)
	g.Expect(stubborn.Stop()).To(MatchError(ContainSubstring("did not stop within 300ms after SIGTERM and was killed")))
	g.Expect(stubborn.Running()).To(BeFalse())
}

func TestClustersDoNotDisturbEachOther(t *testing.T) {
	g := NewWithT(t)
	first := whole(t)
	second := start(t, cluster.Options{WithoutVolcano: true, WithoutKwok: true})
	g.Expect(second.Server()).NotTo(Equal(first.Server()))
	nodes, err := second.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nodes.Items).To(BeEmpty())
}
