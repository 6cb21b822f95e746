// Package servicetypepolicy puts the ServiceTypePolicy into force: it writes the
// scheduler's configuration and the PriorityClasses, and says in the status what
// holds. The queues of CardQuotas follow that status.
//
// It only carries: what must be is decided in internal/policy and
// internal/schedulerconf.
package servicetypepolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queue"
	"cardquota.dev/operator/internal/timing"
)

const (
	// staleRetry is how long the cache is given to catch up with a write, and how
	// long a write waits that came too late.
	staleRetry = 100 * time.Millisecond
	// contestedRounds is from which put-back on somebody is said to keep writing.
	contestedRounds = 3
)

var (
	// refusedRetry is how long a refused write waits for the next try when nothing
	// that is watched tells that the reason is gone.
	refusedRetry = timing.Wait(30 * time.Second)
	// longestPause is the most that a put-back of the configuration waits when
	// somebody keeps writing it. It is long: the scheduler itself keeps the last
	// good configuration, and Enforced says that this one does not hold.
	longestPause = timing.Wait(time.Minute)
	// leastPause is the least time between two put-backs, whoever wrote.
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
	// follow watches a ConfigMap instead of the one before it, none for "".
	follow func(types.NamespacedName)
	// home is the operator's own namespace.
	home string
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
	// dispute remembers who keeps writing the configuration.
	dispute queue.Dispute
	// written is when the configuration was put right last.
	written time.Time
	// corrected is what is told of the last put-back, until the spec is another one
	// than that of the generation.
	corrected  policy.Verdict
	generation int64
	// contest is what is told of a writer who goes on, until it has let the
	// configuration stand for a while.
	contest policy.Verdict
	until   time.Time
	// kept are the PriorityClasses of others of which was told.
	kept map[string]string
}

func newMemory() memory {
	return memory{dispute: queue.Dispute{Longest: longestPause}, kept: map[string]string{}}
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
	policy.Verdict
	// hash is that of the text that says what the policy says, "" when none does.
	hash string
	// again is when to look again although nothing changed, 0 for never.
	again time.Duration
}

// errStale tells that something was newer than it was read.
var errStale = errors.New("read again")

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=volcano-scheduler-configmap,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=volcano-scheduler-configmap-original,verbs=get;create;patch;delete
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
			r.memory = newMemory()
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.pace.Stale(req.Name, object.ResourceVersion) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	p := &pass{Reconciler: r, policy: object, spec: policy.Located(object.Spec, r.home), wait: r.pace.Wait(req.Name), now: r.now()}
	p.faults = policy.Validate(p.spec)
	result, err := p.run(ctx)
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

func (p *pass) run(ctx context.Context) (ctrl.Result, error) {
	if p.policy.DeletionTimestamp != nil {
		return p.finalize(ctx)
	}
	// The finalizer comes before anything is written that must be undone.
	if !controllerutil.ContainsFinalizer(p.policy, v1alpha1.PolicyFinalizer) {
		before := p.policy.DeepCopy()
		controllerutil.AddFinalizer(p.policy, v1alpha1.PolicyFinalizer)
		if err := p.patchMeta(ctx, before); err != nil {
			return ctrl.Result{}, err
		}
	}
	if len(p.faults) > 0 {
		return p.report(ctx, outcome{Verdict: policy.Invalid(p.faults)})
	}
	// A PriorityClass that cannot be made must not keep the configuration back.
	unmade := p.classes(ctx, p.spec.PriorityClasses)
	out, err := p.configure(ctx)
	if err != nil {
		return ctrl.Result{}, errors.Join(err, unmade)
	}
	result, err := p.report(ctx, out)
	if err := errors.Join(err, unmade); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// patchMeta writes the metadata with an optimistic lock, since finalizers are
// one list that others write as well.
func (p *pass) patchMeta(ctx context.Context, before *v1alpha1.ServiceTypePolicy) error {
	err := p.client.Patch(ctx, p.policy, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return errStale
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write finalizers: %w", err)
	}
	return nil
}
