package servicetypepolicy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconf"
)

// configure renders the scheduler's configuration and puts it where it is not.
func (p *pass) configure(ctx context.Context, live *corev1.ConfigMap) (outcome, error) {
	ref := policy.Base(p.spec, p.volcano)
	p.follow(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	base, err := p.read(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return outcome{}, err
	}
	p.memory.seen = p.memory.seen || live != nil
	wanted := policy.Configure(p.spec, ref, base, live, p.policy.Status.ConfigHash)
	if wanted.Text == "" {
		return outcome{Condition: wanted.Condition}, nil
	}
	if !p.says(live, wanted) {
		if err := p.write(ctx, live, wanted); err != nil {
			return outcome{}, err
		}
		p.memory.seen = true
	}
	return outcome{Condition: wanted.Condition, hash: schedulerconf.Hash(wanted.Text)}, nil
}

// says tells whether the scheduler's ConfigMap is what it shall be.
func (p *pass) says(live *corev1.ConfigMap, wanted policy.Configuration) bool {
	return live != nil && live.Data[policy.ConfigMapKey] == wanted.Text && live.Annotations[v1alpha1.AnnotationRenderedFrom] == wanted.From &&
		len(live.OwnerReferences) > 0 && live.OwnerReferences[0].UID == p.policy.UID
}

// stands returns the hash of what was written last while that still stands, else "".
func (p *pass) stands(live *corev1.ConfigMap) string {
	if live == nil || schedulerconf.Hash(live.Data[policy.ConfigMapKey]) != p.policy.Status.ConfigHash {
		return ""
	}
	return p.policy.Status.ConfigHash
}

// write applies the configuration, whoever wrote it last, and tells who that was.
func (p *pass) write(ctx context.Context, live *corev1.ConfigMap, wanted policy.Configuration) error {
	by, displaced := "somebody deleted it", live == nil && p.memory.seen
	if live != nil && live.Data[policy.ConfigMapKey] != wanted.Text {
		by, displaced = policy.Displaced(live)
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
