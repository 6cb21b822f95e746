package cli

import (
	"context"
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

func policyOf(version string) *v1alpha1.ServiceTypePolicy {
	return builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) {
		p.Status.Scheduler = &v1alpha1.SchedulerStatus{Identity: "scheduler-0_a", Version: version}
	}).Obj()
}

func TestVersion(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	build.Version = "v0.2.1"

	fits := []client.Object{deployment("cardquota-manager", "registry:5000/cardquota-manager:v0.2.0"), policyOf("v0.2.0")}
	differs := []client.Object{deployment("cardquota-manager", "cardquota-manager:v0.3.0"), policyOf("v0.1.0")}
	digest := []client.Object{deployment("cardquota-manager", "cardquota-manager@sha256:0123")}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		args      []string
	}{
		"fits":    {fits, interceptor.Funcs{}, nil},
		"json":    {fits, interceptor.Funcs{}, []string{"-o", "json"}},
		"differs": {differs, interceptor.Funcs{}, nil},
		"unknown": {digest, interceptor.Funcs{}, nil},
		"tenant":  {fits, forbid(deployments, &appsv1.DeploymentList{}), nil},
		"lab":     {nil, forbidCluster("lab"), nil},
		"client":  {nil, interceptor.Funcs{}, []string{"--client"}},
		"nothing": {nil, interceptor.Funcs{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, append([]string{"version"}, tc.args...)...).exits(exitOK).silently().matchesGolden("version-" + name).fits()
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

// TestTheOperatorIsFoundByItsLease: it may run without a Deployment.
func TestTheOperatorIsFoundByItsLease(t *testing.T) {
	for name, tc := range map[string]struct {
		lease         *coordinationv1.Lease
		version       string
		isFoundMissed bool
	}{
		"with its version":    {operatorLease(time.Second, "v0.2.0"), "cardquota-manager v0.2.0", false},
		"without its version": {operatorLease(time.Second, ""), "cardquota-manager runs and holds its Lease, which does not state its version", false},
		"gone":                {operatorLease(time.Hour, "v0.2.0"), "nothing holds the Lease volcano-system/cardquota-manager", true},
	} {
		objects := append(usedCluster(), tc.lease, policyOf("v0.2.0"))
		r := execute(t, objects, interceptor.Funcs{}, "version")
		check.Contains(t, name, strings.Join(strings.Fields(r.out), " "), tc.version)

		r = execute(t, objects, interceptor.Funcs{}, "doctor")
		check.That(t, strings.Contains(r.out, "volcano-system/cardquota-manager  ProgramMissing") == tc.isFoundMissed, "%s: %s", name, r.out)
	}
}

// TestAHiddenLeaseSaysNothing: a user who may list Deployments may not read the Lease of the operator.
func TestAHiddenLeaseSaysNothing(t *testing.T) {
	mayNotGet := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, isLease := object.(*coordinationv1.Lease); isLease && key.Name == "cardquota-manager" {
			return forbidden("get", schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"})
		}
		return c.Get(ctx, key, object, options...)
	}}

	objects := append(usedCluster(), operatorLease(time.Second, "v0.2.0"), policyOf("v0.2.0"))
	r := execute(t, objects, mayNotGet, "version")
	check.Text(t, "version", strings.Join(strings.Fields(r.out), " ")).
		Has("cardquota-manager unknown", "may not get leases.coordination.k8s.io").
		Lacks("not installed") // that is not known

	execute(t, objects, mayNotGet, "doctor").prints("may not get leases.coordination.k8s.io").lacks("cardquota-manager  ProgramMissing")
}
