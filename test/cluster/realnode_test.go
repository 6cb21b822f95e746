package cluster_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/cluster"
)

// What a real node does is tested in test/realnode.

func TestBadRealNodesAreRefused(t *testing.T) {
	cases := map[string]struct {
		node      cluster.RealNode
		wantError string
	}{
		"a name that no node can have": {cluster.RealNode{Name: "Real_0"}, `name "Real_0"`},
		"no cards of a resource": {
			cluster.RealNode{Cards: map[corev1.ResourceName]int{"nvidia.com/gpu": 0}}, "real-0: 0 cards of nvidia.com/gpu",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Start(t.Context(), cluster.Options{RealNode: &tc.node})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.wantError)))
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
