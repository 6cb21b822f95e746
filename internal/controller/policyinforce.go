package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
)

// RestorePolicy reads what an earlier operator kept of the policy in force. It must be called before the
// controllers start: without a policy they would put every queue under root, and forget mapped cards. A
// policy in the cluster that has taken effect replaces it. A text that is no policy is left out.
func (n *NodeInventory) RestorePolicy(ctx context.Context, live client.Reader, namespace string) error {
	stored := &corev1.ConfigMap{}
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: policy.KeptConfigMapName}, stored)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err): // the rights are those of an earlier version, which kept nothing
		logf.FromContext(ctx).Error(err, "without a policy, queues are flat and no card is mapped", "namespace", namespace, "name", policy.KeptConfigMapName)
		return nil
	case err != nil:
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, policy.KeptConfigMapName, err)
	}

	kept, err := policy.DecodeKept(stored.Data[policy.KeptConfigMapKey])
	if err != nil {
		logf.FromContext(ctx).Error(err, "without a policy, queues are flat and no card is mapped", "namespace", namespace, "name", policy.KeptConfigMapName)
		return nil
	}

	n.rememberPolicy(kept)
	return nil
}

// updatePolicy takes a policy that has taken effect.
func (n *NodeInventory) updatePolicy(object any) {
	if p, ok := object.(*v1alpha1.ServiceTypePolicy); ok && p.Name == v1alpha1.PolicyName {
		n.rememberPolicy(p)
	}
}

// rememberPolicy keeps a policy that has taken effect, and uses its mappings of cards. The mappings stay
// while the policy is gone, and until a new one takes effect, as in the scheduler: pods keep their
// cards meanwhile.
func (n *NodeInventory) rememberPolicy(p *v1alpha1.ServiceTypePolicy) {
	if !policy.IsWorthKeeping(p) {
		return
	}
	n.mu.Lock()
	n.lastPolicy = policy.InForce(p, n.lastPolicy) // of an invalid policy only the mode is in force
	p = n.lastPolicy
	n.mu.Unlock()
	n.setMappings(policy.CardMappings(p))
}

// PolicyInForce returns what is in force of the ServiceTypePolicy that was read, nil for none. While it
// is deleted, everything stays as it is. Once it is created again, hierarchy and service types stay
// until it takes effect, and the names of schedulers are the new ones. A restart of the operator changes
// nothing of that (RestorePolicy). It returns nil if there is no policy, and none has ever taken effect:
// then queues are flat, and service types are the built-in ones.
func (n *NodeInventory) PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	n.mu.Lock()
	defer n.mu.Unlock()
	return policy.InForce(read, n.lastPolicy)
}

// ModeChanged selects changes of the mode in force of a ServiceTypePolicy.
var ModeChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*v1alpha1.ServiceTypePolicy)
	after, _ := e.ObjectNew.(*v1alpha1.ServiceTypePolicy)
	return !policy.SameMode(before, after)
}}
