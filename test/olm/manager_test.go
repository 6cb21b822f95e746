package olm

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// olmNamespace is the namespace of OLM and its catalogs.
const olmNamespace = "olm"

// startOLM installs OLM's CRDs and runs its two operators as cluster administrators, as OLM's
// installer does.
func startOLM(ctx context.Context, t check.T, c *cluster.Cluster, programs tools) {
	files := check.Value(filepath.Glob(filepath.Join(programs.crds, "*.yaml")))(t)
	check.Must(t, len(files) > 0, "no CRDs of OLM in %s", programs.crds)
	for _, file := range files {
		check.NoError(t, c.ApplyFile(ctx, file))
	}

	// The operators exit when their kinds do not exist.
	check.Value(c.Kubectl(ctx, "wait", "crd", "--all", "--for=condition=Established", "--timeout=30s"))(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: olmNamespace}}
	check.Value(c.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}))(t)

	// Wait for the default objects of namespaces before any snapshot.
	check.Value(c.Kubectl(ctx, "-n", olmNamespace, "wait", "configmap/kube-root-ca.crt", "serviceaccount/default", "--for=create", "--timeout=1m"))(t)

	for _, process := range []cluster.ProcessSpec{
		{
			Name: "olm-operator", Path: programs.olm,
			Args: []string{"--namespace=" + olmNamespace, "--writeStatusName=", "--writePackageServerStatusName="},
			Env:  []string{"OPERATOR_NAMESPACE=" + olmNamespace, "OPERATOR_NAME=olm-operator", "KUBECONFIG=" + c.Kubeconfig()},
		},
		{
			Name: "catalog-operator", Path: programs.catalog,
			Args: []string{"--namespace=" + olmNamespace, "--kubeconfig=" + c.Kubeconfig()},
		},
	} {
		check.Value(c.StartProcess(ctx, process))(t)
	}
}
