package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/testenv"
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
	t.Helper()
	binaries, err := filepath.Abs(filepath.Join(root, "bin/controlplane"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(binaries, "kube-apiserver")); err != nil {
		t.Skip("skipped: bin/controlplane/kube-apiserver is not built")
	}
	volcano := strings.TrimSpace(goTool(t, "list", "-m", "-f", "{{.Dir}}", "volcano.sh/volcano"))
	environment := testenv.New(binaries, filepath.Join(volcano, "config/crd/volcano/bases"))
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), schedulingv1beta1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: types})
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{admin: admin, binary: filepath.Join(t.TempDir(), "cardquota-scheduler")}
	c.kubeconfig = writeKubeconfig(t, config)
	goTool(t, "build", "-o", c.binary, ".")
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "volcano-system"}})
	c.apply(t, "config/rbac/scheduler_*.yaml")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	c.create(t, node)
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("100"),
	}
	node.Status.Capacity = node.Status.Allocatable
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := admin.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	// Without kubelet and controllers the node keeps the taint it was admitted with.
	node.Spec.Taints = nil
	if err := admin.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return c
}

func goTool(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func (c *testCluster) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// apply creates the objects of the shipped manifests that match.
func (c *testCluster) apply(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests %s: %v", pattern, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c.create(t, object)
		}
	}
}

// writeKubeconfig lets the administrator's certificate act as the ServiceAccount.
func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := clientcmdapi.NewConfig()
	content.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	content.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		Impersonate:       "system:serviceaccount:volcano-system:cardquota-scheduler",
		ImpersonateGroups: []string{"system:serviceaccounts", "system:serviceaccounts:volcano-system", "system:authenticated"},
	}
	content.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	content.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*content, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// holder names who holds the scheduler's lease, "" if nobody.
func (c *testCluster) holder(t *testing.T) string {
	t.Helper()
	var lease coordinationv1.Lease
	err := c.admin.Get(t.Context(), client.ObjectKey{Namespace: "volcano-system", Name: "volcano"}, &lease)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// usurp takes the lease for somebody else.
func (c *testCluster) usurp(t *testing.T, g *WithT) {
	t.Helper()
	g.Eventually(func(g Gomega) {
		var lease coordinationv1.Lease
		g.Expect(c.admin.Get(t.Context(), client.ObjectKey{Namespace: "volcano-system", Name: "volcano"}, &lease)).To(Succeed())
		usurper, now := "usurper", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &usurper, &now
		g.Expect(c.admin.Update(t.Context(), &lease)).To(Succeed())
	}, soon).Should(Succeed())
}
