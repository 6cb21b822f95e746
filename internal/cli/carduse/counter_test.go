package carduse

import (
	"testing"
	"time"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// TestASumThatIsMissing: it is dropped if it did not grow for seven days. If it grew lately, its ConfigMap
// was deleted, and what comes back counts only as far as it is more.
func TestASumThatIsMissing(t *testing.T) {
	own, other := cardseconds.Series{Queue: "q"}, cardseconds.Series{Queue: "other"}
	for name, tc := range map[string]struct {
		idle, missing int
		back, want    int64
	}{
		"it fell":                    {1, 1, 40, 50 + 40},
		"it grew lately":             {1, 1, 400, 400 - 100},
		"it was idle for long":       {7 * 24, 1, 400, 50 + 400},
		"it was not seen to be idle": {0, 0, 400, 400 - 100},
	} {
		var c counter
		c.begin(Values{own: 100, other: 1})
		at := start
		add := func(values Values) {
			at = at.Add(step)
			c.add(at, values)
		}
		add(Values{own: 150, other: 1})
		for range tc.idle {
			add(Values{own: 150, other: 1})
		}
		for range tc.missing {
			add(Values{other: 1})
			add(nil)
		}
		add(Values{own: tc.back, other: 1})
		check.Equal(t, name, tc.want, c.used[own])
		check.Equal(t, name+": the other one", int64(0), c.used[other])
	}
	var c counter
	c.begin(Values{own: 100})
	for i, value := range []int64{150, 140, 160, 70, 90} { // an older ConfigMap is restored, then all are deleted
		c.add(start.Add(time.Duration(i)*time.Hour), Values{own: value})
	}
	check.Equal(t, "a sum that fell by less than half, then by more", int64(50+0+20+70+20), c.used[own])
	for name, tc := range map[string]struct {
		values []int64
		want   int64
	}{
		"an older ConfigMap is restored later":   {[]int64{150, 10, 30, 140, 150}, 50 + 10 + 20 + 0 + 10},
		"a newer one than Prometheus saw":        {[]int64{150, 10, 30, 170, 180}, 50 + 10 + 20 + 20 + 10},
		"twice":                                  {[]int64{150, 10, 5, 140, 20, 145}, 50 + 10 + 5 + 0 + 20 + 5},
		"a sum that grows back":                  {[]int64{150, 10, 30, 50, 70, 90, 140, 160, 320}, 50 + 320},
		"a sum that grew back, and doubles then": {[]int64{150, 40, 80, 160, 400}, 50 + 400},
	} {
		c.begin(Values{own: 100})
		for i, value := range tc.values {
			c.add(start.Add(time.Duration(i)*time.Hour), Values{own: value})
		}
		check.Equal(t, name, tc.want, c.used[own])
	}
	c.begin(Values{own: 100})
	c.add(start, Values{other: 7}) // it never grew in the window: it may have been idle before
	c.add(start.Add(time.Hour), Values{own: 300, other: 7})
	check.Equal(t, "a sum that was idle before the window", Values{own: 300, other: 7}, c.used)
}
