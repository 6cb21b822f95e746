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
	reader.ListInto(ctx, r, &corev1.NodeList{}, &c.Nodes)
	reader.ListInto(ctx, r, &corev1.NamespaceList{}, &c.Namespaces)
	reader.ListInto(ctx, r, &corev1.PodList{}, &c.Pods)
	reader.ListInto(ctx, r, &v1beta1.QueueList{}, &c.Queues)
	reader.ListInto(ctx, r, &v1beta1.PodGroupList{}, &c.PodGroups)
	reader.ListInto(ctx, r, &batchv1alpha1.JobList{}, &c.Jobs)
	reader.ListInto(ctx, r, &batchv1.JobList{}, &c.KubernetesJobs)
	reader.ListInto(ctx, r, &schedulingv1.PriorityClassList{}, &c.PriorityClasses)
	reader.ListInto(ctx, r, &policyv1.PodDisruptionBudgetList{}, &c.Budgets)

	configuration, err := readConfiguration(ctx, r, systemNamespace, c)
	if err != nil {
		return nil, "", err
	}
	if len(r.Gaps) > 0 {
		return nil, "", fmt.Errorf("the scheduler decides by all of the cluster, and you may not read all of it: %s", strings.Join(r.Gaps, "; "))
	}

	return c, configuration, nil
}

// changeCluster applies the flags to a snapshot: first nodes are added, last nodes are drained, so that an added
// one can be drained too.
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

	changes.noteRefusals()
	r.Notes = append(r.Notes, changes.notes...)
	return nil
}
