package cardseconds

import (
	"fmt"
	"time"
)

// Period is a day such as 2026-10-01, or a month such as 2026-10. Periods of one kind are ordered as texts.
type Period string

// The texts of days and months.
const (
	DayLayout   = "2006-01-02"
	MonthLayout = "2006-01"
)

// DayOf returns the day of a time, in its own time zone.
func DayOf(at time.Time) Period { return Period(at.Format(DayLayout)) }

// ParseDay reads a day.
func ParseDay(text string) (Period, error) {
	if _, err := time.Parse(DayLayout, text); err != nil {
		return "", fmt.Errorf("%.40q is no day: write 2026-10-01", text)
	}
	return Period(text), nil
}

// ParseMonth reads a month.
func ParseMonth(text string) (Period, error) {
	if _, err := time.Parse(MonthLayout, text); err != nil {
		return "", fmt.Errorf("%.40q is no month: write 2026-10", text)
	}
	return Period(text), nil
}

// IsDay reports whether the period is a day, and not a month.
func (p Period) IsDay() bool { return len(p) == len(DayLayout) }

// isValid reports whether the period is a day or a month.
func (p Period) isValid() bool {
	_, err := time.Parse(p.layout(), string(p))
	return err == nil
}

// layout returns the form in which the period is written.
func (p Period) layout() string {
	if p.IsDay() {
		return DayLayout
	}
	return MonthLayout
}

// Month returns the month of a day.
func (p Period) Month() Period { return p[:min(len(p), len(MonthLayout))] }

// Add returns the period that is n days, or months, later, "" for "".
func (p Period) Add(n int) Period {
	first, err := time.Parse(p.layout(), string(p))
	if err != nil {
		return ""
	}
	if p.IsDay() {
		return Period(first.AddDate(0, 0, n).Format(DayLayout))
	}
	return Period(first.AddDate(0, n, 0).Format(MonthLayout))
}

// next returns the period after this one, "" for "".
func (p Period) next() Period { return p.Add(1) }

// Begin returns when the period begins in a time zone.
func (p Period) Begin(zone *time.Location) time.Time {
	first, err := time.Parse(p.layout(), string(p))
	if err != nil {
		return time.Time{}
	}
	return midnight(first.Year(), first.Month(), first.Day(), zone)
}

// nextDay returns when the day of an instant ends, in its own time zone.
func nextDay(at time.Time) time.Time {
	year, month, day := at.Date()
	return midnight(year, month, day+1, at.Location())
}

// midnight returns when a day begins, the first time if clocks are set back over midnight. Where they are set
// forward at midnight, the day begins with the new time. It tries the offsets of the day before and of the day after,
// and prefers the one with which clocks really show midnight.
func midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	local := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	before := withOffsetAt(local, local.Add(-24*time.Hour), zone)
	after := withOffsetAt(local, local.Add(24*time.Hour), zone)
	switch {
	case showsMidnight(before, local) && !showsMidnight(after, local):
		return before
	case showsMidnight(after, local) && (!showsMidnight(before, local) || after.Before(before)):
		return after
	default:
		return before
	}
}

// withOffsetAt returns a local time as an instant, with the offset that a time zone has at another instant.
func withOffsetAt(local, at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return local.Add(-time.Duration(offset) * time.Second).In(zone)
}

// showsMidnight reports whether clocks show at an instant the midnight with which the day of local begins.
func showsMidnight(at, local time.Time) bool {
	return at.Hour() == 0 && at.Minute() == 0 && at.YearDay() == local.YearDay() && at.Year() == local.Year()
}
