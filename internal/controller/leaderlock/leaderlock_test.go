package leaderlock

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/check"
)

// TestALeaseWithoutLabelsGetsThemFromTheNextLeader: a label of the Lease says which version of the operator leads. An
// earlier version wrote none, and client-go panics on a Lease without a map of labels. The next leader reads such a
// Lease, and adds its labels.
func TestALeaseWithoutLabelsGetsThemFromTheNextLeader(t *testing.T) {
	const namespace = "volcano-system"
	client := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: enforcement.OperatorLeaseName}})
	lock := check.Value(New(&rest.Config{}, namespace))(t)
	lock.Client = leasesWithLabels{client.CoordinationV1()}

	_, _, err := lock.Get(t.Context())
	check.NoError(t, err)
	check.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "new"}))

	lease := check.Value(client.CoordinationV1().Leases(namespace).Get(t.Context(), enforcement.OperatorLeaseName, metav1.GetOptions{}))(t)
	check.Equal(t, "labels", enforcement.OperatorLeaseLabels(), lease.Labels)
}
