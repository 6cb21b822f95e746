package servicetypepolicy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
)

// read reads a ConfigMap from the API server, nil when there is none. The cache
// is no help here: what is changed must be the text of this moment.
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

// keep puts the text aside before it is changed for the first time. It is applied, not
// created, so that the right to do so can be limited to this one name. A copy that came
// meanwhile is older and stays: it is immutable, or somebody else's.
func (p *pass) keep(ctx context.Context, ref v1alpha1.ConfigMapReference, text string) error {
	original := policy.Original(ref, text)
	original.APIVersion, original.Kind = "v1", "ConfigMap"
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(original)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", ref.Namespace, original.Name, err)
	}
	err = p.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), client.FieldOwner(policy.FieldManager))
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("create ConfigMap %s/%s: %w", ref.Namespace, original.Name, err)
	}
	return nil
}

// write puts a text and the record of its changes in one write, with the
// resource version as a lock. Without a record the annotation goes.
func (p *pass) write(ctx context.Context, live *corev1.ConfigMap, key, text, undo string) error {
	before := live.DeepCopy()
	live.Data[key] = text
	if undo == "" {
		delete(live.Annotations, v1alpha1.AnnotationSchedulerConfigUndo)
	} else {
		if live.Annotations == nil {
			live.Annotations = map[string]string{}
		}
		live.Annotations[v1alpha1.AnnotationSchedulerConfigUndo] = undo
	}
	err := p.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(policy.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", live.Namespace, live.Name, err)
	}
	return nil
}

// classes makes the wanted PriorityClasses, takes away those that were made and
// are not wanted any more, and leaves those of others alone.
func (p *pass) classes(ctx context.Context, wanted []v1alpha1.PriorityClass) error {
	var list schedulingv1.PriorityClassList
	if err := p.client.List(ctx, &list); err != nil {
		return fmt.Errorf("list PriorityClasses: %w", err)
	}
	plan := policy.PlanPriorityClasses(wanted, list.Items)
	var faults []error
	for _, class := range plan.Delete {
		uid := class.UID
		if err := p.client.Delete(ctx, class, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			faults = append(faults, fmt.Errorf("delete PriorityClass %s: %w", class.Name, err))
		}
	}
	for _, class := range plan.Create {
		switch err := p.client.Create(ctx, class, client.FieldOwner(policy.FieldManager)); {
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

// refused tells an answer of the API server or of an admission webhook that
// trying again at once would only repeat.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}
