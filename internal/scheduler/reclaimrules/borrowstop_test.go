package reclaimrules

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCooldownGrows: after others reclaimed cards that a queue borrowed, the queue may not borrow such cards for a cooldown.
// Otherwise it would borrow and lose them again and again. The first cooldown lasts 5 minutes. A reclaim during a cooldown
// begins another one of the same length. A reclaim after a cooldown begins one of twice its length, up to an hour.
//
// In two cases a reclaim after a cooldown begins one of 5 minutes again: if the queue has borrowed since for at least as
// long as the cooldown lasted, or if the cooldown ended an hour ago or earlier.
//
// All numbers are minutes. reclaims are the minutes in which others reclaim. wantEnds are the ends of the cooldowns that
// begin then: after the first reclaim in minute 0 it is 0 + 5 = 5. A row name ends with the length of the last cooldown.
func TestCooldownGrows(t *testing.T) {
	began := time.Unix(0, 0)
	minutes := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }

	type interval struct{ from, to int }
	always := interval{0, 1000} // longer than all rows
	never := interval{}
	for t, tc := range check.Cases(t, map[string]struct {
		// borrows is when the queue would borrow cards. It does so only after a cooldown.
		borrows            interval
		reclaims, wantEnds []int
	}{
		"reclaimed as soon as each cooldown ends: it doubles up to 60 minutes": {
			always, []int{0, 5, 15, 35, 75, 135}, []int{5, 15, 35, 75, 135, 195}},
		"borrowed for 4 minutes after a cooldown of 5: 10 minutes":           {always, []int{0, 9}, []int{5, 19}},
		"borrowed for 5 minutes after a cooldown of 5: 5 minutes again":      {always, []int{0, 10}, []int{5, 15}},
		"reclaimed during the cooldown: 5 minutes from then":                 {always, []int{0, 4, 8}, []int{5, 9, 13}},
		"borrowed for 9 minutes after a cooldown of 10, and 19 after 20: 40": {always, []int{0, 5, 24, 63}, []int{5, 15, 44, 103}},
		"borrowed for 10 minutes after a cooldown of 10: 5 minutes again":    {always, []int{0, 5, 25}, []int{5, 15, 30}},
		"could not borrow until minute 20, then for 4 minutes: 10 minutes":   {interval{20, 1000}, []int{0, 24}, []int{5, 34}},
		"could not borrow until minute 20, then for 5 minutes: 5 again":      {interval{20, 1000}, []int{0, 25}, []int{5, 30}},
		"borrowed for 2 minutes only, reclaimed 55 after the cooldown: 10":   {interval{0, 7}, []int{0, 60}, []int{5, 70}},
		"borrowed no more, reclaimed 60 minutes after the cooldown: 5 again": {never, []int{0, 65}, []int{5, 70}},
		"borrowed no more, reclaimed 59 minutes after the cooldown: 10":      {never, []int{0, 64}, []int{5, 74}},
	}) {
		var stop borrowStop
		reclaimed := 0
		for minute := 0; reclaimed < len(tc.reclaims); minute++ {
			stop = stop.countBorrowing(tc.borrows.from < minute && minute <= tc.borrows.to, minutes(minute))
			if minute == tc.reclaims[reclaimed] {
				stop = stop.restartedAt(minutes(minute))
				check.Equal(t, fmt.Sprintf("end of the cooldown after the reclaim in minute %d", minute), minutes(tc.wantEnds[reclaimed]), stop.end())
				reclaimed++
			}
		}
	}
}
