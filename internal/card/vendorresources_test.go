package card

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

var publicCards = []corev1.ResourceName{
	"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "volcano.sh/vgpu-number", "aliyun.com/gpu-count",
	"amd.com/gpu", "amd.com/cpx_nps4", "gpu.intel.com/i915", "gpu.intel.com/xe", "npu.intel.com/accel", "habana.ai/gaudi",
	"huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/Ascend910-5c.1cpu.8g", "huawei.com/Ascend310P-IPro", "huawei.com/ascend-310", "huawei.com/npu",
	"hygon.com/dcu", "hygon.com/dcunum", "cambricon.com/mlu", "cambricon.com/mlu370", "cambricon.com/mlu.share", "cambricon.com/vmlu",
	"enflame.com/gcu", "enflame.com/shared-gcu", "enflame.com/drs-gcu", "iluvatar.com/gpu", "iluvatar.ai/vgpu", "metax-tech.com/gpu", "metax-tech.com/sgpu",
	"mthreads.com/gpu", "mthreads.com/vgpu", "kunlunxin.com/xpu", "baidu.com/xpu", "alibabacloud.com/ppu", "birentech.com/gpu", "birentech.com/1-2-gpu",
	"vastaitech.com/va", "google.com/tpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "furiosa.ai/rngd",
}

var publicOthers = []corev1.ResourceName{
	"cpu", "memory", "pods", "ephemeral-storage", "hugepages-1Gi", "attachable-volumes-csi-x",
	"rdma/hca", "rdma/hca_shared_devices_a", "nvidia.com/hostdev", "nvidia.com/sriov_resource_1", "mellanox.com/sriov_rdma", "openshift.io/mlnx",
	"intel.com/sriov_netdevice", "gpu.intel.com/millicores", "gpu.intel.com/memory.max", "gpu.intel.com/i915_monitoring", "gpu.intel.com/monitoring",
	"nvidia.com/gpumem", "nvidia.com/gpucores", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores", "hygon.com/dcumem", "cambricon.com/mlu.smlu.vcore",
	"cambricon.com/mlu.smlu.vmemory", "iluvatar.ai/vcuda-core", "metax-tech.com/vmemory", "mthreads.com/sgpu-memory", "kunlunxin.com/vxpu-memory", "huawei.com/Ascend910A-memory2x/y",
	"huawei.com/Ascend910B4-memory", "huawei.com/Ascend310P-memory", "huawei.com/Ascend910B4-core", "huawei.com/ascend-memory",
	"alibabacloud.com/ppu.memory", "vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni", "aws.amazon.com/neuroncores", "xilinx.com/fpga", "example.com/nvidia.com/gpu", "devices.kubevirt.io/kvm",
}

func TestCardsOfPublicDevicePlugins(t *testing.T) {
	for _, resource := range publicCards {
		check.That(t, LooksLikeCard(resource), "%s is a card of a public device plugin", resource)
	}
	for _, resource := range publicOthers {
		check.That(t, !LooksLikeCard(resource), "%s is no card", resource)
	}
	used := map[*regexp.Regexp]bool{}
	for _, pattern := range vendorResources {
		for _, resource := range publicCards {
			used[pattern] = used[pattern] || pattern.MatchString(string(resource))
		}
		check.That(t, used[pattern], "no test has a resource of %s", pattern)
	}
}

// TestEveryCardOfTheFleetLooksLikeOne tests the list against the nodes of testdata.
func TestEveryCardOfTheFleetLooksLikeOne(t *testing.T) {
	for name, node := range fleet {
		for _, card := range node.Cards {
			check.That(t, LooksLikeCard(card.Resource), "%s offers %s", name, card.Resource)
		}
		for resource := range fleetNode(t, name).Status.Allocatable {
			switch resource {
			case "rdma/hca", "rdma/rdma_shared_device_a", "nvidia.com/hostdev":
				check.That(t, !LooksLikeCard(resource), "%s is no card", resource)
			}
		}
	}
}

func TestNetworkDevicesAreNoCards(t *testing.T) {
	for _, resource := range []corev1.ResourceName{"rdma/hca", "rdma/hca_shared_devices_a", "nvidia.com/hostdev", "nvidia.com/sriov_resource_1",
		"mellanox.com/sriov_rdma", "intel.com/sriov_netdevice", "huawei.com/rdma", "huawei.com/RoCE_100g", "a.b/mlnx2roce"} {
		check.That(t, isNetworkDevice(resource), "%s is a network device", resource)
	}
	for _, resource := range append([]corev1.ResourceName{"huawei.com/npu-x", "rdma.example.com/gpu", "intel.com/sriov-gpudevice", "cpu",
		"a.b/ai-processor", "intel.com/vision-processor", "xilinx.com/coprocessor"}, publicCards...) {
		check.That(t, !isNetworkDevice(resource), "%s is no network device", resource)
	}
}
