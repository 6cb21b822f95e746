package servicetypepolicy

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// syncConfigMap renders the scheduler's configuration from the policy and its base, another ConfigMap, and
// writes it if the scheduler's ConfigMap differs. live is the latter, nil if there is none. If no
// configuration can be rendered, the condition of the result says why, and the ConfigMap stays as it is.
func (r *reconciliation) syncConfigMap(ctx context.Context, live *corev1.ConfigMap) (configResult, error) {
	ref := policy.BaseFor(r.spec, r.volcanoNamespace)
	// Watch before reading, so that no change in between is missed.
	r.watchBase(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	base, err := r.readConfigMap(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return configResult{}, err
	}

	r.history.existed = r.history.existed || live != nil // a missing ConfigMap that has existed was deleted
	wanted := policy.RenderConfiguration(r.spec, ref, base, live, r.policy.Status.ConfigHash)
	if wanted.Text == "" { // none can be rendered
		return configResult{Condition: wanted.Condition}, nil
	}

	if !r.isUpToDate(live, wanted) {
		if err := r.writeConfigMap(ctx, live, wanted); err != nil {
			return configResult{}, err
		}
		r.history.existed = true
	}

	return configResult{Condition: wanted.Condition, hash: schedulerconfig.Hash(wanted.Text)}, nil
}

// isUpToDate reports whether the scheduler's ConfigMap is as wanted.
func (r *reconciliation) isUpToDate(live *corev1.ConfigMap, wanted policy.Configuration) bool {
	return live != nil && live.Data[policy.ConfigMapKey] == wanted.Text && live.Annotations[v1alpha1.AnnotationRenderedFrom] == wanted.From &&
		len(live.OwnerReferences) > 0 && live.OwnerReferences[0].UID == r.policy.UID
}

// writeConfigMap applies the configuration, also over the change of another client, which it reports in an
// event. If it corrected such a change a moment ago, it writes nothing and returns errCacheStale.
func (r *reconciliation) writeConfigMap(ctx context.Context, live *corev1.ConfigMap, wanted policy.Configuration) error {
	// displaced reports that another client deleted or changed what the operator wrote. Then by says which
	// one and how. A text that only the operator wrote differs because the policy or the base changed.
	by := "another client deleted it"
	displaced := live == nil && r.history.existed
	if live != nil && live.Data[policy.ConfigMapKey] != wanted.Text {
		by, displaced = policy.DriftedBy(live)
		by += " wrote it"
	}

	// Two writers that undo each other would reload the scheduler all the time, so a time must pass between
	// corrections. With this error the next run tries again soon.
	if displaced && r.now.Sub(r.history.correctedAt) < minCorrectionInterval {
		return errCacheStale
	}

	apply := corev1ac.ConfigMap(policy.ConfigMapName, r.schedulerNamespace).
		WithLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager}).
		WithAnnotations(map[string]string{v1alpha1.AnnotationRenderedFrom: wanted.From}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ServiceTypePolicy").
			WithName(r.policy.Name).WithUID(r.policy.UID)).
		WithData(map[string]string{policy.ConfigMapKey: wanted.Text})
	if err := r.client.Apply(ctx, apply, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", r.schedulerNamespace, policy.ConfigMapName, err)
	}

	logf.FromContext(ctx).Info("scheduler configuration written", "from", wanted.From, "displaced", displaced, "by", by)
	if displaced {
		r.history.correctedAt = r.now
		r.events.Event(r.policy, corev1.EventTypeWarning, v1alpha1.EventConfigCorrected, fmt.Sprintf(
			"ConfigMap %s/%s: %s, and the operator restored it: change the base or this policy instead", r.schedulerNamespace, policy.ConfigMapName, by))
	}

	return nil
}

// keepInForce writes what is in force of the policy where it survives the policy and a restart. The
// ConfigMap has no owner: the garbage collector must not delete it with the policy.
func (r *reconciliation) keepInForce(ctx context.Context) error {
	kept := r.inForce(r.policy)
	if !policy.IsWorthKeeping(kept) || r.policy.DeletionTimestamp != nil {
		return nil
	}
	text, err := policy.EncodeKept(kept)
	if err != nil || text == r.history.kept {
		return err
	}

	apply := corev1ac.ConfigMap(policy.KeptConfigMapName, r.schedulerNamespace).
		WithLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager}).
		WithData(map[string]string{policy.KeptConfigMapKey: text})
	if err := r.client.Apply(ctx, apply, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", r.schedulerNamespace, policy.KeptConfigMapName, err)
	}

	r.history.kept = text
	return nil
}

// readConfigMap reads a ConfigMap from the API server, nil when there is none. The cache
// may be stale, and the policy must be merged into the current text.
func (r *reconciliation) readConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	live := &corev1.ConfigMap{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	return live, nil
}

// syncPriorityClasses creates the wanted PriorityClasses and deletes its own that are no
// longer wanted. It leaves those of other owners unchanged.
func (r *reconciliation) syncPriorityClasses(ctx context.Context, wanted []v1alpha1.PriorityClass) error {
	var list schedulingv1.PriorityClassList
	if err := r.client.List(ctx, &list); err != nil {
		return fmt.Errorf("list PriorityClasses: %w", err)
	}

	plan := policy.PlanPriorityClasses(r.policy, wanted, list.Items)
	var faults []error
	for _, class := range plan.Delete {
		if err := r.client.Delete(ctx, class, client.Preconditions{UID: ptr.To(class.UID)}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			faults = append(faults, fmt.Errorf("delete PriorityClass %s: %w", class.Name, err))
		}
	}

	for _, class := range plan.Create {
		switch err := r.client.Create(ctx, class, client.FieldOwner(v1alpha1.FieldManager)); {
		case err == nil:
			logf.FromContext(ctx).Info("PriorityClass created", "name", class.Name, "value", class.Value)
		case !apierrors.IsAlreadyExists(err): // a new one of another owner: the next run finds it in the cache
			faults = append(faults, fmt.Errorf("create PriorityClass %s: %w", class.Name, err))
		}
	}

	// A conflict is a PriorityClass of another owner with a wanted name. Each reconcile finds it, so it is an
	// event once, and again when its message changes.
	for name, message := range plan.Conflicts {
		if r.history.reportedClasses[name] != message {
			r.events.Event(r.policy, corev1.EventTypeWarning, v1alpha1.EventPriorityClassKept, message)
		}
	}

	r.history.reportedClasses = plan.Conflicts
	return errors.Join(faults...)
}

// isRefused reports whether an immediate retry of a write would fail again, also because a
// configuration is too large.
func isRefused(err error) bool {
	return shared.IsRefused(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// configMapWatch signals every change of one ConfigMap. The manager's cache cannot have it:
// the policy may name another ConfigMap later, and the operator must not read all
// ConfigMaps.
type configMapWatch struct {
	client  kubernetes.Interface
	log     logr.Logger
	changes chan event.TypedGenericEvent[string]
	// parent ends every watch.
	parent context.Context
	name   types.NamespacedName
	stop   context.CancelFunc
}

// watchConfigMap watches the named ConfigMap, whether or not it exists, instead of the
// previous one; none for an empty name. A failed watch is retried with backoff, so a
// permission may be granted later.
func (w *configMapWatch) watchConfigMap(name types.NamespacedName) {
	if name == w.name {
		return
	}

	w.stop()
	w.name = name
	w.stop = func() {}
	if name.Name == "" {
		return
	}

	ctx, stop := context.WithCancel(w.parent)
	w.stop = stop
	wake := func(any) {
		select {
		case w.changes <- event.TypedGenericEvent[string]{Object: v1alpha1.PolicyName}:
		case <-ctx.Done():
		}
	}

	// The base can be in any namespace. A watch of one name needs no right to read other
	// ConfigMaps.
	informer := toolscache.NewSharedInformer(toolscache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "configmaps", name.Namespace,
		fields.OneTermEqualSelector("metadata.name", name.Name)), &corev1.ConfigMap{}, 0)

	// Both calls fail only on a started informer. Condition ConfigSynced says why a
	// ConfigMap cannot be read, so the log is short.
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		w.log.V(1).Info("ConfigMap cannot be watched", "reason", err.Error())
	}))

	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(_, after any) { wake(after) },
	})
	utilruntime.Must(err)
	go informer.RunWithContext(ctx)
}
