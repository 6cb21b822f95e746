package security

import (
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
)

const (
	manager   = "cardquota-manager"
	scheduler = "cardquota-scheduler"
	// deployed is the account of Volcano's own Deployment, which keeps what Volcano gave it where
	// only the image in it was replaced.
	deployed = "volcano-scheduler"
	system   = "volcano-system"
)

// TestTheProgramsMayDoTheirWork: that these are enough is shown by every other end-to-end test,
// which all run under them; here is what would go unnoticed there for long.
func TestTheProgramsMayDoTheirWork(t *testing.T) {
	for account, rights := range map[string][]right{
		manager: {
			{"patch", "scheduling.volcano.sh", "queues", "", "", "any"},
			{"patch", "cardquota.dev", "cardquotas", "status", "", "any"},
			{"get", "", "configmaps", "", system, "volcano-scheduler-configmap"},
			{"patch", "", "configmaps", "", system, "volcano-scheduler-configmap"},
			{"delete", "", "configmaps", "", system, "volcano-scheduler-configmap-original"},
			{"update", "coordination.k8s.io", "leases", "", system, "cardquota-manager"},
			{"create", "authentication.k8s.io", "tokenreviews", "", "", ""},
		},
		scheduler: {
			{"create", "", "pods", "binding", tenant, "any"},
			{"patch", "", "pods", "status", tenant, "any"},
			{"update", "scheduling.volcano.sh", "queues", "", "", "root"},
			{"get", "", "configmaps", "", system, "volcano-scheduler-configmap"},
			{"update", "coordination.k8s.io", "leases", "", system, "volcano"},
			{"update", "coordination.k8s.io", "leases", "", system, "cardquota-scheduler"},
			{"create", "authorization.k8s.io", "subjectaccessreviews", "", "", ""},
		},
	} {
		holds(t, system, account, rights)
	}
}

// holds expects that an account may do all of it.
func holds(t *testing.T, namespace, account string, rights []right) {
	t.Helper()
	caller := newCaller(t, namespace, account)
	for _, r := range rights {
		expect(t).Eventually(func() bool { return caller.may(t, r) }).Should(BeTrue(), "%s may not %s", account, r)
	}
}

// lacks expects that an account may do nothing of it. The API server forgets within moments what
// an earlier test has granted.
func lacks(t *testing.T, namespace, account string, rights []right) {
	t.Helper()
	caller := newCaller(t, namespace, account)
	for _, r := range rights {
		expect(t).Eventually(func() bool { return caller.may(t, r) }).Should(BeFalse(), "%s may %s", account, r)
	}
}

// nobodys is what none of our accounts may do.
var nobodys = []right{
	{"get", "", "secrets", "", tenant, "any"},
	{"list", "", "secrets", "", tenant, ""},
	{"list", "", "secrets", "", system, ""},
	{"get", "", "secrets", "", system, "volcano-admission-secret"},
	{"create", "", "secrets", "", tenant, ""},
	{"create", "", "secrets", "", system, "another"},
	{"create", "", "configmaps", "", tenant, "another"},
	{"create", "", "configmaps", "", system, "another"},
	{"create", "", "pods", "exec", tenant, "any"},
	{"create", "", "pods", "attach", tenant, "any"},
	{"create", "", "pods", "portforward", tenant, "any"},
	{"update", "", "pods", "ephemeralcontainers", tenant, "any"},
	{"create", "", "pods", "", tenant, ""},
	{"update", "", "pods", "", tenant, "any"},
	{"create", "", "nodes", "", "", ""},
	{"update", "", "nodes", "", "", "any"},
	{"patch", "", "nodes", "", "", "any"},
	{"patch", "", "nodes", "status", "", "any"},
	{"get", "", "nodes", "proxy", "", "any"},
	{"create", "", "serviceaccounts", "token", system, "volcano-controllers"},
	{"create", "", "serviceaccounts", "", system, ""},
	{"impersonate", "", "users", "", "", "any"},
	{"impersonate", "", "serviceaccounts", "", system, "any"},
	{"escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", "any"},
	{"bind", "rbac.authorization.k8s.io", "clusterroles", "", "", "cluster-admin"},
	{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", ""},
	{"create", "rbac.authorization.k8s.io", "rolebindings", "", tenant, ""},
	{"patch", "rbac.authorization.k8s.io", "roles", "", system, "any"},
	{"create", "apps", "deployments", "", tenant, ""},
	{"patch", "apps", "deployments", "", system, "volcano-scheduler"},
	{"create", "batch.volcano.sh", "jobs", "", tenant, ""},
	{"delete", "batch.volcano.sh", "jobs", "", tenant, "any"},
	{"create", "apiextensions.k8s.io", "customresourcedefinitions", "", "", ""},
	{"patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "", "any"},
	{"delete", "", "namespaces", "", "", "any"},
	{"patch", "", "namespaces", "", "", "any"},
	{"get", "", "configmaps", "", tenant, "any"},
	{"get", "", "configmaps", "", system, "another"},
	{"patch", "", "configmaps", "", system, "another"},
	{"delete", "", "configmaps", "", system, "another"},
	{"list", "", "configmaps", "", system, ""},
	{"update", "coordination.k8s.io", "leases", "", "kube-system", "kube-scheduler"},
	{"update", "coordination.k8s.io", "leases", "", "kube-node-lease", "any"},
	{"patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", "another"},
	{"patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "", "another"},
	{"create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", ""},
	{"delete", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", "cardquota"},
	{"patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", "another"},
	{"patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", guardName},
	{"delete", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", guardName},
	{"delete", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "", guardName},
}

// anothers is what only the other one of them may do, or nobody who could do without.
var anothers = map[string][]right{
	manager: {
		{"create", "", "pods", "binding", tenant, "any"},
		{"delete", "", "pods", "", tenant, "any"},
		{"patch", "", "pods", "", tenant, "any"},
		{"create", "cardquota.dev", "cardquotas", "", "", ""},
		{"delete", "cardquota.dev", "cardquotas", "", "", "any"},
		{"update", "scheduling.volcano.sh", "queues", "status", "", "any"},
		{"patch", "scheduling.volcano.sh", "queues", "status", "", "any"},
		{"update", "coordination.k8s.io", "leases", "", system, "cardquota-scheduler"},
		{"update", "coordination.k8s.io", "leases", "", system, "volcano"},
	},
	scheduler: {
		{"patch", "", "configmaps", "", system, "volcano-scheduler-configmap"},
		{"patch", "cardquota.dev", "cardquotas", "", "", "any"},
		{"patch", "cardquota.dev", "servicetypepolicies", "", "", "default"},
		{"patch", "", "pods", "", tenant, "any"},
		{"delete", "scheduling.volcano.sh", "queues", "", "", "any"},
		{"update", "scheduling.volcano.sh", "queues", "", "", "any"},
		{"patch", "scheduling.volcano.sh", "queues", "", "", "any"},
		{"patch", "scheduling.volcano.sh", "queues", "status", "", "any"},
		{"patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", "cardquota"},
		{"patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", v1alpha1.ChargePolicyName},
		{"create", "scheduling.k8s.io", "priorityclasses", "", "", ""},
		{"get", "", "secrets", "", system, "cardquota-webhook-cert"},
		{"update", "coordination.k8s.io", "leases", "", system, "cardquota-manager"},
	},
}

// TestWhatIsTriedCanBeDone: a resource that does not exist is refused like any other.
func TestWhatIsTriedCanBeDone(t *testing.T) {
	config := suite.cluster.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	administrator := &caller{account: "administrator", config: config, client: client}
	for _, r := range slices.Concat(nobodys, anothers[manager], anothers[scheduler]) {
		switch r.verb {
		case "escalate", "bind", "impersonate":
		default:
			if !administrator.may(t, r) {
				t.Errorf("an administrator may not %s", r)
			}
		}
	}
}

// TestTheProgramsMayNothingElse: what a stolen token of either program must not open.
func TestTheProgramsMayNothingElse(t *testing.T) {
	for _, account := range []string{manager, scheduler} {
		lacks(t, system, account, append(slices.Clone(nobodys), anothers[account]...))
	}
}

// TestTheAccountOfVolcanosDeployment: with only the image replaced it has what it needs, and not
// more than docs/security.md says.
func TestTheAccountOfVolcanosDeployment(t *testing.T) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	temporarily(t, filepath.Join(root, "config", "overlays", "scheduler-image", "rolebinding.yaml"))
	holds(t, system, deployed, []right{
		{"create", "authentication.k8s.io", "tokenreviews", "", "", ""}, // without which --secure-metrics answers nobody
		{"create", "authorization.k8s.io", "subjectaccessreviews", "", "", ""},
		{"patch", "", "pods", "status", tenant, "any"},
		{"get", "", "configmaps", "", system, "volcano-scheduler-configmap"},
		{"update", "coordination.k8s.io", "leases", "", system, "cardquota-scheduler"},
	})
	volcanos := []right{
		{"update", "", "nodes", "", "", "any"},
		{"patch", "", "nodes", "", "", "any"},
		{"get", "", "configmaps", "", tenant, "any"},
		{"get", "", "configmaps", "", system, "another"},
		{"list", "", "configmaps", "", system, ""},
		{"delete", "", "configmaps", "", system, "another"},
		{"delete", "batch.volcano.sh", "jobs", "", tenant, "any"},
		{"create", "apiextensions.k8s.io", "customresourcedefinitions", "", "", ""},
		{"update", "coordination.k8s.io", "leases", "", "kube-system", "kube-scheduler"},
		{"update", "coordination.k8s.io", "leases", "", "kube-node-lease", "any"},
	}
	holds(t, system, deployed, volcanos)
	lacks(t, system, deployed, slices.DeleteFunc(slices.Clone(nobodys), func(r right) bool { return slices.Contains(volcanos, r) }))
}
