package enforcement

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheOperatorIsKnownByItsLease: an operator leads while the Lease is held and renewed.
func TestTheOperatorIsKnownByItsLease(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: OperatorLeaseLabels()},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), RenewTime: &metav1.MicroTime{Time: now.Add(-age)}}}
	}

	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		"renewed":         {lease("host_1", 2*time.Second), true},
		"another clock":   {lease("host_1", -20*time.Second), true},
		"not renewed":     {lease("host_1", 5*time.Minute), false},
		"released":        {lease("", 2*time.Second), false},
		"nothing written": {&coordinationv1.Lease{}, false},
	} {
		_, leads := ReadOperatorLease(tc.lease, now)
		check.Equal(t, name, tc.want, leads)
	}

	defer func(version string) { build.Version = version }(build.Version)
	for written, want := range map[string]string{"v0.2.0": "v0.2.0", "v0.2.0-4-gabc-dirty": "v0.2.0-4-gabc-dirty", "v0.2.0+local": "v0.2.0_local", "no version": ""} {
		build.Version = written
		version, _ := ReadOperatorLease(lease("host_1", 0), now)
		check.Equal(t, written, want, version)
	}
}
