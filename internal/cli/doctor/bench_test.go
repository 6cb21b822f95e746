package doctor

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// largeCluster has queues with a CardQuota each that writes no CPU, and pods in all of them.
func largeCluster(b *testing.B, queues, pods int) *Cluster {
	c := &Cluster{Now: at, HasPolicy: true, HasQuotas: true, Policy: builder.ServiceTypePolicy().Obj(),
		Inventory: &v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{{Name: "NVIDIA-H200", Total: 8, Healthy: 8}}}}
	for i := range queues {
		name := fmt.Sprintf("queue-%d", i)
		c.Quotas = append(c.Quotas, builder.CardQuota(name).Card("NVIDIA-H200", 8).Obj())
		c.Queues = append(c.Queues, builder.Queue(name).Obj())
	}

	all := make([]*corev1.Pod, pods)
	for i := range all {
		group := fmt.Sprintf("group-%d", i/4)
		all[i] = builder.Pod("lab", fmt.Sprintf("pod-%d", i)).Queue(fmt.Sprintf("queue-%d", i%queues)).PodGroup(group).CPU("4").Running("h200-0").Obj()
		if i%4 == 0 {
			c.PodGroups = append(c.PodGroups, builder.PodGroup("lab", group).Queue(fmt.Sprintf("queue-%d", i%queues)).MinMember(4).Obj())
		}
	}

	count(c, all...)
	b.ResetTimer()
	return c
}

// BenchmarkDiagnose: the time grows with the pods, whatever the number of queues.
func BenchmarkDiagnose(b *testing.B) {
	for _, size := range []struct{ queues, pods int }{{10, 5_000}, {1_000, 5_000}, {10, 50_000}, {1_000, 50_000}} {
		b.Run(fmt.Sprintf("queues=%d/pods=%d", size.queues, size.pods), func(b *testing.B) {
			c := largeCluster(b, size.queues, size.pods)
			for b.Loop() {
				Diagnose(c)
			}
		})
	}
}

// BenchmarkPlan: a thousand new CardQuotas of twenty cards are validated one after the other.
func BenchmarkPlan(b *testing.B) {
	for _, hierarchy := range []v1alpha1.QueueHierarchy{v1alpha1.QueueHierarchyFlat, v1alpha1.QueueHierarchyTree} {
		b.Run(string(hierarchy), func(b *testing.B) {
			c := &Cluster{Now: at, HasPolicy: true, HasQuotas: true, Policy: builder.ServiceTypePolicy().Obj(), Queues: []*v1beta1.Queue{}}
			c.Policy.Spec.QueueHierarchy = hierarchy
			for i := range 1_000 {
				planned := builder.CardQuota(fmt.Sprintf("queue-%d", i))
				for j := range 20 {
					planned.Card(fmt.Sprintf("NVIDIA-%d", j), 8)
				}
				c.Planned = append(c.Planned, planned.Obj())
			}

			for b.Loop() {
				c.newPlan()
			}
		})
	}
}
