package servicetypepolicy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
)

// classes makes the wanted PriorityClasses, takes away those that were made and
// are not wanted any more, and leaves those of others alone.
func (p *pass) classes(ctx context.Context, wanted []v1alpha1.PriorityClass) error {
	var list schedulingv1.PriorityClassList
	if err := p.client.List(ctx, &list); err != nil {
		return fmt.Errorf("list PriorityClasses: %w", err)
	}
	plan := policy.PlanPriorityClasses(p.policy, wanted, list.Items)
	var faults []error
	for _, class := range plan.Delete {
		uid := class.UID
		if err := p.client.Delete(ctx, class, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			faults = append(faults, fmt.Errorf("delete PriorityClass %s: %w", class.Name, err))
		}
	}
	for _, class := range plan.Create {
		switch err := p.client.Create(ctx, class, client.FieldOwner(v1alpha1.FieldManager)); {
		case err == nil:
			logf.FromContext(ctx).Info("PriorityClass made", "name", class.Name, "value", class.Value)
		case !apierrors.IsAlreadyExists(err):
			faults = append(faults, fmt.Errorf("create PriorityClass %s: %w", class.Name, err))
		}
	}
	for name, message := range plan.Kept {
		if p.memory.kept[name] != message {
			p.events.Event(p.policy, corev1.EventTypeWarning, v1alpha1.EventPriorityClassKept, message)
		}
	}
	p.memory.kept = plan.Kept
	return errors.Join(faults...)
}

// refused reports whether trying a write again at once would only repeat the answer: also a
// configuration may be too large.
func refused(err error) bool {
	return shared.IsRefused(err) || apierrors.IsRequestEntityTooLargeError(err)
}
