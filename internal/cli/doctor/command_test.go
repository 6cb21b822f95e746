package doctor

import (
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// execute runs the command against a cluster with some objects.
var execute = kubectl.Plugin{Commands: []program.Command{NewCommand}}.Execute

// TestDoctorReportsTheStateOfACluster: the golden files have the findings before the installation, after it, and for
// a user who may not list nodes. A script stops by the exit code. Before the installation the only warning is that
// queue research has no quota, although its pods use cards. After it there are errors: the webhooks do not exist,
// and the operator has not seen the policy yet. Volcano's own scheduler, which still runs, is then an information.
func TestDoctorReportsTheStateOfACluster(t *testing.T) {
	noNodes := kubectl.Forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{})
	notInstalledYet := kubectl.NotInstalled(&v1alpha1.CardQuotaList{})
	installed := append(kubectl.ClusterWithoutCardQuotas(),
		kubectl.Deployment("cardquota-manager", "m:v0.2.0"), kubectl.Deployment("cardquota-scheduler", "s:v0.2.0"), kubectl.PolicyWithScheduler("v0.2.0"),
		builder.Pod("volcano-system", "volcano-scheduler-0").Label("app", "volcano-scheduler").Running("h200-0").Obj())

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
		wantCode  int
	}{
		"before":  {kubectl.ClusterWithoutCardQuotas(), notInstalledYet, "doctor", ExitWarnings},
		"adopted": {installed, kubectl.MayReadAll, "doctor", ExitErrors},
		"json":    {kubectl.ClusterWithoutCardQuotas(), notInstalledYet, "doctor -o json", ExitWarnings},
		"tenant":  {installed, noNodes, "doctor", ExitErrors},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, tc.command).Exits(tc.wantCode).ReportsNothing().MatchesGolden("doctor-" + name)
		})
	}
}

// TestDoctorNeedsNothingInstalled: on kubectl.ForeignCluster neither Cardquota nor Volcano was ever installed, and the
// pods are of another scheduler. That is an info, and only what is wrong with the nodes is a warning: a node that is not
// ready, and one without labels. Device gpu-1 is handed out by a driver, past every quota. On the node alone nothing is
// wrong, so the exit code is 0. With Volcano the pods would be outside of queues, which is an info, too.
func TestDoctorNeedsNothingInstalled(t *testing.T) {
	devices := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"driver": "gpu.nvidia.com", "nodeName": "dra-0", "pool": map[string]any{"name": "dra-0", "generation": int64(1)},
		"devices": []any{map[string]any{"name": "gpu-1"}}}}}
	devices.SetAPIVersion("resource.k8s.io/v1")
	devices.SetKind("ResourceSlice")
	devices.SetName("dra-0")
	noNodes := kubectl.WithoutKinds(kubectl.Forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{}), kubectl.OurGroup, kubectl.VolcanoGroup)

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		wantCode  int
	}{
		"foreign":          {append(kubectl.ForeignCluster(), devices), kubectl.Nothing, ExitWarnings},
		"foreign-healthy":  {[]client.Object{builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj()}, kubectl.Nothing, program.ExitOK},
		"foreign-no-nodes": {kubectl.ForeignCluster(), noNodes, program.ExitOK},
		"foreign-volcano":  {kubectl.ForeignCluster(), kubectl.WithoutKinds(kubectl.MayReadAll, kubectl.OurGroup), ExitWarnings},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, "doctor").Exits(tc.wantCode).ReportsNothing().MatchesGolden("doctor-" + name)
		})
	}
}

// TestDoctorFindsFaultsInTheFile: CardQuota above of the file has no service type, so the operator would refuse it.
// The namespaceSelector of research would keep its three pods out. Doctor says so before the installation and after
// it.
func TestDoctorFindsFaultsInTheFile(t *testing.T) {
	path := kubectl.WriteFile(t, "selecting.yaml", `
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
		"before the installation": kubectl.NotInstalled(&v1alpha1.CardQuotaList{}),
		"after the installation":  kubectl.MayReadAll,
	}) {
		execute(t, append(kubectl.ClusterWithoutCardQuotas(), builder.Namespace("lab")), intercept, "doctor -f "+path).Prints(
			"cardquota/above PlannedRefused The operator would refuse it: spec.serviceType", "Correct it in "+path+".",
			"3 pods would not be placed again: lab/train-0, lab/train-1, lab/waits. Namespace <lab> may not use queue <research>")
	}
}

// TestDoctorRefusesFilesWithoutCardQuotas: a misspelt path or field must not look like a file without faults.
func TestDoctorRefusesFilesWithoutCardQuotas(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ path, want string }{
		"the file does not exist": {filepath.Join(t.TempDir(), "none.yaml"), "does not exist"},
		"a Pod":                   {kubectl.WriteFile(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), "have no CardQuota"},
		"an unknown field": {
			kubectl.WriteFile(t, "field.yaml", "apiVersion: cardquota.dev/v1alpha1\nkind: CardQuota\nmetadata: {name: q}\nspec: {cohort: a}\n"),
			`unknown field "spec.cohort"`,
		},
		"no YAML":       {kubectl.WriteFile(t, "text.yaml", "a: b: c"), "read --filename"},
		"an empty file": {kubectl.WriteFile(t, "empty.yaml", ""), "have no CardQuota"},
	}) {
		execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "doctor -f "+tc.path).Exits(program.ExitError).Reports(tc.want)
	}
}

// TestReplicasOfOurSchedulerAreNotVolcanos: the scheduler of this project can be installed by replacing the image of
// Volcano's Deployment. Then its pods have the label of Volcano's scheduler. Its Lease names one replica, and all
// pods of the same ReplicaSet are ours. A pod of another ReplicaSet is Volcano's, which schedules beside ours. If the
// Lease is not readable, that is not known.
func TestReplicasOfOurSchedulerAreNotVolcanos(t *testing.T) {
	replica := func(name, replicaSet string) client.Object {
		pod := builder.Pod("volcano-system", name).Label("app", "volcano-scheduler").Running("h200-0")
		return pod.Owner("apps/v1", "ReplicaSet", replicaSet).Obj()
	}
	lease := enforcement.Report{Identity: "volcano-scheduler-abc-1_x", Version: "v0.2.0", ConfigHash: "abc", At: at}.Lease("volcano-system")
	ours := append(kubectl.ClusterWithoutCardQuotas(), kubectl.Deployment("cardquota-manager", "m:v0.2.0"), kubectl.PolicyWithScheduler("v0.2.0"), lease,
		replica("volcano-scheduler-abc-1", "volcano-scheduler-abc"), replica("volcano-scheduler-abc-2", "volcano-scheduler-abc"))
	volcanos := replica("volcano-scheduler-old-1", "volcano-scheduler-old")

	execute(t, ours, kubectl.MayReadAll, "doctor").Lacks("OtherScheduler")
	execute(t, append(ours, volcanos), kubectl.MayReadAll, "doctor").Prints("pod/volcano-system/volcano-scheduler-old-1  OtherScheduler")
	execute(t, ours, kubectl.ForbidGet[*coordinationv1.Lease](kubectl.Leases), "doctor").
		Prints("may not get leases.coordination.k8s.io").
		Lacks("OtherScheduler")
}

// TestDoctorFindsTheWebhooksOfOLM: OLM (the Operator Lifecycle Manager) gives each webhook a configuration with a
// generated name. So doctor finds those of this operator by their owner label and the beginning of the name. Here the
// validating webhook exists, the mutating one is missing, and the configuration of another operator does not matter.
func TestDoctorFindsTheWebhooksOfOLM(t *testing.T) {
	labels := map[string]string{"olm.owner": "cardquota.v0.2.0"}
	others := map[string]string{"olm.owner": "cardquotas-of-others.v1.0.0"}
	objects := append(kubectl.ClusterWithoutCardQuotas(), kubectl.Deployment("cardquota-manager", "m:v0.2.0"),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cardquotas.cardquota.dev-x7k2p", Labels: labels}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "others", Labels: others},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "others.example"}}})
	execute(t, objects, kubectl.MayReadAll, "doctor").
		Prints("mutatingwebhookconfiguration/cardquota  WebhookMissing").
		Lacks("validatingwebhookconfiguration/cardquota", "others.example")
}

// TestDoctorNamesWhatItMayNotRead: a right that is missing is one finding, and doctor claims nothing about what the
// user may not read. A kind that the cluster does not have is another finding. For a kind of Cardquota it has the
// command that installs it.
func TestDoctorNamesWhatItMayNotRead(t *testing.T) {
	noDeployments := kubectl.Forbid(schema.GroupResource{Group: "apps", Resource: "deployments"}, &appsv1.DeploymentList{})
	execute(t, kubectl.ClusterWithoutCardQuotas(), noDeployments, "doctor").
		Prints("NotChecked", `user "tina" may not list deployments.apps`).
		Lacks("ProgramMissing")

	execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.NotInstalled(&v1beta1.PodGroupList{}), "doctor").Prints("kind/PodGroup  KindMissing")
	execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.NotInstalled(&v1alpha1.LocalCardQuotaList{}), "doctor").
		Prints("kind/LocalCardQuota  KindMissing", "kubectl apply --server-side -k config/crd")
}

// TestTheHeartbeatIsWhereTheSchedulerIs: scheduler and heartbeat, a Lease of this second, are in namespace cards, and
// the operator is gone. So doctor looks for both in cards: the operator is missing there, and the heartbeat is not
// stale.
func TestTheHeartbeatIsWhereTheSchedulerIs(t *testing.T) {
	scheduler := kubectl.Deployment("cardquota-scheduler", "s:v0.2.0")
	scheduler.Namespace = "cards"
	policy := kubectl.PolicyWithScheduler("v0.2.0")
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}
	lease := enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", At: at}.Lease("cards")
	execute(t, append(kubectl.ClusterWithoutCardQuotas(), scheduler, policy, lease), kubectl.MayReadAll, "doctor").
		Prints("deployment/cards/cardquota-manager  ProgramMissing").
		Lacks("HeartbeatStale")
}

// TestDoctorWithoutAnyRightIsAnError: a user of namespace lab alone may read nothing of what doctor looks at. All
// missing rights are one finding, and the exit code is that of an error: nothing was found because nothing was
// checked.
func TestDoctorWithoutAnyRightIsAnError(t *testing.T) {
	r := execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.ForbidCluster("lab"), "doctor").
		Exits(program.ExitError).
		Prints("NotChecked", "may not list deployments.apps,", "nodes and", "and may not get leases").
		Reports("you may read nothing of what doctor looks at")
	check.Equal(t, "number of findings NotChecked", 1, strings.Count(r.Out, "NotChecked"))
}

// TestDoctorWithFewRightsReportsWhatItCanRead: a user may read only namespace volcano-system, and nothing of the
// cluster. The Deployments of the programs are there, so doctor has findings: its exit code is that of the findings,
// and not that of a command that failed.
func TestDoctorWithFewRightsReportsWhatItCanRead(t *testing.T) {
	r := execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.ForbidCluster("volcano-system"), "doctor").ReportsNothing()
	check.That(t, r.Code != program.ExitError, "exit code %d", r.Code)
}
