package diagnosis

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWhatTheUserMayNotReadIsOneFinding: thirteen missing rights are one cause.
func TestWhatTheUserMayNotReadIsOneFinding(t *testing.T) {
	for want, gaps := range map[string][]string{
		`user "tina" may not list nodes at the cluster scope`: {`user "tina" may not list nodes at the cluster scope`},
		`user "tina" may not list nodes and pods at the cluster scope, and may not get leases.coordination.k8s.io in the namespace "volcano-system"`: {
			`user "tina" may not list nodes at the cluster scope`, `user "tina" may not get leases.coordination.k8s.io in the namespace "volcano-system"`,
			`user "tina" may not list pods at the cluster scope`,
		},
		`user "tina" may not list cardquotas.cardquota.dev and pods at the cluster scope. A ClusterRoleBinding to cardquota-viewer grants what is of cardquota.dev`: {
			`user "tina" may not list cardquotas.cardquota.dev at the cluster scope: a ClusterRoleBinding to cardquota-viewer grants it`,
			`user "tina" may not list pods at the cluster scope`,
		},
		`user "tina" may not list pods at the cluster scope. The moon is full`: {`The moon is full`, `user "tina" may not list pods at the cluster scope`},
	} {
		c := &Cluster{Gaps: gaps}
		findings := c.findGaps()
		check.Must(t, len(findings) == 1, "%d findings", len(findings))
		check.Equal(t, "problem", "Not everything could be checked: "+want+".", findings[0].Problem)
	}

	check.Equal(t, "without gaps", 0, len((&Cluster{}).findGaps()))
}
