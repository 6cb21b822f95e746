package cluster_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// test/realnode tests the real node.

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
