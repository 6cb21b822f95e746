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

// TestOperatorLeadsWhileItsLeaseIsRenewed: kubectl cardquota finds out from the Lease of the operator's
// leader election whether an operator leads. An operator leads while the Lease has a holder and was renewed
// less than a minute ago. A renewal less than a minute ahead counts, too, since clocks differ.
func TestOperatorLeadsWhileItsLeaseIsRenewed(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), RenewTime: &metav1.MicroTime{Time: now.Add(-age)}}}
	}

	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		"renewed 59 seconds ago":                     {lease("host_1", 59*time.Second), true},
		"renewed a minute ago":                       {lease("host_1", time.Minute), false},
		"renewed 59 seconds ahead, by another clock": {lease("host_1", -59*time.Second), true},
		"renewed a minute ahead":                     {lease("host_1", -time.Minute), false},
		"released, so without a holder":              {lease("", 2*time.Second), false},
		"without a holder and a time":                {&coordinationv1.Lease{}, false},
	} {
		_, leads := ReadOperatorLease(tc.lease, now)
		check.Equal(t, "leads, with a Lease "+name, tc.want, leads)
	}
}

// TestALabelOfTheLeaseHasTheVersionOfTheOperator: kubectl cardquota reads the version of an operator that
// leads from a label of its Lease. A label value has no plus sign, so it becomes an underscore. A version
// that no label can have is not written.
func TestALabelOfTheLeaseHasTheVersionOfTheOperator(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	for written, want := range map[string]string{
		"v0.2.0":              "v0.2.0",
		"v0.2.0-4-gabc-dirty": "v0.2.0-4-gabc-dirty",
		"v0.2.0+local":        "v0.2.0_local",
		"no version":          "", // a space is in no label
	} {
		build.Version = written
		version, _ := ReadOperatorLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Labels: OperatorLeaseLabels()},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("host_1"), RenewTime: &metav1.MicroTime{Time: noon}},
		}, noon)

		check.Equal(t, "version of "+written, want, version)
	}
}
