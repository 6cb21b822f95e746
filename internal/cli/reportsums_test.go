package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// storedSums are the ConfigMaps of an operator that has counted since the end of September: lab uses three cards
// all the time, chat eight by day, and a pod without a queue one on one day.
func storedSums(t *testing.T) []client.Object {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	check.NoError(t, err)
	lab := cardseconds.Series{Tenant: "lab", Project: "llm", Queue: "lab-llm", ServiceType: "training", Card: "NVIDIA-H200"}
	chat := cardseconds.Series{Tenant: "chat", Project: "assistant", Queue: "chat", ServiceType: "inference", Card: "NVIDIA-H200"}
	outside := cardseconds.Series{Namespace: "default", ServiceType: "none", Card: "NVIDIA-H200"}
	m, entries := &cardseconds.Meter{}, map[string][]byte{}
	m.SetZone(zone)
	begin := time.Date(2026, 9, 29, 12, 0, 0, 0, zone)
	for now := begin; !now.After(at); now = now.Add(2 * time.Minute) {
		counts := map[cardseconds.Series]card.Count{lab: 3}
		if local := now.In(zone); local.Hour() >= 8 && local.Hour() < 20 {
			counts[chat] = 8
		}
		if now.In(zone).Format(cardseconds.DayLayout) == "2026-10-05" {
			counts[outside] = 1
		}
		m.SetCounts(now, counts)
		m.CreditGap(nil)
		m.Place()
		for _, period := range m.ClosablePeriods(0, now) {
			if period == "2026-11-22" {
				continue // its entry could not be written yet
			}
			key := cardseconds.EntryKey{Period: period, Part: 0}
			packed, err := m.Entry(key)
			check.NoError(t, err)
			entries[key.String()] = packed
			m.Close(key)
		}
	}
	configMap := func(number int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: cardseconds.ConfigMapName(number), Labels: cardseconds.ConfigMapLabels()}}
	}
	running, archived := configMap(0), configMap(cardseconds.Parts)
	running.Data = map[string]string{cardseconds.TextKey: m.Texts()[0].Text, cardseconds.WriterKey: "manager"}
	archived.BinaryData = entries
	return []client.Object{running, archived}
}

func TestReportOfStoredSums(t *testing.T) {
	t.Setenv(prometheusVariable, "")
	objects := storedSums(t)
	for name, args := range map[string]string{
		"this-month": "",
		"month":      "--month 2026-10 --prices testdata/prices.yaml",
		"days":       "--from 2026-10-05 --to 2026-10-06 --by queue",
		"two-months": "--from 2026-10-01 --to 2026-12-01",
		"open-day":   "--from 2026-11-22 --to 2026-11-23",
		"early":      "--month 2026-09 -o json",
		"csv":        "--from 2026-10-04 --to 2026-10-06 -o csv",
		"nothing":    "--from 2026-11-23 --tenant none",
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, objects, interceptor.Funcs{}, append([]string{"report"}, strings.Fields(args)...)...)
			check.That(t, r.code == exitOK, "exit code %d, %s", r.code, r.errOut)
			compareGolden(t, "report-sums-"+name, r.out)
		})
	}
}

// TestDaysAddUpToTheirMonth: exactly.
func TestDaysAddUpToTheirMonth(t *testing.T) {
	t.Setenv(prometheusVariable, "")
	objects := storedSums(t)
	report := func(args ...string) string {
		return execute(t, objects, interceptor.Funcs{}, append([]string{"report", "-o", "csv"}, args...)...).out
	}
	check.Contains(t, "month with an hour more", report("--month", "2026-10"), ",NVIDIA-H200,8046000,")
	check.Contains(t, "its first days", report("--from", "2026-10-01", "--to", "2026-10-31"), ",NVIDIA-H200,7786800,")
	check.Contains(t, "its last day", report("--from", "2026-10-31", "--to", "2026-11-01"), ",NVIDIA-H200,259200,")
}

func TestErrorsOfStoredSums(t *testing.T) {
	t.Setenv(prometheusVariable, "")
	objects := storedSums(t)
	running := objects[0].(*corev1.ConfigMap)
	running.Data[cardseconds.TextKey] = strings.Replace(running.Data[cardseconds.TextKey], `,"since"`, `,"daysDropped":"2026-10-10","since"`, 1)
	for name, tc := range map[string]struct{ args, want string }{
		"a dropped day":     {"--from 2026-10-05 --to 2026-10-12", "the days until 2026-10-10 are stored no more: ask for whole months, such as --month 2026-10"},
		"a time":            {"--from 24h", `"24h" is no day: write 2026-10-01`},
		"both":              {"--month 2026-10 --from 2026-10-01", "but not both"},
		"no month":          {"--month october", `"october" is no month`},
		"a month to come":   {"--month 2026-12", "lies in the future"},
		"days to come":      {"--from 2026-11-24", "lies in the future"},
		"backwards":         {"--from 2026-11-02 --to 2026-11-01", "the time is empty"},
		"too long":          {"--from 2025-01-03 --to 2026-11-02", "more than 400 days"},
		"a matcher":         {`--match cluster="a"`, "write --prometheus or --service, too"},
		"another namespace": {"--system-namespace cards", "namespace cards has no card-seconds"},
	} {
		r := execute(t, objects, interceptor.Funcs{}, append([]string{"report"}, strings.Fields(tc.args)...)...)
		check.That(t, r.code == exitError && r.out == "", "%s: exit code %d: %s", name, r.code, r.out)
		check.Contains(t, name, strings.Join(strings.Fields(r.errOut), " "), tc.want)
	}
	whole := execute(t, objects, interceptor.Funcs{}, "report", "--from", "2026-10-01", "--to", "2026-11-01")
	check.Equal(t, "exit code of a whole month with dropped days", exitOK, whole.code)
	refused := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "", nil)
	}}
	r := execute(t, objects, refused, "report")
	check.That(t, r.code == exitError && strings.Contains(r.errOut, "configmaps") && strings.Contains(r.errOut, "kubectl get lcq -o wide"), "%s", r.errOut)
}
