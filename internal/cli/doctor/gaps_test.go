package doctor

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWhatTheUserMayNotReadIsOneFinding: a user without a role lacks many rights, for one cause. So doctor joins the
// gaps that its reads report into one finding: by verb and place, and with the hint at a role once. Other gaps follow.
func TestWhatTheUserMayNotReadIsOneFinding(t *testing.T) {
	const (
		noNodes  = `user "tina" may not list nodes at the cluster scope`
		noPods   = `user "tina" may not list pods at the cluster scope`
		noLeases = `user "tina" may not get leases.coordination.k8s.io in the namespace "volcano-system"`
		noQuotas = `user "tina" may not list cardquotas.cardquota.dev at the cluster scope: a ClusterRoleBinding to cardquota-viewer grants it`
		noPolicy = `user "tina" may not get servicetypepolicies.cardquota.dev at the cluster scope: a ClusterRoleBinding to cardquota-viewer grants it`
	)

	for t, tc := range check.Cases(t, map[string]struct {
		gaps []string
		want string
	}{
		"nodes": {[]string{noNodes}, noNodes},
		"nodes and pods, and leases of one namespace": {[]string{noNodes, noLeases, noPods}, `user "tina" may not list nodes and pods at the cluster scope, ` +
			`and may not get leases.coordination.k8s.io in the namespace "volcano-system"`},
		"CardQuotas and the policy, which one role grants, and pods": {[]string{noQuotas, noPolicy, noPods}, `user "tina" may not list cardquotas.cardquota.dev and pods at the cluster scope, ` +
			`and may not get servicetypepolicies.cardquota.dev at the cluster scope. ` +
			`A ClusterRoleBinding to cardquota-viewer grants what is of cardquota.dev`},
		"pods, and a gap that is no right": {[]string{"The moon is full", noPods}, noPods + ". The moon is full"},
	}) {
		findings := findGaps(&Cluster{Gaps: tc.gaps})
		check.Must(t, len(findings) == 1, "%d findings", len(findings))
		check.Equal(t, "problem", "Not everything could be checked: "+tc.want+".", findings[0].Problem)
	}

	check.Equal(t, "findings without gaps", 0, len(findGaps(&Cluster{})))
}
