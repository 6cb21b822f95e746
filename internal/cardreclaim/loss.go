package cardreclaim

import (
	"cmp"
	"math"
	"time"
)

// Loss is what a plan costs. Jobs that are broken count first; pods above the
// minimum of their job go before any job is broken, and among themselves by what
// is lost with them.
type Loss struct {
	// Broken is what is lost with jobs that are taken whole, in card-seconds.
	Broken int64
	// Spared is what is lost with single pods of jobs that go on, in card-seconds.
	Spared int64
	// Jobs is how many jobs are taken whole. It decides where Broken is the same,
	// before Spared: a job that has just started loses nothing yet, and still pods
	// above a minimum go before it.
	Jobs int
}

// Less tells whether l costs less than other.
func (l Loss) Less(other Loss) bool { return l.cost().compare(other.cost()) < 0 }

// Total is all that is lost, in card-seconds.
func (l Loss) Total() int64 { return sum(l.Broken, l.Spared) }

func (l Loss) cost() cost { return cost{l.Broken, int64(l.Jobs), l.Spared} }

// cost is a Loss in the order in which its parts count.
type cost struct{ broken, jobs, spared int64 }

func (c cost) compare(other cost) int {
	switch {
	case c.broken != other.broken:
		return cmp.Compare(c.broken, other.broken)
	case c.jobs != other.jobs:
		return cmp.Compare(c.jobs, other.jobs)
	}
	return cmp.Compare(c.spared, other.spared)
}

func (c cost) plus(other cost) cost {
	return cost{c.broken + other.broken, c.jobs + other.jobs, c.spared + other.spared}
}

func (c cost) minus(other cost) cost {
	return cost{c.broken - other.broken, c.jobs - other.jobs, c.spared - other.spared}
}

// share is what a cost is for one unit of what it gives.
type share struct{ broken, jobs, spared float64 }

func (c cost) over(gain float64) share {
	return share{float64(c.broken) / gain, float64(c.jobs) / gain, float64(c.spared) / gain}
}

func (s share) compare(other share) int {
	switch {
	case s.broken != other.broken:
		return cmp.Compare(s.broken, other.broken)
	case s.jobs != other.jobs:
		return cmp.Compare(s.jobs, other.jobs)
	}
	return cmp.Compare(s.spared, other.spared)
}

// cheaper compares two costs by what each of them gives: -1 when the first costs
// less for one unit of it, 1 when the second does.
func cheaper(a cost, gainA float64, b cost, gainB float64) int {
	return a.over(gainA).compare(b.over(gainB))
}

func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// PodLoss is what is lost with a pod, in card-seconds: its cards times the whole
// seconds since it started, or since its job last saved its work. A checkpoint
// before the start or in the future is taken for the start or for now; a pod that
// has not started loses nothing.
func PodLoss(cards int64, started, checkpoint, now time.Time) int64 {
	if started.IsZero() || cards <= 0 {
		return 0
	}
	since := started
	if checkpoint.After(since) {
		since = checkpoint
	}
	seconds := int64(now.Sub(since) / time.Second)
	if seconds <= 0 {
		return 0
	}
	if cards > math.MaxInt64/seconds {
		return math.MaxInt64
	}
	return cards * seconds
}
