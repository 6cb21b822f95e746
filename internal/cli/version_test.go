package cli

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// deployment is a Deployment of one of the programs, with all replicas ready.
func deployment(program, image string) *appsv1.Deployment {
	replicas := int32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: program, Labels: map[string]string{"app.kubernetes.io/name": program}},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}},
		Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
	}
}

func policyWithScheduler(version string) *v1alpha1.ServiceTypePolicy {
	return builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) {
		p.Status.Scheduler = &v1alpha1.SchedulerStatus{Identity: "scheduler-0_a", Version: version}
	}).Obj()
}

// TestVersionShowsWhichProgramsFit: kubectl cardquota v0.2.1 shows three versions: its own, that of the operator and that of
// the scheduler. It reads the second from the image of the Deployment, and the third from the status of the policy. Another
// minor version does not fit. The golden files have the whole output, also for users who may read less, and for a cluster
// without the programs.
func TestVersionShowsWhichProgramsFit(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	build.Version = "v0.2.1"

	fits := []client.Object{deployment("cardquota-manager", "registry:5000/cardquota-manager:v0.2.0"), policyWithScheduler("v0.2.0")}
	differs := []client.Object{deployment("cardquota-manager", "cardquota-manager:v0.3.0"), policyWithScheduler("v0.1.0")}
	digest := []client.Object{deployment("cardquota-manager", "cardquota-manager@sha256:0123")}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
	}{
		"fits":    {fits, mayReadAll, "version"},
		"json":    {fits, mayReadAll, "version -o json"},
		"differs": {differs, mayReadAll, "version"},
		"unknown": {digest, mayReadAll, "version"}, // an image with a digest states no version
		"tenant":  {fits, forbid(deployments, &appsv1.DeploymentList{}), "version"},
		"lab":     {nil, forbidCluster("lab"), "version"}, // a user of namespace lab alone
		"client":  {nil, mayReadAll, "version --client"},
		"nothing": {nil, mayReadAll, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, tc.command).exits(exitOK).reportsNothing().matchesGolden("version-" + name).fitsTerminal()
		})
	}
}

// operatorLease is the Lease of an operator that runs without a Deployment, as in the demo.
func operatorLease(age time.Duration, version string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("host_1"), RenewTime: &metav1.MicroTime{Time: at.Add(-age)}}}
	lease.Namespace = "volcano-system"
	lease.Name = "cardquota-manager"
	if version != "" {
		lease.Labels = map[string]string{"app.kubernetes.io/version": version}
	}
	return lease
}

// TestTheOperatorIsFoundByItsLease: an operator may run without a Deployment, as in the demo. It holds a Lease, by which version
// knows that it runs, and a label of the Lease may have its version. Nothing has renewed the Lease for an hour: the
// operator is gone, and doctor finds ProgramMissing.
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
		objects := append(clusterWithoutCardQuotas(), tc.lease, policyWithScheduler("v0.2.0"))
		execute(t, objects, mayReadAll, "version").prints(tc.wantVersion)

		doctor := execute(t, objects, mayReadAll, "doctor").out
		check.Equal(t, "is missing for doctor", tc.wantMissing, strings.Contains(doctor, "volcano-system/cardquota-manager  ProgramMissing"))
	}
}

// TestAHiddenLeaseSaysNothing: the operator runs and holds its Lease, but the user may not read the Lease. Then version does not
// claim that the operator is not installed, and doctor not that it is missing. Both name the missing right.
func TestAHiddenLeaseSaysNothing(t *testing.T) {
	noLease := forbidGet[*coordinationv1.Lease](leases, "cardquota-manager")
	objects := append(clusterWithoutCardQuotas(), operatorLease(time.Second, "v0.2.0"), policyWithScheduler("v0.2.0"))
	execute(t, objects, noLease, "version").
		prints("cardquota-manager unknown", "may not get leases.coordination.k8s.io").
		lacks("not installed")
	execute(t, objects, noLease, "doctor").
		prints("may not get leases.coordination.k8s.io").
		lacks("cardquota-manager  ProgramMissing")
}
