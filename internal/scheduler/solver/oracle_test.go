package solver

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// oracle answers a problem in the plainest way: every choice of every job, every
// place of every waiting pod. It leaves out only what loses as much as the best,
// and what would not do even with all that is left to take.
type oracle struct {
	*Problem
	known map[string]bool // by what is available: whether all can be placed
	// allows tells whether a job may be taken so, nil when all may.
	allows func(job int, victims JobVictims) bool
	// counts tells whether what is lost in a rank counts, nil when all does.
	counts func(rank int) bool
	best   Loss
	found  bool
}

// exhaust is the least loss there is, false when not all can be placed.
func exhaust(p *Problem) (Loss, bool) {
	return (&oracle{Problem: p, known: map[string]bool{}}).exhaust()
}

func (o *oracle) exhaust() (Loss, bool) {
	p := o.Problem
	most := roomOf(p)
	for j := range p.Jobs {
		for i := range p.Jobs[j].Pods {
			give(most, &p.Jobs[j].Pods[i], 1)
		}
	}
	o.job(0, most, Loss{})
	return o.best, o.found
}

// roomOf is what every node has before anybody goes.
func roomOf(p *Problem) []Amounts {
	avail := make([]Amounts, len(p.Nodes))
	for i, node := range p.Nodes {
		avail[i] = slices.Clone(node.Free)
	}
	return avail
}

// compareLoss is the order of losses, written down once more.
func compareLoss(a, b Loss) int {
	return cmp.Or(cmp.Compare(a.JobSeconds, b.JobSeconds), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(a.PodSeconds, b.PodSeconds))
}

// job tries a job and those after it; most is what is there when all of them go.
func (o *oracle) job(j int, most []Amounts, loss Loss) {
	if o.found && compareLoss(loss, o.best) >= 0 || !o.placeable(most) {
		return
	}
	if j == len(o.Jobs) {
		o.best, o.found = loss, true
		return
	}
	job := &o.Jobs[j]
	for i := range job.Pods {
		give(most, &job.Pods[i], -1)
	}
	for _, victims := range possibleVictims(job) {
		if o.allows != nil && !o.allows(j, victims) {
			continue
		}
		for _, i := range victims.Pods {
			give(most, &job.Pods[i], 1)
		}
		o.job(j+1, most, o.with(loss, job, victims))
		for _, i := range victims.Pods {
			give(most, &job.Pods[i], -1)
		}
	}
	for i := range job.Pods {
		give(most, &job.Pods[i], 1)
	}
}

// with adds to a loss what is lost with a taking, which lists all its pods.
func (o *oracle) with(loss Loss, job *Job, victims JobVictims) Loss {
	counts := func(rank int) bool { return o.counts == nil || o.counts(rank) }
	if victims.Whole && counts(wholeRank(job)) {
		loss.Jobs++
	}
	for _, i := range victims.Pods {
		switch pod := &job.Pods[i]; {
		case victims.Whole && counts(wholeRank(job)):
			loss.JobSeconds += pod.Loss
		case !victims.Whole && counts(pod.Rank):
			loss.PodSeconds += pod.Loss
		}
	}
	return loss
}

// wholeRank is the rank of a job that is taken as a whole.
func wholeRank(job *Job) int {
	rank := job.Rank
	for i := range job.Pods {
		rank = max(rank, job.Pods[i].Rank)
	}
	return rank
}

// possibleVictims is all that may be taken of a job, nothing first; a whole one lists all
// its pods.
func possibleVictims(job *Job) []JobVictims {
	var all []JobVictims
	var every []int
	for i := range job.Pods {
		every = append(every, i)
	}
	for set := range 1 << len(job.Pods) {
		var pods []int
		for _, i := range every {
			if set&(1<<i) != 0 {
				pods = append(pods, i)
			}
		}
		if spares(job, pods) == "" {
			all = append(all, JobVictims{Pods: pods})
		}
	}
	if job.Whole {
		all = append(all, JobVictims{Whole: true, Pods: every})
	}
	return all
}

// spares says why a job cannot spare pods, "" when it can.
func spares(job *Job, pods []int) string {
	roles := map[int]int{}
	for _, i := range pods {
		roles[job.Pods[i].Role]++
		if job.Pods[i].Protected {
			return fmt.Sprintf("pod %d is protected", i)
		}
	}
	if len(pods) > job.Elastic {
		return fmt.Sprintf("%d pods are more than %d", len(pods), job.Elastic)
	}
	for role, n := range roles {
		if job.RoleElastic != nil && n > job.RoleElastic[role] {
			return fmt.Sprintf("%d pods of role %d are more than %d", n, role, job.RoleElastic[role])
		}
	}
	return ""
}

func give(avail []Amounts, pod *Pod, sign float64) {
	for r, amount := range pod.Usage {
		avail[pod.Node][r] += sign * amount
	}
}

// placeable counts the room of a single claim, and tries every place for several.
func (o *oracle) placeable(avail []Amounts) bool {
	key := fmt.Sprint(avail)
	if known, ok := o.known[key]; ok {
		return known
	}
	if len(o.PodSets) == 0 {
		o.known[key] = true
	} else {
		o.known[key] = o.place(len(o.PodSets)-1, 0, 0, avail, slices.Clone(o.Quotas))
	}
	return o.known[key]
}

// place seats the pods of a claim on its nodes from one on, and then the claims
// before it: pods of a claim are alike, so that their order says nothing. For the
// first claim it is enough to count.
func (o *oracle) place(podSet, placed, from int, avail []Amounts, quotas []int64) bool {
	c := &o.PodSets[podSet]
	switch {
	case podSet == 0:
		return o.room(c, avail, quotas) >= c.Count
	case placed == c.Count:
		return o.place(podSet-1, 0, 0, avail, quotas)
	}
	for i, node := range c.Nodes[from:] {
		quota := o.Nodes[node].Quota
		if quotas[quota] < c.Cards || !hasRoom(avail[node], c.Request) {
			continue
		}
		quotas[quota] -= c.Cards
		give(avail, &Pod{Node: node, Usage: c.Request}, -1)
		ok := o.place(podSet, placed+1, from+i, avail, quotas)
		give(avail, &Pod{Node: node, Usage: c.Request}, 1)
		quotas[quota] += c.Cards
		if ok {
			return true
		}
	}
	return false
}

// room is how many pods of a claim can be placed, up to its count.
func (o *oracle) room(c *PodSet, avail []Amounts, quotas []int64) int {
	byPool, n := make([]int, len(quotas)), 0
	for _, node := range c.Nodes {
		have := slices.Clone(avail[node])
		for byPool[o.Nodes[node].Quota] < c.Count && hasRoom(have, c.Request) {
			byPool[o.Nodes[node].Quota]++
			for r := range have {
				have[r] -= c.Request[r]
			}
		}
	}
	for quota, room := range byPool {
		if c.Cards > 0 {
			room = min(room, int(max(0, quotas[quota])/c.Cards))
		}
		n += room
	}
	return n
}

func hasRoom(avail, request Amounts) bool {
	for r, amount := range request {
		if amount > 0 && amount > avail[r]+0.1 {
			return false
		}
	}
	return true
}

// ratio is how many times the optimum a loss is, in what counts first.
func ratio(got, optimum Loss) float64 {
	of := func(a, b int64) float64 {
		switch {
		case a == b:
			return 1
		case b == 0:
			return math.Inf(1)
		}
		return float64(a) / float64(b)
	}
	if got.JobSeconds != optimum.JobSeconds {
		return of(got.JobSeconds, optimum.JobSeconds)
	}
	if got.Jobs != optimum.Jobs {
		return of(int64(got.Jobs), int64(optimum.Jobs))
	}
	return of(got.PodSeconds, optimum.PodSeconds)
}
