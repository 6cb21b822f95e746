// Package servicetypepolicy puts the ServiceTypePolicy into force: it renders the
// scheduler's configuration, makes the PriorityClasses, and says in the status what
// holds. The queues of CardQuotas follow that status. What it makes belongs to the
// policy, so that the garbage collector removes it with the policy.
//
// It only carries: what must be is decided in internal/policy and
// internal/schedulerconfig.
package servicetypepolicy

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// staleRetry is how long the cache is given to catch up with a write, and how long a
// write waits that came too late.
const staleRetry = 100 * time.Millisecond

var (
	// refusedRetry is how long a refused write waits for the next try when nothing
	// that is watched tells that the reason is gone.
	refusedRetry = build.Wait(30 * time.Second)
	// minCorrectionInterval is the least time between two put-backs of the configuration, whoever
	// wrote it.
	minCorrectionInterval = build.Wait(time.Second)
)

// Reconciler puts the one ServiceTypePolicy into force.
type Reconciler struct {
	// client reads from the cache and writes to the API server, live reads from
	// the API server.
	client   client.Client
	live     client.Reader
	events   record.EventRecorder
	now      func() time.Time
	throttle *shared.StatusThrottle
	// follow watches the base instead of the one before it, none for "".
	watchBase func(types.NamespacedName)
	// scheduler is the namespace of our scheduler, volcano that of Volcano's programs.
	schedulerNamespace, volcanoNamespace string
	// evidence is nil where nobody judges enforcement.
	evidence *evidence
	// guard is nil where nobody guards.
	guard   Guard
	synced  *prometheus.GaugeVec
	history history
}

// history is what is known of the past. One policy is worked on by one pass at a
// time, so it needs no lock.
type history struct {
	// written is when the configuration was put right last.
	correctedAt time.Time
	// seen tells that there was such a configuration.
	existed bool
	// kept are the PriorityClasses of others of which was told.
	reportedClasses map[string]string
}

// reconciliation is one run of Reconcile.
type reconciliation struct {
	*Reconciler
	policy *v1alpha1.ServiceTypePolicy
	// spec is the effective spec, faults what is wrong with it.
	spec   v1alpha1.ServiceTypePolicySpec
	faults field.ErrorList
	// wait is how long no report may be written yet.
	statusDelay time.Duration
	now         time.Time
}

// configResult is how writing the configuration went.
type configResult struct {
	metav1.Condition
	// hash is that of the text that stands as it was written, "" when none does.
	hash string
}

// errCacheStale tells that something was newer than it was read.
var errCacheStale = errors.New("read again")

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=volcano-scheduler-configmap,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=cardquota-scheduler-configmap,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconcile writes the configuration first and the status, by which the queues
// go, after it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.ServiceTypePolicy{}
	if err := r.client.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			r.throttle.Forget(req.Name)
			r.watchBase(types.NamespacedName{})
			r.synced.Reset()
			if r.evidence != nil {
				r.evidence.resetState()
			}
			r.history = history{}
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.throttle.CacheIsStale(req.Name, object.ResourceVersion) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	p := &reconciliation{Reconciler: r, policy: object, spec: policy.Effective(object.Spec), statusDelay: r.throttle.Wait(req.Name), now: r.now()}
	p.faults = policy.Validate(p.spec)
	result, err := p.applyAndReport(ctx)
	if errors.Is(err, errCacheStale) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

// applyAndReport makes what the policy says, and reports also when it could not: whether quotas are
// enforced does not wait for a write that fails.
func (p *reconciliation) applyAndReport(ctx context.Context) (ctrl.Result, error) {
	live, writeErr := p.readConfigMap(ctx, p.schedulerNamespace, policy.ConfigMapName)
	if writeErr != nil && !isRefused(writeErr) { // then no status can be written either
		return ctrl.Result{}, writeErr
	}
	var classErr error
	out := configResult{Condition: conditions.Get(p.policy.Status.Conditions, v1alpha1.ConditionConfigSynced)}
	switch {
	case writeErr != nil:
	case p.policy.DeletionTimestamp != nil: // the garbage collector is at work
		if out.Reason == "" {
			return ctrl.Result{}, nil // deleted before the first pass: there is no status to keep
		}
	case len(p.faults) > 0:
		out.Condition = policy.InvalidCondition(p.faults)
	default:
		// A PriorityClass that cannot be made must not keep the configuration back.
		classErr = p.syncPriorityClasses(ctx, p.spec.PriorityClasses)
		out, writeErr = p.syncConfigMap(ctx, live)
	}
	if errors.Is(writeErr, errCacheStale) {
		return ctrl.Result{}, errors.Join(writeErr, classErr)
	}
	var requeueAfter time.Duration
	if writeErr != nil {
		final := isRefused(writeErr)
		out = configResult{Condition: policy.RefusedCondition(writeErr, final)}
		if final {
			requeueAfter, writeErr = refusedRetry, nil
		}
	}
	if out.hash == "" && live != nil && schedulerconfig.Hash(live.Data[policy.ConfigMapKey]) == p.policy.Status.ConfigHash {
		out.hash = p.policy.Status.ConfigHash // what was written last still stands
	}
	result, err := p.updateStatus(ctx, out)
	if err := errors.Join(err, writeErr, classErr); err != nil {
		return ctrl.Result{}, err
	}
	return shared.RequeueWithin(result, requeueAfter), nil
}
