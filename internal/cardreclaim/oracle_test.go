package cardreclaim

import (
	"cmp"
	"fmt"
	"math"
)

// oracle answers a problem in the plainest way: every choice of every job, every
// place of every waiting pod.
type oracle struct {
	*Problem
	known map[string]bool // by what is available: whether all can be placed
	best  Loss
	found bool
}

// exhaust is the least loss there is, false when not all can be placed.
func exhaust(p *Problem) (Loss, bool) {
	o := &oracle{Problem: p, known: map[string]bool{}}
	avail := make([]Amounts, len(p.Nodes))
	for i, node := range p.Nodes {
		avail[i] = append(Amounts(nil), node.Room...)
	}
	o.job(0, avail, Loss{})
	return o.best, o.found
}

// compareLoss is the order of losses, written down once more.
func compareLoss(a, b Loss) int {
	return cmp.Or(cmp.Compare(a.Broken, b.Broken), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(a.Spared, b.Spared))
}

func (o *oracle) job(j int, avail []Amounts, loss Loss) {
	if o.found && compareLoss(loss, o.best) >= 0 {
		return
	}
	if j == len(o.Jobs) {
		if o.placeable(avail) {
			o.best, o.found = loss, true
		}
		return
	}
	for _, taking := range takings(&o.Jobs[j]) {
		more := loss
		for _, i := range taking.Pods {
			if taking.Whole {
				more.Broken += o.Jobs[j].Pods[i].Loss
			} else {
				more.Spared += o.Jobs[j].Pods[i].Loss
			}
			give(avail, &o.Jobs[j].Pods[i], 1)
		}
		if taking.Whole {
			more.Jobs++
		}
		o.job(j+1, avail, more)
		for _, i := range taking.Pods {
			give(avail, &o.Jobs[j].Pods[i], -1)
		}
	}
}

// takings is all that may be taken of a job, nothing first; a whole one lists all
// its pods.
func takings(job *Job) []Taking {
	var all []Taking
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
			all = append(all, Taking{Pods: pods})
		}
	}
	if job.Whole {
		all = append(all, Taking{Whole: true, Pods: every})
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
	if len(pods) > job.Spare {
		return fmt.Sprintf("%d pods are more than %d", len(pods), job.Spare)
	}
	for role, n := range roles {
		if job.RoleSpare != nil && n > job.RoleSpare[role] {
			return fmt.Sprintf("%d pods of role %d are more than %d", n, role, job.RoleSpare[role])
		}
	}
	return ""
}

func give(avail []Amounts, pod *Pod, sign float64) {
	for r, amount := range pod.Gives {
		avail[pod.Node][r] += sign * amount
	}
}

func (o *oracle) placeable(avail []Amounts) bool {
	key := fmt.Sprint(avail)
	if known, ok := o.known[key]; ok {
		return known
	}
	o.known[key] = o.place(0, 0, 0, avail, append([]int64(nil), o.Pools...))
	return o.known[key]
}

// place seats the pods of a claim on its nodes from one on: pods of a claim are alike,
// so that their order says nothing.
func (o *oracle) place(claim, placed, from int, avail []Amounts, pools []int64) bool {
	if claim == len(o.Claims) {
		return true
	}
	c := &o.Claims[claim]
	if placed == c.Count {
		return o.place(claim+1, 0, 0, avail, pools)
	}
	for i, node := range c.Nodes[from:] {
		pool := o.Nodes[node].Pool
		if pools[pool] < c.Cards || !hasRoom(avail[node], c.Request) {
			continue
		}
		pools[pool] -= c.Cards
		give(avail, &Pod{Node: node, Gives: c.Request}, -1)
		ok := o.place(claim, placed+1, from+i, avail, pools)
		give(avail, &Pod{Node: node, Gives: c.Request}, 1)
		pools[pool] += c.Cards
		if ok {
			return true
		}
	}
	return false
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
	if got.Broken != optimum.Broken {
		return of(got.Broken, optimum.Broken)
	}
	if got.Jobs != optimum.Jobs {
		return of(int64(got.Jobs), int64(optimum.Jobs))
	}
	return of(got.Spared, optimum.Spared)
}
