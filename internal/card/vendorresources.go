package card

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// vendorResources are the resources of public device plugins that stand for cards or for parts of
// cards. Each pattern matches the whole name of a resource. Amounts of memory or cores, RDMA,
// SR-IOV and other network devices are no cards, so no pattern matches them.
//
// The list makes no resource a card. It finds cards that no label and no mapping names, and it keeps
// isNetworkDevice from excluding one of them.
var vendorResources = []*regexp.Regexp{
	// NVIDIA/k8s-device-plugin: gpu, gpu.shared (sharing with renameByDefault) and mig-<profile>.
	regexp.MustCompile(`^nvidia\.com/(gpu(\.shared)?|mig-.+)$`),
	// volcano-sh/volcano-vgpu-device-plugin: parts of NVIDIA cards.
	regexp.MustCompile(`^volcano\.sh/vgpu-number$`),
	// AliyunContainerService/gpushare-device-plugin: NVIDIA cards.
	regexp.MustCompile(`^aliyun\.com/gpu-count$`),
	// ROCm/k8s-device-plugin: gpu, and <compute>_<memory partition> with resource_naming_strategy mixed.
	regexp.MustCompile(`^amd\.com/(gpu|(spx|dpx|tpx|qpx|cpx)_nps[1-8])$`),
	// intel/intel-device-plugins-for-kubernetes, cmd/gpu_plugin and cmd/npu_plugin.
	regexp.MustCompile(`^(gpu\.intel\.com/(i915|xe)|npu\.intel\.com/accel)$`),
	// HabanaAI/gaudi-device-plugin (Intel Gaudi), and its earlier names.
	regexp.MustCompile(`^habana\.ai/(gaudi|goya|greco)$`),
	// Huawei MindCluster, Ascend device plugin: Ascend910, Ascend310P, Ascend910B4-…; npu. Huawei
	// Cloud CCE: ascend-310, ascend-1980.
	regexp.MustCompile(`^huawei\.com/(Ascend[0-9][A-Za-z0-9]*(-[A-Za-z0-9.]+)?|ascend-[a-z0-9]+|npu)$`),
	// Hygon DCU device plugin, and Project-HAMi/dcu-vgpu-device-plugin (dcunum).
	regexp.MustCompile(`^hygon\.com/dcu(num)?$`),
	// Cambricon/cambricon-k8s-device-plugin: mlu, mlu.share and mlu<type>; Project-HAMi: vmlu.
	regexp.MustCompile(`^cambricon\.com/(mlu[0-9]*(\.share)?|vmlu)$`),
	// EnflameTechnology and Project-HAMi, docs of Enflame GCU sharing.
	regexp.MustCompile(`^enflame\.com/((shared-|drs-)?gcu|vgcu)$`),
	// Deep-Spark/ix-device-plugin (Iluvatar CoreX), and its names before and in Project-HAMi.
	regexp.MustCompile(`^iluvatar\.(com|ai)/v?gpu$`),
	// MetaX GPU device plugin, and sgpu of its sharing (Project-HAMi, docs of MetaX sGPU).
	regexp.MustCompile(`^metax-tech\.com/s?gpu$`),
	// Moore Threads KubeOne (gpu), and Project-HAMi (vgpu).
	regexp.MustCompile(`^mthreads\.com/v?gpu$`),
	// Kunlunxin XPU device plugin (Project-HAMi, docs of Kunlunxin), and Baidu Cloud CCE.
	regexp.MustCompile(`^(kunlunxin\.com/v?xpu|baidu\.com/xpu)$`),
	// Alibaba Cloud ACK, ack-ppu-device-plugin (T-Head PPU).
	regexp.MustCompile(`^alibabacloud\.com/ppu$`),
	// Biren k8s-device-plugin: gpu and its fixed parts (Project-HAMi, docs of Biren).
	regexp.MustCompile(`^birentech\.com/((1-[24]-)?gpu)$`),
	// Project-HAMi, docs of Vastai.
	regexp.MustCompile(`^vastaitech\.com/va$`),
	// Google Kubernetes Engine, TPU device plugin.
	regexp.MustCompile(`^google\.com/tpu$`),
	// AWS Neuron device plugin.
	regexp.MustCompile(`^aws\.amazon\.com/(neuron(core|device)?)$`),
	// furiosa-ai/furiosa-device-plugin.
	regexp.MustCompile(`^furiosa\.ai/(rngd|warboy|npu)$`),
}

// amounts matches names of amounts of memory or cores, such as huawei.com/Ascend910B4-memory.
var amounts = regexp.MustCompile(`-(memory|cores?)$`)

// LooksLikeCard reports whether a resource has the name of a card of a public device plugin.
func LooksLikeCard(resource corev1.ResourceName) bool {
	if amounts.MatchString(string(resource)) {
		return false
	}
	for _, pattern := range vendorResources {
		if pattern.MatchString(string(resource)) {
			return true
		}
	}
	return false
}

// networkDevices matches the resources of network device plugins: RDMA shared device plugin, SR-IOV
// network device plugin and the host devices of NVIDIA's network operator. Each begins a word: an
// ai-processor contains "roce" and is none.
var networkDevices = regexp.MustCompile(`(?i)^rdma/|/(.*[^a-z])?(rdma|sriov|hostdev|netdevice|infiniband|roce)`)

// virtualCards matches names of cards that SR-IOV divides, such as intel.com/sriov-gpudevice.
var virtualCards = regexp.MustCompile(`(?i)/.*(gpu|npu)`)

// isNetworkDevice reports whether a resource has the name of a network device. Labels make none a
// card and withhold none, unless they have its very name. So no quota limits it.
func isNetworkDevice(resource corev1.ResourceName) bool {
	name := string(resource)
	return networkDevices.MatchString(name) && !virtualCards.MatchString(name) && !LooksLikeCard(resource)
}
