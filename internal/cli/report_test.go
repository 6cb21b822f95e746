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
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// storedSums are the ConfigMaps of an operator that has counted since the end of September: lab uses three cards
// and two slices of one all the time, chat eight by day, and a pod without a queue one on one day.
func storedSums(t *testing.T) []client.Object {
	zone := check.Value(time.LoadLocation("Europe/Berlin"))(t)

	lab := cardseconds.Series{Tenant: "lab", Project: "llm", Queue: "lab-llm", ServiceType: "training", Card: "NVIDIA-H200"}
	chat := cardseconds.Series{Tenant: "chat", Project: "assistant", Queue: "chat", ServiceType: "inference", Card: "NVIDIA-H200"}
	slices := cardseconds.Series{Tenant: "lab", Project: "vision", Queue: "lab-vision", ServiceType: "training", Card: "NVIDIA-H200/mig-1g.18gb-mixed"}
	outside := cardseconds.Series{Namespace: "default", ServiceType: "none", Card: "NVIDIA-H200"}
	m := &cardseconds.Meter{}
	entries := map[string][]byte{}
	m.SetZone(zone)

	begin := time.Date(2026, 9, 29, 12, 0, 0, 0, zone)
	for now := begin; !now.After(at); now = now.Add(2 * time.Minute) {
		counts := map[cardseconds.Series]card.Count{lab: 3, slices: 2}
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
			entries[key.String()] = check.Value(m.Entry(key))(t)
			m.Close(key)
		}
	}

	configMap := func(number int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: cardseconds.ConfigMapName(number), Labels: cardseconds.ConfigMapLabels()}}
	}

	running := configMap(0)
	archived := configMap(cardseconds.Parts)
	running.Data = map[string]string{cardseconds.TextKey: m.Texts()[0].Text, cardseconds.WriterKey: "manager"}
	archived.BinaryData = entries
	return []client.Object{running, archived}
}

func TestReport(t *testing.T) {
	objects := storedSums(t)
	for name, args := range map[string]string{
		"this-month": "",
		"month":      "--month 2026-10 --prices testdata/prices.yaml",
		"days":       "--from 2026-10-05 --to 2026-10-06 --by queue --prices testdata/prices.yaml",
		"wide":       "--from 2026-10-05 --to 2026-10-06 --by queue --prices testdata/prices.yaml -o wide",
		"json":       "--month 2026-10 --by project --tenant lab --prices testdata/prices.yaml -o json",
		"two-months": "--from 2026-10-01 --to 2026-12-01",
		"open-day":   "--from 2026-11-22 --to 2026-11-23",
		"early":      "--month 2026-09",
		"csv":        "--from 2026-10-04 --to 2026-10-06 --by queue --prices testdata/prices.yaml -o csv",
		"nothing":    "--from 2026-11-23 --tenant none",
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, objects, interceptor.Funcs{}, append([]string{"report"}, strings.Fields(args)...)...).exits(exitOK).matchesGolden("report-" + name)
			if name == "csv" {
				check.Contains(t, "notes of the csv", r.errOut, "No price, so no amount")
				check.That(t, strings.HasPrefix(r.out, "from,to,tenant,project,queue,service_type,card,card_seconds,card_hours,per_card_hour,currency,amount,namespace\r\n"), "%s", r.out)
			} else {
				check.Equal(t, "errors", "", r.errOut)
			}

			if name != "csv" && name != "json" && name != "wide" {
				checkColumns(t, r.out)
			}
		})
	}
}

// TestDaysAddUpToTheirMonth: exactly.
func TestDaysAddUpToTheirMonth(t *testing.T) {
	objects := storedSums(t)
	report := func(args ...string) string {
		return execute(t, objects, interceptor.Funcs{}, append([]string{"report", "-o", "csv"}, args...)...).out
	}
	check.Contains(t, "month with an hour more", report("--month", "2026-10"), ",NVIDIA-H200,8046000,")
	check.Contains(t, "its first days", report("--from", "2026-10-01", "--to", "2026-10-31"), ",NVIDIA-H200,7786800,")
	check.Contains(t, "its last day", report("--from", "2026-10-31", "--to", "2026-11-01"), ",NVIDIA-H200,259200,")
}

func TestReportErrors(t *testing.T) {
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
		"by what":           {"--by team", "--by: write tenant, project or queue"},
		"no prices":         {"--prices missing.yaml", "read --prices: open missing.yaml"},
		"wrong prices":      {"--prices testdata/serve.yaml", "field apiVersion not found"},
		"no such format":    {"-o xml", "write table, wide, json, yaml or csv"},
		"another namespace": {"--system-namespace cards", "namespace cards has no card-seconds"},
	} {
		r := execute(t, objects, interceptor.Funcs{}, append([]string{"report"}, strings.Fields(tc.args)...)...).exits(exitError).printsNothing()
		check.Contains(t, name, strings.Join(strings.Fields(r.errOut), " "), tc.want)
		checkColumns(t, r.errOut)
	}

	whole := execute(t, objects, interceptor.Funcs{}, "report", "--from", "2026-10-01", "--to", "2026-11-01")
	check.Equal(t, "exit code of a whole month with dropped days", exitOK, whole.code)

	refused := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "", nil)
	}}
	r := execute(t, objects, refused, "report")
	check.That(t, r.code == exitError && strings.Contains(r.errOut, "configmaps") && strings.Contains(r.errOut, "kubectl get lcq -o wide"), "%s", r.errOut)
}

// TestReportBeforeTheFirstUse reads the empty ConfigMaps of an operator that has seen no card in use.
func TestReportBeforeTheFirstUse(t *testing.T) {
	empty := storedSums(t)[0].(*corev1.ConfigMap)
	empty.Data = map[string]string{cardseconds.TextKey: "", cardseconds.WriterKey: "manager"}
	execute(t, []client.Object{empty}, interceptor.Funcs{}, "report").
		exits(exitOK).
		prints("Cards used from 2026-11-01T00:00:00Z to 2026-11-01T00:00:00Z.", "Nothing is known", "The operator has stored no sums yet.")
}

func TestReportCompletion(t *testing.T) {
	objects := []client.Object{builder.CardQuota("a").Tenant("lab").Obj(), builder.CardQuota("b").Tenant("lab").Obj()}
	for flag, want := range map[string]string{
		"--by": "tenant project queue", "--tenant": "lab", "-o": "table wide json yaml csv", "--from": "",
		"--month": "2026-11 2026-10 2026-09 2026-08 2026-07 2026-06 2026-05 2026-04 2026-03 2026-02 2026-01 2025-12",
	} {
		r := execute(t, objects, interceptor.Funcs{}, "__complete", "report", flag, "")
		words, _, _ := strings.Cut("\n"+r.out, "\n:")
		check.Equal(t, "completions of "+flag, want, strings.Join(strings.Fields(words), " "))
	}
}
