package card

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWhichDriversHandOutCards: pods can request cards by dynamic resource allocation, whose drivers are
// named as <word>.<vendor>. No quota limits these cards, so the product must recognise their drivers. It does
// so by a word for cards before the vendor's domain, such as gpu or ascend, or by a vendor that makes nothing
// else. cardVendors lists these vendors, and their resources are cards, too. A word of a network excludes the
// driver.
func TestWhichDriversHandOutCards(t *testing.T) {
	for _, driver := range []string{
		"gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com", "npu.intel.com", "tpu.google.com",
		"neuron.aws.com", "neuron.amazonaws.com", "npu.huawei.com", "npu.furiosa.ai", "npu.rebellions.ai", "vfio-npu.rebellions.ai",
		"hami-core-gpu.project-hami.io", "gpu.example.com", "vgpu.example.com", "gpu.metax-tech.com", "sgpu.metax-tech.com",
		"mlu.cambricon.com", "dcu.hygon.com", "qaic.qualcomm.com", "dra.tenstorrent.com", "nvidia.gpu.example.com",
		"ascend.huawei.com", "gpu.iluvatar.com", "spyre.ibm.com", "fpga.intel.com", "fpga.xilinx.com",
		// The last two parts are the domain of a vendor, so "net" is no network there.
		"gpu.vendor.net", "wse.cerebras.net", "gpu.net.example",
	} {
		check.That(t, IsAcceleratorDriver(driver), "%s hands out cards", driver)
	}

	for _, vendor := range cardVendors {
		check.That(t, IsAcceleratorDriver("dra."+vendor), "a driver of %s hands out cards", vendor)
		check.That(t, LooksLikeCard(corev1.ResourceName(vendor+"/x")), "a resource of %s is a card", vendor)
	}

	for _, driver := range []string{
		"compute-domain.nvidia.com", "dra.net", "dra.cpu", "dra.memory", "sriovnetwork.k8snetworkplumbingwg.io", "qat.intel.com",
		"networking.k8s.aws", "gpumonitor.example.com", "cpu.example.com", "storage.gpu-cloud.com",
		// A network between cards has the word of a card, too.
		"rdma.gpu.example.com", "gpu-nic.example.com", "gpu.net.example.com", "rdma.wse.cerebras.net", "nic.habana.ai",
		// No names of drivers: without a domain, and longer than 63 characters.
		"", "gpu", "gpu." + strings.Repeat("x", 60) + ".com",
	} {
		check.That(t, !IsAcceleratorDriver(driver), "%s hands out no cards", driver)
	}
}
