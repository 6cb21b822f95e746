package enforcement

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/heartbeat"
	"cardquota.dev/operator/internal/timing"
)

// loadTime is how long the scheduler is given to work by a configuration that
// was just written before it is asked why it does not: it watches the ConfigMap
// and opens a session every three seconds as it is shipped.
var loadTime = timing.Wait(10 * time.Second)

// Facts are what is known of the scheduler at one moment.
type Facts struct {
	// Now is the operator's clock.
	Now time.Time
	// Policy tells that there is a ServiceTypePolicy.
	Policy bool
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
	Heartbeat  *heartbeat.Report
	Unreadable string
	// Heard is when this report arrived, by the operator's clock, zero when it was
	// there before the operator.
	Heard time.Time
	// Leader holds the leader Lease of Volcano's schedulers, nil for nobody.
	Leader *Leader
	// Foreign are the pods that bear the label of the stock scheduler, sorted by
	// name. Host is the controller of the one that gives the heartbeat, "" when
	// none does: where only the image was replaced, those pods are ours.
	Foreign []ForeignPod
	Host    types.UID
	// Bypass are the pods that hold cards past our scheduler: all of them, or
	// those of one queue.
	Bypass []Bypass
}

// ForeignPod is a pod of another scheduler, as namespace/name, and its
// controller, "" for none.
type ForeignPod struct {
	Name  string
	Owner types.UID
}

// Leader is who leads Volcano's schedulers, ours or the stock one.
type Leader struct {
	Identity string
	// Acquired is when the lead began, Until when it ends unless it is renewed.
	Acquired, Until time.Time
}

// Verdict is condition Enforced.
type Verdict struct {
	Status metav1.ConditionStatus
	// Reason is one of the reasons of Enforced in the API package. Message holds
	// nothing that changes while the reason stays, such as an age.
	Reason, Message string
	// Until is when to judge again although nothing was heard; zero is never.
	Until time.Time
}

// Same tells whether both say the same, whenever they are to be judged again.
func (v Verdict) Same(o Verdict) bool {
	return v.Status == o.Status && v.Reason == o.Reason && v.Message == o.Message
}

// Judge finds out whether quotas are enforced. Of several reasons why they are
// not, the one that tells most is given: who is at work in our place goes
// before what does not work.
func Judge(f Facts) Verdict {
	f = f.settled()
	if !f.Policy {
		return Verdict{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNoPolicy, Message: noPolicy}
	}
	verdict := Verdict{Status: metav1.ConditionFalse, Until: f.again()}
	alive := f.alive()
	switch {
	case !alive && (len(f.Foreign) > 0 || f.usurped()):
		verdict.Reason, verdict.Message = v1alpha1.ReasonStockScheduler, f.stock()
	case f.NotConfigured != "" || f.WantedHash == "":
		verdict.Reason, verdict.Message = v1alpha1.ReasonNotConfigured, f.notConfigured()
	case !alive:
		verdict.Reason, verdict.Message = v1alpha1.ReasonNoHeartbeat, f.silent()
	case len(f.Foreign) > 0 || len(f.Heartbeat.SecondScheduler) > 0:
		verdict.Reason, verdict.Message = v1alpha1.ReasonSecondScheduler, f.second()
	case f.Heartbeat.ConfigHash != f.WantedHash:
		verdict.Reason, verdict.Message = v1alpha1.ReasonConfigNotLoaded, f.notLoaded()
	case len(f.Bypass) > 0:
		verdict.Reason, verdict.Message = v1alpha1.ReasonCardBypass, f.bypassed()
	default:
		verdict.Status, verdict.Reason, verdict.Message = metav1.ConditionTrue, v1alpha1.ReasonEnforced, enforced
	}
	verdict.Message = clip.Text(verdict.Message, v1alpha1.MaxMessageLength)
	return verdict
}

// Of returns the facts as the CardQuota of a queue sees them: of the pods that
// came past our scheduler only those of the queue.
func (f Facts) Of(queue string) Facts {
	f = f.settled()
	f.Bypass = slices.DeleteFunc(slices.Clone(f.Bypass), func(b Bypass) bool { return b.Queue != queue })
	return f
}

// settled takes out what is explained otherwise: a pod that brought its node
// name with it needs no second scheduler. The pod that gives the heartbeat is
// not foreign, whatever its labels say, nor are its equals of one ReplicaSet,
// which wait for their turn.
func (f Facts) settled() Facts {
	if f.Heartbeat == nil {
		return f
	}
	report := *f.Heartbeat
	report.SecondScheduler = slices.DeleteFunc(slices.Clone(report.SecondScheduler), func(pod string) bool {
		return slices.ContainsFunc(f.Bypass, func(b Bypass) bool { return b.Pod == pod })
	})
	f.Heartbeat = &report
	f.Foreign = slices.DeleteFunc(slices.Clone(f.Foreign), func(pod ForeignPod) bool {
		return pod.Gives(report) || f.Host != "" && pod.Owner == f.Host
	})
	return f
}

// Gives tells whether a report came out of the pod.
func (p ForeignPod) Gives(report heartbeat.Report) bool {
	_, name, _ := strings.Cut(p.Name, "/")
	return isHostOf(name, report.Identity)
}

// longestHost is the most characters of a host name; a pod's own is cut there.
const longestHost = 63

// isHostOf tells whether an identity is that of a process in the named pod.
// Identities of schedulers are host name, underscore and a random text.
func isHostOf(pod, identity string) bool {
	host := strings.TrimRight(pod[:min(len(pod), longestHost)], "-.")
	return host != "" && strings.HasPrefix(identity, host+"_")
}

// alive tells whether the last report proves that our scheduler is at work. It
// must be young by the scheduler's clock and must have arrived lately by the
// operator's: neither a clock that is ahead nor a report that lay about is
// proof.
func (f Facts) alive() bool {
	return f.Heartbeat != nil && f.Heartbeat.Fresh(f.Now) && (f.Heard.IsZero() || f.arriving()) && !f.over()
}

// over tells whether the scheduler stopped in order and nobody is known to
// follow. While its reports were heard and no other scheduler is there, a
// replica of it is given the time of a heartbeat to take over: an update of the
// scheduler is no news, for nobody gives cards away in between.
func (f Facts) over() bool {
	return f.Heartbeat != nil && f.Heartbeat.Ended && (f.Heard.IsZero() || len(f.Foreign) > 0)
}

// arriving tells whether reports still arrive, whatever time they bear.
func (f Facts) arriving() bool {
	return !f.Heard.IsZero() && f.Now.Sub(f.Heard) < heartbeat.StaleAfter
}

// usurped tells whether somebody leads who gives no heartbeat although there
// was time for one. Who was elected a moment ago may still be ours, and nothing
// can be said when heartbeats cannot be read.
func (f Facts) usurped() bool {
	return f.Leader != nil && f.Unreadable == "" && f.Now.Before(f.Leader.Until) && f.Now.Sub(f.Leader.Acquired) >= heartbeat.StaleAfter &&
		(f.Heartbeat == nil || f.Heartbeat.Identity != f.Leader.Identity)
}

// again is the next moment at which the verdict may change by itself.
func (f Facts) again() time.Time {
	var at time.Time
	consider := func(t time.Time) {
		if t.After(f.Now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if f.Heartbeat != nil {
		consider(f.Heartbeat.At.Add(heartbeat.StaleAfter))
		// A report from the future begins to prove something after this.
		consider(f.Heartbeat.At.Add(-heartbeat.StaleAfter + time.Nanosecond))
		if !f.Heard.IsZero() {
			consider(f.Heard.Add(heartbeat.StaleAfter))
		}
	}
	if f.Leader != nil {
		consider(f.Leader.Acquired.Add(heartbeat.StaleAfter))
		consider(f.Leader.Until)
	}
	if !f.WantedSince.IsZero() {
		consider(f.WantedSince.Add(loadTime))
	}
	return at
}
