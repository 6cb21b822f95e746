package solver

// This file has what all nodes share: quotas with what victims release of them, and limits with what victims count
// against them.

import (
	"math"
	"slices"
)

// span is a range of indexes, without end.
type span struct{ from, end int }

// quotaLevels are the quotas of a problem. The levels of a quota are the queue of the pending pods and the queues above
// it: a pod needs cards in all of them.
type quotaLevels struct {
	levels    []int64 // by quota and level: what is left once Uses are subtracted
	levelsOf  []span  // by quota, in levels
	ofCards   []bool  // by quota: whether the pod sets could use cards of it
	required  []int   // quotas that the pod sets use wherever they run
	maxShared int64   // bounds an amount of one pod so that no sum can overflow
}

// maxLevel bounds what is left of a quota, and the sum of all that pods release or count
// against a limit.
const maxLevel = 1 << 60

// addQuotas lays out what is left of the quotas, within maxLevel.
func (q *quotaLevels) addQuotas(p *Problem) {
	for i := range p.Quotas {
		from := len(q.levels)
		for _, left := range p.Quotas[i].Levels {
			q.levels = append(q.levels, min(max(left, -maxLevel), maxLevel))
		}
		q.levelsOf = append(q.levelsOf, span{from, len(q.levels)})
	}
	q.ofCards = make([]bool, len(q.levelsOf))
}

// multiplySaturating returns a * b, or the largest number where that would overflow. Neither is below 0.
func multiplySaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// release is what a unit (one elastic pod, or a whole job) gives back to a quota, at a level and all levels above it.
type release struct {
	quota, level int
	amount       int64
}

// helpfulRelease returns what a pod releases of a quota from a level on, false if the pod sets do not use the quota, or
// it has no such level.
func (q *quotaLevels) helpfulRelease(x QuotaAmount, level int) (release, bool) {
	levels := q.levelsOf[x.Quota]
	isNeeded := q.ofCards[x.Quota] || slices.Contains(q.required, x.Quota)
	return release{quota: x.Quota, level: level, amount: min(x.Amount, q.maxShared)}, isNeeded && level < levels.end-levels.from
}

// growTo lengthens a list to at least n entries.
func growTo[T any](list []T, n int) []T { return append(list, make([]T, max(0, n-len(list)))...) }

// take is how much a unit counts against a limit.
type take struct {
	limit  int
	amount int64
	// last is the part of amount that the last step takes. A pod is taken in one step. Of a whole job the pods that
	// it can spare are taken before, one by one.
	last int64
	// onlyCounts is set if the limit does not refuse the unit, see Pod.OnlyCounts.
	onlyCounts bool
}

// takeLimit is a TakeLimit with the units that count against it.
type takeLimit struct {
	most     int64
	borrowed bool // see TakeLimit.Borrowed: what the last step takes may exceed most
	units    []int
	largest  int64 // the most that the last step can take: the largest last part of one unit
	// isTight reports whether the jobs have more than most. Otherwise the limit allows any
	// choice.
	isTight bool
}

// addTake adds a take to a list that has each limit once. A limit may refuse the sum if it may refuse a part of it.
func addTake(takes []take, x take) []take {
	if i := slices.IndexFunc(takes, func(y take) bool { return y.limit == x.limit }); i >= 0 {
		takes[i].amount = takes[i].amount + x.amount
		takes[i].last = takes[i].last + x.last
		takes[i].onlyCounts = takes[i].onlyCounts && x.onlyCounts
		return takes
	}
	return append(takes, x)
}

// elasticTake is what a pod that may be evicted alone counts against limits, and its role.
type elasticTake struct {
	role  int
	takes []take
}

// amountOf returns what the pod counts against a limit.
func (e *elasticTake) amountOf(limit int) int64 {
	if i := slices.IndexFunc(e.takes, func(x take) bool { return x.limit == limit }); i >= 0 {
		return e.takes[i].amount
	}
	return 0
}

// addRelease adds a release to a list that has each quota once. All of its releases are of one job, so they begin at the
// same level.
func addRelease(releases []release, x release) []release {
	if i := slices.IndexFunc(releases, func(y release) bool { return y.quota == x.quota }); i >= 0 {
		releases[i].amount += x.amount
		return releases
	}
	return append(releases, x)
}
