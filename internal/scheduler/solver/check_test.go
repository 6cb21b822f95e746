package solver

import (
	"fmt"
	"slices"
)

// broken says what is wrong with a plan, "" when nothing is: who goes may go,
// the loss is what it says, and everybody who waits has a place.
func broken(p *Problem, plan *Plan) string {
	loss, last := Loss{}, -1
	avail := roomOf(p)
	for _, taking := range plan.Take {
		if taking.Job <= last {
			return fmt.Sprintf("job %d comes after job %d", taking.Job, last)
		}
		last = taking.Job
		job, pods := &p.Jobs[taking.Job], taking.Pods
		if why := mayGo(job, taking); why != "" {
			return fmt.Sprintf("job %d: %s", taking.Job, why)
		}
		if taking.Whole {
			loss.Jobs++
			pods = nil
			for i := range job.Pods {
				pods = append(pods, i)
			}
		}
		for _, i := range pods {
			give(avail, &job.Pods[i], 1)
			if taking.Whole {
				loss.Broken += job.Pods[i].Loss
			} else {
				loss.Spared += job.Pods[i].Loss
			}
		}
	}
	if loss != plan.Loss {
		return fmt.Sprintf("loses %+v, not %+v", loss, plan.Loss)
	}
	return misplaced(p, plan.Place, avail)
}

func mayGo(job *Job, taking Taking) string {
	switch {
	case taking.Whole && !job.Whole:
		return "may not be taken whole"
	case taking.Whole && len(taking.Pods) > 0:
		return "is taken whole and lists pods"
	case taking.Whole:
		return ""
	case len(taking.Pods) == 0:
		return "is listed and gives nothing"
	case !slices.IsSorted(taking.Pods) || len(slices.Compact(slices.Clone(taking.Pods))) != len(taking.Pods):
		return fmt.Sprintf("pods %v are out of order or twice", taking.Pods)
	}
	return spares(job, taking.Pods)
}

func misplaced(p *Problem, place [][]int, avail []Amounts) string {
	pools := slices.Clone(p.Pools)
	if len(place) != len(p.Claims) {
		return fmt.Sprintf("%d claims have places, not %d", len(place), len(p.Claims))
	}
	for i, nodes := range place {
		c := &p.Claims[i]
		if len(nodes) != c.Count {
			return fmt.Sprintf("claim %d has %d places, not %d", i, len(nodes), c.Count)
		}
		for _, node := range nodes {
			if !slices.Contains(c.Nodes, node) {
				return fmt.Sprintf("claim %d cannot run on node %d", i, node)
			}
			if !hasRoom(avail[node], c.Request) {
				return fmt.Sprintf("claim %d has no room on node %d", i, node)
			}
			give(avail, &Pod{Node: node, Gives: c.Request}, -1)
			if pools[p.Nodes[node].Pool] -= c.Cards; c.Cards > 0 && pools[p.Nodes[node].Pool] < 0 {
				return fmt.Sprintf("pool %d is overdrawn", p.Nodes[node].Pool)
			}
		}
	}
	return ""
}

// fewer lists plans that take less: without one whole job, or without one of
// the single pods.
func fewer(plan *Plan) [][]Taking {
	var all [][]Taking
	for i, taking := range plan.Take {
		if taking.Whole || len(taking.Pods) == 1 {
			all = append(all, slices.Delete(slices.Clone(plan.Take), i, i+1))
			continue
		}
		for k := range taking.Pods {
			less := slices.Clone(plan.Take)
			less[i].Pods = slices.Delete(slices.Clone(taking.Pods), k, k+1)
			all = append(all, less)
		}
	}
	return all
}

// needless says who could have stayed, "" when nobody could.
func needless(p *Problem, plan *Plan) string {
	for _, take := range fewer(plan) {
		avail := roomOf(p)
		for _, taking := range take {
			for i := range p.Jobs[taking.Job].Pods {
				if taking.Whole || slices.Contains(taking.Pods, i) {
					give(avail, &p.Jobs[taking.Job].Pods[i], 1)
				}
			}
		}
		if (&oracle{Problem: p, known: map[string]bool{}}).placeable(avail) {
			return fmt.Sprintf("%+v would do as well as %+v", take, plan.Take)
		}
	}
	return ""
}
