// Package enforcement judges whether quotas are proven to be enforced: whether our
// scheduler alone schedules, by the configuration that was written, and no pod holds a
// card past it. Whatever is not proven is not said to be true.
//
// The package is pure; the time is an argument.
package enforcement

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/conditions"
)

// configLoadTimeout is how long the scheduler is given to work by a configuration that
// was just written before it is asked why it does not: it watches the ConfigMap
// and opens a session every three seconds as it is shipped.
var configLoadTimeout = build.Wait(10 * time.Second)

// Observation are what is known of the scheduler at one moment.
type Observation struct {
	// Now is the operator's clock.
	Now time.Time
	// Namespace is where the scheduler's ConfigMap and Leases are.
	Namespace string
	// WantedHash is the hash of the configuration that was written, "" when none
	// could be written. WantedSince is when it was seen to change, zero when that
	// was before the operator started.
	WantedHash  string
	WantedSince time.Time
	// NotConfigured is why the ConfigMap does not say what the policy says, ""
	// when it does.
	NotConfigured string
	// Heartbeat is what the scheduler reported last, nil without a readable
	// report; Unreadable says why it is not readable.
	Heartbeat  *Report
	Unreadable string
	// Heard is when this report arrived, by the operator's clock, zero when it was
	// there before the operator.
	ReceivedAt time.Time
	// Leader holds the leader Lease of Volcano's schedulers, nil for nobody.
	Leader *Leader
	// Foreign are the pods that bear the label of the stock scheduler, sorted by
	// name. Host is the controller of the one that gives the heartbeat, "" when
	// none does: where only the image was replaced, those pods are ours.
	OtherSchedulers []SchedulerPod
	HeartbeatOwner  types.UID
	// Bypass are the pods that hold cards past our scheduler.
	Bypasses []Bypass
}

// SchedulerPod is a pod of another scheduler, as namespace/name, and its
// controller, "" for none.
type SchedulerPod struct {
	Name  string
	Owner types.UID
}

// Leader is who leads Volcano's schedulers, ours or the stock one.
type Leader struct {
	Identity string
	// Acquired is when the lead began, Until when it ends unless it is renewed.
	Acquired, Expires time.Time
}

// Evaluate finds out whether quotas are enforced: condition Enforced of the
// ServiceTypePolicy. Its message holds nothing that changes while the reason stays,
// such as an age. Of several reasons why they are not, the one that tells most is
// given: who is at work in our place goes before what does not work.
func Evaluate(f Observation) metav1.Condition {
	f = f.withoutExplainedPods()
	alive, no := f.SchedulerAlive(), func(reason, message string) metav1.Condition {
		return conditions.New(metav1.ConditionFalse, reason, "%s", message)
	}
	switch {
	case !alive && (len(f.OtherSchedulers) > 0 || f.leaseHeldByOther()):
		return no(v1alpha1.ReasonStockScheduler, f.stockSchedulerMessage())
	case f.NotConfigured != "" || f.WantedHash == "":
		return no(v1alpha1.ReasonNotConfigured, f.notConfiguredMessage())
	case !alive:
		return no(v1alpha1.ReasonNoHeartbeat, f.noHeartbeatMessage())
	case len(f.OtherSchedulers) > 0 || len(f.Heartbeat.SecondScheduler) > 0:
		return no(v1alpha1.ReasonSecondScheduler, f.secondSchedulerMessage())
	case f.Heartbeat.ConfigHash != f.WantedHash:
		return no(v1alpha1.ReasonConfigNotLoaded, f.configNotLoadedMessage())
	case len(f.Bypasses) > 0:
		return no(v1alpha1.ReasonCardBypass, bypassMessage(f.Bypasses))
	default:
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonEnforced, enforcedMessage)
	}
}

// EvaluateQueue is condition Enforced of the CardQuota of a queue, given that of the
// ServiceTypePolicy, nil when there is no policy, and all pods that hold cards past
// our scheduler: those of other queues are no concern of it.
func EvaluateQueue(queue string, whole *metav1.Condition, all []Bypass) metav1.Condition {
	switch {
	case whole == nil:
		return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNoPolicy, noPolicyMessage)
	case whole.Status != metav1.ConditionTrue && whole.Reason != v1alpha1.ReasonCardBypass:
		return *whole
	}
	if own := bypassesOfQueue(queue, all); len(own) > 0 {
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonCardBypass, "%s", bypassMessage(own))
	}
	return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonEnforced, enforcedMessage)
}

// withoutExplainedPods takes out what is explained otherwise: a pod that brought its node
// name with it needs no second scheduler. The pod that gives the heartbeat is
// not foreign, whatever its labels say, nor are its equals of one ReplicaSet,
// which wait for their turn.
func (f Observation) withoutExplainedPods() Observation {
	if f.Heartbeat == nil {
		return f
	}
	report := *f.Heartbeat
	report.SecondScheduler = slices.DeleteFunc(slices.Clone(report.SecondScheduler), func(pod string) bool {
		return slices.ContainsFunc(f.Bypasses, func(b Bypass) bool { return b.Pod == pod })
	})
	f.Heartbeat = &report
	f.OtherSchedulers = slices.DeleteFunc(slices.Clone(f.OtherSchedulers), func(pod SchedulerPod) bool {
		return pod.Sent(report) || f.HeartbeatOwner != "" && pod.Owner == f.HeartbeatOwner
	})
	return f
}

// Sent tells whether a report came out of the pod.
func (p SchedulerPod) Sent(report Report) bool {
	_, name, _ := strings.Cut(p.Name, "/")
	return isIdentityOf(name, report.Identity)
}

// maxHostLength is the most characters of a host name; a pod's own is cut there.
const maxHostLength = 63

// isIdentityOf tells whether an identity is that of a process in the named pod.
// Identities of schedulers are host name, underscore and a random text.
func isIdentityOf(pod, identity string) bool {
	host := strings.TrimRight(pod[:min(len(pod), maxHostLength)], "-.")
	return host != "" && strings.HasPrefix(identity, host+"_")
}

// SchedulerAlive tells whether the last report proves that our scheduler is at work. It
// must be young by the scheduler's clock and must have arrived lately by the
// operator's: neither a clock that is ahead nor a report that lay about is
// proof.
func (f Observation) SchedulerAlive() bool {
	return f.Heartbeat != nil && f.Heartbeat.Fresh(f.Now) && (f.ReceivedAt.IsZero() || f.receivesHeartbeats()) && !f.stoppedCleanly()
}

// stoppedCleanly tells whether the scheduler stopped in order and nobody is known to
// follow. While its reports were heard and no other scheduler is there, a
// replica of it is given the time of a heartbeat to take over: an update of the
// scheduler is no news, for nobody gives cards away in between.
func (f Observation) stoppedCleanly() bool {
	return f.Heartbeat != nil && f.Heartbeat.Ended && (f.ReceivedAt.IsZero() || len(f.OtherSchedulers) > 0)
}

// receivesHeartbeats tells whether reports still arrive, whatever time they bear.
func (f Observation) receivesHeartbeats() bool {
	return !f.ReceivedAt.IsZero() && f.Now.Sub(f.ReceivedAt) < StaleAfter
}

// leaseHeldByOther tells whether somebody leads who gives no heartbeat although there
// was time for one. Who was elected a moment ago may still be ours, and nothing
// can be said when heartbeats cannot be read.
func (f Observation) leaseHeldByOther() bool {
	return f.Leader != nil && f.Unreadable == "" && f.Now.Before(f.Leader.Expires) && f.Now.Sub(f.Leader.Acquired) >= StaleAfter &&
		(f.Heartbeat == nil || f.Heartbeat.Identity != f.Leader.Identity)
}

// NextCheck is the next moment at which the verdict may change although nothing was
// heard, zero for never.
func (f Observation) NextCheck() time.Time {
	var at time.Time
	consider := func(t time.Time) {
		if t.After(f.Now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if f.Heartbeat != nil {
		consider(f.Heartbeat.At.Add(StaleAfter))
		// A report from the future begins to prove something after this.
		consider(f.Heartbeat.At.Add(-StaleAfter + time.Nanosecond))
		if !f.ReceivedAt.IsZero() {
			consider(f.ReceivedAt.Add(StaleAfter))
		}
	}
	if f.Leader != nil {
		consider(f.Leader.Acquired.Add(StaleAfter))
		consider(f.Leader.Expires)
	}
	if !f.WantedSince.IsZero() {
		consider(f.WantedSince.Add(configLoadTimeout))
	}
	return at
}
