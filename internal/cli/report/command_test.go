package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// execute runs the command against a cluster with some objects.
var execute = kubectl.Plugin{Commands: []program.Command{NewCommand}}.Execute

// TestReportSumsUpStoredUse: the golden files have reports of this month, of a month, of days, and of times that are
// counted only in part. They are by tenant or by queue, with or without prices, in each format. The operator has
// counted tenants lab and chat from 2026-09-29 until now, 2026-11-23. CSV is for programs, so its notes are on the
// error stream.
func TestReportSumsUpStoredUse(t *testing.T) {
	objects := kubectl.StoredSums(t)

	for name, command := range map[string]string{
		"this-month": "report",
		"month":      "report --month 2026-10 --prices testdata/prices.yaml",
		"days":       "report --from 2026-10-05 --to 2026-10-06 --by queue --prices testdata/prices.yaml",
		"wide":       "report --from 2026-10-05 --to 2026-10-06 --by queue --prices testdata/prices.yaml -o wide",
		"json":       "report --month 2026-10 --by project --tenant lab --prices testdata/prices.yaml -o json",
		"two-months": "report --from 2026-10-01 --to 2026-12-01",
		"open-day":   "report --from 2026-11-22 --to 2026-11-23", // not yet written into an entry of its own
		"early":      "report --month 2026-09",
		"csv":        "report --from 2026-10-04 --to 2026-10-06 --by queue --prices testdata/prices.yaml -o csv",
		"nothing":    "report --from 2026-11-23 --tenant none",
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, objects, kubectl.MayReadAll, command).Exits(program.ExitOK).MatchesGolden("report-" + name)
			if name == "csv" {
				const header = "from,to,tenant,project,queue,service_type,card,card_seconds,card_hours,per_card_hour,currency,amount,namespace\r\n"
				r.Reports("No price, so no amount")
				check.That(t, strings.HasPrefix(r.Out, header), "%s", r.Out)
				return
			}

			r.ReportsNothing()
			if name != "json" && name != "wide" {
				r.FitsTerminal()
			}
		})
	}
}

// TestDaysAddUpToTheirMonth: the card-seconds of all days of a month are exactly those of the month, so that bills by
// day and by month agree. Tenant lab uses 3 H200 all the time. October has 31 days and one hour, because summer time
// ends. A report ends before the day of --to. Two ConfigMaps have the labels and nearly the name of those with sums.
func TestDaysAddUpToTheirMonth(t *testing.T) {
	const (
		lastDay   = 3 * 24 * 3600
		wholeDays = 3 * (30*24 + 1) * 3600 // the 30 days before, one of 25 hours
	)

	objects := append(kubectl.StoredSums(t),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: cardseconds.ConfigMapName(-1), Labels: cardseconds.ConfigMapLabels()}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: cardseconds.ConfigMapName(0) + "0", Labels: cardseconds.ConfigMapLabels()}})
	for times, wantCardSeconds := range map[string]int{
		"--month 2026-10":                   wholeDays + lastDay,
		"--from 2026-10-01 --to 2026-10-31": wholeDays,
		"--from 2026-10-31 --to 2026-11-01": lastDay,
	} {
		execute(t, objects, kubectl.MayReadAll, "report -o csv "+times).Prints(fmt.Sprintf(",NVIDIA-H200,%d,", wantCardSeconds))
	}
}

// TestReportRefusesTimesAndFlagsWithoutAnswer: it is 2026-11-23. Each error says what is wrong and what to write. The
// operator has dropped the days until 2026-10-10, of which only the month is stored any more.
func TestReportRefusesTimesAndFlagsWithoutAnswer(t *testing.T) {
	objects := storedSumsWithoutEarlyDays(t)

	for t, tc := range check.Cases(t, map[string]struct{ flags, want string }{
		"days that are dropped": {
			"--from 2026-10-05 --to 2026-10-12", "the days until 2026-10-10 are stored no more: ask for whole months, such as --month 2026-10",
		},
		"a duration instead of a day":      {"--from 24h", `"24h" is no day: write 2026-10-01`},
		"a month and a day":                {"--month 2026-10 --from 2026-10-01", "but not both"},
		"a month by its name":              {"--month october", `"october" is no month`},
		"the next month":                   {"--month 2026-12", "lies in the future"},
		"tomorrow":                         {"--from 2026-11-24", "lies in the future"},
		"the end before the begin":         {"--from 2026-11-02 --to 2026-11-01", "the time is empty"},
		"two years":                        {"--from 2025-01-03 --to 2026-11-02", "more than 400 days"},
		"an unknown grouping":              {"--by team", "--by: write tenant, project or queue"},
		"prices that do not exist":         {"--prices missing.yaml", "read --prices: open missing.yaml"},
		"a file that has no prices":        {"--prices ../whatif/testdata/serve.yaml", "field apiVersion not found"},
		"an unknown format":                {"-o xml", "write table, wide, json, yaml or csv"},
		"a namespace without the operator": {"--system-namespace cards", "namespace cards has no card-seconds"},
	}) {
		execute(t, objects, kubectl.MayReadAll, "report "+tc.flags).Exits(program.ExitError).PrintsNothing().Reports(tc.want).FitsTerminal()
	}
}

// storedSumsWithoutEarlyDays are kubectl.StoredSums after the days until 2026-10-10 were dropped.
func storedSumsWithoutEarlyDays(t *testing.T) []client.Object {
	objects := kubectl.StoredSums(t)
	running := objects[0].(*corev1.ConfigMap)
	running.Data[cardseconds.TextKey] = strings.Replace(running.Data[cardseconds.TextKey], `,"since"`, `,"daysDropped":"2026-10-10","since"`, 1)
	return objects
}

// TestAWholeMonthIsReportedWithoutItsDays: the days until 2026-10-10 are dropped, and the sum of October is stored.
// From the first day of October to that of November is October.
func TestAWholeMonthIsReportedWithoutItsDays(t *testing.T) {
	execute(t, storedSumsWithoutEarlyDays(t), kubectl.MayReadAll, "report --from 2026-10-01 --to 2026-11-01").Exits(program.ExitOK)
}

// TestReportWithoutRightsNamesWhatATenantMayRead: the sums are in ConfigMaps of the operator. A tenant who may not
// read them sees the card-hours of this month and the last one in its LocalCardQuotas (lcq).
func TestReportWithoutRightsNamesWhatATenantMayRead(t *testing.T) {
	noConfigMaps := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return kubectl.Forbidden("list", corev1.Resource("configmaps"))
	}}
	execute(t, kubectl.StoredSums(t), noConfigMaps, "report").Exits(program.ExitError).Reports("may not list configmaps", "kubectl get lcq -o wide")
}

// TestReportBeforeTheFirstUseSaysThatNothingIsKnown: the operator has seen no card in use yet, so its ConfigMap exists
// and has no sums. A report of 0 card-hours could be taken for a measurement. So report says that nothing is known.
func TestReportBeforeTheFirstUseSaysThatNothingIsKnown(t *testing.T) {
	empty := kubectl.StoredSums(t)[0].(*corev1.ConfigMap)
	empty.Data = map[string]string{cardseconds.TextKey: "", cardseconds.WriterKey: "manager"}
	execute(t, []client.Object{empty}, kubectl.MayReadAll, "report").
		Exits(program.ExitOK).
		Prints("Cards used from 2026-11-01T00:00:00Z to 2026-11-01T00:00:00Z.", "Nothing is known", "The operator has stored no sums yet.")
}

// TestReportCompletesTheValuesOfItsFlags: tenants are those of CardQuotas, each once, and months the last twelve.
func TestReportCompletesTheValuesOfItsFlags(t *testing.T) {
	objects := []client.Object{builder.CardQuota("a").Tenant("lab").Obj(), builder.CardQuota("b").Tenant("lab").Obj()}
	for flag, want := range map[string]string{
		"--by":     "tenant project queue",
		"--tenant": "lab",
		"-o":       "table wide json yaml csv",
		"--from":   "",
		"--month":  "2026-11 2026-10 2026-09 2026-08 2026-07 2026-06 2026-05 2026-04 2026-03 2026-02 2026-01 2025-12",
	} {
		r := execute(t, objects, kubectl.MayReadAll, "__complete", "report", flag, "")

		words, _, _ := strings.Cut("\n"+r.Out, "\n:")
		check.Equal(t, "completions of "+flag, want, strings.Join(strings.Fields(words), " "))
	}
}
