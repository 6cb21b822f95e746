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

// TestDoctorReportsTheStateOfACluster: the golden files have the findings before the installation, after it, and for a user who
// may not list nodes. A script stops by the exit code. Before the installation there are only warnings. After it Volcano's
// own scheduler still runs, which is an error.
func TestDoctorReportsTheStateOfACluster(t *testing.T) {
	noNodes := forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{})
	notInstalledYet := notInstalled(&v1alpha1.CardQuotaList{})
	installed := append(clusterWithoutCardQuotas(),
		deployment("cardquota-manager", "m:v0.2.0"), deployment("cardquota-scheduler", "s:v0.2.0"), policyWithScheduler("v0.2.0"),
		builder.Pod("volcano-system", "volcano-scheduler-0").Label("app", "volcano-scheduler").Running("h200-0").Obj())

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
		wantCode  int
	}{
		"before":  {clusterWithoutCardQuotas(), notInstalledYet, "doctor", diagnosis.ExitWarnings},
		"adopted": {installed, mayReadAll, "doctor", diagnosis.ExitErrors},
		"json":    {clusterWithoutCardQuotas(), notInstalledYet, "doctor -o json", diagnosis.ExitWarnings},
		"tenant":  {installed, noNodes, "doctor", diagnosis.ExitErrors},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, tc.command).exits(tc.wantCode).reportsNothing().matchesGolden("doctor-" + name)
		})
	}
}

// writeFile writes a file into a folder of its own.
func writeFile(t *testing.T, name, text string) (path string) {
	path = filepath.Join(t.TempDir(), name)
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestDoctorAssumesThatTheFileIsApplied: queue research has no CardQuota, and its pods hold 4 H200. A file has one for it with
// a quota of 2. With -f doctor finds what would be wrong after kubectl apply: 4 of a quota of 2 are used, and the pod that
// waits for 8 never gets them. Only without the file doctor reports that the queue has no quota.
func TestDoctorAssumesThatTheFileIsApplied(t *testing.T) {
	imported := execute(t, clusterWithoutCardQuotas(), mayReadAll, "import").out
	path := writeFile(t, "quotas.yaml", strings.ReplaceAll(imported, "quota: 4", "quota: 2"))

	execute(t, clusterWithoutCardQuotas(), mayReadAll, "doctor").prints("queue/research  QueueWithoutQuota")
	execute(t, clusterWithoutCardQuotas(), mayReadAll, "doctor -f "+path).
		prints("cardquota/research  QuotaExceeded", "hold 4 NVIDIA-H200 of a quota of 2", "queue/research  NeverPlaced").
		lacks("QueueWithoutQuota")
}

// TestDoctorFindsFaultsInTheFile: CardQuota above of the file has no service type, so the operator would refuse it.
// The namespaceSelector of research would keep its three pods out. Doctor says so before the installation and after
// it.
func TestDoctorFindsFaultsInTheFile(t *testing.T) {
	path := writeFile(t, "selecting.yaml", `
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

	for t, intercept := range check.Cases(t, map[string]interceptor.Funcs{
		"before the installation": notInstalled(&v1alpha1.CardQuotaList{}),
		"after the installation":  mayReadAll,
	}) {
		execute(t, append(clusterWithoutCardQuotas(), builder.Namespace("lab")), intercept, "doctor -f "+path).prints(
			"cardquota/above PlannedRefused The operator would refuse it: spec.serviceType", "Correct it in "+path+".",
			"3 pods would not be placed again: lab/train-0, lab/train-1, lab/waits. Namespace <lab> may not use queue <research>")
	}
}

// TestDoctorRefusesFilesWithoutCardQuotas: a misspelt path or field must not look like a file without faults.
func TestDoctorRefusesFilesWithoutCardQuotas(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ path, want string }{
		"the file does not exist": {filepath.Join(t.TempDir(), "none.yaml"), "does not exist"},
		"a Pod":                   {writeFile(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), "have no CardQuota"},
		"an unknown field": {
			writeFile(t, "field.yaml", "apiVersion: cardquota.dev/v1alpha1\nkind: CardQuota\nmetadata: {name: q}\nspec: {cohort: a}\n"),
			`unknown field "spec.cohort"`,
		},
		"no YAML":       {writeFile(t, "text.yaml", "a: b: c"), "read --filename"},
		"an empty file": {writeFile(t, "empty.yaml", ""), "have no CardQuota"},
	}) {
		execute(t, clusterWithoutCardQuotas(), mayReadAll, "doctor -f "+tc.path).exits(exitError).reports(tc.want)
	}
}

// TestReplicasOfOurSchedulerAreNotVolcanos: the scheduler of this project can be installed by replacing the image of Volcano's
// Deployment. Then its pods have the label of Volcano's scheduler. Its Lease names one replica, and all pods of the same
// ReplicaSet are ours. A pod of another ReplicaSet is Volcano's, which schedules beside ours. If the Lease is not
// readable, that is not known.
func TestReplicasOfOurSchedulerAreNotVolcanos(t *testing.T) {
	replica := func(name, replicaSet string) client.Object {
		pod := builder.Pod("volcano-system", name).Label("app", "volcano-scheduler").Running("h200-0")
		return pod.Owner("apps/v1", "ReplicaSet", replicaSet).Obj()
	}
	lease := enforcement.Report{Identity: "volcano-scheduler-abc-1_x", Version: "v0.2.0", ConfigHash: "abc", At: at}.Lease("volcano-system")
	ours := append(clusterWithoutCardQuotas(), deployment("cardquota-manager", "m:v0.2.0"), policyWithScheduler("v0.2.0"), lease,
		replica("volcano-scheduler-abc-1", "volcano-scheduler-abc"), replica("volcano-scheduler-abc-2", "volcano-scheduler-abc"))
	volcanos := replica("volcano-scheduler-old-1", "volcano-scheduler-old")

	execute(t, ours, mayReadAll, "doctor").lacks("OtherScheduler")
	execute(t, append(ours, volcanos), mayReadAll, "doctor").prints("pod/volcano-system/volcano-scheduler-old-1  OtherScheduler")
	execute(t, ours, forbidGet[*coordinationv1.Lease](leases), "doctor").
		prints("may not get leases.coordination.k8s.io").
		lacks("OtherScheduler")
}

// TestDoctorFindsTheWebhooksOfOLM: OLM (the Operator Lifecycle Manager) gives each webhook a configuration with a
// generated name. So doctor finds those of this operator by their owner label and the begin of the name. Here the
// validating webhook exists, the mutating one is missing, and the configuration of another operator does not matter.
func TestDoctorFindsTheWebhooksOfOLM(t *testing.T) {
	labels := map[string]string{"olm.owner": "cardquota.v0.2.0"}
	others := map[string]string{"olm.owner": "cardquotas-of-others.v1.0.0"}
	objects := append(clusterWithoutCardQuotas(), deployment("cardquota-manager", "m:v0.2.0"),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cardquotas.cardquota.dev-x7k2p", Labels: labels}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "others", Labels: others},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "others.example"}}})
	execute(t, objects, mayReadAll, "doctor").
		prints("mutatingwebhookconfiguration/cardquota  WebhookMissing").
		lacks("validatingwebhookconfiguration/cardquota", "others.example")
}

// TestDoctorNamesWhatItMayNotRead: a right that is missing is one finding, and doctor claims nothing about what the user may not
// read. A kind that the cluster does not have is another finding, with the command that installs it.
func TestDoctorNamesWhatItMayNotRead(t *testing.T) {
	noDeployments := forbid(schema.GroupResource{Group: "apps", Resource: "deployments"}, &appsv1.DeploymentList{})
	execute(t, clusterWithoutCardQuotas(), noDeployments, "doctor").
		prints("NotChecked", `user "tina" may not list deployments.apps`).
		lacks("ProgramMissing")

	execute(t, clusterWithoutCardQuotas(), notInstalled(&v1beta1.PodGroupList{}), "doctor").prints("kind/PodGroup  KindMissing")
	execute(t, clusterWithoutCardQuotas(), notInstalled(&v1alpha1.LocalCardQuotaList{}), "doctor").
		prints("kind/LocalCardQuota  KindMissing", "kubectl apply --server-side -k config/crd")
}

// TestDeploymentsOfOtherNamespacesAreNotMissing: the operator runs in namespace cards. A user who may list Deployments of single
// namespaces only sees none in volcano-system, where it is by default. So the commands name the missing right, and do not
// claim that the operator is not installed. With --system-namespace cards they find it.
func TestDeploymentsOfOtherNamespacesAreNotMissing(t *testing.T) {
	noListOfAll := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*appsv1.DeploymentList); ok && (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
			return forbidden("list", schema.GroupResource{Group: "apps", Resource: "deployments"})
		}
		return c.List(ctx, list, options...)
	}}
	inCards := deployment("cardquota-manager", "m:v0.2.0")
	inCards.Namespace = "cards"
	objects := append(clusterWithoutCardQuotas(), inCards)

	for _, command := range []string{"doctor", "version"} {
		execute(t, objects, noListOfAll, command).
			prints(`may not list deployments.apps`).
			lacks("ProgramMissing", "is not installed")
		execute(t, append(objects, deployment("cardquota-scheduler", "s:v0.2.0")), noListOfAll, command+" --system-namespace cards").
			lacks("deployment/cards/cardquota-manager  ProgramMissing")
	}
}

// TestTheHeartbeatIsWhereTheSchedulerIs: scheduler and heartbeat, a Lease of this second, are in namespace cards, and the operator
// is gone. So doctor looks for both in cards: the operator is missing there, and the heartbeat is not stale.
func TestTheHeartbeatIsWhereTheSchedulerIs(t *testing.T) {
	scheduler := deployment("cardquota-scheduler", "s:v0.2.0")
	scheduler.Namespace = "cards"
	policy := policyWithScheduler("v0.2.0")
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}
	lease := enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", At: at}.Lease("cards")
	execute(t, append(clusterWithoutCardQuotas(), scheduler, policy, lease), mayReadAll, "doctor").
		prints("deployment/cards/cardquota-manager  ProgramMissing").
		lacks("HeartbeatStale")
}

// TestDoctorWithoutAnyRightIsAnError: a user of namespace lab alone may read nothing of what doctor looks at. All missing rights
// are one finding, and the exit code is that of an error: nothing was found because nothing was checked.
func TestDoctorWithoutAnyRightIsAnError(t *testing.T) {
	r := execute(t, clusterWithoutCardQuotas(), forbidCluster("lab"), "doctor").
		exits(exitError).
		prints("NotChecked", "may not list deployments.apps,", "nodes and", "and may not get leases").
		reports("you may read nothing of what doctor looks at")
	check.Equal(t, "number of findings NotChecked", 1, strings.Count(r.out, "NotChecked"))
}

// TestDoctorWithFewRightsReportsWhatItCanRead: a user of namespace volcano-system may read the Deployments there, so the command
// is no error.
func TestDoctorWithFewRightsReportsWhatItCanRead(t *testing.T) {
	r := execute(t, clusterWithoutCardQuotas(), forbidCluster("volcano-system"), "doctor").reportsNothing()
	check.That(t, r.code != exitError, "exit code %d", r.code)
}
