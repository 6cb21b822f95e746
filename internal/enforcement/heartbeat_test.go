package enforcement

import (
	"fmt"
	"maps"
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

var beaten = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func full() Report {
	return Report{
		Identity: "host_uid", Version: "v1.2.3", ConfigHash: "abc", ConfigProblem: "line 3: no such action",
		SecondScheduler: []string{"a/one", "b/two"}, At: beaten,
	}
}

func TestLease(t *testing.T) {
	want := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cardquota-scheduler", Annotations: map[string]string{
			"cardquota.dev/scheduler-version": "v1.2.3",
			"cardquota.dev/config-hash":       "abc",
			"cardquota.dev/config-problem":    "line 3: no such action",
			"cardquota.dev/second-scheduler":  "a/one,b/two",
		}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("host_uid"), LeaseDurationSeconds: ptr.To(int32(20)),
			RenewTime: &metav1.MicroTime{Time: beaten.Truncate(time.Microsecond)},
		},
	}

	check.Equal(t, "Lease", want, full().Lease("ns"))
}

func TestWriteLeavesWhatOthersWrote(t *testing.T) {
	lease := full().Lease("ns")
	lease.ResourceVersion = "7"
	lease.Annotations["team"] = "infra"
	lease.Labels = map[string]string{"a": "b"}
	healthy := full()
	healthy.ConfigProblem = ""
	healthy.SecondScheduler = nil
	healthy.WriteTo(lease)
	want := map[string]string{"team": "infra", AnnotationVersion: "v1.2.3", AnnotationConfigHash: "abc"}
	check.That(t, maps.Equal(lease.Annotations, want) && lease.ResourceVersion == "7" && lease.Labels["a"] == "b", "Lease is %+v", lease.ObjectMeta)
}

func TestTextsAreBounded(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		key   string
		write func(*Report)
		want  string
	}{
		"several faults stand on one line":  {AnnotationConfigProblem, func(r *Report) { r.ConfigProblem = "one\r\n\ntwo\n" }, "one; two"},
		"nothing controls a terminal":       {AnnotationConfigProblem, func(r *Report) { r.ConfigProblem = "a\x1b[31m\tb\u202ec" }, "a [31m b c"},
		"a long problem is cut":             {AnnotationConfigProblem, func(r *Report) { r.ConfigProblem = strings.Repeat("x", 5000) }, strings.Repeat("x", 1021) + "…"},
		"a long version is cut":             {AnnotationVersion, func(r *Report) { r.Version = strings.Repeat("v", 300) }, strings.Repeat("v", 253) + "…"},
		"a long hash is cut":                {AnnotationConfigHash, func(r *Report) { r.ConfigHash = strings.Repeat("f", 300) }, strings.Repeat("f", 253) + "…"},
		"a missing hash is written as none": {AnnotationConfigHash, func(r *Report) { r.ConfigHash = "" }, ""},
		"pods are sorted, once each, five": {AnnotationSecondScheduler, func(r *Report) {
			r.SecondScheduler = []string{"n/f", "n/e", "n/d", "n/c", "n/b", "n/a", "n/a"}
		}, "n/a,n/b,n/c,n/d,n/e"},
		"what is no pod is not returned": {AnnotationSecondScheduler, func(r *Report) {
			r.SecondScheduler = []string{"n/a,n/b", "n", "n/", "/a", "n/a/b", "N/a", "n/ok", "n/" + strings.Repeat("x", 254)}
		}, "n/ok"},
	}) {
		r := full()
		tc.write(&r)

		got, ok := r.Lease("ns").Annotations[tc.key]
		check.That(t, ok && got == tc.want, "%s is %q (%v), want %q", tc.key, got, ok, tc.want)
	}
}

func TestReadReport(t *testing.T) {
	ended := full()
	ended.Ended = true
	ended.At = beaten.Truncate(time.Microsecond)

	lease := ended.Lease("ns")
	check.Equal(t, "last report", ended, check.Value(ReadReport(lease))(t))
	check.Equal(t, "end", "2026-03-01T12:00:00.123456Z", lease.Annotations[AnnotationEnded])

	lease.Spec.RenewTime.Time = beaten.Add(time.Second)
	check.That(t, !check.Value(ReadReport(lease))(t).Ended, "the next leader, a version that knows no end, has ended")

	full().WriteTo(lease)
	next := ended
	next.Ended = false
	check.Equal(t, "report of the next leader", next, check.Value(ReadReport(lease))(t))
}

func TestReadReportRefuses(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		spoil func(*coordinationv1.Lease)
		want  string
	}{
		"no annotations":       {func(l *coordinationv1.Lease) { l.Annotations = nil }, "annotation cardquota.dev/scheduler-version is missing"},
		"an empty version":     {func(l *coordinationv1.Lease) { l.Annotations[AnnotationVersion] = "" }, "annotation cardquota.dev/scheduler-version is missing"},
		"no hash":              {func(l *coordinationv1.Lease) { delete(l.Annotations, AnnotationConfigHash) }, "annotation cardquota.dev/config-hash is missing"},
		"no holder":            {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, "it has no holder"},
		"an empty holder":      {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") }, "it has no holder"},
		"no pod that is one":   {func(l *coordinationv1.Lease) { l.Annotations[AnnotationSecondScheduler] = "other" }, `names no pods in annotation cardquota.dev/second-scheduler: "other"`},
		"no renewal":           {func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, "it was never renewed"},
		"a renewal at no time": {func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{} }, "it was never renewed"},
	}) {
		lease := full().Lease("ns")
		tc.spoil(lease)

		report, err := ReadReport(lease)
		check.Says(t, err, tc.want)
		check.Says(t, err, "Lease ns/"+lease.Name)
		check.Equal(t, "a report all the same", Report{}, report)
	}
}

// TestMalformedReportsAreBounded: nothing else gets into a status.
func TestMalformedReportsAreBounded(t *testing.T) {
	lease := full().Lease("ns")
	lease.Spec.HolderIdentity = ptr.To("a\nb")
	lease.Annotations[AnnotationConfigHash] = "a\x1b"
	lease.Annotations[AnnotationConfigProblem] = strings.Repeat("x", 5000)
	lease.Annotations[AnnotationSecondScheduler] = "n/b,n/a,none,n/c,n/d,n/e,n/f,"
	report := check.Value(ReadReport(lease))(t)
	want := Report{Identity: "a; b", Version: "v1.2.3", ConfigHash: "a", ConfigProblem: strings.Repeat("x", 1021) + "…",
		SecondScheduler: []string{"n/a", "n/b", "n/c", "n/d", "n/e"}, At: beaten.Truncate(time.Microsecond)}
	check.Equal(t, "report", want, report)
}

func TestFresh(t *testing.T) {
	for age, want := range map[time.Duration]bool{
		0: true, 20*time.Second - 1: true, 20 * time.Second: false, time.Hour: false,
		-19 * time.Second: true, -20 * time.Second: false, -time.Hour: false,
	} {
		t.Run(fmt.Sprint(age, " old"), func(t *testing.T) { check.Equal(t, "fresh", want, (Report{At: beaten}).Fresh(beaten.Add(age))) })
	}
}

func TestSameContent(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Report)
		want   bool
	}{
		"later":                 {func(r *Report) { r.At = r.At.Add(time.Hour) }, true},
		"another order":         {func(r *Report) { r.SecondScheduler = []string{"b/two", "a/one"} }, true},
		"another identity":      {func(r *Report) { r.Identity = "x" }, false},
		"another version":       {func(r *Report) { r.Version = "x" }, false},
		"another hash":          {func(r *Report) { r.ConfigHash = "x" }, false},
		"another problem":       {func(r *Report) { r.ConfigProblem = "x" }, false},
		"a problem less":        {func(r *Report) { r.ConfigProblem = "" }, false},
		"other pods":            {func(r *Report) { r.SecondScheduler = []string{"a/one"} }, false},
		"a difference cut away": {func(r *Report) { r.ConfigProblem += " \n" }, true},
	}) {
		other := full()

		tc.change(&other)
		check.Equal(t, "same", tc.want, full().SameContent(other))
	}
}

// TestReportRoundTripsThroughLease checks that the Lease of any report can be read, and that the
// report read from it makes the same Lease. A report within the bounds stays as it was.
func TestReportRoundTripsThroughLease(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		pod := rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{1,6}/[a-z0-9.-]{1,6}`), rapid.String())
		r := Report{
			Identity: "h" + rapid.String().Draw(t, "identity"), Version: "v" + rapid.String().Draw(t, "version"),
			ConfigHash: rapid.String().Draw(t, "hash"), ConfigProblem: strings.Repeat(rapid.String().Draw(t, "problem"), rapid.IntRange(0, 90).Draw(t, "times")),
			SecondScheduler: rapid.SliceOfN(pod, 0, 8).Draw(t, "pods"),
			At:              beaten.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "later"))),
		}

		lease := r.Lease("ns")
		got := check.Value(ReadReport(lease))(t)
		check.Equal(t, "written again", lease, got.Lease("ns"))
		check.Must(t, got.SameContent(r) && got.At.Equal(r.At.Truncate(time.Microsecond)), "%+v is read as %+v", r, got)

		check.Equal(t, "read again", got, check.Value(ReadReport(got.Lease("ns")))(t))
	})
}
