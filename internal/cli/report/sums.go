package report

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
)

// readSums fills a report with the sums that the operator stores, of a month or of whole days.
func readSums(ctx context.Context, p *program.Program, options reportOptions, in *Input) error {
	c, err := p.Connect()
	if err != nil {
		return err
	}

	stored, err := readStoredSums(ctx, c, options.namespace)
	if err != nil {
		return err
	}

	coverage := stored.Coverage()
	zone, err := time.LoadLocation(coverage.TimeZone)
	if err != nil {
		return fmt.Errorf("the operator cuts days in the time zone %.63q, which this program does not know", coverage.TimeZone)
	}

	periods, err := parsePeriods(options, p.Now().In(zone), coverage)
	if err != nil {
		return err
	}

	in.Used = map[cardseconds.Series]cardseconds.Milli{}
	for _, period := range periods.list {
		sums, err := stored.Sums(period)
		if err != nil {
			return fmt.Errorf("the sums of %s cannot be read: %w", period, err)
		}
		for series, amount := range sums {
			in.Used[series] += amount
		}
	}

	in.From = periods.first.Begin(zone)
	in.To = periods.end.Begin(zone)
	in.Since = coverage.Since
	in.CountedUntil = coverage.CountedUntil
	in.Known = stored.Tenants()
	for series := range in.Used { // also tenants that use nothing any more, and have sums of closed days only
		in.Known[series.Tenant] = true
	}

	return nil
}

// readStoredSums reads the ConfigMaps of the operator: in a text the running sums, in binary data entries of closed
// days and months.
func readStoredSums(ctx context.Context, c client.Client, namespace string) (*cardseconds.Stored, error) {
	stored := &cardseconds.Stored{}
	found := 0
	var unreadable error
	err := reader.List(ctx, c, &corev1.ConfigMapList{}, func(object *corev1.ConfigMap) {
		// Any object may have the label, so the name counts too: cardquota-card-seconds-NUMBER. Only the first of these
		// ConfigMaps have running sums.
		number, err := strconv.Atoi(strings.TrimPrefix(object.Name, strings.TrimSuffix(cardseconds.ConfigMapName(0), "0")))
		if err != nil || number < 0 || object.Name != cardseconds.ConfigMapName(number) {
			return
		}

		found++
		if number < cardseconds.Parts {
			unreadable = errors.Join(unreadable, stored.AddRunning(number, object.Data[cardseconds.TextKey]))
		}

		for name, packed := range object.BinaryData {
			if key, isEntry := cardseconds.ParseEntryKey(name); isEntry {
				stored.AddEntry(key, packed)
			}
		}
	}, client.InNamespace(namespace), client.MatchingLabels(cardseconds.ConfigMapLabels()))

	switch {
	case reader.IsForbidden(err):
		return nil, reader.WithAdvice(err, "Whole card-hours of this month and of the last one are in the LocalCardQuotas of your namespace: kubectl get lcq -o wide")
	case err != nil:
		return nil, err
	// An empty list of a wrong namespace would read as a bill of 0.
	case found == 0:
		return nil, fmt.Errorf("namespace %s has no card-seconds: name the one of the operator with --system-namespace", namespace)
	case unreadable != nil:
		return nil, fmt.Errorf("the ConfigMaps of card-seconds cannot be read: %s", output.Clean(unreadable.Error()))
	}

	return stored, nil
}

// maxReportDays is how many days are stored, if there is room.
const maxReportDays = 400

// reportPeriods are the days or months of a report: texts such as 2026-10-08 or 2026-10, which sort by time.
type reportPeriods struct {
	list []cardseconds.Period
	// first and end are where it begins and ends, end is not in it.
	first, end cardseconds.Period
}

// parsePeriods returns the time that the flags name, by default this month. now is in the time zone in which
// days begin.
func parsePeriods(options reportOptions, now time.Time, coverage cardseconds.Coverage) (reportPeriods, error) {
	today := cardseconds.DayOf(now)
	if options.from == "" && options.to == "" {
		month := today.Month()
		if options.month != "" {
			var err error
			month, err = cardseconds.ParseMonth(options.month)
			if err != nil {
				return reportPeriods{}, fmt.Errorf("--month: %w", err)
			}
		}

		if month > today.Month() {
			return reportPeriods{}, fmt.Errorf("the month %s lies in the future", month)
		}

		return reportPeriods{[]cardseconds.Period{month}, month, month.Add(1)}, nil
	}

	if options.month != "" {
		return reportPeriods{}, errors.New("write --month, or --from and --to, but not both")
	}

	// Without --from the report begins with the first day of this month. Without --to it ends before
	// tomorrow.
	days := reportPeriods{first: today.Month() + "-01", end: today.Add(1)}
	var err error
	if options.from != "" {
		days.first, err = cardseconds.ParseDay(options.from)
		if err != nil {
			return days, fmt.Errorf("--from: %w", err)
		}
	}

	if options.to != "" {
		days.end, err = cardseconds.ParseDay(options.to)
		if err != nil {
			return days, fmt.Errorf("--to: %w", err)
		}
	}

	return days.listDays(today, coverage.DaysDropped)
}

// listDays returns the periods with list set: the months if the time has only whole ones, else the days. It
// refuses a time that begins after today, is empty or too long, or has days that are stored no more: dropped
// is the last of these.
func (r reportPeriods) listDays(today, dropped cardseconds.Period) (reportPeriods, error) {
	// Months stay stored when their days have been dropped, so whole months are read from those.
	isWhole := r.first == r.first.Month()+"-01" && r.end == r.end.Month()+"-01"
	next := r.first
	end := r.end
	if isWhole {
		next = r.first.Month()
		end = r.end.Month()
	}

	switch {
	case r.first > today:
		return r, fmt.Errorf("the time from %s on lies in the future", r.first)
	case r.first >= r.end:
		return r, fmt.Errorf("the time is empty: it begins with %s and ends before %s", r.first, r.end)
	case r.first.Add(maxReportDays) < r.end:
		return r, fmt.Errorf("the time has more than %d days: ask for each year", maxReportDays)
	case !isWhole && r.first <= dropped:
		return r, fmt.Errorf("the days until %s are stored no more: ask for whole months, such as --month %s", dropped, r.first.Month())
	}

	for ; next < end; next = next.Add(1) { // the next day, or month if next is one
		r.list = append(r.list, next)
	}

	return r, nil
}
