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

// broken returns a node of which some cards are not allocatable.
func broken(name string, allocatable string) *corev1.Node {
	return h200(name).With(func(n *corev1.Node) { n.Status.Allocatable[builder.GPU] = resource.MustParse(allocatable) }).Obj()
}

// oversold makes a node offer another number of cards than its labels say.
func oversold(count string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable[builder.GPU] = resource.MustParse(count)
		n.Status.Capacity[builder.GPU] = resource.MustParse(count)
	}
}

// stale makes a resource one that the device plugin no longer offers, and of which the kubelet keeps the
// capacity.
func stale(name corev1.ResourceName) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable[name] = resource.MustParse("0")
		n.Status.Capacity[name] = resource.MustParse("4")
	}
}

func TestAnomalies(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene
		want    v1alpha1.InventoryAnomaly
		message []string
	}{
		"no model label": {
			scene: scene{nodes: []*corev1.Node{builder.Node("b").GPUs("", 8).Obj(), builder.Node("a").GPUs("", 4).Obj(), h200("c").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "NoModelLabel",
				Resource:   "nvidia.com/gpu",
				Count:      12,
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			message: []string{"nodes a, b: offers nvidia.com/gpu but no label nvidia.com/<type>.product with " +
				"nvidia.com/<type>.memory names the card",
				"no pod gets it: add these labels to the nodes, or name the card in spec.cards of the ServiceTypePolicy"},
		},
		"a card of other nodes": {
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
			message: []string{"node a: offers vendor.example/card, a card of other nodes, but no label vendor.example/<type>.product"},
		},
		"labels that are lost": {
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
			message: []string{"node a: offers vendor.example/card, which labels of nodes made a card, but no label " +
				"vendor.example/<type>.product",
				"the scheduler withholds it until it restarts, and then no quota limits it: add these labels to the nodes, or " +
					"name the card in spec.cards"},
		},
		"the only labelled node leaves": {
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
			message: []string{"node a: offers amd.com/gpu, which labels of nodes made a card", "the scheduler withholds it until it restarts"},
		},
		"several models": {
			scene:   scene{nodes: []*corev1.Node{h200("a").NPUs("Ascend-910B", 8).Obj()}},
			want:    v1alpha1.InventoryAnomaly{Reason: "SeveralModels", NodesTotal: 1, Nodes: []string{"a"}},
			message: []string{"Ascend-910B, NVIDIA-H200", "keep the labels of one model"},
		},
		"two candidates": {
			scene:   scene{nodes: []*corev1.Node{builder.Node("a").NPUs("Ascend-910B", 8).Resource("huawei.com/Ascend310", "1").Obj()}},
			want:    v1alpha1.InventoryAnomaly{Reason: "AmbiguousResource", NodesTotal: 1, Nodes: []string{"a"}},
			message: []string{"could be any of the resources", "name the card of each in spec.cards of the ServiceTypePolicy"},
		},
		"a label that cannot be read": {
			scene: scene{nodes: []*corev1.Node{h200("a").MPS(2).Label("nvidia.com/gpu.replicas", "two").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "InvalidLabel",
				Resource:   "nvidia.com/gpu.shared",
				Count:      16,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{`nvidia.com/gpu.replicas="two"`, "correct the label"},
		},
		"a resource that looks like a card": {
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
			message: []string{"offers gpu.intel.com/xe, which looks like a card", "no quota limits it: name the card in " +
				"spec.cards of the ServiceTypePolicy, or add the labels gpu.intel.com/<type>.product"},
		},
		"cards outside any queue": {
			scene: scene{
				nodes: []*corev1.Node{h200("a").Obj(), h200("b").Obj()},
				pods: []*corev1.Pod{
					running("z", "", "b", 1),
					running("p", "ghost", "a", 2),
					running("q", "q", "a", 2),
					running("c", "", "a", 0),
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
			message: []string{"nodes a, b: 3 NVIDIA-H200 held by pods lab/p, lab/z with no queue that exists (queue ghost)",
				"name a queue in these workloads, or delete them"},
		},
		"cards of pods without a queue": {
			scene: scene{nodes: []*corev1.Node{h200("a").Obj()}, pods: []*corev1.Pod{running("z", "", "a", 1)}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsOutsideQueues",
				Card:       "NVIDIA-H200",
				Count:      1,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{"held by pod lab/z with no queue, or one that does not accept their namespace; no quota limits them"},
		},
		"broken cards": {
			scene: scene{nodes: []*corev1.Node{broken("a", "7"), broken("b", "0"), h200("c").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				Count:      9,
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			message: []string{"nodes a, b: 9 NVIDIA-H200 not allocatable", "see its log and the events of the node"},
		},
		"a device plugin that stopped": {
			scene: scene{nodes: []*corev1.Node{
				builder.Node("a").GPUs("NVIDIA-H200", 0).Resource("rdma/hca", "8").Resource("nvidia.com/hostdev", "8").Obj(),
				builder.Node("b").GPUs("NVIDIA-H200", 0).Obj(),
				h200("c").Obj(),
			}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				NodesTotal: 2,
				Nodes:      []string{"a", "b"},
			},
			message: []string{"nodes a, b: offers 0 nvidia.com/gpu, so its device plugin has stopped or finds no NVIDIA-H200; " +
				"see its log and the events of the node"},
		},
		"shares of which the labels know nothing": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 8).With(oversold("80")).Obj(), h200("b").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "MoreThanLabelled",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				Count:      80,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{"node a: offers 80 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; no new pod gets " +
				"one of them; if the device plugin shares cards: ",
				"name the shares in spec.cards of the ServiceTypePolicy"},
		},
		"one card more than labelled": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 8).With(oversold("9")).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "MoreThanLabelled",
				Resource:   "nvidia.com/gpu",
				Count:      9,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{"offers 9 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; pods get each of them as " +
				"one NVIDIA-H200; "},
		},
		"cards of virtual machines": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").Label("nvidia.com/gpu.workload.config", "vm-passthrough").
				Resource("nvidia.com/GA100_A100_SXM4_40GB", "8").Resource("devices.kubevirt.io/kvm", "110").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "nvidia.com/GA100_A100_SXM4_40GB",
				Count:      8,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{"no quota limits it: name the card in spec.cards of the ServiceTypePolicy"},
		},
		"cores that stand alone": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").Resource("tencent.com/vcuda-core", "800").
				Resource("tencent.com/vcuda-memory", "512").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "tencent.com/vcuda-core",
				Count:      800,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{"offers tencent.com/vcuda-core, which looks like the cores of a card", "tencent.com/<type>.product"},
		},
		"cores beside a card": {
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
		"cores beside a card of which none is left": {
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
		"cores beside another vendor's card": {
			scene: scene{nodes: []*corev1.Node{h200("a").Resource("cambricon.com/mlu.smlu.vcore", "800").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "cambricon.com/mlu.smlu.vcore",
				Count:      800,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"shared cards whose whole ones went": {
			scene: scene{nodes: []*corev1.Node{h200("a").Label("nvidia.com/gpu.replicas", "1").
				Resource("volcano.sh/vgpu-number", "80").With(stale(builder.GPU)).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "volcano.sh/vgpu-number",
				Count:      80,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"cores of shared cards whose whole ones went": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 0).Resource("tencent.com/vcuda-core", "800").Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "UnmappedResource",
				Resource:   "tencent.com/vcuda-core",
				Count:      800,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"partitions that nothing names": {
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
		"all whole cards beside healthy slices": {
			scene: scene{nodes: []*corev1.Node{h200("a").Label("nvidia.com/gpu.replicas", "1").MIG("1g.18gb", 28).
				With(stale(builder.GPU)).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all slices of a profile beside another one": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200", 0).
				Label("nvidia.com/gpu.replicas", "0").MIG("3g.71gb", 2).
				Label("nvidia.com/mig-1g.18gb.count", "4").Label("nvidia.com/mig-1g.18gb.replicas", "1").
				With(stale("nvidia.com/mig-1g.18gb")).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/mig-1g.18gb",
				Card:       "NVIDIA-H200/mig-1g.18gb-mixed",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all shares beside healthy slices": {
			scene: scene{nodes: []*corev1.Node{h200("a").MPS(2).MIG("1g.18gb", 28).With(stale("nvidia.com/gpu.shared")).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu.shared",
				Card:       "NVIDIA-H200/mps-140g*1/2",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"all shares of the same name beside healthy slices": {
			scene: scene{nodes: []*corev1.Node{builder.Node("a").GPUs("NVIDIA-H200-SHARED", 8).
				Label("nvidia.com/gpu.replicas", "4").MIG("1g.18gb", 28).With(stale(builder.GPU)).Obj()}},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "nvidia.com/gpu",
				Card:       "NVIDIA-H200-SHARED",
				Count:      4,
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
		},
		"a device plugin that stopped beside another vendor's": {
			scene: scene{
				nodes:    []*corev1.Node{h200("a").Resource("amd.com/gpu", "0").Obj()},
				mappings: card.Mappings{{Resource: "amd.com/gpu", Model: "MI300X"}},
			},
			want: v1alpha1.InventoryAnomaly{
				Reason:     "CardsUnhealthy",
				Resource:   "amd.com/gpu",
				Card:       "MI300X",
				NodesTotal: 1,
				Nodes:      []string{"a"},
			},
			message: []string{"node a: offers 0 amd.com/gpu, so its device plugin has stopped or finds no MI300X"},
		},
	}) {
		status := tc.status()
		check.Must(t, len(status.Anomalies) == 1 && status.AnomaliesTotal == 1, "anomalies %+v", status.Anomalies)
		got := status.Anomalies[0]
		check.Contains(t, "message", got.Message, tc.message...)

		got.Message = ""
		check.Equal(t, "anomaly", tc.want, got)
	}
}

// TestCoresBesideStaleCards: the kubelet keeps the capacity of cards for a while, which stand for no cores.
func TestCoresBesideStaleCards(t *testing.T) {
	reasons := func(change func(*corev1.Node)) (found []v1alpha1.AnomalyReason) {
		w := scene{
			nodes: []*corev1.Node{builder.Node("a").Resource("volcano.sh/vgpu-number", "40").
				Resource("volcano.sh/vgpu-cores", "400").With(stale("volcano.sh/vgpu-number")).With(change).Obj()},
			mappings: card.Mappings{{Resource: "volcano.sh/vgpu-number", Model: "Tenth"}},
		}
		for _, anomaly := range w.status().Anomalies {
			found = append(found, anomaly.Reason)
		}
		return found
	}

	check.Equal(t, "cores that are left", []v1alpha1.AnomalyReason{"UnmappedResource", "CardsUnhealthy"}, reasons(func(*corev1.Node) {}))
	check.Equal(t, "cores that broke with their cards", []v1alpha1.AnomalyReason{"CardsUnhealthy"}, reasons(stale("volcano.sh/vgpu-cores")))
}

// TestACardThatOtherNodesWithhold: the scheduler sees these nodes after a restart, too.
func TestACardThatOtherNodesWithhold(t *testing.T) {
	w := scene{nodes: []*corev1.Node{
		builder.Node("a").Resource("vendor.example/card", "4").Obj(),
		builder.Node("b").Label("vendor.example/card.family", "X").Resource("vendor.example/card", "4").Obj(),
	}}
	anomalies := w.status().Anomalies
	check.Equal(t, "anomalies", 2, len(anomalies))
	for _, anomaly := range anomalies {
		check.Contains(t, "message", anomaly.Message, "no pod gets it: add these labels")
	}
}

func TestAHealthyNodeHasNoAnomaly(t *testing.T) {
	for name, node := range map[string]*builder.NodeBuilder{
		"whole":                          h200("a"),
		"MIG":                            h200("a").MIG("1g.18gb", 7),
		"MIG of all cards":               builder.Node("a").GPUs("NVIDIA-H200", 0).MIG("1g.18gb", 56),
		"MPS":                            h200("a").MPS(2),
		"NPU":                            builder.Node("a").NPUs("Ascend-910B", 8),
		"whole cards that became shares": h200("a").MPS(2).With(stale(builder.GPU)),
		"shares that became whole cards": h200("a").Label("nvidia.com/gpu.replicas", "1").With(stale("nvidia.com/gpu.shared")),
		"another MIG profile": builder.Node("a").GPUs("NVIDIA-H200", 0).MIG("3g.71gb", 2).
			With(stale("nvidia.com/mig-1g.18gb")),
		"slices that became another profile": builder.Node("a").GPUs("NVIDIA-H200", 0).
			Label("nvidia.com/mig-1g.18gb.count", "0").Label("nvidia.com/mig-1g.18gb.replicas", "1").MIG("3g.71gb", 2).
			With(stale("nvidia.com/mig-1g.18gb")),
		"whole cards that became slices": h200("a").Label("nvidia.com/gpu.replicas", "0").MIG("1g.18gb", 56).
			With(stale(builder.GPU)),
		"shares that kept the name of their cards": builder.Node("a").GPUs("NVIDIA-H200-SHARED", 8).
			Label("nvidia.com/gpu.replicas", "2").With(stale("nvidia.com/gpu.shared")),
		"cores of a named card": h200("a").Resource("nvidia.com/gpucores", "800").Resource("nvidia.com/gpumem", "800"),
		"a network device":      h200("a").Resource("nvidia.com/hostdev", "8"),
		"no card":               builder.Node("a"),
		"cordoned":              h200("a").Cordoned(),
	} {
		check.Equal(t, name, int32(0), scene{nodes: []*corev1.Node{node.Obj()}}.status().AnomaliesTotal)
	}
}

func TestAnomaliesAreSortedAndBounded(t *testing.T) {
	var w scene
	for i := range 2 * MaxAnomalies {
		w.nodes = append(w.nodes, builder.Node(fmt.Sprintf("n%03d", i)).
			Resource(corev1.ResourceName(fmt.Sprintf("huawei.com/Ascend%d", i)), "1").Obj())
	}

	for i := range 2 * MaxAnomalyNodes {
		w.nodes = append(w.nodes, builder.Node(fmt.Sprintf("m%03d", i)).GPUs("", 1).Obj())
	}

	status := w.status()
	check.Equal(t, "anomalies", [2]int{MaxAnomalies, 2*MaxAnomalies + 1}, [2]int{len(status.Anomalies), int(status.AnomaliesTotal)})

	w.nodes = w.nodes[2*MaxAnomalies:]
	first := w.status().Anomalies[0]
	check.Equal(t, "nodes of the first", [2]int{MaxAnomalyNodes, 2 * MaxAnomalyNodes}, [2]int{len(first.Nodes), int(first.NodesTotal)})
	check.That(t, slices.IsSorted(first.Nodes), "the nodes are %v", first.Nodes)
	check.Contains(t, "message", first.Message, "nodes m000, m001, m002 and 37 more: ")

	names := make([]string, len(status.Anomalies))
	for i, anomaly := range status.Anomalies {
		names[i] = string(anomaly.Reason) + " " + anomaly.Resource
	}

	check.That(t, slices.IsSorted(names), "the anomalies are %v", names)
	check.Equal(t, "nodes with an anomaly", int32(2*(MaxAnomalies+MaxAnomalyNodes)), status.Nodes)
}

// TestAnomaliesWithoutALimitAreFirst: the list is bounded, and no quota limits these cards.
func TestAnomaliesWithoutALimitAreFirst(t *testing.T) {
	w := scene{pods: []*corev1.Pod{running("z", "", "unlimited", 1)}}
	for i := range 2 * MaxAnomalies {
		w.nodes = append(w.nodes, builder.Node(fmt.Sprintf("n%03d", i)).GPUs(fmt.Sprintf("Model-%d", i), 0).Obj())
	}
	w.nodes = append(w.nodes, builder.Node("unlabelled").GPUs("", 1).Obj(), h200("unlimited").Resource("gpu.intel.com/xe", "1").Obj())
	var reasons []v1alpha1.AnomalyReason
	for _, anomaly := range w.status().Anomalies[:3] {
		reasons = append(reasons, anomaly.Reason)
	}
	check.Equal(t, "reasons", []v1alpha1.AnomalyReason{"CardsOutsideQueues", "UnmappedResource", "CardsUnhealthy"}, reasons)
}

// TestReasonsAreThoseOfTheAPI: the API documents no others.
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

// TestAResourceOfManyNodesIsJudgedOnce: the patterns of device plugins are too many to try for
// each resource of 5,000 nodes.
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
