package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers/resource"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/deviceclaim"
	"cardquota.dev/operator/internal/workload"
)

// claimsAreAllowed: no ResourceClaim of the pod is for cards, which no quota limits, unless the
// administrator allows such cards.
func claimsAreAllowed(s *Session, r CheckInput) *workload.Refusal { return s.CheckClaims(r.Task.Pod) }

// CheckClaims returns why the ResourceClaims of a pod keep it from being placed.
func (s *Session) CheckClaims(pod *corev1.Pod) *workload.Refusal {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	return deviceclaim.CheckPod(pod, s.Args.UnmanagedQueues, newDeviceObjects(s.Volcano))
}

// deviceObjects are the objects of resource.k8s.io in Volcano's cache. Volcano watches them if the API
// server of the cluster serves them by default, or the feature gate is set.
type deviceObjects struct {
	// informers are nil if Volcano watches no such objects.
	informers resource.Interface
}

// newDeviceObjects returns the objects that Volcano's cache has, none if it watches none.
func newDeviceObjects(ssn *framework.Session) deviceObjects {
	if factory := ssn.InformerFactory(); factory != nil && ssn.SharedDRAManager() != nil {
		return deviceObjects{factory.Resource()}
	}
	return deviceObjects{}
}

// IsReadable reports whether Volcano watches such objects. The other methods may be called only then.
func (o deviceObjects) IsReadable() bool { return o.informers != nil }

// ResourceClaim returns a claim, nil if it does not exist or is not known yet.
func (o deviceObjects) ResourceClaim(namespace, name string) *resourcev1.ResourceClaim {
	claim, err := o.informers.V1().ResourceClaims().Lister().ResourceClaims(namespace).Get(name)
	if err != nil {
		return nil
	}
	return claim
}

// DeviceClass returns a class, nil if it does not exist or is not known yet.
func (o deviceObjects) DeviceClass(name string) *resourcev1.DeviceClass {
	class, err := o.informers.V1().DeviceClasses().Lister().Get(name)
	if err != nil {
		return nil
	}
	return class
}

// Drivers returns the names of the drivers that offer devices on some node, sorted.
func (o deviceObjects) Drivers() []string {
	listed, _ := o.informers.V1().ResourceSlices().Lister().List(labels.Everything()) // the lister cannot fail
	drivers := map[string]bool{}
	for _, slice := range listed {
		drivers[slice.Spec.Driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}
