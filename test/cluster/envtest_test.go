package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/testenv"
)

// TestBinariesServeEnvtest: the folder is good as KUBEBUILDER_ASSETS.
func TestBinariesServeEnvtest(t *testing.T) {
	g := NewWithT(t)
	root, err := cluster.ModuleRoot()
	g.Expect(err).NotTo(HaveOccurred())
	assets := filepath.Join(root, "bin", "controlplane")
	if _, err := os.Stat(filepath.Join(assets, "volcano", "crds")); err != nil {
		t.Skipf("%s is skipped: %v", t.Name(), cluster.ErrNotBuilt)
	}
	environment := testenv.New(assets, filepath.Join(assets, "volcano", "crds"))
	config, err := environment.Start()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	resources, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerResourcesForGroupVersion("scheduling.volcano.sh/v1beta1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(resources.APIResources).To(ContainElement(HaveField("Kind", "Queue")))
}
