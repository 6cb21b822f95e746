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
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/timing"
)

// staleRetry is how long the cache is given to catch up with a write, and how long a
// write waits that came too late.
const staleRetry = 100 * time.Millisecond

var (
	// refusedRetry is how long a refused write waits for the next try when nothing
	// that is watched tells that the reason is gone.
	refusedRetry = timing.Wait(30 * time.Second)
	// leastPause is the least time between two put-backs of the configuration, whoever
	// wrote it.
	leastPause = timing.Wait(time.Second)
)

// Reconciler puts the one ServiceTypePolicy into force.
type Reconciler struct {
	// client reads from the cache and writes to the API server, live reads from
	// the API server.
	client client.Client
	live   client.Reader
	events record.EventRecorder
	now    func() time.Time
	pace   *shared.Pace
	// follow watches the base instead of the one before it, none for "".
	follow func(types.NamespacedName)
	// scheduler is the namespace of our scheduler, volcano that of Volcano's programs.
	scheduler, volcano string
	// evidence is nil where nobody judges enforcement.
	evidence *evidence
	// guard is nil where nobody guards.
	guard  Guard
	synced *prometheus.GaugeVec
	memory memory
}

// memory is what is known of the past. One policy is worked on by one pass at a
// time, so it needs no lock.
type memory struct {
	// written is when the configuration was put right last.
	written time.Time
	// seen tells that there was such a configuration.
	seen bool
	// kept are the PriorityClasses of others of which was told.
	kept map[string]string
}

// pass is one run of Reconcile.
type pass struct {
	*Reconciler
	policy *v1alpha1.ServiceTypePolicy
	// spec is the effective spec, faults what is wrong with it.
	spec   v1alpha1.ServiceTypePolicySpec
	faults field.ErrorList
	// wait is how long no report may be written yet.
	wait time.Duration
	now  time.Time
}

// outcome is how writing the configuration went.
type outcome struct {
	metav1.Condition
	// hash is that of the text that stands as it was written, "" when none does.
	hash string
}

// errStale tells that something was newer than it was read.
var errStale = errors.New("read again")

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
			r.pace.Forget(req.Name)
			r.follow(types.NamespacedName{})
			r.synced.Reset()
			if r.evidence != nil {
				r.evidence.forget()
			}
			r.memory = memory{}
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.pace.Stale(req.Name, object.ResourceVersion) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	p := &pass{Reconciler: r, policy: object, spec: policy.Effective(object.Spec), wait: r.pace.Wait(req.Name), now: r.now()}
	p.faults = policy.Validate(p.spec)
	result, err := p.run(ctx)
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

// run makes what the policy says, and reports also when it could not: whether quotas are
// enforced does not wait for a write that fails.
func (p *pass) run(ctx context.Context) (ctrl.Result, error) {
	live, unwritten := p.read(ctx, p.scheduler, policy.ConfigMapName)
	if unwritten != nil && !refused(unwritten) { // then no status can be written either
		return ctrl.Result{}, unwritten
	}
	var unmade error
	out := outcome{Condition: conditions.Get(p.policy.Status.Conditions, v1alpha1.ConditionConfigSynced)}
	switch {
	case unwritten != nil:
	case p.policy.DeletionTimestamp != nil: // the garbage collector is at work
		if out.Reason == "" {
			return ctrl.Result{}, nil // deleted before the first pass: there is no status to keep
		}
	case len(p.faults) > 0:
		out.Condition = policy.InvalidCondition(p.faults)
	default:
		// A PriorityClass that cannot be made must not keep the configuration back.
		unmade = p.classes(ctx, p.spec.PriorityClasses)
		out, unwritten = p.configure(ctx, live)
	}
	if errors.Is(unwritten, errStale) {
		return ctrl.Result{}, errors.Join(unwritten, unmade)
	}
	var again time.Duration
	if unwritten != nil {
		final := refused(unwritten)
		out = outcome{Condition: policy.RefusedCondition(unwritten, final)}
		if final {
			again, unwritten = refusedRetry, nil
		}
	}
	if out.hash == "" && live != nil && schedulerconfig.Hash(live.Data[policy.ConfigMapKey]) == p.policy.Status.ConfigHash {
		out.hash = p.policy.Status.ConfigHash // what was written last still stands
	}
	result, err := p.report(ctx, out)
	if err := errors.Join(err, unwritten, unmade); err != nil {
		return ctrl.Result{}, err
	}
	return shared.Sooner(result, again), nil
}
