package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Blocked returns why workloads wait, by the rules of the status of a CardQuota. pods are all that use
// cards and those that wait; groups are the PodGroups of those that wait. The entries are sorted by queue,
// and those of a queue by age.
func (c *Cluster) Blocked(pods []*corev1.Pod, groups []*v1beta1.PodGroup) []Waiting {
	tracker := c.Tracker()
	usages := queueusage.Count(queueusage.Input{
		Pods: pods, PodGroups: groups, Inventory: tracker.Inventory(), Nodes: tracker.Nodes(), Schedulers: c.Schedulers, ListsAllBlocked: true, Tree: c.tree(),
	})

	var found []Waiting
	for _, queue := range slices.Sorted(maps.Keys(usages)) {
		for _, entry := range usages[queue].Blocked {
			found = append(found, Waiting{queue, entry})
		}
	}

	return found
}

// BlockedByWorkload returns the reasons of each workload.
func BlockedByWorkload(waiting []Waiting) map[v1alpha1.WorkloadReference][]v1alpha1.BlockedStatus {
	found := map[v1alpha1.WorkloadReference][]v1alpha1.BlockedStatus{}
	for _, entry := range waiting {
		found[entry.Workload] = append(found[entry.Workload], entry.BlockedStatus)
	}
	return found
}

// tree returns the tree of the Queues, a flat one if the policy has none.
func (c *Cluster) tree() *quota.Tree {
	if !policy.IsTree(c.Policy) {
		return quota.Flat
	}

	return workload.TreeOf(c.Queues, policy.UnmanagedQueues(c.Policy))
}
