package capacitycard

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCooldownGrows: a queue that loses again what it has borrowed for a shorter time than it was stopped
// waits twice as long. More reclaims while it may not borrow change nothing, and neither do old ones.
func TestCooldownGrows(t *testing.T) {
	began := time.Unix(0, 0)
	minutes := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }

	type interval struct{ from, to int }
	always := interval{0, 1000}
	never := interval{}
	for t, tc := range check.Cases(t, map[string]struct {
		borrows        interval
		reclaims, ends []int
	}{
		"again at once":                       {always, []int{0, 5, 15, 35, 75, 135}, []int{5, 15, 35, 75, 135, 195}},
		"within as long as it stopped":        {always, []int{0, 9}, []int{5, 19}},
		"borrowed for longer":                 {always, []int{0, 10}, []int{5, 15}},
		"meanwhile":                           {always, []int{0, 4, 8}, []int{5, 9, 13}},
		"later, after it grew":                {always, []int{0, 5, 24, 63}, []int{5, 15, 44, 103}},
		"longer than a grown pause":           {always, []int{0, 5, 25}, []int{5, 15, 30}},
		"it could not borrow for a long time": {interval{20, 1000}, []int{0, 24}, []int{5, 34}},
		"borrowed long after the stop":        {interval{20, 1000}, []int{0, 25}, []int{5, 30}},
		"borrowed before and not again":       {interval{0, 7}, []int{0, 60}, []int{5, 70}},
		"an hour after the stop":              {never, []int{0, 65}, []int{5, 70}},
		"within an hour after the stop":       {never, []int{0, 64}, []int{5, 74}},
	}) {
		var stop borrowStop
		reclaimed := 0
		for minute := 0; reclaimed < len(tc.reclaims); minute++ {
			stop = stop.countBorrowing(tc.borrows.from < minute && minute <= tc.borrows.to, minutes(minute))
			if minute == tc.reclaims[reclaimed] {
				stop = stop.restartedAt(minutes(minute))
				check.Equal(t, fmt.Sprintf("end after reclaim %d", reclaimed), minutes(tc.ends[reclaimed]), stop.end())
				reclaimed++
			}
		}
	}
}
