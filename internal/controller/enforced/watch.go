// Package enforced watches what proves that quotas are enforced: the
// scheduler's heartbeat, who leads Volcano's schedulers, other schedulers' pods,
// the ServiceTypePolicy, and the pods that hold cards past our scheduler.
//
// It only carries: the verdict is found in internal/enforcement. Who shows the
// verdict is woken when its words change, never by a mere renewal.
package enforced

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
)

// EveryQueue is what subscribers get when the verdict of all queues changed; it
// is no valid name of a queue.
const EveryQueue = "*"

// Watch keeps the verdict up to date. Its methods are safe for concurrent use.
type Watch struct {
	cache  cache.Cache
	leases kubernetes.Interface
	// dirty holds a token while something was heard since the last verdict.
	dirty chan struct{}
	// queues and policy are the subscribers.
	queues []chan event.TypedGenericEvent[string]
	policy []chan event.TypedGenericEvent[string]

	mu       sync.RWMutex
	heard    heard
	verdicts *verdicts // nil before the first verdict
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=volcano-system,resources=leases,resourceNames=cardquota-scheduler;volcano,verbs=get;list;watch

// Setup adds a Watch to a manager. It reads policies and pods from the manager's
// cache and the scheduler's Leases from the API server. namespace is the scheduler's,
// volcano that of Volcano's own programs.
func Setup(mgr ctrl.Manager, metrics prometheus.Registerer, namespace, volcano string) (*Watch, error) {
	leases, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make client for Leases: %w", err)
	}
	w := &Watch{cache: mgr.GetCache(), leases: leases, dirty: make(chan struct{}, 1), heard: heard{namespace: namespace, volcano: volcano, foreign: map[string]types.UID{}}}
	if err := metrics.Register(w); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(w); err != nil {
		return nil, fmt.Errorf("add the watch of enforcement: %w", err)
	}
	return w, nil
}

// OfQueue returns the verdict for the CardQuota of a queue. It is false while
// nothing can be said because the operator has just started.
func (w *Watch) OfQueue(name string) (enforcement.Verdict, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.verdicts == nil {
		return enforcement.Verdict{}, false
	}
	return w.verdicts.ofQueue(name), true
}

// whole returns the verdict for the whole cluster. It is false like OfQueue.
func (w *Watch) whole() (enforcement.Verdict, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.verdicts == nil {
		return enforcement.Verdict{}, false
	}
	return w.verdicts.policy, true
}

// WakeQueues makes a channel that names the queues whose verdict changed, or
// EveryQueue. It must be called before Start and be read until the end.
func (w *Watch) WakeQueues() chan event.TypedGenericEvent[string] {
	w.queues = append(w.queues, make(chan event.TypedGenericEvent[string]))
	return w.queues[len(w.queues)-1]
}

// WakePolicy makes a channel that names the ServiceTypePolicy when its verdict
// changed, or what is known of the scheduler. It is used like WakeQueues.
func (w *Watch) WakePolicy() chan event.TypedGenericEvent[string] {
	w.policy = append(w.policy, make(chan event.TypedGenericEvent[string]))
	return w.policy[len(w.policy)-1]
}

// SetBypasses takes all pods that hold cards past our scheduler. There is no
// verdict before the first call.
func (w *Watch) SetBypasses(bypasses []enforcement.Bypass) {
	w.hear(func(h *heard) { h.counted, h.bypasses = true, bypasses })
}

// Start judges until the context ends: whenever something was heard, and when a
// verdict runs out.
func (w *Watch) Start(ctx context.Context) error {
	if err := w.watch(ctx); err != nil {
		return err
	}
	leases := leaseWatch{watch: w}
	leases.start(ctx, w.heard.namespace)
	defer leases.running.Wait()
	for {
		changes, until := w.judge(time.Now())
		if err := w.wake(ctx, changes); err != nil {
			return nil
		}
		var runsOut <-chan time.Time
		if !until.IsZero() {
			runsOut = time.After(time.Until(until))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.dirty:
		case <-runsOut:
		}
	}
}

// hear notes something under the lock and has it judged.
func (w *Watch) hear(note func(*heard)) {
	w.mu.Lock()
	note(&w.heard)
	w.mu.Unlock()
	select {
	case w.dirty <- struct{}{}:
	default: // a verdict is due anyway
	}
}

// judge makes the verdicts and returns whom to wake and when to judge again.
func (w *Watch) judge(now time.Time) (changes, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	facts, ready := w.heard.facts(now)
	if !ready {
		return changes{}, time.Time{}
	}
	before := w.verdicts
	w.verdicts = judge(facts)
	return w.verdicts.since(before), w.verdicts.policy.Until
}

// wake tells the subscribers. It fails when the context ends.
func (w *Watch) wake(ctx context.Context, c changes) error {
	send := func(to []chan event.TypedGenericEvent[string], name string) error {
		for _, subscriber := range to {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case subscriber <- event.TypedGenericEvent[string]{Object: name}:
			}
		}
		return nil
	}
	for _, name := range c.queues {
		if err := send(w.queues, name); err != nil {
			return err
		}
	}
	if c.policy {
		return send(w.policy, v1alpha1.PolicyName)
	}
	return nil
}

// watch follows the policy and the pods of other schedulers in the cache.
func (w *Watch) watch(ctx context.Context) error {
	policies := handlers(func(p *v1alpha1.ServiceTypePolicy, gone, initial bool) {
		if p.Name == v1alpha1.PolicyName {
			w.hear(func(h *heard) { h.setPolicy(p, gone, initial, time.Now()) })
		}
	})
	pods := handlers(func(p *corev1.Pod, gone, _ bool) {
		// Of ten thousand pods only those of schedulers are worth a verdict.
		w.mu.RLock()
		_, known := w.heard.foreign[podName(p)]
		news := known != (!gone && isForeign(p))
		w.mu.RUnlock()
		if news {
			w.hear(func(h *heard) { h.setPod(p, gone) })
		}
	})
	for _, of := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{{&v1alpha1.ServiceTypePolicy{}, policies}, {&corev1.Pod{}, pods}} {
		informer, err := w.cache.GetInformer(ctx, of.object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", of.object, err)
		}
		handle, err := informer.AddEventHandler(of.handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", of.object, err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
			return fmt.Errorf("watch %T: %w", of.object, context.Cause(ctx))
		}
	}
	return nil
}

// handlers calls a function for every event of one type: whether the object is
// gone, and whether it was there before the watch.
func handlers[T any](on func(object *T, gone, initial bool)) toolscache.ResourceEventHandler {
	call := func(object any, gone, initial bool) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if typed, ok := object.(*T); ok {
			on(typed, gone, initial)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { call(object, false, initial) },
		UpdateFunc: func(_, object any) { call(object, false, false) },
		DeleteFunc: func(object any) { call(object, true, false) },
	}
}
