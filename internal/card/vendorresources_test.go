package card

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// publicCards are resources of public device plugins and sharing software.
var publicCards = []corev1.ResourceName{
	"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "nvidia.com/mig-1g.18gb.shared",
	"volcano.sh/vgpu-number", "volcano.sh/gpu-number", "aliyun.com/gpu-count",
	"nvidia.com/GA100_A100_SXM4_40GB", "nvidia.com/GRID_P40-1Q", "nvidia.com/NVIDIA_A10-24Q", "nvidia.com/GA102GL_A10",
	"nvidia.com/pgpu", "nvidia.com/vgpu", "nvidia.com/gpu-all",
	"amd.com/gpu", "amd.com/cpx_nps4", "amd.com/gpu_vf", "amd.com/gpu_pf", "amd.com/MI210", "xilinx.com/fpga",
	"xilinx.com/fpga-xilinx_u280_gen3x16_xdma_base_1-0",
	"gpu.intel.com/i915", "gpu.intel.com/xe", "npu.intel.com/accel", "vpu.intel.com/hddl",
	"fpga.intel.com/af-d8424dc4a4a3c413f89e433683f9040b", "intel.com/sriov-gpudevice", "habana.ai/gaudi",
	"huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/Ascend910-5c.1cpu.8g", "huawei.com/Ascend310P-IPro",
	"huawei.com/ascend-310", "huawei.com/npu",
	"huawei.com/Ascend310P-2c", "huawei.com/Ascend910B3",
	"hygon.com/dcu", "hygon.com/dcunum", "cambricon.com/mlu", "cambricon.com/mlu370", "cambricon.com/mlu.share",
	"cambricon.com/vmlu", "cambricon.com/mlu370.smlu",
	"enflame.com/gcu", "enflame.com/shared-gcu", "enflame.com/drs-gcu", "enflame-tech.com/gcu", "iluvatar.com/gpu",
	"iluvatar.ai/vgpu", "iluvatar.ai/BI-V150-vgpu", "iluvatar.ai/MR-V100-vgpu",
	"metax-tech.com/gpu", "metax-tech.com/sgpu",
	"mthreads.com/gpu", "mthreads.com/vgpu", "kunlunxin.com/xpu", "kunlunxin.com/vxpu", "baidu.com/xpu",
	"baidu.com/a100_80g_cgpu", "alibabacloud.com/ppu", "birentech.com/gpu", "birentech.com/1-2-gpu",
	"vastaitech.com/va", "google.com/tpu", "cloud-tpus.google.com/v2", "cloud-tpus.google.com/preemptible-v3", "ibm.com/aiu_pf",
	"ibm.com/spyre_pf", "ibm.com/spyre_pf_tier0", "d-matrix.ai/corsair", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore",
	"aws.amazon.com/neurondevice", "furiosa.ai/rngd", "beta.furiosa.ai/npu", "alpha.furiosa.ai/npu",
	"qualcomm.com/qaic", "rebellions.ai/ATOM", "rebellions.ai/npu", "tenstorrent.com/n150", "sophgo.com/tpu",
	"graphcore.ai/ipu", "cerebras.net/cs", "groq.com/lpu", "sambanova.ai/rdu", "hailo.ai/h8",
	"lynxi.com/HP280", "denglinai.com/gpu", "innosilicon.com/gpu", "streamcomputing.com/npu", "tsingmicro.com/npu",
	"koordinator.sh/gpu", "koordinator.sh/gpu-shared", "tencent.com/vcuda", "vke.volcengine.com/container-multiple-gpu",
	"elasticgpu.io/gpu-number", "4paradigm.com/vgpu", "k8s.amazonaws.com/vgpu", "microsoft.com/directx",
}

// publicCores are amounts of cores of cards. Where a node offers them alone, they stand for the card.
var publicCores = []corev1.ResourceName{
	"volcano.sh/vgpu-cores", "nvidia.com/gpucores", "gpu.intel.com/millicores", "gpu.intel.com/tiles",
	"cambricon.com/mlu.smlu.vcore", "iluvatar.ai/vcuda-core", "tencent.com/vcuda-core",
	"tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-core-greedy", "vke.volcengine.com/mgpu-core",
	"aliyun.com/gpu-core.percentage", "koordinator.sh/gpu-core", "baidu.com/cgpu_core",
	"huawei.com/Ascend910B4-core", "metax-tech.com/vcore", "hygon.com/dcucores", "iluvatar.ai/MR-V100.vCore",
}

// publicOthers are resources of Kubernetes, network devices, memory of cards and other devices, and names that look
// like cards but have no vendor's domain.
var publicOthers = []corev1.ResourceName{
	"cpu", "memory", "pods", "ephemeral-storage", "hugepages-1Gi", "attachable-volumes-csi-x",
	"rdma/hca", "rdma/hca_shared_devices_a", "nvidia.com/hostdev", "nvidia.com/sriov_resource_1", "nvidia.com/mlnxnics",
	"nvidia.com/rdma_shared_device_a", "nvidia.com/GH100_H100_NVSWITCH",
	"nvidia.com/cx7", "nvidia.com/ibp24s0", "amd.com/nic", "amd.com/vnic", "mellanox.com/sriov_rdma", "openshift.io/mlnx",
	"huawei.com/RoCE_100g", "metax-tech.com/rdma", "koordinator.sh/rdma",
	"nvidia.com/bf_sf", "nvidia.com/bf_vf", "nvidia.com/bf_sf_trusted", "nvidia.com/sf", "nvidia.com/switchdev",
	"nvidia.com/mlx5_0", "nvidia.com/ibs1f0", "nvidia.com/ens1f0", "nvidia.com/rdma_gpu0", "nvidia.com/sriov_rdma_gpu0",
	"nvidia.com/GP106_HIGH_DEFINITION_AUDIO_CONTROLLER", "nvidia.com/TU104_USB_3.1_HOST_CONTROLLER",
	"nvidia.com/TU104_USB_TYPE-C_UCSI_CONTROLLER",
	"ibm.com/block-storage", "sev-snp.amd.com/esids", "sev.amd.com/asids", "confidential.nvidia.com/keys", "monitors.hailo.ai/view",
	"intel.com/sriov_netdevice", "gpu.intel.com/memory.max", "gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring",
	"gpu.intel.com/monitoring",
	"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage",
	"hygon.com/dcumem",
	"cambricon.com/mlu.smlu.vmemory", "metax-tech.com/vmemory", "mthreads.com/sgpu-memory", "kunlunxin.com/vxpu-memory",
	"huawei.com/Ascend910A-memory2x/y",
	"huawei.com/Ascend910B4-memory", "huawei.com/Ascend310P-memory", "huawei.com/ascend-memory", "aliyun.com/gpu-mem",
	"koordinator.sh/gpu-memory-ratio", "koordinator.sh/batch-cpu",
	"tencent.com/vcuda-memory", "vke.volcengine.com/mgpu-memory", "baidu.com/cgpu_memory", "iluvatar.ai/MR-V100.vMem",
	"alibabacloud.com/ppu.memory", "vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni", "aws.amazon.com/neuroncores",
	"example.com/nvidia.com/gpu", "devices.kubevirt.io/kvm", "smarter-devices/fuse",
	"qat.intel.com/cy", "sgx.intel.com/epc", "mynvidia.com/gpu", "nvidia.com/", "nvidia.com", "com/gpu", "vendor.example/npu",
}

// TestCardsAreKnownByTheDomainsOfVendors: a resource that no label and no mapping names may still be a card, which no
// quota limits. The product warns about it by two things. Its domain is that of a vendor, or of software that shares
// cards. Its name is that of a card, or of cores of cards. The lists above have public resources of each listed
// domain.
func TestCardsAreKnownByTheDomainsOfVendors(t *testing.T) {
	for _, resource := range publicCards {
		check.That(t, LooksLikeCard(resource) && !LooksLikeCores(resource), "%s is a card", resource)
	}
	for _, resource := range publicCores {
		check.That(t, !LooksLikeCard(resource) && LooksLikeCores(resource), "%s is an amount of cores", resource)
	}
	for _, resource := range publicOthers {
		check.That(t, !LooksLikeCard(resource) && !LooksLikeCores(resource), "%s is no card", resource)
	}

	listedDomains := slices.Concat(slices.Collect(maps.Keys(accelerators)), slices.Collect(maps.Keys(sharingSoftware)), cardVendors)
	for _, listed := range listedDomains {
		isTested := slices.ContainsFunc(append(publicCards, publicCores...), func(resource corev1.ResourceName) bool {
			domain, _, _ := strings.Cut(string(resource), "/")
			return domain == listed || strings.HasSuffix(domain, "."+listed)
		})
		check.That(t, isTested, "no list has a resource of %s", listed)
	}
}

// TestSharingSoftwareIsOfNoVendor: resources of software that shares cards may stand for cards of any vendor. Those
// of a vendor stand for its own cards, so they are not of sharing software. A number of cards or of their cores
// stands for cards. Memory, CPU and network devices do not, so they are not of sharing software either.
func TestSharingSoftwareIsOfNoVendor(t *testing.T) {
	for resource, want := range map[corev1.ResourceName]bool{
		"volcano.sh/vgpu-number":          true,
		"volcano.sh/vgpu-cores":           true,
		"tencent.com/vcuda-core":          true,
		"tke.cloud.tencent.com/qgpu-core": true,
		"aliyun.com/gpu-count":            true,
		"alibabacloud.com/ppu":            true, // a cloud whose software shares cards
		"vke.volcengine.com/mgpu-core":    true,
		"baidu.com/a100_80g_cgpu":         true,
		"koordinator.sh/gpu":              true,
		"elasticgpu.io/gpu-number":        true,
		"4paradigm.com/vgpu":              true,
		"k8s.amazonaws.com/vgpu":          true,
		"nvidia.com/gpu":                  false,
		"nvidia.com/gpucores":             false,
		"amd.com/cpx_nps4":                false,
		"volcano.sh/vgpu-memory":          false,
		"koordinator.sh/batch-cpu":        false,
		"koordinator.sh/rdma":             false,
		"cpu":                             false,
	} {
		check.Equal(t, string(resource)+" is of sharing software", want, IsOfSharingSoftware(resource))
	}
}

// TestEveryCardOfTheFleetLooksLikeOne: on the nodes of testdata/nodes, each resource that labels make a card is known
// as a card by its name, too. The network devices of these nodes are not.
func TestEveryCardOfTheFleetLooksLikeOne(t *testing.T) {
	for file, node := range fleet {
		for _, card := range node.Cards {
			check.That(t, LooksLikeCard(card.Resource), "%s of %s does not look like a card", card.Resource, file)
		}
	}
	for _, resource := range resources("rdma/hca", "rdma/rdma_shared_device_a", "nvidia.com/hostdev") {
		check.That(t, !LooksLikeCard(resource), "%s looks like a card", resource)
	}
}

// TestNetworkDevicesAreKnownByTheirNames: a network device has rdma/ as its domain, or one of the words rdma,
// hostdev, netdevice, infiniband or roce. The word stands at the beginning, or behind a character that is no letter.
// SR-IOV divides network devices, and cards: with gpu or npu in the name it is a card. Words inside other words, such
// as roce in processor, do not count.
func TestNetworkDevicesAreKnownByTheirNames(t *testing.T) {
	for _, resource := range resources("rdma/hca", "rdma/hca_shared_devices_a", "nvidia.com/hostdev", "nvidia.com/sriov_resource_1",
		"mellanox.com/sriov_rdma", "intel.com/sriov_netdevice", "nvidia.com/rdma_gpu0", "a.b/gpu-hostdev", "huawei.com/rdma",
		"huawei.com/RoCE_100g", "a.b/mlnx2roce") {
		check.That(t, isNetworkDevice(resource), "%s is a network device", resource)
	}

	others := resources("huawei.com/npu-x", "rdma.example.com/gpu", "intel.com/sriov-gpudevice", "cpu", "a.b/ai-processor",
		"intel.com/vision-processor", "xilinx.com/coprocessor")
	for _, resource := range append(others, publicCards...) {
		check.That(t, !isNetworkDevice(resource), "%s is no network device", resource)
	}
}
