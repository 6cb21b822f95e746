package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// testCluster is a real API server with Volcano's types, the shipped account and one node.
type testCluster struct {
	admin client.Client
	// kubeconfig acts as the shipped ServiceAccount.
	kubeconfig string
	// binary is the scheduler under test.
	binary string
}

const root = "../.."

func startCluster(t *testing.T) *testCluster {
	server, err := cluster.Start(t.Context(), cluster.Options{APIServerOnly: true})
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}

	check.NoError(t, err)
	t.Cleanup(func() { check.NoError(t, server.Stop()) })

	types := runtime.NewScheme()
	check.NoError(t, errors.Join(scheme.AddToScheme(types), schedulingv1beta1.AddToScheme(types)))
	admin := check.Value(client.New(server.Config(), client.Options{Scheme: types}))(t)

	c := &testCluster{admin: admin, binary: filepath.Join(t.TempDir(), "cardquota-scheduler")}
	goTool(t, "build", "-o", c.binary, ".")
	c.create(t, builder.Namespace("volcano-system"))

	manifests, err := filepath.Glob(filepath.Join(root, "config/rbac/scheduler_*.yaml"))
	check.Must(t, err == nil && len(manifests) > 0, "no manifests of the scheduler's rights: %v", err)

	for _, file := range manifests {
		check.NoError(t, server.ApplyFile(t.Context(), file))
	}

	c.kubeconfig = check.Value(server.KubeconfigFor(t.Context(), "volcano-system", "cardquota-scheduler"))(t)

	node := builder.Node("node").Obj()
	c.create(t, node)
	node.Status = builder.Node("node").Obj().Status
	check.NoError(t, admin.Status().Update(t.Context(), node))

	// Without kubelet and controllers the node keeps the taint it was admitted with.
	node.Spec.Taints = nil
	check.NoError(t, admin.Update(t.Context(), node))
	return c
}

func goTool(t *testing.T, args ...string) string {
	var stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Stderr = &stderr
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped, also under the race detector
	out, err := command.Output()
	check.Must(t, err == nil, "go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	return string(out)
}

func (c *testCluster) create(t *testing.T, object client.Object) {
	check.NoError(t, c.admin.Create(t.Context(), object))
}

// holder returns the identity in the scheduler's lease, "" without one.
func (c *testCluster) holder(t *testing.T) string {
	var lease coordinationv1.Lease
	check.NoError(t, client.IgnoreNotFound(c.admin.Get(t.Context(), client.ObjectKey{Namespace: "volcano-system", Name: "volcano"}, &lease)))
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// takeLease takes the lease for another client.
func (c *testCluster) takeLease(t *testing.T, g *WithT) {
	g.Eventually(func(g Gomega) {
		var lease coordinationv1.Lease
		g.Expect(c.admin.Get(t.Context(), client.ObjectKey{Namespace: "volcano-system", Name: "volcano"}, &lease)).To(Succeed())
		lease.Spec.HolderIdentity = ptr.To("another")
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		g.Expect(c.admin.Update(t.Context(), &lease)).To(Succeed())
	}, soon).Should(Succeed())
}
