package realnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// parentMode makes the test binary act as a program that runs a cluster and is killed.
const parentMode = "CARDQUOTA_TEST_REALNODE_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentMode); dir != "" {
		c, err := cluster.Start(context.Background(), realNodeOptions(dir))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.Dir(), "up"), nil, 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}

		select {}
	}
	os.Exit(m.Run())
}

func realNodeOptions(dir string) cluster.Options {
	return cluster.Options{Dir: dir, WithoutVolcano: true, WithoutKwok: true, WithKubeScheduler: true, RealNode: cardNode()}
}

// TestStopLeavesNothingBehind: a stopped cluster leaves nothing on the machine, and no change of the firewall.
// findTraces looks for five traces: a network link, processes of the cluster and on its node, cgroups and mounts. All
// five are there while the cluster runs.
func TestStopLeavesNothingBehind(t *testing.T) {
	g := NewWithT(check.Trail(t))
	if err := cluster.CanRunRealNode(); err != nil {
		missing.Skip(t, err)
	}
	before := check.Value(firewallRules())(t)

	dir := t.TempDir()
	c := startRealNode(t, realNodeOptions(dir))
	importResponder(t, c)
	g.Expect(c.Apply(t.Context(), responderManifests("responder", 1, 1))).To(Succeed())
	waitForRunning(t, c, "responder", 1)

	left := findTraces(t, c.Client(), dir)
	g.Expect(left()).To(HaveLen(5), "all that is looked for later is there now")
	g.Expect(c.Stop()).To(Succeed())
	g.Expect(left()).To(BeEmpty())
	g.Expect(firewallRules()).To(Equal(before), "the rules of this machine's own network")
}

// TestAKilledClusterLeavesNothingThatOutlivesTheNextStart: a cluster whose program is killed cannot clean up. The
// kernel ends everything except empty cgroups, and the next start in the same folder removes these. This test
// binary runs the cluster in another process (parentMode), which the test kills.
func TestAKilledClusterLeavesNothingThatOutlivesTheNextStart(t *testing.T) {
	if err := cluster.CanRunRealNode(); err != nil {
		missing.Skip(t, err)
	}

	g := NewWithT(check.Trail(t))
	dir := t.TempDir()
	var output bytes.Buffer

	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentMode+"="+dir)
	parent.Stdout = &output
	parent.Stderr = &output
	g.Expect(parent.Start()).To(Succeed())

	ended := make(chan error, 1)
	go func() { ended <- parent.Wait() }()
	t.Cleanup(func() { _ = parent.Process.Kill() })

	g.Eventually(func() (string, error) {
		select {
		case err := <-ended:
			if strings.Contains(output.String(), cluster.ErrNotBuilt.Error()) {
				missing.Skip(t, output.String())
			}
			t.Fatalf("the program ended: %v: %s", err, output.String())
		default:
		}
		_, err := os.Stat(filepath.Join(dir, "up"))
		return "", err
	}, "2m", "100ms").Should(BeEmpty())

	config := check.Value(clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig")))(t)

	left := findTraces(t, check.Value(kubernetes.NewForConfig(config))(t), dir)
	g.Expect(left()).To(HaveLen(5), "a network link, processes of the cluster and on its node, cgroups and mounts")

	g.Expect(parent.Process.Kill()).To(Succeed())
	<-ended
	g.Eventually(left, "30s", "100ms").Should(Or(BeEmpty(), ConsistOf(HavePrefix("cgroups"))),
		"the kernel takes everything but empty cgroups")

	g.Expect(startRealNode(t, realNodeOptions(dir)).Stop()).To(Succeed())
	g.Expect(left()).To(BeEmpty())
}

// TestTwoRealNodesRunSideBySide: two tests may have a real node on one machine at the same time. Pods on both reach
// the API server of their own cluster, and when one cluster stops, the pods of the other go on.
func TestTwoRealNodesRunSideBySide(t *testing.T) {
	g := NewWithT(check.Trail(t))
	clusters := []*cluster.Cluster{startRealNode(t, realNodeOptions("")), startRealNode(t, realNodeOptions(""))}
	for i, c := range clusters {
		importResponder(t, c)
		g.Expect(c.Apply(t.Context(), responderManifests(fmt.Sprintf("responder-%d", i), 1, cards))).To(Succeed())
	}

	for i, c := range clusters {
		pods := waitForRunning(t, c, fmt.Sprintf("responder-%d", i), 1)
		g.Expect(mustGet(t, "%s:8080/whoami", pods[0].Status.PodIP)).To(Equal("system:serviceaccount:default:default"))
	}

	g.Expect(clusters[0].Stop()).To(Succeed())
	waitForRunning(t, clusters[1], "responder-1", 1)
}
