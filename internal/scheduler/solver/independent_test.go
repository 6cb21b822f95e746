package solver

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/seed"
)

// smallBlock is a small problem with one pod set that uses its whole quota.
func smallBlock(t *rapid.T, cards int) (*Problem, Loss) {
	p := &Problem{Nodes: []Node{{Free: Amounts{0, 0}}, {Free: Amounts{0, 0}}, {Free: Amounts{0, 0}}}}
	for range 5 {
		job := Job{Whole: true, Elastic: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "elastic")}
		for range rapid.SampledFrom([]int{1, 2, 3, 4}).Draw(t, "pods") {
			job.Pods = append(job.Pods, Pod{
				Node:  rapid.IntRange(0, 2).Draw(t, "node"),
				Usage: Amounts{float64(rapid.IntRange(1, 2).Draw(t, "gives cards")), float64(rapid.IntRange(1, 4).Draw(t, "gives cpu"))},
				Loss:  rapid.Int64Range(100, 1000).Draw(t, "loss"),
			})
		}
		p.Jobs = append(p.Jobs, job)
	}

	p.PodSets = []PodSet{{Request: Amounts{float64(cards), 2}, Cards: int64(cards), Nodes: []int{0, 1, 2}}}
	for count := rapid.IntRange(1, 5).Draw(t, "count"); ; count-- {
		p.PodSets[0].Count = count
		p.Quotas = flatQuotas(int64(count * cards))
		if optimum, ok := leastLoss(p); ok {
			return p, optimum
		}
	}
}

// joinBlocks joins many small problems. Each has a quota of its own, which must be used up, so
// the least loss is the sum of theirs.
func joinBlocks(t *rapid.T, blocks int) (*Problem, Loss) {
	all := &Problem{}
	optimum := Loss{}
	cards := rapid.IntRange(1, 3).Draw(t, "cards")
	for b := range blocks {
		p, least := smallBlock(t, cards)
		optimum.JobSeconds += least.JobSeconds
		optimum.PodSeconds += least.PodSeconds
		optimum.Jobs += least.Jobs

		first := len(all.Nodes)
		if b == 0 {
			all.PodSets = p.PodSets
		} else {
			all.PodSets[0].Count += p.PodSets[0].Count
			for i := range p.Nodes {
				all.PodSets[0].Nodes = append(all.PodSets[0].Nodes, first+i)
			}
		}

		for i := range p.Nodes {
			p.Nodes[i].Quota = b
		}

		for j := range p.Jobs {
			for i := range p.Jobs[j].Pods {
				p.Jobs[j].Pods[i].Node += first
			}
		}

		all.Nodes = append(all.Nodes, p.Nodes...)
		all.Jobs = append(all.Jobs, p.Jobs...)
		all.Quotas = append(all.Quotas, p.Quotas...)
	}

	return all, optimum
}

// TestSolveIndependentProblemsAtLeastLoss: an oracle that tries every choice of victims is too slow for large problems. So
// this test joins 4 or 8 small ones that do not influence each other: each has nodes and a quota of its own, which
// must be used up. The least loss is the sum of theirs. The plan loses at most 1.1 times that. Problems are random.
func TestSolveIndependentProblemsAtLeastLoss(t *testing.T) {
	for _, blocks := range []int{4, 8} {
		t.Run(fmt.Sprint(blocks), func(t *testing.T) {
			var plans comparison
			seed.Check(t, func(t *rapid.T) {
				p, optimum := joinBlocks(t, blocks)
				plans.solveNearLeastLoss(t, p, optimum, true) // true: a plan exists
			})
			plans.log(t)
		})
	}
}
