// Package deviceclaim says which ResourceClaims are for cards. Dynamic resource allocation hands out their
// devices, so no quota limits them. The package is pure.
package deviceclaim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// Objects are the objects of resource.k8s.io that the rules read.
type Objects interface {
	// IsReadable reports whether the others can be read at all. They cannot in a cluster without
	// resource.k8s.io/v1.
	IsReadable() bool
	// ResourceClaim returns a claim, nil for an unknown one.
	ResourceClaim(namespace, name string) *resourcev1.ResourceClaim
	// DeviceClass returns a class, nil for an unknown one.
	DeviceClass(name string) *resourcev1.DeviceClass
	// Drivers returns the drivers that have ResourceSlices, sorted.
	Drivers() []string
}

// CheckPod returns why a pod with ResourceClaims may not be placed, nil if it may. No quota limits cards of
// claims. So the policy's unmanagedQueues, made for queues without quota, decides about claims in every
// queue: with Ignore pods may use their cards, else no pod may. A claim that may be for cards counts as one
// for cards.
func CheckPod(pod *corev1.Pod, unmanaged v1alpha1.UnmanagedQueues, objects Objects) *workload.Refusal {
	if len(pod.Spec.ResourceClaims) == 0 || unmanaged == v1alpha1.UnmanagedIgnore {
		return nil
	}
	if !objects.IsReadable() {
		return &workload.Refusal{Code: workload.CodeClaimsUnreadable, Policy: unmanaged}
	}

	for _, reference := range pod.Spec.ResourceClaims {
		name, isNeeded := claimName(pod, reference)
		if !isNeeded { // the control plane decided to create no claim for it
			continue
		}
		if refusal := checkClaim(pod.Namespace, name, reference.Name, unmanaged, objects); refusal != nil {
			return refusal
		}
	}

	return nil
}

// claimName returns the name of a claim of a pod, "" if it does not exist yet. isNeeded is false if the
// control plane created none, because the pod needs none.
func claimName(pod *corev1.Pod, reference corev1.PodResourceClaim) (name string, isNeeded bool) {
	if reference.ResourceClaimName != nil {
		return *reference.ResourceClaimName, true
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == reference.Name {
			return ptr.Deref(status.ResourceClaimName, ""), status.ResourceClaimName != nil
		}
	}
	return "", true
}

// checkClaim returns why a pod with a claim may not be placed, nil if it may. reference is the claim's name
// in the pod. name is "" for a claim that is still to be created.
func checkClaim(namespace, name, reference string, unmanaged v1alpha1.UnmanagedQueues, objects Objects) *workload.Refusal {
	if name == "" {
		return awaitObject("ResourceClaim for <%s> of its spec.resourceClaims", reference)
	}
	claim := objects.ResourceClaim(namespace, name)
	if claim == nil {
		return awaitObject("ResourceClaim <%s>", name)
	}

	// An allocated claim names its devices, so the selectors do not matter any more.
	if claim.Status.Allocation != nil {
		driver := allocatedDriver(claim.Status.Allocation)
		if driver == "" {
			return nil
		}
		return refuseClaim(unmanaged, name, driver)
	}

	for _, request := range requestsOf(claim) {
		// A class that is missing now can be created for any driver, so the pod waits for it.
		class := objects.DeviceClass(request.class)
		if class == nil {
			return awaitObject("DeviceClass <%s> of its ResourceClaim <%s>", request.class, name)
		}

		// A device must match the selectors of the class and of the request.
		allowed := driversOf(class.Spec.Selectors).intersect(driversOf(request.selectors))
		if driver := firstAccelerator(allowed.names); driver != "" {
			return refuseClaim(unmanaged, name, driver)
		}

		if !allowed.isAny {
			continue
		}

		// Selectors that name no driver select cards as soon as the cluster has a driver of cards.
		if driver := firstAccelerator(objects.Drivers()); driver != "" {
			return &workload.Refusal{Code: workload.CodeClaimForAny, Object: name, Other: request.class, Detail: driver, Policy: unmanaged}
		}
	}

	return nil
}

// deviceRequest is one alternative of a request for devices.
type deviceRequest struct {
	class     string
	selectors []resourcev1.DeviceSelector
}

// requestsOf returns the alternatives of all requests of a claim. Administrative access, as monitors have
// it, takes no device from others.
func requestsOf(claim *resourcev1.ResourceClaim) []deviceRequest {
	var requests []deviceRequest
	for _, request := range claim.Spec.Devices.Requests {
		if exactly := request.Exactly; exactly != nil && !ptr.Deref(exactly.AdminAccess, false) {
			requests = append(requests, deviceRequest{exactly.DeviceClassName, exactly.Selectors})
		}
		for _, alternative := range request.FirstAvailable {
			requests = append(requests, deviceRequest{alternative.DeviceClassName, alternative.Selectors})
		}
	}
	return requests
}

// allocatedDriver returns the driver of the first card that a claim has, "" for none.
func allocatedDriver(allocation *resourcev1.AllocationResult) string {
	for _, device := range allocation.Devices.Results {
		if !ptr.Deref(device.AdminAccess, false) && card.IsAcceleratorDriver(device.Driver) {
			return device.Driver
		}
	}
	return ""
}

// firstAccelerator returns the first driver that hands out cards, "" for none.
func firstAccelerator(names []string) string {
	if i := slices.IndexFunc(names, card.IsAcceleratorDriver); i >= 0 {
		return names[i]
	}
	return ""
}

// awaitObject refuses a pod until an object exists that says whether the pod gets cards.
func awaitObject(format string, values ...any) *workload.Refusal {
	return &workload.Refusal{Code: workload.CodeClaimNotFound, Object: fmt.Sprintf(format, values...)}
}

// refuseClaim refuses a pod with a claim for cards of a driver.
func refuseClaim(unmanaged v1alpha1.UnmanagedQueues, name, driver string) *workload.Refusal {
	return &workload.Refusal{Code: workload.CodeClaimForCards, Object: name, Detail: driver, Policy: unmanaged}
}
