package servicetypepolicy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconf"
)

// patience is how long a deleted policy waits for a ConfigMap that refuses to be
// restored. A policy that can never go would be worse than a text that says what
// it said.
const patience = 5 * time.Minute

// finalize undoes what the policy did and lets it go.
func (p *pass) finalize(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.policy, v1alpha1.PolicyFinalizer) {
		return ctrl.Result{}, nil
	}
	if result, waits, err := p.undoWritten(ctx); waits || err != nil {
		return result, err
	}
	if err := p.classes(ctx, nil); err != nil {
		return ctrl.Result{}, err
	}
	before := p.policy.DeepCopy()
	controllerutil.RemoveFinalizer(p.policy, v1alpha1.PolicyFinalizer)
	return ctrl.Result{}, p.patchMeta(ctx, before)
}

// undoWritten undoes the configuration where it was written. It is true when a
// refusal is waited for.
func (p *pass) undoWritten(ctx context.Context) (ctrl.Result, bool, error) {
	written := p.policy.Status.ConfigMap
	if written == nil {
		// Nothing was written, or the status was lost, as in a restored backup.
		err := p.restore(ctx, p.spec.Scheduler.ConfigMap)
		if refused(err) {
			err = nil
		}
		return ctrl.Result{}, false, err
	}
	mayWait := p.now.Sub(p.policy.DeletionTimestamp.Time) < patience
	err := p.undo(ctx, *written, mayWait)
	if err == nil || !refused(err) {
		return ctrl.Result{}, false, err
	}
	result, err := p.report(ctx, outcome{Verdict: policy.Refused(*written, err), again: refusedRetry})
	return result, true, err
}

// undo takes the operator's changes out of a text. What can never be undone is
// told and left; a refusal is returned while it may be waited for.
func (p *pass) undo(ctx context.Context, ref v1alpha1.ConfigMapReference, mayWait bool) error {
	err := p.restore(ctx, ref)
	if err == nil || !refused(err) || mayWait {
		return err
	}
	p.events.Event(p.policy, corev1.EventTypeWarning, v1alpha1.EventConfigNotRestored, fmt.Sprintf(
		"%s keeps the changes of this policy, since it could not be written: %v; what it said before is in ConfigMap %s",
		policy.Place(ref), err, policy.OriginalName(ref.Name)))
	return nil
}

func (p *pass) restore(ctx context.Context, ref v1alpha1.ConfigMapReference) error {
	live, err := p.read(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	original, err := p.read(ctx, ref.Namespace, policy.OriginalName(ref.Name))
	if err != nil {
		return err
	}
	if live != nil {
		undo, any, err := policy.PlanUndo(live, ref.Key, original, p.wanted())
		switch {
		case err != nil:
			p.events.Event(p.policy, corev1.EventTypeWarning, v1alpha1.EventConfigNotRestored, fmt.Sprintf(
				"%s keeps the changes of this policy, since they cannot be undone: %v; what it said before is in ConfigMap %s",
				policy.Place(ref), err, policy.OriginalName(ref.Name)))
			return nil
		case any:
			if err := p.write(ctx, live, ref.Key, undo.Text, ""); err != nil {
				return err
			}
			logf.FromContext(ctx).Info("scheduler configuration restored", "configMap", ref.Namespace+"/"+ref.Name, "exactly", undo.Exact)
			p.events.Event(p.policy, corev1.EventTypeNormal, v1alpha1.EventConfigRestored, restored(ref, undo, original))
		}
	}
	return p.dropOriginal(ctx, ref, live, original)
}

// dropOriginal deletes the copy of the text once the text is that again.
func (p *pass) dropOriginal(ctx context.Context, ref v1alpha1.ConfigMapReference, live, original *corev1.ConfigMap) error {
	if live == nil || original == nil || live.Data[ref.Key] != original.Data[ref.Key] || !policy.Created(original) {
		return nil
	}
	uid := original.UID
	err := p.client.Delete(ctx, original, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ConfigMap %s/%s: %w", original.Namespace, original.Name, err)
	}
	return nil
}

// wanted is what the policy demands, nil while its spec is refused.
func (p *pass) wanted() *schedulerconf.Wanted {
	if len(p.faults) > 0 {
		return nil
	}
	want := policy.WantedOf(p.spec)
	return &want
}

// restored tells how a text was restored.
func restored(ref v1alpha1.ConfigMapReference, undo policy.Undo, original *corev1.ConfigMap) string {
	switch {
	case undo.Exact:
		return policy.Place(ref) + " is again what it was before this policy"
	case original != nil:
		return fmt.Sprintf("%s: the changes of this policy are undone, what others changed since stays; what it said before is in ConfigMap %s",
			policy.Place(ref), original.Name)
	default:
		return policy.Place(ref) + ": the changes of this policy are undone, what others changed since stays"
	}
}
