package cluster_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// What a real node does is tested in test/realnode.

func TestBadRealNodesAreRefused(t *testing.T) {
	for name, node := range map[string]*cluster.RealNode{
		`name "Real_0"`:                     {Name: "Real_0"},
		"real-0: 0 cards of nvidia.com/gpu": {Cards: map[corev1.ResourceName]int{"nvidia.com/gpu": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Start(t.Context(), cluster.Options{RealNode: node})
			check.Says(t, err, name)
		})
	}
}

func TestAMachineWithoutTheToolsSaysWhatIsMissing(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CNI_BIN_DIR", "/no-such-folder")
	_, err := cluster.Start(t.Context(), cluster.Options{RealNode: &cluster.RealNode{}})
	g.Expect(err).To(MatchError(cluster.ErrNoRealNode))
	for _, missing := range []string{"buildah", "containerd", "ctr", "runc", "iptables-save", "ip", "/no-such-folder/ptp", "hack/install-node-tools.sh"} {
		g.Expect(err).To(MatchError(ContainSubstring(missing)))
	}
}
