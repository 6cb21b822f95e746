package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/diagnosis"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

func (p *program) newDoctorCommand() *cobra.Command {
	namespace := defaultSystemNamespace
	var files manifestFiles
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong, and what the handover would change",
		Long: paragraphs("Checks the whole installation, and prints each finding with the command that mends it. Before the handover it also says what would change: "+
			"queues without a quota, nodes without labels, pods that would no longer be placed. With --filename it assumes that the CardQuotas in these files are applied, "+
			"and names those that the operator would refuse. It writes nothing to the cluster.",
			fmt.Sprintf("The exit code is 0 without a finding or with infos only, %d with warnings, %d with errors, and 1 if it could not look, also if you may read nothing.", diagnosis.ExitWarnings, diagnosis.ExitErrors)),
		Example: "  kubectl cardquota doctor\n  kubectl cardquota import > quotas.yaml && kubectl cardquota doctor -f quotas.yaml",
		Args:    refuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			planned, sources, err := files.readCardQuotas(p.streams.In)
			if err != nil {
				return err
			}

			c, err := p.connect()
			if err != nil {
				return err
			}

			cluster := &diagnosis.Cluster{Now: p.now(), ClientVersion: build.Version, Namespace: namespace, Planned: planned, Files: sources}
			r := &reader{client: c}
			if err := readCluster(cmd.Context(), r, cluster); err != nil {
				return err
			}

			report := diagnosis.Diagnose(cluster)
			if err := p.print(report, report.Write); err != nil {
				return err
			}
			if !r.hasRead {
				return errors.New("you may read nothing of what doctor looks at")
			}
			if code := report.ExitCode(); code != exitOK {
				return exitCode(code)
			}

			return nil
		},
	}

	p.addOutputFlag(cmd)
	p.addSystemNamespaceFlag(cmd, &namespace)
	files.addFlags(cmd, "Files, folders or URLs with CardQuotas that will be applied; - is the standard input.")

	return cmd
}

// readCluster reads everything that the rules of doctor look at.
func readCluster(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	for _, read := range []func(context.Context, *reader, *diagnosis.Cluster) error{
		readPrograms, readWebhooks, readPolicy, readQuotas, readDefinitions, readUsage,
	} {
		if err := read(ctx, r, c); err != nil {
			return err
		}
	}
	c.Gaps = r.gaps
	return nil
}

// readPrograms reads both programs, and other schedulers.
func readPrograms(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	if err := readDeployments(ctx, r, c); err != nil {
		return err
	}
	return readRunningSchedulers(ctx, r, c)
}

// readDeployments reads the Deployments of both programs, and the namespace from them. Without a Deployment of
// the operator it reads the Lease of the operator.
func readDeployments(ctx context.Context, r *reader, c *diagnosis.Cluster) (err error) {
	var mayRead bool
	c.Operators, mayRead, err = r.deploymentsOf(ctx, "cardquota-manager", c.Namespace)
	if err != nil {
		return err
	}

	if len(c.Operators) > 0 {
		c.Namespace = c.Operators[0].Namespace
	}

	c.Schedulers, c.HasDeployments, err = r.deploymentsOf(ctx, "cardquota-scheduler", c.Namespace)
	if err != nil {
		return err
	}

	if len(c.Operators) == 0 && len(c.Schedulers) > 0 {
		c.Namespace = c.Schedulers[0].Namespace
	}

	c.HasDeployments = c.HasDeployments && mayRead
	if len(c.Operators) == 0 && c.HasDeployments { // it may run without a Deployment
		c.OperatorLease, mayRead, err = r.operatorLease(ctx, c.Namespace)
		if err != nil {
			return err
		}
		c.HidesOperatorLease = !mayRead
	}

	return nil
}

// readRunningSchedulers reads the heartbeat of our scheduler, and other schedulers.
func readRunningSchedulers(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	var pods []*corev1.Pod
	_, err := listInto(ctx, r, func() client.ObjectList { return &corev1.PodList{} }, &pods, client.MatchingLabels{workload.StockSchedulerLabel: workload.StockSchedulerApp})
	if err != nil {
		return err
	}

	lease := &coordinationv1.Lease{}
	exists, hasLease, err := r.lookUp(ctx, client.ObjectKey{Namespace: c.Namespace, Name: enforcement.LeaseName}, lease)
	if err != nil {
		return err
	}

	c.HasLease = hasLease
	if exists {
		c.Lease = lease
	}

	if hasLease { // without it our own pods are not known
		c.OtherSchedulers = otherSchedulers(slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !workload.MayBeRunning(pod) }), c.Lease)
	}

	return nil
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

// webhookConfiguration is the name of both webhook configurations, and what the names of our
// ClusterServiceVersions begin with.
const webhookConfiguration = "cardquota"

func readWebhooks(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	mayReadAll, err := listInto(ctx, r, func() client.ObjectList { return &admissionregistrationv1.ValidatingWebhookConfigurationList{} }, &c.Validating)
	if err != nil {
		return err
	}
	mayRead, err := listInto(ctx, r, func() client.ObjectList { return &admissionregistrationv1.MutatingWebhookConfigurationList{} }, &c.Mutating)
	c.HasWebhooks = mayReadAll && mayRead
	c.Validating = slices.DeleteFunc(c.Validating, isForeign)
	c.Mutating = slices.DeleteFunc(c.Mutating, isForeign)
	return err
}

// isForeign reports whether a webhook configuration is of another program. OLM gives ours a name of its
// own, and a label with the name of our ClusterServiceVersion.
func isForeign[T client.Object](configuration T) bool {
	return configuration.GetName() != webhookConfiguration && !strings.HasPrefix(configuration.GetLabels()[diagnosis.OLMOwnerLabel], webhookConfiguration+".")
}

func readPolicy(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	object := &v1alpha1.ServiceTypePolicy{}
	exists, mayRead, err := r.lookUp(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, object)
	c.HasPolicy = mayRead
	if exists {
		c.Policy = object
	}
	if isNotInstalled(err) {
		c.MissingKinds = append(c.MissingKinds, "ServiceTypePolicy")
		return nil
	}
	return err
}

func readQuotas(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	for _, list := range []struct {
		kind string
		read func() error
	}{
		{"CardQuota", func() (err error) {
			c.HasQuotas, err = listInto(ctx, r, newCardQuotaList, &c.Quotas)
			c.HasQuotas = c.HasQuotas || isNotInstalled(err)
			return err
		}},
		{"Queue", func() error {
			_, err := listInto(ctx, r, newQueueList, &c.Queues)
			return err
		}},
		{"LocalCardQuota", func() error {
			_, err := r.tolerate(r.client.List(ctx, &v1alpha1.LocalCardQuotaList{}, client.Limit(1)))
			return err
		}},
		{"CardInventory", func() error {
			inventory := &v1alpha1.CardInventory{}
			exists, _, err := r.lookUp(ctx, client.ObjectKey{Name: v1alpha1.InventoryName}, inventory)
			if exists {
				c.Inventory = &inventory.Status
			}
			return err
		}},
	} {
		if err := list.read(); isNotInstalled(err) {
			c.MissingKinds = append(c.MissingKinds, list.kind)
		} else if err != nil {
			return err
		}
	}

	return nil
}

// readDefinitions reads the definitions of our kinds.
func readDefinitions(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	if len(c.MissingKinds) > 0 {
		return nil
	}

	for _, plural := range []string{"cardquotas", "servicetypepolicies", "cardinventories", "localcardquotas"} {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		exists, mayRead, err := r.lookUp(ctx, client.ObjectKey{Name: plural + "." + v1alpha1.GroupVersion.Group}, definition)
		if err != nil {
			return err
		}
		if !mayRead {
			return nil // one gap says it for all
		}

		if exists {
			c.Definitions = append(c.Definitions, definition)
		}
	}
	return nil
}

// readUsage reads what runs, and counts it by the rules of the operator.
func readUsage(ctx context.Context, r *reader, c *diagnosis.Cluster) error {
	loaded, err := readWorkloads(ctx, r)
	if isNotInstalled(err) {
		c.MissingKinds = append(c.MissingKinds, "PodGroup")
		return nil
	}
	if err != nil || !loaded.isComplete {
		return err
	}

	spec := policy.Effective(v1alpha1.ServiceTypePolicySpec{})
	if c.Policy != nil {
		spec = policy.Effective(c.Policy.Spec)
	}

	tracker := loaded.tracker()
	c.HasUsage = true
	c.Pods = loaded.pods
	c.PodGroups = loaded.podGroups
	c.Nodes = loaded.nodes
	c.Cards = tracker.Inventory()
	c.Usage, c.Charges = cardquota.CountUsageAndCharges(cardquota.CountInput{
		Pods: c.Pods, PodGroups: c.PodGroups, Inventory: c.Cards, Schedulers: spec.Scheduler.Names,
	})

	if c.Inventory == nil { // before the operator counts it
		status := cardinventory.NewStatus(cardinventory.Input{Nodes: tracker.TrackedNodes(), Cards: c.Cards, Count: newInventoryCount(c, tracker)})
		c.Inventory = &status
	}

	_, err = listInto(ctx, r, func() client.ObjectList { return &corev1.NamespaceList{} }, &c.Namespaces)
	return err
}

// newInventoryCount sums up a count by card, as the operator does while queues are flat.
func newInventoryCount(c *diagnosis.Cluster, tracker *card.Tracker) *cardinventory.Count {
	owners := map[string]*v1alpha1.CardQuota{}
	for _, quota := range c.Quotas {
		owners[quota.QueueName()] = quota
	}
	totals := cardquota.NewQuotaTotals(c.Quotas, cardquota.UnownedQuotas(c.Quotas, c.Queues), tracker.Healthy())
	return cardinventory.NewCount(cardinventory.CountInput{
		Pods: c.Pods, Charges: c.Charges, Usage: c.Usage, Owners: owners, Queues: c.Queues, Totals: totals,
	})
}
