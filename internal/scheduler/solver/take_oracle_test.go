package solver

import (
	"fmt"
	"slices"
)

// takeError returns why the limits do not allow victims, "" if they do. It tries every order of
// taking them, unless the order does not matter.
func takeError(p *Problem, victims []JobVictims) string {
	if len(p.TakeLimits) == 0 {
		return ""
	}
	var units [][]TakeAmount
	for _, v := range victims {
		job := &p.Jobs[v.Job]
		var whole []TakeAmount
		for i := range job.Pods {
			switch {
			case v.Whole:
				whole = append(whole, job.Pods[i].Takes...)
			case slices.Contains(v.Pods, i):
				units = append(units, job.Pods[i].Takes)
			}
		}
		units = append(units, whole)
	}
	takesNothing := func(x TakeAmount) bool { return x.Amount == 0 }
	units = slices.DeleteFunc(units, func(unit []TakeAmount) bool {
		return !slices.ContainsFunc(unit, func(x TakeAmount) bool { return !takesNothing(x) })
	})
	if !slices.ContainsFunc(p.TakeLimits, func(limit TakeLimit) bool { return limit.Borrowed }) {
		return sumError(p, units)
	}
	if !canTakeInSomeOrder(p, units, make([]int64, len(p.TakeLimits)), 0, map[uint64]bool{}) {
		return fmt.Sprintf("no order of taking %v satisfies %v", units, p.TakeLimits)
	}
	return ""
}

// sumError returns which limit is exceeded in any order.
func sumError(p *Problem, units [][]TakeAmount) string {
	taken := make([]int64, len(p.TakeLimits))
	for _, unit := range units {
		for _, x := range unit {
			if taken[x.Limit] += x.Amount; x.Amount > 0 && taken[x.Limit] > p.TakeLimits[x.Limit].Most {
				return fmt.Sprintf("%d are taken by limit %+v", taken[x.Limit], p.TakeLimits[x.Limit])
			}
		}
	}
	return ""
}

// canTakeInSomeOrder takes the units that are not in a set yet, one after the other.
func canTakeInSomeOrder(p *Problem, units [][]TakeAmount, taken []int64, set uint64, tried map[uint64]bool) bool {
	if set == 1<<len(units)-1 {
		return true
	}
	if tried[set] {
		return false
	}
	tried[set] = true
	for i, unit := range units {
		if set&(1<<i) != 0 {
			continue
		}
		after, allowed := slices.Clone(taken), true
		for _, x := range unit {
			after[x.Limit] += x.Amount
		}
		for _, x := range unit {
			limit := p.TakeLimits[x.Limit]
			if x.Amount > 0 && (!limit.Borrowed && after[x.Limit] > limit.Most || limit.Borrowed && taken[x.Limit] >= limit.Most) {
				allowed = false
			}
		}
		if allowed && canTakeInSomeOrder(p, units, after, set|1<<i, tried) {
			return true
		}
	}
	return false
}
