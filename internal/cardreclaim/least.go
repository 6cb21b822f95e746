package cardreclaim

import "math"

// slack makes up for the rounding of sums.
const slack = 1e-9

// allow tells whether a plan could cost less than this, as far as the limits tell.
func (l *limits) allow(best cost) bool {
	for i := range l.rows {
		if !l.rows[i].allows(l, best, cost{}, 0, func(int) bool { return true }) {
			return false
		}
	}
	return true
}

// allows tells whether what has been spent, and the least that must still be
// added to have made up for what a row needs, can stay below the best cost. got
// is what has been made up for, open tells which units may still be taken.
func (r *row) allows(l *limits, best, spent cost, got float64, open func(i int) bool) bool {
	need, enough := r.need-got, slack*max(1, r.need)
	var broken, jobs, spared float64
	clear(l.taken)
	l.spend(len(r.order) + copied(len(l.taken)))
	for _, i := range r.order {
		if need <= enough {
			break
		}
		x := l.model.units[l.units[i]]
		if !open(i) {
			continue
		}
		if x.pod != whole {
			if l.taken[x.job]+l.spent[x.job].pods >= l.jobs[x.job].spare {
				continue
			}
			l.taken[x.job]++
		}
		part, price := min(1, need/r.worth[i]), l.price(l.units[i])
		broken += part * float64(price.broken)
		jobs += part * float64(price.jobs)
		spared += part * float64(price.spared)
		need -= r.worth[i]
	}
	if need > enough {
		return false // cannot be made up for
	}
	return lower(broken, best.broken-spent.broken, func() bool {
		return lower(jobs, best.jobs-spent.jobs, func() bool {
			return lower(spared, best.spared-spent.spared, func() bool { return false })
		})
	})
}

// lower tells whether something whole that is at least so much can be lower than
// a bound; same decides when it can only be equal. Where rounding up is what
// makes it equal, nothing is known of what comes after it.
func lower(least float64, bound int64, same func() bool) bool {
	margin := slack * max(1, math.Abs(least))
	switch up := math.Ceil(least - margin); {
	case up > float64(bound):
		return false
	case up < float64(bound):
		return true
	case least < up-margin:
		return true
	}
	return same()
}
