package card

import (
	"regexp"
	"slices"
	"strings"
)

// deviceDrivers are the drivers of dynamic resource allocation that hand out cards or parts of cards. Each
// pattern matches the whole name of a driver, which is spec.driver of its ResourceSlices.
//
// Most drivers have the kind of card as a word before the domain of their vendor, also those that are not
// listed by name. Drivers of cardVendors need no word. Drivers of networks, processors, memory and NVLink
// domains (compute-domain.nvidia.com) hand out no cards.
var deviceDrivers = []*regexp.Regexp{
	// kubernetes-sigs/dra-driver-nvidia-gpu: gpu.nvidia.com. intel/intel-resource-drivers-for-kubernetes:
	// gpu.intel.com. ROCm/k8s-gpu-dra-driver: gpu.amd.com. Rebellions and FuriosaAI: npu.rebellions.ai,
	// vfio-npu.rebellions.ai, npu.furiosa.ai. Google Kubernetes Engine: tpu.google.com.
	regexp.MustCompile(`^([a-z0-9-]+[.-])*(v|s|d|p|q)?(gpu|gpgpu|npu|tpu|xpu|dcu|mlu|gcu|ppu|ipu|lpu|rpu|fpga)s?(-[a-z0-9-]+)?(\.[a-z0-9-]+){2,}$`),
	// MIG slices, and other names of cards.
	regexp.MustCompile(`^(mig|gaudi|habana|neuron|neuroncore|trainium|inferentia|qaic|ascend|aiu|spyre|accel|accelerators?)\.([a-z0-9-]+\.)+[a-z0-9-]+$`),
	// Software that shares cards of several vendors.
	regexp.MustCompile(`^([a-z0-9-]+\.)*project-hami\.io$`),
}

// networkDrivers matches what drivers of networks have before the domain of their vendor. Their names may have
// the word of a card, such as that of a network between cards.
var networkDrivers = regexp.MustCompile(`(^|[.-])(rdma|sriov|roce|infiniband|nic|nics|net|network|dranet|netdev)([.-]|$)`)

// IsAcceleratorDriver reports whether a driver of dynamic resource allocation hands out cards.
func IsAcceleratorDriver(driver string) bool {
	// A longer name is that of no driver, and the patterns would be slow with it. A network can have the word of a
	// card in its name.
	if len(driver) > maxDriverLength || networkDrivers.MatchString(withoutDomain(driver)) {
		return false
	}
	isOfVendor := func(domain string) bool { return driver == domain || strings.HasSuffix(driver, "."+domain) }
	isListed := func(pattern *regexp.Regexp) bool { return pattern.MatchString(driver) }
	return slices.ContainsFunc(cardVendors, isOfVendor) || slices.ContainsFunc(deviceDrivers, isListed)
}

// withoutDomain returns a driver's name without its last two labels, which a vendor has registered:
// gpu.vendor.net is of no network.
func withoutDomain(driver string) string {
	labels := strings.Split(driver, ".")
	return strings.Join(labels[:max(0, len(labels)-2)], ".")
}

// maxDriverLength is the longest name of a driver that the API accepts.
const maxDriverLength = 63
