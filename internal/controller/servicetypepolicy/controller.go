// Package servicetypepolicy is the ServiceTypePolicy controller: it renders the scheduler's
// configuration, creates the PriorityClasses and writes the status, which the queues of
// CardQuotas follow. Its objects are owned by the policy, so that the garbage collector
// deletes them with it.
//
// It only reads and writes objects. internal/policy and internal/schedulerconfig decide
// their content.
package servicetypepolicy

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
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
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// minCorrectionInterval is the minimum time between two corrections of the configuration.
var minCorrectionInterval = build.Wait(time.Second)

// Reconciler reconciles the one ServiceTypePolicy.
type Reconciler struct {
	// client reads from the cache and writes to the API server, live reads from
	// the API server.
	client   client.Client
	live     client.Reader
	events   record.EventRecorder
	now      func() time.Time
	throttle *shared.StatusThrottle
	// watchBase watches the base, the ConfigMap over which the policy is laid, instead of the previous one, none for
	// "".
	watchBase func(types.NamespacedName)
	// schedulerNamespace is the namespace of our scheduler, volcanoNamespace that of
	// Volcano's programs.
	schedulerNamespace, volcanoNamespace string
	// evidence is nil if enforcement is not evaluated.
	evidence *evidence
	// guard is nil without admission policies.
	guard Guard
	// rights are the rights to enforce that the operator has, nil if it does not ask.
	rights *enforcerights.Rights
	// inForce returns what is in force of a policy that was read.
	inForce func(*v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy
	// missingKinds are the kinds of Volcano that the API server lacks.
	missingKinds []string
	synced       *prometheus.GaugeVec
	history      history
}

// history is the state of earlier runs. One run at a time reconciles the policy, so it
// needs no lock.
type history struct {
	// correctedAt is when the operator last corrected the configuration.
	correctedAt time.Time
	// existed reports that the ConfigMap has existed.
	existed bool
	// kept is the text that keeps the policy in force, as it was last written.
	kept string
	// reportedClasses are the conflicting PriorityClasses that an event has reported.
	reportedClasses map[string]string
}

// reconciliation is one run of Reconcile.
type reconciliation struct {
	*Reconciler
	policy *v1alpha1.ServiceTypePolicy
	// spec is the effective spec, faults are its errors.
	spec   v1alpha1.ServiceTypePolicySpec
	faults field.ErrorList
	// mode is the mode in force from now on, "" while it is undecided. lastMode is that so far.
	mode, lastMode v1alpha1.Mode
	// granted are the rights to enforce. restoring is what is left to restore in mode Observe.
	granted   policy.Rights
	restoring policy.Restoring
	// statusDelay is how long the next status write must wait.
	statusDelay time.Duration
	now         time.Time
}

// configResult is the result of writing the configuration.
type configResult struct {
	metav1.Condition
	// hash is that of the written text that is still in place, "" for none.
	hash string
}

// errCacheStale reports that the next run, soon, has to read again: an object may be newer than the one read, or a
// correction has to wait.
var errCacheStale = errors.New("read again")

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=volcano-scheduler-configmap,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=cardquota-scheduler-configmap,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=cardquota-policy-in-force,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconcile writes the scheduler's configuration first, and then the status. The queues of CardQuotas get
// what the status calls in force, so they never run ahead of the configuration. After the policy was deleted
// it forgets what it knew of it. The garbage collector deletes the objects.
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

	// The status has the hash of the configuration that the operator wrote last. An old one would lead to a
	// wrong decision, so wait until the cache has the operator's own last write.
	if r.throttle.CacheIsStale(req.Name, object.ResourceVersion) {
		return ctrl.Result{RequeueAfter: shared.StaleRetry}, nil
	}

	inForce := r.inForce(object)
	run := &reconciliation{Reconciler: r, policy: object, spec: policy.EffectivePolicy(inForce), statusDelay: r.throttle.Wait(req.Name), now: r.now()}
	run.faults = policy.Validate(run.spec)
	run.lastMode = policy.Mode(inForce)
	if err := run.decideMode(ctx, inForce); err != nil {
		return ctrl.Result{}, err
	}

	result, err := run.applyAndReport(ctx)
	switch {
	case errors.Is(err, errCacheStale):
		return ctrl.Result{RequeueAfter: shared.StaleRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	}

	return shared.RequeueWithin(result, r.rights.NextLook(run.waitsForRights())), nil
}

// applyAndReport applies the policy and writes the status, also after a failed write of the configuration:
// whether quotas are enforced must be reported in any case. It returns errCacheStale if the next run has to
// read again.
func (r *reconciliation) applyAndReport(ctx context.Context) (ctrl.Result, error) {
	live, writeErr := r.readConfigMap(ctx, r.schedulerNamespace, policy.ConfigMapName)
	if writeErr != nil && !isRefused(writeErr) { // then no status can be written either
		return ctrl.Result{}, writeErr
	}

	// What follows replaces the last condition ConfigSynced, but for a policy that is being deleted.
	var classErr error
	out := configResult{Condition: conditions.Get(r.policy.Status.Conditions, v1alpha1.ConditionConfigSynced)}
	switch {
	case writeErr != nil: // without the present text nothing can be written; reportConfiguration reports it
	case r.policy.DeletionTimestamp != nil: // the garbage collector deletes the objects
		if out.Reason == "" {
			return ctrl.Result{}, nil // deleted before the first run: there is no status to keep
		}
	case r.mode != v1alpha1.ModeEnforce:
		out.Condition, writeErr = r.withdrawConfiguration(ctx, live)
	case len(r.faults) > 0:
		out.Condition = policy.InvalidCondition(r.faults)
	default:
		// A PriorityClass that cannot be created must not delay the configuration.
		classErr = r.syncPriorityClasses(ctx, r.spec.PriorityClasses)
		if r.granted.AreMissing() && apierrors.IsForbidden(classErr) {
			classErr = nil // Ready says what is missing, and the next look at the rights tries again
		}
		out, writeErr = r.syncConfigMap(ctx, live)
	}

	if errors.Is(writeErr, errCacheStale) {
		return ctrl.Result{}, errors.Join(writeErr, classErr)
	}

	result, err := r.reportConfiguration(ctx, live, out, writeErr)
	if err := errors.Join(err, classErr); err != nil {
		return ctrl.Result{}, err
	}

	return result, nil
}

// reportConfiguration writes the status with out, the result of writing the configuration, or with writeErr,
// the reason why it could not be written. live is the ConfigMap as it was before.
func (r *reconciliation) reportConfiguration(ctx context.Context, live *corev1.ConfigMap, out configResult, writeErr error) (ctrl.Result, error) {
	var requeueAfter time.Duration
	if writeErr != nil {
		final := isRefused(writeErr) // a retry at once would be refused again, so it waits for RefusedRetry
		out = configResult{Condition: policy.RefusedCondition(writeErr, final)}
		if final {
			requeueAfter = shared.RefusedRetry
			writeErr = nil
		}
	}

	if out.hash == "" && live != nil && schedulerconfig.Hash(live.Data[policy.ConfigMapKey]) == r.policy.Status.ConfigHash {
		out.hash = r.policy.Status.ConfigHash // the last written text is still in place
	}

	// keepInForce reads from the status what is in force, so the status is written first.
	result, err := r.updateStatus(ctx, out)
	if err == nil {
		err = r.keepInForce(ctx)
	}

	if err := errors.Join(err, writeErr); err != nil {
		return ctrl.Result{}, err
	}

	return shared.RequeueWithin(result, requeueAfter), nil
}
