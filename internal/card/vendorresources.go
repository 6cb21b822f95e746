package card

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// accelerators are the domains under which device plugins and sharing software offer cards or parts of
// cards, each with the names that do, nil for every name. Vendors that sell other things as well have a
// pattern, which is true for subdomains without an entry, too: they offer cards as well as other things
// (sev-snp.amd.com/esids).
//
// With cardVendors, the list makes no resource a card. It finds cards that no label and no mapping names. A
// vendor that is missing costs a warning, so add one line and a resource to the test.
var accelerators = map[string]*regexp.Regexp{
	// NVIDIA/k8s-device-plugin: gpu, gpu.shared, mig-<profile>. kubevirt-gpu-device-plugin and the sandbox
	// device plugin: GA100_A100_SXM4_40GB, GRID_P40-1Q, pgpu. Project-HAMi: gpu.
	NVIDIA:          nil,
	"microsoft.com": regexp.MustCompile(`^directx`),
	// ROCm/k8s-device-plugin: gpu, <compute>_<memory partition>, gpu_vf and gpu_pf. KubeVirt: MI210.
	"amd.com":    nil,
	"xilinx.com": nil,
	// intel-device-plugins-for-kubernetes: GPU, NPU and FPGA. SR-IOV: intel.com/sriov-gpudevice.
	"gpu.intel.com":  nil,
	"npu.intel.com":  nil,
	"vpu.intel.com":  nil,
	"fpga.intel.com": nil,
	"intel.com":      regexp.MustCompile(`gpu|npu`),
	// Clouds with chips of their own.
	"google.com":            regexp.MustCompile(`^tpu`),
	"cloud-tpus.google.com": nil,                                // v2, preemptible-v3
	"ibm.com":               regexp.MustCompile(`^(aiu|spyre)`), // aiu_pf, spyre_pf_tier0
	"aws.amazon.com":        regexp.MustCompile(`^neuron(core|device)?$`),
	"qualcomm.com":          nil, // Cloud AI 100: qaic
	// Huawei: Ascend910, Ascend310P, Ascend910B4-…, npu. Huawei Cloud CCE: ascend-310.
	"huawei.com": regexp.MustCompile(`(?i)^(ascend|npu)`),
}

// sharingSoftware are programs that share cards of any vendor under domains of their own, with patterns as in
// accelerators: Volcano, Alibaba Cloud, Tencent Cloud (GPU manager, qGPU), Volcengine, Baidu Cloud, Koordinator,
// Elastic GPU, 4Paradigm, AWS.
var sharingSoftware = map[string]*regexp.Regexp{
	"volcano.sh":        regexp.MustCompile(`gpu|npu`),
	"aliyun.com":        regexp.MustCompile(`^(gpu|npu|ppu)`),
	"alibabacloud.com":  regexp.MustCompile(`^(gpu|npu|ppu)`), // also T-Head PPU
	"tencent.com":       regexp.MustCompile(`gpu|npu|vcuda`),
	"volcengine.com":    regexp.MustCompile(`gpu|npu`),
	"baidu.com":         regexp.MustCompile(`gpu|npu|xpu`),
	"koordinator.sh":    regexp.MustCompile(`^(gpu|npu|xpu|fpga)`),
	"elasticgpu.io":     regexp.MustCompile(`gpu`),
	"4paradigm.com":     regexp.MustCompile(`gpu`),
	"k8s.amazonaws.com": regexp.MustCompile(`gpu`),
}

// cardVendors are the domains of vendors that make cards only. Every resource there is a card, and every driver
// of dynamic resource allocation of the domain hands out cards, apart from what the lists of other devices say.
var cardVendors = []string{
	"habana.ai",        // Intel Gaudi
	"hygon.com",        // dcu; Project-HAMi: dcunum
	"cambricon.com",    // mlu, mlu370, mlu.share, mlu370.smlu; Project-HAMi: vmlu
	"enflame.com",      // gcu, shared-gcu, drs-gcu; Project-HAMi: vgcu
	"enflame-tech.com", // gcu
	"iluvatar.com",     // gpu
	"iluvatar.ai",      // Project-HAMi: BI-V150-vgpu
	"metax-tech.com",   // gpu, sgpu
	"mthreads.com",     // Moore Threads: gpu, vgpu
	"kunlunxin.com",    // xpu, vxpu
	"birentech.com",    // gpu, 1-2-gpu
	"vastaitech.com",   // va
	"sophgo.com",       // tpu
	"lynxi.com",
	"denglinai.com",
	"innosilicon.com",
	"streamcomputing.com",
	"tsingmicro.com",
	"rebellions.ai", // ATOM, npu
	"furiosa.ai",    // rngd, warboy
	"alpha.furiosa.ai",
	"beta.furiosa.ai", // npu
	"tenstorrent.com", // n150
	"graphcore.ai",    // ipu
	"cerebras.net",
	"groq.com",
	"sambanova.ai",
	"d-matrix.ai",
	"hailo.ai",
}

// What accelerators offer beside cards, by the name after the slash.
var (
	// memoryAmounts end a word with the memory of cards: Ascend910B4-memory, gpumem-percentage.
	memoryAmounts = regexp.MustCompile(`(?i)(mem|memory|vram)([^a-z]|$)`)
	// coreAmounts end a word with parts of the cores of cards: vgpu-cores, millicores, smlu.vcore.
	coreAmounts = regexp.MustCompile(`(?i)(cores?|tiles?|percent(age)?)([^a-z]|$)`)
	// otherDevices are monitors of cards, switches between them, what else is on a card beside its processor, and
	// network devices, also by the names of their interfaces.
	otherDevices = regexp.MustCompile(`(?i)(^|[^a-z])(monitor|nvswitch|audio|usb|ucsi|mlnx|mlx[0-9]|connectx|bluefield|hca|switchdev|` +
		`cx[0-9]|bf[0-9]|bf[_-]?[sv]f|ib[0-9ps]|en[opsx][0-9]|(ib|eth|sf|v?nics?|efa)([^a-z]|$))|_nvswitch|nics?$`)
)

// neuronCore is a part of a card that pods request by itself, in spite of its name.
const neuronCore corev1.ResourceName = "aws.amazon.com/neuroncore"

// LooksLikeCard reports whether a resource has the name of a card, or of a part of one, of a vendor of
// accelerators. An amount of cores is no card, except the one that pods request by itself.
func LooksLikeCard(resource corev1.ResourceName) bool {
	name, ofAccelerator := acceleratorName(resource)
	return ofAccelerator && (resource == neuronCore || !coreAmounts.MatchString(name))
}

// LooksLikeCores reports whether a resource has the name of an amount of cores of a card. It stands for
// the card on a node that offers the card under no other name.
func LooksLikeCores(resource corev1.ResourceName) bool {
	name, ofAccelerator := acceleratorName(resource)
	return ofAccelerator && resource != neuronCore && coreAmounts.MatchString(name)
}

// acceleratorName returns the name after the slash of a card of accelerators, of a part of it, or of its
// cores, false for any other resource.
func acceleratorName(resource corev1.ResourceName) (string, bool) {
	domain, name, isExtended := strings.Cut(string(resource), "/")
	if !isExtended || name == "" {
		return "", false
	}

	switch {
	case !offersCards(domain, name):
		return "", false
	// Vendors of cards also offer the memory of cards, monitors, switches and network devices.
	case memoryAmounts.MatchString(name) || otherDevices.MatchString(name) || isNetworkDevice(resource):
		return "", false
	}
	return name, true
}

// offersCards reports whether a domain offers cards under a name: under any, where its vendor makes nothing
// else, otherwise under those that its pattern matches.
func offersCards(domain, name string) bool {
	names, isListed := accelerators[domain]
	if slices.Contains(cardVendors, domain) || (isListed && names == nil) {
		return true
	}
	return isNameOf(accelerators, domain, name) || isNameOf(sharingSoftware, domain, name)
}

// isNameOf reports whether the pattern of a domain, or of one that it is a subdomain of, matches a name. A
// domain without a pattern matches none: offersCards takes its names, and not those of its subdomains.
func isNameOf(list map[string]*regexp.Regexp, domain, name string) bool {
	names, isListed := list[domain]
	for !isListed && domain != "" {
		_, domain, _ = strings.Cut(domain, ".")
		names, isListed = list[domain]
	}
	return names != nil && names.MatchString(name)
}

// IsOfSharingSoftware reports whether a program shares cards under a resource, or the cores of cards. They may be
// cards of any vendor.
func IsOfSharingSoftware(resource corev1.ResourceName) bool {
	name, ofAccelerator := acceleratorName(resource)
	domain, _, _ := strings.Cut(string(resource), "/")
	return ofAccelerator && isNameOf(sharingSoftware, domain, name)
}

// networkDevices matches the resources of network device plugins: RDMA shared device plugin, SR-IOV
// network device plugin and the host devices of NVIDIA's network operator. Each begins a word: an
// ai-processor contains "roce" and is none. One network device for each card is named after it, too:
// rdma_gpu0.
var networkDevices = regexp.MustCompile(`(?i)^rdma/|/(.*[^a-z])?(rdma|hostdev|netdevice|infiniband|roce)`)

// SR-IOV divides network devices, and cards: intel.com/sriov-gpudevice.
var (
	virtualDevices = regexp.MustCompile(`(?i)/(.*[^a-z])?sriov`)
	virtualCards   = regexp.MustCompile(`(?i)/.*(gpu|npu)`)
)

// isNetworkDevice reports whether a resource has the name of a network device. Labels make none a
// card and withhold none, unless they have its very name. So no quota limits it.
func isNetworkDevice(resource corev1.ResourceName) bool {
	name := string(resource)
	return networkDevices.MatchString(name) || (virtualDevices.MatchString(name) && !virtualCards.MatchString(name))
}
