package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/childprocess"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// The test binary acts as the program that start runs in the background.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "up" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestWrongArgumentsShowTheUsage: a developer who mistypes a command of test/cluster sees how to use it, and
// nothing starts or stops.
func TestWrongArgumentsShowTheUsage(t *testing.T) {
	for t, args := range check.Cases(t, map[string][]string{
		"no argument":          {},
		"an unknown verb":      {"down"},
		"an unknown flag":      {"up", "--fleets=x"},
		"an argument after up": {"up", "now"},
		"start without --dir":  {"start"},
		"stop without --dir":   {"stop"},
	}) {
		var out bytes.Buffer

		err := run(t.Context(), args, &out, &out)
		check.That(t, errors.Is(err, errUsage), "got %v, want a usage error", err)
		check.Contains(t, "output", out.String(), usage)
	}
}

// TestAClusterStaysUpUntilItIsStoppedAndOneThatCrashedIsReplaced: a developer keeps a cluster of 10 nodes between
// runs of tests. The second start finds the first cluster, and a test that attaches to it does not stop it. When
// its program is killed, all six processes end, and the next start makes another cluster. A stop without a cluster
// succeeds. The log says how to use the cluster.
func TestAClusterStaysUpUntilItIsStoppedAndOneThatCrashedIsReplaced(t *testing.T) {
	g := NewWithT(check.Trail(t))
	root := check.Value(cluster.ModuleRoot())(t)

	bin := root + "/bin/controlplane"
	if _, err := os.Stat(bin + "/etcd"); err != nil {
		missing.Skip(t, cluster.ErrNotBuilt)
	}

	dir := t.TempDir() + "/kept"
	args := []string{"--dir", dir, "--bin", bin, "--fleet", root + "/test/cluster/fleets/mixed.yaml"}
	processes := func() []string {
		return childprocess.Processes(func(proc string) bool {
			environment, _ := os.ReadFile(proc + "/environ")
			return bytes.Contains(environment, []byte("HOME="+dir+"\x00"))
		})
	}

	command := func(name string) {
		var out bytes.Buffer
		g.Expect(run(t.Context(), append([]string{name}, args...), &out, &out)).To(Succeed(), out.String)
	}
	t.Cleanup(func() { _ = stopInBackground(context.WithoutCancel(t.Context()), dir) })

	command("start")
	first, running := cluster.Owner(dir)
	g.Expect(running).To(BeTrue())

	command("start")
	again, _ := cluster.Owner(dir)
	g.Expect(again).To(Equal(first), "a second start finds the first cluster")

	c := check.Value(cluster.Attach(t.Context(), dir))(t)

	g.Expect(check.Value(c.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items).To(HaveLen(10))
	g.Expect(c.Stop()).To(Succeed())

	g.Expect(processes()).To(HaveLen(6), "etcd, two of Kubernetes, two of Volcano, kwok")
	g.Expect(syscall.Kill(first, syscall.SIGKILL)).To(Succeed())
	g.Expect(cluster.AwaitEnd(t.Context(), dir)).To(Succeed())
	g.Eventually(processes, "20s", "20ms").Should(BeEmpty(), "every process dies with a killed parent")

	command("start")
	second, running := cluster.Owner(dir)
	g.Expect(running).To(BeTrue())
	g.Expect(second).NotTo(Equal(first))

	command("stop")
	_, running = cluster.Owner(dir)
	g.Expect(running).To(BeFalse())

	command("stop") // there is nothing to stop
	said := check.Value(os.ReadFile(dir + "/cluster.log"))(t)

	for _, want := range []string{
		`msg=ready component=etcd`, `msg="nodes ready" count=10`, "export KUBECONFIG=" + dir + "/kubeconfig", `msg="cluster stopped"`,
	} {
		check.Contains(t, "log of the cluster", string(said), want)
	}
}
