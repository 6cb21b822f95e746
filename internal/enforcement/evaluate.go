// Package enforcement evaluates whether quotas are proven to be enforced: our scheduler is
// the only one, it uses the written configuration, and no pod bypassed it. What is not
// proven is not reported as true.
//
// The package is pure; the time is an argument.
package enforcement

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/conditions"
)

// configLoadTimeout is how long the scheduler may take to load a new configuration. It
// watches the ConfigMap and, as shipped, opens a session every three seconds.
var configLoadTimeout = build.Wait(10 * time.Second)

// Observation is what the operator knows of the scheduler at one moment.
type Observation struct {
	// Now is the operator's clock.
	Now time.Time
	// Namespace is where the scheduler's ConfigMap and Leases are.
	Namespace string
	// WantedHash is the hash of the written configuration, "" if none could be written.
	// WantedSince is when it changed, zero if that was before the operator started.
	WantedHash  string
	WantedSince time.Time
	// NotConfigured is why the ConfigMap does not follow the policy, "" if it does.
	NotConfigured string
	// Heartbeat is the scheduler's last report, nil without a readable one. Unreadable says
	// why it is not readable.
	Heartbeat  *Report
	Unreadable string
	// ReceivedAt is when the operator received this report, by its own clock, zero if the report
	// is older than the operator.
	ReceivedAt time.Time
	// Leader is the holder of the leader Lease of Volcano's schedulers, nil for none.
	Leader *Leader
	// OtherSchedulers are the pods with the label of the stock scheduler, sorted by name.
	// HeartbeatOwner is the controller of the one that sends the heartbeat, "" for none:
	// where only the image was replaced, those pods are ours.
	OtherSchedulers []SchedulerPod
	HeartbeatOwner  types.UID
	// Bypasses are the pods that use cards that our scheduler did not assign.
	Bypasses []Bypass
}

// SchedulerPod is a pod with the label of the stock scheduler, as namespace/name, and its
// controller, "" for none.
type SchedulerPod struct {
	Name  string
	Owner types.UID
}

// Leader is the leader of Volcano's schedulers, ours or the stock one.
type Leader struct {
	Identity string
	// Acquired is when the leader acquired the Lease, Expires when the Lease expires unless
	// it is renewed.
	Acquired, Expires time.Time
}

// Evaluate returns condition Enforced of the ServiceTypePolicy. Its message has nothing that changes while
// the reason stays, such as an age. Of several reasons it gives the one to mend first: another scheduler in
// our place, then what keeps ours from working, then what happens beside it.
func Evaluate(o Observation) metav1.Condition {
	o = o.withoutExplainedPods() // only those that prove another scheduler are left
	alive := o.SchedulerAlive()
	no := func(reason, message string) metav1.Condition {
		return conditions.New(metav1.ConditionFalse, reason, "%s", message)
	}

	switch {
	case !alive && (len(o.OtherSchedulers) > 0 || o.hasOtherLeaseHolder()):
		return no(v1alpha1.ReasonStockScheduler, o.stockSchedulerMessage())
	case o.NotConfigured != "" || o.WantedHash == "":
		return no(v1alpha1.ReasonNotConfigured, o.notConfiguredMessage())
	case !alive:
		return no(v1alpha1.ReasonNoHeartbeat, o.noHeartbeatMessage())
	// Alive means that there is a heartbeat to compare with.
	case len(o.OtherSchedulers) > 0 || len(o.Heartbeat.SecondScheduler) > 0:
		return no(v1alpha1.ReasonSecondScheduler, o.secondSchedulerMessage())
	case o.Heartbeat.ConfigHash != o.WantedHash:
		return no(v1alpha1.ReasonConfigNotLoaded, o.configNotLoadedMessage())
	case len(o.Bypasses) > 0:
		return no(v1alpha1.ReasonCardBypass, bypassMessage(o.Bypasses))
	default:
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonEnforced, enforcedMessage)
	}
}

// EvaluateQueue returns condition Enforced of the CardQuota of a queue. policyCondition is
// that of the ServiceTypePolicy, nil without a policy. It counts for every queue, but for bypasses:
// of all bypasses only those of the queue itself matter.
func EvaluateQueue(queue string, policyCondition *metav1.Condition, all BypassesByQueue) metav1.Condition {
	switch {
	case policyCondition == nil:
		return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNoPolicy, noPolicyMessage)
	case policyCondition.Status != metav1.ConditionTrue && policyCondition.Reason != v1alpha1.ReasonCardBypass:
		return *policyCondition
	}
	if ownBypasses := all[queue]; len(ownBypasses) > 0 {
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonCardBypass, "%s", bypassMessage(ownBypasses))
	}
	return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonEnforced, enforcedMessage)
}

// withoutExplainedPods leaves out pods that do not prove another scheduler. A pod that was
// created with its node name needs no second scheduler. The pod that sends the heartbeat is
// ours, whatever its labels, and so are the other replicas of its ReplicaSet.
func (o Observation) withoutExplainedPods() Observation {
	if o.Heartbeat == nil {
		return o
	}

	report := *o.Heartbeat
	report.SecondScheduler = slices.DeleteFunc(slices.Clone(report.SecondScheduler), func(pod string) bool {
		return slices.ContainsFunc(o.Bypasses, func(b Bypass) bool { return b.Pod == pod })
	})

	o.Heartbeat = &report
	o.OtherSchedulers = slices.DeleteFunc(slices.Clone(o.OtherSchedulers), func(pod SchedulerPod) bool {
		return pod.IsOurs(report, o.HeartbeatOwner)
	})
	return o
}

// IsOurs reports whether the pod runs our scheduler: it sent a report, or is a replica of the one that
// did. heartbeatOwner is the controller of that one, "" for none.
func (p SchedulerPod) IsOurs(report Report, heartbeatOwner types.UID) bool {
	return p.Sent(report) || (heartbeatOwner != "" && p.Owner == heartbeatOwner)
}

// NewSchedulerPod returns what matters of a pod with the label of the stock scheduler.
func NewSchedulerPod(pod *corev1.Pod) SchedulerPod {
	found := SchedulerPod{Name: pod.Namespace + "/" + pod.Name}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		found.Owner = owner.UID
	}
	return found
}

// Sent reports whether the pod sent a report.
func (p SchedulerPod) Sent(report Report) bool {
	_, name, _ := strings.Cut(p.Name, "/")
	return isIdentityOf(name, report.Identity)
}

// maxHostLength bounds a host name in characters; a longer pod name is cut there.
const maxHostLength = 63

// isIdentityOf reports whether an identity belongs to a process in the named pod. The
// identity of a scheduler is its host name, an underscore and a random text.
func isIdentityOf(pod, identity string) bool {
	host := strings.TrimRight(pod[:min(len(pod), maxHostLength)], "-.")
	return host != "" && strings.HasPrefix(identity, host+"_")
}

// SchedulerAlive reports whether the last report proves that our scheduler runs. It must be
// fresh by the scheduler's clock and received lately by the operator's, unless it is older than the operator. Neither
// a clock that is ahead nor an old report is proof.
func (o Observation) SchedulerAlive() bool {
	isReceivedLately := o.ReceivedAt.IsZero() || o.receivesHeartbeats()
	return o.Heartbeat != nil && o.Heartbeat.Fresh(o.Now) && isReceivedLately && !o.stoppedCleanly()
}

// SchedulerMayRun reports whether our scheduler may still enforce quotas: its last report is fresh by one of the two
// clocks, or cannot be read, or the operator has watched for reports too short a time to tell. watchedSince is when it
// began.
func (o Observation) SchedulerMayRun(watchedSince time.Time) bool {
	switch {
	case o.Unreadable != "":
		return true
	case o.Heartbeat == nil:
		return false
	default:
		return o.Now.Sub(watchedSince) < StaleAfter || o.Heartbeat.Fresh(o.Now) || o.receivesHeartbeats()
	}
}

// stoppedCleanly reports whether the scheduler stopped cleanly, so that its last report proves nothing any more. It is
// false if the operator received that report and there is no other scheduler: one of its replicas has StaleAfter to
// take over. So an update of the scheduler changes no condition: no scheduler assigns cards in between.
func (o Observation) stoppedCleanly() bool {
	return o.Heartbeat != nil && o.Heartbeat.Ended && (o.ReceivedAt.IsZero() || len(o.OtherSchedulers) > 0)
}

// receivesHeartbeats reports whether reports still arrive, whatever their time.
func (o Observation) receivesHeartbeats() bool {
	return !o.ReceivedAt.IsZero() && o.Now.Sub(o.ReceivedAt) < StaleAfter
}

// hasOtherLeaseHolder reports whether the leader sends no heartbeat although it had time for
// one. A leader that was just elected may still be ours. Without readable heartbeats the
// leader is unknown.
func (o Observation) hasOtherLeaseHolder() bool {
	if o.Leader == nil || o.Unreadable != "" {
		return false
	}

	hadTime := o.Now.Sub(o.Leader.Acquired) >= StaleAfter
	return o.Now.Before(o.Leader.Expires) && hadTime && (o.Heartbeat == nil || o.Heartbeat.Identity != o.Leader.Identity)
}

// NextCheck returns the next moment at which condition Enforced may change although nothing new is observed,
// zero for never. These are the ends of all periods that Evaluate compares with the time.
func (o Observation) NextCheck() time.Time {
	var next time.Time
	consider := func(at time.Time) {
		if at.After(o.Now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}

	// A heartbeat that stops sends no event, so its end has to be looked up in time.
	if o.Heartbeat != nil {
		consider(o.Heartbeat.At.Add(StaleAfter))
		// A report from the future becomes fresh after this.
		consider(o.Heartbeat.At.Add(-StaleAfter + time.Nanosecond))
		if !o.ReceivedAt.IsZero() {
			consider(o.ReceivedAt.Add(StaleAfter))
		}
	}

	// A new leader has until StaleAfter to send a heartbeat, and the scheduler configLoadTimeout to load a
	// new text.
	if o.Leader != nil {
		consider(o.Leader.Acquired.Add(StaleAfter))
		consider(o.Leader.Expires)
	}
	if !o.WantedSince.IsZero() {
		consider(o.WantedSince.Add(configLoadTimeout))
	}

	return next
}
