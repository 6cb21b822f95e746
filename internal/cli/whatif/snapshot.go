package whatif

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/simulation"
)

// readSimulated reads all that the scheduler reads, and its configuration. Without all of it the answer
// would be another one than the scheduler's, so a missing right is an error.
func readSimulated(ctx context.Context, r *reader.Reader, systemNamespace string) (*simulation.Cluster, string, error) {
	c := &simulation.Cluster{}
	for _, read := range []func(context.Context, *reader.Reader) error{
		listInto(&corev1.NodeList{}, &c.Nodes), listInto(&corev1.NamespaceList{}, &c.Namespaces), listInto(&corev1.PodList{}, &c.Pods),
		listInto(&v1beta1.QueueList{}, &c.Queues), listInto(&v1beta1.PodGroupList{}, &c.PodGroups),
		listInto(&batchv1alpha1.JobList{}, &c.Jobs), listInto(&batchv1.JobList{}, &c.KubernetesJobs),
		listInto(&schedulingv1.PriorityClassList{}, &c.PriorityClasses), listInto(&policyv1.PodDisruptionBudgetList{}, &c.Budgets),
	} {
		if err := read(ctx, r); err != nil {
			return nil, "", err
		}
	}

	configuration, err := readConfiguration(ctx, r, systemNamespace, c)
	if err != nil {
		return nil, "", err
	}
	if len(r.Gaps) > 0 {
		return nil, "", fmt.Errorf("the scheduler decides by all of the cluster, and you may not read all of it: %s", strings.Join(r.Gaps, "; "))
	}

	return c, configuration, nil
}

// listInto returns a function that lists all objects of a kind, which an empty list names.
func listInto[T client.Object](kind client.ObjectList, into *[]T) func(context.Context, *reader.Reader) error {
	return func(ctx context.Context, r *reader.Reader) error {
		_, err := reader.ListInto(ctx, r, kind, into)
		return err
	}
}

// changeCluster applies the flags to a snapshot: first what is added, then what is drained.
func (asked *whatIf) changeCluster(ctx context.Context, r *reader.Reader, cluster *simulation.Cluster) error {
	for _, text := range asked.additions {
		count, name, ok := strings.Cut(text, ":")
		n, err := strconv.Atoi(count)
		parsed, nameErr := card.ParseName(name)
		if !ok || err != nil || nameErr != nil {
			return fmt.Errorf("--add-nodes %s: write N:CARD, such as 2:NVIDIA-H200", text)
		}
		if err := cluster.AddNodes(n, parsed); err != nil {
			return fmt.Errorf("--add-nodes %s: %w", text, err)
		}
	}

	if err := asked.changeQuotas(ctx, r, cluster); err != nil {
		return err
	}

	for _, node := range asked.drained {
		if err := cluster.Drain(node); err != nil {
			return fmt.Errorf("--drain %s: %w", node, err)
		}
	}

	return nil
}

// changeQuotas applies --quota, and notes what it leaves and what admission would refuse.
func (asked *whatIf) changeQuotas(ctx context.Context, r *reader.Reader, cluster *simulation.Cluster) error {
	if len(asked.quotas) == 0 {
		return nil
	}
	changes, err := newQuotaChanges(ctx, r, cluster)
	if err != nil {
		return err
	}

	for _, text := range asked.quotas {
		if err := changes.apply(ctx, text); err != nil {
			return fmt.Errorf("--quota %s: %w", text, err)
		}
	}

	changes.judge()
	r.Notes = append(r.Notes, changes.notes...)
	return nil
}
