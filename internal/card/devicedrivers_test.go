package card

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWhichDriversHandOutCards(t *testing.T) {
	for _, driver := range []string{
		"gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com", "npu.intel.com", "tpu.google.com",
		"neuron.aws.com", "neuron.amazonaws.com", "npu.huawei.com", "npu.furiosa.ai", "npu.rebellions.ai", "vfio-npu.rebellions.ai",
		"hami-core-gpu.project-hami.io", "gpu.example.com", "vgpu.example.com", "gpu.metax-tech.com", "sgpu.metax-tech.com",
		"mlu.cambricon.com", "dcu.hygon.com", "qaic.qualcomm.com", "dra.tenstorrent.com", "nvidia.gpu.example.com", "ascend.huawei.com", "gpu.iluvatar.com", "spyre.ibm.com", "gpu.vendor.net", "wse.cerebras.net", "gpu.net.example", "fpga.intel.com", "fpga.xilinx.com",
	} {
		check.That(t, IsAcceleratorDriver(driver), "%s hands out cards", driver)
	}

	for _, vendor := range cardVendors {
		check.That(t, IsAcceleratorDriver("dra."+vendor), "a driver of %s hands out cards", vendor)
		check.That(t, LooksLikeCard(corev1.ResourceName(vendor+"/x")), "a resource of %s is a card", vendor)
	}

	for _, driver := range []string{
		"", "compute-domain.nvidia.com", "dra.net", "dra.cpu", "dra.memory", "sriovnetwork.k8snetworkplumbingwg.io", "qat.intel.com",
		"networking.k8s.aws", "rdma.gpu.example.com", "gpu-nic.example.com", "gpu", "gpumonitor.example.com", "cpu.example.com", "storage.gpu-cloud.com", "gpu.net.example.com", "rdma.wse.cerebras.net", "nic.habana.ai",
		"gpu." + strings.Repeat("x", 60) + ".com",
	} {
		check.That(t, !IsAcceleratorDriver(driver), "%s hands out no cards", driver)
	}
}
