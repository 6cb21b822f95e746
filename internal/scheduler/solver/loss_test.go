package solver

import (
	"math"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

func TestPodLoss(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for t, tc := range check.Cases(t, map[string]struct {
		cards               int64
		started, checkpoint time.Time
		want                int64
	}{
		"its time on its cards":                 {8, ago(time.Hour), time.Time{}, 8 * 3600},
		"whole seconds":                         {1, ago(1999 * time.Millisecond), time.Time{}, 1},
		"only what came after the checkpoint":   {8, ago(time.Hour), ago(time.Minute), 8 * 60},
		"all when the checkpoint is older":      {8, ago(time.Hour), ago(2 * time.Hour), 8 * 3600},
		"nothing when the checkpoint is now":    {8, ago(time.Hour), now, 0},
		"nothing when the checkpoint is to be":  {8, ago(time.Hour), now.Add(time.Hour), 0},
		"nothing when it has not started":       {8, time.Time{}, time.Time{}, 0},
		"nothing when only its job had started": {8, time.Time{}, ago(time.Hour), 0},
		"nothing when it starts in the future":  {8, now.Add(time.Hour), time.Time{}, 0},
		"nothing without cards":                 {0, ago(time.Hour), time.Time{}, 0},
		"nothing with less than no cards":       {-1, ago(time.Hour), time.Time{}, 0},
		"no more than can be counted":           {math.MaxInt64 / 2, ago(time.Hour), time.Time{}, math.MaxInt64},
		"since longer than can be counted":      {1, time.Unix(0, 0).AddDate(-900, 0, 0), time.Time{}, math.MaxInt64 / int64(time.Second)},
	}) {
		check.Equal(t, "loss", tc.want, PodLoss(tc.cards, tc.started, tc.checkpoint, now))
	}
}

func TestLossCompare(t *testing.T) {
	order := []Loss{
		{},
		{PodSeconds: 1},
		{PodSeconds: math.MaxInt64},
		{Jobs: 1},
		{Jobs: 2, PodSeconds: 1},
		{JobSeconds: 1, Jobs: 1},
		{JobSeconds: 1, Jobs: 1, PodSeconds: 1},
		{JobSeconds: 2, Jobs: 1},
	}

	for i, a := range order {
		for k, b := range order {
			check.That(t, (a.compare(b) < 0) == (i < k), "%+v less than %+v: %t", a, b, a.compare(b) < 0)
		}
	}
}
