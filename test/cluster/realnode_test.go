package cluster_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// TestAMachineWithoutTheToolsSaysWhatIsMissing: a cluster with a real node needs containerd, buildah and other
// tools. Without them Start returns ErrNoRealNode, which tests take as a reason to skip. The error names every
// missing tool, and the script that installs them. The folder test/realnode tests the real node itself.
func TestAMachineWithoutTheToolsSaysWhatIsMissing(t *testing.T) {
	g := NewWithT(check.Trail(t))
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CNI_BIN_DIR", "/no-such-folder")
	_, err := cluster.Start(t.Context(), cluster.Options{RealNode: &cluster.RealNode{}})
	g.Expect(err).To(MatchError(cluster.ErrNoRealNode))
	for _, missing := range []string{"buildah", "containerd", "ctr", "runc", "iptables-save", "ip", "/no-such-folder/ptp", "hack/install-node-tools.sh"} {
		g.Expect(err).To(MatchError(ContainSubstring(missing)))
	}
}
