package servicetypepolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// leaderLease is the leader election Lease of Volcano's schedulers, ours and the stock one.
const leaderLease = "volcano"

// leaderPollInterval is how often the leader Lease is read without a heartbeat. With one
// the holder does not matter, so the Lease is not watched.
var leaderPollInterval = build.Wait(5 * time.Second)

// CacheOptions limit the cached Leases to the heartbeat in the scheduler's namespace. The
// shipped Role permits no others.
func CacheOptions(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&coordinationv1.Lease{}: {
		Namespaces: map[string]cache.Config{namespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", enforcement.LeaseName),
	}}
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=volcano-system,resources=leases,resourceNames=cardquota-scheduler,verbs=list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=volcano-system,resources=leases,resourceNames=volcano,verbs=get

// evidence collects what proves that quotas are enforced, and remembers when it last
// changed. One run at a time reconciles the policy, so it needs no lock.
type evidence struct {
	// cached reads the heartbeat and pods from the cache, live the leader Lease.
	cached, live client.Reader
	// schedulerNamespace is the namespace of our scheduler's Leases, volcanoNamespace that
	// of Volcano's programs.
	schedulerNamespace, volcanoNamespace string
	bypasses                             BypassSource
	metric                               *shared.GaugeSet

	remembered struct {
		// watchedSince is when the operator first looked for a report. What it found then is older than the operator.
		watchedSince time.Time
		// started reports that there was an evaluation before.
		started bool
		// report is the time of the last report, arrived is when the operator first saw it.
		report, arrived time.Time
		// hash is the wanted hash, since is when it changed.
		hash  string
		since time.Time
		// heartbeatOwner is the controller of the pod that sent the reports of identity.
		// The pod may be deleted before its replicas lead.
		identity       string
		heartbeatOwner types.UID
	}
}

// evaluateEnforcement evaluates whether quotas are enforced: whether the scheduler proves by a heartbeat that
// it has loaded the configuration with hash, no other scheduler runs, and no pod has bypassed the quotas.
// hash is that of the last written configuration, "" for none. notConfigured is why the ConfigMap differs
// from it, "" if it does not. While bypasses were not counted, the result is what the status says already.
func (e *evidence) evaluateEnforcement(ctx context.Context, p *v1alpha1.ServiceTypePolicy, hash, notConfigured string, now time.Time) (policy.Enforcement, error) {
	observed := enforcement.Observation{Now: now, Namespace: e.schedulerNamespace, WantedHash: hash, NotConfigured: notConfigured}
	if err := e.readHeartbeat(ctx, &observed); err != nil {
		return policy.Enforcement{}, err
	}

	// A restart of the operator writes no new text, so the scheduler gets no more time to load it: a text
	// with the hash in the status is old, and since stays zero.
	last := &e.remembered
	if !last.started {
		last.hash = p.Status.ConfigHash
	}

	// The scheduler gets some time from now to load a new text.
	if last.hash != hash {
		last.hash = hash
		last.since = now
	}

	last.started = true
	observed.WantedSince = last.since
	if err := e.findOtherSchedulers(ctx, &observed); err != nil {
		return policy.Enforcement{}, err
	}

	var counted bool
	observed.Bypasses, counted = e.bypasses.Bypasses()
	if !counted {
		// Bypasses are unknown after a restart of the operator. That alone must not change the condition.
		if before := conditions.Get(p.Status.Conditions, v1alpha1.ConditionEnforced); before.Reason != "" {
			return policy.Enforcement{Condition: before, Scheduler: p.Status.Scheduler}, nil
		}
		return policy.UnknownEnforcement(), nil
	}

	// until is when to look again: no event says that a heartbeat became too old, or who holds the leader
	// Lease. The leader matters only without a live heartbeat.
	until := now.Add(leaderPollInterval)
	if observed.SchedulerAlive() {
		until = observed.NextCheck()
	} else {
		observed.Leader = e.readLeader(ctx)
		if next := observed.NextCheck(); !next.IsZero() && next.Before(until) {
			until = next
		}
	}

	condition := enforcement.Evaluate(observed)
	e.updateMetric(condition)

	out := policy.Enforcement{Condition: condition, Until: until}
	if report := observed.Heartbeat; report != nil {
		out.Scheduler = &v1alpha1.SchedulerStatus{Identity: report.Identity, Version: report.Version, ConfigHash: report.ConfigHash}
	}

	return out, nil
}

// schedulerMayRun reports whether our scheduler may still enforce quotas.
func (e *evidence) schedulerMayRun(ctx context.Context, now time.Time) (bool, error) {
	observed := enforcement.Observation{Now: now}
	if err := e.readHeartbeat(ctx, &observed); err != nil {
		return false, err
	}
	return observed.SchedulerMayRun(e.remembered.watchedSince), nil
}

// readHeartbeat reads the heartbeat into observed: the report of the scheduler, why it cannot be read, or neither if
// there is no Lease. It also remembers when the report arrived, by the clock of the operator.
func (e *evidence) readHeartbeat(ctx context.Context, observed *enforcement.Observation) error {
	lease := &coordinationv1.Lease{}
	err := e.cached.Get(ctx, client.ObjectKey{Namespace: e.schedulerNamespace, Name: enforcement.LeaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the heartbeat: %w", err)
	}

	last := &e.remembered
	isFirstLook := last.watchedSince.IsZero()
	if isFirstLook {
		last.watchedSince = observed.Now
	}

	if err == nil {
		report, fault := enforcement.ReadReport(lease)
		if fault == nil {
			// The first look finds a report of unknown age, so its arrival stays zero.
			if !isFirstLook && !report.At.Equal(last.report) {
				last.arrived = observed.Now
			}
			last.report = report.At
			observed.Heartbeat = &report
			observed.ReceivedAt = last.arrived
			return nil
		}
		observed.Unreadable = fault.Error()
	}

	// There is no readable report. The time of an earlier one must not count for the next one.
	last.report = time.Time{}
	last.arrived = time.Time{}
	return nil
}

// findOtherSchedulers writes to observed the pods that may be running with the label of the stock scheduler,
// sorted by name in each namespace. Only pods in the namespaces of our scheduler and of Volcano count: a
// tenant's pod with that label must not affect enforcement. Our scheduler may have that label, too. So it
// also writes the owner of the pod that sends the heartbeat: pods with this owner are ours.
func (e *evidence) findOtherSchedulers(ctx context.Context, observed *enforcement.Observation) error {
	// The owner is unknown until the pod that sends the heartbeat is found. It stays known after that pod is
	// gone, until another one sends the heartbeat.
	last := &e.remembered
	if observed.Heartbeat != nil && last.identity != observed.Heartbeat.Identity {
		last.identity = observed.Heartbeat.Identity
		last.heartbeatOwner = ""
	}

	for _, namespace := range slices.Compact(slices.Sorted(slices.Values([]string{e.schedulerNamespace, e.volcanoNamespace}))) {
		var pods corev1.PodList
		if err := e.cached.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{workload.StockSchedulerLabel: workload.StockSchedulerApp}); err != nil {
			return fmt.Errorf("list pods of schedulers: %w", err)
		}

		slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !workload.MayBeRunning(pod) {
				continue
			}

			found := enforcement.NewSchedulerPod(pod)
			if observed.Heartbeat != nil && found.Sent(*observed.Heartbeat) {
				last.heartbeatOwner = found.Owner
			}
			observed.OtherSchedulers = append(observed.OtherSchedulers, found)
		}
	}

	observed.HeartbeatOwner = last.heartbeatOwner
	return nil
}

// readLeader reads which scheduler holds the leader Lease of Volcano's schedulers. It returns nil for none,
// and if the Lease cannot be read or has no time of its end: then enforcement is judged by the heartbeat
// alone.
func (e *evidence) readLeader(ctx context.Context) *enforcement.Leader {
	lease := &coordinationv1.Lease{}
	if e.live.Get(ctx, client.ObjectKey{Namespace: e.schedulerNamespace, Name: leaderLease}, lease) != nil {
		return nil
	}

	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return nil
	}

	leader := &enforcement.Leader{
		Identity: *spec.HolderIdentity,
		Expires:  spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second),
	}
	if spec.AcquireTime != nil {
		leader.Acquired = spec.AcquireTime.Time
	}

	return leader
}

// updateMetric sets cardquota_enforced, with the reason of the condition.
func (e *evidence) updateMetric(condition metav1.Condition) {
	e.metric.Replace(shared.GaugeValue{Value: shared.BoolGauge(condition.Status == metav1.ConditionTrue), Labels: []string{condition.Reason}})
}

// resetState clears the state after the policy was deleted.
func (e *evidence) resetState() {
	*e = evidence{cached: e.cached, live: e.live, schedulerNamespace: e.schedulerNamespace, volcanoNamespace: e.volcanoNamespace, bypasses: e.bypasses, metric: e.metric}
	e.metric.Replace()
}

// isStockScheduler selects pods with the label of the stock scheduler; other pods do not
// matter here.
var isStockScheduler = predicate.NewPredicateFuncs(func(pod client.Object) bool {
	return pod.GetLabels()[workload.StockSchedulerLabel] == workload.StockSchedulerApp
})
