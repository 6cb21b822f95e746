package servicetypepolicy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// configure renders the scheduler's configuration and puts it where it is not.
func (p *pass) configure(ctx context.Context, live *corev1.ConfigMap) (outcome, error) {
	ref := policy.BaseFor(p.spec, p.volcano)
	p.follow(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	base, err := p.read(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return outcome{}, err
	}
	p.memory.seen = p.memory.seen || live != nil
	wanted := policy.RenderConfiguration(p.spec, ref, base, live, p.policy.Status.ConfigHash)
	if wanted.Text == "" {
		return outcome{Condition: wanted.Condition}, nil
	}
	if !p.says(live, wanted) {
		if err := p.write(ctx, live, wanted); err != nil {
			return outcome{}, err
		}
		p.memory.seen = true
	}
	return outcome{Condition: wanted.Condition, hash: schedulerconfig.Hash(wanted.Text)}, nil
}

// says reports whether the scheduler's ConfigMap is what is wanted.
func (p *pass) says(live *corev1.ConfigMap, wanted policy.Configuration) bool {
	return live != nil && live.Data[policy.ConfigMapKey] == wanted.Text && live.Annotations[v1alpha1.AnnotationRenderedFrom] == wanted.From &&
		len(live.OwnerReferences) > 0 && live.OwnerReferences[0].UID == p.policy.UID
}

// write applies the configuration, whoever wrote it last, and tells who that was.
func (p *pass) write(ctx context.Context, live *corev1.ConfigMap, wanted policy.Configuration) error {
	by, displaced := "somebody deleted it", live == nil && p.memory.seen
	if live != nil && live.Data[policy.ConfigMapKey] != wanted.Text {
		by, displaced = policy.DriftedBy(live)
		by += " wrote it"
	}
	if displaced && p.now.Sub(p.memory.written) < leastPause {
		return errStale
	}
	apply := corev1ac.ConfigMap(policy.ConfigMapName, p.scheduler).
		WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"}).
		WithAnnotations(map[string]string{v1alpha1.AnnotationRenderedFrom: wanted.From}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ServiceTypePolicy").
			WithName(p.policy.Name).WithUID(p.policy.UID)).
		WithData(map[string]string{policy.ConfigMapKey: wanted.Text})
	if err := p.client.Apply(ctx, apply, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", p.scheduler, policy.ConfigMapName, err)
	}
	logf.FromContext(ctx).Info("scheduler configuration written", "from", wanted.From, "displaced", displaced, "by", by)
	if displaced {
		p.memory.written = p.now
		p.events.Event(p.policy, corev1.EventTypeWarning, v1alpha1.EventConfigCorrected, fmt.Sprintf(
			"ConfigMap %s/%s: %s, and it was put right: change the base or this policy instead", p.scheduler, policy.ConfigMapName, by))
	}
	return nil
}

// read reads a ConfigMap from the API server, nil when there is none. The cache
// is no help here: what is laid over must be the text of this moment.
func (p *pass) read(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	live := &corev1.ConfigMap{}
	err := p.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	return live, nil
}

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
	for name, message := range plan.Conflicts {
		if p.memory.kept[name] != message {
			p.events.Event(p.policy, corev1.EventTypeWarning, v1alpha1.EventPriorityClassKept, message)
		}
	}
	p.memory.kept = plan.Conflicts
	return errors.Join(faults...)
}

// refused reports whether trying a write again at once would only repeat the answer: also a
// configuration may be too large.
func refused(err error) bool {
	return shared.IsRefused(err) || apierrors.IsRequestEntityTooLargeError(err)
}
