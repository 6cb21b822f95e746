package olm

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/test/cluster"
)

// olmNamespace is the namespace of OLM and its catalogs.
const olmNamespace = "olm"

// startOLM installs OLM's CRDs and runs its two operators as cluster administrators, as OLM's
// installer does.
func startOLM(ctx context.Context, c *cluster.Cluster, t tools) error {
	files, err := filepath.Glob(filepath.Join(t.crds, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs of OLM in %s (%w)", t.crds, err)
	}

	for _, file := range files {
		if err := c.ApplyFile(ctx, file); err != nil {
			return err
		}
	}

	// The operators exit when their kinds do not exist.
	if _, err := c.Kubectl(ctx, "wait", "crd", "--all", "--for=condition=Established", "--timeout=30s"); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: olmNamespace}}
	if _, err := c.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}

	// Wait for the default objects of namespaces before any snapshot.
	if _, err := c.Kubectl(ctx, "-n", olmNamespace, "wait", "configmap/kube-root-ca.crt", "serviceaccount/default", "--for=create", "--timeout=1m"); err != nil {
		return err
	}

	for _, process := range []cluster.ProcessSpec{
		{
			Name: "olm-operator", Path: t.olm,
			Args: []string{"--namespace=" + olmNamespace, "--writeStatusName=", "--writePackageServerStatusName="},
			Env:  []string{"OPERATOR_NAMESPACE=" + olmNamespace, "OPERATOR_NAME=olm-operator", "KUBECONFIG=" + c.Kubeconfig()},
		},
		{
			Name: "catalog-operator", Path: t.catalog,
			Args: []string{"--namespace=" + olmNamespace, "--kubeconfig=" + c.Kubeconfig()},
		},
	} {
		if _, err := c.StartProcess(ctx, process); err != nil {
			return err
		}
	}

	return nil
}
