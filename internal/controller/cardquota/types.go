package cardquota

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
)

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=get;list;watch

// findPolicy reads the ServiceTypePolicy, nil when there is none.
func (r *Reconciler) findPolicy(ctx context.Context) (*v1alpha1.ServiceTypePolicy, error) {
	p := &v1alpha1.ServiceTypePolicy{}
	err := r.client.Get(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, p)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ServiceTypePolicy: %w", err)
	}
	return p, nil
}

// policyChanged lets a ServiceTypePolicy pass when queues mean something else by it,
// or when quotas are enforced or no longer. Which pods hold cards past the scheduler is
// no matter of all queues: the Recounter wakes those that it concerns.
var policyChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return true },
	DeleteFunc: func(event.DeleteEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, _ := e.ObjectOld.(*v1alpha1.ServiceTypePolicy)
		is, _ := e.ObjectNew.(*v1alpha1.ServiceTypePolicy)
		return !policy.SameTypes(was, is) || !conditions.Same(enforcedElsewhere(was), enforcedElsewhere(is))
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// enforcedElsewhere is condition Enforced of a queue that no pod came past the scheduler in.
func enforcedElsewhere(p *v1alpha1.ServiceTypePolicy) metav1.Condition {
	if whole := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionEnforced); whole != nil {
		return enforcement.OfQueue(everyQueue, whole, nil)
	}
	return metav1.Condition{}
}

// everybody is the requests for all CardQuotas.
func (r *Reconciler) everybody(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, everyQueue)
}
