package solver

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// oracle solves a problem by brute force: every choice of every job, every place of every
// pending pod. It skips only choices with the loss of the best one, those that cannot suffice
// with all later victims, those of which the first victims exceed a limit already, and those that
// leave out a job that costs nothing where no limit forbids it.
type oracle struct {
	*Problem
	known   map[string]bool // by what is available: whether all can be placed
	choices [][]JobVictims  // by job
	// allows reports whether a job may have these victims, nil if it always may.
	allows func(job int, victims JobVictims) bool
	// counts reports whether the loss of a rank counts, nil if all do.
	counts func(rank int) bool
	best   Loss
	found  bool
	chosen []JobVictims // the victims that it tries
}

// leastLoss returns the least loss, false if some pods cannot be placed.
func leastLoss(p *Problem) (Loss, bool) {
	return (&oracle{Problem: p, known: map[string]bool{}}).tryAll()
}

func (o *oracle) tryAll() (Loss, bool) {
	p := o.Problem
	most := placeableOf(p)
	for j := range p.Jobs {
		for i := range p.Jobs[j].Pods {
			most.addPod(&p.Jobs[j], i, 1)
		}
	}

	for j := range p.Jobs {
		o.choices = append(o.choices, o.choicesOf(j))
	}

	o.tryJob(0, most, Loss{})
	return o.best, o.found
}

// choicesOf lists the victims of a job that the oracle tries.
func (o *oracle) choicesOf(j int) []JobVictims {
	job := &o.Jobs[j]
	choices := possibleVictims(job)
	if o.allows != nil {
		choices = slices.DeleteFunc(choices, func(victims JobVictims) bool { return !o.allows(j, victims) })
	}
	if n := len(choices); n > 0 && choices[n-1].Whole && len(o.TakeLimits) == 0 && o.addLoss(Loss{}, job, choices[n-1]) == (Loss{}) {
		return choices[n-1:] // nothing frees more
	}
	return choices
}

// placeable is what nodes and quotas have.
type placeable struct {
	nodes  []Amounts
	quotas [][]int64 // by quota and level
}

// placeableOf returns what is free before any eviction.
func placeableOf(p *Problem) *placeable {
	r := &placeable{nodes: make([]Amounts, len(p.Nodes))}
	for i, node := range p.Nodes {
		r.nodes[i] = slices.Clone(node.Free)
	}
	for _, quota := range p.Quotas {
		r.quotas = append(r.quotas, slices.Clone(quota.Levels))
	}
	return r
}

// key returns a text that differs from that of every other state of the same problem.
func (r *placeable) key() string {
	var key []byte
	for _, amounts := range r.nodes {
		for _, amount := range amounts {
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(amount))
		}
	}

	for _, levels := range r.quotas {
		for _, left := range levels {
			key = binary.LittleEndian.AppendUint64(key, uint64(left))
		}
	}

	return string(key)
}

// addPod adds what the eviction of a pod gives back, or subtracts it if sign is -1.
func (r *placeable) addPod(job *Job, i, sign int) {
	addUsage(r.nodes, &job.Pods[i], float64(sign))
	for _, x := range job.Pods[i].Releases {
		for level := range r.quotas[x.Quota] {
			if level >= job.Level {
				r.quotas[x.Quota][level] += int64(sign) * x.Amount
			}
		}
	}
}

// forCards returns what is left for cards in every quota, false if the pods use more of some
// quota wherever they run.
func (r *placeable) forCards(p *Problem) ([]int64, bool) {
	left := make([]int64, len(p.Quotas))
	uses := make([]int64, len(p.Quotas))
	for i := range p.PodSets {
		for _, x := range p.PodSets[i].Uses {
			uses[x.Quota] += x.Amount * int64(p.PodSets[i].Count)
		}
	}

	for i := range left {
		left[i] = slices.Min(r.quotas[i]) - uses[i]
		if uses[i] > 0 && left[i] < 0 {
			return nil, false
		}
	}

	return left, true
}

// compareLoss is the order of losses, written independently of the product.
func compareLoss(a, b Loss) int {
	return cmp.Or(cmp.Compare(a.JobSeconds, b.JobSeconds), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(a.PodSeconds, b.PodSeconds))
}

// tryJob tries a job and those after it. most is what is free if all of them are evicted.
func (o *oracle) tryJob(j int, most *placeable, loss Loss) {
	if (o.found && compareLoss(loss, o.best) >= 0) || !o.canPlace(most) {
		return
	}

	if j == len(o.Jobs) {
		o.best = loss
		o.found = true
		return
	}

	job := &o.Jobs[j]
	for i := range job.Pods {
		most.addPod(job, i, -1)
	}

	for _, victims := range o.choices[j] {
		if len(victims.Pods) == 0 {
			o.tryJob(j+1, most, loss)
			continue
		}
		o.chosen = append(o.chosen, JobVictims{Job: j, Whole: victims.Whole, Pods: victims.Pods})

		for _, i := range victims.Pods {
			most.addPod(job, i, 1)
		}
		if takeError(o.Problem, o.chosen) == "" {
			o.tryJob(j+1, most, o.addLoss(loss, job, victims))
		}

		o.chosen = o.chosen[:len(o.chosen)-1]
		for _, i := range victims.Pods {
			most.addPod(job, i, -1)
		}
	}

	for i := range job.Pods {
		most.addPod(job, i, 1)
	}
}

// addLoss adds the loss of victims, which lists all their pods.
func (o *oracle) addLoss(loss Loss, job *Job, victims JobVictims) Loss {
	counts := func(rank int) bool { return o.counts == nil || o.counts(rank) }
	if victims.Whole && counts(wholeRank(job)) {
		loss.Jobs++
		loss.JobSeconds += job.WholeLoss
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

// wholeRank returns the rank of a job that is evicted as a whole.
func wholeRank(job *Job) int {
	rank := job.Rank
	for i := range job.Pods {
		rank = max(rank, job.Pods[i].Rank)
	}
	return rank
}

// possibleVictims lists all sets of victims of a job, the empty one first. A whole job lists
// all its pods.
func possibleVictims(job *Job) []JobVictims {
	var all []JobVictims
	every := allPods(job)
	for set := range 1 << len(job.Pods) {
		var pods []int
		for _, i := range every {
			if set&(1<<i) != 0 {
				pods = append(pods, i)
			}
		}

		if elasticError(job, pods) == "" {
			all = append(all, JobVictims{Pods: pods})
		}
	}

	if job.Whole {
		all = append(all, JobVictims{Whole: true, Pods: every})
	}

	return all
}

// allPods returns the indexes of all pods of a job.
func allPods(job *Job) (all []int) {
	for i := range job.Pods {
		all = append(all, i)
	}
	return all
}

// elasticError returns why pods of a job cannot be evicted alone, "" if they can.
func elasticError(job *Job, pods []int) string {
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

func addUsage(avail []Amounts, fromPod *Pod, sign float64) {
	for r, amount := range fromPod.Usage {
		avail[fromPod.Node][r] += sign * amount
	}
}

// canPlace counts for a single pod set, and tries every place for several.
func (o *oracle) canPlace(avail *placeable) bool {
	key := avail.key()
	if known, ok := o.known[key]; ok {
		return known
	}

	quotas, ok := avail.forCards(o.Problem)
	switch {
	case !ok:
		o.known[key] = false
	case len(o.PodSets) == 0:
		o.known[key] = true
	default:
		o.known[key] = o.placeFrom(len(o.PodSets)-1, 0, 0, avail.nodes, quotas)
	}

	return o.known[key]
}

// placeFrom places the pods of a pod set on its nodes from one on, and then the pod sets
// before it. The order of identical pods does not matter. For the first pod set it is enough
// to count.
func (o *oracle) placeFrom(podSet, placed, from int, avail []Amounts, quotas []int64) bool {
	c := &o.PodSets[podSet]
	switch {
	case podSet == 0:
		return o.countPlaceable(c, avail, quotas) >= c.Count
	case placed == c.Count:
		return o.placeFrom(podSet-1, 0, 0, avail, quotas)
	}

	for i, node := range c.Nodes[from:] {
		quota := o.Nodes[node].Quota
		if (c.Cards > 0 && quotas[quota] < c.Cards) || !fits(avail[node], c.Request) {
			continue
		}

		quotas[quota] -= c.Cards
		addUsage(avail, &Pod{Node: node, Usage: c.Request}, -1)
		ok := o.placeFrom(podSet, placed+1, from+i, avail, quotas)
		addUsage(avail, &Pod{Node: node, Usage: c.Request}, 1)
		quotas[quota] += c.Cards
		if ok {
			return true
		}
	}

	return false
}

// countPlaceable returns how many pods of a pod set fit, up to its count.
func (o *oracle) countPlaceable(c *PodSet, avail []Amounts, quotas []int64) int {
	byPool := make([]int, len(quotas))
	n := 0
	for _, node := range c.Nodes {
		have := slices.Clone(avail[node])
		for byPool[o.Nodes[node].Quota] < c.Count && fits(have, c.Request) {
			byPool[o.Nodes[node].Quota]++
			for r := range have {
				have[r] -= c.Request[r]
			}
		}
	}

	for quota, placeable := range byPool {
		if c.Cards > 0 {
			placeable = min(placeable, int(max(0, quotas[quota])/c.Cards))
		}
		n += placeable
	}

	return n
}

func fits(avail, request Amounts) bool {
	for r, amount := range request {
		if amount > 0 && amount > avail[r]+0.1 {
			return false
		}
	}
	return true
}

// ratio returns how many times the optimum a loss is, in the first part that differs.
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
