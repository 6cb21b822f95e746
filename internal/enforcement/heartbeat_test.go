package enforcement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var sessionEnd = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// newFullReport returns a report with a value in each field.
func newFullReport() Report {
	return Report{
		Identity: "host_uid", Version: "v1.2.3", ConfigHash: "abc", ConfigProblem: "line 3: no such action",
		SecondScheduler: []string{"a/one", "b/two"}, At: sessionEnd,
	}
}

// TestReportIsWrittenToALease: the heartbeat is a Lease, so that the operator and users can read it with ordinary
// rights. Its holder and its renewal are those of the report; the rest is in annotations. It is valid for 20 seconds
// (StaleAfter). Leases have microseconds.
func TestReportIsWrittenToALease(t *testing.T) {
	check.Equal(t, "Lease", &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cardquota-scheduler", Annotations: map[string]string{
			"cardquota.dev/scheduler-version": "v1.2.3",
			"cardquota.dev/config-hash":       "abc",
			"cardquota.dev/config-problem":    "line 3: no such action",
			"cardquota.dev/second-scheduler":  "a/one,b/two",
		}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("host_uid"), LeaseDurationSeconds: ptr.To(int32(20)),
			RenewTime: &metav1.MicroTime{Time: sessionEnd.Truncate(time.Microsecond)},
		},
	}, newFullReport().Lease("ns"))
}

// TestWriteKeepsFieldsOfOthers: the scheduler writes into an existing Lease. Annotations and labels of others stay,
// and its own annotations about problems are removed when there are none any more.
func TestWriteKeepsFieldsOfOthers(t *testing.T) {
	lease := newFullReport().Lease("ns")
	lease.ResourceVersion = "7"
	lease.Annotations["team"] = "infra"
	lease.Labels = map[string]string{"a": "b"}
	healthy := newFullReport()
	healthy.ConfigProblem = ""
	healthy.SecondScheduler = nil
	healthy.WriteTo(lease)
	check.Equal(t, "annotations", map[string]string{"team": "infra", AnnotationVersion: "v1.2.3", AnnotationConfigHash: "abc"}, lease.Annotations)
	check.Equal(t, "resource version", "7", lease.ResourceVersion)
	check.Equal(t, "labels", map[string]string{"a": "b"}, lease.Labels)
}

// TestTextsOfTheLeaseAreBounded: the operator shows the texts of the heartbeat in conditions and in terminals. So
// they are one line without control characters, and at most five pods are named. A problem has at most 1024 bytes, a
// version or hash 256, with "…" (3 bytes) at the end of a cut text.
func TestTextsOfTheLeaseAreBounded(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		key   string
		write func(*Report)
		want  string
	}{
		"the lines of several faults become one line": {
			key:   AnnotationConfigProblem,
			write: func(report *Report) { report.ConfigProblem = "one\r\n\ntwo\n" },
			want:  "one; two",
		},
		"control characters become spaces": {
			key:   AnnotationConfigProblem,
			write: func(report *Report) { report.ConfigProblem = "a\x1b[31m\tb\u202ec" },
			want:  "a [31m b c",
		},
		"a long problem is cut": {
			key:   AnnotationConfigProblem,
			write: func(report *Report) { report.ConfigProblem = strings.Repeat("x", 5000) },
			want:  strings.Repeat("x", 1021) + "…",
		},
		"a long version is cut": {
			key:   AnnotationVersion,
			write: func(report *Report) { report.Version = strings.Repeat("v", 300) },
			want:  strings.Repeat("v", 253) + "…",
		},
		"a long hash is cut": {
			key:   AnnotationConfigHash,
			write: func(report *Report) { report.ConfigHash = strings.Repeat("f", 300) },
			want:  strings.Repeat("f", 253) + "…",
		},
		"without a hash the annotation is empty": {key: AnnotationConfigHash, write: func(report *Report) { report.ConfigHash = "" }},
		"of seven pods the first five are named, sorted and once each": {AnnotationSecondScheduler, func(report *Report) {
			report.SecondScheduler = []string{"n/f", "n/e", "n/d", "n/c", "n/b", "n/a", "n/a"}
		}, "n/a,n/b,n/c,n/d,n/e"},
		"texts that are not namespace/name are skipped": {AnnotationSecondScheduler, func(report *Report) {
			report.SecondScheduler = []string{"n/a,n/b", "n", "n/", "/a", "n/a/b", "N/a", "n/ok", "n/" + strings.Repeat("x", 254)}
		}, "n/ok"},
	}) {
		report := newFullReport()
		tc.write(&report)

		got, isWritten := report.Lease("ns").Annotations[tc.key]
		check.Equal(t, tc.key, tc.want, got)
		check.That(t, isWritten, "there is no annotation %s", tc.key)
	}
}

// TestLastReportSaysThatTheSchedulerStopped: a scheduler that stops cleanly says so in its last report, by an
// annotation with the time of the report. It counts only while the Lease has that time: a later leader renews the
// Lease, even one of an older version that does not know the annotation.
func TestLastReportSaysThatTheSchedulerStopped(t *testing.T) {
	last := newFullReport()
	last.Ended = true
	last.At = sessionEnd.Truncate(time.Microsecond)
	lease := last.Lease("ns")
	check.Equal(t, "last report", last, check.Value(ReadReport(lease))(t))
	check.Equal(t, "annotation", "2026-03-01T12:00:00.123456Z", lease.Annotations[AnnotationEnded])

	lease.Spec.RenewTime.Time = sessionEnd.Add(time.Second)
	check.That(t, !check.Value(ReadReport(lease))(t).Ended, "a leader that only renewed the Lease counts as stopped")

	newFullReport().WriteTo(lease)
	next := last
	next.Ended = false
	check.Equal(t, "report of the next leader", next, check.Value(ReadReport(lease))(t))
}

// TestIncompleteLeaseIsNoReport: a Lease without a holder, a renewal, a version or a hash proves nothing, and is not
// read as a report. The same is true for a list of pods that our scheduler cannot have written. The error names the
// Lease and what is missing.
func TestIncompleteLeaseIsNoReport(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*coordinationv1.Lease)
		want   string
	}{
		"no annotations": {
			change: func(l *coordinationv1.Lease) { l.Annotations = nil },
			want:   "annotation cardquota.dev/scheduler-version is missing",
		},
		"an empty version": {
			change: func(l *coordinationv1.Lease) { l.Annotations[AnnotationVersion] = "" },
			want:   "annotation cardquota.dev/scheduler-version is missing",
		},
		"no hash": {
			change: func(l *coordinationv1.Lease) { delete(l.Annotations, AnnotationConfigHash) },
			want:   "annotation cardquota.dev/config-hash is missing",
		},
		"no holder":       {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, "it has no holder"},
		"an empty holder": {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") }, "it has no holder"},
		"a second scheduler that is not namespace/pod": {
			change: func(l *coordinationv1.Lease) { l.Annotations[AnnotationSecondScheduler] = "other" },
			want:   `names no pods in annotation cardquota.dev/second-scheduler: "other"`,
		},
		"no renewal":                 {func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, "it was never renewed"},
		"a renewal at the zero time": {func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{} }, "it was never renewed"},
	}) {
		lease := newFullReport().Lease("ns")
		tc.change(lease)

		report, err := ReadReport(lease)
		check.Says(t, err, tc.want)
		check.Says(t, err, "Lease ns/"+lease.Name)
		check.Equal(t, "report", Report{}, report)
	}
}

// TestMalformedReportsAreBounded: a client that may write the Lease must not get control characters or long texts
// into a status. So a report is cleaned and cut when it is read, too. A line break becomes "; ", other control
// characters become spaces. A problem has at most 1024 bytes, with "…" at its end. Of the pods, the first five in
// sorted order stay, and texts that are not namespace/name are skipped.
func TestMalformedReportsAreBounded(t *testing.T) {
	lease := newFullReport().Lease("ns")
	lease.Spec.HolderIdentity = ptr.To("a\nb")
	lease.Annotations[AnnotationConfigHash] = "a\x1b"
	lease.Annotations[AnnotationConfigProblem] = strings.Repeat("x", 5000)
	lease.Annotations[AnnotationSecondScheduler] = "n/b,n/a,none,n/c,n/d,n/e,n/f,"
	check.Equal(t, "report", Report{
		Identity: "a; b", Version: "v1.2.3", ConfigHash: "a", ConfigProblem: strings.Repeat("x", 1021) + "…",
		SecondScheduler: []string{"n/a", "n/b", "n/c", "n/d", "n/e"}, At: sessionEnd.Truncate(time.Microsecond),
	}, check.Value(ReadReport(lease))(t))
}

// TestReportIsFreshForTwentySeconds: a heartbeat proves something for less than 20 seconds (StaleAfter), by the
// clocks of scheduler and operator. These may differ, so a report from the future counts in the same way.
func TestReportIsFreshForTwentySeconds(t *testing.T) {
	for age, want := range map[time.Duration]bool{
		0:                  true,
		20*time.Second - 1: true,
		20 * time.Second:   false,
		time.Hour:          false,
		-19 * time.Second:  true,
		-20 * time.Second:  false,
		-time.Hour:         false,
	} {
		check.Equal(t, fmt.Sprint("fresh at an age of ", age), want, (Report{At: sessionEnd}).Fresh(sessionEnd.Add(age)))
	}
}

// TestSameContentIgnoresTheTime: the scheduler writes at once if its report has another content, and else only renews
// the Lease. The time and the order of pods are no content.
func TestSameContentIgnoresTheTime(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Report)
		want   bool
	}{
		"a later time: the same":                {func(report *Report) { report.At = report.At.Add(time.Hour) }, true},
		"another order of pods: the same":       {func(report *Report) { report.SecondScheduler = []string{"b/two", "a/one"} }, true},
		"another identity":                      {func(report *Report) { report.Identity = "x" }, false},
		"another version":                       {func(report *Report) { report.Version = "x" }, false},
		"another hash":                          {func(report *Report) { report.ConfigHash = "x" }, false},
		"another problem":                       {func(report *Report) { report.ConfigProblem = "x" }, false},
		"no problem any more":                   {func(report *Report) { report.ConfigProblem = "" }, false},
		"other pods":                            {func(report *Report) { report.SecondScheduler = []string{"a/one"} }, false},
		"spaces that are not written: the same": {func(report *Report) { report.ConfigProblem += " \n" }, true},
	}) {
		other := newFullReport()

		tc.change(&other)
		check.Equal(t, "same", tc.want, newFullReport().SameContent(other))
	}
}

// TestReportRoundTripsThroughLease: the Lease of any report can be read, and the report that is read from it makes
// the same Lease again. What is read has the content of the report, as far as a Lease has room for it, and its time
// in microseconds. Reports are random.
func TestReportRoundTripsThroughLease(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		pod := rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{1,6}/[a-z0-9.-]{1,6}`), rapid.String())
		report := Report{
			Identity: "h" + rapid.String().Draw(t, "identity"), Version: "v" + rapid.String().Draw(t, "version"),
			ConfigHash:      rapid.String().Draw(t, "hash"),
			ConfigProblem:   strings.Repeat(rapid.String().Draw(t, "problem"), rapid.IntRange(0, 90).Draw(t, "times")),
			SecondScheduler: rapid.SliceOfN(pod, 0, 8).Draw(t, "pods"),
			At:              sessionEnd.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "later"))),
		}

		lease := report.Lease("ns")
		got := check.Value(ReadReport(lease))(t)
		check.Equal(t, "written again", lease, got.Lease("ns"))
		check.Must(t, got.SameContent(report) && got.At.Equal(report.At.Truncate(time.Microsecond)), "%+v is read as %+v", report, got)

		check.Equal(t, "read again", got, check.Value(ReadReport(got.Lease("ns")))(t))
	})
}
