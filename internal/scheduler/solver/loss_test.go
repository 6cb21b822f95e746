package solver

import (
	"cmp"
	"fmt"
	"math"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPodLossIsItsCardSecondsSinceItsCheckpoint: an eviction destroys the work that a pod has done since its
// start, or since its job's last checkpoint if that is later: its cards times whole seconds. A start or checkpoint
// in the future loses nothing.
func TestPodLossIsItsCardSecondsSinceItsCheckpoint(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	none := time.Time{}

	for t, tc := range check.Cases(t, map[string]struct {
		cards               int64
		started, checkpoint time.Time
		want                int64
	}{
		"8 cards for an hour":                                  {8, ago(time.Hour), none, 8 * 3600},
		"1.999 seconds count as 1":                             {1, ago(1999 * time.Millisecond), none, 1},
		"a checkpoint a minute ago":                            {8, ago(time.Hour), ago(time.Minute), 8 * 60},
		"a checkpoint before the start":                        {8, ago(time.Hour), ago(2 * time.Hour), 8 * 3600},
		"a checkpoint now":                                     {8, ago(time.Hour), now, 0},
		"a checkpoint in the future":                           {8, ago(time.Hour), now.Add(time.Hour), 0},
		"the pod has not started":                              {8, none, none, 0},
		"the pod has not started, its job has a checkpoint":    {8, none, ago(time.Hour), 0},
		"a start in the future":                                {8, now.Add(time.Hour), none, 0},
		"no cards":                                             {0, ago(time.Hour), none, 0},
		"a negative number of cards":                           {-1, ago(time.Hour), none, 0},
		"the product overflows: the largest int64":             {math.MaxInt64 / 2, ago(time.Hour), none, math.MaxInt64},
		"longer ago than a time.Duration can say: its largest": {1, time.Unix(0, 0).AddDate(-900, 0, 0), none, math.MaxInt64 / int64(time.Second)},
	}) {
		check.Equal(t, "loss", tc.want, PodLoss(tc.cards, tc.started, tc.checkpoint, now))
	}
}

// TestLossesAreOrderedByJobsAsAWhole: of two plans the one with the smaller loss is better. What jobs lose that are evicted
// as a whole decides first, then how many they are, then what elastic pods lose. The list is in ascending order.
func TestLossesAreOrderedByJobsAsAWhole(t *testing.T) {
	ascending := []Loss{
		{},
		{PodSeconds: 1},
		{PodSeconds: math.MaxInt64},
		{Jobs: 1},
		{Jobs: 2, PodSeconds: 1},
		{JobSeconds: 1, Jobs: 1},
		{JobSeconds: 1, Jobs: 1, PodSeconds: 1},
		{JobSeconds: 2, Jobs: 1},
	}

	for i, a := range ascending {
		for k, b := range ascending {
			check.Equal(t, fmt.Sprintf("order of %+v and %+v", a, b), cmp.Compare(i, k), a.compare(b))
		}
	}
}
