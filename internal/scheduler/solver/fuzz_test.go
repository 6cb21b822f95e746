package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// extremeProblem is a problem with numbers as large and as odd as the objects of an API server can state.
func extremeProblem(t *rapid.T) *Problem {
	request := rapid.SampledFrom([]float64{0, 1, 2, 8, 0.05, 1e-3, 1 << 40, 1e17, math.MaxInt64})
	usage := rapid.SampledFrom([]float64{0, 1, 2, 8, 0.05, 1e-3, 1 << 40}) // of a pod that runs: some node has it
	free := rapid.SampledFrom([]float64{0, 1, 2, 8, 0.05, 1 << 40, -1, -8})
	count := rapid.SampledFrom([]int{0, 1, 2, 3, 5})
	big := rapid.SampledFrom([]int64{0, 1, 3, 100, math.MaxInt64})

	amounts := func(of *rapid.Generator[float64], label string) Amounts {
		return rapid.SliceOfN(of, 2, 2).Draw(t, label)
	}
	index := func(length int, label string) int { return rapid.IntRange(0, length-1).Draw(t, label) }
	p := &Problem{Quotas: make([]Quota, rapid.IntRange(1, 2).Draw(t, "quotas"))}
	left := rapid.SampledFrom([]int64{0, 1, 3, 100, -1, math.MaxInt64, math.MinInt64})
	levels := rapid.IntRange(1, 3).Draw(t, "levels")
	for i := range p.Quotas {
		p.Quotas[i].Levels = rapid.SliceOfN(left, levels, levels).Draw(t, "left")
	}

	for range rapid.IntRange(1, 3).Draw(t, "nodes") {
		p.Nodes = append(p.Nodes, Node{Free: amounts(free, "free"), Quota: index(len(p.Quotas), "quota of node")})
	}

	for range rapid.IntRange(0, 3).Draw(t, "podSets") {
		c := PodSet{Request: amounts(request, "request"), Cards: big.Draw(t, "cards"), Count: count.Draw(t, "count")}
		for node := range p.Nodes {
			if rapid.Bool().Draw(t, "wanted") {
				c.Nodes = append(c.Nodes, node)
			}
		}
		p.PodSets = append(p.PodSets, c)
	}

	for range rapid.IntRange(0, 5).Draw(t, "jobs") {
		job := Job{Elastic: count.Draw(t, "elastic"), Whole: rapid.Bool().Draw(t, "whole"), WholeLoss: big.Draw(t, "loss of the whole")}
		if rapid.Bool().Draw(t, "roles") {
			job.RoleElastic = rapid.SliceOfN(count, 2, 2).Draw(t, "elastic by role")
		}

		for range rapid.IntRange(0, 4).Draw(t, "pods") {
			job.Pods = append(job.Pods, Pod{
				Node: index(len(p.Nodes), "node"), Usage: amounts(usage, "usage"), Loss: big.Draw(t, "loss"),
				Role: index(2, "role"), Protected: rapid.Bool().Draw(t, "protected"),
			})
		}
		p.Jobs = append(p.Jobs, job)
	}

	if rapid.Bool().Draw(t, "tree") {
		makeExtremeTree(t, p, big)
	}

	return p
}

// makeExtremeTree gives a problem uses, releases and limits of any size.
func makeExtremeTree(t *rapid.T, p *Problem, big *rapid.Generator[int64]) {
	some := func(length int) *rapid.Generator[[]QuotaAmount] {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) QuotaAmount {
			return QuotaAmount{rapid.IntRange(0, length-1).Draw(t, "index"), big.Draw(t, "amount")}
		}), 0, 3)
	}

	for i := range p.PodSets {
		p.PodSets[i].Uses = some(len(p.Quotas)).Draw(t, "uses")
	}

	for range rapid.IntRange(1, 3).Draw(t, "limits") {
		p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: big.Draw(t, "most"), Borrowed: rapid.Bool().Draw(t, "borrowed")})
	}

	for j := range p.Jobs {
		p.Jobs[j].Level = rapid.IntRange(0, 3).Draw(t, "level")
		for i := range p.Jobs[j].Pods {
			pod := &p.Jobs[j].Pods[i]
			pod.Releases = some(len(p.Quotas)).Draw(t, "releases")
			for _, x := range some(len(p.TakeLimits)).Draw(t, "takes") {
				pod.Takes = append(pod.Takes, TakeAmount{x.Quota, x.Amount})
			}
		}
	}
}

// checkTakes checks that the victims count no more against strict limits than these allow.
func checkTakes(t *rapid.T, p *Problem, plan *Plan) {
	taken := make([]int64, len(p.TakeLimits))
	for _, victims := range plan.Victims {
		for i := range p.Jobs[victims.Job].Pods {
			if !victims.Whole && !slices.Contains(victims.Pods, i) {
				continue
			}
			for _, x := range p.Jobs[victims.Job].Pods[i].Takes {
				taken[x.Limit] += x.Amount
			}
		}
	}

	for i, limit := range p.TakeLimits {
		check.Must(t, taken[i] <= limit.Most || (limit.Borrowed && limit.Most > 0), "limit %+v, and %d are taken", limit, taken[i])
	}
}

// checkExtremeProblem checks what is true for a plan of any problem: all pods have places, and nothing is evicted that
// must not be.
func checkExtremeProblem(t *rapid.T) {
	p := extremeProblem(t)
	plan, ok := solveAll(p)
	if !ok {
		check.Must(t, plan == nil, "no plan, and still %+v", plan)
		return
	}

	for i, c := range p.PodSets {
		check.Must(t, len(plan.Places[i]) == c.Count, "pod set %d has %d places, not %d", i, len(plan.Places[i]), c.Count)
	}

	for _, victims := range plan.Victims {
		job := &p.Jobs[victims.Job]
		check.Must(t, (!victims.Whole || job.Whole) && len(victims.Pods) <= job.Elastic, "job %+v gives %+v", job, victims)
		for _, i := range victims.Pods {
			check.Must(t, !job.Pods[i].Protected, "pod %d of job %d is protected", i, victims.Job)
		}
	}

	checkTakes(t, p, plan)
	check.Must(t, plan.Loss.JobSeconds >= 0 && plan.Loss.PodSeconds >= 0, "loses %+v", plan.Loss)
}

// TestSolveExtremeProblems: users write amounts, so they may be as large, small or odd as the API server accepts. Such
// problems are random. The solver does not panic, and if it returns a plan (checkExtremeProblem):
// (1) Each pending pod has a place.
// (2) No protected pod is evicted, no more elastic pods of a job than allowed, and no job as a whole that forbids it.
// (3) Limits of what may be taken apply; only one of borrowed cards above 0 may be exceeded (checkTakes).
// (4) The loss does not overflow.
func TestSolveExtremeProblems(t *testing.T) { seed.Check(t, checkExtremeProblem) }

// FuzzSolve checks the same as TestSolveExtremeProblems: Solve neither panics nor makes a wrong plan. An
// input of the fuzzer is the bytes from which rapid draws a problem. The first 16 inputs are random and long enough
// for a whole problem, which has hundreds of draws of eight bytes.
func FuzzSolve(f *testing.F) {
	random := rand.NewChaCha8([32]byte{})
	for range 16 {
		draws := make([]byte, 16<<10)
		_, _ = random.Read(draws) // it never fails
		f.Add(draws)
	}
	f.Fuzz(rapid.MakeFuzz(checkExtremeProblem))
}

// TestSolveOddProblems: the solver copes with problems that its caller hardly sends. Each row wants the jobs that are
// evicted; running=n*2 are two pods of one card on the full node n.
func TestSolveOddProblems(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"nothing at all: no victims": {want: "", scene: ""},
		"the pending pod can run on no node: it is listed before node n": {want: "no plan", scene: `
			pending pods=1 cards=1
			node n
			job gang running=n loss=1`},
		"less than no quota is left": {want: "no plan", scene: `
			quota A left=-5
			node n
			pending pods=1 cards=1
			job gang running=n loss=1`},
		"a node has 2 cards less than its pods use: 3 victims for one pod": {want: "two one", scene: `
			node n cards=-2
			pending pods=1 cards=1
			job two running=n*2 loss=1
			job one running=n loss=9`},
		"a job frees nothing: the other one": {want: "withCard", scene: `
			node n
			pending pods=1 cards=1
			job withoutCards running=n cards=0 loss=1
			job withCard running=n loss=5`},
	})
}
