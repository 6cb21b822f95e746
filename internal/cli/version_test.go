package cli

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
			r := execute(t, tc.objects, tc.intercept, append([]string{"version"}, tc.args...)...)
			check.That(t, r.code == exitOK && r.errOut == "", "exit code %d, %s", r.code, r.errOut)
			compareGolden(t, "version-"+name, r.out)
			checkColumns(t, r.out)
		})
	}
}
