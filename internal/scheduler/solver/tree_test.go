package solver

import (
	"pgregory.net/rapid"
)

// withTree gives a problem quotas with several levels that victims release, quotas that pods use
// wherever they run, and nested limits on what may be taken.
func withTree(t *rapid.T, p *Problem) *Problem {
	levels := rapid.IntRange(1, 3).Draw(t, "levels")
	if rapid.Bool().Draw(t, "pods use quotas wherever they run") {
		p.Quotas = append(p.Quotas, Quota{})
		for i := range p.PodSets {
			p.PodSets[i].Uses = []QuotaAmount{{Quota: rapid.IntRange(0, len(p.Quotas)-1).Draw(t, "quota of use"), Amount: rapid.Int64Range(0, 3).Draw(t, "use")}}
		}
	}

	for i := range p.Quotas {
		p.Quotas[i].Levels = nil
		for range levels {
			p.Quotas[i].Levels = append(p.Quotas[i].Levels, rapid.SampledFrom([]int64{0, 1, 2, 4, 8, -1, -3}).Draw(t, "left at level"))
		}
	}

	if rapid.IntRange(0, 2).Draw(t, "nodes have room") < 2 {
		for i := range p.Nodes {
			for r := range p.Nodes[i].Free {
				p.Nodes[i].Free[r] += float64(rapid.IntRange(0, 8).Draw(t, "more room"))
			}
		}
	}

	for j := range p.Jobs {
		p.Jobs[j].Level = rapid.IntRange(0, levels).Draw(t, "level of job")
		for i := range p.Jobs[j].Pods {
			pod := &p.Jobs[j].Pods[i]
			for range rapid.SampledFrom([]int{1, 1, 2, 0}).Draw(t, "releases") {
				pod.Releases = append(pod.Releases, QuotaAmount{Quota: rapid.IntRange(0, len(p.Quotas)-1).Draw(t, "released quota"), Amount: rapid.Int64Range(0, 3).Draw(t, "released")})
			}
		}
	}

	if rapid.Bool().Draw(t, "limits") {
		addLimits(t, p)
	}

	return p
}

// addLimits adds limits for two queues, and for all jobs together.
func addLimits(t *rapid.T, p *Problem) {
	for range 6 {
		p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: rapid.SampledFrom([]int64{3, 6, 2, 4, 10, 1, 0, -1}).Draw(t, "most"), Borrowed: rapid.Bool().Draw(t, "borrowed")})
	}

	for j := range p.Jobs {
		queue := rapid.IntRange(0, 2).Draw(t, "queue of job") // the last has no limit of its own
		onlyCounts := rapid.IntRange(0, 2).Draw(t, "only counts") == 0
		for i := range p.Jobs[j].Pods {
			amount := rapid.Int64Range(0, 3).Draw(t, "taken")
			var takes []TakeAmount
			for _, limit := range []int{queue, queue + 2, 4 + queue%2} {
				if limit != 2 && rapid.IntRange(0, 3).Draw(t, "counts") > 0 {
					takes = append(takes, TakeAmount{Limit: limit, Amount: amount})
				}
			}
			p.Jobs[j].Pods[i].Takes = takes
			p.Jobs[j].Pods[i].OnlyCounts = onlyCounts != rapid.Bool().Draw(t, "mixed") && onlyCounts
		}
	}
}

// smallTree is a small problem with several levels, releases and limits.
func smallTree(t *rapid.T) *Problem { return withTree(t, smallProblem(t)) }

// midsizeTree is a problem in which all cards are charged in a tree of queues. Victims release
// what they use, and each queue has a guarantee or what it borrowed.
func midsizeTree(t *rapid.T) *Problem {
	p := midsizeProblem(t)
	p.Jobs = p.Jobs[:min(len(p.Jobs), 12)]

	fits := rapid.Bool().Draw(t, "nodes have room")
	for i := range p.Nodes {
		if fits {
			p.Nodes[i].Free = Amounts{16, 64}
		}
	}

	for i := range p.Quotas {
		p.Quotas[i].Levels = []int64{1000, rapid.Int64Range(0, 8).Draw(t, "left in parent"), rapid.Int64Range(0, 8).Draw(t, "left in root")}
	}

	for i := range p.PodSets {
		p.PodSets[i].Count = (p.PodSets[i].Count + 1) / 2
	}

	for range 4 {
		p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: rapid.Int64Range(8, 48).Draw(t, "most"), Borrowed: rapid.Bool().Draw(t, "borrowed")})
	}

	for j := range p.Jobs {
		queue := rapid.IntRange(0, 2).Draw(t, "queue of job")
		p.Jobs[j].Level = 1 + queue/2
		for i := range p.Jobs[j].Pods {
			pod := &p.Jobs[j].Pods[i]
			cards := int64(pod.Usage[0])
			pod.Releases = []QuotaAmount{{p.Nodes[pod.Node].Quota, cards}}
			pod.Takes = []TakeAmount{{queue, cards}, {3, cards}}
		}
	}

	return p
}
