package controller

import (
	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
)

// updatePolicy takes a policy that has taken effect.
func (n *NodeInventory) updatePolicy(object any) {
	if p, ok := object.(*v1alpha1.ServiceTypePolicy); ok && p.Name == v1alpha1.PolicyName {
		n.rememberPolicy(p)
	}
}

// rememberPolicy keeps a policy that has taken effect, and uses its mappings of cards. The mappings stay
// while the policy is gone, and until a new one takes effect, as in the scheduler: pods hold their
// cards meanwhile.
func (n *NodeInventory) rememberPolicy(p *v1alpha1.ServiceTypePolicy) {
	if !policy.HasTakenEffect(p) {
		return
	}
	n.mu.Lock()
	n.lastPolicy = p
	n.mu.Unlock()
	n.setMappings(policy.CardMappings(p))
}

// PolicyInForce returns what is in force of the ServiceTypePolicy that was read, nil for none. While it
// is deleted, everything stays as it is. Once it is created again, hierarchy and service types stay
// until it takes effect, and the names of schedulers are the new ones. It returns nil if there is no
// policy, and none has taken effect since the operator began: then queues are flat, and service types
// are the built-in ones.
func (n *NodeInventory) PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	n.mu.Lock()
	defer n.mu.Unlock()
	return policy.InForce(read, n.lastPolicy)
}
