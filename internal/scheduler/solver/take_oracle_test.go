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

	var units []takenUnit
	for _, v := range victims {
		job := &p.Jobs[v.Job]
		whole := takenUnit{refused: map[int]bool{}}
		for i := range job.Pods {
			switch {
			case v.Whole:
				whole.add(p, &job.Pods[i])
			case slices.Contains(v.Pods, i):
				pod := takenUnit{refused: map[int]bool{}}
				pod.add(p, &job.Pods[i])
				units = append(units, pod)
			}
		}

		if v.Whole {
			whole.elastic = elasticTakes(p, job)
			units = append(units, whole)
		}
	}

	takesNothing := func(unit takenUnit) bool {
		return !slices.ContainsFunc(unit.takes, func(x TakeAmount) bool { return x.Amount != 0 })
	}

	units = slices.DeleteFunc(units, takesNothing)
	if !slices.ContainsFunc(p.TakeLimits, func(limit TakeLimit) bool { return limit.Borrowed }) {
		return sumError(p, units)
	}
	if !canTakeInSomeOrder(p, units, make([]int64, len(p.TakeLimits)), 0, map[uint64]bool{}) {
		return fmt.Sprintf("no order of taking %v satisfies %v", units, p.TakeLimits)
	}

	return ""
}

// takenUnit is a pod that is taken alone, or a whole job.
type takenUnit struct {
	takes []TakeAmount
	// elastic is by limit what the elastic pods of the job count.
	elastic map[int]int64
	// refused are the limits that may refuse the unit. Others only count it.
	refused map[int]bool
}

func (u *takenUnit) add(p *Problem, fromPod *Pod) {
	u.takes = append(u.takes, fromPod.Takes...)
	for _, x := range fromPod.Takes {
		isRefused := !fromPod.OnlyCounts || !p.TakeLimits[x.Limit].Borrowed
		u.refused[x.Limit] = u.refused[x.Limit] || (isRefused && x.Amount > 0)
	}
}

// elasticTakes returns by limit what the elastic pods of a job count: of all largest sets of
// them, the one that counts least. One pod of the job is always left to take.
func elasticTakes(p *Problem, job *Job) map[int]int64 {
	least := map[int]int64{}
	largest := 0
	for set := range 1 << len(job.Pods) {
		size := bits.OnesCount(uint(set))
		if size > min(job.Elastic, len(job.Pods)-1) || size < largest {
			continue
		}

		counts, allowed := countElastic(p, job, set)
		if !allowed {
			continue
		}

		for limit := range p.TakeLimits {
			if known, ok := least[limit]; !ok || size > largest || counts[limit] < known {
				least[limit] = counts[limit]
			}
		}

		largest = size
	}

	return least
}

// countElastic returns by limit what a set of a job's pods counts. allowed is whether the roles of
// the job have as many elastic pods.
func countElastic(p *Problem, job *Job, set int) (counts map[int]int64, allowed bool) {
	roles := slices.Clone(job.RoleElastic)
	counts = make(map[int]int64, len(p.TakeLimits))
	for i := range job.Pods {
		pod := &job.Pods[i]
		if set&(1<<i) == 0 {
			continue
		}

		hasNoRole := roles != nil && (pod.Role < 0 || pod.Role >= len(roles) || roles[pod.Role] <= 0)
		if pod.Protected || hasNoRole {
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
func sumError(p *Problem, units []takenUnit) string {
	taken := make([]int64, len(p.TakeLimits))
	for _, unit := range units {
		for _, x := range unit.takes {
			taken[x.Limit] += x.Amount
			if x.Amount > 0 && taken[x.Limit] > p.TakeLimits[x.Limit].Most {
				return fmt.Sprintf("%d are taken by limit %+v", taken[x.Limit], p.TakeLimits[x.Limit])
			}
		}
	}
	return ""
}

// canTakeBorrowed reports whether a unit may be taken of what is borrowed: less than most is taken
// before its last step. If the elastic pods of its job are all that counts, no more than most
// is taken after them.
func canTakeBorrowed(before, after, elastic, most int64) bool {
	if before+elastic == after {
		return after <= most
	}
	return before+elastic < most
}

// canTakeInSomeOrder takes the units that are not in a set yet, one after the other.
func canTakeInSomeOrder(p *Problem, units []takenUnit, taken []int64, set uint64, tried map[uint64]bool) bool {
	if set == 1<<len(units)-1 {
		return true
	}
	if tried[set] {
		return false
	}

	tried[set] = true
	for i, unit := range units {
		if set&(1<<i) != 0 || comesTooLate(p, units, i, set) {
			continue
		}
		after := slices.Clone(taken)
		for _, x := range unit.takes {
			after[x.Limit] += x.Amount
		}

		if canTakeUnit(p, unit, taken, after) && canTakeInSomeOrder(p, units, after, set|1<<i, tried) {
			return true
		}
	}

	return false
}

// canTakeUnit reports whether no limit refuses a unit.
func canTakeUnit(p *Problem, unit takenUnit, taken, after []int64) bool {
	for _, x := range unit.takes {
		if x.Amount <= 0 || !unit.refused[x.Limit] {
			continue
		}

		limit := p.TakeLimits[x.Limit]
		switch {
		case limit.Borrowed && !canTakeBorrowed(taken[x.Limit], after[x.Limit], unit.elastic[x.Limit], limit.Most):
			return false
		case !limit.Borrowed && after[x.Limit] > limit.Most:
			return false
		}
	}
	return true
}

// comesTooLate reports whether a limit that is exceeded only counts a unit, and a unit of a set that it
// may refuse is taken already.
func comesTooLate(p *Problem, units []takenUnit, i int, set uint64) bool {
	for _, x := range units[i].takes {
		total := int64(0)
		refused := false
		for k, other := range units {
			for _, y := range other.takes {
				if y.Limit == x.Limit {
					total += y.Amount
				}
			}
			refused = refused || (set&(1<<k) != 0 && other.refused[x.Limit])
		}

		if x.Amount > 0 && !units[i].refused[x.Limit] && refused && total > p.TakeLimits[x.Limit].Most {
			return true
		}
	}
	return false
}
