package card

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// recognition fills out for a node that names exactly one model.
type recognition struct {
	node    *corev1.Node
	product product
	out     *Node
	special int // slices and shares found
}

func (r *recognition) hold(name Name, resource corev1.ResourceName) {
	r.out.Holdings = append(r.out.Holdings, Holding{Name: name, Resource: resource, Count: allocatable(r.node, resource)})
}

func (r *recognition) withhold(resource corev1.ResourceName, why string) {
	r.out.Unnamed = append(r.out.Unnamed, resource)
	r.out.Anomalies = append(r.out.Anomalies, why)
}

// slices counts MIG slices under the mixed strategy, where every profile is a
// resource of its own.
func (r *recognition) slices() {
	for _, resource := range slicesOfNode(r.node) {
		if r.product.vendor == migVendor {
			r.special++
		}
		name := Name(r.out.Model + "/mig-" + strings.TrimPrefix(string(resource), migPrefix) + "-mixed")
		switch _, err := ParseName(string(name)); {
		case r.product.vendor != migVendor:
			r.withhold(resource, fmt.Sprintf("offers %s but its model label is of %s", resource, r.product.vendor))
		case err != nil:
			r.withhold(resource, fmt.Sprintf("offers %s, which makes no card name: %v", resource, err))
		default:
			r.hold(name, resource)
		}
	}
}

// shares counts MPS shares. Their name tells how large a card was cut into how
// many, because a half and a quarter of a card are not worth the same.
func (r *recognition) shares() {
	base := r.product.vendor + "/" + r.product.kind
	resource := corev1.ResourceName(base + sharedSuffix)
	if _, ok := r.node.Status.Allocatable[resource]; !ok {
		return
	}
	r.special++
	parts, err := replicas(r.node.Labels, base+replicasSuffix)
	if err != nil {
		r.withhold(resource, fmt.Sprintf("offers %s but %v", resource, err))
		return
	}
	memory := r.node.Labels[base+memorySuffix]
	mib, err := strconv.ParseInt(memory, 10, 64)
	if err != nil || mib < 1 || mib > maxMemory {
		r.withhold(resource, fmt.Sprintf("offers %s but label %s=%s is no memory size in MiB", resource, base+memorySuffix, quote(memory)))
		return
	}
	r.hold(Name(fmt.Sprintf("%s/mps-%dg*1/%d", r.out.Model, gib(mib), parts)), resource)
}

// wholeCards counts the cards themselves.
func (r *recognition) wholeCards() {
	whole := corev1.ResourceName(r.product.vendor + "/" + r.product.kind)
	if _, ok := r.node.Status.Allocatable[whole]; ok {
		r.hold(Name(r.out.Model), whole)
		return
	}
	if r.special > 0 {
		return
	}
	candidates := resourcesOf(r.node, r.product)
	slices.Sort(candidates)
	switch len(candidates) {
	case 0: // the device plugin has not reported yet
	case 1:
		r.hold(Name(r.out.Model), candidates[0])
	default:
		r.out.Unnamed = append(r.out.Unnamed, candidates...)
		r.out.Anomalies = append(r.out.Anomalies, fmt.Sprintf("model %s could be any of the resources %v", r.out.Model, candidates))
	}
}
