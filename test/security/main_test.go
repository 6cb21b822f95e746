// Package security tries the threats of docs/security.md: the two programs beyond their rights,
// and a tenant with edit rights in its own namespace against the quotas of the cluster.
// docs/security.md names the test of each threat.
package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
)

// tenant is the namespace of a user with role edit there, and no rights elsewhere; neighbour is
// another tenant's namespace.
const (
	tenant    = "tenant"
	neighbour = "neighbour"
	tess      = "tess"
)

// suite is the cluster with both programs as shipped.
var suite struct {
	cluster    *cluster.Cluster
	deployment *deployment.Deployment
	admin      framework.Framework
	// managerMetrics and schedulerMetrics are the URLs of their metrics.
	managerMetrics, schedulerMetrics string
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	code := 1
	err := setUp(context.Background())
	if err == nil {
		code = m.Run()
	}

	if suite.cluster != nil {
		err = errors.Join(err, suite.cluster.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "security:", err)
		return 1
	}

	return code
}

func setUp(ctx context.Context) error {
	var err error
	suite.cluster, err = cluster.Start(ctx, cluster.Options{Fleet: "testdata/fleet.yaml"})
	if err != nil {
		return err
	}

	suite.admin, err = framework.New(suite.cluster.Config())
	if err != nil {
		return err
	}

	for _, address := range []*string{&suite.managerMetrics, &suite.schedulerMetrics} {
		port, err := cluster.FreePort()
		if err != nil {
			return err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}

	webhooks, err := cluster.FreePort()
	if err != nil {
		return err
	}
	if err := framework.RegisterWebhooks(ctx, suite.cluster, webhooks); err != nil {
		return err
	}

	programs := deployment.Options{
		SchedulePeriod: 500 * time.Millisecond,
		ManagerArgs: []string{
			"--metrics-bind-address=" + suite.managerMetrics, "--secure-metrics",
			"--webhook-certificates=Self", fmt.Sprintf("--webhook-port=%d", webhooks),
		},
		SchedulerArgs: []string{"--listen-address=" + suite.schedulerMetrics, "--secure-metrics=true"},
	}

	suite.deployment, err = deployment.Start(ctx, suite.cluster, programs)
	if err != nil {
		return err
	}
	if err := createNamespaces(ctx); err != nil {
		return err
	}

	return suite.admin.Create(ctx, &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}})
}

// createNamespaces creates the namespaces and grants tess the maximum for tenants: the stock
// role edit in hers, and all namespaced objects of Volcano.
func createNamespaces(ctx context.Context) error {
	for _, name := range []string{tenant, neighbour} {
		if err := suite.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}

	return suite.cluster.Apply(ctx, []byte(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: volcano, namespace: %[1]s}
rules:
- {apiGroups: [batch.volcano.sh, bus.volcano.sh], resources: ["*"], verbs: ["*"]}
- {apiGroups: [scheduling.volcano.sh], resources: [podgroups, podgroups/status], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: volcano, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: volcano}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
`, tenant, tess)))
}
