package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/diagnosis"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func TestDoctor(t *testing.T) {
	adopted := append(usedCluster(), deployment("cardquota-manager", "m:v0.2.0"), deployment("cardquota-scheduler", "s:v0.2.0"), policyOf("v0.2.0"),
		builder.Pod("volcano-system", "volcano-scheduler-0").Label("app", "volcano-scheduler").Running("h200-0").Obj())

	nodes := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		args      []string
		code      int
	}{
		"before":  {usedCluster(), notInstalled(&v1alpha1.CardQuotaList{}), nil, diagnosis.ExitWarnings},
		"adopted": {adopted, interceptor.Funcs{}, nil, diagnosis.ExitErrors},
		"json":    {usedCluster(), notInstalled(&v1alpha1.CardQuotaList{}), []string{"-o", "json"}, diagnosis.ExitWarnings},
		"tenant":  {adopted, forbid(nodes, &corev1.NodeList{}), nil, diagnosis.ExitErrors},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, append([]string{"doctor"}, tc.args...)...).exits(tc.code).silently().matchesGolden("doctor-" + name)
		})
	}
}

func TestDoctorAssumesTheFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}

	imported := execute(t, usedCluster(), interceptor.Funcs{}, "import")
	path := write("quotas.yaml", strings.ReplaceAll(imported.out, "quota: 4", "quota: 2"))
	before := execute(t, usedCluster(), interceptor.Funcs{}, "doctor")
	check.Contains(t, "without the file", before.out, "queue/research  QueueWithoutQuota")

	after := execute(t, usedCluster(), interceptor.Funcs{}, "doctor", "-f", path)
	check.That(t, !strings.Contains(after.out, "QueueWithoutQuota"), "with the file:\n%s", after.out)
	check.Contains(t, "with the file", after.out, "cardquota/research  QuotaExceeded", "hold 4 NVIDIA-H200 of a quota of 2", "queue/research  NeverPlaced")

	path = write("selecting.yaml", `
apiVersion: cardquota.dev/v1alpha1
kind: CardQuota
metadata: {name: research}
spec: {tenant: lab, serviceType: training, namespaceSelector: {matchLabels: {team: ads}}, cards: [{name: NVIDIA-H200, quota: 8}]}
---
apiVersion: cardquota.dev/v1alpha1
kind: CardQuota
metadata: {name: above}
spec: {tenant: lab, cards: [{name: NVIDIA-H200, quota: 8}]}
`)

	for name, intercept := range map[string]interceptor.Funcs{"before the installation": notInstalled(&v1alpha1.CardQuotaList{}), "after it": {}} {
		r := execute(t, append(usedCluster(), builder.Namespace("lab")), intercept, "doctor", "-f", path)
		check.Contains(t, name, strings.Join(strings.Fields(r.out), " "), "cardquota/above PlannedRefused The operator would refuse it: spec.serviceType", "Correct it in "+path+".",
			"3 pods would not be placed again: lab/train-0, lab/train-1, lab/waits. Namespace <lab> may not use queue <research>")
	}

	for name, tc := range map[string]struct{ path, want string }{
		"a missing file":    {filepath.Join(folder, "none.yaml"), "does not exist"},
		"no CardQuota":      {write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), "have no CardQuota"},
		"an unknown field":  {write("field.yaml", "apiVersion: cardquota.dev/v1alpha1\nkind: CardQuota\nmetadata: {name: q}\nspec: {cohort: a}\n"), `unknown field "spec.cohort"`},
		"no YAML":           {write("text.yaml", "a: b: c"), "read --filename"},
		"an empty document": {write("empty.yaml", ""), "have no CardQuota"},
	} {
		r := execute(t, usedCluster(), interceptor.Funcs{}, "doctor", "-f", tc.path).exits(exitError)
		check.Contains(t, name, strings.Join(strings.Fields(r.errOut), " "), tc.want)
	}
}

// Where only the image of Volcano's Deployment was replaced, all its replicas are ours.
func TestReplicasOfOurSchedulerAreNotVolcanos(t *testing.T) {
	lease := enforcement.Report{Identity: "volcano-scheduler-abc-1_x", Version: "v0.2.0", ConfigHash: "abc", At: at}.Lease("volcano-system")
	replica := func(name, owner string) client.Object {
		return builder.Pod("volcano-system", name).Label("app", "volcano-scheduler").Owner("apps/v1", "ReplicaSet", owner).Running("h200-0").Obj()
	}

	ours := append(usedCluster(), deployment("cardquota-manager", "m:v0.2.0"), policyOf("v0.2.0"), lease,
		replica("volcano-scheduler-abc-1", "volcano-scheduler-abc"), replica("volcano-scheduler-abc-2", "volcano-scheduler-abc"))

	execute(t, ours, interceptor.Funcs{}, "doctor").lacks("OtherScheduler")
	execute(t, append(ours, replica("volcano-scheduler-old-1", "volcano-scheduler-old")), interceptor.Funcs{}, "doctor").
		prints("pod/volcano-system/volcano-scheduler-old-1  OtherScheduler")

	noLease := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, isLease := object.(*coordinationv1.Lease); isLease {
			return forbidden("get", schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"})
		}
		return c.Get(ctx, key, object, options...)
	}}

	execute(t, ours, noLease, "doctor").prints("may not get\n  leases.coordination.k8s.io").lacks("OtherScheduler")
}

// OLM gives each webhook a configuration of its own, with a name that it makes.
func TestDoctorFindsTheWebhooksOfOLM(t *testing.T) {
	labels := map[string]string{"olm.owner": "cardquota.v0.2.0"}
	others := map[string]string{"olm.owner": "cardquotas-of-others.v1.0.0"}
	objects := append(usedCluster(), deployment("cardquota-manager", "m:v0.2.0"),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cardquotas.cardquota.dev-x7k2p", Labels: labels}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "others", Labels: others},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "others.example"}}})
	execute(t, objects, interceptor.Funcs{}, "doctor").
		prints("mutatingwebhookconfiguration/cardquota  WebhookMissing").
		lacks("validatingwebhookconfiguration/cardquota", "others.example")
}

func TestDoctorNamesWhatItMayNotRead(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	execute(t, usedCluster(), forbid(deployments, &appsv1.DeploymentList{}), "doctor").
		prints("NotChecked", `user "tina" may not list deployments.apps`).
		lacks("ProgramMissing")
	execute(t, usedCluster(), notInstalled(&v1beta1.PodGroupList{}), "doctor").prints("kind/PodGroup  KindMissing")
	execute(t, usedCluster(), notInstalled(&v1alpha1.LocalCardQuotaList{}), "doctor").prints("kind/LocalCardQuota  KindMissing", "kubectl apply --server-side -k config/crd")
}

// A namespace without Deployments of ours says nothing about the others.
func TestDeploymentsOfOtherNamespacesAreNotMissing(t *testing.T) {
	refuseAll := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*appsv1.DeploymentList); ok && (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
			return forbidden("list", schema.GroupResource{Group: "apps", Resource: "deployments"})
		}
		return c.List(ctx, list, options...)
	}}

	elsewhere := deployment("cardquota-manager", "m:v0.2.0")
	elsewhere.Namespace = "cards"
	for _, command := range []string{"doctor", "version"} {
		execute(t, append(usedCluster(), elsewhere), refuseAll, command).prints(`may not list deployments.apps`).lacks("ProgramMissing", "is not installed")
		execute(t, append(usedCluster(), elsewhere, deployment("cardquota-scheduler", "s:v0.2.0")), refuseAll, command, "--system-namespace", "cards").
			lacks("deployment/cards/cardquota-manager  ProgramMissing")
	}
}

// The heartbeat is where the scheduler is, also if the operator is gone.
func TestTheHeartbeatIsWhereTheSchedulerIs(t *testing.T) {
	scheduler := deployment("cardquota-scheduler", "s:v0.2.0")
	scheduler.Namespace = "cards"
	policy := policyOf("v0.2.0")
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}
	lease := enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", At: at}.Lease("cards")
	execute(t, append(usedCluster(), scheduler, policy, lease), interceptor.Funcs{}, "doctor").
		prints("deployment/cards/cardquota-manager  ProgramMissing").
		lacks("HeartbeatStale")
}

// Without any right doctor could not look, which is no finding.
func TestDoctorWithoutAnyRight(t *testing.T) {
	r := execute(t, usedCluster(), forbidCluster("lab"), "doctor").
		exits(exitError).
		prints("NotChecked", "may not list deployments.apps,", "nodes and", "and may not get leases")
	check.That(t, strings.Count(r.out, "NotChecked") == 1, "one finding is enough:\n%s", r.out)
	check.Contains(t, "error", r.errOut, "you may read nothing of what doctor looks at")
	r = execute(t, usedCluster(), forbidCluster("volcano-system"), "doctor")
	check.That(t, r.code != exitError && r.errOut == "", "with the Deployments of one namespace: exit code %d, %s", r.code, r.errOut)
}
