package solver

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// midsizeProblem is a problem of 15 to 40 units: gangs over several nodes that are evicted as
// a whole, and a few jobs with elastic pods.
func midsizeProblem(t *rapid.T) *Problem {
	p := &Problem{}
	nodes := rapid.IntRange(3, 8).Draw(t, "nodes")
	size := float64(rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "cards of a pod"))

	for range rapid.IntRange(1, 2).Draw(t, "pools") {
		p.Quotas = append(p.Quotas, flatQuota(rapid.Int64Range(16, 64).Draw(t, "pool")))
	}
	for range nodes {
		p.Nodes = append(p.Nodes, Node{Free: Amounts{0, float64(rapid.IntRange(0, 8).Draw(t, "cpu"))}, Quota: rapid.IntRange(0, len(p.Quotas)-1).Draw(t, "pool of node")})
	}

	free := make([]int, nodes)
	for node := range free {
		free[node] = 8
	}

	for range rapid.IntRange(0, 3).Draw(t, "elastic jobs") {
		made := drawJob(t, free, rapid.IntRange(2, 5).Draw(t, "pods"), rapid.Int64Range(1, 100).Draw(t, "age"))
		made.Elastic = rapid.IntRange(0, 3).Draw(t, "elastic")
		made.Whole = rapid.Bool().Draw(t, "whole")
		p.Jobs = append(p.Jobs, made)
	}

	for range rapid.IntRange(10, 14).Draw(t, "gangs") {
		made := drawJob(t, free, rapid.SampledFrom([]int{1, 2, 4, 3, 8}).Draw(t, "pods"), rapid.Int64Range(1, 100).Draw(t, "age"))
		made.Whole = true
		p.Jobs = append(p.Jobs, made)
	}

	placeable := 0
	for _, n := range free {
		placeable += 8 - n
	}

	count := max(1, rapid.IntRange(1, 1+placeable/int(size)*2/3).Draw(t, "waiting"))
	c := PodSet{Request: Amounts{size, float64(rapid.IntRange(0, 4).Draw(t, "cpu of a pod"))}, Cards: int64(size), Count: count}
	for node := range p.Nodes {
		c.Nodes = append(c.Nodes, node)
	}

	p.PodSets = []PodSet{c}
	if rapid.Bool().Draw(t, "master") {
		p.PodSets = append(p.PodSets, PodSet{Request: Amounts{1, 8}, Cards: 1, Count: 1, Nodes: slices.Clone(c.Nodes)})
	}

	return p
}

// drawJob draws a job of pods that all have the same loss for each card, as far as the nodes have
// free cards.
func drawJob(t *rapid.T, free []int, pods int, loss int64) Job {
	var job Job
	for range pods {
		node := rapid.IntRange(0, len(free)-1).Draw(t, "node")
		for range free {
			if free[node] > 0 {
				break
			}
			node = (node + 1) % len(free)
		}

		if free[node] == 0 {
			break
		}

		cards := min(free[node], rapid.SampledFrom([]int{1, 2, 1, 4}).Draw(t, "cards"))
		free[node] -= cards
		job.Pods = append(job.Pods, Pod{Node: node, Usage: Amounts{float64(cards), float64(rapid.IntRange(1, 8).Draw(t, "gives cpu"))}, Loss: int64(cards) * loss})
	}

	return job
}

// TestSolveMidsizeProblemsNearLeastLoss: the solver's search is bounded, so that a session stays short, and its plan may
// lose more than the best one: at most 1.1 times as much for problems of 15 to 40 units (gangs and elastic pods). An
// oracle that tries every choice says what the least loss is. In a tree, victims must also release quota of ancestors,
// and limits bound what may be taken from a queue. Problems are random.
func TestSolveMidsizeProblemsNearLeastLoss(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"flat": midsizeProblem, "in a tree": midsizeTree}) {
		var plans comparison
		seed.Check(t, func(t *rapid.T) {
			p := draw(t)
			optimum, possible := leastLoss(p)
			plans.solveNearLeastLoss(t, p, optimum, possible)
		})
		plans.log(t)
	}
}
