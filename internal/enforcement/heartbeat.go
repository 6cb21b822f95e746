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

// LeaseName is the name of the heartbeat's Lease, in the namespace of the scheduler's
// ConfigMap.
const LeaseName = "cardquota-scheduler"

// StaleAfter is how long a report is valid. It exceeds a session of a large cluster, and is
// below the 30 seconds within which the operator must report missing enforcement.
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
	// AnnotationSecondScheduler names pods that another client bound, separated by commas;
	// absent when there are none.
	AnnotationSecondScheduler = "cardquota.dev/second-scheduler"
	// AnnotationEnded is the time of this report if the scheduler stopped cleanly after it.
	// It is absent while the scheduler runs or after it was killed. Another time was left
	// by a version that does not know the annotation.
	AnnotationEnded = "cardquota.dev/ended"
)

// MaxPods bounds the pods that a report names.
const MaxPods = 5

// Bounds of texts in bytes. All annotations of an object may have 256 KiB.
const (
	maxLineLength    = 256
	maxProblemLength = 1024
)

// Report is what the leading scheduler writes into a Lease at the end of a session.
type Report struct {
	// Identity is the scheduler's identity in the leader election.
	Identity string
	// Version is the scheduler's version.
	Version string
	// ConfigHash is schedulerconfig.Hash of the configuration of the session, "" for none:
	// then it assigned no card.
	ConfigHash string
	// ConfigProblem is why the newest text is not in force, "" when it is.
	ConfigProblem string
	// SecondScheduler names at most MaxPods pods of this scheduler that another client
	// bound, as namespace/name, sorted.
	SecondScheduler []string
	// At is the end of the session; the Lease keeps its microseconds.
	At time.Time
	// Ended reports that the scheduler stopped cleanly: this was its last session, and no
	// write of it is pending.
	Ended bool
}

// Fresh reports whether the report is younger than StaleAfter. A report that is as far in
// the future is not fresh either, or a wrong clock would prove enforcement forever.
func (r Report) Fresh(now time.Time) bool {
	age := now.Sub(r.At)
	return age > -StaleAfter && age < StaleAfter
}

// SameContent reports whether two reports differ in time only.
func (r Report) SameContent(other Report) bool {
	r = r.withinBounds()
	other = other.withinBounds()
	r.At = other.At
	return reflect.DeepEqual(r, other)
}

// Lease returns the report as a new Lease.
func (r Report) Lease(namespace string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}}
	r.WriteTo(lease)
	return lease
}

// WriteTo writes the report into a Lease, its texts cut to what readers accept, and leaves all other fields
// unchanged.
func (r Report) WriteTo(lease *coordinationv1.Lease) {
	r = r.withinBounds()
	ended := "" // else the time of this report, so that it says nothing about a later one
	if r.Ended {
		ended = formatEnd(r.At)
	}

	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}

	// These three are missing while they have nothing to say. Annotations of others stay.
	for key, value := range map[string]string{
		AnnotationConfigProblem: r.ConfigProblem, AnnotationSecondScheduler: strings.Join(r.SecondScheduler, ","), AnnotationEnded: ended,
	} {
		lease.Annotations[key] = value
		if value == "" {
			delete(lease.Annotations, key)
		}
	}

	lease.Annotations[AnnotationVersion] = r.Version
	lease.Annotations[AnnotationConfigHash] = r.ConfigHash
	lease.Spec.HolderIdentity = ptr.To(r.Identity)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(StaleAfter.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: r.At}
}

// ReadReport returns the report of a Lease. The error says what the Lease lacks. Anyone who may write the
// Lease can put any text there, so ReadReport truncates too long texts and leaves out names that no pod can
// have.
func ReadReport(lease *coordinationv1.Lease) (Report, error) {
	hash, hashed := lease.Annotations[AnnotationConfigHash]
	spec := lease.Spec
	lacks := ""
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
		// The annotation of an earlier report has another time.
		Ended: lease.Annotations[AnnotationEnded] == formatEnd(spec.RenewTime.Time),
	}.withinBounds()

	// The annotation exists because there is a second scheduler. If no name of it is left, the report would
	// say that there is none.
	if text := lease.Annotations[AnnotationSecondScheduler]; text != "" && len(report.SecondScheduler) == 0 {
		return Report{}, fmt.Errorf("Lease %s/%s names no pods in annotation %s: %.200q", lease.Namespace, lease.Name, AnnotationSecondScheduler, text)
	}

	return report, nil
}

// withinBounds returns the report as a Lease has it: with short texts on one line, without names that no pod can have,
// and in whole microseconds.
func (r Report) withinBounds() Report {
	r.Identity = shortLine(r.Identity)
	r.Version = shortLine(r.Version)
	r.ConfigHash = shortLine(r.ConfigHash)
	r.ConfigProblem = conditions.Truncate(singleLine(r.ConfigProblem), maxProblemLength)
	pods := slices.DeleteFunc(slices.Clone(r.SecondScheduler), func(pod string) bool { return !isPodName(pod) })
	slices.Sort(pods)

	pods = slices.Compact(pods)
	r.SecondScheduler = slices.Clip(pods[:min(len(pods), MaxPods)])
	if len(pods) == 0 {
		r.SecondScheduler = nil
	}

	// A Lease stores microseconds. With more, the report that is read would differ from the
	// written one.
	r.At = r.At.Truncate(time.Microsecond)
	return r
}

// formatEnd returns the value of AnnotationEnded for the last report.
func formatEnd(at time.Time) string {
	return at.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

// isPodName reports whether a text is namespace/name by the rules of the API server. A name
// has no comma, which separates pods.
func isPodName(text string) bool {
	namespace, name, _ := strings.Cut(text, "/")
	return len(validation.IsDNS1123Subdomain(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// singleLine returns a text on one line, with semicolons between its lines and without
// control characters.
func singleLine(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.Join(lines, "; ")))
}

// shortLine returns a text on one line of at most maxLineLength bytes.
func shortLine(text string) string { return conditions.Truncate(singleLine(text), maxLineLength) }
