// Package localquota is the LocalCardQuota controller: it keeps the view of each CardQuota in the
// namespaces that may use its queue.
//
// It only reads and writes objects. internal/localquota decides where a view is and what it says.
package localquota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cardhours"
	"cardquota.dev/operator/internal/cardseconds"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/waiting"
)

// workers is how many CardQuotas have their views written at the same time: with 1,000 CardQuotas one
// worker writes less than what changes while the API server is busy.
const workers = 4

// nameIndex is the cache index of LocalCardQuotas by name, which is that of their CardQuota.
const nameIndex = "name"

// UsageSource provides the last count of a queue, false before the first one, and the queues below it.
type UsageSource interface {
	QueueUsage(name string) (own, subtree queueusage.Usage, counted bool)
	QueuesBelow(name string) []string
}

// BillSource provides the card-seconds of some queues together, false while they are not known.
type BillSource interface {
	MonthlyUse(queues ...string) (cardseconds.QueueMonths, bool)
}

// statusInterval is the shortest time between two status writes of one LocalCardQuota.
var statusInterval = build.Wait(10 * time.Second)

// Options configure the controller.
type Options struct {
	// SkipNameValidation allows a second controller in one process, as in tests.
	SkipNameValidation bool
	// Usage provides what waits in each namespace.
	Usage UsageSource
	// Bills provides the card-seconds of months. Without it, views show none.
	Bills BillSource
}

// Reconciler keeps the LocalCardQuotas of a CardQuota.
type Reconciler struct {
	client    client.Client
	usage     UsageSource
	bills     BillSource
	interval  time.Duration
	throttle  *shared.StatusThrottle
	selectors *shared.QuotaSelectors
}

// Setup adds the controller to a manager as soon as the API server has LocalCardQuotas.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	return shared.SetUpWithKind(mgr, "LocalCardQuota", func() error { return addController(ctx, mgr, options) })
}

// addController adds the controller to a manager whose API server has LocalCardQuotas.
func addController(ctx context.Context, mgr ctrl.Manager, options Options) error {
	r := &Reconciler{client: mgr.GetClient(), usage: options.Usage, bills: options.Bills, interval: statusInterval, throttle: shared.NewStatusThrottle(statusInterval), selectors: shared.NewQuotaSelectors()}
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.LocalCardQuota{}, nameIndex, func(object client.Object) []string { return []string{object.GetName()} })
	if err != nil {
		return fmt.Errorf("index LocalCardQuotas by name: %w", err)
	}

	// Each event, also of a view or a namespace, reconciles the CardQuota. The rate limiter retries soon even
	// after many errors: one namespace that refuses its view must not delay the others.
	err = ctrl.NewControllerManagedBy(mgr).
		Named("localcardquota").
		For(&v1alpha1.CardQuota{}).
		Watches(&v1alpha1.LocalCardQuota{}, r.viewEvents()).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.requestsForNamespace), builder.WithPredicates(shared.NamespaceChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &options.SkipNameValidation, RateLimiter: newRateLimiter(statusInterval)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}

	return nil
}

// newRateLimiter returns when to try again after errors. A namespace that refuses its view must not
// make the views of other namespaces older than the interval of their status.
func newRateLimiter(interval time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, max(interval, time.Second))
}

// viewEvents returns the handler for events of views: it requests the CardQuota of a view that changed, and forgets the
// writes of a view that is gone, also of one that ended with its namespace.
func (r *Reconciler) viewEvents() handler.EventHandler {
	requests := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, view client.Object) []reconcile.Request {
		return []reconcile.Request{shared.RequestFor(view.GetName())}
	})
	return handler.Funcs{
		CreateFunc: requests.Create,
		UpdateFunc: requests.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.throttle.Forget(shared.ThrottleKey(e.Object))
			requests.Delete(ctx, e, queue)
		},
	}
}

// requestsForNamespace returns the requests for the CardQuotas that select a namespace. The watch calls it with the
// namespace before a change and after it, so a CardQuota that no longer selects it is among them.
func (r *Reconciler) requestsForNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	requests, err := r.selectors.RequestsForNamespace(ctx, r.client, namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "CardQuotas cannot be listed")
	}
	return requests
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=localcardquotas,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups=cardquota.dev,resources=localcardquotas/status,verbs=patch

// Reconcile creates the views of a CardQuota, which are its LocalCardQuotas, and writes their status. It
// deletes views in namespaces that it no longer selects, and those of an earlier CardQuota of the same name.
// A namespace may refuse its view, for example by a ResourceQuota. The other namespaces do not wait for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	quota := &v1alpha1.CardQuota{}
	switch err := r.client.Get(ctx, req.NamespacedName, quota); {
	// It was deleted. An empty CardQuota selects nothing, so all its views are deleted below.
	case apierrors.IsNotFound(err):
		quota = &v1alpha1.CardQuota{}
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read CardQuota: %w", err)
	}

	var views v1alpha1.LocalCardQuotaList
	if err := r.client.List(ctx, &views, client.MatchingFields{nameIndex: req.Name}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list LocalCardQuotas: %w", err)
	}

	selected, err := r.selectors.SelectedNamespaces(ctx, r.client, quota)
	if err != nil {
		return ctrl.Result{}, err
	}

	selected = selected[:min(len(selected), localquota.MaxNamespaces)] // because each view costs writes
	var failures []error
	existing := map[string]*v1alpha1.LocalCardQuota{}
	for i := range views.Items {
		view := &views.Items[i]
		if slices.Contains(selected, view.Namespace) && isOwnedBy(view, quota) {
			existing[view.Namespace] = view
			continue
		}

		// With the UID a view that was created again in the meantime is not deleted.
		if err := r.client.Delete(ctx, view, client.Preconditions{UID: &view.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("delete LocalCardQuota in %s: %w", view.Namespace, err))
		}
	}

	result, err := r.updateViews(ctx, quota, selected, existing)
	if err := errors.Join(append(failures, err)...); err != nil {
		return ctrl.Result{}, err // with an error, controller-runtime ignores a result
	}

	return result, nil
}

// isOwnedBy reports whether a view belongs to a CardQuota, and not to an earlier one of its name.
func isOwnedBy(view *v1alpha1.LocalCardQuota, quota *v1alpha1.CardQuota) bool {
	return len(view.OwnerReferences) == 1 && view.OwnerReferences[0].UID == quota.UID
}

// updateViews creates missing views and writes the status of the others. existing are the views by namespace.
// A new count of usage causes no event here, so after a write it looks again until the view shows the last
// count. From then on changes of what waits cause an event by the status of the CardQuota, if that is up to
// date and lists all of it.
func (r *Reconciler) updateViews(ctx context.Context, quota *v1alpha1.CardQuota, selected []string, existing map[string]*v1alpha1.LocalCardQuota) (ctrl.Result, error) {
	_, usage, counted := r.usage.QueueUsage(quota.QueueName())
	nextCardHours := r.cardHoursFor(quota)
	var result ctrl.Result
	var failures []error
	for _, namespace := range selected {
		view := existing[namespace]
		if view == nil {
			if err := r.client.Create(ctx, localquota.New(quota, namespace), client.FieldOwner(v1alpha1.FieldManager)); ignoreGone(err) != nil {
				failures = append(failures, fmt.Errorf("create LocalCardQuota in %s: %w", namespace, err))
			}
			continue // its creation is an event
		}

		// Zeros before the first count would show a tenant that no pod uses a card.
		if !counted {
			result = shared.RequeueWithin(result, time.Second)
			continue
		}

		status := localquota.NewStatus(quota, namespace, usage.Local[namespace], usage.BlockedTotal)
		again, err := r.updateStatus(ctx, view, status, nextCardHours(view))
		if err != nil {
			failures = append(failures, fmt.Errorf("LocalCardQuota in %s: %w", namespace, err))
		}

		result = shared.RequeueWithin(result, again)
	}

	// The CardQuota's status shows each change of what waits only while its list is complete and has room for
	// one more, and its number is that of the count. Otherwise look again after the interval.
	isListed := max(usage.BlockedTotal, len(usage.Blocked)+1) <= waiting.MaxBlocked && int(quota.Status.BlockedTotal) == usage.BlockedTotal
	if !isListed && len(selected) > 0 {
		result = shared.RequeueWithin(result, r.interval)
	}

	return result, errors.Join(failures...)
}

// ignoreGone ignores that a view exists, which the cache does not show yet, and that its namespace
// is being deleted.
func ignoreGone(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// unknownRetry is when to look again for card-hours that are not known yet.
const unknownRetry = 30 * time.Second

// cardHoursFor returns a function that returns the card-hours that a view of a CardQuota shows next. While they are
// not known, such as right after a change of the leader, a view keeps what it shows.
func (r *Reconciler) cardHoursFor(quota *v1alpha1.CardQuota) func(view *v1alpha1.LocalCardQuota) cardhours.Refresh {
	if r.bills == nil {
		return func(view *v1alpha1.LocalCardQuota) cardhours.Refresh {
			return cardhours.Refresh{Status: view.Status.CardHours}
		}
	}

	use, isKnown := r.bills.MonthlyUse(r.usage.QueuesBelow(quota.QueueName())...)
	return func(view *v1alpha1.LocalCardQuota) cardhours.Refresh {
		if !isKnown {
			return cardhours.Refresh{Status: view.Status.CardHours, Wait: unknownRetry}
		}
		return cardhours.Next(view.Status.CardHours, use, shared.ThrottleKey(view))
	}
}

// updateStatus writes a status at most once per interval, and returns when to look again, 0 for not at all.
// hours are the card-hours to show next. They grow all the time, so alone they are a reason to write only
// when they are due. A write for another reason takes them along.
func (r *Reconciler) updateStatus(ctx context.Context, view *v1alpha1.LocalCardQuota, status v1alpha1.LocalCardQuotaStatus, hours cardhours.Refresh) (time.Duration, error) {
	status.CardHours = view.Status.CardHours // so that only other differences count
	isDue := hours.IsDue || !equality.Semantic.DeepEqual(view.Status, status)
	if isDue {
		status.CardHours = hours.Status
	}

	writer := shared.StatusWriter[v1alpha1.LocalCardQuotaStatus]{
		Client: r.client, Throttle: r.throttle, Object: view, Status: &view.Status, Delay: r.throttle.Wait(shared.ThrottleKey(view)),
	}

	isWritten, wait, err := writer.Write(ctx, status)
	switch {
	case isWritten: // a later count may differ, and causes no event
		return r.interval, nil
	case !isDue && wait == 0: // the status is up to date until the card-hours are due
		return hours.Wait, err
	default: // wait is for the next time at which a write is allowed
		return wait, err
	}
}
