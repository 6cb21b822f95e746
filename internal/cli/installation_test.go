package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// operatorLease is the Lease of an operator that runs without a Deployment, as in the demo.
func operatorLease(age time.Duration, version string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("host_1"), RenewTime: &metav1.MicroTime{Time: kubectl.At.Add(-age)}}}
	lease.Namespace = "volcano-system"
	lease.Name = "cardquota-manager"
	if version != "" {
		lease.Labels = map[string]string{"app.kubernetes.io/version": version}
	}
	return lease
}

// TestTheOperatorIsFoundByItsLease: an operator may run without a Deployment, as in the demo. It has a Lease, by
// which version knows that it runs, and a label of the Lease may have its version. If nothing has renewed the Lease
// for an hour, the operator is gone, and doctor finds ProgramMissing.
func TestTheOperatorIsFoundByItsLease(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		lease       *coordinationv1.Lease
		wantVersion string
		wantMissing bool
	}{
		"renewed a second ago, with a version": {
			operatorLease(time.Second, "v0.2.0"), "cardquota-manager v0.2.0", false,
		},
		"renewed a second ago, without a version": {
			operatorLease(time.Second, ""), "cardquota-manager runs and holds its Lease, which does not state its version", false,
		},
		"renewed an hour ago": {
			operatorLease(time.Hour, "v0.2.0"), "nothing holds the Lease volcano-system/cardquota-manager", true,
		},
	}) {
		objects := append(kubectl.ClusterWithoutCardQuotas(), tc.lease, kubectl.PolicyWithScheduler("v0.2.0"))
		execute(t, objects, kubectl.MayReadAll, "version").Prints(tc.wantVersion)

		doctor := execute(t, objects, kubectl.MayReadAll, "doctor").Out
		check.Equal(t, "is missing for doctor", tc.wantMissing, strings.Contains(doctor, "volcano-system/cardquota-manager  ProgramMissing"))
	}
}

// TestAHiddenLeaseSaysNothing: the operator runs and has its Lease, but the user may not read the Lease. Then
// version does not claim that the operator is not installed, and doctor not that it is missing. Both name the missing
// right.
func TestAHiddenLeaseSaysNothing(t *testing.T) {
	noLease := kubectl.ForbidGet[*coordinationv1.Lease](kubectl.Leases, "cardquota-manager")
	objects := append(kubectl.ClusterWithoutCardQuotas(), operatorLease(time.Second, "v0.2.0"), kubectl.PolicyWithScheduler("v0.2.0"))
	execute(t, objects, noLease, "version").
		Prints("cardquota-manager unknown", "may not get leases.coordination.k8s.io").
		Lacks("not installed")
	execute(t, objects, noLease, "doctor").
		Prints("may not get leases.coordination.k8s.io").
		Lacks("cardquota-manager  ProgramMissing")
}

// TestDoctorAssumesThatTheFileIsApplied: queue research has no CardQuota, and its pods use 4 H200. A file has what
// import prints for it, with a quota of 2 instead of 4. With -f doctor finds what would be wrong after kubectl apply:
// 4 of a quota of 2 are used, and the pod that waits for 8 never gets them. Only without the file doctor reports that
// the queue has no quota.
func TestDoctorAssumesThatTheFileIsApplied(t *testing.T) {
	imported := execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "import").Out
	path := kubectl.WriteFile(t, "quotas.yaml", strings.ReplaceAll(imported, "quota: 4", "quota: 2"))

	execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "doctor").Prints("queue/research  QueueWithoutQuota")
	execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "doctor -f "+path).
		Prints("cardquota/research  QuotaExceeded", "hold 4 NVIDIA-H200 of a quota of 2", "queue/research  NeverPlaced").
		Lacks("QueueWithoutQuota")
}

// TestDeploymentsOfOtherNamespacesAreNotMissing: the operator runs in namespace cards. A user who may list
// Deployments of single namespaces only sees none in volcano-system, where it is by default. So the commands name the
// missing right, and do not claim that the operator is not installed. With --system-namespace cards they find it.
func TestDeploymentsOfOtherNamespacesAreNotMissing(t *testing.T) {
	noListOfAll := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*appsv1.DeploymentList); ok && (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
			return kubectl.Forbidden("list", schema.GroupResource{Group: "apps", Resource: "deployments"})
		}
		return c.List(ctx, list, options...)
	}}
	inCards := kubectl.Deployment("cardquota-manager", "m:v0.2.0")
	inCards.Namespace = "cards"
	objects := append(kubectl.ClusterWithoutCardQuotas(), inCards)

	for _, command := range []string{"doctor", "version"} {
		execute(t, objects, noListOfAll, command).
			Prints(`may not list deployments.apps`).
			Lacks("ProgramMissing", "is not installed")
	}

	execute(t, objects, noListOfAll, "doctor --system-namespace cards").Lacks("deployment/cards/cardquota-manager  ProgramMissing")
	execute(t, objects, noListOfAll, "version --system-namespace cards").Prints("cardquota-manager v0.2.0")
}
