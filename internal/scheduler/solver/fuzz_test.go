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

// invalidProblem is a problem that may break every rule of a valid problem.
func invalidProblem(t *rapid.T) *Problem {
	number := rapid.SampledFrom([]float64{0, 1, 2, 8, 0.05, -1, 1e-300, 1e17, 1e300, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()})
	count := rapid.SampledFrom([]int{0, 1, 2, 3, -1, 5, math.MaxInt, math.MinInt})
	place := rapid.SampledFrom([]int{0, 1, 2, -1, 7, math.MaxInt, math.MinInt})
	big := rapid.SampledFrom([]int64{0, 1, 3, 100, -1, math.MaxInt64, math.MinInt64})

	amounts := func(label string) Amounts { return rapid.SliceOfN(number, 0, 3).Draw(t, label) }
	p := &Problem{Quotas: flatQuotas(rapid.SliceOfN(big, 0, 2).Draw(t, "pools")...)}
	for range rapid.IntRange(0, 3).Draw(t, "nodes") {
		p.Nodes = append(p.Nodes, Node{Free: amounts("room"), Quota: place.Draw(t, "pool")})
	}

	for range rapid.IntRange(0, 3).Draw(t, "podSets") {
		p.PodSets = append(p.PodSets, PodSet{
			Request: amounts("request"), Cards: big.Draw(t, "cards"), Count: count.Draw(t, "count"),
			Nodes: rapid.SliceOfN(place, 0, 4).Draw(t, "wanted"),
		})
	}

	for range rapid.IntRange(0, 5).Draw(t, "jobs") {
		job := Job{Elastic: count.Draw(t, "spare"), Whole: rapid.Bool().Draw(t, "whole")}
		if rapid.Bool().Draw(t, "roles") {
			job.RoleElastic = rapid.SliceOfN(count, 0, 2).Draw(t, "role spare")
		}

		for range rapid.IntRange(0, 4).Draw(t, "pods") {
			job.Pods = append(job.Pods, Pod{
				Node: place.Draw(t, "node"), Usage: amounts("gives"), Loss: big.Draw(t, "loss"),
				Role: place.Draw(t, "role"), Protected: rapid.Bool().Draw(t, "protected"),
			})
		}

		if len(job.Pods) > 0 { // not drawn, so that inputs that failed once keep their meaning
			job.WholeLoss = job.Pods[0].Loss
		}
		p.Jobs = append(p.Jobs, job)
	}

	if rapid.Bool().Draw(t, "tree") {
		makeInvalidTree(t, p, place, big)
	}

	return p
}

// makeInvalidTree gives a problem levels, releases and limits that may break every rule.
func makeInvalidTree(t *rapid.T, p *Problem, place *rapid.Generator[int], big *rapid.Generator[int64]) {
	amounts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) QuotaAmount { return QuotaAmount{place.Draw(t, "quota"), big.Draw(t, "amount")} }), 0, 3)
	for i := range p.Quotas {
		p.Quotas[i].Levels = rapid.SliceOfN(big, 0, 3).Draw(t, "levels")
	}

	for i := range p.PodSets {
		p.PodSets[i].Uses = amounts.Draw(t, "uses")
	}

	for range rapid.IntRange(0, 3).Draw(t, "limits") {
		p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: big.Draw(t, "most"), Borrowed: rapid.Bool().Draw(t, "borrowed")})
	}

	for j := range p.Jobs {
		p.Jobs[j].Level = place.Draw(t, "level")
		for i := range p.Jobs[j].Pods {
			pod := &p.Jobs[j].Pods[i]
			pod.Releases = amounts.Draw(t, "releases")
			for _, x := range amounts.Draw(t, "takes") {
				pod.Takes = append(pod.Takes, TakeAmount{x.Quota, x.Amount})
			}
		}
	}
}

// checkValidTakes checks that the victims count against limits that exist, and no more than the
// strict ones allow.
func checkValidTakes(t *rapid.T, p *Problem, plan *Plan) {
	taken := make([]int64, len(p.TakeLimits))
	for _, victims := range plan.Victims {
		for i := range p.Jobs[victims.Job].Pods {
			if !victims.Whole && !slices.Contains(victims.Pods, i) {
				continue
			}
			for _, x := range p.Jobs[victims.Job].Pods[i].Takes {
				check.Must(t, x.Limit >= 0 && x.Limit < len(taken) && x.Amount >= 0, "job %d loses pod %d, which takes %+v", victims.Job, i, x)
				taken[x.Limit] += x.Amount
			}
		}
	}

	for i, limit := range p.TakeLimits {
		check.Must(t, taken[i] <= max(limit.Most, 0) || (limit.Borrowed && limit.Most > 0), "limit %+v, and %d are taken", limit, taken[i])
	}
}

// checkInvalidProblem checks what holds for a plan of any problem.
func checkInvalidProblem(t *rapid.T) {
	p := invalidProblem(t)
	plan, ok := solveAll(p)
	if !ok {
		check.Must(t, plan == nil, "no plan, and still %+v", plan)
		return
	}

	for i, c := range p.PodSets {
		check.Must(t, len(plan.Places[i]) == max(c.Count, 0), "pod set %d has %d places, not %d", i, len(plan.Places[i]), c.Count)
	}

	for _, victims := range plan.Victims {
		job := &p.Jobs[victims.Job]
		check.Must(t, (!victims.Whole || job.Whole) && len(victims.Pods) <= max(job.Elastic, 0), "job %+v gives %+v", job, victims)
		for _, i := range victims.Pods {
			check.Must(t, !job.Pods[i].Protected, "pod %d of job %d is protected", i, victims.Job)
		}
	}

	checkValidTakes(t, p, plan)
	check.Must(t, plan.Loss.JobSeconds >= 0 && plan.Loss.PodSeconds >= 0, "loses %+v", plan.Loss)
}

func TestSolveInvalidProblems(t *testing.T) { seed.Check(t, checkInvalidProblem) }

// FuzzSolve begins with problems, which take hundreds of draws of eight bytes.
func FuzzSolve(f *testing.F) {
	random := rand.NewChaCha8([32]byte{})
	for range 16 {
		draws := make([]byte, 16<<10)
		_, _ = random.Read(draws) // it never fails
		f.Add(draws)
	}
	f.Fuzz(rapid.MakeFuzz(checkInvalidProblem))
}

func TestSolveOddProblems(t *testing.T) {
	nan := math.NaN()

	inf := math.Inf(1)
	checkVictims(t, map[string]ruleCase{
		"empty":                   {problem: &Problem{}},
		"a pod set without nodes": {problem: fullProblem(1, 1, 1, gang(1, 0)).changed(func(p *Problem) { p.PodSets[0].Nodes = nil }), refused: true},
		"a node that is not there": {problem: fullProblem(1, 1, 1, gang(1, 0)).changed(func(p *Problem) { p.PodSets[0].Nodes = []int{5, -1} }),
			refused: true},
		"no pools":                         {problem: fullProblem(1, 1, 1, gang(1, 0)).changed(func(p *Problem) { p.Quotas = nil }), refused: true},
		"less than nothing left in a pool": {problem: fullProblem(1, 1, 1, gang(1, 0)).changed(func(p *Problem) { p.Quotas[0] = flatQuota(-5) }), refused: true},
		"a node listed twice is one": {
			problem: fullProblem(1, 2, 1, gang(1, 0), gang(2, 0)).changed(func(p *Problem) {
				p.Nodes[0].Free = Amounts{1}
				p.PodSets[0].Nodes = []int{0, 0}
			}),
			want: wholeJobs(0),
		},
		"more pods than can be": {problem: fullProblem(1, 1<<30, 0).changed(func(p *Problem) { p.PodSets[0].Request = nil }), refused: true},
		"a request that is no number": {problem: fullProblem(1, 1, 1, gang(1, 0)).changed(func(p *Problem) { p.PodSets[0].Request = Amounts{nan} }),
			refused: true},
		"a request without end, on a node without end": {
			problem: fullProblem(1, 1, 1, gang(1, 0)).changed(func(p *Problem) {
				p.PodSets[0].Request = Amounts{inf}
				p.Nodes[0].Free = Amounts{inf}
			}),
			refused: true,
		},
		"pods that give no number": {
			problem: fullProblem(1, 1, 1, gang(1, 0), gang(5, 0)).changed(func(p *Problem) { p.Jobs[0].Pods[0].Usage = Amounts{nan} }),
			want:    wholeJobs(1)},
		"pods that give less than nothing": {
			problem: fullProblem(2, 1, 1, gang(1, 1, 0)).changed(func(p *Problem) { p.Jobs[0].Pods[0].Usage = Amounts{-9} }), want: wholeJobs(0)},
		"pods that give nothing that is counted": {
			problem: fullProblem(1, 1, 1, gang(1, 0), gang(5, 0)).changed(func(p *Problem) { p.Jobs[0].Pods[0].Usage = nil }), want: wholeJobs(1)},
		"a node that has less than nothing": {
			problem: fullProblem(1, 1, 1, gang(1, 0, 0), gang(9, 0)).changed(func(p *Problem) { p.Nodes[0].Free = Amounts{-2} }),
			want:    wholeJobs(0, 1)},
	})
}
