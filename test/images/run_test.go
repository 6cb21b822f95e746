package images

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// TestTheImagesRunRestricted: each image runs in a container of a real node, in a namespace that enforces
// Kubernetes' Pod Security Standard restricted. The root file system is read-only, and only the ServiceAccount
// is mounted. The log of each has its version: the manager logs it first, and the scheduler is asked for it by
// --version. Their ServiceAccount has no rights here, so the test expects no more than that.
func TestTheImagesRunRestricted(t *testing.T) {
	dir := imagesDir(t)
	g := NewWithT(check.Trail(t))

	c, err := cluster.Start(t.Context(), cluster.Options{
		WithoutVolcano: true, WithoutKwok: true, WithKubeScheduler: true, RealNode: &cluster.RealNode{},
	})
	if errors.Is(err, cluster.ErrNoRealNode) || errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}

	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		check.NoError(t, c.Stop())
	})

	g.Expect(c.Apply(t.Context(), []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}
`))).To(Succeed())

	g.Eventually(func() error {
		_, err := c.Client().CoreV1().ServiceAccounts("restricted").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	}, "60s", "100ms").Should(Succeed())

	arguments := map[string]string{"cardquota-manager": "[]", "cardquota-scheduler": `["--version"]`}
	for name := range programs {
		g.Expect(c.ImportImage(t.Context(), filepath.Join(dir, name+".tar"))).To(Succeed())
		g.Expect(c.Apply(t.Context(), fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: restricted}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: registry.test/%[1]s:%[2]s
    imagePullPolicy: Never
    args: %[3]s
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, name, version, arguments[name]))).To(Succeed())
	}

	for name := range programs {
		g.Eventually(func() (string, error) {
			return c.Kubectl(t.Context(), "logs", "--namespace=restricted", name)
		}, "90s", "200ms").Should(ContainSubstring(version), name)
	}
}
