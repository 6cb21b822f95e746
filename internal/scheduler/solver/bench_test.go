package solver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// fleet is a cluster of nodes with eight cards, all in use.
type fleet struct {
	nodes, gangs int
	size         int  // pods of a gang
	elastic      bool // all pods are elastic pods of one job
	spread       bool // the pods of a gang run on nodes of their own
	alike        bool // all pods have the same loss
	mixed        bool // gangs have up to twice the size
	ranks        int  // of jobs, higher ranks have less loss; 0 is one
}

const perNode = 8

// problem has so many pending pods of so many cards each.
func (f fleet) problem(pending int, cards float64) *Problem {
	random := rand.New(rand.NewPCG(7, uint64(f.gangs)))
	p := &Problem{Quotas: flatQuotas(int64(pending) * int64(cards))}
	podSet := PodSet{Request: Amounts{cards, 4000 * cards, 16e9 * cards}, Cards: int64(cards), Count: pending}
	for i := range f.nodes {
		p.Nodes = append(p.Nodes, Node{Free: Amounts{0, 8000, 32e9}})
		podSet.Nodes = append(podSet.Nodes, i)
	}

	p.PodSets = []PodSet{podSet}
	if f.elastic {
		p.Jobs = []Job{{Elastic: f.gangs * f.size}}
	}

	at := 0
	for range f.gangs {
		age := int64(3600)
		if !f.alike {
			age = 600 + random.Int64N(86400)
		}

		job := Job{Whole: true}
		size := f.size
		if f.ranks > 0 {
			job.Rank = len(p.Jobs) % f.ranks
			age /= int64(1 + job.Rank)
		}

		if f.mixed {
			size = 1 + random.IntN(2*f.size)
		}

		for range size {
			node := at / perNode % f.nodes
			if f.spread {
				node = at % f.nodes
			}
			at++
			job.Pods = append(job.Pods, Pod{Node: node, Usage: Amounts{1, 8000, 32e9}, Loss: age, Rank: job.Rank})
		}

		if f.elastic {
			p.Jobs[0].Pods = append(p.Jobs[0].Pods, job.Pods...)
		} else {
			p.Jobs = append(p.Jobs, job)
		}
	}

	return p
}

// BenchmarkRanks measures what ranks cost on a large cluster: 5,000 nodes with 40,000 pods,
// and 512 pending pods of eight cards and of some kinds.
func BenchmarkRanks(b *testing.B) {
	for _, kinds := range []int{1, 8} {
		for _, ranks := range []int{1, 8, 64} {
			p := fleet{nodes: 5000, gangs: 5000, size: 8, spread: true, ranks: ranks}.problem(512/kinds, 8)
			for range kinds - 1 {
				c := p.PodSets[0]
				c.Request = Amounts{8, 32000 - float64(len(p.PodSets)), 16e9}
				p.PodSets = append(p.PodSets, c)
			}

			p.Quotas[0] = flatQuota(4096)
			b.Run(fmt.Sprintf("%d kinds/%d ranks", kinds, ranks), func(b *testing.B) {
				var answer Result
				for b.Loop() {
					answer = Solve(p, MaxWork)
					check.Must(b, answer.Plan != nil, "no plan")
				}
				b.ReportMetric(float64(answer.Work)/1e6, "Meffort")
				b.ReportMetric(float64(answer.Plan.Loss.JobSeconds+answer.Plan.Loss.PodSeconds)/1e6, "Mloss")
			})
		}
	}
}

// BenchmarkSolve measures the search on full fleets of 500 nodes, and of 5,120 with large gangs, for a few and for many
// pending pods. It fails if it finds no plan.
func BenchmarkSolve(b *testing.B) {
	for name, f := range map[string]fleet{
		"500 gangs of 8 on a node each": {nodes: 500, gangs: 500, size: 8},
		"500 gangs of 8 spread":         {nodes: 500, gangs: 500, size: 8, spread: true},
		"500 gangs of 8 spread, alike":  {nodes: 500, gangs: 500, size: 8, spread: true, alike: true},
		"80 gangs of 512 spread":        {nodes: 5120, gangs: 80, size: 512, spread: true},
		"500 gangs of 1 to 16":          {nodes: 500, gangs: 450, size: 8, mixed: true},
		"500 gangs of 8 in 8 ranks":     {nodes: 500, gangs: 500, size: 8, spread: true, ranks: 8},
		"4000 elastic pods of a job":    {nodes: 500, gangs: 500, size: 8, elastic: true},
	} {
		for _, size := range []struct {
			pending int
			cards   float64
		}{{1, 1}, {400, 1}, {512, 1}, {1, 8}, {64, 8}} {
			p := f.problem(size.pending, size.cards)

			b.Run(fmt.Sprintf("%s/%d pods of %g cards wait", name, size.pending, size.cards), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, ok := solveAll(p)
					check.Must(b, ok, "no plan")
				}
			})
		}
	}
}
