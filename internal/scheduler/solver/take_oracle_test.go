package solver

import (
	"fmt"
	"math/bits"
	"slices"
)

// takeError returns why the limits do not allow victims, "" if they do. It tries every order of
// taking them, unless the order does not matter.
func takeError(p *Problem, victims []JobVictims) string {
	if len(p.TakeLimits) == 0 {
		return ""
	}
	var units [][]TakeAmount
	var spares []map[int]int64
	for _, v := range victims {
		job := &p.Jobs[v.Job]
		var whole []TakeAmount
		for i := range job.Pods {
			switch {
			case v.Whole:
				whole = append(whole, job.Pods[i].Takes...)
			case slices.Contains(v.Pods, i):
				units, spares = append(units, job.Pods[i].Takes), append(spares, nil)
			}
		}
		if v.Whole {
			units, spares = append(units, whole), append(spares, spareTakes(p, job))
		}
	}
	takesSomething := func(x TakeAmount) bool { return x.Amount != 0 }
	for i := len(units) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(units[i], takesSomething) {
			units, spares = slices.Delete(units, i, i+1), slices.Delete(spares, i, i+1)
		}
	}
	if !slices.ContainsFunc(p.TakeLimits, func(limit TakeLimit) bool { return limit.Borrowed }) {
		return sumError(p, units)
	}
	if !canTakeInSomeOrder(p, units, spares, make([]int64, len(p.TakeLimits)), 0, map[uint64]bool{}) {
		return fmt.Sprintf("no order of taking %v satisfies %v", units, p.TakeLimits)
	}
	return ""
}

// spareTakes returns by limit what the pods count that a job can spare: of all largest sets of
// them, the one that counts least. One pod of the job is always left to take.
func spareTakes(p *Problem, job *Job) map[int]int64 {
	spares, largest := map[int]int64{}, 0
	for set := range 1 << len(job.Pods) {
		size := bits.OnesCount(uint(set))
		if size > min(job.Elastic, len(job.Pods)-1) || size < largest {
			continue
		}
		counts, allowed := countSpares(p, job, set)
		if !allowed {
			continue
		}
		for limit := range p.TakeLimits {
			if known, ok := spares[limit]; !ok || size > largest || counts[limit] < known {
				spares[limit] = counts[limit]
			}
		}
		largest = size
	}
	return spares
}

// countSpares returns by limit what a set of a job's pods counts. allowed is whether the roles of
// the job can spare them.
func countSpares(p *Problem, job *Job, set int) (counts map[int]int64, allowed bool) {
	roles := slices.Clone(job.RoleElastic)
	counts = make(map[int]int64, len(p.TakeLimits))
	for i := range job.Pods {
		pod := &job.Pods[i]
		if set&(1<<i) == 0 {
			continue
		}
		if pod.Protected || roles != nil && (pod.Role < 0 || pod.Role >= len(roles) || roles[pod.Role] <= 0) {
			return nil, false
		}
		if roles != nil {
			roles[pod.Role]--
		}
		for _, x := range pod.Takes {
			counts[x.Limit] += x.Amount
		}
	}
	return counts, true
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

// canTakeBorrowed reports whether a unit may be taken of what is borrowed: less than most is taken
// before its last step. If the pods that its job can spare are all that counts, no more than most
// is taken after them.
func canTakeBorrowed(before, after, spare, most int64) bool {
	if before+spare == after {
		return after <= most
	}
	return before+spare < most
}

// canTakeInSomeOrder takes the units that are not in a set yet, one after the other.
func canTakeInSomeOrder(p *Problem, units [][]TakeAmount, spares []map[int]int64, taken []int64, set uint64, tried map[uint64]bool) bool {
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
			if x.Amount > 0 && (!limit.Borrowed && after[x.Limit] > limit.Most || limit.Borrowed && !canTakeBorrowed(taken[x.Limit], after[x.Limit], spares[i][x.Limit], limit.Most)) {
				allowed = false
			}
		}
		if allowed && canTakeInSomeOrder(p, units, spares, after, set|1<<i, tried) {
			return true
		}
	}
	return false
}
