package cardinventory

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestStatusSumsUpEachCard: the status sums up each card of the cluster. Of 3 nodes with 8 H200 each, one is cordoned
// and one not ready: 24 in total, 16 healthy, 8 cordoned. Pods use 3 + 2 + 1 of them, and pod w waits for 4. Quotas
// of H200 are 10 + 8, 2 more than are healthy; no node has the 1 NVIDIA-A100. Queue old has no CardQuota, so its
// quota of 2 Ascend-910B counts for no service type. Cards on nodes come first, then those with a quota, then those
// that pods only name. The summary has the cards on nodes, over-allocated ones first. The one anomaly is pod outside,
// which has no queue.
func TestStatusSumsUpEachCard(t *testing.T) {
	status := scene{
		nodes: []*corev1.Node{
			nodeWithEightH200("a").Obj(), nodeWithEightH200("b").Cordoned().Obj(), nodeWithEightH200("c").NotReady().Obj(),
			builder.Node("d").NPUs("Ascend-910B", 8).Obj(), builder.Node("e").Obj(),
		},
		pods: []*corev1.Pod{
			runningPod("p", "search", "a", 3), runningPod("q", "train", "b", 2), runningPod("outside", "", "a", 1),
			builder.Pod("lab", "w").Queue("train").Card("NVIDIA-H200").GPUs(4).Obj(),
			builder.Pod("lab", "typo").Queue("train").Card("NVIDIA-H2000").GPUs(1).Obj(),
		},
		quotas: []*v1alpha1.CardQuota{
			builder.CardQuota("search").ServiceType("inference").Card("NVIDIA-H200", 10).Obj(),
			builder.CardQuota("train").ServiceType("training").Card("NVIDIA-H200", 8).Card("NVIDIA-A100", 1).Obj(),
		},
		queues: []*v1beta1.Queue{builder.Queue("old").Quota(`{"Ascend-910B":2}`).Obj()},
	}.status()

	check.Equal(t, "cards", []v1alpha1.InventoryCard{
		{Name: "Ascend-910B", Resources: []string{"huawei.com/Ascend910"}, Total: 8, Healthy: 8, Quota: 2,
			ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "none", Quota: 2}}},
		{
			Name:            "NVIDIA-H200",
			Resources:       []string{"nvidia.com/gpu"},
			Total:           24,
			Healthy:         16,
			Cordoned:        8,
			Allocated:       6,
			Quota:           18,
			OverAllocatedBy: 2,
			ServiceTypes: []v1alpha1.InventoryServiceType{
				{Name: "inference", Quota: 10, Used: 3},
				{Name: "none", Used: 1},
				{Name: "training", Quota: 8, Used: 2, Pending: 4},
			},
		},
		{Name: "NVIDIA-A100", Quota: 1, OverAllocatedBy: 1, ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "training", Quota: 1}}},
		{Name: "NVIDIA-H2000", ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "training", Pending: 1}}},
	}, status.Cards)
	check.Equal(t, "summary", "6/24 NVIDIA-H200, 0/8 Ascend-910B", status.Summary)
	check.Equal(t, "nodes with cards, over-allocated cards and anomalies", [3]int32{4, 2, 1}, [3]int32{
		status.Nodes,
		status.OverAllocatedCards,
		status.AnomaliesTotal,
	})
}

// TestObservedPodsWithoutAQueueCountOnce: in mode Observe a pod that names no queue is in the usage of the queue of its
// namespace, and counts once. It is no anomaly there, whether a CardQuota counts it or not. In mode Enforce it is one.
func TestObservedPodsWithoutAQueueCountOnce(t *testing.T) {
	for t, queueOf := range check.Cases(t, map[string]string{"a CardQuota counts them by their namespace": "research", "no CardQuota counts them": ""}) {
		cluster := scene{
			nodes: []*corev1.Node{nodeWithEightH200("a").Obj()}, pods: []*corev1.Pod{runningPod("free", "", "a", 3)},
			quotas:           []*v1alpha1.CardQuota{builder.CardQuota("research").Card("NVIDIA-H200", 8).Obj()},
			queueOfNamespace: func(string) string { return queueOf },
		}
		status := cluster.status()
		check.Equal(t, "cards in use", int64(3), cardOf(status, "NVIDIA-H200").Allocated)
		check.Equal(t, "anomalies", 0, len(status.Anomalies))

		cluster.queueOfNamespace = nil
		check.Equal(t, "anomalies in mode Enforce", 1, len(cluster.status().Anomalies))
	}
}

// TestStatusOfAnEmptyCluster: a cluster without nodes has an empty list of cards, and the summary says none.
func TestStatusOfAnEmptyCluster(t *testing.T) {
	check.Equal(t, "status", v1alpha1.CardInventoryStatus{Summary: "none", Cards: []v1alpha1.InventoryCard{}}, scene{}.status())
}

// TestATreeIsCountedAtItsTopLevel: in a tree, the quota 8 of parent company contains those of its children. Queue
// old, which has no CardQuota, has 1, which contains the 1 of its child below-old. Together these are 9, 1 more than
// the 8 healthy cards. Company deserves 6 and old 1. By service type the leaves count. CardQuota gone is being
// deleted and counts for nothing. Flat queues deserve nothing.
func TestATreeIsCountedAtItsTopLevel(t *testing.T) {
	cluster := scene{
		nodes: []*corev1.Node{nodeWithEightH200("a").Obj()},
		pods:  []*corev1.Pod{runningPod("p", "search", "a", 2)},
		quotas: []*v1alpha1.CardQuota{
			quotaInTree("company", "", "", 8, 6),
			quotaInTree("search", "company", "inference", 8, 4),
			quotaInTree("train", "company", "training", 6, 2),
			quotaInTree("gone", "", "training", 5, 5),
		},
		queues: []*v1beta1.Queue{builder.Queue("old").Quota(`{"NVIDIA-H200":1}`).
			Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":1}`).Obj(),
			builder.Queue("below-old").Parent("old").Quota(`{"NVIDIA-H200":1}`).Obj()},
		isTree: true,
	}

	cluster.quotas[3].DeletionTimestamp = &metav1.Time{}
	check.Equal(t, "card", v1alpha1.InventoryCard{
		Name:            "NVIDIA-H200",
		Resources:       []string{"nvidia.com/gpu"},
		Total:           8,
		Healthy:         8,
		Allocated:       2,
		Quota:           9,
		Deserved:        7,
		OverAllocatedBy: 1,
		ServiceTypes: []v1alpha1.InventoryServiceType{
			{Name: "inference", Quota: 8, Used: 2},
			{Name: "none", Quota: 1},
			{Name: "training", Quota: 6},
		},
	}, cardOf(cluster.status(), "NVIDIA-H200"))

	cluster.isTree = false
	check.Equal(t, "deserved of flat queues", int64(0), cardOf(cluster.status(), "NVIDIA-H200").Deserved)
}

// TestTenantsDisplaceNoRealCard: the list of cards is bounded, and a tenant can name any number of cards in pods that
// wait. So cards of nodes, and cards with a quota, come before the cards that only pods name.
func TestTenantsDisplaceNoRealCard(t *testing.T) {
	cluster := scene{
		nodes:  []*corev1.Node{nodeWithEightH200("a").Obj()},
		quotas: []*v1alpha1.CardQuota{builder.CardQuota("q").Card("Z-Granted", 1).Obj()},
	}
	for i := range 2 * MaxCards {
		cluster.pods = append(cluster.pods, builder.Pod("lab", fmt.Sprint(i)).Queue("q").Card(fmt.Sprintf("A-%d", i)).GPUs(1).Obj())
	}
	cards := cluster.status().Cards
	check.Equal(t, "cards", MaxCards, len(cards))
	check.Equal(t, "the first cards", [2]string{"NVIDIA-H200", "Z-Granted"}, [2]string{cards[0].Name, cards[1].Name})
}

// TestServiceTypesAreBounded: a user can write any service type on a Queue. Invalid types, and those beyond the
// bound, count as "none". The sum over all types is still the quota of the card.
func TestServiceTypesAreBounded(t *testing.T) {
	cluster := scene{nodes: []*corev1.Node{nodeWithEightH200("a").Obj()}}
	types := []string{"", "Training", "a b", strings.Repeat("a", 64), "none"}
	for i := range 2 * MaxServiceTypes {
		types = append(types, fmt.Sprintf("t%02d", i))
	}

	for i, name := range types {
		queue := fmt.Sprint("q", i)
		cluster.queues = append(cluster.queues, builder.Queue(queue).ServiceType(name).Quota(`{"NVIDIA-H200":1}`).Obj())
	}

	entry := cardOf(cluster.status(), "NVIDIA-H200")
	check.Equal(t, "types", MaxServiceTypes, len(entry.ServiceTypes))

	var sum int64
	for _, row := range entry.ServiceTypes {
		sum += row.Quota
		check.That(t, row.Name == "none" || (row.Quota == 1 && strings.HasPrefix(row.Name, "t")), "type %q has a quota of %d", row.Name,
			row.Quota)
	}

	check.Equal(t, "the sum by type", entry.Quota, sum)
}

// drawScene draws nodes of two models or without labels, and pods and quotas of queues a, b and ghost, of which ghost
// does not exist.
func drawScene(t *rapid.T) scene {
	var cluster scene
	models := []string{"NVIDIA-H200", "NVIDIA-H800", ""}
	for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
		node := builder.Node(fmt.Sprintf("n%d", i)).GPUs(rapid.SampledFrom(models).Draw(t, "model"), rapid.IntRange(0, 8).Draw(t, "cards"))
		if rapid.Bool().Draw(t, "cordoned") {
			node.Cordoned()
		}
		if rapid.Bool().Draw(t, "not ready") {
			node.NotReady()
		}
		cluster.nodes = append(cluster.nodes, node.Obj())
	}

	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		b := builder.Pod("lab", fmt.Sprintf("p%d", i)).Queue(rapid.SampledFrom([]string{"", "a", "b", "ghost"}).Draw(t, "queue")).
			Card(rapid.SampledFrom([]string{"NVIDIA-H200", "NVIDIA-H800"}).Draw(t, "card")).GPUs(rapid.IntRange(0, 4).Draw(t, "count"))
		if node := rapid.IntRange(-1, 4).Draw(t, "node"); node >= 0 && node < len(cluster.nodes) && cluster.nodes[node].Labels["nvidia.com/gpu.product"] != "" {
			b.Running(cluster.nodes[node].Name)
		}
		cluster.pods = append(cluster.pods, b.Obj())
	}

	for queue, serviceType := range map[string]string{"a": "inference", "b": "training"} {
		cluster.quotas = append(cluster.quotas, builder.CardQuota(queue).ServiceType(serviceType).
			Card("NVIDIA-H200", int64(rapid.IntRange(0, 20).Draw(t, queue))).Obj())
	}

	return cluster
}

// recount counts one card of a scene by its definition.
func (cluster scene) recount(name string) v1alpha1.InventoryCard {
	var out v1alpha1.InventoryCard
	models := map[string]string{}
	for _, node := range cluster.nodes {
		models[node.Name] = node.Labels["nvidia.com/gpu.product"]
		cards := node.Status.Allocatable["nvidia.com/gpu"]
		if models[node.Name] != name {
			continue
		}

		out.Name = name
		out.Total += cards.Value()
		if node.Status.Conditions[0].Status == "True" {
			out.Healthy += cards.Value()
			if node.Spec.Unschedulable {
				out.Cordoned += cards.Value()
			}
		}
	}

	for _, pod := range cluster.pods {
		cards := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		if pod.Spec.NodeName != "" && models[pod.Spec.NodeName] == name {
			out.Name = name
			out.Allocated += cards.Value()
		}
	}

	for _, quota := range cluster.quotas {
		if quota.Spec.Cards[0].Name == name {
			out.Quota += *quota.Spec.Cards[0].Quota
		}
	}

	out.OverAllocatedBy = max(0, out.Quota-out.Healthy)
	return out
}

// TestStatusEqualsARecount: in random clusters, the numbers of each card equal those of recount, a plain loop over
// nodes, pods and quotas. Used cards and quotas by service type add up to those of the card.
func TestStatusEqualsARecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		cluster := drawScene(t)
		status := cluster.status()
		for _, name := range []string{"NVIDIA-H200", "NVIDIA-H800"} {
			got := cardOf(status, name)
			want := cluster.recount(name)

			var used, quota int64
			for _, row := range got.ServiceTypes {
				used += row.Used
				quota += row.Quota
			}

			check.Equal(t, name+": used and quota of all service types", [2]int64{want.Allocated, want.Quota}, [2]int64{used, quota})
			got.Resources = nil
			got.ServiceTypes = nil
			got.Name = ""
			want.Name = ""
			check.Equal(t, name, want, got)
		}
	})
}

// TestStatusSurvivesAnyTextOfAQueue: users can write any text into the annotations of a Queue. The status has valid
// card names all the same, in a tree and while queues are flat.
func TestStatusSurvivesAnyTextOfAQueue(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queue := builder.Queue("q").Annotation(v1alpha1.AnnotationCardQuota, rapid.String().Draw(t, "quota")).
			Annotation(v1alpha1.AnnotationCardDeserved, rapid.String().Draw(t, "deserved")).
			Annotation(v1alpha1.AnnotationServiceType, rapid.String().Draw(t, "type")).Obj()
		for _, isTree := range []bool{false, true} {
			for _, entry := range (scene{queues: []*v1beta1.Queue{queue}, isTree: isTree}).status().Cards {
				check.Value(card.ParseName(entry.Name))(t)
			}
		}
	})
}

// TestCountWithoutTotals: before the operator has counted CardQuotas, there are no totals of quotas. The status lists
// the card that a pod waits for already.
func TestCountWithoutTotals(t *testing.T) {
	count := NewCount(CountInput{Tree: cardquota.Flat, Usage: map[string]queueusage.Usage{
		"q": {Pending: map[card.Name]card.Count{"NVIDIA-H200": 1}},
	}})
	check.Equal(t, "cards", 1, len(NewStatus(Input{Count: count}).Cards))
}
