package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// at is the clock of every test.
var at = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// bundleUntil returns a certificate authority that is valid until then.
func bundleUntil(t *testing.T, end time.Time) []byte {
	key := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: at.AddDate(-1, 0, 0), NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	der := check.Value(x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func deployment(program string, wanted, ready int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: program, Labels: map[string]string{"app.kubernetes.io/name": program}},
		Spec: appsv1.DeploymentSpec{Replicas: &wanted, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: strings.TrimPrefix(program, "cardquota-"), Image: "registry/" + program + ":v0.2.0"}}}}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: ready},
	}
}

func definition(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	text := check.Value(os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", "cardquota.dev_"+plural+".yaml")))(t)
	d := &apiextensionsv1.CustomResourceDefinition{}
	check.NoError(t, yaml.Unmarshal(text, d))
	return d
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// readyQuota is a CardQuota with a quota of 8 NVIDIA-H200, in which nothing is wrong.
func readyQuota(name string) *v1alpha1.CardQuota {
	return builder.CardQuota(name).Card("NVIDIA-H200", 8).Resources("64", "1Ti").
		Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "ok").Obj()
}

// newHealthyCluster is an installation in which nothing is wrong: a node of 8 H200, CardQuota team with a quota of 8, and
// a running pod of it that uses 2.
func newHealthyCluster(t *testing.T) *Cluster {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: bundleUntil(t, at.AddDate(1, 0, 0))}

	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Conditions = []metav1.Condition{
		condition(v1alpha1.ConditionConfigSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "ok"),
		condition(v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforced, "ok"),
		condition(v1alpha1.ConditionBypassGuarded, metav1.ConditionTrue, v1alpha1.ReasonBypassDenied, "ok"),
	}

	policy.Status.Scheduler = &v1alpha1.SchedulerStatus{Identity: "s_1", Version: "v0.2.0"}
	c := &Cluster{
		Now: at, ClientVersion: "v0.2.0", Namespace: "volcano-system",
		Operators: []*appsv1.Deployment{deployment("cardquota-manager", 1, 1)}, Schedulers: []*appsv1.Deployment{deployment("cardquota-scheduler", 2, 2)},
		HasDeployments: true, HasWebhooks: true, HasPolicy: true, HasLease: true, Policy: policy,
		Validating: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "cardquota"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "cardquotas.cardquota.dev", ClientConfig: config}},
		}},
		Mutating: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "cardquota"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "vcjobs.cardquota.dev", ClientConfig: config}},
		}},
		Lease: enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", At: at.Add(-time.Second)}.Lease("volcano-system"),
		Definitions: []*apiextensionsv1.CustomResourceDefinition{
			definition(t, "cardquotas"), definition(t, "servicetypepolicies"), definition(t, "cardinventories"), definition(t, "localcardquotas"),
		},
		Quotas: []*v1alpha1.CardQuota{readyQuota("team")}, HasQuotas: true,
		Queues:    []*v1beta1.Queue{builder.Queue("team").Quota(`{"NVIDIA-H200":8}`).Obj(), builder.Queue("default").Obj()},
		Inventory: &v1alpha1.CardInventoryStatus{Nodes: 1, Cards: []v1alpha1.InventoryCard{{Name: "NVIDIA-H200", Total: 8, Healthy: 8, Quota: 8}}},
	}

	count(c, builder.Pod("lab", "fine").Queue("team").GPUs(2).CPU("4").Running("h200-0").Obj())
	return c
}

// count counts pods on a node with eight H200.
func count(c *Cluster, pods ...*corev1.Pod) {
	for _, pod := range pods { // as the API server records it for a pod that a scheduler bound
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)}}}
	}
	c.HasUsage = true
	c.Pods = pods
	c.Cards = card.NewInventory(map[string]card.Node{"h200-0": card.Recognise(builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), nil)})
	c.Usage, c.Charges = queueusage.CountWithCharges(queueusage.Input{Pods: pods, Inventory: c.Cards})
}

func setPolicyCondition(c *Cluster, kind, reason, message string) {
	for i := range c.Policy.Status.Conditions {
		if c.Policy.Status.Conditions[i].Type == kind {
			c.Policy.Status.Conditions[i] = condition(kind, metav1.ConditionFalse, reason, message)
		}
	}
}

// cases break something of a healthy cluster each, or replace it. Their names are the rule and what is special.
var cases = map[string]func(t *testing.T, c *Cluster){
	"NotInstalled": func(_ *testing.T, c *Cluster) {
		*c = Cluster{Now: at, Namespace: "volcano-system", HasDeployments: true, HasWebhooks: true, HasPolicy: true, HasLease: true, MissingKinds: []string{"ServiceTypePolicy", "CardQuota", "CardInventory"}}
	},
	"KindMissing":         func(_ *testing.T, c *Cluster) { c.MissingKinds = []string{"CardInventory"} },
	"KindMissing-volcano": func(_ *testing.T, c *Cluster) { c.MissingKinds = []string{"PodGroup"} },
	"SchemaOutdated": func(_ *testing.T, c *Cluster) {
		spec := c.Definitions[0].Spec.Versions[0].Schema.OpenAPIV3Schema
		delete(spec.Properties["spec"].Properties, "stopPolicy")
		delete(spec.Properties["status"].Properties["cards"].Items.Schema.Properties, "borrowed")
	},
	"KindMissing-olm": func(_ *testing.T, c *Cluster) {
		c.Operators[0].Labels[OLMOwnerLabel] = "cardquota.v0.2.0"
		c.MissingKinds = []string{"CardInventory"}
	},
	"SchemaOutdated-olm": func(_ *testing.T, c *Cluster) {
		c.Operators[0].Labels[OLMOwnerLabel] = "cardquota.v0.2.0"
		delete(c.Definitions[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "stopPolicy")
	},
	"ProgramNotReady-olm": func(_ *testing.T, c *Cluster) {
		c.Operators[0].Labels[OLMOwnerLabel] = "cardquota.v0.2.0"
		*c.Operators[0].Spec.Replicas = 0
	},
	"ProgramMissing": func(_ *testing.T, c *Cluster) {
		c.Operators = nil
		c.HasWebhooks = false
	},
	"ProgramNotReady": func(_ *testing.T, c *Cluster) { c.Operators[0].Status.ReadyReplicas = 0 },
	"ProgramNotReady-some": func(_ *testing.T, c *Cluster) {
		c.Schedulers[0].Status.ReadyReplicas = 1
	},
	"ProgramNotReady-scaled": func(_ *testing.T, c *Cluster) { *c.Operators[0].Spec.Replicas = 0 },
	"VersionDiffers":         func(_ *testing.T, c *Cluster) { c.ClientVersion = "v0.3.0" },
	"WebhookMissing":         func(_ *testing.T, c *Cluster) { c.Mutating = nil },
	"WebhookCertificate":     func(_ *testing.T, c *Cluster) { c.Validating[0].Webhooks[0].ClientConfig.CABundle = nil },
	"WebhookCertificate-expires": func(t *testing.T, c *Cluster) {
		c.Mutating[0].Webhooks[0].ClientConfig.CABundle = bundleUntil(t, at.AddDate(0, 0, 3))
	},
	"WebhookCertificate-broken": func(_ *testing.T, c *Cluster) { c.Mutating[0].Webhooks[0].ClientConfig.CABundle = []byte("none") },
	"WebhookMissing-cert-manager": func(_ *testing.T, c *Cluster) {
		c.Mutating[0].Annotations = map[string]string{v1alpha1.AnnotationInjectCAFrom: "cards/cardquota-webhook"}
		c.Validating = nil
	},
	"WebhookMissing-olm": func(_ *testing.T, c *Cluster) {
		c.Operators[0].Labels[OLMOwnerLabel] = "cardquota.v0.2.0"
		c.Validating = nil
	},
	"WebhookCertificate-olm": func(_ *testing.T, c *Cluster) {
		c.Operators[0].Labels[OLMOwnerLabel] = "cardquota.v0.2.0"
		c.Validating[0].Name = "cardquotas-x7k2p"
		c.Validating[0].Webhooks[0].ClientConfig.CABundle = nil
	},
	"WebhookCertificate-cert-manager": func(_ *testing.T, c *Cluster) {
		c.Mutating[0].Annotations = map[string]string{v1alpha1.AnnotationInjectCAFrom: "cards/cardquota-webhook"}
		c.Mutating[0].Webhooks[0].ClientConfig.CABundle = nil
	},
	"ProgramMissing-unknown": func(_ *testing.T, c *Cluster) {
		c.Schedulers = nil
		c.Lease = enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", At: at.Add(-time.Hour)}.Lease("volcano-system")
	},
	"WebhookMissing-files": func(_ *testing.T, c *Cluster) {
		c.Operators[0].Spec.Template.Spec.Containers[0].Args = []string{"--webhook-certificates=Files"}
		c.Validating = nil
		c.Mutating = nil
	},
	"ProgramMissing-image": func(_ *testing.T, c *Cluster) {
		c.Schedulers = nil
		c.Lease = enforcement.Report{Identity: "volcano-scheduler-7d9-x_1", Version: "v0.2.0", ConfigHash: "abc", At: at.Add(-time.Hour)}.Lease("volcano-system")
	},
	"PolicyMissing": func(_ *testing.T, c *Cluster) { c.Policy = nil },
	"ConfigNotSynced": func(_ *testing.T, c *Cluster) {
		setPolicyCondition(c, v1alpha1.ConditionConfigSynced, v1alpha1.ReasonBaseMissing, "ConfigMap volcano-system/volcano-scheduler-configmap does not exist")
	},
	"NotEnforced": func(_ *testing.T, c *Cluster) {
		setPolicyCondition(c, v1alpha1.ConditionEnforced, v1alpha1.ReasonStockScheduler, "pod volcano-system/volcano-scheduler-7d9-x schedules instead")
		c.OtherSchedulers = []*corev1.Pod{stockPod("volcano-system", "volcano-scheduler")}
	},
	"NotEnforced-observing": func(_ *testing.T, c *Cluster) { // the scheduler is not installed, and nothing else is reported
		setPolicyCondition(c, v1alpha1.ConditionEnforced, v1alpha1.ReasonObserving, "no quota is enforced")
		setPolicyCondition(c, v1alpha1.ConditionBypassGuarded, v1alpha1.ReasonObserving, "nothing refuses pods")
		c.Schedulers = nil
		c.Lease = nil
	},
	"KindMissing-observing": func(_ *testing.T, c *Cluster) { // a policy that observes needs no Volcano
		setPolicyCondition(c, v1alpha1.ConditionEnforced, v1alpha1.ReasonObserving, "no quota is enforced")
		c.MissingKinds = []string{"Queue", "PodGroup", "LocalCardQuota"}
	},
	"Forecast": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Status.Forecast = &v1alpha1.CardQuotaForecast{
			Waiting:   kubectl.Foretold("Job", "Queue <team> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <10>, but capability is <8>", 7, "train", "tune"),
			Bypassing: kubectl.Foretold("Pod", "it needs the annotation scheduling.volcano.sh/queue-name: team and schedulerName: volcano", 0, "notebook"),
		}
		c.Policy.Status.Forecast = &v1alpha1.PolicyForecast{
			Unlimited:                kubectl.Foretold("Pod", "it names no queue, and no CardQuota selects namespace lab with a namespaceSelector", 0, "free"),
			AmbiguousNamespacesTotal: 3,
			AmbiguousNamespaces:      []v1alpha1.AmbiguousNamespace{{Name: "shared", CardQuotas: []string{"other", "team"}}, {Name: "shared-too", CardQuotas: []string{"other", "team"}}},
		}
	},
	"Forecast-tree": func(_ *testing.T, c *Cluster) { // above has a workload of its own, top none
		waits := func(further int32) *v1alpha1.CardQuotaForecast {
			return &v1alpha1.CardQuotaForecast{Waiting: kubectl.Foretold("Pod", "Queue <above> has queues below it, so no job starts in it", further, "p")}
		}
		inTree := func(name, parent string, children int32, foretold *v1alpha1.CardQuotaForecast) *v1alpha1.CardQuota {
			quota := readyQuota(name)
			quota.Spec.Parent = parent
			quota.Status.Children = children
			quota.Status.Forecast = foretold
			return quota
		}

		c.Quotas = []*v1alpha1.CardQuota{inTree("top", "", 1, waits(1)), inTree("above", "top", 1, waits(1)), inTree("team", "above", 0, waits(0))}
		// While queues are flat, spec.parent has no effect, and a CardQuota has no children.
		c.Quotas = append(c.Quotas, inTree("flat", "", 0, waits(0)), inTree("side", "flat", 0, waits(0)))
	},
	"ModeNotInForce": func(_ *testing.T, c *Cluster) {
		c.Policy.Status.Conditions = append(c.Policy.Status.Conditions,
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSchedulerRuns, "Cardquota's scheduler may still run"))
	},
	"NotEnforced-rights": func(_ *testing.T, c *Cluster) { // NotEnforced says all, so ModeNotInForce does not
		setPolicyCondition(c, v1alpha1.ConditionEnforced, v1alpha1.ReasonRightsMissing, "mode Enforce is not in force: the operator may not patch queues")
		c.Policy.Status.Conditions = append(c.Policy.Status.Conditions,
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRightsMissing, "mode Enforce is not in force: the operator may not patch queues"))
	},
	"ModeNotInForce-rights": func(_ *testing.T, c *Cluster) {
		c.Policy.Status.Conditions = append(c.Policy.Status.Conditions,
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRightsMissing, "what was written stays enforced: the operator may not patch queues"))
	},
	"NotEnforced-unseen": func(_ *testing.T, c *Cluster) { c.Policy.Status.Conditions = nil },
	"BypassNotGuarded": func(_ *testing.T, c *Cluster) {
		setPolicyCondition(c, v1alpha1.ConditionBypassGuarded, v1alpha1.ReasonBypassWarned, "schedulerBypassPolicy is Warn")
	},
	"HeartbeatStale": func(_ *testing.T, c *Cluster) {
		c.Lease = enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", At: at.Add(-time.Hour)}.Lease("volcano-system")
	},
	"HeartbeatStale-none": func(_ *testing.T, c *Cluster) { c.Lease = nil },
	"ConfigRefused": func(_ *testing.T, c *Cluster) {
		c.Lease = enforcement.Report{Identity: "s_1", Version: "v0.2.0", ConfigHash: "abc", ConfigProblem: "line 3: unknown plugin", At: at}.Lease("volcano-system")
	},
	"NotEnforced-early": func(_ *testing.T, c *Cluster) {
		setPolicyCondition(c, v1alpha1.ConditionEnforced, v1alpha1.ReasonStockScheduler, "pod volcano-system/volcano-scheduler-0 schedules instead")
		*c.Schedulers[0].Spec.Replicas = 0
		c.Schedulers[0].Status.ReadyReplicas = 0
	},
	"BypassNotGuarded-early": func(_ *testing.T, c *Cluster) {
		setPolicyCondition(c, v1alpha1.ConditionBypassGuarded, v1alpha1.ReasonBypassWarned, "schedulerBypassPolicy is Warn")
		c.Policy.Spec.UnmanagedQueues = v1alpha1.UnmanagedIgnore
	},
	"BypassNotGuarded-bypassed": func(_ *testing.T, c *Cluster) {
		setPolicyCondition(c, v1alpha1.ConditionBypassGuarded, v1alpha1.ReasonBypassOff, "schedulerBypassPolicy is Off")
		count(c, builder.Pod("lab", "p").Queue("team").GPUs(1).Running("h200-0").Scheduler("default-scheduler").Obj())
	},
	"OtherScheduler-before": func(_ *testing.T, c *Cluster) {
		*c = Cluster{Now: at, Namespace: "volcano-system", HasDeployments: true, HasPolicy: true, HasLease: true, MissingKinds: []string{"ServiceTypePolicy", "CardQuota", "CardInventory"},
			OtherSchedulers: []*corev1.Pod{builder.Pod("volcano-system", "volcano-scheduler-0").Obj()}}
	},
	"OtherScheduler-handover": func(_ *testing.T, c *Cluster) {
		c.Policy.Status.Conditions = c.Policy.Status.Conditions[:1] // nothing is known about enforcement
		c.OtherSchedulers = []*corev1.Pod{stockPod("volcano-system", "volcano-scheduler")}
	},
	"OtherScheduler-unsynced": func(_ *testing.T, c *Cluster) {
		c.Policy.Status.Conditions = nil
		c.OtherSchedulers = []*corev1.Pod{stockPod("volcano-system", "volcano-scheduler")}
	},
	"OtherScheduler": func(_ *testing.T, c *Cluster) {
		c.OtherSchedulers = []*corev1.Pod{builder.Pod("volcano-system", "volcano-scheduler-0").Obj()}
	},
	"QuotaNotReady": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Status.Conditions[0] = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQueueConflict, "CardQuota old has the queue")
	},
	"QuotaNotReady-held": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Status.Conditions[0] = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeld, "stopPolicy is Hold")
	},
	"QuotaNotObserved": func(_ *testing.T, c *Cluster) { c.Quotas[0].Generation = 2 },
	"OverQuota": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Used: 10, OverQuotaBy: 2}}
	},
	"OverQuota-observing": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Status.Mode = v1alpha1.ModeObserve
		c.Quotas[0].Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Used: 10, OverQuotaBy: 2}}
	},
	"OverAllocated": func(_ *testing.T, c *Cluster) {
		c.Inventory.Cards[0].Quota = 12
		c.Inventory.Cards[0].OverAllocatedBy = 4
	},
	"UnknownCard": func(_ *testing.T, c *Cluster) {
		planTo(c, builder.CardQuota("team").Card("NVIDIA-H2000", 2).Card("NVIDIA-H200", 2).Resources("64", "1Ti").Obj())
	},
	"UnknownCard-stated": func(_ *testing.T, c *Cluster) {
		c.Quotas = append(c.Quotas, builder.CardQuota("other").Card("NVIDIA-H20", 2).Resources("64", "1Ti").
			Condition(v1alpha1.ConditionCardsKnown, metav1.ConditionFalse, v1alpha1.ReasonUnknownCard, "no node has NVIDIA-H20; did you mean NVIDIA-H200?").Obj())
	},
	"UnknownCard-unnamed": func(_ *testing.T, c *Cluster) {
		c.Quotas = append(c.Quotas, builder.CardQuota("other").Card("NVIDIA-H20", 2).Resources("64", "1Ti").Obj())
		c.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, NodesTotal: 1,
			Nodes: []string{"new-0"}, Message: "offers nvidia.com/gpu but no label names the card"}}
	},
	"UnknownFields": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Status.Conditions = append(c.Quotas[0].Status.Conditions,
			condition(v1alpha1.ConditionFieldsKnown, metav1.ConditionFalse, v1alpha1.ReasonUnknownFields, "spec.cohort has no effect in this version"))
	},
	"Anomaly": func(_ *testing.T, c *Cluster) {
		c.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, NodesTotal: 1,
			Nodes: []string{"gpu-7"}, Message: "node gpu-7: offers nvidia.com/gpu but no label names the card"}}
		c.Inventory.AnomaliesTotal = 2
	},
	"Anomaly-memory": func(_ *testing.T, c *Cluster) {
		labelled := func(name string) *corev1.Node {
			return builder.Node(name).Label("nvidia.com/gpu.product", "NVIDIA-H200").Resource("nvidia.com/gpu", "8").Obj()
		}
		c.Nodes = []*corev1.Node{labelled("gpu-7"), builder.Node("gpu-8").Resource("nvidia.com/gpu", "8").Obj(), labelled("gpu-9")}
		c.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 24, NodesTotal: 3,
			Nodes: []string{"gpu-7", "gpu-8", "gpu-9"}, Message: "node gpu-7: offers nvidia.com/gpu but no label names the card"}}
		c.Inventory.AnomaliesTotal = 1
	},
	"Anomaly-mapped": func(_ *testing.T, c *Cluster) {
		amd := card.Recognise(builder.Node("amd-0").Resource("amd.com/gpu", "8").Obj(), card.Mappings{{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"}})
		c.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "amd.com/gpu", Count: 8, NodesTotal: 1,
			Nodes: []string{"amd-0"}, Message: "node amd-0: " + amd.Anomalies[0].Message}}
		c.Inventory.AnomaliesTotal = 1
	},
	"NodeNotReady": func(_ *testing.T, c *Cluster) {
		c.Nodes = []*corev1.Node{builder.Node("h200-0").GPUs("NVIDIA-H200", 8).NotReady().Obj(), builder.Node("cpu-0").NotReady().Obj()}
	},
	"BillsNotStored": func(_ *testing.T, c *Cluster) {
		problems := cardinventory.Bills{
			Refused: map[string]metav1.StatusReason{
				"volcano-system/cardquota-card-seconds-0": metav1.StatusReasonInvalid,
				"volcano-system/cardquota-card-seconds-3": metav1.StatusReasonInvalid,
			},
			DaysDropped: "2026-10-05",
		}
		status := cardinventory.NewStatus(cardinventory.Input{Count: cardinventory.NewCount(cardinventory.CountInput{Tree: cardquota.Flat}), Bills: problems})
		c.Inventory.Anomalies = status.Anomalies
		c.Inventory.AnomaliesTotal = status.AnomaliesTotal
	},
	"QueueWithoutQuota": func(_ *testing.T, c *Cluster) {
		count(c, builder.Pod("lab", "p").Queue("default").GPUs(3).Running("h200-0").Obj())
	},
	"QueueWithoutQuota-ignored": func(_ *testing.T, c *Cluster) {
		c.Policy.Spec.UnmanagedQueues = v1alpha1.UnmanagedIgnore
		count(c, builder.Pod("lab", "p").Queue("default").Card("NVIDIA-H200").GPUs(3).Obj())
	},
	"Bypass": func(_ *testing.T, c *Cluster) {
		count(c, builder.Pod("lab", "p").Queue("team").GPUs(1).Running("h200-0").Scheduler("default-scheduler").Obj())
	},
	"QuotaExceeded": func(_ *testing.T, c *Cluster) {
		planTo(c, builder.CardQuota("team").Card("NVIDIA-H200", 3).Resources("64", "1Ti").Obj())
		count(c, builder.Pod("lab", "p").Queue("team").GPUs(2).Running("h200-0").Copies(2)...)
	},
	"NeverPlaced": func(_ *testing.T, c *Cluster) {
		count(c, builder.Pod("lab", "big").Queue("team").Card("NVIDIA-H200|NVIDIA-H800").GPUs(16).Obj())
	},
	"NoComputeLimit": func(_ *testing.T, c *Cluster) {
		c.Quotas[0].Spec.Resources = builder.CardQuota("").Resources("0", "0").Obj().Spec.Resources
		count(c, builder.Pod("lab", "cpu-only").Queue("team").CPU("4").Memory("8Gi").Running("h200-0").Obj())
	},
	"NotChecked": func(_ *testing.T, c *Cluster) {
		c.Gaps = []string{`user "tina" may not list nodes at the cluster scope`}
	},
}

// TestNothingIsWrongWithAHealthyCluster: doctor applies all its rules to newHealthyCluster and finds nothing. It says so,
// and ends with exit code 0.
func TestNothingIsWrongWithAHealthyCluster(t *testing.T) {
	report := Diagnose(newHealthyCluster(t))
	check.Equal(t, "findings", []Finding{}, report.Items)
	check.Equal(t, "exit code", 0, report.ExitCode())
	check.Equal(t, "number of rules", len(RuleNames()), report.Rules)

	check.Contains(t, "text", report.Render(output.Style{}), "Nothing is wrong: ")
}

// TestEachRuleFindsWhatIsBroken: each entry of cases and plannedCases changes a healthy cluster. Its name is the rule
// that finds what is wrong then, and after a dash what is special. All findings of the cluster are in the golden file
// of that name, as a user reads them on a terminal. Only commands may be longer than a line. Each rule has a case.
func TestEachRuleFindsWhatIsBroken(t *testing.T) {
	covered := map[string]bool{}
	maps.Copy(cases, plannedCases)
	for name, breakIt := range cases {
		rule, _, _ := strings.Cut(name, "-")
		covered[rule] = true

		t.Run(name, func(t *testing.T) {
			cluster := newHealthyCluster(t)
			breakIt(t, cluster)

			report := Diagnose(cluster)
			check.That(t, slices.ContainsFunc(report.Items, func(f Finding) bool { return f.Rule == rule }), "no finding of %s", rule)
			text := report.Render(output.Style{})

			path := filepath.Join("testdata", name+".golden")
			if kubectl.Updates() {
				check.NoError(t, os.MkdirAll("testdata", 0o750))
				check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}

			check.Equal(t, "findings", string(check.Value(os.ReadFile(path))(t)), text)
			for line := range strings.Lines(text) {
				check.That(t, output.Width(line) <= output.Columns+1 || strings.HasPrefix(line, "  $ "), "a long line: %s", line)
			}
		})
	}

	for _, rule := range RuleNames() {
		check.That(t, covered[rule], "rule %s has no case", rule)
	}
}

// TestTheExitCodeIsThatOfTheWorstFinding: scripts run doctor. Infos are no reason to stop, warnings and errors are.
func TestTheExitCodeIsThatOfTheWorstFinding(t *testing.T) {
	for want, report := range map[int]Report{
		0:            {Infos: 1},
		ExitWarnings: {Warnings: 1, Infos: 1},
		ExitErrors:   {Errors: 1, Warnings: 1},
	} {
		check.Equal(t, "exit code", want, report.ExitCode())
	}
}

// TestTheOnlySchedulerIsNotStopped: Volcano's own scheduler runs, so quotas are not enforced, and doctor advises to scale
// it to 0. It does so only where the scheduler of this project is ready with the configuration of the current policy.
// Otherwise nothing would schedule pods.
func TestTheOnlySchedulerIsNotStopped(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change    func(cluster *Cluster)
		wantStops bool
	}{
		"ours is ready": {func(*Cluster) {}, true},
		"there is no policy, so no configuration": {func(cluster *Cluster) { cluster.Policy = nil }, false},
		"ours has no Deployment":                  {func(cluster *Cluster) { cluster.Schedulers = nil }, false},
		"ours has no ready replica":               {func(cluster *Cluster) { cluster.Schedulers[0].Status.ReadyReplicas = 0 }, false},
		"the policy has no conditions":            {func(cluster *Cluster) { cluster.Policy.Status.Conditions = nil }, false},
		"the configuration is not written": {func(cluster *Cluster) {
			setPolicyCondition(cluster, v1alpha1.ConditionConfigSynced, v1alpha1.ReasonBaseMissing, "no ConfigMap")
		}, false},
		"the configuration is of an older policy": {func(cluster *Cluster) { cluster.Policy.Generation = 2 }, false},
	}) {
		cluster := newHealthyCluster(t)
		setPolicyCondition(cluster, v1alpha1.ConditionEnforced, v1alpha1.ReasonStockScheduler, "volcano-scheduler-0 schedules instead")
		cluster.OtherSchedulers = []*corev1.Pod{stockPod("volcano", "volcano-scheduler")}
		tc.change(cluster)

		stops := slices.ContainsFunc(Diagnose(cluster).Items, func(f Finding) bool {
			return f.Command == "kubectl -n volcano scale deployment volcano-scheduler --replicas=0"
		})
		check.Equal(t, "advises to stop Volcano's scheduler", tc.wantStops, stops)
	}
}

// stockPod is a pod of the Deployment of Volcano's own scheduler.
func stockPod(namespace, deployment string) *corev1.Pod {
	return builder.Pod(namespace, deployment+"-7d9-x").Label("pod-template-hash", "7d9").Owner("apps/v1", "ReplicaSet", deployment+"-7d9").Obj()
}

// TestTheDeploymentOfTheOtherSchedulerIsStopped: Volcano's chart names the Deployment of its scheduler after the release.
// The advised command names the Deployment of the pod that runs. Without an owner or a pod the command selects by label.
func TestTheDeploymentOfTheOtherSchedulerIsStopped(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"a pod of Deployment batch-scheduler": {
			[]*corev1.Pod{stockPod("volcano", "batch-scheduler")}, "-n volcano scale deployment batch-scheduler",
		},
		"a pod without an owner": {
			[]*corev1.Pod{builder.Pod("volcano", "bare").Obj()}, "-n volcano scale deployment -l app=volcano-scheduler",
		},
		"no pod is found: the namespace is that of Cardquota": {nil, "-n volcano-system scale deployment -l app=volcano-scheduler"},
	}) {
		cluster := newHealthyCluster(t)
		setPolicyCondition(cluster, v1alpha1.ConditionEnforced, v1alpha1.ReasonStockScheduler, "another schedules instead")
		cluster.OtherSchedulers = tc.pods

		check.Equal(t, "command", "kubectl "+tc.want+" --replicas=0", Diagnose(cluster).Items[0].Command)
	}
}

// TestNoRulePanicsOnEmptyObjects: doctor runs on clusters in any state. It must neither panic without objects nor with
// objects that have no content.
func TestNoRulePanicsOnEmptyObjects(*testing.T) {
	Diagnose(&Cluster{})

	Diagnose(&Cluster{
		HasDeployments: true, HasWebhooks: true, HasPolicy: true, HasLease: true, HasUsage: true, HasQuotas: true,
		Cards:       card.NewInventory(nil),
		Policy:      &v1alpha1.ServiceTypePolicy{},
		Quotas:      []*v1alpha1.CardQuota{{}},
		Planned:     []*v1alpha1.CardQuota{{}, {}},
		PodGroups:   []*v1beta1.PodGroup{{}},
		Queues:      []*v1beta1.Queue{{}},
		Nodes:       []*corev1.Node{{}},
		Namespaces:  []*corev1.Namespace{{}},
		Inventory:   &v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{{}}, Anomalies: []v1alpha1.InventoryAnomaly{{}}},
		Operators:   []*appsv1.Deployment{{}},
		Definitions: []*apiextensionsv1.CustomResourceDefinition{{}},
		Pods:        []*corev1.Pod{{}},
	})
}
