package cardinventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// nodeWithBrokenCards returns a node with 8 H200 of which only some are allocatable.
func nodeWithBrokenCards(name string, allocatable string) *corev1.Node {
	return nodeWithEightH200(name).With(func(node *corev1.Node) { node.Status.Allocatable[builder.GPU] = resource.MustParse(allocatable) }).Obj()
}

// withCards makes a node offer another number of cards than its labels say.
func withCards(count string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable[builder.GPU] = resource.MustParse(count)
		node.Status.Capacity[builder.GPU] = resource.MustParse(count)
	}
}

// withStaleCapacity makes a resource one that the device plugin no longer offers, and of which the kubelet keeps the
// capacity.
func withStaleCapacity(name corev1.ResourceName) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable[name] = resource.MustParse("0")
		node.Status.Capacity[name] = resource.MustParse("4")
	}
}

// TestAnomaliesSayWhatIsWrongAndWhatHelps: the CardInventory lists what is wrong with the cards of nodes, as
// anomalies. Each has a reason, its nodes, and in the message what would help. Unless it is about several
// resources, it says which one or which card, and how many. Each row is a cluster with exactly one anomaly.
// nodeWithEightH200 has 8 H200 and right labels. withStaleCapacity is a resource with 0 allocatable and a
// capacity of 4, which the kubelet keeps when a device plugin no longer offers it. Such cards are unhealthy,
// with two exceptions. Either software that shares cards offers some on the node. Or the same vendor offers
// another form, such as slices, and labels count and replicas do not say that it has the old one.
func TestAnomaliesSayWhatIsWrongAndWhatHelps(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene
		want         v1alpha1.InventoryAnomaly
		wantMessages []string
	}{
		"two of three nodes have no label of the model": {
			scene: scene{nodes: []*corev1.Node{
				builder.Node("b").GPUs("", 8).Obj(),
				builder.Node("a").GPUs("", 4).Obj(),
				nodeWithEightH200("c").Obj(),
			}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "NoModelLabel",
				Resource:   "nvidia.com/gpu",
				Count:      12,
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			wantMessages: []string{"nodes a, b: offers nvidia.com/gpu but no label nvidia.com/<type>.product with " +
				"nvidia.com/<type>.memory names the card",
				"no pod gets it: add these labels to the nodes, or name the card in spec.cards of the ServiceTypePolicy"},
		},
		"a node has no label, and another one names the resource": {
			scene: scene{nodes: []*corev1.Node{
				builder.Node("a").Resource("vendor.example/card", "4").Obj(),
				builder.Node("b").Label("vendor.example/card.product", "X").Label("vendor.example/card.memory", "1").
					Resource("vendor.example/card", "4").Obj(),
			}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "NoModelLabel",
				Resource:   "vendor.example/card",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"node a: offers vendor.example/card, a card of other nodes, but no label vendor.example/<type>.product"},
		},
		"a node lost its labels": {
			scene: scene{
				earlier: []*corev1.Node{builder.Node("a").Label("vendor.example/card.product", "X").
					Label("vendor.example/card.memory", "1").Resource("vendor.example/card", "4").Obj()},
				nodes: []*corev1.Node{builder.Node("a").Resource("vendor.example/card", "4").Obj()},
			},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "NoModelLabel",
				Resource:   "vendor.example/card",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"node a: offers vendor.example/card, which labels of nodes made a card, but no label " +
				"vendor.example/<type>.product",
				"the scheduler withholds it until it restarts, and then no quota limits it: add these labels to the nodes, or " +
					"name the card in spec.cards"},
		},
		"node b with labels is gone, and node a without labels is there": {
			scene: scene{
				earlier: []*corev1.Node{builder.Node("b").Label("amd.com/gpu.product", "X").Label("amd.com/gpu.memory", "1").
					Resource("amd.com/gpu", "4").Obj()},
				nodes: []*corev1.Node{builder.Node("a").Resource("amd.com/gpu", "4").Obj()},
			},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "NoModelLabel",
				Resource:   "amd.com/gpu",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"node a: offers amd.com/gpu, which labels of nodes made a card", "the scheduler withholds it until it restarts"},
		},
		"labels name two models": {
			scene:        scene{nodes: []*corev1.Node{nodeWithEightH200("a").NPUs("Ascend-910B", 8).Obj()}},
			want:         v1alpha1.InventoryAnomaly{Reason: "SeveralModels", NodesTotal: 1, Nodes: []string{"a"}},
			wantMessages: []string{"Ascend-910B, NVIDIA-H200", "keep the labels of one model"},
		},
		"one model could be either of two resources": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").NPUs("Ascend-910B", 8).
				Resource("huawei.com/Ascend310", "1").Obj()}},
			want:         v1alpha1.InventoryAnomaly{Reason: "AmbiguousResource", NodesTotal: 1, Nodes: []string{"a"}},
			wantMessages: []string{"could be any of the resources", "name the card of each in spec.cards of the ServiceTypePolicy"},
		},
		"label replicas is no number": {
			scene: scene{nodes: []*corev1.Node{nodeWithEightH200("a").MPS(2).Label("nvidia.com/gpu.replicas", "two").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "InvalidLabel",
				Resource:   "nvidia.com/gpu.shared",
				Count:      16,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{`nvidia.com/gpu.replicas="two"`, "correct the label"},
		},
		"a resource that looks like a card, which nothing names; another node has 0 of it": {
			scene: scene{nodes: []*corev1.Node{
				builder.Node("a").Resource("gpu.intel.com/xe", "2").Resource("rdma/hca", "1k").Obj(),
				builder.Node("b").Resource("gpu.intel.com/xe", "0").Obj(),
			}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "gpu.intel.com/xe",
				Count:      2,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"offers gpu.intel.com/xe, which looks like a card", "no quota limits it: name the card in " +
				"spec.cards of the ServiceTypePolicy, or add the labels gpu.intel.com/<type>.product"},
		},
		"pods use cards without a queue, and in a queue that does not exist": {
			scene: scene{
				nodes: []*corev1.Node{nodeWithEightH200("a").Obj(), nodeWithEightH200("b").Obj()},
				pods: []*corev1.Pod{
					runningPod("z", "", "b", 1),
					runningPod("p", "ghost", "a", 2),
					runningPod("q", "q", "a", 2),
					runningPod("c", "", "a", 0),
					builder.Pod("lab", "waits").Card("NVIDIA-H200").GPUs(1).Obj(),
				},
				quotas: []*v1alpha1.CardQuota{builder.CardQuota("q").Card("NVIDIA-H200", 4).Obj()},
			},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsOutsideQueues",
				Card:       "NVIDIA-H200",
				Count:      3,
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			wantMessages: []string{"nodes a, b: 3 NVIDIA-H200 held by pods lab/p, lab/z with no queue that exists (queue ghost)",
				"name a queue in these workloads, or delete them"},
		},
		"a pod uses a card without a queue": {
			scene: scene{nodes: []*corev1.Node{nodeWithEightH200("a").Obj()}, pods: []*corev1.Pod{runningPod("z", "", "a", 1)}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsOutsideQueues",
				Card:       "NVIDIA-H200",
				Count:      1,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"held by pod lab/z with no queue, or one that does not accept their namespace; no quota limits them"},
		},
		"1 of 8 cards is broken on one node, and all 8 on another": {
			scene: scene{nodes: []*corev1.Node{nodeWithBrokenCards("a", "7"), nodeWithBrokenCards("b", "0"), nodeWithEightH200("c").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				Count:      9,
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			wantMessages: []string{"nodes a, b: 9 NVIDIA-H200 not allocatable", "see its log and the events of the node"},
		},
		"two nodes offer 0 cards: the device plugin stopped": {
			scene: scene{nodes: []*corev1.Node{
				builder.Node("a").GPUs("NVIDIA-H200", 0).Resource("rdma/hca", "8").Resource("nvidia.com/hostdev", "8").Obj(),
				builder.Node("b").GPUs("NVIDIA-H200", 0).Obj(),
				nodeWithEightH200("c").Obj(),
			}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			wantMessages: []string{"nodes a, b: offers 0 nvidia.com/gpu, so its device plugin has stopped or finds no NVIDIA-H200; " +
				"see its log and the events of the node"},
		},
		"80 cards are offered, the label says 8: withheld": {
			scene: scene{nodes: []*corev1.Node{
				builder.Node("a").GPUs("NVIDIA-H200", 8).With(withCards("80")).Obj(),
				nodeWithEightH200("b").Obj(),
			}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "MoreThanLabelled",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				Count:      80,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"node a: offers 80 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; no new pod gets " +
				"one of them; if the device plugin shares cards: ",
				"name the shares in spec.cards of the ServiceTypePolicy"},
		},
		"9 cards are offered, the label says 8: pods get them": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 8).With(withCards("9")).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "MoreThanLabelled", // it names the card only where the node withholds it
				Resource:   "nvidia.com/gpu",
				Count:      9,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"offers 9 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; pods get each of them as " +
				"one NVIDIA-H200; "},
		},
		"cards that a node keeps for virtual machines": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").Label("nvidia.com/gpu.workload.config", "vm-passthrough").
				Resource("nvidia.com/GA100_A100_SXM4_40GB", "8").Resource("devices.kubevirt.io/kvm", "110").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "nvidia.com/GA100_A100_SXM4_40GB",
				Count:      8,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"no quota limits it: name the card in spec.cards of the ServiceTypePolicy"},
		},
		"only cores of cards are offered": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").Resource("tencent.com/vcuda-core", "800").
				Resource("tencent.com/vcuda-memory", "512").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "tencent.com/vcuda-core",
				Count:      800,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"offers tencent.com/vcuda-core, which looks like the cores of a card", "tencent.com/<type>.product"},
		},
		"cores beside their card, which nothing names: only the card": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").Resource("volcano.sh/vgpu-number", "40").
				Resource("volcano.sh/vgpu-cores", "400").Resource("volcano.sh/vgpu-memory", "98304").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "volcano.sh/vgpu-number",
				Count:      40,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"cores beside 0 of their card: the cores": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").Resource("volcano.sh/vgpu-number", "0").
				Resource("volcano.sh/vgpu-cores", "400").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "volcano.sh/vgpu-cores",
				Count:      400,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"cores beside a card of another vendor: the cores": {
			scene: scene{nodes: []*corev1.Node{nodeWithEightH200("a").Resource("cambricon.com/mlu.smlu.vcore", "800").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "cambricon.com/mlu.smlu.vcore",
				Count:      800,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"sharing software offers 80 cards, and the whole ones are stale": {
			scene: scene{nodes: []*corev1.Node{nodeWithEightH200("a").Label("nvidia.com/gpu.replicas", "1").
				Resource("volcano.sh/vgpu-number", "80").With(withStaleCapacity(builder.GPU)).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "volcano.sh/vgpu-number",
				Count:      80,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"sharing software offers cores, and 0 whole cards are left": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 0).Resource("tencent.com/vcuda-core", "800").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "tencent.com/vcuda-core",
				Count:      800,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"partitions that no mapping names, beside 0 whole cards that one names": {
			scene: scene{
				nodes: []*corev1.Node{builder.Node("a").Label("amd.com/gpu.product-name", "MI300X").
					Resource("amd.com/gpu", "0").Resource("amd.com/cpx_nps4", "64").Obj()},
				mappings: card.Mappings{{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"}},
			},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "amd.com/cpx_nps4",
				Count:      64,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all whole cards are broken, and slices are healthy": {
			scene: scene{nodes: []*corev1.Node{nodeWithEightH200("a").Label("nvidia.com/gpu.replicas", "1").MIG("1g.18gb", 28).
				With(withStaleCapacity(builder.GPU)).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all slices of a profile are broken, and those of another one healthy": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 0).
				Label("nvidia.com/gpu.replicas", "0").MIG("3g.71gb", 2).
				Label("nvidia.com/mig-1g.18gb.count", "4").Label("nvidia.com/mig-1g.18gb.replicas", "1").
				With(withStaleCapacity("nvidia.com/mig-1g.18gb")).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/mig-1g.18gb",
				Card:       "NVIDIA-H200/mig-1g.18gb-mixed",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all shares are broken, and slices are healthy": {
			scene: scene{nodes: []*corev1.Node{nodeWithEightH200("a").MPS(2).MIG("1g.18gb", 28).
				With(withStaleCapacity("nvidia.com/gpu.shared")).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu.shared",
				Card:       "NVIDIA-H200/mps-140g*1/2",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all shares under the cards' resource are broken, and slices are healthy": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200-SHARED", 8).
				Label("nvidia.com/gpu.replicas", "4").MIG("1g.18gb", 28).With(withStaleCapacity(builder.GPU)).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200-SHARED",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"the device plugin of one vendor stopped, that of another works": {
			scene: scene{
				nodes:    []*corev1.Node{nodeWithEightH200("a").Resource("amd.com/gpu", "0").Obj()},
				mappings: card.Mappings{{Resource: "amd.com/gpu", Model: "MI300X"}},
			},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "amd.com/gpu",
				Card:       "MI300X",
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			wantMessages: []string{"node a: offers 0 amd.com/gpu, so its device plugin has stopped or finds no MI300X"},
		},
	}) {
		status := tc.status()
		check.Must(t, len(status.Anomalies) == 1 && status.AnomaliesTotal == 1, "anomalies %+v", status.Anomalies)
		got := status.Anomalies[0]
		check.Contains(t, "message", got.Message, tc.wantMessages...)

		got.Message = ""
		check.Equal(t, "anomaly", tc.want, got)
	}
}

// TestCoresBesideStaleCards: sharing software offers cores of cards beside the cards. When the cards are removed, the
// kubelet keeps their capacity of 4 for a while, with 0 allocatable: CardsUnhealthy. If the cores are still offered
// then, they are an anomaly of their own, because no quota limits them. If the cores are removed with the cards, they
// are none.
func TestCoresBesideStaleCards(t *testing.T) {
	reasons := func(change func(*corev1.Node)) (found []v1alpha1.AnomalyReason) {
		cluster := scene{
			nodes: []*corev1.Node{builder.Node("a").Resource("volcano.sh/vgpu-number", "40").
				Resource("volcano.sh/vgpu-cores", "400").With(withStaleCapacity("volcano.sh/vgpu-number")).With(change).Obj()},
			mappings: card.Mappings{{Resource: "volcano.sh/vgpu-number", Model: "Tenth"}},
		}
		for _, anomaly := range cluster.status().Anomalies {
			found = append(found, anomaly.Reason)
		}
		return found
	}

	check.Equal(t, "reasons while cores are left", []v1alpha1.AnomalyReason{"UnmappedResource", "CardsUnhealthy"},
		reasons(func(*corev1.Node) {}))
	check.Equal(t, "reasons when the cores are removed, too", []v1alpha1.AnomalyReason{"CardsUnhealthy"},
		reasons(withStaleCapacity("volcano.sh/vgpu-cores")))
}

// TestACardThatOtherNodesWithhold: label vendor.example/card.family makes the resource a card of node b, without a
// name. Node a offers the same resource without any label. Both withhold it, and each has an anomaly that says which
// labels to add.
func TestACardThatOtherNodesWithhold(t *testing.T) {
	cluster := scene{nodes: []*corev1.Node{
		builder.Node("a").Resource("vendor.example/card", "4").Obj(),
		builder.Node("b").Label("vendor.example/card.family", "X").Resource("vendor.example/card", "4").Obj(),
	}}
	anomalies := cluster.status().Anomalies
	check.Equal(t, "anomalies", 2, len(anomalies))
	for _, anomaly := range anomalies {
		check.Contains(t, "message", anomaly.Message, "no pod gets it: add these labels")
	}
}

// TestAHealthyNodeHasNoAnomaly: none of these nodes needs an administrator. When cards are divided in another way,
// the kubelet keeps the old resource for a while, with a capacity of 4 and 0 allocatable. These are no broken cards
// as long as the labels do not say the old way.
func TestAHealthyNodeHasNoAnomaly(t *testing.T) {
	for name, node := range map[string]*builder.NodeBuilder{
		"whole cards":                    nodeWithEightH200("a"),
		"whole cards and slices":         nodeWithEightH200("a").MIG("1g.18gb", 7),
		"slices of all cards":            builder.Node("a").GPUs("NVIDIA-H200", 0).MIG("1g.18gb", 56),
		"MPS shares":                     nodeWithEightH200("a").MPS(2),
		"Ascend cards":                   builder.Node("a").NPUs("Ascend-910B", 8),
		"whole cards that became shares": nodeWithEightH200("a").MPS(2).With(withStaleCapacity(builder.GPU)),
		"shares that became whole cards": nodeWithEightH200("a").Label("nvidia.com/gpu.replicas", "1").
			With(withStaleCapacity("nvidia.com/gpu.shared")),
		"slices, and a stale profile without labels": builder.Node("a").GPUs("NVIDIA-H200", 0).MIG("3g.71gb", 2).
			With(withStaleCapacity("nvidia.com/mig-1g.18gb")),
		"slices that became another profile": builder.Node("a").GPUs("NVIDIA-H200", 0).
			Label("nvidia.com/mig-1g.18gb.count", "0").Label("nvidia.com/mig-1g.18gb.replicas", "1").MIG("3g.71gb", 2).
			With(withStaleCapacity("nvidia.com/mig-1g.18gb")),
		"whole cards that became slices": nodeWithEightH200("a").Label("nvidia.com/gpu.replicas", "0").MIG("1g.18gb", 56).
			With(withStaleCapacity(builder.GPU)),
		"shares that kept the name of their cards": builder.Node("a").GPUs("NVIDIA-H200-SHARED", 8).
			Label("nvidia.com/gpu.replicas", "2").With(withStaleCapacity("nvidia.com/gpu.shared")),
		"cores and memory beside a card with a name": nodeWithEightH200("a").Resource("nvidia.com/gpucores", "800").
			Resource("nvidia.com/gpumem", "800"),
		"a network device beside cards": nodeWithEightH200("a").Resource("nvidia.com/hostdev", "8"),
		"a node without cards":          builder.Node("a"),
		"a cordoned node":               nodeWithEightH200("a").Cordoned(),
	} {
		check.Equal(t, name, int32(0), scene{nodes: []*corev1.Node{node.Obj()}}.status().AnomaliesTotal)
	}
}

// TestAnomaliesAreSortedAndBounded: the API bounds the list of anomalies, and the nodes of each. Here 2 x
// MaxAnomalies nodes have a resource each that nothing names. 2 x MaxAnomalyNodes nodes have one anomaly together.
// Both lists are cut and sorted, and the totals and the message count all. MaxAnomalyNodes is 20.
func TestAnomaliesAreSortedAndBounded(t *testing.T) {
	var cluster scene
	for i := range 2 * MaxAnomalies {
		cluster.nodes = append(cluster.nodes, builder.Node(fmt.Sprintf("n%03d", i)).
			Resource(corev1.ResourceName(fmt.Sprintf("huawei.com/Ascend%d", i)), "1").Obj())
	}

	for i := range 2 * MaxAnomalyNodes {
		cluster.nodes = append(cluster.nodes, builder.Node(fmt.Sprintf("m%03d", i)).GPUs("", 1).Obj())
	}

	status := cluster.status()
	check.Equal(t, "anomalies", [2]int{MaxAnomalies, 2*MaxAnomalies + 1}, [2]int{len(status.Anomalies), int(status.AnomaliesTotal)})

	// Only the nodes that have one anomaly together are left.
	cluster.nodes = cluster.nodes[2*MaxAnomalies:]
	first := cluster.status().Anomalies[0]
	check.Equal(t, "nodes of the first", [2]int{MaxAnomalyNodes, 2 * MaxAnomalyNodes}, [2]int{len(first.Nodes), int(first.NodesTotal)})
	check.That(t, slices.IsSorted(first.Nodes), "the nodes are %v", first.Nodes)
	check.Contains(t, "message", first.Message, "nodes m000, m001, m002 and 37 more: ") // 2 x 20 nodes - 3

	names := make([]string, len(status.Anomalies))
	for i, anomaly := range status.Anomalies {
		names[i] = string(anomaly.Reason) + " " + anomaly.Resource
	}

	check.That(t, slices.IsSorted(names), "the anomalies are %v", names)
	check.Equal(t, "nodes with an anomaly", int32(2*(MaxAnomalies+MaxAnomalyNodes)), status.Nodes)
}

// TestAnomaliesWithoutALimitAreFirst: the list is bounded, so cards that no quota limits come first. Here these are
// the card of pod z, which has no queue, and resource gpu.intel.com/xe, which nothing names. Then come the many nodes
// whose device plugin stopped. The card of node unlabelled is withheld, so it is none of the first.
func TestAnomaliesWithoutALimitAreFirst(t *testing.T) {
	cluster := scene{pods: []*corev1.Pod{runningPod("z", "", "unlimited", 1)}}
	for i := range 2 * MaxAnomalies {
		cluster.nodes = append(cluster.nodes, builder.Node(fmt.Sprintf("n%03d", i)).GPUs(fmt.Sprintf("Model-%d", i), 0).Obj())
	}
	cluster.nodes = append(cluster.nodes, builder.Node("unlabelled").GPUs("", 1).Obj(), nodeWithEightH200("unlimited").
		Resource("gpu.intel.com/xe", "1").Obj())
	var reasons []v1alpha1.AnomalyReason
	for _, anomaly := range cluster.status().Anomalies[:3] {
		reasons = append(reasons, anomaly.Reason)
	}
	check.Equal(t, "reasons", []v1alpha1.AnomalyReason{"CardsOutsideQueues", "UnmappedResource", "CardsUnhealthy"}, reasons)
}

// TestReasonsAreThoseOfTheAPI: each reason of package card is one of the API, and has a remedy: a text that says,
// behind a colon, what to do.
func TestReasonsAreThoseOfTheAPI(t *testing.T) {
	api := []v1alpha1.AnomalyReason{
		v1alpha1.AnomalyNoModelLabel,
		v1alpha1.AnomalySeveralModels,
		v1alpha1.AnomalyAmbiguousResource,
		v1alpha1.AnomalyInvalidLabel,
		v1alpha1.AnomalyMoreThanLabelled,
	}

	for _, reason := range []card.AnomalyReason{
		card.NoModelLabel,
		card.SeveralModels,
		card.AmbiguousResource,
		card.InvalidLabel,
		card.MoreThanLabelled,
	} {
		check.That(t, slices.Contains(api, v1alpha1.AnomalyReason(reason)), "the API has no reason %s", reason)
		check.That(t, strings.Contains(remedies[reason], ": "), "%s does not say what to do: %q", reason, remedies[reason])
	}
}

// TestAResourceOfManyNodesIsJudgedOnce: whether a resource looks like a card depends on many patterns, too many to
// try for each of 5,000 nodes. Three nodes offer the same two resources: the list tries the patterns once for each
// resource. All 3 x 8 cards count in one anomaly.
func TestAResourceOfManyNodesIsJudgedOnce(t *testing.T) {
	asked := map[corev1.ResourceName]int{}
	list := anomalyList{byKey: map[anomalyKey]*anomalySum{}, looksLikeCard: askOnce(func(resource corev1.ResourceName) bool {
		asked[resource]++
		return resource == "a.b/card"
	})}

	for _, name := range []string{"a", "b", "c"} {
		object := builder.Node(name).Resource("a.b/card", "8").Resource("a.b/device", "8").Obj()
		list.addUnnamed(card.TrackedNode{NodeState: card.NodeState{Name: name}, Object: object}, card.NewInventory(nil))
	}

	check.Equal(t, "asked", map[corev1.ResourceName]int{"a.b/card": 1, "a.b/device": 1}, asked)
	check.Equal(t, "anomalies", 1, len(list.byKey))
	for _, sum := range list.byKey {
		check.Equal(t, "count", card.Count(24), sum.count)
	}
}
