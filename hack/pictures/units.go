package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// formatValue writes a value in a unit of Grafana's: short is a number, s a time, bool_yes_no is yes
// unless it is zero.
func formatValue(value float64, unit string) string {
	switch unit {
	case "s":
		return formatSeconds(value)
	case "bool_yes_no":
		if value != 0 {
			return "Yes"
		}
		return "No"
	}
	return formatNumber(value)
}

// longTime is from how many seconds on a time is written in minutes.
const longTime = 90

func formatSeconds(value float64) string {
	switch {
	case value == 0:
		return "0 s"
	case math.Abs(value) < 1:
		return formatNumber(value*1000) + " ms"
	case math.Abs(value) < longTime && math.Mod(value, 60) != 0:
		return formatNumber(value) + " s"
	default:
		return formatNumber(value/60) + " min"
	}
}

// formatNumber writes three significant digits of a number, and K for thousands.
func formatNumber(value float64) string {
	if math.Abs(value) >= 1000 {
		return formatNumber(value/1000) + " K"
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// formatClock writes a time since the begin as minutes and seconds.
func formatClock(since time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(since.Minutes()), int(since.Seconds())%60)
}

// axis is the scale of values: from zero in even steps.
type axis struct {
	step  float64
	steps int
}

func (a axis) top() float64 { return a.step * float64(a.steps) }

// newAxis returns an axis of at most five steps that reaches a value in a unit. Steps are 1, 2 or 5
// times a power of ten, also of minutes. Where whole things are counted, a step is whole.
func newAxis(greatest float64, unit string) axis {
	if greatest <= 0 {
		return axis{1, 1}
	}
	if unit == "s" && greatest >= longTime {
		minutes := newAxis(greatest/60, "min")
		return axis{minutes.step * 60, minutes.steps}
	}

	whole := unit == "short"
	power := math.Pow(10, math.Floor(math.Log10(greatest))-1)
	for {
		for _, factor := range []float64{1, 2, 5} {
			step := factor * power
			if steps := int(math.Ceil(greatest/step - 1e-9)); steps <= 5 && (!whole || step >= 1) {
				return axis{step, steps}
			}
		}
		power *= 10
	}
}
