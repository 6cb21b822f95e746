package carduse

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// MaxDays bounds a window.
const MaxDays = 400

const (
	dateLayout  = "2006-01-02"
	monthLayout = "2006-01"
)

// agoPattern is a time before now, such as 30d or -24h.
var agoPattern = regexp.MustCompile(`^-?([0-9]{1,5})([mhdw])$`)

var agoUnits = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// ParseTime returns an instant: an RFC 3339 time, a date, which means its midnight in the zone of now,
// a time before now such as 30d, or the word now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if ago := agoPattern.FindStringSubmatch(text); ago != nil {
		if n, err := strconv.ParseInt(ago[1], 10, 64); err == nil {
			return now.Add(-time.Duration(n) * agoUnits[ago[2]]), nil
		}
	}
	if at, err := time.ParseInLocation(dateLayout, text, now.Location()); err == nil {
		return at, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.In(now.Location()), nil
	}
	return time.Time{}, fmt.Errorf("%.40q is no time: write 2026-10-01, 2026-10-01T08:00:00+02:00, a time before now such as 30d or 24h, or now", text)
}

// ParseWindow returns the window that flags name. Empty ones mean this month so far. A window ends
// now at the latest.
func ParseWindow(from, to, month string, now time.Time) (Window, error) {
	now = now.Truncate(time.Second)
	window := Window{From: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location()), To: now}
	var err error
	if month != "" {
		if from != "" || to != "" {
			return window, errors.New("write --month, or --from and --to, but not both")
		}
		if window.From, err = time.ParseInLocation(monthLayout, month, now.Location()); err != nil {
			return window, fmt.Errorf("--month: %.40q is no month: write %s", month, now.Format(monthLayout))
		}
		window.To = window.From.AddDate(0, 1, 0)
	}
	if from != "" {
		if window.From, err = ParseTime(from, now); err != nil {
			return window, fmt.Errorf("--from: %w", err)
		}
	}
	if to != "" {
		if window.To, err = ParseTime(to, now); err != nil {
			return window, fmt.Errorf("--to: %w", err)
		}
	}
	return window, window.check(now)
}

// FormatMonth returns the month that is so many months before now, as ParseWindow reads it.
func FormatMonth(now time.Time, before int) string {
	return time.Date(now.Year(), now.Month()-time.Month(before), 1, 0, 0, 0, 0, now.Location()).Format(monthLayout)
}

func (w *Window) check(now time.Time) error {
	if !w.From.Before(now) {
		return fmt.Errorf("the time from %s on lies in the future", w.From.Format(time.RFC3339))
	}
	if w.To.After(now) {
		w.To = now
	}
	if !w.From.Before(w.To) {
		return fmt.Errorf("the time is empty: it begins at %s and ends at %s", w.From.Format(time.RFC3339), w.To.Format(time.RFC3339))
	}
	if w.To.Sub(w.From) > MaxDays*24*time.Hour {
		return fmt.Errorf("the time has more than %d days: ask for each year", MaxDays)
	}
	return nil
}
