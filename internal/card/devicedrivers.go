package card

import "regexp"

// deviceDrivers are the drivers of dynamic resource allocation that hand out cards or parts of cards. Each
// pattern matches the whole name of a driver, which is spec.driver of its ResourceSlices.
//
// Most drivers have the kind of card as a word before the domain of their vendor, also those that are not
// listed by name. Drivers of networks, processors, memory and NVLink domains (compute-domain.nvidia.com)
// hand out no cards.
var deviceDrivers = []*regexp.Regexp{
	// kubernetes-sigs/dra-driver-nvidia-gpu: gpu.nvidia.com. intel/intel-resource-drivers-for-kubernetes:
	// gpu.intel.com. ROCm/k8s-gpu-dra-driver: gpu.amd.com. Rebellions and FuriosaAI: npu.rebellions.ai,
	// vfio-npu.rebellions.ai, npu.furiosa.ai. Google Kubernetes Engine: tpu.google.com.
	regexp.MustCompile(`^([a-z0-9-]+[.-])*(v|s|d|p|q)?(gpu|gpgpu|npu|tpu|xpu|dcu|mlu|gcu|ppu|ipu|lpu|rpu)s?(-[a-z0-9-]+)?(\.[a-z0-9-]+){2,}$`),
	// MIG slices, and other names of cards.
	regexp.MustCompile(`^(mig|gaudi|habana|neuron|neuroncore|trainium|inferentia|qaic|ascend|accel|accelerators?)\.([a-z0-9-]+\.)+[a-z0-9-]+$`),
	// Vendors that make cards only.
	regexp.MustCompile(`^([a-z0-9-]+\.)*(habana\.ai|furiosa\.ai|rebellions\.ai|tenstorrent\.com|cambricon\.com|enflame\.com|enflame-tech\.com|` +
		`iluvatar\.(com|ai)|metax-tech\.com|mthreads\.com|kunlunxin\.com|birentech\.com|vastaitech\.com|hygon\.com|graphcore\.ai|groq\.com|d-matrix\.ai|sophgo\.com|hailo\.ai|project-hami\.io)$`),
}

// networkDrivers matches drivers of networks, whose names may have the word of a card, such as that of a
// network between cards.
var networkDrivers = regexp.MustCompile(`(^|[.-])(rdma|sriov|roce|infiniband|nic|nics|net|network|dranet|netdev)([.-]|$)`)

// IsAcceleratorDriver reports whether a driver of dynamic resource allocation hands out cards.
func IsAcceleratorDriver(driver string) bool {
	if len(driver) > maxDriverLength || networkDrivers.MatchString(driver) {
		return false
	}
	for _, pattern := range deviceDrivers {
		if pattern.MatchString(driver) {
			return true
		}
	}
	return false
}

// maxDriverLength is the longest name of a driver that the API accepts.
const maxDriverLength = 63
