// Package security tries the threats of docs/security.md: the two programs beyond their rights,
// and a tenant with edit rights in its own namespace against the quotas of the cluster.
// docs/security.md names the test of each threat.
package security

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
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

func TestMain(m *testing.M) { check.Main(m, "security", setUp) }

func setUp(s *check.SetUp) {
	ctx := context.Background()
	suite.cluster = check.Value(cluster.Start(ctx, cluster.Options{Fleet: "testdata/fleet.yaml"}))(s)
	s.Cleanup(suite.cluster.Stop)
	suite.admin = check.Value(framework.New(suite.cluster.Config()))(s)
	for _, address := range []*string{&suite.managerMetrics, &suite.schedulerMetrics} {
		*address = check.Value(cluster.FreeAddress())(s)
	}

	webhooks := check.Value(cluster.FreePort())(s)
	check.NoError(s, framework.RegisterWebhooks(ctx, suite.cluster, webhooks))

	programs := deployment.Options{
		SchedulePeriod: 500 * time.Millisecond,
		ManagerArgs: []string{
			"--metrics-bind-address=" + suite.managerMetrics, "--secure-metrics",
			"--webhook-certificates=Self", fmt.Sprintf("--webhook-port=%d", webhooks),
		},
		SchedulerArgs: []string{"--listen-address=" + suite.schedulerMetrics, "--secure-metrics=true"},
	}

	suite.deployment = check.Value(deployment.Start(ctx, suite.cluster, programs))(s)
	createNamespaces(ctx, s)
	check.NoError(s, suite.admin.Create(ctx, &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}))
}

// createNamespaces creates the namespaces and grants tess the maximum for tenants: the stock
// role edit in hers, and all namespaced objects of Volcano.
func createNamespaces(ctx context.Context, t check.T) {
	for _, name := range []string{tenant, neighbour} {
		check.NoError(t, suite.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}

	check.NoError(t, suite.cluster.Apply(ctx, []byte(fmt.Sprintf(`
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
`, tenant, tess))))
}
