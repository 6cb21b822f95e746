package deviceclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// objects are those of a cluster.
type objects struct {
	isUnreadable bool
	claims       map[string]*resourcev1.ResourceClaim // by namespace/name
	classes      map[string]*resourcev1.DeviceClass
	drivers      []string
}

func (o objects) IsReadable() bool { return !o.isUnreadable }

func (o objects) ResourceClaim(namespace, name string) *resourcev1.ResourceClaim {
	return o.claims[namespace+"/"+name]
}

func (o objects) DeviceClass(name string) *resourcev1.DeviceClass { return o.classes[name] }

func (o objects) Drivers() []string { return o.drivers }

func selectorsOf(expressions ...string) []resourcev1.DeviceSelector {
	var selectors []resourcev1.DeviceSelector
	for _, expression := range expressions {
		selectors = append(selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	return selectors
}

// request is a request for one device of a class.
func request(class string, expressions ...string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{
		Name:    "r",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Selectors: selectorsOf(expressions...)},
	}
}

func claimOf(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{}
	claim.Spec.Devices.Requests = requests
	return claim
}

func allocated(claim *resourcev1.ResourceClaim, results ...resourcev1.DeviceRequestAllocationResult) *resourcev1.ResourceClaim {
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: results}}
	return claim
}

func classOf(expressions ...string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: selectorsOf(expressions...)}}
}

// cluster has classes of cards and of other devices, and claims for them.
func cluster() objects {
	asAdmin := request("gpu.nvidia.com")
	asAdmin.Exactly.AdminAccess = ptr.To(true)

	either := resourcev1.DeviceRequest{
		Name:           "r",
		FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "a", DeviceClassName: "net"}, {Name: "b", DeviceClassName: "gpu.nvidia.com"}},
	}
	return objects{
		drivers: []string{"dra.net", "gpu.amd.com", "gpu.nvidia.com"},
		classes: map[string]*resourcev1.DeviceClass{
			"gpu.nvidia.com": classOf(`device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'`),
			"either":         classOf(`device.driver in ["gpu.amd.com", "dra.net"]`),
			"net":            classOf(`device.driver == "dra.net"`),
			"imex":           classOf(`device.driver == "compute-domain.nvidia.com"`),
			"large":          classOf(`device.capacity["x/memory"].isGreaterThan(quantity("40Gi"))`),
			"all":            classOf(),
		},
		claims: map[string]*resourcev1.ResourceClaim{
			"lab/gpu":        claimOf(request("gpu.nvidia.com")),
			"lab/second":     claimOf(request("net"), request("gpu.nvidia.com")),
			"lab/one-of":     claimOf(either),
			"lab/either":     claimOf(request("either")),
			"lab/either-net": claimOf(request("either", `device.driver == "dra.net"`)),
			"lab/net":        claimOf(request("net")),
			"lab/imex":       claimOf(request("imex")),
			"lab/large":      claimOf(request("large")),
			"lab/large-net":  claimOf(request("large", `device.driver == "dra.net" && true`)),
			"lab/all":        claimOf(request("all")),
			"lab/admin":      claimOf(asAdmin),
			"lab/noclass":    claimOf(request("nowhere")),
			"lab/given-gpu": allocated(claimOf(request("all")), resourcev1.DeviceRequestAllocationResult{Driver: "dra.net"},
				resourcev1.DeviceRequestAllocationResult{Driver: "gpu.amd.com"}),
			"lab/given-net": allocated(claimOf(request("all")), resourcev1.DeviceRequestAllocationResult{Driver: "dra.net"}),
			"lab/given-view": allocated(claimOf(request("all")), resourcev1.DeviceRequestAllocationResult{
				Driver:      "gpu.amd.com",
				AdminAccess: ptr.To(true),
			}),
			"other/gpu": claimOf(request("net")),
		},
	}
}

// podWith is a pod with claims by name.
func podWith(namespace string, names ...string) *corev1.Pod {
	pod := builder.Pod(namespace, "p").Obj()
	for i, name := range names {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{
			Name:              fmt.Sprint("c", i),
			ResourceClaimName: ptr.To(name),
		})
	}
	return pod
}

func TestClaimsForCardsAreRefused(t *testing.T) {
	const (
		cards   = "Pod has ResourceClaim <%s> for devices of driver <%s>, which are cards that no quota limits (unmanagedQueues: Enforce): "
		perhaps = "Pod has ResourceClaim <%s> of DeviceClass <%s>, whose selectors do not compare device.driver with a name, so " +
			"it may get cards of driver <gpu.amd.com>, which no quota limits (unmanagedQueues: Enforce): "
		missing = "Pod waits for %s, which does not exist yet"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		claims []string
		want   string // the beginning of the message, "" for no refusal
	}{
		"no claim": {},
		"cards of a class": {
			claims: []string{"gpu"},
			want:   fmt.Sprintf(cards, "gpu", "gpu.nvidia.com"),
		},
		"cards in the second request": {
			claims: []string{"second"},
			want:   fmt.Sprintf(cards, "second", "gpu.nvidia.com"),
		},
		"cards in the second claim": {
			claims: []string{"net", "gpu"},
			want:   fmt.Sprintf(cards, "gpu", "gpu.nvidia.com"),
		},
		"cards as an alternative": {
			claims: []string{"one-of"},
			want:   fmt.Sprintf(cards, "one-of", "gpu.nvidia.com"),
		},
		"one of several drivers": {
			claims: []string{"either"},
			want:   fmt.Sprintf(cards, "either", "gpu.amd.com"),
		},
		"a request for the other driver": {
			claims: []string{"either-net"},
		},
		"devices of a network": {
			claims: []string{"net"},
		},
		"an NVLink domain": {
			claims: []string{"imex"},
		},
		"a class of any driver": {
			claims: []string{"large"},
			want:   fmt.Sprintf(perhaps, "large", "large"),
		},
		"a request that names the driver": {
			claims: []string{"large-net"},
		},
		"a class without selectors": {
			claims: []string{"all"},
			want:   fmt.Sprintf(perhaps, "all", "all"),
		},
		"administrative access": {
			claims: []string{"admin"},
		},
		"allocated cards": {
			claims: []string{"given-gpu"},
			want:   fmt.Sprintf(cards, "given-gpu", "gpu.amd.com"),
		},
		"allocated devices of a network": {
			claims: []string{"given-net"},
		},
		"allocated administrative access": {
			claims: []string{"given-view"},
		},
		"a claim that does not exist": {
			claims: []string{"nothing"},
			want:   fmt.Sprintf(missing, "ResourceClaim <nothing>"),
		},
		"a class that does not exist": {
			claims: []string{"noclass"},
			want:   fmt.Sprintf(missing, "DeviceClass <nowhere> of its ResourceClaim <noclass>"),
		},
		"one that is missing, beside cards": {[]string{"nothing", "gpu"}, fmt.Sprintf(missing, "ResourceClaim <nothing>")},
	}) {
		refusal := CheckPod(podWith("lab", tc.claims...), v1alpha1.UnmanagedEnforce, cluster())
		if tc.want == "" {
			check.That(t, refusal == nil, "refused: %v", refusal)
			continue
		}
		check.Must(t, refusal != nil, "not refused")
		check.That(t, strings.HasPrefix(refusal.Message, tc.want) && refusal.Reason == workload.ReasonUnmanagedClaim, "refused: %s %s",
			refusal.Reason, refusal.Message)

		isMissing := strings.HasPrefix(refusal.Message, "Pod waits for ")
		stated, isRefusal := workload.ReadRefusal(refusal.Message)
		want := v1alpha1.BlockedUnmanagedClaim
		if isMissing {
			want = v1alpha1.BlockedOther
		}

		check.That(t, isRefusal && stated.Reason == want, "%q is read as %q, want %s", refusal.Message, stated.Reason, want)
	}
}

func TestClaimsAreThoseOfTheNamespace(t *testing.T) {
	check.That(t, CheckPod(podWith("other", "gpu"), v1alpha1.UnmanagedEnforce, cluster()) == nil, "the claim of another namespace counts")
}

func TestUnmanagedQueuesDecidesAboutClaims(t *testing.T) {
	for unmanaged, want := range map[v1alpha1.UnmanagedQueues]string{
		v1alpha1.UnmanagedEnforce: "(unmanagedQueues: Enforce): request cards as resources of a device plugin, or ask an " +
			"administrator for unmanagedQueues: Ignore",
		v1alpha1.UnmanagedDeny: "(unmanagedQueues: Deny): ",
	} {
		refusal := CheckPod(podWith("lab", "gpu"), unmanaged, cluster())

		check.Must(t, refusal != nil, "%s refuses no claim", unmanaged)
		check.Contains(t, "message", refusal.Message, want)
	}
	for _, name := range []string{"gpu", "all", "nothing"} {
		check.That(t, CheckPod(podWith("lab", name), v1alpha1.UnmanagedIgnore, cluster()) == nil, "Ignore refuses claim %s", name)
	}
}

// TestClaimsOfTemplates: the control plane creates them, and writes their names into the status of the pod.
func TestClaimsOfTemplates(t *testing.T) {
	pod := builder.Pod("lab", "p").Obj()
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimTemplateName: ptr.To("template")}}
	says := func(want string) {
		refusal := CheckPod(pod, v1alpha1.UnmanagedEnforce, cluster())
		if refusal == nil {
			check.Equal(t, "message", want, "")
			return
		}
		check.Contains(t, "message", refusal.Message, want)
	}

	says("Pod waits for ResourceClaim for <card> of its spec.resourceClaims, which does not exist yet")
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "card", ResourceClaimName: ptr.To("gpu")}}
	says("ResourceClaim <gpu> for devices of driver <gpu.nvidia.com>")
	pod.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr.To("net")

	says("")
	pod.Status.ResourceClaimStatuses[0].ResourceClaimName = nil // the pod needs none
	says("")
}

// TestClustersWithoutTheAPI: what cannot be read may be for cards.
func TestClustersWithoutTheAPI(t *testing.T) {
	without := objects{isUnreadable: true}
	check.That(t, CheckPod(podWith("lab"), v1alpha1.UnmanagedEnforce, without) == nil, "a pod without claims is refused")
	check.That(t, CheckPod(podWith("lab", "net"), v1alpha1.UnmanagedIgnore, without) == nil, "Ignore refuses")
	refusal := CheckPod(podWith("lab", "net"), v1alpha1.UnmanagedEnforce, without)
	check.Must(t, refusal != nil, "not refused")
	stated, _ := workload.ReadRefusal(refusal.Message)
	check.Equal(t, "reason", v1alpha1.BlockedUnmanagedClaim, stated.Reason)
}

// TestClassesOfAnyDriverWithoutCards: where no driver offers cards, a claim can get none.
func TestClassesOfAnyDriverWithoutCards(t *testing.T) {
	without := cluster()
	without.drivers = []string{"dra.net"}
	for _, name := range []string{"all", "large"} {
		check.That(t, CheckPod(podWith("lab", name), v1alpha1.UnmanagedEnforce, without) == nil, "claim %s is refused", name)
	}
	check.That(t, CheckPod(podWith("lab", "gpu"), v1alpha1.UnmanagedEnforce, without) != nil, "a claim for cards is allowed "+
		"before their driver offers any")
}
