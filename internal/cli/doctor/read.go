package doctor

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/workload"
)

// readCluster reads everything that the rules of doctor look at.
func readCluster(ctx context.Context, r *reader.Reader, c *Cluster) error {
	readDeployments(ctx, r, c)
	readRunningSchedulers(ctx, r, c)
	readWebhooks(ctx, r, c)
	readObjects(ctx, r, c)
	readDefinitions(ctx, r, c)
	readUsage(ctx, r, c)
	c.Gaps = r.Gaps
	return r.Err()
}

// readDeployments reads the Deployments of both programs, and the namespace from them. Without a Deployment of
// the operator it reads the Lease of the operator.
func readDeployments(ctx context.Context, r *reader.Reader, c *Cluster) {
	var mayRead bool
	c.Operators, mayRead = r.Deployments(ctx, reader.OperatorProgram, c.Namespace)

	// The installation may be in any namespace, and later reads need to know which.
	if len(c.Operators) > 0 {
		c.Namespace = c.Operators[0].Namespace
	}

	c.Schedulers, c.HasDeployments = r.Deployments(ctx, reader.SchedulerProgram, c.Namespace)
	if len(c.Operators) == 0 && len(c.Schedulers) > 0 {
		c.Namespace = c.Schedulers[0].Namespace
	}

	c.HasDeployments = c.HasDeployments && mayRead
	if len(c.Operators) == 0 && c.HasDeployments { // it may run without a Deployment
		c.OperatorLease, mayRead = r.OperatorLease(ctx, c.Namespace)
		c.HidesOperatorLease = !mayRead
	}
}

// readRunningSchedulers reads the heartbeat of our scheduler, and other schedulers.
func readRunningSchedulers(ctx context.Context, r *reader.Reader, c *Cluster) {
	var pods []*corev1.Pod
	reader.ListInto(ctx, r, &corev1.PodList{}, &pods, client.MatchingLabels{workload.StockSchedulerLabel: workload.StockSchedulerApp})
	c.Lease, c.HasLease = reader.Find(ctx, r, client.ObjectKey{Namespace: c.Namespace, Name: enforcement.LeaseName}, &coordinationv1.Lease{})
	if c.HasLease { // without it our own pods are not known
		c.OtherSchedulers = otherSchedulers(slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !workload.MayBeRunning(pod) }), c.Lease)
	}
}

// otherSchedulers leaves out pods of Volcano's Deployment that run our scheduler: where only its image
// was replaced, the pod that sends the heartbeat and its replicas are ours.
func otherSchedulers(pods []*corev1.Pod, lease *coordinationv1.Lease) []*corev1.Pod {
	if lease == nil {
		return pods
	}
	report, err := enforcement.ReadReport(lease)
	if err != nil {
		return pods
	}

	var owner types.UID
	for _, pod := range pods {
		if found := enforcement.NewSchedulerPod(pod); found.Sent(report) {
			owner = found.Owner
		}
	}

	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return enforcement.NewSchedulerPod(pod).IsOurs(report, owner) })
}

// installationName is the name of both webhook configurations, and what the names of our
// ClusterServiceVersions begin with.
const installationName = "cardquota"

// readWebhooks reads the webhook configurations of Cardquota, and whether the user may read both kinds.
func readWebhooks(ctx context.Context, r *reader.Reader, c *Cluster) {
	mayReadValidating := reader.ListInto(ctx, r, &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &c.Validating)
	mayReadMutating := reader.ListInto(ctx, r, &admissionregistrationv1.MutatingWebhookConfigurationList{}, &c.Mutating)
	c.HasWebhooks = mayReadValidating && mayReadMutating
	c.Validating = slices.DeleteFunc(c.Validating, isForeign)
	c.Mutating = slices.DeleteFunc(c.Mutating, isForeign)
}

// isForeign reports whether a webhook configuration is of another program. OLM gives ours a name of its
// own, and a label with the name of our ClusterServiceVersion.
func isForeign[T client.Object](configuration T) bool {
	return configuration.GetName() != installationName && !strings.HasPrefix(configuration.GetLabels()[OLMOwnerLabel], installationName+".")
}

// readObjects reads the objects of Cardquota and the Queues, and which of their kinds the cluster lacks.
func readObjects(ctx context.Context, r *reader.Reader, c *Cluster) {
	c.Policy, c.HasPolicy = reader.Find(ctx, r, client.ObjectKey{Name: v1alpha1.PolicyName}, &v1alpha1.ServiceTypePolicy{})
	c.noteMissingKind(r, "ServiceTypePolicy")

	mayRead := reader.ListInto(ctx, r, &v1alpha1.CardQuotaList{}, &c.Quotas)
	isMissing := c.noteMissingKind(r, "CardQuota")
	c.HasQuotas = mayRead || isMissing // a cluster without the kind has none

	reader.ListInto(ctx, r, &v1beta1.QueueList{}, &c.Queues)
	c.noteMissingKind(r, "Queue")

	if r.Err() == nil { // no rule reads LocalCardQuotas, so a list of one is enough to see whether the kind exists
		r.Record(r.Client.List(ctx, &v1alpha1.LocalCardQuotaList{}, client.Limit(1)))
	}
	c.noteMissingKind(r, "LocalCardQuota")

	inventory, _ := reader.Find(ctx, r, client.ObjectKey{Name: v1alpha1.InventoryName}, &v1alpha1.CardInventory{})
	if inventory != nil {
		c.Inventory = &inventory.Status
	}
	c.noteMissingKind(r, "CardInventory")
}

// noteMissingKind notes that the cluster does not have a kind, if the last read failed for that, and reports
// whether it did.
func (c *Cluster) noteMissingKind(r *reader.Reader, kind string) bool {
	isMissing := r.IgnoreMissingKind()
	if isMissing {
		c.MissingKinds = append(c.MissingKinds, kind)
	}
	return isMissing
}

// readDefinitions reads the definitions of our kinds.
func readDefinitions(ctx context.Context, r *reader.Reader, c *Cluster) {
	if len(c.MissingKinds) > 0 {
		return
	}

	for _, plural := range []string{"cardquotas", "servicetypepolicies", "cardinventories", "localcardquotas"} {
		key := client.ObjectKey{Name: plural + "." + v1alpha1.GroupVersion.Group}
		definition, mayRead := reader.Find(ctx, r, key, &apiextensionsv1.CustomResourceDefinition{})
		if !mayRead {
			return // one gap says it for all
		}
		if definition != nil {
			c.Definitions = append(c.Definitions, definition)
		}
	}
}

// readUsage reads what runs, and counts it by the rules of the operator. HasUsage stays false if the user may
// not read all of it. A cluster without Volcano has no PodGroups, and is counted without them.
func readUsage(ctx context.Context, r *reader.Reader, c *Cluster) {
	// A count of a part of the pods would be wrong, so there is none.
	loaded := reader.ReadWorkloads(ctx, r)
	if loaded.LacksVolcano {
		c.MissingKinds = append(c.MissingKinds, "PodGroup")
	}
	if !loaded.IsComplete {
		return
	}

	tracker := loaded.Tracker()
	c.HasUsage = true
	c.Pods = loaded.Pods
	c.PodGroups = loaded.PodGroups
	c.Nodes = loaded.Nodes
	c.Cards = tracker.Inventory()
	c.Usage, c.Charges = queueusage.CountWithCharges(queueusage.Input{
		Pods: c.Pods, PodGroups: c.PodGroups, Inventory: c.Cards, Schedulers: c.spec().Scheduler.Names,
	})

	if c.Inventory == nil { // before the operator counts it
		c.Inventory = newInventoryStatus(c, tracker, reader.ReadDeviceSlices(ctx, r))
	}

	reader.ListInto(ctx, r, &corev1.NamespaceList{}, &c.Namespaces)
}

// newInventoryStatus returns what the operator would write to the status of the CardInventory, without what only it knows:
// the service types of queues, and names of cards that have changed. Without Volcano all pods are outside of queues, which
// is no anomaly then.
func newInventoryStatus(c *Cluster, tracker *card.Tracker, devices []cardinventory.DeviceSlice) *v1alpha1.CardInventoryStatus {
	charges := c.Charges
	if c.lacksVolcano() {
		charges = nil
	}

	// Queues without a CardQuota grant cards too, by the quota in their annotation.
	tree := cardquota.TreeInForce(c.Policy, c.Quotas, c.Queues)
	unowned := cardquota.UnownedQuotas(c.Quotas, tree.GrantingQueues(c.Queues))
	status := cardinventory.NewStatus(cardinventory.Input{Nodes: tracker.TrackedNodes(), Cards: c.Cards, DeviceSlices: devices, Count: cardinventory.NewCount(cardinventory.CountInput{
		Tree: tree, Pods: c.Pods, Charges: charges, Usage: c.Usage, Owners: cardquota.OwnersByQueue(c.Quotas), Queues: c.Queues,
		Totals: tree.QuotaTotals(c.Quotas, unowned, tracker.Healthy()),
	})})
	return &status
}
