package solver

import (
	"fmt"
	"reflect"
	"slices"

	"cardquota.dev/operator/internal/testing/check"
)

// planError returns what is wrong with a plan, "" if nothing is. The victims may be evicted,
// the loss is right, and every pending pod has a place.
func planError(p *Problem, plan *Plan) string {
	loss := Loss{}
	last := -1
	avail := placeableOf(p)
	if why := takeError(p, plan.Victims); why != "" {
		return why
	}

	for _, victims := range plan.Victims {
		if victims.Job <= last {
			return fmt.Sprintf("job %d comes after job %d", victims.Job, last)
		}

		last = victims.Job
		job := &p.Jobs[victims.Job]
		pods := victims.Pods
		if why := victimsError(job, victims); why != "" {
			return fmt.Sprintf("job %d: %s", victims.Job, why)
		}

		if victims.Whole {
			loss.Jobs++
			loss.JobSeconds += job.WholeLoss
			pods = allPods(job)
		}

		for _, i := range pods {
			avail.addPod(job, i, 1)
			if victims.Whole {
				loss.JobSeconds += job.Pods[i].Loss
			} else {
				loss.PodSeconds += job.Pods[i].Loss
			}
		}
	}

	if loss != plan.Loss {
		return fmt.Sprintf("loses %+v, not %+v", loss, plan.Loss)
	}

	return placesError(p, plan.Places, avail)
}

func victimsError(job *Job, victims JobVictims) string {
	switch {
	case victims.Whole && !job.Whole:
		return "may not be taken whole"
	case victims.Whole && len(victims.Pods) > 0:
		return "is taken whole and lists pods"
	case victims.Whole:
		return ""
	case len(victims.Pods) == 0:
		return "is listed and gives nothing"
	case !slices.IsSorted(victims.Pods) || len(slices.Compact(slices.Clone(victims.Pods))) != len(victims.Pods):
		return fmt.Sprintf("pods %v are out of order or twice", victims.Pods)
	}

	return elasticError(job, victims.Pods)
}

func placesError(p *Problem, place [][]int, free *placeable) string {
	avail := free.nodes
	quotas, ok := free.forCards(p)
	if !ok {
		return "a quota has less than the pods use wherever they run"
	}
	if len(place) != len(p.PodSets) {
		return fmt.Sprintf("%d pod sets have places, not %d", len(place), len(p.PodSets))
	}

	for i, nodes := range place {
		c := &p.PodSets[i]
		if len(nodes) != c.Count {
			return fmt.Sprintf("pod set %d has %d places, not %d", i, len(nodes), c.Count)
		}

		for _, node := range nodes {
			if !slices.Contains(c.Nodes, node) {
				return fmt.Sprintf("pod set %d cannot run on node %d", i, node)
			}
			if !fits(avail[node], c.Request) {
				return fmt.Sprintf("pod set %d has no room on node %d", i, node)
			}

			addUsage(avail, &Pod{Node: node, Usage: c.Request}, -1)
			quotas[p.Nodes[node].Quota] -= c.Cards
			if c.Cards > 0 && quotas[p.Nodes[node].Quota] < 0 {
				return fmt.Sprintf("quota %d is exceeded", p.Nodes[node].Quota)
			}
		}
	}

	return ""
}

// smallerPlans lists plans with fewer victims: without one whole job, or without one of the
// single pods.
func smallerPlans(plan *Plan) [][]JobVictims {
	var all [][]JobVictims
	for i, victims := range plan.Victims {
		if victims.Whole || len(victims.Pods) == 1 {
			all = append(all, slices.Delete(slices.Clone(plan.Victims), i, i+1))
			continue
		}
		for k := range victims.Pods {
			less := slices.Clone(plan.Victims)
			less[i].Pods = slices.Delete(slices.Clone(victims.Pods), k, k+1)
			all = append(all, less)
		}
	}

	return all
}

// needlessVictim returns a victim that is not needed, "" if there is none.
func needlessVictim(p *Problem, plan *Plan) string {
	for _, take := range smallerPlans(plan) {
		avail := placeableOf(p)
		for _, victims := range take {
			for i := range p.Jobs[victims.Job].Pods {
				if victims.Whole || slices.Contains(victims.Pods, i) {
					avail.addPod(&p.Jobs[victims.Job], i, 1)
				}
			}
		}

		if (&oracle{Problem: p, known: map[string]bool{}}).canPlace(avail) {
			return fmt.Sprintf("%+v would do as well as %+v", take, plan.Victims)
		}
	}
	return ""
}

// mustBeValid ends the test if something is wrong with a plan.
func mustBeValid(t check.T, p *Problem, plan *Plan) {
	why := planError(p, plan)
	check.Must(t, why == "", "%s", why)
}

// mustNeedAllVictims ends the test if a plan needs fewer victims.
func mustNeedAllVictims(t check.T, p *Problem, plan *Plan) {
	why := needlessVictim(p, plan)
	check.Must(t, why == "", "%s", why)
}

// mustSolve solves a problem with the largest budget. It ends the test if there is no plan, or the plan is wrong.
func mustSolve(t check.T, p *Problem) *Plan { return solveIfPossible(t, p, true) }

// solveIfPossible solves a problem with the largest budget. It ends the test if the plan is wrong, or if there is one
// although none is possible, or the other way round. It returns nil for no plan.
func solveIfPossible(t check.T, p *Problem, possible bool) *Plan {
	plan, ok := solveAll(p)
	check.Must(t, ok == possible, "found a plan: %t, one exists: %t", ok, possible)
	if ok {
		mustBeValid(t, p, plan)
	}
	return plan
}

// mustSolveAgain ends the test if a problem has another plan when it is solved again.
func mustSolveAgain(t check.T, p *Problem, plan *Plan) {
	again, _ := solveAll(p)
	check.Must(t, reflect.DeepEqual(plan, again), "%+v, then %+v", plan, again)
}
