// Package heartbeat is the proof of enforcement: what the scheduler says in a
// Lease when it closes a session, and what the operator reads there. A Lease
// that says less or something else than the scheduler would write proves
// nothing and is refused.
package heartbeat

import (
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/timing"
)

// LeaseName is the Lease's name. It lies in the namespace of the scheduler's
// ConfigMap.
const LeaseName = "cardquota-scheduler"

// StaleAfter is how long a report proves anything. It is longer than a session
// of a large cluster takes, and shorter than the 30 seconds within which the
// operator must tell that nobody enforces.
var StaleAfter = timing.Wait(20 * time.Second)

// Annotations of the Lease.
const (
	// AnnotationVersion is the version of the scheduler.
	AnnotationVersion = "cardquota.dev/scheduler-version"
	// AnnotationConfigHash is the hash of the configuration in force, "" for none.
	AnnotationConfigHash = "cardquota.dev/config-hash"
	// AnnotationConfigProblem is why the newest configuration is not in force;
	// absent when it is.
	AnnotationConfigProblem = "cardquota.dev/config-problem"
	// AnnotationSecondScheduler names pods that somebody else bound, separated
	// by commas; absent when there are none.
	AnnotationSecondScheduler = "cardquota.dev/second-scheduler"
	// AnnotationEnded is the time of this report when the scheduler stopped in
	// order after it; absent while it works or when it was killed. A time that is
	// not the report's was left by a version that does not know the annotation.
	AnnotationEnded = "cardquota.dev/ended"
)

// annotationKeys are all of them.
var annotationKeys = []string{AnnotationVersion, AnnotationConfigHash, AnnotationConfigProblem, AnnotationSecondScheduler, AnnotationEnded}

// MostPods is how many pods a report names at most.
const MostPods = 5

// Report is what the leading scheduler says at the close of a session.
type Report struct {
	// Identity is the scheduler's identity in the leader election.
	Identity string
	// Version is the scheduler's version.
	Version string
	// ConfigHash is schedulerconf.Hash of the text that the session ran with, ""
	// when it ran with none: then it gave no card away.
	ConfigHash string
	// ConfigProblem is why the newest text is not in force, "" when it is.
	ConfigProblem string
	// SecondScheduler names at most MostPods pods of this scheduler that
	// somebody else bound, as namespace/name, sorted.
	SecondScheduler []string
	// At is when the session was closed; the Lease keeps its microseconds.
	At time.Time
	// Ended tells that the scheduler has stopped in order: this was its last
	// session, and no write of it is under way or will follow.
	Ended bool
}

// Fresh tells whether the report still proves something: it is younger than
// StaleAfter. A report from a future as far away proves nothing either, or a
// clock that was set wrong would prove enforcement for ever.
func (r Report) Fresh(now time.Time) bool {
	age := now.Sub(r.At)
	return age > -StaleAfter && age < StaleAfter
}

// SameContent tells whether two reports say the same, at whatever time.
func (r Report) SameContent(other Report) bool {
	return line(r.Identity) == line(other.Identity) && maps.Equal(r.annotations(), other.annotations())
}

// Lease returns the report as a new Lease.
func (r Report) Lease(namespace string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}}
	r.Write(lease)
	return lease
}

// Write puts the report into a Lease and leaves everything else there as it is.
// Texts are shortened to the bounds that Read demands.
func (r Report) Write(lease *coordinationv1.Lease) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	for _, key := range annotationKeys {
		delete(lease.Annotations, key)
	}
	for key, value := range r.annotations() {
		lease.Annotations[key] = value
	}
	lease.Spec.HolderIdentity = ptr.To(line(r.Identity))
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(StaleAfter.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: r.At.Truncate(time.Microsecond)}
}
