package enforcement

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/conditions"
)

// LeaseName is the name of the heartbeat's Lease. It lies in the namespace of the
// scheduler's ConfigMap.
const LeaseName = "cardquota-scheduler"

// StaleAfter is how long a report proves anything. It is longer than a session
// of a large cluster takes, and shorter than the 30 seconds within which the
// operator must tell that nobody enforces.
var StaleAfter = build.Wait(20 * time.Second)

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

// MaxPods is how many pods a report names at most.
const MaxPods = 5

// Bounds of texts in bytes. All annotations of an object may hold 256 KiB.
const (
	maxLineLength    = 256
	maxProblemLength = 1024
)

// Report is what the leading scheduler says at the close of a session, in a Lease.
type Report struct {
	// Identity is the scheduler's identity in the leader election.
	Identity string
	// Version is the scheduler's version.
	Version string
	// ConfigHash is schedulerconfig.Hash of the text that the session ran with, ""
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
	r, other = r.withinBounds(), other.withinBounds()
	r.At = other.At
	return reflect.DeepEqual(r, other)
}

// Lease returns the report as a new Lease.
func (r Report) Lease(namespace string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}}
	r.WriteTo(lease)
	return lease
}

// WriteTo puts the report into a Lease, within its bounds, and leaves everything else
// there as it is.
func (r Report) WriteTo(lease *coordinationv1.Lease) {
	r = r.withinBounds()
	ended := ""
	if r.Ended {
		ended = formatEnd(r.At)
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	for key, value := range map[string]string{
		AnnotationConfigProblem: r.ConfigProblem, AnnotationSecondScheduler: strings.Join(r.SecondScheduler, ","), AnnotationEnded: ended,
	} {
		if lease.Annotations[key] = value; value == "" {
			delete(lease.Annotations, key)
		}
	}
	lease.Annotations[AnnotationVersion], lease.Annotations[AnnotationConfigHash] = r.Version, r.ConfigHash
	lease.Spec.HolderIdentity = ptr.To(r.Identity)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(StaleAfter.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: r.At}
}

// ReadReport returns the report of a Lease. An error says what a heartbeat lacks; what
// is malformed is brought into bounds. Only who may write the Lease can write either.
func ReadReport(lease *coordinationv1.Lease) (Report, error) {
	hash, hashed := lease.Annotations[AnnotationConfigHash]
	spec, lacks := lease.Spec, ""
	switch {
	case lease.Annotations[AnnotationVersion] == "":
		lacks = "annotation " + AnnotationVersion + " is missing"
	case !hashed:
		lacks = "annotation " + AnnotationConfigHash + " is missing"
	case spec.HolderIdentity == nil || *spec.HolderIdentity == "":
		lacks = "it has no holder"
	case spec.RenewTime == nil || spec.RenewTime.IsZero():
		lacks = "it was never renewed"
	}
	if lacks != "" {
		return Report{}, fmt.Errorf("Lease %s/%s is no heartbeat of %s: %s", lease.Namespace, lease.Name, LeaseName, lacks)
	}
	report := Report{
		Identity:        *spec.HolderIdentity,
		Version:         lease.Annotations[AnnotationVersion],
		ConfigHash:      hash,
		ConfigProblem:   lease.Annotations[AnnotationConfigProblem],
		SecondScheduler: strings.Split(lease.Annotations[AnnotationSecondScheduler], ","),
		At:              spec.RenewTime.Time,
		Ended:           lease.Annotations[AnnotationEnded] == formatEnd(spec.RenewTime.Time),
	}.withinBounds()
	if text := lease.Annotations[AnnotationSecondScheduler]; text != "" && len(report.SecondScheduler) == 0 {
		return Report{}, fmt.Errorf("Lease %s/%s names no pods in annotation %s: %.200q", lease.Namespace, lease.Name, AnnotationSecondScheduler, text)
	}
	return report, nil
}

// withinBounds is the report as a Lease can hold it.
func (r Report) withinBounds() Report {
	r.Identity, r.Version, r.ConfigHash = shortLine(r.Identity), shortLine(r.Version), shortLine(r.ConfigHash)
	r.ConfigProblem = conditions.Truncate(singleLine(r.ConfigProblem), maxProblemLength)
	pods := slices.DeleteFunc(slices.Clone(r.SecondScheduler), func(pod string) bool { return !isPodName(pod) })
	slices.Sort(pods)
	pods = slices.Compact(pods)
	r.SecondScheduler = slices.Clip(pods[:min(len(pods), MaxPods)])
	if len(pods) == 0 {
		r.SecondScheduler = nil
	}
	r.At = r.At.Truncate(time.Microsecond)
	return r
}

// formatEnd names the report that was the last.
func formatEnd(at time.Time) string {
	return at.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

// isPodName reports whether a text is namespace/name, by the rules of the API server. A
// comma, which would make several pods of it, is in no name.
func isPodName(text string) bool {
	namespace, name, _ := strings.Cut(text, "/")
	return len(validation.IsDNS1123Subdomain(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// singleLine is a text on one line: faults that stand on lines of their own are
// separated by semicolons, and nothing is left that a terminal would obey.
func singleLine(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.Join(lines, "; ")))
}

func shortLine(text string) string { return conditions.Truncate(singleLine(text), maxLineLength) }
