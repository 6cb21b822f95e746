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

// selectorsOf are selectors with these CEL expressions.
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

// claimOf is a ResourceClaim with these requests.
func claimOf(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{}
	claim.Spec.Devices.Requests = requests
	return claim
}

// allocated gives a ResourceClaim the devices of an allocation.
func allocated(claim *resourcev1.ResourceClaim, results ...resourcev1.DeviceRequestAllocationResult) *resourcev1.ResourceClaim {
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: results}}
	return claim
}

// classOf is a DeviceClass with these selectors.
func classOf(expressions ...string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: selectorsOf(expressions...)}}
}

// cluster has drivers, classes of cards and of other devices, and claims for them.
func cluster() objects {
	asAdmin := request("gpu.nvidia.com")
	asAdmin.Exactly.AdminAccess = ptr.To(true)

	oneOf := resourcev1.DeviceRequest{
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
			"lab/one-of":     claimOf(oneOf),
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

// TestClaimsForCardsAreRefused: a pod with a ResourceClaim that may get cards is refused, because no quota
// limits these cards. Selectors of DeviceClasses and requests name the drivers of a claim; if devices are
// allocated, these decide. Drivers gpu.nvidia.com and gpu.amd.com hand out cards, dra.net and
// compute-domain.nvidia.com do not. A class that names no driver may get cards; gpu.amd.com is the first
// driver of the cluster that hands some out. A claim or class that does not exist yet makes the pod wait. Of
// two claims the first that is refused counts. The operator reads the reason again from the message:
// UnmanagedClaim, or Other while the pod waits for an object. Each row says what its claims are; helper
// cluster has them, and their classes, by name.
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
		"no claim: allowed": {},
		"a class of gpu.nvidia.com": {
			claims: []string{"gpu"},
			want:   fmt.Sprintf(cards, "gpu", "gpu.nvidia.com"),
		},
		"a class of gpu.nvidia.com in the second request": {
			claims: []string{"second"},
			want:   fmt.Sprintf(cards, "second", "gpu.nvidia.com"),
		},
		"a class of gpu.nvidia.com in the second claim": {
			claims: []string{"net", "gpu"},
			want:   fmt.Sprintf(cards, "gpu", "gpu.nvidia.com"),
		},
		"a class of gpu.nvidia.com as the second alternative": {
			claims: []string{"one-of"},
			want:   fmt.Sprintf(cards, "one-of", "gpu.nvidia.com"),
		},
		"a class of gpu.amd.com or dra.net": {
			claims: []string{"either"},
			want:   fmt.Sprintf(cards, "either", "gpu.amd.com"),
		},
		"a class of gpu.amd.com or dra.net, and the request selects dra.net: allowed": {
			claims: []string{"either-net"},
		},
		"a class of dra.net: allowed": {
			claims: []string{"net"},
		},
		"a class of compute-domain.nvidia.com: allowed": {
			claims: []string{"imex"},
		},
		"a class that selects by memory": {
			claims: []string{"large"},
			want:   fmt.Sprintf(perhaps, "large", "large"),
		},
		"a class that selects by memory, and the request selects dra.net: allowed": {
			claims: []string{"large-net"},
		},
		"a class without selectors": {
			claims: []string{"all"},
			want:   fmt.Sprintf(perhaps, "all", "all"),
		},
		"administrative access, which uses no device: allowed": {
			claims: []string{"admin"},
		},
		"the allocation has devices of gpu.amd.com": {
			claims: []string{"given-gpu"},
			want:   fmt.Sprintf(cards, "given-gpu", "gpu.amd.com"),
		},
		"the allocation has only devices of dra.net: allowed": {
			claims: []string{"given-net"},
		},
		"the allocation is administrative access: allowed": {
			claims: []string{"given-view"},
		},
		"the claim does not exist": {
			claims: []string{"nothing"},
			want:   fmt.Sprintf(missing, "ResourceClaim <nothing>"),
		},
		"the class does not exist": {
			claims: []string{"noclass"},
			want:   fmt.Sprintf(missing, "DeviceClass <nowhere> of its ResourceClaim <noclass>"),
		},
		"one claim does not exist, and another one is for cards": {
			claims: []string{"nothing", "gpu"},
			want:   fmt.Sprintf(missing, "ResourceClaim <nothing>"),
		},
	}) {
		refusal := CheckPod(podWith("lab", tc.claims...), v1alpha1.UnmanagedEnforce, cluster())
		if tc.want == "" {
			check.That(t, refusal == nil, "refused: %v", refusal)
			continue
		}
		check.Must(t, refusal != nil, "not refused")
		check.That(t, strings.HasPrefix(refusal.Message(), tc.want), "refused: %s", refusal.Message())
		check.Equal(t, "reason", workload.ReasonUnmanagedClaim, refusal.Reason())

		wantBlocked := v1alpha1.BlockedUnmanagedClaim
		if strings.HasPrefix(refusal.Message(), "Pod waits for ") {
			wantBlocked = v1alpha1.BlockedOther
		}
		stated, _ := workload.ReadRefusal(refusal.Message())
		check.Equal(t, "refusal that is read from the message", *refusal, stated)
		check.Equal(t, "reason that is read from the message", wantBlocked, stated.Blocked())
	}
}

// TestClaimsAreThoseOfTheNamespace: claim gpu of namespace lab is for cards, and claim gpu of namespace other for a
// network. The pod is in namespace other, so it is not refused.
func TestClaimsAreThoseOfTheNamespace(t *testing.T) {
	check.Equal(t, "refusal", nil, CheckPod(podWith("other", "gpu"), v1alpha1.UnmanagedEnforce, cluster()))
}

// TestUnmanagedQueuesDecidesAboutClaims: unmanagedQueues of the ServiceTypePolicy decides about cards that no quota
// limits. Enforce and Deny refuse claims for cards, and the message of Enforce says what would help. Ignore refuses
// no claim: neither gpu for cards, nor all for any device, nor one that does not exist.
func TestUnmanagedQueuesDecidesAboutClaims(t *testing.T) {
	for unmanaged, want := range map[v1alpha1.UnmanagedQueues]string{
		v1alpha1.UnmanagedEnforce: "(unmanagedQueues: Enforce): request cards as resources of a device plugin, or ask an " +
			"administrator for unmanagedQueues: Ignore",
		v1alpha1.UnmanagedDeny: "(unmanagedQueues: Deny): ",
	} {
		refusal := CheckPod(podWith("lab", "gpu"), unmanaged, cluster())

		check.Must(t, refusal != nil, "%s refuses no claim", unmanaged)
		check.Contains(t, "message", refusal.Message(), want)
	}
	for _, name := range []string{"gpu", "all", "nothing"} {
		check.Equal(t, "refusal of claim "+name, nil, CheckPod(podWith("lab", name), v1alpha1.UnmanagedIgnore, cluster()))
	}
}

// TestAClaimOfATemplateCountsOnceItIsNamed: the control plane creates the claim of a template, and writes the name of
// the claim into the status of the pod. Until then the pod waits. Then the claim decides: claim gpu is for cards, and
// net is not. A status without a name says that the pod needs no claim.
func TestAClaimOfATemplateCountsOnceItIsNamed(t *testing.T) {
	pod := builder.Pod("lab", "p").Obj()
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimTemplateName: ptr.To("template")}}
	expectRefusal := func(want string) { // "" for none
		refusal := CheckPod(pod, v1alpha1.UnmanagedEnforce, cluster())
		if want == "" {
			check.That(t, refusal == nil, "refused: %v", refusal)
			return
		}
		check.Must(t, refusal != nil, "not refused, want %s", want)
		check.Contains(t, "message", refusal.Message(), want)
	}

	expectRefusal("Pod waits for ResourceClaim for <card> of its spec.resourceClaims, which does not exist yet")
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "card", ResourceClaimName: ptr.To("gpu")}}
	expectRefusal("ResourceClaim <gpu> for devices of driver <gpu.nvidia.com>")

	pod.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr.To("net")
	expectRefusal("")
	pod.Status.ResourceClaimStatuses[0].ResourceClaimName = nil // the pod needs none
	expectRefusal("")
}

// TestClaimsThatCannotBeReadAreRefused: if the API of claims cannot be read, any claim may be for cards. So a pod
// with a claim is refused, unless unmanagedQueues is Ignore. A pod without claims is not refused.
func TestClaimsThatCannotBeReadAreRefused(t *testing.T) {
	unreadable := objects{isUnreadable: true}
	check.Equal(t, "refusal of a pod without claims", nil, CheckPod(podWith("lab"), v1alpha1.UnmanagedEnforce, unreadable))
	check.Equal(t, "refusal with unmanagedQueues Ignore", nil, CheckPod(podWith("lab", "net"), v1alpha1.UnmanagedIgnore, unreadable))

	refusal := CheckPod(podWith("lab", "net"), v1alpha1.UnmanagedEnforce, unreadable)
	check.Must(t, refusal != nil, "not refused")
	stated, _ := workload.ReadRefusal(refusal.Message())
	check.Equal(t, "reason", v1alpha1.BlockedUnmanagedClaim, stated.Blocked())
}

// TestClassesOfAnyDriverAreAllowedWithoutDriversOfCards: claims all and large are of classes that name no driver. If
// the only driver of the cluster is dra.net, these claims can get no cards, so they are allowed. Claim gpu names
// gpu.nvidia.com, so it is refused also before that driver offers devices.
func TestClassesOfAnyDriverAreAllowedWithoutDriversOfCards(t *testing.T) {
	withoutCards := cluster()
	withoutCards.drivers = []string{"dra.net"}
	for _, name := range []string{"all", "large"} {
		check.Equal(t, "refusal of claim "+name, nil, CheckPod(podWith("lab", name), v1alpha1.UnmanagedEnforce, withoutCards))
	}
	check.That(t, CheckPod(podWith("lab", "gpu"), v1alpha1.UnmanagedEnforce, withoutCards) != nil, "a claim for cards is allowed "+
		"before their driver offers any")
}
