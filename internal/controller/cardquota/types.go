package cardquota

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queue"
	"cardquota.dev/operator/internal/servicetype"
)

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=get;list;watch

// typesInForce returns what service types mean by the policy in force.
func (r *Reconciler) typesInForce(ctx context.Context) (queue.Types, error) {
	p := &v1alpha1.ServiceTypePolicy{}
	err := r.client.Get(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, p)
	if apierrors.IsNotFound(err) {
		return policy.Types(nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ServiceTypePolicy: %w", err)
	}
	return policy.Types(p), nil
}

// typesChanged lets a ServiceTypePolicy pass when queues mean something else
// by it.
var typesChanged = predicate.Funcs{
	CreateFunc:  func(e event.CreateEvent) bool { return typesDiffer(e.Object, nil) },
	DeleteFunc:  func(e event.DeleteEvent) bool { return typesDiffer(e.Object, nil) },
	UpdateFunc:  func(e event.UpdateEvent) bool { return typesDiffer(e.ObjectOld, e.ObjectNew) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func typesDiffer(before, after client.Object) bool {
	was, _ := before.(*v1alpha1.ServiceTypePolicy)
	is, _ := after.(*v1alpha1.ServiceTypePolicy)
	return !policy.SameTypes(was, is)
}

// everybody is the requests for all CardQuotas.
func (r *Reconciler) everybody(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, everyQueue)
}

// meanings remember by which meaning of its service type every Queue was
// brought in order, so that a change of the policy is not taken for somebody's
// edit of the Queue.
type meanings struct {
	mu sync.Mutex
	by map[string]meaning
}

// meaning is what a service type means; known is false for one that means
// nothing.
type meaning struct {
	servicetype.Type
	known bool
}

func newMeanings() *meanings { return &meanings{by: map[string]meaning{}} }

// of returns the meaning that was remembered, if any.
func (m *meanings) of(name string) (meaning, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.by[name]
	return last, ok
}

func (m *meanings) remember(name string, now meaning) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.by[name] = now
}

// forget drops a CardQuota that is gone.
func (m *meanings) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, name)
}

// meaning is what the service type of the CardQuota means now.
func (p *pass) meaning() meaning {
	means, known := p.types(p.quota.Spec.ServiceType)
	return meaning{means, known}
}

// redefined tells whether the service type meant another thing when the Queue
// was brought in order. After a start the Queue itself has to tell.
func (p *pass) redefined(plan queue.Plan) bool {
	if last, ok := p.meanings.of(p.quota.Name); ok {
		return last != p.meaning()
	}
	return plan.Redefined(p.queue)
}
